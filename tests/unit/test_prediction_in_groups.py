"""Predictions of rows in groups: old groups against the law of their effect given the rows, new ones against the prior.

The draws of a trace are all equal here, so that a mean over draws is an integral over effects with a known value.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

import approxmcmc as amc
from approxmcmc import prediction
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets import GroupedTarget, NormalGroups
from approxmcmc.targets.groups import predictive

N_DRAWS = 3000
LARGEST_Z = 5.0  # a false fail in 1.7e6 means; with 3000 draws a shift of 0.2 standard deviations is z = 11
TOWNS = np.array(["Ulm", "Bonn", "Kiel", "Ulm", "Bonn", "Ulm", "Kiel", "Ulm", "Bonn"])


def trace_at(target, values, n_draws=N_DRAWS):
    """Return a trace whose draws all have these values of the variables."""
    data = {
        name: (
            ("chain", "draw", *target.variables.dims.get(name, ())),
            np.tile(np.asarray(value, dtype=float), (1, n_draws, *[1] * np.ndim(value))),
        )
        for name, value in values.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data, {"chain": [0], "draw": np.arange(n_draws)})})


def check_mean(draws, expected, sd):
    """Check the mean of independent draws, and that the check rejects a mean that is a fifth of `sd` away."""
    standard_error = sd / np.sqrt(len(draws))
    assert abs(draws.mean() - expected) < LARGEST_Z * standard_error
    assert 0.2 * sd > 2.0 * LARGEST_Z * standard_error


class NormalCase(NamedTuple):
    """Normal rows with an intercept and a slope for each town; the trace is at `values`."""

    table: pd.DataFrame
    slopes: np.ndarray
    y: np.ndarray
    target: NormalGroups
    values: dict

    @property
    def fixed(self):
        """The predictors without effects: an intercept, x, and 1 for the kind b."""
        return 0.5 - 1.0 * self.table["x"].to_numpy() + 0.8 * (self.table["kind"] == "b").to_numpy()

    def law_of_effects(self, town):
        """Return mean and covariance of a town's effects given its rows, by the formulas of normal vectors."""
        prior = self.values["effect_cov"]
        rows = town == TOWNS
        Z = np.column_stack([np.ones(rows.sum()), self.slopes[rows]])
        noise = self.values["noise"] ** 2 * np.eye(rows.sum())
        gain = prior @ Z.T @ np.linalg.inv(Z @ prior @ Z.T + noise)
        return gain @ (self.y - self.fixed)[rows], prior - gain @ Z @ prior


@pytest.fixture
def normal(rng):
    table = pd.DataFrame({"x": rng.normal(size=9), "kind": np.array(["a", "b", "b"])[np.arange(9) % 3]})
    slopes = rng.normal(size=9)
    y = 2.0 + rng.normal(size=9)
    target = NormalGroups(table, y, TOWNS, slopes=slopes, intercept=True)
    covariance = np.array([[1.0, 0.3], [0.3, 0.5]])
    return NormalCase(table, slopes, y, target, {"beta": [0.5, -1.0, 0.8], "effect_cov": covariance, "noise": 0.6})


def test_normal_predictions_have_the_moments_of_their_closed_form(normal):
    new = pd.DataFrame({"kind": ["b", "a", "b"], "x": [0.2, -1.0, 2.0]}, index=["p", "q", "r"])
    slopes = np.array([0.7, -0.3, 1.5])
    towns = ["Ulm", "Hof", "Kiel"]  # no row of the target is in Hof
    fixed = [0.5 - 0.2 + 0.8, 0.5 + 1.0, 0.5 - 2.0 + 0.8]
    options = {"groups": towns, "slopes": slopes, "random_seed": 3}
    trace = trace_at(normal.target, normal.values)
    predicted = amc.predict(trace, normal.target, new, kind="predictor", **options).predictions
    for row, town in enumerate(towns):
        mean, covariance = normal.law_of_effects(town)
        factors = np.array([1.0, slopes[row]])
        sd = np.sqrt(factors @ covariance @ factors)
        draws = predicted["y_predictor"].values[0, :, row]
        check_mean(draws, fixed[row] + factors @ mean, sd)
        assert draws.std() == pytest.approx(sd, rel=0.065)  # five standard errors: sd / sqrt(2 N) is 1.3 %
    assert predicted.attrs["new_groups"] == ["Hof"]
    assert predicted["y_dim_0"].values.tolist() == ["p", "q", "r"]
    responses = amc.predict(trace, normal.target, new, kind="response", **options).predictions["y"]
    noise = (responses - predicted["y_predictor"]).values.ravel()  # the effects of both calls are equal
    check_mean(noise, 0.0, 0.6)
    assert noise.std() == pytest.approx(0.6, rel=0.04)


def law_by_grid(y, fixed, sigma):
    """Return a grid of the effect of a group of binary rows, and its probabilities given the rows."""
    effects = np.linspace(-8.0 * sigma, 8.0 * sigma, 4001)
    log_density = stats.norm.logpdf(effects, scale=sigma)
    for response, predictor in zip(y, fixed, strict=True):
        log_density = log_density + stats.bernoulli.logpmf(response, expit(predictor + effects))
    weights = np.exp(log_density - log_density.max())
    return effects, weights / weights.sum()


def test_probabilities_by_quadrature_are_integrals_over_effects(rng):
    X = rng.normal(size=(9, 1))
    y = np.array([1, 0, 1, 1, 0, 1, 0, 1, 0])
    offset = 0.3 * rng.normal(size=9)
    target = GroupedTarget(X, y, TOWNS, family="logit", at=[0.4, 1.0], n_nodes=8, offset=offset)
    trace = trace_at(target, {"beta": [0.4], "sigma": 1.3})
    towns = ["Bonn", "Hof"]
    predicted = amc.predict(trace, target, [[1.0], [-0.5]], groups=towns, offset=[0.0, 1.0], random_seed=4)
    for row, (town, predictor) in enumerate(zip(towns, [0.4, 0.8], strict=True)):
        rows = town == TOWNS
        effects, weights = law_by_grid(y[rows], 0.4 * X[rows, 0] + offset[rows], 1.3)
        probability = expit(predictor + effects)
        mean = probability @ weights
        check_mean(
            predicted.predictions["y_mean"].values[0, :, row], mean, np.sqrt((probability - mean) ** 2 @ weights)
        )


@pytest.mark.parametrize(
    ("family", "y", "settings"),
    [
        ("binomial", [1, 0, 3, 2, 0, 1, 0, 4, 0], {"trials": np.array([2, 1, 3, 2, 1, 2, 1, 4, 2])}),
        ("negative binomial", [1, 0, 3, 2, 0, 1, 0, 4, 0], {}),
        ("gamma", [1.0, 0.2, 3.0, 2.0, 0.4, 1.0, 0.5, 4.0, 0.1], {"shape": 2.0}),
    ],
)
def test_the_targets_own_rows_are_the_same_rows_given_again(family, y, settings, rng):
    table = pd.DataFrame({"x": rng.normal(size=9), "kind": np.array(["a", "b", "b"])[np.arange(9) % 3]})
    offset = rng.normal(size=9)
    at = [0.1, 0.2, -0.1, 0.5, *([0.3] if family == "negative binomial" else [])]
    target = GroupedTarget(table, y, TOWNS, family=family, intercept=True, offset=offset, at=at, n_nodes=8, **settings)
    values = {"beta": at[:3], "sigma": 0.5, **({"shape": 1.5} if len(at) > 4 else {})}
    trace = trace_at(target, values, 20)
    sizes = {name: value for name, value in settings.items() if name == "trials"}
    for kind in ("mean", "response"):
        own = amc.predict(trace, target, kind=kind, random_seed=5).posterior_predictive
        again = amc.predict(trace, target, table, kind=kind, groups=TOWNS, offset=offset, random_seed=5, **sizes)
        [name] = own.data_vars
        np.testing.assert_allclose(own[name], again.predictions[name], rtol=1e-12)
    shuffled = np.arange(9)[::-1]
    backwards = {name: value[shuffled] for name, value in {"groups": TOWNS, "offset": offset, **sizes}.items()}
    reversed_rows = amc.predict(trace, target, table.iloc[shuffled], kind="mean", random_seed=5, **backwards)
    own = amc.predict(trace, target, random_seed=5).posterior_predictive["y_mean"]
    np.testing.assert_allclose(reversed_rows.predictions["y_mean"], own.values[..., shuffled], rtol=1e-12)
    np.testing.assert_array_equal(target.observed_data["y"], y)


def test_a_group_has_one_effect_at_each_draw_and_threads_change_nothing(normal, monkeypatch):
    trace = trace_at(normal.target, normal.values, 40)
    rows = pd.DataFrame({"x": np.zeros(6), "kind": "a"})
    columns = {"groups": ["Hof", "Ulm", "Hof", "Ulm", "Rom", "Bonn"], "slopes": np.ones(6)}
    effects = amc.predict(trace, normal.target, rows, random_seed=6, **columns).predictions["y_mean"].values
    np.testing.assert_array_equal(effects[..., 0], effects[..., 2])
    np.testing.assert_array_equal(effects[..., 1], effects[..., 3])
    assert (effects[..., 0] != effects[..., 4]).all()
    monkeypatch.setattr(prediction, "NUMBERS", 80)  # two rows in a block
    monkeypatch.setattr(predictive, "NUMBERS", 40)  # one group in a block
    one_thread, two_threads = (
        amc.predict(trace, normal.target, rows, random_seed=6, cores=cores, **columns).predictions["y_mean"].values
        for cores in (1, 2)
    )
    np.testing.assert_array_equal(one_thread, two_threads)
    monkeypatch.setattr(predictive, "LARGEST", 100)
    with pytest.raises(InvalidInputError, match=r"the effects of 4 groups at 40 draws take 0.0 GiB; give draws=100"):
        amc.predict(trace, normal.target, rows, **columns)


def test_weights_and_known_errors_scale_the_noise_of_new_rows(rng):
    target = NormalGroups(np.ones((9, 1)), rng.normal(size=9), TOWNS, errors=np.full(9, 0.5))
    trace = trace_at(target, {"beta": [0.0], "sigma": 1e-9})
    options = {"kind": "response", "groups": ["Ulm", "Ulm"], "random_seed": 7}
    y = amc.predict(trace, target, np.ones((2, 1)), errors=[0.5, 2.0], **options).predictions["y"]
    np.testing.assert_allclose(y.std("draw").values[0], [0.5, 2.0], rtol=0.065)
    weighted = NormalGroups(np.ones((9, 1)), rng.normal(size=9), TOWNS, weights=np.arange(1.0, 10.0))
    trace = trace_at(weighted, {"beta": [0.0], "sigma": 1e-9, "noise": 2.0})
    y = amc.predict(trace, weighted, np.ones((2, 1)), weights=[1.0, 4.0], **options).predictions["y"]
    np.testing.assert_allclose(y.std("draw").values[0], [2.0, 1.0], rtol=0.065)


def test_rows_in_groups_that_do_not_fit_are_refused_by_name(normal, rng):
    trace = trace_at(normal.target, normal.values, 3)
    row = normal.table.iloc[:1]
    for columns, message in (
        ({"slopes": [0.0]}, "need groups=, the label of each row's group; a label that no row"),
        ({"groups": ["Ulm"]}, "have slopes, so the new rows need slopes="),
        ({"groups": ["Ulm"], "slopes": [0.0], "errors": [1.0]}, "have no errors"),
        ({"groups": ["Ulm"], "slopes": [0.0, 1.0]}, r"slopes must have the shape \(1, 1\)"),
        ({"groups": ["Ulm"], "slopes": [0.0], "trials": [1.0]}, "take no trials"),
        (
            {"groups": [7], "slopes": [0.0]},
            r"groups of the new rows are \[7\] .*never equal to numbers",
        ),
        ({"groups": [None], "slopes": [0.0]}, "missing label None in row 0"),
        ({"groups": ["Ulm", "Ulm"], "slopes": [0.0]}, "label of each row's group, shape"),
        ({"groups": ["Ulm"], "slopes": [0.0], "offset": [1.0, 2.0]}, "offset must hold 1 numbers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            amc.predict(trace, normal.target, row, **columns)
    with pytest.raises(InvalidInputError, match="'c' in row 0, which no row of the target had"):
        amc.predict(trace, normal.target, row.assign(kind="c"), groups=["Ulm"], slopes=[0.0])
    with pytest.raises(IncompatibleError, match="not the rows; give them: rows=X, groups=groups"):
        amc.predict(trace, normal.target)
    ones = np.ones(9)
    settings = {"family": "binomial", "trials": ones, "weights": ones, "at": [0.0, 1.0], "n_nodes": 8}
    counts = GroupedTarget(np.ones((9, 1)), ones, TOWNS, **settings)
    trace = trace_at(counts, {"beta": [0.0], "sigma": 1.0}, 3)
    with pytest.raises(InvalidInputError, match="trials= goes with family='binomial'"):
        amc.predict(trace, counts, [[1.0]], groups=["Ulm"])
    with pytest.raises(IncompatibleError, match="rows with weights are stored with their weights"):
        amc.predict(trace, counts)
