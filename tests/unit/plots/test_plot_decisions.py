"""Plots of decisions hold what the trace recorded, on every backend, alone and combined with plots of ArviZ."""

import importlib.util

import arviz as az
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance.laws.recursion import sequential_test_error
from approxmcmc.errors import InvalidInputError
from tests.fakes import fake_trace

PACKAGES = {"none": "arviz_plots", "matplotlib": "matplotlib", "bokeh": "bokeh", "plotly": "plotly"}
BACKENDS = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
TEST = amc.SequentialTTest(epsilon=0.2, batch_size=20)
N_OBS = 200


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def trace(rng):
    """Return a trace of two chains whose decisions err as the theory of TEST says, every other one audited."""
    mu_std = np.abs(rng.normal(size=(2, 5000)))
    mu_std[:, 1::2] = np.nan
    audited = np.isfinite(mu_std)
    law = sequential_test_error(np.where(audited, mu_std, 0.0).ravel(), epsilon=0.2, batch_size=20, n_obs=N_OBS)
    wrong = audited & (rng.random(mu_std.shape) < law["error"].values.reshape(mu_std.shape))
    stats = {
        "datapoints_touched": rng.integers(20, N_OBS, size=mu_std.shape),
        "audited_mu_std": mu_std,
        "decisions_audited": audited.astype(np.int64),
        "wrong_decisions": wrong.astype(np.int64),
    }
    return fake_trace(rng.normal(size=mu_std.shape), stats=stats, n_obs=N_OBS)


def stat(trace, name):
    return trace["sample_stats"][name].values


@pytest.mark.needs_jit
@pytest.mark.parametrize("backend", BACKENDS)
def test_they_draw_on_every_backend(trace, backend):
    decisions = amc.plot_decisions(trace, backend=backend)
    assert dict(decisions.viz["draws"]["datapoints_touched"].sizes) == {"chain": 2}
    assert decisions.viz["wrong"]["datapoints_touched"].item() is not None
    calibration = amc.plot_calibration(trace, TEST, backend=backend)
    assert {"equal", "interval", "point"} <= set(calibration.viz.children)
    statistic = amc.plot_statistic(trace, TEST, backend=backend)
    assert dict(statistic.viz["band"]["t-statistic"].sizes) == {"decision": 3}
    assert statistic.viz["critical"]["t-statistic"].item() is not None


def test_every_wrong_decision_is_marked_where_it_was_made(trace):
    collection = amc.plot_decisions(trace, backend="none")
    marks = collection.viz["wrong"]["datapoints_touched"].item()
    chain, at = np.nonzero(stat(trace, "wrong_decisions"))
    np.testing.assert_array_equal(marks["x"], at)
    np.testing.assert_array_equal(marks["y"], stat(trace, "datapoints_touched")[chain, at])
    points = collection.viz["draws"]["datapoints_touched"].sel(chain=1).item()
    np.testing.assert_array_equal(points["x"], np.arange(0, 5000, 3))  # thinned to 2000 at most
    np.testing.assert_array_equal(points["y"], stat(trace, "datapoints_touched")[1, ::3])


def test_the_caller_chooses_records_chains_and_draws(trace):
    chosen = {"chain": 1, "draw": slice(10, 20)}
    names = ["decision_rounds", "datapoints_touched"]
    collection = amc.plot_decisions(trace, var_names=names, coords=chosen, backend="none", visuals={"wrong": False})
    assert set(collection.viz["draws"].data_vars) == set(names) and "wrong" not in collection.viz
    points = collection.viz["draws"]["datapoints_touched"].item()
    np.testing.assert_array_equal(points["x"], np.arange(10, 21))


def test_a_right_prediction_lies_on_the_diagonal_and_a_planted_one_does_not(trace, rng):
    """false_fail: 8 intervals at 1 - 1e-7 each, below 1e-6; a test with twice the error leaves them."""
    assert calibrated(amc.plot_calibration(trace, TEST, backend="none", stats={"confidence": 1 - 1e-7}))
    doubled = trace.copy(deep=True)
    records = doubled["sample_stats"]
    flips = (stat(trace, "decisions_audited") == 1) & (rng.random((2, 5000)) < 0.2)
    records["wrong_decisions"].values[flips] = 1
    assert not calibrated(amc.plot_calibration(doubled, TEST, backend="none", stats={"confidence": 1 - 1e-7}))


def calibrated(collection):
    bars = collection.viz["interval"]["wrong_decisions"].item()
    assert len(bars["x"]) == 8
    return bool(np.all((bars["y_bottom"] <= bars["x"]) & (bars["x"] <= bars["y_top"])))


def test_groups_hold_what_was_predicted_and_found(trace):
    points = amc.plot_calibration(trace, TEST, backend="none", stats={"bins": 1}).viz["point"]["wrong_decisions"].item()
    assert points["x"].item() == pytest.approx(TEST.expected_wrong_rate(trace["sample_stats"].dataset), rel=1e-12)
    found = stat(trace, "wrong_decisions").sum() / stat(trace, "decisions_audited").sum()
    assert points["y"].item() == pytest.approx(found, rel=1e-12)


@pytest.mark.thorough
def test_the_law_of_the_statistic_is_that_of_samples_without_replacement(trace, rng):
    """false_fail: two z-tests at 5 standard errors each, below 2e-6; sqrt(n / N) in the mean is off by over 10."""
    collection = amc.plot_statistic(
        trace, TEST, backend="none", stats={"quantiles": [0.9], "probability": 0.6826894921}
    )
    line, band = (collection.viz[name]["t-statistic"].item() for name in ("line", "band"))
    distance = np.nanquantile(np.abs(stat(trace, "audited_mu_std")), 0.9)
    n, samples = 40, 20_000
    terms = rng.normal(size=N_OBS)
    terms += distance * terms.std() / np.sqrt(N_OBS - 1) - terms.mean()  # the threshold is 0
    rows = rng.permuted(np.tile(terms, (samples, 1)), axis=1)[:, :n]
    known = terms.std(ddof=1) / np.sqrt(n) * np.sqrt(1 - n / N_OBS)  # not estimated, as where batches are large
    t = rows.mean(axis=1) / known
    place = n / N_OBS
    assert np.interp(place, line["x"], line["y"]) == pytest.approx(t.mean(), abs=5 / np.sqrt(samples))
    half = 0.5 * (np.interp(place, band["x"], band["y_top"]) - np.interp(place, band["x"], band["y_bottom"]))
    assert half == pytest.approx(t.std(), abs=5 / np.sqrt(2 * samples))


def test_the_law_ends_where_the_test_does_and_its_label_is_the_recursions(trace):
    collection = amc.plot_statistic(trace, TEST, backend="none", stats={"quantiles": [0.5]})
    edge = collection.viz["look"]["t-statistic"].item()
    shares = TEST.looks(N_OBS)[:-1] / N_OBS
    np.testing.assert_array_equal(edge["x"], [*shares, np.nan, *shares])
    critical = TEST.state_for(N_OBS).critical[: shares.size]
    np.testing.assert_array_equal(edge["y"], [*critical, np.nan, *-critical])
    line = collection.viz["line"]["t-statistic"]
    assert np.nanmax(line.item()["x"]) == pytest.approx(shares[-1])
    distance = np.nanquantile(np.abs(stat(trace, "audited_mu_std")), 0.5)
    law = sequential_test_error(distance, epsilon=0.2, batch_size=20, n_obs=N_OBS)
    assert line["decision"].item().endswith(f"wrong {float(law['error']):.1%}, reads {float(law['data_fraction']):.0%}")


@pytest.mark.thorough
def test_they_combine_with_a_plot_of_arviz(trace):
    cost = [(az.plot_trace, {}), (amc.plot_decisions, {})]
    drawn = az.combine_plots(trace, cost, group="sample_stats", var_names="datapoints_touched", backend="none")
    assert "draws_plot_decisions_01" in drawn.viz
    errors = [(amc.plot_decisions, {}), (amc.plot_calibration, {"test": TEST})]
    drawn = az.combine_plots(trace, errors, group="sample_stats", var_names="wrong_decisions", backend="none")
    assert "point_plot_calibration_01" in drawn.viz
    laws = [(amc.plot_calibration, {"test": TEST}), (amc.plot_statistic, {"test": TEST})]
    drawn = az.combine_plots(trace, laws, group="sample_stats", var_names="wrong_decisions", backend="none")
    assert "band_plot_statistic_01" in drawn.viz


def test_refusals(trace):
    with pytest.raises(InvalidInputError, match="needs a trace; found a dict"):
        amc.plot_decisions({})
    with pytest.raises(InvalidInputError, match=r"no records \['events'\]"):
        amc.plot_decisions(trace, var_names="events")
    with pytest.raises(InvalidInputError, match="select no draw"):
        amc.plot_decisions(trace, coords={"draw": slice(9000, None)})
    with pytest.raises(InvalidInputError, match="the test that decided"):
        amc.plot_calibration(trace)
    with pytest.raises(InvalidInputError, match=r"ExactTest.* predicts no audited decision"):
        amc.plot_calibration(trace, amc.ExactTest())
    with pytest.raises(InvalidInputError, match="shows only"):
        amc.plot_calibration(trace, TEST, var_names="datapoints_touched")
    with pytest.raises(InvalidInputError, match="stop before all 200 data are read"):
        amc.plot_statistic(trace, TEST.with_epsilon(0.0))
    with pytest.raises(InvalidInputError, match="audited decisions of a sequential t-test; this trace has none"):
        amc.plot_statistic(fake_trace(np.zeros((2, 20))), TEST)
