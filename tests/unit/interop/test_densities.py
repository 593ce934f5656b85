"""What PyMC derives of a model once: the graphs are those of PyMC, and follow changes of the model."""

import gc
import weakref

import numpy as np
import pymc as pm
import pymc.model.core
import pytest
from pytensor.printing import debugprint

import approxmcmc as amc
from approxmcmc.interop.densities import initial_point, log_densities, log_density
from approxmcmc.interop.graphs import simplify


def model_of_scales():
    """Return a model with a transformed variable, a length that is data, and a potential."""
    with pm.Model(coords={"group": range(3)}) as model:
        s = pm.HalfNormal("s", 1.0)
        b = pm.Normal("b", 0.0, s, dims="group")
        pm.Potential("penalty", -0.1 * b.sum() ** 2)
        x = pm.Data("x", np.arange(8.0))
        pm.Poisson("y", pm.math.exp(b[0] * x), observed=np.arange(8))
    return model


def text(graphs):
    return debugprint(graphs, print_type=True, file="str")


@pytest.mark.thorough
def test_graphs_are_those_of_pymc():
    model = model_of_scales()
    assert text(log_density(model)) == text(model.logp())  # hashes of models are hashes of this text
    for jacobian in (True, False):
        found = log_densities(model, model.basic_RVs[::-1], jacobian=jacobian)
        assert text(found) == text(model.logp(vars=model.basic_RVs[::-1], sum=False, jacobian=jacobian))
    for name, value in model.initial_point().items():
        np.testing.assert_array_equal(initial_point(model)[name], value)


@pytest.mark.thorough
def test_pymc_derives_the_log_densities_once_for_a_target(monkeypatch):
    model = model_of_scales()
    derive = pymc.model.core.transformed_conditional_logp
    calls = []
    monkeypatch.setattr(
        pymc.model.core, "transformed_conditional_logp", lambda **given: calls.append(1) or derive(**given)
    )
    amc.from_pymc(model, integrate=False)
    assert len(calls) == 1


def test_a_changed_model_is_derived_again():
    model = model_of_scales()
    before = log_density(model)
    start = initial_point(model)
    assert log_density(model) is before
    model.set_initval(model["b"], np.full(3, 0.7))
    np.testing.assert_array_equal(initial_point(model)["b"], np.full(3, 0.7))
    np.testing.assert_array_equal(start["b"], np.zeros(3))
    with model:
        pm.Normal("more", 0.0, 1.0)
    assert log_density(model) is not before
    assert "more" in initial_point(model)


def test_an_initial_point_follows_the_length_of_a_dim():
    model = model_of_scales()
    assert initial_point(model)["b"].shape == (3,)
    model.set_dim("group", 5, coord_values=range(5))
    assert initial_point(model)["b"].shape == (5,)


@pytest.mark.thorough
def test_a_model_is_released_with_what_was_derived():
    model = model_of_scales()
    log_density(model)
    initial_point(model)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["s", "y"])
def test_simplifying_leaves_the_graphs_of_the_model_alone(name):
    model = model_of_scales()
    [graph] = log_densities(model, [model[name]])
    before = text(graph)
    assert text(simplify(graph)) != before
    assert text(graph) == before
