"""Formulas of Bambi: traces with the variables of `fit`, which its `predict` reads."""

import bambi
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.errors import InvalidInputError
from approxmcmc.interop.any_model import as_target, in_terms_of, without_formula
from approxmcmc.output.reading import flat_draws
from tests.models import logistic

# pandas 3 warns of how Bambi's formulas select columns of text
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility:DeprecationWarning")
N = 40


@pytest.fixture
def model(rng):
    frame = pd.DataFrame(
        {
            "y": np.arange(N) % 3 == 0,
            "x": rng.normal(loc=5.0, size=N),
            "kind": np.array(["a", "b"])[np.arange(N) % 2],
            "site": np.array(["u", "v", "w", "z"])[np.arange(N) % 4],
        }
    )
    return bambi.Model("y ~ x + kind + (1|site)", frame.astype({"y": int}), family="bernoulli")


@pytest.fixture
def trace(model, rng):
    """Return a trace of the PyMC model as `sample` completes it: with effects, the intercept of centred predictors."""
    inner = without_formula(model)
    sizes = {"Intercept": (), "x": (), "kind": (1,), "1|site_sigma": (), "1|site_offset": (4,)}
    axes = {"kind": ["kind_dim"], "1|site_offset": ["site__factor_dim"], "1|site": ["site__factor_dim"]}
    assert {variable.name for variable in inner.free_RVs} == set(sizes)
    draws = {name: np.abs(rng.normal(size=(2, 5, *shape))) for name, shape in sizes.items()}
    draws["1|site"] = draws["1|site_sigma"][..., None] * draws["1|site_offset"]
    posterior = xr.Dataset(
        {name: (("chain", "draw", *axes.get(name, ())), values) for name, values in draws.items()},
        {axis: list(inner.coords[axis]) for axis in ("kind_dim", "site__factor_dim")}
        | {"chain": [0, 1], "draw": np.arange(5)},
        {"seed": 3},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.mark.needs_jit
def test_a_trace_gets_the_effects_and_the_intercept_of_the_predictors_as_given(model, trace):
    before = trace["posterior"].to_dataset()
    found = in_terms_of(model, trace)["posterior"]
    np.testing.assert_allclose(found["1|site"], before["1|site_sigma"] * before["1|site_offset"])
    X = np.column_stack([model.data["x"], model.data["kind"] == "b"])
    slopes = np.concatenate([before["x"].values[..., None], before["kind"].values], axis=-1)
    np.testing.assert_allclose(found["Intercept"], before["Intercept"].values - slopes @ X.mean(0))
    assert "1|site_offset" not in found
    assert found.attrs["seed"] == 3
    predicted = model.predict(tree_of(found), inplace=False)["posterior"]["p"]
    eta = found["Intercept"].values[..., None] + slopes @ X.T + found["1|site"].values[..., np.arange(N) % 4]
    np.testing.assert_allclose(predicted, 1.0 / (1.0 + np.exp(-eta)))


def tree_of(posterior):
    """Return a tree with this posterior alone, as a plot or `predict` takes it."""
    return xr.DataTree.from_dict({"posterior": posterior.to_dataset()})


def test_what_evaluates_the_target_refuses_such_a_trace(model, trace):
    with pytest.raises(InvalidInputError, match="those of a Bambi formula"):
        flat_draws(in_terms_of(model, trace), logistic(60, 2))
    with pytest.raises(InvalidInputError, match=r"formula\.compute_log_likelihood"):
        amc.log_likelihood(in_terms_of(model, trace), model)


@pytest.mark.thorough
def test_a_formula_is_explained_and_read_as_its_model(model):
    assert amc.explain(model) == amc.explain(without_formula(model))
    assert repr(amc.from_pymc(model)) == repr(amc.from_pymc(without_formula(model)))


def test_other_models_and_their_traces_are_left_as_they_are(trace):
    assert in_terms_of(object(), trace) is trace
    assert as_target(3) == 3
