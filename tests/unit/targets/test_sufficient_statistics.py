"""Normal rows through sufficient statistics: terms, slopes and bends against those of the rows, summed exactly."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.numerics import laplace
from approxmcmc.targets import LinearRegression, compressed
from approxmcmc.targets.statistics import least_squares
from approxmcmc.targets.statistics.target import NormalStatistics

N = 3000
rng = np.random.default_rng(5)
X = rng.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.7 * rng.normal(size=N)
WEIGHTS = rng.uniform(0.1, 9.0, N)
RARE = (np.arange(N) == 1234).astype(float)
NEAR = X[:, 0] + 1e-5 * X[:, 1]
CASES = {
    "plain": (X, Y, {}),
    "float32": (X.astype(np.float32), Y, {}),
    "known scale": (X, Y, {"sigma": 0.7}),
    "weights": (X, Y, {"weights": WEIGHTS, "intercept": True}),
    "large offset": (X, Y + 1e6, {"intercept": True}),
    "large columns": (X + 1e4, Y, {"intercept": True}),
    "scales apart": (X * [1.0, 1e-4, 1e5], Y, {}),
    "nearly collinear": (np.column_stack([X[:, 0], NEAR]), Y, {}),
    "collinear": (np.column_stack([X, X @ [1.0, 1.0, 0.0]]), Y, {}),
    "nothing in a column": (np.column_stack([X, np.zeros(N)]), Y, {}),
    "one rare row": (np.column_stack([X, RARE]), Y + 1e4 * RARE, {}),
    "two outcomes": (X, np.column_stack([Y, 1e3 - Y]), {"intercept": True}),
    "one row": (X[:1], Y[:1], {}),
}


def model(case):
    X, y, settings = CASES[case]
    return LinearRegression(X, y, **settings)


def total(target, theta):
    """Return the log-likelihood, its terms added up without error."""
    compiled = target.compile()
    return math.fsum(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs))


def places(target):
    """Yield the fit, points near and far from it, and the origin."""
    at = target.initial_point()
    for size in (0.0, 1e-3, 0.1, 1.0):
        yield at + size * np.random.default_rng(1).normal(size=at.size)
    yield np.zeros(at.size)


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_the_likelihood_is_that_of_the_rows(case):
    target = model(case)
    for theta in places(target):
        assert total(target, theta) == pytest.approx(total(target.plain, theta), rel=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_slopes_and_bends_are_those_of_the_rows(case):
    target = model(case)
    theta = target.initial_point() + 0.01 * np.random.default_rng(2).normal(size=target.variables.size)
    here, rows = (Posterior(one).expansion.at(theta) for one in (target, target.plain))
    size = np.sqrt(np.abs(np.diag(rows.hessian)))
    size[size == 0.0] = 1.0
    assert here.value == pytest.approx(rows.value, rel=1e-10)
    assert here.gradient / size == pytest.approx(rows.gradient / size, rel=1e-8, abs=1e-8 * N)
    units = np.outer(size, size)
    assert here.hessian / units == pytest.approx(rows.hessian / units, rel=1e-8, abs=1e-8)
    gradient = full_gradient(target.compile_gradient(), theta)
    assert gradient / size == pytest.approx(here.gradient / size, rel=1e-9, abs=1e-9 * N)


def test_sums_of_squares_that_are_not_centred_would_be_told():
    """Planted: y'y - 2 y'X beta + beta'X'X beta, in which digits cancel, misses the rows by far more than allowed."""
    X, y, _ = CASES["large offset"]
    A = np.column_stack([np.ones(N), X])
    target = model("large offset")
    theta = target.initial_point()
    beta, sigma = theta[:-1], math.exp(theta[-1])
    squares = y @ y - 2.0 * beta @ (A.T @ y) + beta @ (A.T @ A) @ beta
    naive = -N * (math.log(sigma) + 0.5 * math.log(2.0 * math.pi)) - 0.5 * squares / sigma**2
    assert abs(naive - total(target.plain, theta)) > 1e-8 * abs(naive)


def _ignorant(rows, n_rows, p):
    return least_squares.Basis(np.eye(p), np.eye(p), np.zeros(p))


def test_a_first_fit_that_misleads_is_made_good_by_a_second_pass(monkeypatch):
    """As of some rows that know nothing of the offset: one pass from there loses the digits that the offset takes."""
    monkeypatch.setattr(least_squares, "_of_some_rows", _ignorant)
    target = model("large offset")
    assert target.passes == 2
    theta = target.initial_point()
    assert total(target, theta) == pytest.approx(total(target.plain, theta), rel=1e-10)
    monkeypatch.setattr(least_squares, "MOST_PASSES", 1)
    assert total(model("large offset"), theta) != pytest.approx(total(target.plain, theta), rel=1e-10)


def test_least_squares_of_integers_are_exact_fractions():
    """y = 0, 1, 4, 9 on 1 and t = 0 ... 3: slope 3, intercept -1, squares left 4."""
    t = np.arange(4.0)
    A = np.column_stack([np.ones(4), t])
    found = least_squares.least_squares(lambda lo, hi: (A[lo:hi], t[lo:hi] ** 2, np.ones(hi - lo)), 4, 2)
    assert found.center == pytest.approx([-1.0, 3.0], abs=1e-13)
    assert found.squares == pytest.approx(float(Fraction(4)), rel=1e-13)
    assert found.root.T @ found.root == pytest.approx(A.T @ A, rel=1e-13)


def test_the_posterior_of_a_known_scale_is_the_conjugate_one():
    found = laplace(LinearRegression(X, Y, sigma=0.7, prior_scale=2.0))
    precision = X.T @ X / 0.7**2 + np.eye(3) / 4.0
    assert found.cov == pytest.approx(np.linalg.inv(precision), rel=1e-9)
    assert found.mode == pytest.approx(np.linalg.solve(precision, X.T @ Y / 0.7**2), rel=1e-9)


@pytest.mark.thorough
def test_no_row_is_read_and_the_rows_are_kept():
    target = LinearRegression(X, Y)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.ExactTest())
    trace = amc.sample(target, sampler, draws=200, tune=100, chains=2, random_seed=1, progressbar=False)
    stats, attrs = trace.sample_stats, trace.posterior.attrs
    assert stats.datapoints_touched.sum() == 0 and sum(attrs["tuning_datapoints_touched"]) == 0
    assert stats.likelihood_evaluations.sum() > 0
    assert attrs["n_rows"] == N and "read" in attrs["compression"]
    assert trace.observed_data.y.to_numpy() == pytest.approx(Y)
    assert trace.constant_data.X.shape == (N, 3)
    assert amc.log_likelihood(trace, target).log_likelihood.terms.sizes["row"] == N
    assert amc.loo_subsample(trace, target, observations=20, seed=1).n_data_points == N


def test_scales_are_reported_and_names_are_those_of_the_columns():
    target = LinearRegression(X, np.column_stack([Y, Y]), coef_names=["a", "b", "c"])
    assert target.variables.labels()[:2] == ["beta[a, 0]", "beta[a, 1]"]
    assert target.variables.labels()[-1] == "log_sigma[1]"
    theta = np.arange(8.0) / 8.0
    values = target.variables.unpack(theta)
    assert values["sigma"] == pytest.approx(np.exp(theta[-2:]))
    assert target.variables.pack(values) == pytest.approx(theta)
    assert target.variables.pack_draws({name: one[None, None] for name, one in values.items()})[0, 0] == pytest.approx(
        theta
    )


def test_sources_are_read_in_blocks(tmp_path):
    whole = np.column_stack([X, Y])
    np.save(tmp_path / "rows.npy", whole)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    given = LinearRegression(amc.sources.Arrays(mapped[:, :3]), amc.sources.Arrays(mapped[:, 3]))
    kept = LinearRegression(X, Y)
    for one, other in zip(given.data, kept.data, strict=True):
        assert one == pytest.approx(other, rel=1e-12)


def test_other_laws_keep_their_rows():
    logistic = amc.targets.LogisticRegression(X, Y > 0)
    assert compressed(logistic) is logistic
    with pytest.raises(IncompatibleError, match="needs rows that are normal"):
        NormalStatistics(logistic)
    rows = LinearRegression(X, Y).plain
    assert isinstance(compressed(rows), NormalStatistics)
    statistics = compressed(rows)
    assert compressed(statistics) is statistics


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": math.inf}, "sigma must be positive"),
        ({"sigma_scale": -1.0}, "sigma_scale must be positive"),
        ({"prior_scale": 0.0}, "prior_scale must be positive"),
        ({"weights": np.zeros(N)}, "weights must be 3000 positive numbers"),
        ({"weights": np.ones(4)}, "weights must be 3000 positive numbers"),
    ],
)
def test_what_cannot_be_is_refused(settings, says):
    with pytest.raises(InvalidInputError, match=says):
        LinearRegression(X, Y, **settings)


@pytest.mark.parametrize("y", [np.zeros((N, 2, 2)), np.zeros((N, 0)), np.zeros(N - 1), 1.0])
def test_outcomes_of_other_shapes_are_refused(y):
    with pytest.raises(InvalidInputError, match="y"):
        LinearRegression(X, y)


TABLE = pd.DataFrame({"x": X[:60, 0], "kind": np.array(["a", "b", "c"])[np.arange(60) % 3]})
OFFSET = np.linspace(-1.0, 2.0, 60)
TWINS = {
    "unknown scale": lambda: LinearRegression(X[:60], Y[:60], prior_scale=2.0, sigma_scale=0.6, intercept=True),
    "known scale": lambda: LinearRegression(X[:60], Y[:60], sigma=0.7),
    "table, offset and weights": lambda: LinearRegression(TABLE, Y[:60], offset=OFFSET, weights=WEIGHTS[:60]),
    "two outcomes": lambda: LinearRegression(X[:60], np.column_stack([Y, 1.0 - Y])[:60], offset=OFFSET),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TWINS)
def test_the_twin_of_pymc_has_the_same_density(name):
    target = TWINS[name]()
    density = target.to_pymc().compile_logp(mode="FAST_COMPILE", jacobian=True)
    log_prior = target.compile().log_prior
    values = []
    for theta in 0.5 * np.random.default_rng(3).normal(size=(2, target.variables.size)):
        point = {name: value[0] for name, value in target.variables.unpack(theta[None]).items()}
        if "sigma" in point:
            point["sigma_log__"] = np.log(point.pop("sigma"))
        values.append((total(target, theta) + log_prior(theta), float(density(point))))
    assert values[0][0] - values[1][0] == pytest.approx(values[0][1] - values[1][1], rel=1e-9)


def test_a_prior_given_as_a_function_has_no_twin():
    with pytest.raises(IncompatibleError, match="a prior given as a function has no PyMC twin"):
        LinearRegression(X[:60], Y[:60], prior=lambda theta: 0.0).to_pymc()


def test_an_offset_is_a_part_of_the_mean():
    """Rows with an offset are rows with it taken off the outcome; predictions add it."""
    shifted = LinearRegression(X[:60], Y[:60] + OFFSET, offset=OFFSET)
    plain = LinearRegression(X[:60], Y[:60])
    theta = np.array([0.3, -1.0, 0.2, -0.4])
    assert total(shifted, theta) == pytest.approx(total(plain, theta), rel=1e-12)
    rows = shifted.rows_to_predict(X[:5], offset=OFFSET[:5])
    means = rows.means(rows.predictors(theta[None], slice(0, 5)), slice(0, 5))
    np.testing.assert_allclose(means[:, 0], X[:5] @ theta[:3] + OFFSET[:5], rtol=1e-12)
    with pytest.raises(InvalidInputError, match="offset must hold 60 numbers"):
        LinearRegression(X[:60], Y[:60], offset=OFFSET[:3])
