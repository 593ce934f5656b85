"""The plot of biases holds the numbers that it was given, on every backend that is installed."""

import importlib.util

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.errors import InvalidInputError

PACKAGES = {"none": "arviz_plots", "matplotlib": "matplotlib", "bokeh": "bokeh", "plotly": "plotly"}
BACKENDS = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def biases(rng):
    """A result of `bias` for eight estimands; the last has the same value in all draws."""
    labels = [*(f"beta[x{k}]" for k in range(7)), "constant"]
    sd = np.append(np.linspace(0.5, 2.0, 7), 0.0)
    steps = np.array([0, 1, 2, 4, 8, 16])
    bias = np.append(sd[:7] * np.array([0.1, -0.3, 0.02, 0.2, 0.05, -0.07, 0.01]), 0.0)
    drift = bias[:, None] * (1.0 - np.exp(-steps / 3.0))
    named = {}
    for name, values in {"bias": bias, "drift": drift}.items():
        dims = ("estimand", "step")[: values.ndim]
        width = 0.02 * np.ones_like(values)
        named |= {
            name: (dims, values),
            f"{name}_lower": (dims, values - width),
            f"{name}_upper": (dims, values + width),
        }
    return xr.Dataset({**named, "posterior_sd": ("estimand", sd)}, {"estimand": labels, "step": steps})


@pytest.mark.needs_jit
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_draws_on_every_backend(biases, backend):
    collection = amc.plot_bias(biases, backend=backend)
    assert set(collection.viz["plot"].data_vars) == {"drift", "bias"}
    assert dict(collection.viz["line"]["drift"].sizes) == {"estimand": 5}
    assert collection.viz["point"]["bias"].item() is not None


def test_all_is_in_posterior_sds_and_the_most_biased_drift(biases):
    collection = amc.plot_bias(biases, backend="none")
    lines = collection.viz["line"]["drift"]
    assert lines["estimand"].values.tolist() == [f"beta[x{k}]" for k in (1, 3, 0, 5, 4)]
    line = lines.sel(estimand="beta[x1]").item()
    np.testing.assert_allclose(line["x"], [1, 2, 4, 8, 16])
    np.testing.assert_allclose(line["y"], -0.3 * (1.0 - np.exp(-line["x"] / 3.0)))
    points, bars = collection.viz["point"]["bias"].item(), collection.viz["interval"]["bias"].item()
    np.testing.assert_allclose(points["y"], [0.1, -0.3, 0.02, 0.2, 0.05, -0.07, 0.01])
    np.testing.assert_allclose(bars["y_top"] - bars["y_bottom"], 0.04 / np.linspace(0.5, 2.0, 7))


def test_the_caller_chooses(biases):
    wanted = ["beta[x2]", "beta[x0]"]
    collection = amc.plot_bias(biases, coords={"estimand": wanted}, backend="none", visuals={"band": False})
    assert collection.viz["line"]["drift"]["estimand"].values.tolist() == wanted and "band" not in collection.viz
    np.testing.assert_allclose(collection.viz["point"]["bias"].item()["y"], [0.02, 0.1])
    assert set(amc.plot_bias(biases, var_names="bias", backend="none").viz["plot"].data_vars) == {"bias"}
    assert set(amc.plot_bias(biases, var_names="drift", backend="none").viz["plot"].data_vars) == {"drift"}


def test_refusals(biases):
    with pytest.raises(InvalidInputError, match="a result of bias"):
        amc.plot_bias(biases.drop_vars("drift"))
    with pytest.raises(InvalidInputError, match="found \\['gamma'\\]"):
        amc.plot_bias(biases, coords={"estimand": "gamma"})
