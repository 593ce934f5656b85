"""The house of the library: which room may import which, no circles of files, and how fast the front door opens."""

import ast
import functools
import graphlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from approxmcmc.engine.compiler.code_version import ROOMS_THAT_DRAW
from studies.evidence.closure import import_graph, imports_of, sources_of
from tests.syntax import nodes_of

PACKAGE = Path(__file__).parents[2] / "approxmcmc"

# A room imports from the entries before its own. Rooms of one entry never import each other.
ORDER = (
    {"errors"},
    {"contracts"},
    {"engine"},
    {"sources", "sampling", "families"},
    {"expansion"},
    {"numerics"},
    {"targets", "proposals", "acceptance"},
    {"surrogate", "audits"},
    {"interop", "samplers", "datasets"},
    {"output"},
    {"whole_chains", "checkpoints"},
    {"reference", "diagnostics"},
    {"design", "plots"},
    {"couplings"},
    {"bounds"},
    {"runs"},
    {"further_runs"},
    {"api"},
    {"auditing", "importance", "leave_one_out", "prediction", "resuming", "updating"},
    {"study"},
    {"cli", "__init__", "__main__"},
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
EVERY_ROOM = {"api", "cli", "__init__", "__main__"}  # these may import all of it
UNKNOWN_TO = {  # what a room must not know although it comes before
    "diagnostics": {"targets", "proposals", "surrogate", "samplers", "interop", "sampling"},
}
HEAVY = {
    "numba",
    "scipy",
    "arviz",
    "pymc",
    "xarray",
    "matplotlib",
    "dask",
    "distributed",
    "rich",
    "pandas",
    "sklearn",
    "pyarrow",
    "zarr",
}


@functools.cache
def imported_rooms(source: str) -> frozenset[str]:
    """Return the rooms that a file imports, at its top or inside a function; a public name counts as ``__init__``."""
    modules = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE.name:
            modules |= {f"{PACKAGE.name}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    ours = [module.split(".") for module in modules if module.split(".")[0] == PACKAGE.name]
    return frozenset(parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__" for parts in ours)


def offending_edges(room: str, source: str) -> list[str]:
    """Return the imports of a file that its room may not make."""
    if room in EVERY_ROOM:
        return []
    others = imported_rooms(source) - {room}
    bad = {other for other in others if RANK[other] >= RANK[room]} | others & UNKNOWN_TO.get(room, set())
    return [f"{room} -> {other}" for other in sorted(bad)]


ONLY_DESCRIBE = {"audits", "diagnostics", "errors", "output"}  # rooms that change no draw


def test_what_a_room_that_draws_imports_is_part_of_the_version_of_draws():
    """Else a change of it would leave the version, and results of the old code would be taken for those of the new."""
    for room in ROOMS_THAT_DRAW:
        for path in (PACKAGE / room).rglob("*.py"):
            imported = imported_rooms(path.read_text(encoding="utf-8"))
            assert imported <= {*ROOMS_THAT_DRAW, *ONLY_DESCRIBE}, path


def test_every_room_has_its_place():
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert rooms <= RANK.keys()


def test_a_room_imports_only_from_its_left():
    edges = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE)
        edges[file.as_posix()] = offending_edges(file.with_suffix("").parts[0], path.read_text(encoding="utf-8"))
    assert {file: found for file, found in edges.items() if found} == {}


FOLDERS_OF_THE_ENGINE = ("files", "compiler", "terms")  # each may import those before it


def test_folders_of_the_engine_import_only_those_before_them():
    found = {
        (folder, other)
        for rank, folder in enumerate(FOLDERS_OF_THE_ENGINE)
        for path in (PACKAGE / "engine" / folder).glob("*.py")
        for module, _ in imports_of(path.read_text(encoding="utf-8"))
        for other in FOLDERS_OF_THE_ENGINE[rank + 1 :]
        if module.startswith(f"{PACKAGE.name}.engine.{other}")
    }
    assert found == set()


@pytest.mark.parametrize(
    ("room", "source", "edges"),
    [
        ("targets", "from approxmcmc.proposals.random_walk import RandomWalk", ["targets -> proposals"]),
        ("targets", "def f():\n    import approxmcmc.study.plan", ["targets -> study"]),
        ("errors", "from approxmcmc.contracts import Target", ["errors -> contracts"]),
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


# --- no circle of files ---


def circle(sources: Mapping[str, str]) -> list[str]:
    """Return modules that import each other in a circle, the first also as the last; an empty list for none."""
    try:
        graphlib.TopologicalSorter(import_graph(sources)).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]  # from importing to imported
    return []


def sources_of_the_package() -> dict[str, str]:
    """Return the text of every file by the name under which it is imported."""
    return sources_of(PACKAGE.parent, [PACKAGE.name])


def test_no_files_import_each_other_in_a_circle():
    assert circle(sources_of_the_package()) == []


LAZY = "def f():\n    from p.b import g\n"


@pytest.mark.parametrize(
    ("sources", "length"),
    [
        ({"p.a": "import p.b", "p.b": "from p.a import f"}, 2),
        ({"p.a": LAZY, "p.b": "import numpy\nfrom p.c import g", "p.c": "from p import a"}, 3),
        ({"p.a": LAZY, "p.b": "class B:\n    def g(self):\n        from p.a import f"}, 2),
        ({"p": "from p.a import f\nfrom p.b import g", "p.a": "from p import g", "p.b": "from p import f"}, 2),
        ({"p": "from p.a import f", "p.a": "import p"}, 2),
        ({"p": "import p.a", "p.a": "import p"}, 2),
        ({"p": "from p.a import f\nfrom p.b import g", "p.a": "from p import g", "p.b": ""}, 0),
        ({"p.a": LAZY, "p.b": "if TYPE_CHECKING:\n    from p.a import f"}, 0),
        ({"p.a": LAZY, "p.b": "if TYPE_CHECKING:\n    import q\nelse:\n    from p.a import f"}, 2),
        ({"p.a": LAZY, "p.b": "import numpy"}, 0),
    ],
)
def test_planted_circles_are_found(sources, length):
    found = circle(sources)
    assert len(found) == (length + 1 if length else 0)
    assert found[:1] == found[-1:]


@pytest.mark.thorough
def test_a_circle_planted_in_the_package_is_found():
    sources = sources_of_the_package()
    sources["approxmcmc.study.declare"] += "\ndef run(study):\n    from approxmcmc.study.run import run_study\n"
    assert {"approxmcmc.study.declare", "approxmcmc.study.run"} <= set(circle(sources))


# --- the front door ---


def import_in_new_process() -> tuple[float, set[str]]:
    """Return the processor seconds that the import takes, and the top-level names of all modules that it loads."""
    code = (
        "import json, sys, time; start = time.process_time(); import approxmcmc; stop = time.process_time();"
        "print(json.dumps([stop - start, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seconds, modules = json.loads(output)
    return seconds, set(modules)


def test_importing_the_package_loads_no_heavy_library():
    assert import_in_new_process()[1] & HEAVY == set()


def test_importing_the_package_is_quick():
    # Load adds to processor seconds too, if less than to the clock. The least of three is judged; .03 measured.
    assert min(import_in_new_process()[0] for _ in range(3)) < 0.2


# What a run with a linear model has no use for: .1 (rich) to .6 (arviz_stats) CPU seconds each. xarray loads dask.
UNUSED = {
    "arviz_stats", "scipy.stats", "scipy.optimize", "scipy.signal", "matplotlib", "rich", "netCDF4", "h5netcdf", "pymc",
    "pytensor", "jax._src", "numpyro.infer", "blackjax", "nutpie", "bokeh", "approxmcmc.plots",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Return the names of all modules that are loaded when a new process has run `code`, without compilation."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return set(json.loads(run.stdout))


@pytest.mark.thorough
def test_a_run_loads_no_library_that_it_does_not_use():
    """Where JAX is installed and numpyro is not, ArviZ's own lazy loader loads JAX: that alone is not counted."""
    code = """
import warnings
import numpy as np
import approxmcmc as amc
warnings.simplefilter("ignore", amc.errors.SamplingWarning)
X = np.random.default_rng(1).normal(size=(40, 2))
target = amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int))
test = amc.MetropolisHastings(amc.RandomWalk(0.5), amc.ExactTest())
for how in ({"draws": 110}, {"target_ess": 50}):
    amc.sample(target, test, tune=10, chains=2, random_seed=1, **how)
amc.sample(target, draws=110, tune=10, random_seed=1)
amc.numerics.laplace(target)
"""
    of_arviz = modules_after("import arviz_base") & {"jax._src"}
    assert UNUSED & modules_after(code) - of_arviz == set()
