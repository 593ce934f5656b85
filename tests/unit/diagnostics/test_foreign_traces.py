"""Traces of other libraries, and fitted distributions, in `risk`, tables and plots."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.errors import InvalidInputError
from tests.fakes import fake_trace

DRAWS = 400


def normal(seed, chains=1, draws=DRAWS, shift=0.0, **options):
    values = shift + np.random.default_rng(seed).normal(size=(chains, draws, 2))
    return fake_trace(values, labels=["a", "b"], **options)


def foreign(seed, chains=1, **stats):
    """Return a trace as another library writes it: draws, perhaps gradient counts, and no seconds."""
    trace = normal(seed, chains)
    records = {name: (("chain", "draw"), np.broadcast_to(values, (chains, DRAWS))) for name, values in stats.items()}
    places = {"chain": np.arange(chains), "draw": np.arange(DRAWS)}
    return xr.DataTree.from_dict(
        {"posterior": trace["posterior"].to_dataset()}
        | ({"sample_stats": xr.Dataset(records, places)} if stats else {})
    )


def fit(seconds=2.0, shift=0.5, seed=9):
    half = np.random.default_rng(seed).normal(size=(1, 500, 2))
    return fake_trace(
        shift + np.concatenate([half, -half], axis=1),
        labels=["a", "b"],
        seconds_per_draw=0.0,
        tuning={"perf_counter_diff": [seconds]},
        attrs={"approximation": 1},
    )


@pytest.fixture(scope="module")
def reference():
    return normal(100, chains=4, draws=4000)


# --- the clock of a trace that does not tell it ---


def test_without_a_clock_the_error_says_what_to_pass(reference):
    with pytest.raises(InvalidInputError, match=r"needs the record 'perf_counter_diff'.*`clock=` takes the seconds"):
        amc.risk(foreign(1, chains=2, n_steps=np.ones(DRAWS)), reference)


@pytest.mark.parametrize("chains", [2, 3])
def test_a_total_is_spread_by_the_gradients_of_each_draw(reference, chains):
    steps = np.where(np.arange(DRAWS) % 2, 3.0, 1.0)  # 800 in all
    trace = foreign(1, chains, n_steps=steps)
    found = amc.risk(trace, reference, clock=8.0, warmup_seconds=4.0, grid=[4.0 + 8.0 / 2])
    timed = normal(
        1,
        chains,
        stats={"perf_counter_diff": np.broadcast_to(steps / 100.0, (chains, DRAWS))},
        tuning={"perf_counter_diff": [4.0] * chains},
    )
    assert np.array_equal(found["risk"], amc.risk(timed, reference, grid=[8.0])["risk"])


@pytest.mark.thorough
def test_seconds_of_each_draw_of_each_chain_and_lists_for_several_traces(reference):
    seconds = np.full(DRAWS, 0.02)
    expected = amc.risk([normal(k, seconds_per_draw=0.02) for k in (1, 2)], reference)
    traces = [foreign(1), foreign(2)]
    for clock in (seconds, [seconds, seconds[None]], [8.0, 8.0], 8.0):
        found = amc.risk(traces, reference, clock=clock)
        np.testing.assert_allclose(found["time"], expected["time"], rtol=1e-12)
        np.testing.assert_allclose(found["risk"].isel(time=-1), expected["risk"].isel(time=-1), rtol=1e-12)


def test_the_trace_of_the_caller_stays_as_it_is(reference):
    trace = foreign(1, chains=2)
    amc.risk(trace, reference, clock=8.0)
    assert set(trace.children) == {"posterior"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"clock": np.ones(7)}, r"found shape \(7,\)"),
        ({"clock": -1.0}, "finite and not negative"),
        ({"clock": "fast"}, "needs seconds; found 'fast'"),
        ({"clock": 1.0, "warmup_seconds": [1.0, 2.0, 3.0]}, "one number, or one for each of 2 chains"),
    ],
)
def test_a_clock_that_does_not_fit_is_refused(reference, arguments, told):
    with pytest.raises(InvalidInputError, match=told):
        amc.risk(foreign(1, chains=2), reference, **arguments)


def test_costs_that_are_unknown_are_said_to_be():
    table = amc.cost_summary(foreign(1, chains=2, n_steps=np.ones(DRAWS)))
    assert table["seconds"].isna().all() and table["datapoints_touched"].isna().all()
    assert table["clock"].unique().tolist() == ["unknown: pass clock="]
    known = amc.cost_summary(foreign(1, chains=2, n_steps=np.ones(DRAWS)), clock=[3.0, 5.0], warmup_seconds=1.0)
    assert known["seconds"].tolist() == pytest.approx([3.0, 5.0, 8.0])
    assert known["tuning_seconds"].tolist() == [1.0, 1.0, 2.0]
    assert known["clock"].unique().tolist() == ["the total, spread over draws by n_steps"]
    assert "clock" not in amc.cost_summary(normal(1))


@pytest.mark.thorough
def test_a_comparison_names_the_run_whose_seconds_are_unknown(reference):
    runs = {"ours": normal(1, chains=4, seconds_per_draw=0.02), "theirs": foreign(2, chains=4)}
    table = amc.compare_samplers(runs, reference)
    assert table.loc["theirs", "warning"] == "its time is unknown; pass clock="
    assert np.isnan(table.loc["theirs", "risk"]) and table.index.tolist() == ["ours", "theirs"]
    assert table.attrs["budget"] == pytest.approx(8.0)
    told = amc.compare_samplers(runs, reference, clock={"theirs": 4.0}, warmup_seconds={"theirs": 1.0})
    assert told.attrs["budget"] == pytest.approx(5.0)
    assert told["warning"].notna().all() and not told["warning"].str.contains("unknown").any()
    assert told["risk"].notna().all()
    assert told.loc["theirs", "seconds"] == pytest.approx(4 * 5.0)
    with pytest.raises(InvalidInputError, match="names of the runs"):
        amc.compare_samplers(runs, reference, clock={"other": 1.0})
    with pytest.raises(InvalidInputError, match="clock="):
        amc.compare_samplers({"theirs": runs["theirs"]}, reference)


# --- fitted distributions ---


def test_a_single_fit_is_one_point_that_is_all_bias(reference):
    found = amc.risk(fit(), reference)
    assert found["time"].values.tolist() == [2.0]
    assert (found["variance"] == 0.0).all() and np.array_equal(found["risk"], found["bias_sq"])
    mean = fit()["posterior"]["beta"].mean(("chain", "draw")).values
    gold = reference["posterior"]["beta"].mean(("chain", "draw")).values
    # The reference's error e moves the squared error by 2 |error| e: 95 % of that is the interval.
    width = 2 * 1.96 * 2 * np.abs(mean - gold) * np.sqrt(found["reference_mcse_sq"].values)
    np.testing.assert_allclose((found["risk_upper"] - found["risk_lower"]).values[:, 0], width, rtol=0.15)
    np.testing.assert_allclose(
        found["risk"].values[:, 0], (mean - gold) ** 2 - found["reference_mcse_sq"].values, rtol=1e-9
    )


def test_a_fit_lasts_and_is_not_there_before_it_ends(reference):
    found = amc.risk([fit(2.0, seed=k) for k in range(3)], reference, grid=[1.9, 2.0, 500.0])
    assert np.isnan(found["risk"].isel(time=0)).all()
    assert np.array_equal(found["risk"].isel(time=1), found["risk"].isel(time=2))
    without = amc.risk(fit(2.0), reference, include_tuning=False)
    assert without["time"].values.tolist() == [2.0]  # the fit is all that it costs


@pytest.mark.thorough
def test_a_fit_limits_no_common_budget(reference):
    runs = {"chain": normal(1, chains=4, seconds_per_draw=0.02), "fit": fit(2.0), "late": fit(9.0)}
    table = amc.compare_samplers(runs, reference)
    assert table.attrs["budget"] == pytest.approx(8.0)
    assert np.isnan(table.loc["late", "risk"]) and table.loc["fit", "variance"] == 0.0
    assert np.isnan(table.loc["fit", "ess_per_second"])
    alone = amc.compare_samplers({"fit": runs["fit"], "late": runs["late"]}, reference)
    assert alone.attrs["budget"] == 9.0 and alone["risk"].notna().all()


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["matplotlib", "plotly", "none"])
def test_the_plot_marks_what_has_one_point(reference, backend):
    risks = {"chain": amc.risk([normal(k) for k in range(4)], reference), "fit": amc.risk(fit(), reference)}
    shown = amc.plot_risk(risks, backend=backend)
    assert {"point", "interval"} <= set(shown.viz.children)
    assert "point" not in amc.plot_risk({"chain": risks["chain"]}, backend=backend).viz.children
    plt.close("all")
