"""Plots hold the numbers that they were given, on every backend that is installed, and say what is missing."""

import importlib.util

import arviz as az
import numpy as np
import pytest
import xarray as xr
from arviz_plots import PlotCollection

import approxmcmc as amc
from approxmcmc.diagnostics import risk
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots import cost_table, plot_cost, plot_risk
from approxmcmc.plots.bound import _floor
from tests.fakes import autoregression, fake_trace

PACKAGES = {"none": "arviz_plots", "matplotlib": "matplotlib", "bokeh": "bokeh", "plotly": "plotly"}
BACKENDS = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def curves():
    rng = np.random.default_rng(1)
    gold = fake_trace(rng.normal(size=(4, 500, 2)), labels=["x1", "x2"])

    def run(shift, draws, seconds):
        chain = np.stack([autoregression(rng, (4, draws), 0.5, shift) for _ in range(2)], axis=-1)
        return risk(
            fake_trace(chain, labels=["x1", "x2"], seconds_per_draw=seconds), gold, n_bootstrap=50, n_grid=draws // 10
        )

    return {"exact": run(0.0, 100, 1.0), "fast": run(0.5, 200, 0.1)}


def drawn(collection, visual, name, **selection):
    """Return the one call that the backend "none" recorded."""
    found = collection.viz[visual][name]
    return (found.sel(selection) if selection else found).item()


@pytest.mark.needs_jit
@pytest.mark.parametrize("backend", BACKENDS)
def test_plot_risk_draws_on_every_backend(curves, backend):
    collection = plot_risk(curves, var_names=["risk", "bias_sq", "variance"], backend=backend)
    assert isinstance(collection, PlotCollection)
    for visual in ("band", "line"):
        assert set(collection.viz[visual].data_vars) == {"risk", "bias_sq", "variance"}
        assert dict(collection.viz[visual]["risk"].sizes) == {"sampler": 2, "estimand": 2}


@pytest.mark.thorough
@pytest.mark.parametrize("backend", BACKENDS)
def test_plot_cost_draws_on_every_backend(backend):
    collection = plot_cost(cost_runs(), backend=backend)
    for visual in ("line", "point", "interval"):
        assert all(artist.item() is not None for artist in collection.viz[visual].data_vars.values()), visual
    for visual in ("title", "xlabel", "ylabel"):  # some backends set a label and return nothing
        assert set(collection.viz[visual].data_vars) == set(collection.viz["line"].data_vars), visual


@pytest.mark.thorough
def test_each_curve_keeps_its_own_grid(curves):
    collection = plot_risk(curves, backend="none")
    for name, expected in curves.items():
        line = drawn(collection, "line", "risk", sampler=name, estimand="beta[x2]")
        known = np.isfinite(line["y"])
        np.testing.assert_allclose(line["x"][np.isfinite(line["x"])], expected["time"])
        values = expected["risk"].sel(estimand="beta[x2]").values
        np.testing.assert_allclose(line["y"][known], values[values > 0])
    scales = [call for call in drawn(collection, "plot", "risk", estimand="beta[x1]") if "scale" in call["function"]]
    assert [call["function"] for call in scales] == ["xscale", "yscale"]
    assert "wall-clock time (s)" in str(drawn(collection, "xlabel", "risk", estimand="beta[x1]"))


def test_values_that_a_log_axis_cannot_show_are_gaps_and_bands_end_at_a_floor(curves):
    few = curves["exact"].isel(time=slice(0, 4), estimand=[0])
    few["bias_sq"].values[:] = [0.1, -0.1, 0.0, 0.2]
    few["bias_sq_lower"].values[:] = [0.05, -0.2, -0.1, 0.1]
    few["bias_sq_upper"].values[:] = [0.2, -0.1, 0.4, 0.3]
    collection = plot_risk(few, var_names="bias_sq", backend="none")
    np.testing.assert_allclose(drawn(collection, "line", "bias_sq")["y"], [0.1, np.nan, np.nan, 0.2])
    band = drawn(collection, "band", "bias_sq")
    np.testing.assert_allclose(band["y_top"], [0.2, np.nan, 0.4, 0.3])
    np.testing.assert_allclose(band["y_bottom"], [0.05, 0.02, 0.02, 0.1])


def test_visuals_coords_and_aesthetics_follow_the_caller(curves):
    collection = plot_risk(
        curves,
        backend="none",
        coords={"estimand": ["beta[x2]"]},
        visuals={"band": False, "line": {"width": 3}, "legend": False},
        aes={"color": ["sampler"], "linestyle": ["sampler"]},
        color=["red", "blue"],
    )
    assert "band" not in collection.viz.children
    assert "legend" not in collection.viz.children
    line = drawn(collection, "line", "risk", sampler="fast")
    assert (line["width"], line["color"]) == (3, "blue")


def test_one_curve_alone_has_no_legend(curves):
    assert "legend" not in plot_risk(curves["exact"], backend="none").viz.children


@pytest.mark.thorough
def test_no_names_are_the_default_as_in_arviz(curves):
    assert set(plot_risk(curves, var_names=None, backend="none").viz["line"].data_vars) == {"risk"}
    table = cost_table({0.0: fake_trace(np.zeros((2, 20))), 0.1: fake_trace(np.zeros((2, 20)))})
    assert len(plot_cost(table, var_names=None, backend="none").viz["line"].data_vars) == 2


def test_plots_compose_with_arviz(curves):
    collection = plot_risk(curves, backend="none")
    az.add_lines(collection, values={"risk": [0.01]}, orientation="horizontal")
    assert "ref_line" in collection.viz.children


@pytest.mark.thorough
def test_no_text_covers_another(curves, tmp_path):
    collection = plot_risk(curves, backend="matplotlib")
    figure = collection.get_viz("figure")
    figure.canvas.draw()
    panels = [axes.get_tightbbox() for axes in figure.axes]
    boxes = [*panels, figure.legends[0].get_window_extent()]
    overlapping = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert overlapping == []
    collection.savefig(tmp_path / "risk.svg")
    assert (tmp_path / "risk.svg").stat().st_size > 1000


def test_plot_risk_says_what_it_needs(curves):
    with pytest.raises(InvalidInputError, match=r"no \['speed'\]"):
        plot_risk(curves, var_names="speed")
    renamed = curves["fast"].rename(time="datapoints_touched")
    with pytest.raises(InvalidInputError, match="'datapoints_touched', 'time'"):
        plot_risk({"a": curves["exact"], "b": renamed})
    with pytest.raises(InvalidInputError, match="0 curves"):
        plot_risk({})


def cost_runs():
    def run(epsilon, datapoints):
        audits = {"decisions_audited": 1, "wrong_decisions": np.arange(50) < 50 * epsilon} if epsilon else {}
        return fake_trace(np.zeros((2, 50)), stats=audits, datapoints_per_draw=datapoints, n_obs=100)

    return {0.1: [run(0.1, 20), run(0.1, 30)], 0.0: run(0.0, 100), 0.2: run(0.2, 10)}


def test_cost_table_pools_traces():
    table = cost_table(cost_runs())
    assert table.index.name == "epsilon"
    np.testing.assert_allclose(table["data_fraction"], [0.25, 1.0, 0.1])
    np.testing.assert_allclose(table["wrong_decision_rate"], [0.1, np.nan, 0.2])
    assert list(table["decisions_audited"]) == [200, 0, 100]
    mean, error = 0.25, np.std([0.2, 0.2, 0.3, 0.3], ddof=1) / 2
    # Student's t, 3 degrees of freedom, two-sided 95 %
    assert table.loc[0.1, "data_fraction_upper"] == pytest.approx(mean + 3.182446 * error)


@pytest.mark.thorough
def test_plot_cost_sorts_numbers_and_names_the_rest():
    collection = plot_cost(cost_runs(), backend="none")
    np.testing.assert_allclose(drawn(collection, "line", "data_fraction")["x"], [0.0, 0.1, 0.2])
    np.testing.assert_allclose(drawn(collection, "line", "wrong_decision_rate")["y"], [np.nan, 0.1, 0.2])
    named = plot_cost({f"epsilon {key}": run for key, run in cost_runs().items()}, backend="none")
    ticks = [call for call in drawn(named, "plot", "data_fraction") if call["function"] == "xticks"]
    assert list(ticks[0]["labels"]) == ["epsilon 0.1", "epsilon 0.0", "epsilon 0.2"]
    np.testing.assert_allclose(drawn(named, "line", "data_fraction")["x"], [0, 1, 2])


@pytest.mark.thorough
def test_plot_cost_takes_tables_and_says_what_they_lack():
    table = cost_table(cost_runs())
    for data in (table, xr.Dataset.from_dataframe(table)):
        collection = plot_cost(data, backend="none", var_names="data_fraction")
        np.testing.assert_allclose(drawn(collection, "line", "data_fraction")["y"], [1.0, 0.25, 0.1])
    with pytest.raises(InvalidInputError, match="wrong_decision_upper"):
        plot_cost(table.drop(columns="wrong_decision_upper"), backend="none")


field = amc.targets.BinaryMRF.random_triples


def test_plot_bound_draws_what_exists():
    check = amc.check_bound(
        field(4, 0.3, 0), amc.Gibbs(amc.SequentialTTest(0.1, 2)), epsilons=[0.0, 0.1], draws=0, progressbar=False
    )
    drawn = amc.plot_bound(check, backend="none")
    assert {"bound", "distance", "interval"} <= set(drawn.viz.children)
    with pytest.raises(InvalidInputError, match="a result of check_bound"):
        amc.plot_bound(check["verdict"].to_dataset(name="x"))
    with pytest.raises(InvalidInputError, match="knows the bounds"):
        amc.plot_bound(check, var_names=["b9"], backend="none")


def test_an_interval_that_reaches_zero_does_not_stretch_the_axis():
    """Decades below all that is measured say nothing: such an interval ends a decade below."""
    found = [xr.DataArray([0.0, 0.2]), xr.DataArray([0.05, 0.3]), xr.DataArray([np.nan, 0.4])]
    assert _floor(*found) == pytest.approx(0.005)
    assert _floor(xr.DataArray([0.0])) == 1e-6
