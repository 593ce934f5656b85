"""Cost, wrong decisions, clocks, labels, messages: everything about diagnostics that needs no statistics."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats as laws

from approxmcmc.diagnostics import bootstrap, clopper_pearson, compare_samplers, cost_summary, risk, wrong_decision_rate
from approxmcmc.diagnostics.records import tuning_totals
from approxmcmc.errors import GoldStandardError, InvalidInputError
from tests.fakes import autoregression, fake_trace


@pytest.fixture
def gold():
    return fake_trace(np.random.default_rng(5).normal(size=(4, 250, 2)), labels=["x1", "x2"])


def runs(shift=0.0, chains=4, draws=100, **options):
    rng = np.random.default_rng(6)
    chain = np.stack([autoregression(rng, (chains, draws), 0.3, shift) for _ in range(2)], axis=-1)
    return fake_trace(chain, labels=["x1", "x2"], **options)


# --- decisions ---


@pytest.mark.parametrize("trials", [1, 7, 40])
def test_clopper_pearson_inverts_binomial_tails(trials):
    successes = np.arange(trials + 1)
    lower, upper = clopper_pearson(successes, trials, 0.9)
    np.testing.assert_allclose(laws.binom.sf(successes[1:] - 1, trials, lower[1:]), 0.05)
    np.testing.assert_allclose(laws.binom.cdf(successes[:-1], trials, upper[:-1]), 0.05)
    assert lower[0] == 0
    assert upper[-1] == 1


def test_clopper_pearson_without_trials_knows_nothing():
    assert np.isnan(clopper_pearson(0, 0)).all()
    with pytest.raises(InvalidInputError, match="confidence"):
        clopper_pearson(1, 2, 95)


def audited_trace():
    audited = np.array([[1, 0, 2, 1], [0, 0, 3, 1]])
    wrong = np.array([[1, 0, 1, 0], [0, 0, 1, 0]])
    accepts = np.array([[1, 0, 0, 0], [0, 0, 1, 0]])
    return fake_trace(
        np.zeros((2, 4)),
        stats={"decisions_audited": audited, "wrong_decisions": wrong, "wrong_accepts": accepts},
    )


def test_wrong_decision_rate_is_a_ratio_of_sums():
    pooled = wrong_decision_rate(audited_trace())
    assert float(pooled["wrong_decision_rate"]) == 3 / 8
    assert float(pooled["wrong_accept_rate"]) == 2 / 8
    assert float(pooled["wrong_reject_rate"]) == 1 / 8
    assert (float(pooled["wrong_decision_lower"]), float(pooled["wrong_decision_upper"])) == pytest.approx(
        tuple(laws.binomtest(3, 8).proportion_ci(0.95))
    )
    by_chain = wrong_decision_rate(audited_trace(), sample_dims=("draw",))
    np.testing.assert_allclose(by_chain["wrong_decision_rate"], [2 / 4, 1 / 4])
    assert by_chain["wrong_decision_upper"].dims == ("chain",)


@pytest.mark.parametrize("dropped", ["decisions_audited", "wrong_decisions", "wrong_accepts"])
def test_wrong_decision_rate_without_audits_is_unknown(dropped):
    rates = wrong_decision_rate(fake_trace(np.zeros((2, 4)), stats={dropped: None}))
    assert np.isnan(rates["wrong_decision_rate"])
    assert np.isnan(rates["wrong_reject_upper"])


# --- cost ---


def test_cost_summary_adds_up_by_hand():
    trace = fake_trace(
        np.zeros((2, 4)),
        stats={
            "datapoints_touched": [[10, 20, 30, 40], [100, 100, 100, 100]],
            "decisions_made": [[1, 1, 1, 1], [2, 2, 2, 2]],
            "decision_rounds": [[1, 2, 3, 4], [2, 2, 2, 2]],
            "perf_counter_diff": [[0.25] * 4, [0.5] * 4],
            "acceptance_rate": [[0.0, 0.5, 0.5, 1.0], [1.0] * 4],
            "decisions_audited": [[1, 0, 2, 1], [0, 0, 3, 1]],
            "wrong_decisions": [[1, 0, 1, 0], [0, 0, 1, 0]],
            "wrong_accepts": [[1, 0, 0, 0], [0, 0, 1, 0]],
        },
        n_obs=100,
        tuning={"perf_counter_diff": [1.5, 2.5], "datapoints_touched": [7, 8]},
    )
    table = cost_summary(trace)
    assert list(table.index) == [0, 1, "all"]
    assert table.index.name == "chain"
    expected = {
        "draws": [4, 4, 8],
        "datapoints_touched": [100, 400, 500],
        "data_fraction": [100 / 400, 400 / 800, 500 / 1200],
        "decisions_made": [4, 8, 12],
        "rounds_per_decision": [10 / 4, 1.0, 18 / 12],
        "decisions_audited": [4, 4, 8],
        "wrong_decision_rate": [2 / 4, 1 / 4, 3 / 8],
        "wrong_accept_rate": [1 / 4, 1 / 4, 2 / 8],
        "wrong_reject_rate": [1 / 4, 0, 1 / 8],
        "acceptance_rate": [0.5, 1.0, 0.75],
        "seconds": [1.0, 2.0, 3.0],
        "seconds_per_draw": [0.25, 0.5, 0.375],
        "tuning_seconds": [1.5, 2.5, 4.0],
        "tuning_datapoints_touched": [7, 8, 15],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table[name].to_numpy(float), values, err_msg=name)
    low, high = laws.binomtest(3, 8).proportion_ci(0.95)
    assert table.loc["all", "wrong_decision_lower"] == pytest.approx(low)
    assert table.loc["all", "wrong_decision_upper"] == pytest.approx(high)
    assert table["datapoints_touched"].dtype == np.int64


def test_cost_summary_of_a_sampler_that_decides_nothing_counts_per_step():
    trace = fake_trace(
        np.zeros((1, 10)), stats={"decisions_made": 0, "datapoints_touched": 60}, n_obs=100, attrs={"thin": 3}
    )
    assert cost_summary(trace).loc["all", "data_fraction"] == pytest.approx(60 / 300)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "dropped",
    ["accepted", "acceptance_rate", "decisions_made", "decision_rounds", "perf_counter_diff", "datapoints_touched"],
)
def test_cost_summary_tolerates_what_a_sampler_does_not_write(dropped):
    table = cost_summary(fake_trace(np.zeros((2, 4)), stats={dropped: None, "decisions_audited": None}))
    assert len(table) == 3
    assert table["wrong_decision_rate"].isna().all()


def test_cost_summary_of_a_trace_without_draws_or_without_n():
    empty = cost_summary(fake_trace(np.zeros((2, 0, 1))))
    assert empty.loc["all", "draws"] == 0
    assert np.isnan(empty.loc["all", "seconds_per_draw"])
    trace = fake_trace(np.zeros((1, 4)))
    del trace["sample_stats"].attrs["n_obs"]
    assert np.isnan(cost_summary(trace).loc["all", "data_fraction"])


def test_tuning_totals_from_attributes_from_kept_draws_and_after_a_selection(tmp_path):
    trace = fake_trace(np.zeros((3, 4)), tuning={"datapoints_touched": [1, 2, 3]})
    np.testing.assert_array_equal(tuning_totals(trace, "datapoints_touched"), [1, 2, 3])
    np.testing.assert_array_equal(tuning_totals(trace.sel(chain=[2]), "datapoints_touched"), [3])
    assert tuning_totals(trace, "perf_counter_diff") is None
    kept = fake_trace(np.zeros((2, 4)), warmup=np.zeros((2, 5)), datapoints_per_draw=10)
    np.testing.assert_array_equal(tuning_totals(kept, "datapoints_touched"), [50, 50])
    single = fake_trace(np.zeros((1, 4)), attrs={"tuning_datapoints_touched": 9})
    np.testing.assert_array_equal(tuning_totals(single, "datapoints_touched"), [9])


# --- risk: grids, labels, messages ---


def test_axes_labels_and_attributes(gold):
    curves = risk(runs(), gold, n_grid=7, n_bootstrap=50)
    assert list(curves["estimand"].values) == ["beta[x1]", "beta[x2]"]
    assert curves["risk"].dims == ("estimand", "time")
    assert curves["time"].attrs["units"] == "s"
    np.testing.assert_allclose(curves["time"], np.geomspace(1, 100, 7))
    assert int(curves["n_replicates"]) == 4
    data = risk([runs(), runs(draws=50)], gold, over="datapoints_touched", n_bootstrap=50)
    assert int(data["n_replicates"]) == 8
    assert data["datapoints_touched"].values[[0, -1]].tolist() == [10, 500]


@pytest.mark.thorough
def test_a_table_of_risks_says_what_it_holds(gold):
    curves = risk(runs(), gold)
    assert curves.sizes == {"estimand": 2, "time": 30}
    assert curves.attrs == {"over": "time", "confidence": 0.95, "n_bootstrap": 2000, "include_tuning": 1}
    xr.testing.assert_identical(curves, risk(runs(), gold, random_seed=0))
    assert not curves["risk_lower"].equals(risk(runs(), gold, random_seed=1)["risk_lower"])
    names = {name: variable.attrs.get("long_name") for name, variable in curves.variables.items()}
    assert names == {
        "estimand": None,
        "time": "wall-clock time",
        "bias_sq": "squared bias",
        "bias_sq_lower": "squared bias, lower limit",
        "bias_sq_upper": "squared bias, upper limit",
        "variance": "variance",
        "variance_lower": "variance, lower limit",
        "variance_upper": "variance, upper limit",
        "risk": "risk",
        "risk_lower": "risk, lower limit",
        "risk_upper": "risk, upper limit",
        "n_replicates": "replicates",
        "reference_mcse_sq": "squared standard error of the reference",
    }
    for name in ("bias_sq", "variance", "risk"):
        assert (curves[f"{name}_lower"] < curves[f"{name}_upper"]).all()
    rows = risk(runs(), gold, over="datapoints_touched", n_bootstrap=10, include_tuning=False)
    assert rows["datapoints_touched"].attrs == {"units": "1", "long_name": "data points touched"}
    assert rows.attrs["include_tuning"] == 0


def test_a_law_that_was_fitted_has_no_variance(gold):
    """One fit counts twice, as two would be the same; where there are several, each counts once."""
    fitted = {"chains": 1, "seconds_per_draw": 0.0, "tuning": {"perf_counter_diff": [7.0]}}
    fit = runs(**fitted)
    fit["sample_stats"].attrs["approximation"] = 1
    curves = risk(fit, gold, n_bootstrap=50)
    error = fit["posterior"]["beta"].values.mean(axis=(0, 1)) - gold["posterior"]["beta"].values.mean(axis=(0, 1))
    mcse_sq = curves["reference_mcse_sq"].values
    np.testing.assert_array_equal(curves["variance"], 0.0)
    np.testing.assert_allclose(curves["risk"].values[:, 0], error**2 - mcse_sq, rtol=1e-9)
    assert int(curves["n_replicates"]) == 1 and np.isfinite(curves["risk_upper"]).all()
    other = runs(shift=1.0, **fitted)
    other["sample_stats"].attrs["approximation"] = 1
    pair = risk([fit, other], gold, n_bootstrap=50)
    means = [trace["posterior"]["beta"].values.mean(axis=(0, 1)) for trace in (fit, other)]
    np.testing.assert_allclose(pair["variance"].values[:, 0], np.var(means, axis=0, ddof=1))


def test_clock_starts_at_the_tuning_cost_unless_asked_not_to(gold):
    trace = runs(tuning={"perf_counter_diff": [5.0, 6.0, 7.0, 8.0]})
    with_tuning = risk(trace, gold, n_bootstrap=10)
    without = risk(trace, gold, n_bootstrap=10, include_tuning=False)
    assert with_tuning["time"].values[[0, -1]].tolist() == [9, 105]
    assert without["time"].values[[0, -1]].tolist() == [1, 100]


def test_points_before_the_first_or_after_the_last_draw_are_undefined(gold):
    curves = risk(runs(draws=20), gold, grid=[0.5, 1.0, 20.0, 20.5], n_bootstrap=10)
    for name in ("bias_sq", "variance_upper", "risk", "risk_lower"):
        np.testing.assert_array_equal(np.isnan(curves[name]).all("estimand"), [True, False, False, True])


def test_one_replicate_has_a_risk_but_no_variance(gold):
    with pytest.warns(UserWarning, match="one chain") as warned:
        curves = risk(runs(chains=1), gold, n_bootstrap=10)
    assert [warning.filename for warning in warned] == [__file__]
    assert np.isnan(curves["variance"]).all()
    assert np.isnan(curves["risk_upper"]).all()
    assert np.isfinite(curves["risk"]).all()


def test_reference_coordinates_are_matched_by_label_not_by_position(gold):
    trace = runs(shift=1.0)
    swapped = gold.isel(coef=[1, 0])
    xr.testing.assert_allclose(risk(trace, gold, n_bootstrap=10)["risk"], risk(trace, swapped, n_bootstrap=10)["risk"])


def test_estimands_with_further_dims_and_averages(gold):
    points = xr.DataArray(np.arange(6.0).reshape(3, 2), dims=("point", "coef"), coords={"coef": ["x1", "x2"]})
    estimands = {"p": lambda post: xr.dot(post["beta"], points, dim="coef"), "first": lambda post: post["beta"][..., 0]}
    apart = risk(runs(), gold, estimands=estimands, n_bootstrap=20)
    assert list(apart["estimand"].values) == ["p[0]", "p[1]", "p[2]", "first"]
    averaged = risk(runs(), gold, estimands=estimands, average_over=["p"], n_bootstrap=20)
    xr.testing.assert_identical(averaged, risk(runs(), gold, estimands=estimands, average_over="p", n_bootstrap=20))
    assert list(averaged["estimand"].values) == ["p", "first"]
    for name in ("bias_sq", "variance", "risk"):
        mean = apart[name].isel(estimand=slice(3)).mean("estimand")
        np.testing.assert_allclose(averaged[name].sel(estimand="p"), mean)
    mean = apart["reference_mcse_sq"][:3].mean()
    assert float(averaged["reference_mcse_sq"][0]) == pytest.approx(float(mean))


def test_same_seed_same_intervals_and_confidence_widens_them(gold):
    first, again = (risk(runs(), gold, n_bootstrap=100) for _ in range(2))
    xr.testing.assert_identical(first, again)
    wide = risk(runs(), gold, n_bootstrap=100, confidence=0.99)
    assert (wide["risk_upper"] - wide["risk_lower"] > first["risk_upper"] - first["risk_lower"]).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"over": "draws"}, "'datapoints_touched', 'processor_time', 'time'"),
        ({"grid": [2.0, 1.0]}, "ascending"),
        ({"grid": [1.0, 1.0]}, "ascending"),
        ({"grid": [[1.0, 2.0]]}, r"found shape \(1, 2\)"),
        ({"grid": []}, r"found shape \(0,\)"),
        ({"grid": [1.0, np.inf]}, "finite"),
        ({"confidence": 95}, "confidence"),
        ({"average_over": ["gamma"]}, r"\['beta'\].*gamma"),
        ({"estimands": {}}, "at least one"),
        ({"estimands": {"m": lambda post: post["beta"].mean("draw")}}, "'m'.*'draw'"),
        ({"estimands": {"m": lambda post: post}}, "found a Dataset"),
    ],
)
def test_bad_arguments_of_risk(gold, options, message):
    with pytest.raises(InvalidInputError, match=message):
        risk(runs(), gold, **options)


def test_traces_that_cannot_be_compared(gold):
    with pytest.raises(InvalidInputError, match="an empty list"):
        risk([], gold)
    with pytest.raises(InvalidInputError, match="perf_counter_diff"):
        risk(runs(stats={"perf_counter_diff": None}), gold)
    with pytest.raises(InvalidInputError, match="a draw in every chain"):
        risk([runs(), fake_trace(np.zeros((2, 0, 2)))], gold)
    with pytest.raises(InvalidInputError, match="common interval"):
        risk([runs(draws=2), runs(seconds_per_draw=50.0)], gold)
    with pytest.raises(InvalidInputError, match="same coordinates"):
        risk([runs(), fake_trace(np.zeros((2, 50, 3)))], gold)


def test_references_that_do_not_fit(gold):
    with pytest.raises(GoldStandardError, match=r"lacks beta\[x1\], beta\[x2\]"):
        risk(runs(), fake_trace(np.zeros((4, 50, 2)), labels=["x1 ", "x2 "]))
    with pytest.raises(GoldStandardError, match="2 coordinates in the traces and 3 in the reference"):
        risk(runs(), fake_trace(np.zeros((4, 50, 3)), labels=["x1", "x2", "x3"]))
    with pytest.raises(GoldStandardError, match="'gamma'"):
        risk(runs(), fake_trace(np.zeros((4, 50, 2)), name="gamma"))
    with pytest.raises(GoldStandardError, match="Dataset"):
        risk(runs(), gold["posterior"].to_dataset())
    spoiled = fake_trace(np.full((4, 50, 2), np.nan), labels=["x1", "x2"])
    with pytest.raises(GoldStandardError, match="cannot be estimated"):
        risk(runs(), spoiled)


@pytest.mark.parametrize("beside", [False, True])
def test_the_expanded_squares_are_those_of_the_plain_formula(monkeypatch, beside):
    """Of few coordinates the array (draw, coordinate) is made, of many it is not."""
    rng = np.random.default_rng(1)
    errors, other = rng.normal(size=(2, 6, 5))
    resampling = bootstrap.resample(100, 6, 7, random_seed=2)
    arguments = errors, rng.normal(size=(7, 5)), resampling, other if beside else None
    plain = bootstrap.draws_at(*arguments)
    monkeypatch.setattr(bootstrap, "FEW_COORDINATES", 0)
    np.testing.assert_allclose(bootstrap.draws_at(*arguments), plain, rtol=1e-10)


def test_one_quantile_function_serves_all_coordinates(gold, monkeypatch):
    calls = []
    quantiles = bootstrap._inverse_chi_square
    monkeypatch.setattr(bootstrap, "_inverse_chi_square", lambda *given: calls.append(given) or quantiles(*given))
    risk(runs(), gold, n_grid=20, n_bootstrap=10)
    assert len(calls) == 1


# --- compare ---


@pytest.mark.thorough
def test_compare_ranks_by_risk_at_the_common_budget(gold):
    table = compare_samplers(
        {"biased": runs(shift=1.0, draws=300), "exact": [runs(draws=100), runs(draws=200)]}, gold, n_bootstrap=50
    )
    assert list(table.index) == ["exact", "biased"]
    assert list(table["rank"]) == [1, 2]
    assert table.attrs["budget"] == 100
    assert table.loc["exact", "risk_ratio"] == 1
    at_budget = risk([runs(draws=100), runs(draws=200)], gold, average_over="beta", grid=[100.0], n_bootstrap=50)
    for name in ("risk", "risk_lower", "risk_upper", "bias_sq", "variance"):
        assert table.loc["exact", name] == pytest.approx(float(at_budget[name][0, 0])), name
    assert table.loc["exact", "seconds"] == 4 * 300
    assert table.loc["exact", "data_fraction"] == pytest.approx(0.1)
    named = compare_samplers({"biased": runs(shift=1.0), "exact": runs()}, gold, baseline="biased", n_bootstrap=50)
    assert named.loc["biased", "risk_ratio"] == 1


def test_compare_standardized_is_free_of_units(gold):
    scale = np.array([1.0, 1000.0])

    def scaled(trace):
        return fake_trace(trace["posterior"]["beta"].values * scale, labels=["x1", "x2"])

    plain = compare_samplers({"a": runs()}, gold, standardize=True, n_bootstrap=50)
    units = compare_samplers({"a": scaled(runs())}, scaled(gold), standardize=True, n_bootstrap=50)
    assert units.loc["a", "risk"] == pytest.approx(plain.loc["a", "risk"])


@pytest.mark.thorough
def test_compare_warns_in_words(gold):
    stuck = runs()
    stuck["posterior"]["beta"][1] = 0.25
    table = compare_samplers({"stuck": stuck, "single": runs(chains=1)}, gold, n_bootstrap=20)
    assert "1 of 4 chains never moved" in table.loc["stuck", "warning"]
    assert "one replicate" in table.loc["single", "warning"]
    late = compare_samplers({"late": runs(seconds_per_draw=5.0), "early": runs()}, gold, budget=2.0, n_bootstrap=20)
    assert "no draw within the budget" in late.loc["late", "warning"]
    assert late.index[-1] == "late"
    with pytest.raises(InvalidInputError, match="baseline"):
        compare_samplers({"a": runs()}, gold, baseline="b")
    with pytest.raises(InvalidInputError, match="No budget"):
        compare_samplers({"a": runs(datapoints_per_draw=0)}, gold, over="datapoints_touched")
