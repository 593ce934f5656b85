"""Kernels of PyMC models on disk: named by graph, model and versions, and read back as they were written."""

import numpy as np
import pymc as pm
import pytest

from approxmcmc.interop import graph_likelihood as module
from approxmcmc.interop.graph_likelihood import GraphLikelihood
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import find_predictors

rng = np.random.default_rng(5)
X, COUNTS = rng.normal(size=(30, 2)), rng.poisson(2.0, size=30)


def likelihood(*, counts=COUNTS, scale=1.0):
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0.0, 1.0, shape=2), pm.Exponential("alpha", 1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(scale * (X @ beta)), alpha=alpha, observed=counts)
    source = ModelOfPyMC(model, None)
    return GraphLikelihood(find_predictors(source), source.rows.inputs, source.rows.data, source.hash)


@pytest.fixture
def name_of(monkeypatch):
    """Return what names a batch function of a likelihood; nothing is compiled."""
    monkeypatch.setattr(module, "numba_function", lambda *args: None)
    monkeypatch.setattr(module, "closure", lambda *args: None)

    def name(one, method="terms"):
        getattr(one, method)()
        return one._contents[method]

    return name


def test_equal_models_have_one_name_and_others_another(name_of, monkeypatch):
    name = name_of(likelihood())
    assert name == name_of(likelihood())
    others = {name_of(likelihood(scale=2.0)), name_of(likelihood(counts=COUNTS + 1)), name_of(likelihood(), "slopes")}
    assert len({name, *others}) == 4
    monkeypatch.setattr(module, "source_version", lambda: "another")
    assert name_of(likelihood()) != name


def test_a_model_without_a_hash_has_no_name(name_of):
    one = likelihood()
    one._identity = f"{module.UNREADABLE} 1"
    assert name_of(one) is None


@pytest.mark.needs_jit
def test_a_kernel_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    found = []
    for hits in (0, 1):
        one = likelihood()
        kernel = one.compile("terms", one.columns)
        assert sum(kernel.stats.cache_hits.values()) == hits
        out = np.empty(30)
        kernel(np.full((2, 30), 0.3), one.columns, np.arange(30), 0, 30, out)
        found.append(out)
    np.testing.assert_array_equal(*found)
