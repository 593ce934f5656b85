"""The top folder holds what the project needs there, and no leavings of a test."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {".ci", ".github", "approxmcmc", "conda", "docs", "studies", "tests"}
FILES = {
    ".gitignore",
    ".pre-commit-config.yaml",
    ".readthedocs.yaml",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "RELEASING.md",
    "SECURITY.md",
    "hatch_build.py",
    "noxfile.py",
    "pyproject.toml",
    "uv.lock",
}


def test_nothing_else_is_tracked_at_the_top():
    listed = subprocess.run(["git", "ls-files"], check=False, cwd=ROOT, capture_output=True, text=True)
    paths = listed.stdout.splitlines() if listed.returncode == 0 else [path.name for path in ROOT.iterdir()]
    top = {path.split("/")[0] for path in paths}
    assert top >= FOLDERS | FILES
    assert listed.returncode != 0 or top == FOLDERS | FILES


def test_unit_tests_lie_in_the_rooms_of_what_they_test():
    rooms = {path.name for path in (ROOT / "approxmcmc").iterdir() if path.is_dir()}
    folders = {path.parent.name for path in (ROOT / "tests" / "unit").rglob("test_*.py")}
    assert folders <= rooms | {"unit"}
