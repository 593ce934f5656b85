"""What the compiled run leaves out is run somewhere else."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "recompiles"
# Races need the compiler; pull requests run a race of few.
RACES = {f"tests/studies/test_race{name}.py" for name in ("", "_answer", "_regret")}
STATISTICAL_ALONE = {"tests/studies/test_noisy_family.py", "tests/oracle/test_known_laws.py", *RACES}


def plain_paths() -> list[str]:
    """Return what the session `tests-all` runs without compilation."""
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PLAIN":
            return ast.literal_eval(node.value)
    raise AssertionError("noxfile.py no longer assigns PLAIN")


def test_tests_that_recompile_run_without_compilation():
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "tests").rglob("test_*.py")}
    marked = {name for name, path in files.items() if "pytest.mark." + MARK in path.read_text(encoding="utf-8")}
    paths = [path.partition("::")[0] for path in plain_paths()]
    assert all((ROOT / path).exists() for path in paths)
    left_out = {name for name in marked if not any(name.startswith(path) for path in paths)}
    assert left_out == STATISTICAL_ALONE
