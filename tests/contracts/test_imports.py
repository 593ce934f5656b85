"""The house of the library: which room may import which, and how fast the front door opens."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "approxmcmc"

# A room imports from the entries before its own. Rooms of one entry never import each other.
ORDER = (
    {"contracts", "errors"},
    {"engine"},
    {"targets", "proposals", "acceptance", "datasets"},
    {"interop", "samplers"},
    {"sampling"},
    {"output"},
    {"reference", "diagnostics"},
    {"design", "plots"},
    {"bounds"},
    {"api"},
    {"study"},
    {"cli", "__init__", "__main__"},
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
EVERY_ROOM = {"api", "cli", "__init__", "__main__"}  # these may import all of it
UNKNOWN_TO = {  # what a room must not know although it comes before
    "sampling": {"targets", "proposals", "acceptance", "samplers", "interop"},
    "diagnostics": {"targets", "proposals", "samplers", "interop", "sampling"},
}
HEAVY = {"numba", "scipy", "arviz", "pymc", "xarray", "matplotlib", "dask", "distributed", "rich", "pandas", "sklearn"}


def imported_rooms(source: str) -> set[str]:
    """Return the rooms that a file imports, at its top or inside a function; a public name counts as ``__init__``."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE.name:
            modules |= {f"{PACKAGE.name}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    ours = [module.split(".") for module in modules if module.split(".")[0] == PACKAGE.name]
    return {parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__" for parts in ours}


def offending_edges(room: str, source: str) -> list[str]:
    """Return the imports of a file that its room may not make."""
    if room in EVERY_ROOM:
        return []
    others = imported_rooms(source) - {room}
    bad = {other for other in others if RANK[other] >= RANK[room]} | others & UNKNOWN_TO.get(room, set())
    return [f"{room} -> {other}" for other in sorted(bad)]


def test_every_room_has_its_place():
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert rooms <= RANK.keys()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_its_left(path):
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert offending_edges(room, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("room", "source", "edges"),
    [
        ("targets", "from approxmcmc.proposals.random_walk import RandomWalk", ["targets -> proposals"]),
        ("targets", "def f():\n    import approxmcmc.study.plan", ["targets -> study"]),
        ("contracts", "from approxmcmc.errors import StudyError", ["contracts -> errors"]),
        ("diagnostics", "from approxmcmc import samplers", ["diagnostics -> samplers"]),
        ("sampling", "from approxmcmc.targets.glm import GLMTarget", ["sampling -> targets"]),
        ("study", "from approxmcmc import sample", ["study -> __init__"]),
        ("study", "import approxmcmc as amc", ["study -> __init__"]),
        ("samplers", "from approxmcmc.acceptance.exact import ExactTest\nimport numpy", []),
        ("cli", "from approxmcmc import study", []),
    ],
)
def test_planted_edges_are_found(room, source, edges):
    assert offending_edges(room, source) == edges


def import_in_new_process() -> tuple[float, set[str]]:
    """Return the seconds that the import takes, and the top-level names of all modules that it loads."""
    code = (
        "import json, sys, time; start = time.perf_counter(); import approxmcmc; stop = time.perf_counter();"
        "print(json.dumps([stop - start, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, modules = json.loads(output)
    return seconds, set(modules)


def test_importing_the_package_loads_no_heavy_library():
    assert import_in_new_process()[1] & HEAVY == set()


def test_importing_the_package_is_quick():
    # Load on the machine only adds to a time, so the least of several is the one to judge.
    assert min(import_in_new_process()[0] for _ in range(7)) < 0.3
