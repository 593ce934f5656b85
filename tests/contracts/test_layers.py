"""The session `tests`, which runs one check of each thing, uses every public name, and each sampler against a truth.

The check reads the source of the tests: a name of the package counts if a test of the session uses it, or a helper,
fixture or table of the same file that this test uses.
"""

import ast
import functools
import types
from pathlib import Path

import pytest

import approxmcmc as amc
from approxmcmc import acceptance, diagnostics, plots, proposals, samplers, surrogate, targets
from approxmcmc.contracts import AcceptanceTest, Proposal, Sampler

ROOT = Path(__file__).parents[2]
ROOMS = (acceptance, diagnostics, plots, proposals, samplers, surrogate, targets)
LEFT_OUT = {"thorough", "statistical", "bench", "faults"}  # marks of tests that the session leaves to others
# Oracles with a compiled chain in the session: Metropolis-Hastings, gradients, sites, bright rows, auxiliary data,
# levels of a slice, counts of rows, and events.
KERNELS = ("textbook", "langevin", "gibbs", "firefly", "exchange_textbook", "slice", "exact_subsampling", "pdmp")
COMPILED = "core"  # a test that needs the compiler is in the session if it has this mark
ORACLES = {  # members whose textbook step or choice is a unit test
    "CheapestExactTest": "tests/unit/acceptance/test_exact_subsampling.py",
    "StochasticGradientFisherScoring": "tests/unit/proposals/test_fisher_scoring.py",
}


def setting(name):
    """Return a constant of the noxfile."""
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"noxfile.py no longer assigns {name}")


def imported(module):
    """Return what the names mean that a file imports from the package: name in the file -> name in the package."""
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "approxmcmc":
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname and "approxmcmc" in alias.name}
    return found


def chain_of(attribute):
    """Return the names of `a.b.c` in this order, or none if it starts with no name, as `f().b` does."""
    names = []
    while isinstance(attribute, ast.Attribute):
        names.append(attribute.attr)
        attribute = attribute.value
    return (attribute.id, *reversed(names)) if isinstance(attribute, ast.Name) else ()


@functools.cache
def words_and_chains(node):
    """Return the names and arguments below a node, and its chains of attributes; each node is walked once."""
    found = set()
    chains = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            found.add(child.id)
        elif isinstance(child, ast.arg):
            found.add(child.arg)
        elif isinstance(child, ast.Attribute):
            chains.add(chain_of(child))
    return frozenset(found), chains - {()}


def words(node):
    """Return the names and arguments below a node; an argument of a test may be a fixture."""
    return words_and_chains(node)[0]


def package_names(node, meaning):
    """Return what a node uses of the package: imported names, and attributes of imported names, as in `amc.risk`."""
    found, chains = words_and_chains(node)
    attributes = {name for root, *names in chains if root in meaning for name in names}
    return {meaning[word] for word in found if word in meaning} | attributes


def marks(nodes):
    """Return the names of the marks of pytest in decorators, or in the value of `pytestmark`."""
    return {
        child.attr
        for node in nodes
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute) and ast.unparse(child.value) == "pytest.mark"
    }


def own_marks(decorators):
    """Return the marks of a whole function or class: those inside `parametrize` are marks of single cases."""
    return {name for node in decorators if "parametrize" not in ast.unparse(node) for name in marks([node])}


def is_plain(mine, of_cases):
    """Return whether the session runs a test with these marks, and these of single cases, without compilation."""
    return not mine & (LEFT_OUT | {"needs_jit"})


def is_core(mine, of_cases):
    """Return whether the session runs such a test compiled."""
    return not mine & LEFT_OUT and COMPILED in mine | of_cases


def of_tests(body, outer, is_run):
    """Yield those tests in a body with the marks `outer` that the session runs, also those in classes."""
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        mine = outer | own_marks(node.decorator_list)
        if isinstance(node, ast.ClassDef):
            yield from of_tests(node.body, mine, is_run)
        elif node.name.startswith("test_") and is_run(mine, marks(node.decorator_list)):
            yield node


def definitions(module):
    """Return the top-level statement of each name that a file defines by itself."""
    found = {}
    for node in module.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {word: node for target in assigned for word in words(target)}
    return found


def reached(nodes, defined):
    """Return some nodes and all definitions of their file that they use, directly or by others."""
    seen = set()
    waiting = set(nodes)
    while waiting:
        node = waiting.pop()
        seen.add(node)
        waiting |= {defined[word] for word in words(node) if word in defined} - seen
    return seen


def names_in(source, is_run):
    """Return what those tests of a file use of the package that the session runs."""
    module = ast.parse(source)
    defined, meaning = definitions(module), imported(module)
    whole = marks([defined["pytestmark"]]) if "pytestmark" in defined else set()
    run = of_tests(module.body, whole, is_run)
    return {name for node in reached(run, defined) for name in package_names(node, meaning)}


def names_of(place):
    """Return what the tests of a folder or file use of the package that the session runs."""
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    kinds = [kind for kind, setting_of in KINDS.items() if place in setting(setting_of)]
    return {name for kind in kinds for text in texts for name in names_in(text, kind)}


KINDS = {is_plain: "SHORT_PLAIN", is_core: "SHORT_COMPILED"}  # the two halves of the session: folders, and files


@pytest.fixture(scope="module")
def used():
    """Return for each folder and file of the session what its tests use."""
    return {place: names_of(place) for place in {*setting("SHORT_PLAIN"), *setting("SHORT_COMPILED")}}


def public_names():
    """Return the names of the package and of the rooms with components, results and plots, without those of rooms."""
    found = [(name, getattr(room, name)) for room in (amc, *ROOMS) for name in room.__all__]
    return {name for name, each in found if not isinstance(each, types.ModuleType) and not name.startswith("_")}


def members(role):
    """Return the names of the classes that play a role."""
    found = [(name, getattr(room, name)) for room in ROOMS for name in room.__all__]
    return {name for name, each in found if isinstance(each, type) and issubclass(each, role)}


def test_every_public_name_is_used(used):
    assert public_names() - set().union(*used.values()) == set()


@pytest.mark.parametrize("role", [AcceptanceTest, Proposal, Sampler])
def test_every_member_of_a_role_is_held_to_an_enumerated_truth(used, role):
    in_oracles = set().union(*(names for place, names in used.items() if place.startswith("tests/oracle")))
    assert members(role) - in_oracles == members(role) & set(ORACLES)


@pytest.mark.parametrize(("member", "file"), ORACLES.items())
def test_an_oracle_among_the_unit_tests_is_in_the_session(member, file):
    assert member in names_in((ROOT / file).read_text(encoding="utf-8"), is_plain)


def test_the_files_with_core_tests_are_those_that_run_compiled():
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if f"mark.{COMPILED}" in file.read_text("utf-8")]
    marked = {file.relative_to(ROOT).as_posix() for file in files if file != Path(__file__)}
    assert marked == set(setting("SHORT_COMPILED"))


def test_every_family_is_held_to_its_density():
    source = (ROOT / "tests" / "contracts" / "test_families.py").read_text(encoding="utf-8")
    assert "FAMILIES" in names_in(source, is_plain)


def test_the_layer_has_compiled_chains():
    files = [ROOT / "tests" / "oracle" / f"test_{name}.py" for name in KERNELS]
    assert [file.name for file in files if f"pytest.mark.{COMPILED}" not in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("mark", "plain", "core"),
    [
        ("", True, False),
        ("@pytest.mark.slow", True, False),
        ("@pytest.mark.thorough", False, False),
        ("@pytest.mark.core\n@pytest.mark.thorough", False, False),
        ("@pytest.mark.needs_jit", False, False),
        ("@pytest.mark.needs_jit\n@pytest.mark.core", False, True),
        ("@pytest.mark.parametrize('k', [1, pytest.param(2, marks=pytest.mark.thorough)])", True, False),
        ("@pytest.mark.parametrize('k', [1, pytest.param(2, marks=pytest.mark.core)])", True, True),
    ],
)
def test_a_name_counts_where_a_test_of_the_session_uses_it(mark, plain, core):
    before = "import approxmcmc as amc\nTABLE = [amc.samplers.ZigZag()]\ndef helper():\n    return TABLE\n"
    source = f"{before}{mark}\ndef test_it(Gibbs):\n    helper().risk, amc.sample().bias\n"
    for is_run, counts in ((is_plain, plain), (is_core, core)):
        assert ("ZigZag" in names_in(source, is_run)) == counts
        assert not {"risk", "bias", "Gibbs"} & names_in(source, is_run)
        assert names_in(f"{source}\npytestmark = pytest.mark.thorough\n", is_run) == set()
