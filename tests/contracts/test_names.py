"""Names: which are on top, in which room each is, and that no two classes of the package share one."""

import ast
import importlib
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import approxmcmc as amc
from tests.syntax import tree_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "approxmcmc"


def places_of_classes(sources):
    """Return the files, of a mapping from file to text, that define each class at their top level."""
    places = defaultdict(list)
    for file, text in sources.items():
        for node in tree_of(text).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file)
    return places


@pytest.fixture(scope="module")
def several():
    sources = {
        str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))
    }
    return {name: files for name, files in places_of_classes(sources).items() if len(files) > 1}


def test_a_class_name_has_one_meaning(several):
    assert several == {}


def test_a_second_class_of_a_name_is_seen():
    found = places_of_classes({"a.py": "class Clock:\n    pass\n", "b.py": "class Clock:\n    class Inner: ...\n"})
    assert found == {"Clock": ["a.py", "b.py"]}


VERBS = {  # from a model to its answer, and the pictures on the way
    "as_trace",
    "audit",
    "bias",
    "check_bound",
    "choose_sampler",
    "compare_samplers",
    "cost_summary",
    "debias",
    "diagnose",
    "explain",
    "from_pymc",
    "importance_sampling",
    "laplace",
    "latents",
    "load",
    "log_likelihood",
    "loo_subsample",
    "posterior_predictive",
    "predict",
    "predicted",
    "reference_posterior",
    "resume",
    "risk",
    "sample",
    "save",
    "stein_discrepancy",
    "update",
}
METHODS = {  # the textbook methods: a user who knows one types its name
    "AlwaysAccept",
    "ControlVariate",
    "Exchange",
    "ExactTest",
    "Firefly",
    "Gibbs",
    "Hamiltonian",
    "Langevin",
    "MetropolisHastings",
    "MinibatchBarker",
    "NUTS",
    "PoissonTest",
    "RandomWalk",
    "SequentialTTest",
    "StochasticGradientLangevin",
    "SurrogateTransition",
}


def test_on_top_are_verbs_regressions_and_one_class_for_each_textbook_method():
    """See the head of docs/api.rst."""
    regressions = {name for name in amc.targets.__all__ if name.endswith("Regression")}
    plots = {name for name in amc.plots.__all__ if name.startswith("plot_")} & set(amc._NAMES)
    assert set(amc._NAMES) == VERBS | plots | METHODS | regressions | {"FunctionTarget", "Study", "Target"}
    assert len(regressions) > 10 and plots
    for name in amc._NAMES:
        assert isinstance(getattr(amc, name), type) is name[0].isupper()


def test_a_name_on_top_is_that_of_its_room():
    files = {
        "approxmcmc.api",
        "approxmcmc.auditing",
        "approxmcmc.importance",
        "approxmcmc.interop.pymc",
        "approxmcmc.leave_one_out",
        "approxmcmc.prediction",
        "approxmcmc.resuming",
        "approxmcmc.updating",
    }
    for name, home in amc._NAMES.items():
        assert home in files or name in importlib.import_module(home).__all__


def test_a_public_name_has_one_room():
    """But for a class that a second room returns or takes, under the same name."""
    places = defaultdict(set)
    for room in amc._ROOMS:
        for name in getattr(getattr(amc, room), "__all__", ()):
            places[name].add(id(getattr(getattr(amc, room), name)))
    assert [name for name, objects in places.items() if len(objects) > 1] == []


def test_a_name_that_is_in_a_room_is_found():
    with pytest.raises(AttributeError, match=r"it is approxmcmc\.acceptance\.BernsteinTest"):
        _ = amc.BernsteinTest
    with pytest.raises(AttributeError, match="public names: AlwaysAccept, BetaRegression, "):
        _ = amc.BernsteinTests


def test_the_names_of_a_room_are_read_without_importing_it():
    """`hasattr` asks for unknown names, too: importing all rooms takes 4 s, among them PyMC and the bounds."""
    for room in amc._ROOMS:
        assert amc._exported(room) == list(getattr(getattr(amc, room), "__all__", []))
    asked = "import sys, approxmcmc; assert not hasattr(approxmcmc, 'misspelt'); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert [name for name in process.stdout.split() if name.startswith("approxmcmc.") or name == "numpy"] == []


def test_type_checkers_see_every_name_of_the_top_level():
    """`__init__.pyi` holds the names of `__init__.py`, each from the same module."""
    homes = {
        alias.asname: node.module if alias.asname not in amc._ROOMS else "approxmcmc"
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == amc._NAMES | dict.fromkeys(amc._ROOMS, "approxmcmc")


def test_every_target_is_a_target():
    assert issubclass(amc.targets.LogisticRegression, amc.Target)
    assert issubclass(amc.FunctionTarget, amc.Target)
