"""The page on traces names every attribute that a run may write; the names are read from the sources and from runs."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import approxmcmc as amc
from tests.syntax import nodes_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trace.md").read_text(encoding="utf-8")
# Parts of the package that write attributes into traces; other rooms describe tables and data sets of their own.
WRITERS = (
    "runs.py",
    "further_runs.py",
    "acceptance",
    "design",
    "interop",
    "proposals",
    "samplers",
    "sampling",
    "surrogate",
    "targets",
    "whole_chains",
)
NAMES = "attrs", "setup_attrs", "found"
OF_TABLES = {"price"}  # an attribute of the table of candidates
ROLES = "setup_", "tuning_", "adapted_"  # the page explains these together


def _attributes_in(source):
    """Return the constant keys of dicts that are assigned to, or returned by, what is called `attrs` or the like."""
    values = []
    for node in nodes_of(source):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(one, "attr", getattr(one, "id", "")) in NAMES for one in targets):
                values.append(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in NAMES:
            values += [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
        elif isinstance(node, ast.Call):
            values += [one.value for one in node.keywords if one.arg == "attrs"]
    dicts = [one for value in values for one in ast.walk(value) if isinstance(one, ast.Dict)]
    return {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)}


def _missing(names):
    return sorted(name for name in names if not name.startswith(ROLES) and not re.search(rf"`{re.escape(name)}`", PAGE))


def _written():
    places = [ROOT / "approxmcmc" / one for one in WRITERS]
    files = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return set.union(*(_attributes_in(path.read_text(encoding="utf-8")) for path in files))


def test_the_page_names_each_attribute_of_the_sources():
    written = _written() - OF_TABLES - {"proof"}  # the latter is a key of the attribute `modes`
    assert {"adaptation", "thinned_by", "starts_apart", "integrated", "chosen"} <= written
    assert _missing(written) == []


def test_an_attribute_that_the_page_lacks_is_found():
    source = "class T:\n    def found(self):\n        return {**a, **({'unheard': 1} if b else {})}\nattrs = {'of': 2}"
    assert _missing(_attributes_in(source)) == ["of", "unheard"]


@pytest.mark.recompiles
def test_the_page_names_each_attribute_of_a_run(rng):
    X = rng.normal(size=(60, 2))
    target = amc.LogisticRegression(X, X[:, 0] > rng.normal(size=60))
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.05, batch_size=20))
    with pytest.warns(amc.errors.SamplingWarning):
        trace = amc.sample(
            target, sampler, target_ess=1e6, draws=40, tune=10, chains=2, random_seed=1, progressbar=False
        )
    names = set(trace["posterior"].attrs) | set(trace["sample_stats"].attrs)
    of_arviz = {name for name in names if name.startswith(("inference_library", "creat", "sample_dims"))}
    assert np.isfinite(trace["posterior"].attrs["starts_apart"])
    assert _missing(names - of_arviz) == []
