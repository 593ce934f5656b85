"""Kernels of PyMC models on disk: named by graph, model and versions, and read back as they were written."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import toposort

from approxmcmc.interop import graph_likelihood, model_hash, prior as prior_module
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.graphs import by_numpy, work_of_a_row
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import find_predictors
from approxmcmc.interop.prior import graph_prior

rng = np.random.default_rng(5)
X, COUNTS = rng.normal(size=(30, 2)), rng.poisson(2.0, size=30)


def source_of(*, counts=COUNTS, scale=1.0):
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0.0, 1.0, shape=2), pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(scale * (X @ beta)), alpha=alpha, observed=counts)
    return ModelOfPyMC(model, None)


def likelihood(**changes):
    source = source_of(**changes)
    return GraphLikelihood(find_predictors(source), source.rows.inputs, source.rows.data, source.hash)


def name_of(one, method="terms"):
    """Return what names a batch function of a likelihood; nothing is compiled."""
    return one.content(method)


@pytest.mark.thorough
def test_equal_models_have_one_name_and_others_another(monkeypatch):
    name = name_of(likelihood())
    assert name == name_of(likelihood())
    others = {name_of(likelihood(scale=2.0)), name_of(likelihood(counts=COUNTS + 1)), name_of(likelihood(), "slopes")}
    assert len({name, *others}) == 4
    monkeypatch.setattr(model_hash, "source_version", lambda: "another")
    assert name_of(likelihood()) != name


@pytest.mark.thorough
def test_a_model_without_a_hash_has_no_name():
    one = likelihood()
    one._identity = f"{model_hash.UNREADABLE} 1"
    assert name_of(one) is None


def refuse(*arguments):
    raise AssertionError("PyTensor was asked to compile")


@pytest.mark.needs_jit
def test_where_the_disk_has_a_kernel_pytensor_compiles_nothing(tmp_path, monkeypatch):
    """Values are those of the first time, bit by bit."""
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    found, theta = [], np.array([0.3, -0.2, 0.1])
    for hits in (0, 1):
        one, prior = likelihood(), graph_prior(source_of())
        kernel = one.compile("terms", one.columns)
        assert sum(kernel.stats.cache_hits.values()) == hits
        out, slope = np.empty(30), np.zeros(3)
        kernel(np.full((2, 30), 0.3), one.columns, np.arange(30), 0, 30, out)
        prior.compile_gradient(theta, [])(theta, slope)
        found.append([*out, *slope, prior.compile(3)(theta)])
        for module in (graph_likelihood, prior_module):
            monkeypatch.setattr(module, "numba_function", refuse)
    np.testing.assert_array_equal(*found)


def test_graphs_that_factor_matrices_say_that_they_compile_slowly():
    root, y = pt.matrix("root"), pt.matrix("y")
    plain, factors = (y @ root).sum(axis=1), pt.linalg.solve_triangular(root, y.T, lower=True).sum(axis=0)
    assert [work_of_a_row(graph, 30).code for graph in (plain, factors)] == ["graph", "matrices"]


def test_softplus_by_numpy_is_softplus_and_no_python_is_called_for_each_row():
    x = pt.vector("x")
    graph = pt.exp(-pt.softplus(2.0 * pt.softplus(x)))  # one within another
    ours = by_numpy(graph)
    assert not any("softplus" in str(node.op).lower() for node in toposort([ours]))
    places = np.array([-800.0, -40.0, -1e-9, 0.0, 1e-9, 0.7, 40.0, 300.0])
    inner = 2.0 * np.logaddexp(0.0, places)
    found = pytensor.function([x], ours, mode="FAST_COMPILE")(places)
    np.testing.assert_allclose(found, np.exp(-np.logaddexp(0.0, inner)), rtol=1e-13)
