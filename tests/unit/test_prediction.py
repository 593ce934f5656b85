"""Predictions: equal to sums over draws written out, for tables in any order, and errors that name the column."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit, ndtr, softmax

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.study.plan import function_id
from tests.models import normal_mean

CHAINS, DRAWS = 2, 150
KINDS = np.array(["red", "green", "blue"])


@pytest.fixture
def table(rng):
    n = 60
    return pd.DataFrame(
        {"age": rng.normal(size=n), "kind": KINDS[np.arange(n) % 3], "dose": rng.uniform(size=n)},
        index=[f"p{k}" for k in range(n)],
    )


def trace_of(target, rng):
    """Return random draws of all variables of a target as a trace."""
    axes = {name: target.variables.dims.get(name, ()) for name in target.variables.shapes}
    data = {
        name: (("chain", "draw", *axes[name]), 0.3 * np.abs(rng.normal(size=(CHAINS, DRAWS, *shape))))
        for name, shape in target.variables.shapes.items()
    }
    coords = {axis: list(labels) for axis, labels in target.variables.coords.items()}
    posterior = xr.Dataset(data, {**coords, "chain": [0, 1], "draw": np.arange(DRAWS)})
    return xr.DataTree.from_dict({"posterior": posterior})


def written_out(trace, table):
    """Return the predictors of a table by pandas and xarray: reference level blue, an intercept first."""
    posterior = trace["posterior"]
    beta = posterior["beta"]
    eta = beta.sel(coef="intercept") + sum(
        beta.sel(coef=name) * xr.DataArray(table[name].to_numpy(), dims="row") for name in ("age", "dose")
    )
    effects = posterior["kind"]
    zero = xr.zeros_like(effects.isel(kind_dim=[0])).assign_coords(kind_dim=["blue"])
    every = xr.concat([zero, effects], "kind_dim")
    return (eta + every.sel(kind_dim=xr.DataArray(table["kind"].to_numpy(), dims="row"))).transpose(
        "chain", "draw", "row"
    )


def new_rows(rng, n=7):
    frame = {"dose": rng.uniform(size=n), "kind": KINDS[[0, 2, 2, 1, 0, 1, 2]], "unused": np.ones(n)}
    return pd.DataFrame({**frame, "age": rng.normal(size=n)}, index=np.arange(n) * 10)


@pytest.mark.parametrize(
    ("kind", "inverse"), [("predictor", lambda eta: eta), ("mean", expit)], ids=["predictor", "mean"]
)
def test_a_table_in_another_order_is_matched_by_names(table, rng, kind, inverse):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    trace = trace_of(target, rng)
    new = new_rows(rng)
    offset = rng.normal(size=7)
    predicted = amc.predict(trace, target, new, kind=kind, offset=offset).predictions
    [name] = predicted.data_vars
    assert predicted[name].dims == ("chain", "draw", "y_dim_0")
    np.testing.assert_allclose(predicted[name], inverse(written_out(trace, new) + offset), rtol=1e-12)
    assert predicted["y_dim_0"].values.tolist() == new.index.tolist()
    assert predicted["draw"].values.tolist() == list(range(DRAWS))


def test_the_targets_own_rows_are_the_same_rows_given_again(table, rng):
    offset = rng.normal(size=60)
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True, offset=offset)
    trace = trace_of(target, rng)
    own = amc.predict(trace, target)["posterior_predictive"]["y_mean"]
    again = amc.predict(trace, target, table, offset=offset)["predictions"]["y_mean"]
    np.testing.assert_allclose(own, again, rtol=1e-14)


def test_a_summary_is_that_of_the_draws(table, rng):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    trace = trace_of(target, rng)
    new = new_rows(rng)
    found = amc.predict(trace, target, new, interval=0.8)["predictions"]["y_mean"]
    assert found.dims == ("statistic", "y_dim_0")
    draws = amc.predict(trace, target, new)["predictions"]["y_mean"].stack(sample=("chain", "draw"))
    np.testing.assert_allclose(found.sel(statistic="mean"), draws.mean("sample"), rtol=1e-12)
    np.testing.assert_allclose(found.sel(statistic="sd"), draws.std("sample", ddof=1), rtol=1e-12)
    np.testing.assert_allclose(found.sel(statistic="lower"), draws.quantile(0.1, "sample"), rtol=1e-12)
    np.testing.assert_allclose(found.sel(statistic="upper"), draws.quantile(0.9, "sample"), rtol=1e-12)


def test_results_do_not_depend_on_threads_or_blocks(table, rng, monkeypatch):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    trace = trace_of(target, rng)
    from approxmcmc import prediction

    monkeypatch.setattr(prediction, "NUMBERS", 2 * CHAINS * DRAWS)
    several, single = (
        amc.predict(trace, target, kind="response", random_seed=3, cores=cores)["posterior_predictive"]["y"]
        for cores in (4, 1)
    )
    np.testing.assert_array_equal(several, single)
    means = amc.predict(trace, target)["posterior_predictive"]["y_mean"]
    monkeypatch.undo()
    np.testing.assert_allclose(means, amc.predict(trace, target)["posterior_predictive"]["y_mean"], rtol=1e-14)


def test_fewer_draws_are_spread_over_the_trace(table, rng):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2)
    trace = trace_of(target, rng)
    few = amc.predict(trace, target, draws=10)["posterior_predictive"]
    assert few.sizes["draw"] == 5 and few.attrs["draws_used"] == 10
    whole = amc.predict(trace, target)["posterior_predictive"]["y_mean"]
    np.testing.assert_array_equal(few["y_mean"], whole.sel(draw=few["draw"]))


def test_classes_have_probabilities_and_are_drawn_by_them(rng):
    X = rng.normal(size=(90, 2))
    target = amc.targets.SoftmaxRegression(X, np.arange(90) % 3 * 5)
    trace = trace_of(target, rng)
    new = rng.normal(size=(4, 2))
    shares = amc.predict(trace, target, new)["predictions"]["y_mean"]
    assert shares.dims == ("chain", "draw", "y_dim_0", "category")
    assert shares["category"].values.tolist() == [0, 5, 10]
    eta = np.einsum("scij,rj->scri", trace["posterior"]["beta"].transpose(..., "category", "coef").values, new)
    np.testing.assert_allclose(shares, softmax(eta, axis=-1), rtol=1e-12)
    known = rng.normal(size=(4, 3))
    moved = amc.predict(trace, target, new, offset=known)["predictions"]["y_mean"]
    np.testing.assert_allclose(moved, softmax(eta + known, axis=-1), rtol=1e-12)
    drawn = amc.predict(trace, target, new, kind="response", random_seed=1)["predictions"]["y"]
    counts = np.stack([(drawn == k).mean(("chain", "draw")) for k in range(3)], axis=-1)
    expected = shares.mean(("chain", "draw")).to_numpy()
    error = np.sqrt(expected * (1.0 - expected) / (CHAINS * DRAWS))
    assert (np.abs(counts - expected) < 5.0 * error).all()  # false-fail rate below 1e-5


def test_normal_outcomes_with_weights(table, rng):
    Y = rng.normal(size=(60, 2))
    target = amc.targets.LinearRegression(table[["age", "dose"]], Y, weights=np.full(60, 4.0))
    trace = trace_of(target, rng)
    new = new_rows(rng)
    means = amc.predict(trace, target, new)["predictions"]["y_mean"]
    beta = trace["posterior"]["beta"].transpose("chain", "draw", "coef", "outcome").values
    np.testing.assert_allclose(means, np.einsum("scpj,rp->scrj", beta, new[["age", "dose"]].to_numpy()), rtol=1e-12)
    drawn = amc.predict(trace, target, new, kind="response", weights=np.full(7, 25.0), random_seed=2)
    sigma = trace["posterior"]["sigma"].transpose("chain", "draw", "outcome").values[:, :, None]
    noise = (drawn["predictions"]["y"] - means) / sigma
    spread = float(noise.std())
    assert spread == pytest.approx(0.2, rel=0.06)  # 4200 normal numbers: standard error .0022


def test_counts_with_exposures_and_a_shape_that_is_a_parameter(table, rng):
    counts = rng.poisson(2.0, size=60)
    target = amc.targets.NegativeBinomialRegression(table, counts, intercept=True, offset=np.zeros(60))
    trace = trace_of(target, rng)
    new = new_rows(rng)
    exposure = np.log(np.arange(1.0, 8.0))
    means = amc.predict(trace, target, new, offset=exposure)["predictions"]["y_mean"]
    np.testing.assert_allclose(means, np.exp(written_out(trace, new) + exposure), rtol=1e-12)
    drawn = amc.predict(trace, target, new, kind="response", offset=exposure, random_seed=4)["predictions"]["y"]
    [shape] = [name for name in target.variables.shapes if target.variables.shapes[name] == ()]
    variances = means + means**2 / trace["posterior"][shape]
    z = (drawn - means) / np.sqrt(variances)
    assert abs(float(z.mean())) < 5.0 / np.sqrt(z.size)  # false-fail rate 6e-7
    assert float((z**2).mean()) == pytest.approx(1.0, abs=0.5)  # the fourth moment of small shapes is large


def weibull(eta, shape):
    """Return the law of durations with the scale exp(eta)."""
    return stats.weibull_min(shape, scale=np.exp(eta))


def beta(eta, shape):
    """Return the law of shares with the log odds eta of their mean."""
    return stats.beta(shape * expit(eta), shape * expit(-eta))


@pytest.mark.parametrize(
    ("regression", "law", "name"),
    [(amc.targets.WeibullRegression, weibull, "alpha"), (amc.targets.BetaRegression, beta, "phi")],
)
def test_predictions_use_the_shape_of_their_draw(regression, law, name, table, rng):
    """Values of the distribution function at drawn responses are uniform: |z| < 5, false-fail rate 6e-7."""
    target = regression(table, rng.uniform(0.1, 0.9, size=60), intercept=True)
    trace = trace_of(target, rng)
    trace["posterior"][name] = 1.0 + trace["posterior"][name]  # means of Weibull laws with shapes near 0 are infinite
    new = new_rows(rng)
    of_rows = law(written_out(trace, new), trace["posterior"][name].values[:, :, None])
    means = amc.predict(trace, target, new)["predictions"]["y_mean"]
    np.testing.assert_allclose(means, of_rows.mean(), rtol=1e-8)
    drawn = amc.predict(trace, target, new, kind="response", random_seed=4)["predictions"]["y"]
    uniform = of_rows.cdf(drawn.values)
    assert abs(uniform.mean() - 0.5) < 5.0 / np.sqrt(12.0 * uniform.size)
    assert abs((uniform**2).mean() - 1.0 / 3.0) < 5.0 * np.sqrt(4.0 / 45.0 / uniform.size)


def test_binomial_rows_need_their_trials(table, rng):
    trials = np.full(60, 8)
    target = amc.targets.BinomialRegression(table, rng.binomial(8, 0.4, size=60), trials=trials)
    trace = trace_of(target, rng)
    with pytest.raises(InvalidInputError, match="the new rows need trials="):
        amc.predict(trace, target, new_rows(rng))
    double, single = (
        amc.predict(trace, target, new_rows(np.random.default_rng(1)), trials=np.full(7, k))["predictions"]["y_mean"]
        for k in (2, 1)
    )
    np.testing.assert_allclose(double, 2.0 * single)


def test_posterior_predictive_is_what_arviz_checks(rng):
    target = amc.targets.LinearRegression(np.ones((20, 1)), np.arange(20.0), prior_scale=10.0)
    trace = amc.sample(target, draws=60, chains=2, random_seed=1, progressbar=False)
    tree = amc.posterior_predictive(trace, target, random_seed=1)
    assert tree["posterior_predictive"]["y"].dims == ("chain", "draw", *tree["observed_data"]["y"].dims)
    assert float(tree["posterior_predictive"]["y"].mean()) == pytest.approx(9.5, abs=1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda new: new.drop(columns="age"), r"lack the columns \['age'\]"),
        (lambda new: new.assign(kind="violet"), r"column 'kind' of the new rows has 'violet' in row 0, which no row"),
        (lambda new: new.assign(kind=[None, *new["kind"][1:]]), r"column 'kind' of the new rows has 1 missing value"),
        (lambda new: new.assign(age=[np.nan, *new["age"][1:]]), r"the new rows"),
        (lambda new: new.to_numpy()[:, :2], "give a table with these names"),
        (lambda new: new.iloc[:0], "empty table"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(table, rng, change, message):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    with pytest.raises(InvalidInputError, match=message):
        amc.predict(trace_of(target, rng), target, change(new_rows(rng)))


def test_arguments_that_cannot_be_used_are_refused(table, rng, monkeypatch):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    trace = trace_of(target, rng)
    for arguments, message in (
        ({"kind": "odds"}, "kind must be one of"),
        ({"interval": 1.5}, "interval must be a probability"),
        ({"draws": 0}, "draws must be positive"),
        ({"offset": np.ones(60)}, "these rows take no offset"),
        ({"rows": table, "exposure": np.ones(60)}, "these rows take no exposure"),
        ({"rows": table, "offset": np.ones(3)}, "offset must hold 60 numbers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            amc.predict(trace, target, **arguments)
    from approxmcmc import prediction

    monkeypatch.setattr(prediction, "LARGEST", 1000)
    with pytest.raises(InvalidInputError, match=r"60 numbers at each of 300 draws .* give interval=0.94"):
        amc.predict(trace, target)


def test_drawn_classes_have_no_interval_and_weighted_draws_are_refused(rng):
    target = amc.targets.SoftmaxRegression(rng.normal(size=(30, 2)), np.arange(30) % 3)
    trace = trace_of(target, rng)
    with pytest.raises(InvalidInputError, match="drawn classes have no mean and no interval"):
        amc.predict(trace, target, kind="response", interval=0.9)
    weights = xr.Dataset({"weight": (("chain", "draw"), np.ones((CHAINS, DRAWS)))})
    weighted = xr.DataTree.from_dict({"posterior": trace["posterior"].to_dataset(), "sample_stats": weights})
    with pytest.raises(InvalidInputError, match="carry weights, which predict would ignore"):
        amc.predict(weighted, target)


def test_targets_that_cannot_predict_say_what_can(rng):
    target = normal_mean()
    with pytest.raises(IncompatibleError, match="does not know how its rows come about"):
        amc.predict(None, target)


def test_a_probit_is_the_normal_distribution_function(rng):
    from approxmcmc.families.bernoulli import PROBIT

    eta = rng.normal(size=9)
    np.testing.assert_allclose(PROBIT.mean(eta, np.ones(9), 1.0), ndtr(eta))


def log_poisson(eta, y):
    return y * eta - np.exp(eta)


def log_normal(mean, log_scale, y):
    return -log_scale - 0.5 * ((y - mean) * np.exp(-log_scale)) ** 2


def draw_normal(rng, mean, log_scale):
    return mean + np.exp(log_scale) * rng.normal(size=mean.shape)


def normal_with_groups(table, y, **functions):
    labels = {"dims": {"beta": "coef"}, "coords": {"coef": ["age"]}, "offsets": {"mean": table["dose"]}}
    return amc.targets.PredictorTarget(log_normal, designs_of(table), y, **labels, **functions)


def designs_of(table):
    kinds = pd.Categorical(table["kind"], categories=KINDS)
    return {"mean": {"beta": table[["age"]].to_numpy(), "kind": kinds}, "log_scale": {"log_sigma": 0.5}}


def test_a_function_of_the_users_predicts_as_the_family_it_is(table, rng):
    y = rng.poisson(2.0, size=60)
    functions = {"mean": np.exp, "simulate": lambda rng, eta: rng.poisson(np.exp(eta))}
    ours = amc.targets.PoissonRegression(table, y, intercept=True)
    theirs = amc.targets.GLMTarget(log_poisson, table, y, intercept=True, **functions)
    trace = trace_of(ours, rng)
    new = new_rows(rng)
    for kind in ("predictor", "mean", "response"):
        settings = {"kind": kind, "offset": np.linspace(-1.0, 1.0, 7), "random_seed": 3}
        expected = amc.predict(trace, ours, new, **settings).predictions
        xr.testing.assert_allclose(amc.predict(trace, theirs, new, **settings).predictions, expected)


def test_several_predictors_of_the_users_are_predicted(table, rng):
    target = normal_with_groups(table, rng.normal(size=60), mean=lambda mean, log_scale: mean, simulate=draw_normal)
    trace = trace_of(target, rng)
    new = new_rows(rng)
    posterior = trace["posterior"].to_dataset()
    beta, effects, scale = (posterior[name].to_numpy() for name in ("beta", "kind", "log_sigma"))
    known = np.linspace(0.0, 1.0, 7)
    mean = beta * new["age"].to_numpy() + effects[..., [0, 2, 2, 1, 0, 1, 2]] + known
    settings = {"offsets": {"mean": known}, "random_seed": 1}
    predictors = amc.predict(trace, target, designs_of(new), kind="predictor", **settings).predictions["y_predictor"]
    assert predictors["predictor"].values.tolist() == ["mean", "log_scale"]
    np.testing.assert_allclose(predictors.sel(predictor="mean"), mean, rtol=1e-12)
    np.testing.assert_allclose(predictors.sel(predictor="log_scale"), np.repeat(0.5 * scale[..., None], 7, 2))
    np.testing.assert_allclose(amc.predict(trace, target, designs_of(new), **settings).predictions["y_mean"], mean)
    drawn = amc.predict(trace, target, designs_of(new), kind="response", **settings).predictions["y"]
    errors = (drawn.to_numpy() - mean) / np.exp(0.5 * scale[..., None])
    assert stats.kstest(errors.ravel(), "norm").pvalue > 1e-6
    own = amc.predict(trace, target).posterior_predictive["y_mean"]
    again = amc.predict(trace, target, designs_of(table), offsets={"mean": table["dose"]}).predictions["y_mean"]
    np.testing.assert_array_equal(own, again)


def test_what_a_users_model_needs_to_predict_is_named(table, rng):
    bare = normal_with_groups(table, rng.normal(size=60))
    trace = trace_of(bare, rng)
    assert "y_predictor" in amc.predict(trace, bare, kind="predictor").posterior_predictive
    with pytest.raises(IncompatibleError, match="give it mean="):
        amc.predict(trace, bare)
    with pytest.raises(IncompatibleError, match="give it simulate="):
        amc.posterior_predictive(trace, bare)
    wrong = normal_with_groups(table, rng.normal(size=60), mean=lambda mean, log_scale: mean[0])
    with pytest.raises(InvalidInputError, match="mean must return an array with the shape of the predictors"):
        amc.predict(trace, wrong)
    with pytest.raises(InvalidInputError, match="simulate must be a function"):
        normal_with_groups(table, rng.normal(size=60), simulate=3)
    with pytest.raises(InvalidInputError, match="must map each predictor to its variables"):
        amc.predict(trace, bare, table, kind="predictor")
    other = {**designs_of(table), "log_scale": {"another": 1.0}}
    with pytest.raises(InvalidInputError, match="the new rows need the predictors, variables"):
        amc.predict(trace, bare, other, kind="predictor")
    unknown = designs_of(table)
    unknown["mean"]["kind"] = pd.Categorical(np.repeat("purple", 60))
    with pytest.raises(InvalidInputError, match="the new rows need the predictors, variables"):
        amc.predict(trace, bare, unknown, kind="predictor")


# --- predictions as estimands ---


def test_a_prediction_is_an_estimand(table, rng):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    traces = [trace_of(target, rng) for _ in range(3)]
    new = new_rows(rng)
    by_hand = {"chance": lambda posterior: expit(written_out({"posterior": posterior}, new)).rename(row="y_dim_0")}
    options = {"n_bootstrap": 5, "random_seed": 1, "clock": 1.0}
    found = amc.risk(traces[:2], traces[2], estimands={"chance": amc.predicted(target, new)}, **options)
    expected = amc.risk(traces[:2], traces[2], estimands=by_hand, **options)
    np.testing.assert_allclose(found["risk"], expected["risk"], rtol=1e-9)
    assert [str(label) for label in found["estimand"].values][1] == "chance[10]"  # the index of the table
    lazily = amc.predicted(lambda: target, new)(traces[0]["posterior"].to_dataset())
    np.testing.assert_array_equal(lazily, amc.predict(traces[0], target, new).predictions["y_mean"])


def test_the_bias_of_a_prediction_is_that_of_the_function_written_by_hand(rng):
    table = np.array([[2.0], [0.5]])
    linear = amc.LinearRegression(np.ones((30, 1)), rng.normal(size=30), sigma=1.0)
    walk = amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest())
    trace = amc.sample(linear, walk, draws=200, chains=2, random_seed=1, progressbar=False)
    options = {"n_audits": 8, "random_seed": 1}

    def by_hand(posterior):
        return posterior["beta"].isel(coef=0) * xr.DataArray(table[:, 0], dims="y_dim_0")

    found = amc.bias(trace, linear, walk, {"mean": amc.predicted(linear, table)}, **options)
    expected = amc.bias(trace, linear, walk, {"mean": by_hand}, **options)
    np.testing.assert_allclose(found["bias"], expected["bias"], rtol=1e-9)


def test_a_study_knows_a_prediction_by_its_content(table):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2, intercept=True)
    again = amc.targets.LogisticRegression(table.copy(), np.arange(60) % 2, intercept=True)
    same, changed = table.iloc[:3].copy(), table.iloc[:3].assign(age=0.0)
    first = function_id(amc.predicted(target, table.iloc[:3]))
    assert first == function_id(amc.predicted(again, same))
    assert first != function_id(amc.predicted(target, changed))
    assert first != function_id(amc.predicted(target, same, kind="predictor"))


def test_what_is_no_function_of_theta_is_no_estimand(table, rng):
    target = amc.targets.LogisticRegression(table, np.arange(60) % 2)
    with pytest.raises(InvalidInputError, match="kind must be 'mean' or 'predictor', found 'response'"):
        amc.predicted(target, kind="response")
    groups = amc.targets.NormalGroups(np.ones((6, 1)), rng.normal(size=6), np.arange(6) // 2)
    with pytest.raises(IncompatibleError, match="draws effects of groups for a prediction, so it is no function"):
        amc.predicted(groups, np.ones((1, 1)), groups=[0])(trace_of(groups, rng)["posterior"].to_dataset())
