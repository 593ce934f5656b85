"""Bounds of residuals of rows with several predictors: no residual changes more between two states than they say."""

import itertools

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion import bounds
from approxmcmc.families import GAMMA, NEGATIVE_BINOMIAL, WEIBULL
from approxmcmc.families.beta import BETA
from approxmcmc.targets.predictors.family import ShapeLikelihood
from tests.capabilities import log_normal

N = 120
_rng = np.random.default_rng(8)
X = np.column_stack([np.ones(N), _rng.normal(size=N)])
TABLE = pd.DataFrame({"x": X[:, 1], "town": np.array(["Bern", "Oslo", "Rome"])[np.arange(N) % 3]})
ETA = X @ [0.3, 0.5]
NUMBERS = ETA + _rng.normal(size=N)
WEIGHTS = 1.0 + np.arange(N) % 3
SHAPED = {
    "negative binomial": (amc.NegativeBinomialRegression, NEGATIVE_BINOMIAL),
    "gamma": (amc.GammaRegression, GAMMA),
    "Weibull": (amc.WeibullRegression, WEIBULL),
    "beta": (amc.BetaRegression, BETA),
}
CLASSES = np.digitize(ETA + _rng.logistic(size=N), [-1.0, 0.5, 1.5])


def of_shape(name, **settings):
    """Return a regression with an unknown shape on a table, of responses of the shape 3."""
    regression, family = SHAPED[name]
    y = family.simulate(np.random.default_rng(1), ETA, np.ones(N), 3.0)
    return regression(TABLE, y, intercept=True, **settings)


TARGETS = {
    **{name: lambda name=name: of_shape(name) for name in SHAPED},
    "ordered logit": lambda: amc.OrderedRegression(TABLE, CLASSES),
    "softmax": lambda: amc.SoftmaxRegression(TABLE, CLASSES),
    "normal": lambda: amc.LinearRegression(X, NUMBERS, weights=WEIGHTS).plain,
    "weights": lambda: of_shape("gamma", weights=WEIGHTS),
}


def largest_excess(expanded, target, rng, pairs=24):
    """Return the largest change of a residual over its bound between random states, near and far."""
    bound = expanded.compile_difference_bound()
    compiled = expanded.compile()
    fit = expanded.laplace
    worst = 0.0
    for pair in range(pairs):
        moves = (0.2, 1.0, 2.0)[pair % 3] * rng.normal(size=(2, target.variables.size))
        if pair % 2:
            moves[1] = moves[0] + 0.1 * moves[1]
        here, there = expanded.center + moves @ fit.cholesky.T
        reach = bound.reach(here, there, bound.numbers)
        assert reach == bound.reach(there, here, bound.numbers)
        one, other = (full_terms(compiled.log_terms, at, compiled.data, compiled.n_obs) for at in (here, there))
        if np.isfinite(reach):
            worst = max(worst, float((np.abs(other - one) / (bound.rates * reach)).max()))
    return worst


def expanded(target, order):
    """Return the target with an expansion around its mode."""
    return amc.ControlVariate(target, at=amc.laplace(target), order=order)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", TARGETS)
def test_residuals_stay_within_their_bounds(name, order, rng):
    target = TARGETS[name]()
    excess = largest_excess(expanded(target, order), target, rng)
    assert 0.001 < excess <= 1.0 + 1e-6  # not so loose that a wrong bound would pass


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gamma", "softmax", "ordered logit"])
def test_a_bound_of_the_wrong_order_is_found(name, rng, monkeypatch):
    """Planted: bounds of second derivatives in place of third ones, far from the centre."""
    target = TARGETS[name]()
    right = type(target.likelihood).forms_within

    def wrong(self, order, eta, responses, covariances, radius):
        return 0.02 * right(self, order, eta, responses, covariances, 0.0)

    monkeypatch.setattr(type(target.likelihood), "forms_within", wrong)
    assert largest_excess(expanded(target, 2), target, rng, pairs=60) > 1.0


RANGES = {
    "softmax": {},
    "gamma": {},
    "ordered logit": {},
    "Poisson": {},
    "Poisson, averaged": {"averaged": True},
    "logistic, first order": {"order": 1},
}


@pytest.mark.recompiles
@pytest.mark.parametrize("name", RANGES)
def test_the_range_of_residuals_is_bounded(name, rng):
    """Of a softmax everywhere, of others in a ball around the centre, and outside it is infinite."""
    more = {
        "Poisson": lambda: amc.PoissonRegression(TABLE, np.round(np.exp(ETA)), intercept=True),
        "logistic": lambda: amc.LogisticRegression(TABLE, CLASSES > 1, intercept=True),
    }
    target = {**TARGETS, **more}[name.split(",")[0]]()
    residuals = amc.ControlVariate(target, at=amc.laplace(target), **RANGES[name])
    compiled = residuals.compile()
    ends = residuals.compile_term_range()
    shares = []
    for _ in range(12):
        moves = rng.normal(size=(2, target.variables.size))
        here, there = residuals.center + moves @ residuals.laplace.cholesky.T
        one, other = (full_terms(compiled.log_terms, at, compiled.data, compiled.n_obs) for at in (here, there))
        shares.append(np.ptp(other - one) / ends.term_range(here, there, ends.numbers))
    assert 0.001 < max(shares) <= 1.0
    far = residuals.center + 1e3
    assert (ends.term_range(residuals.center, far, ends.numbers) < np.inf) == (name == "softmax")


def test_functions_without_bounds_are_refused():
    predictors = {"mean": {"beta": X}, "log_scale": {"log_sigma": 1.0}}
    user = amc.targets.PredictorTarget(log_normal, predictors, NUMBERS)
    with pytest.raises(IncompatibleError, match="does not bound its residuals"):
        expanded(user, 2).compile_difference_bound()
    with pytest.raises(IncompatibleError, match="does not bound its terms: that takes a regression of the library"):
        expanded(user, 2).compile_term_range()


def test_bounds_of_one_predictor_are_never_above_those_in_space(rng):
    """P_k of the first is the largest over directions of the path, Q_k adds up the lengths along it."""
    center = rng.normal(size=3)
    units = np.linalg.cholesky(np.cov(rng.normal(size=(3, 10))))
    for weights in ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        one, other = (make(weights, 5.0, center, units) for make in (bounds.reach_along_path, bounds.reach_in_space))
        for _ in range(20):
            here, there = center + rng.normal(size=(2, 3)) @ units.T
            along, in_space = (kernel(here, there, numbers) for kernel, numbers in (one, other))
            assert along <= in_space * (1.0 + 1e-12)
            on_line = center + np.outer([0.7, 1.3], units @ np.ones(3))  # all in one direction: both are equal
            if weights[2]:
                assert one[0](*on_line, one[1]) == pytest.approx(other[0](*on_line, other[1]), rel=1e-9)


@pytest.mark.parametrize("name", SHAPED)
@pytest.mark.parametrize("order", [2, 3])
def test_bounds_far_from_all_data_are_infinite_and_never_nan(name, order):
    """Exponentials of log(shape) overflow from 709 on; such bounds are refused by their size, so they must have one."""
    likelihood = ShapeLikelihood(SHAPED[name][1])
    eta, log_shape, sd, sd_of_log_shape = np.array(
        list(itertools.product([0.0, 800.0, -800.0], [3.0, 705.0, -750.0, 1e4], [0.0, 1.0, 1e150], [0.0, 10.0, np.inf]))
    ).T
    y = np.full(eta.size, 0.5 if name == "beta" else 3.0)
    covariances = np.zeros((eta.size, 2, 2))
    covariances[:, 0, 0] = sd**2
    covariances[:, 1, 1] = sd_of_log_shape**2
    bound = likelihood.forms_within(order, np.stack([eta, log_shape]), (y,), covariances, 1.0)
    assert not np.isnan(bound).any() and (bound >= 0.0).all()
    assert not bound[(sd == 0.0) & (sd_of_log_shape == 0.0)].any()


@pytest.mark.parametrize("log_shape", [20.0, 36.0, 40.0, 200.0, 299.0])
def test_bounds_of_negative_binomials_tend_to_those_of_a_poisson(log_shape):
    """Derivatives in eta of a large shape are those of -exp(eta); 1 - q of its q = 1 rounds to 0 beyond 37."""
    eta = np.array([-3.0, 0.0, 2.0])
    y = np.array([0.0, 1.0, 9.0])
    reach = np.full(3, 0.1)
    largest = np.exp(eta)  # of a box that contains eta
    s = np.full(3, log_shape)
    for order, within in ((2, "second_derivative_within"), (3, "third_derivative_within")):
        in_eta, *_ = NEGATIVE_BINOMIAL.partials_within(order, eta, y, s, reach, reach)
        fixed = getattr(NEGATIVE_BINOMIAL, within)(eta, y, np.ones(3), np.exp(log_shape), reach)
        for bound in (in_eta, fixed):
            assert ((bound >= largest) & (bound <= 2.0 * largest)).all(), (order, bound)
