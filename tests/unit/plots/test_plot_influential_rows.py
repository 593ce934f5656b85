"""The plot of influential rows holds the spread of what an expansion leaves of each row, on every backend installed."""

import importlib.util

import arviz as az
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError
from tests.fakes import fake_trace

PACKAGES = {"none": "arviz_plots", "matplotlib": "matplotlib", "bokeh": "bokeh", "plotly": "plotly"}
BACKENDS = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
N = 60


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def target():
    """A logistic regression whose first three rows lie far out, and are always read."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 2))
    X[:3] *= 8.0
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int)
    plain = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
    return amc.ControlVariate(plain, always_read=[0, 1, 2], at=amc.laplace(plain))


@pytest.fixture
def trace(target, rng):
    law = target.laplace
    return fake_trace(law.mode + rng.normal(size=(2, 40, 2)) @ law.cholesky.T)


def terms(target, theta):
    eta = target.target.X @ theta
    return target.target.y * eta - np.logaddexp(0.0, eta)


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_draws_on_every_backend(target, trace, backend):
    collection = amc.plot_influential_rows(trace, target, backend=backend)
    points = collection.viz["rows"]["influential rows"]
    assert points["rows"].values.tolist() == ["influential", "light"]
    assert all(point.item() is not None for point in points)


def drawn(collection, kind):
    points = collection.viz["rows"]["influential rows"].sel(rows=kind).item()
    shown = np.isfinite(points["x"])
    return points["x"][shown], points["y"][shown]


def test_without_an_expansion_spreads_are_those_of_the_terms(target, trace):
    stratified = amc.ControlVariate(target.target, always_read=[0, 1, 2], at=target.pilot, order=0)
    collection = amc.plot_influential_rows(trace, stratified, backend="none", stats={"draws": 80})
    thetas = trace["posterior"]["beta"].values.reshape(-1, 2)
    spread = np.std([terms(target, theta) for theta in thetas], axis=0, ddof=1)
    for kind, expected in {"influential": spread[:3], "light": spread[3:]}.items():
        ranks, spreads = drawn(collection, kind)
        np.testing.assert_array_equal(ranks, np.arange(1, expected.size + 1))
        np.testing.assert_allclose(spreads, np.sort(expected)[::-1], rtol=1e-10)


def test_with_one_they_are_those_of_the_residuals(target, trace):
    """Of light rows what a test samples; of influential rows far more, which is why they are always read."""
    collection = amc.plot_influential_rows(trace, target, backend="none", stats={"draws": 80})
    compiled = target.compile()
    thetas = trace["posterior"]["beta"].values.reshape(-1, 2)
    residuals = [full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs) for theta in thetas]
    light = np.sort(np.std(residuals, axis=0, ddof=1))[::-1]
    np.testing.assert_allclose(
        drawn(collection, "light")[1], light, rtol=1e-8, atol=1e-14
    )  # differences of terms of order 1
    assert drawn(collection, "influential")[1].max() > 5.0 * light.max()


def test_it_combines_with_a_plot_of_arviz(target, trace):
    plots = [(az.plot_dist, {}), (amc.plot_influential_rows, {"target": target})]
    drawn = az.combine_plots(trace, plots, group="sample_stats", var_names="datapoints_touched", backend="none")
    assert "rows_plot_influential_rows_01" in drawn.viz


def test_refusals(target, trace):
    with pytest.raises(InvalidInputError, match="needs the ControlVariate of the trace"):
        amc.plot_influential_rows(trace, target.target)
    with pytest.raises(InvalidInputError, match="two draws or more; found 1"):
        amc.plot_influential_rows(trace.isel(chain=[0], draw=[0]), target)
