"""Families of classes, whose rows have several predictors, keep the contract of `test_families`.

The density is SciPy's, derivatives are those of the density at complex predictors, and no derivative in a direction is
larger than its bound; simulated scores have mean zero, and
the twin in PyMC has the same density.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from approxmcmc.targets.predictors.closed_form import ClosedForm, OrderedLikelihood, SoftmaxLikelihood
from tests.contracts.test_families import derivative

K = 4
ORDER = np.empty(0, dtype=np.int64)


def cutpoints(t):
    """Return the cutpoints of t_0 ... t_{K-2}, on the last axis."""
    return t[..., :1] + np.concatenate([np.zeros_like(t[..., :1]), np.cumsum(np.exp(t[..., 1:]), axis=-1)], axis=-1)


def ordered_density(eta, y):
    """Return the log probability of category y, given predictors on the last axis, without differences near 1."""
    edges = np.exp(cutpoints(eta[..., 1:]) - eta[..., :1])
    if y == 0:
        return np.log(edges[..., 0]) - np.log(1.0 + edges[..., 0])
    if y == K - 1:
        return -np.log(1.0 + edges[..., K - 2])
    return np.log(edges[..., y] - edges[..., y - 1]) - np.log(1.0 + edges[..., y]) - np.log(1.0 + edges[..., y - 1])


def softmax_density(eta, y):
    """Return the log probability of class y, given predictors on the last axis."""
    return eta[..., y] - np.log(np.exp(eta).sum(axis=-1))


def observe_ordered(pm, eta, y):
    """Add the twin of ordered categories to a model."""
    t = eta[0, 1:]
    cuts = t[0] + pm.math.concatenate([np.zeros(1), pm.math.cumsum(pm.math.exp(t[1:]))])
    return pm.OrderedLogistic("y", eta=eta[:, 0], cutpoints=cuts, compute_p=False, observed=y)


@dataclasses.dataclass(frozen=True)
class Case:
    """A likelihood of rows, its log density for complex predictors, and by SciPy, and its twin in PyMC."""

    likelihood: ClosedForm
    density: Callable[..., Any]
    probabilities: Callable[..., Any]
    twin: Callable[..., Any]


CASES = {
    "ordered": Case(
        OrderedLikelihood(K),
        ordered_density,
        lambda eta: np.diff([0.0, *stats.logistic.cdf(cutpoints(eta[1:]), loc=eta[0]), 1.0]),
        observe_ordered,
    ),
    "softmax": Case(
        SoftmaxLikelihood(K),
        softmax_density,
        lambda eta: np.exp(eta) / np.exp(eta).sum(),
        lambda pm, eta, y: pm.Categorical("y", logit_p=eta, observed=y),
    ),
}


def rows(rng):
    """Return predictors (K, rows), different in each row, and responses of all classes."""
    n = 12
    return np.ascontiguousarray(rng.normal(scale=0.8, size=(K, n))), np.arange(n) % K


def numbers(likelihood, eta, y):
    """Return value, slopes and Hessian of each row: (rows,), (rows, K) and (rows, K, K)."""
    n = eta.shape[1]
    terms, slopes, expansion = np.empty(n), np.empty((K, n)), np.empty((n, likelihood.n_numbers))
    for name, out in (("terms", terms), ("slopes", slopes), ("expansion", expansion)):
        likelihood.compile(name, (y,))(eta, (y,), ORDER, 0, n, out)
    np.testing.assert_allclose(expansion[:, 0], terms, rtol=1e-12)
    np.testing.assert_allclose(expansion[:, 1 : 1 + K], slopes.T, rtol=1e-12, atol=1e-14)
    hessian = np.empty((n, K, K))
    above = np.triu_indices(K)
    hessian[:, above[0], above[1]] = expansion[:, 1 + K :]
    hessian[:, above[1], above[0]] = expansion[:, 1 + K :]
    return terms, slopes.T, hessian


def check_density(case, rng):
    """Terms, and the probabilities of predictions, are SciPy's, whose differences of probabilities err by 1e-16."""
    eta, y = rows(rng)
    terms, _, _ = numbers(case.likelihood, eta, y)
    shares = np.array([case.probabilities(one) for one in eta.T])
    np.testing.assert_allclose(np.exp(terms), shares[np.arange(len(y)), y], rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(case.likelihood.mean(eta, np.ones(())), shares.T, rtol=1e-10, atol=1e-15)


def check_derivatives(case, rng):
    """Slopes and Hessians are the derivatives of the density along lines: H_pq = (D^2_{p+q} - D^2_{p-q}) / 4."""
    eta, y = rows(rng)
    _, slopes, hessian = numbers(case.likelihood, eta, y)
    directions = np.eye(K)

    def along(point, category, direction, order):
        return derivative(lambda s: case.density(point + s[..., None] * direction, category), 0.0, order, radius=0.05)

    for i, category in enumerate(y.tolist()):
        for p, one in enumerate(directions):
            assert slopes[i, p] == pytest.approx(along(eta[:, i], category, one, 1), rel=1e-9, abs=1e-11)
            for q, other in enumerate(directions):
                bends = [along(eta[:, i], category, one + sign * other, 2) for sign in (1.0, -1.0)]
                assert hessian[i, p, q] == pytest.approx((bends[0] - bends[1]) / 4.0, rel=1e-8, abs=1e-10)


def check_bounds(case, rng):
    """Bounds are at least the largest derivative in a direction A u found in a ball, and near it if they are sharp.

    Directions and places are random; one half of the places lies on the edge of the ball.
    """
    eta, y = rows(rng)
    A = rng.normal(scale=0.7, size=(len(y), K, 3))
    m = 120
    for radius in (0.0, 1.0):
        found = np.empty((3, len(y)))
        for i, category in enumerate(y.tolist()):
            u, place = (values / np.linalg.norm(values, axis=1)[:, None] for values in rng.normal(size=(2, m, 3)))
            place *= radius * np.where(np.arange(m) % 2, 1.0, rng.random(m))[:, None]
            points, directions = (eta[:, i] + place @ A[i].T)[:, None], (u @ A[i].T)[:, None]

            def along(s, points=points, directions=directions, category=category):
                return case.density(points + s[..., None] * directions, category)

            for order in (1, 2, 3):
                found[order - 1, i] = np.abs(derivative(along, np.zeros(m), order, radius=0.05, points=16)).max()
        covariances = A @ A.swapaxes(1, 2)
        slopes = case.likelihood.slopes_within(eta, (y,), covariances, radius)
        forms = [case.likelihood.forms_within(order, eta, (y,), covariances, radius) for order in (2, 3)]
        for bound, largest in zip([np.full(len(y), np.inf) if slopes is None else slopes, *forms], found, strict=True):
            assert (bound >= largest * (1.0 - 1e-6)).all()
        assert (forms[0] <= 40.0 * found[1]).all()


def check_simulation(case, rng):
    """Scores of simulated responses have mean 0: |z| < 5, false alarms 6e-7 for each of 4 comparisons."""
    n = 5000
    eta = np.repeat(np.array([0.3, -0.8, 0.2, -0.4])[:, None], n, axis=1)
    y = case.likelihood.simulate(rng, eta, np.ones(())).astype(np.int64)
    _, slopes, _ = numbers(case.likelihood, np.ascontiguousarray(eta), y)
    for scores in slopes.T:
        assert abs(scores.mean()) <= 5.0 * scores.std() / math.sqrt(n) + 1e-12


def check_twin(case, rng):
    """PyMC's log density of the twin is that of the family; all rows have the same cutpoints."""
    import pymc as pm
    import pytensor.tensor as pt

    eta, y = rows(rng)
    if isinstance(case.likelihood, OrderedLikelihood):
        eta[1:] = eta[1:, :1]
    predictor = pt.dmatrix("eta")
    with pm.Model() as model:
        observed = case.twin(pm, predictor, y)
    theirs = model.compile_fn(pm.logp(observed, y), inputs=[predictor], point_fn=False, mode="FAST_COMPILE")(eta.T)
    np.testing.assert_allclose(numbers(case.likelihood, eta, y)[0], theirs, rtol=1e-7)


CHECKS = (check_density, check_derivatives, check_bounds, check_simulation, check_twin)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_a_family_of_classes(name, check, rng):
    check(CASES[name], rng)


def test_far_out_terms_are_finite_and_slopes_are_right():
    """A distance of exp(-60) between cutpoints, and predictors at 300, where differences of probabilities are 0."""
    eta = np.array([[300.0, -300.0, 0.1], [0.0, 0.0, 0.1], [-60.0, -60.0, -60.0], [0.5, 0.5, 0.5]])
    y = np.array([1, 2, 1])
    terms, slopes, _ = numbers(OrderedLikelihood(K), eta, y)
    np.testing.assert_allclose(terms, [-360.0, -300.0 + np.log(-np.expm1(-np.exp(0.5))), -60.0 - 2.0 * np.log(2.0)])
    np.testing.assert_allclose(slopes[:, 0], [-1.0, 1.0, 0.0], atol=1e-12)


def changed(function, at, factor):
    """Return a batch function of which one column, or row, of the results has a factor."""

    def wrong(eta, responses, order, lo, hi, out):
        function(eta, responses, order, lo, hi, out)
        out[at] *= factor

    return wrong


class Wrong(OrderedLikelihood):
    """Ordered categories with a planted bug in one of the functions."""

    def __init__(self, name, make):
        super().__init__(K)
        self.bug = name, make

    def compile(self, name, responses):
        """Return the function with the bug."""
        function = super().compile(name, responses)
        return self.bug[1](function) if name == self.bug[0] else function


def forgets_widths(function):
    """Return slopes as if cutpoints were not sums of exponentials: those in t_m are those in c_m."""

    def wrong(eta, responses, order, lo, hi, out):
        function(eta, responses, order, lo, hi, out)
        for m in range(2, K):
            out[m] /= np.exp(eta[m])

    return wrong


class OtherSign(OrderedLikelihood):
    """Ordered categories that are simulated with the wrong sign of the predictor."""

    def simulate(self, rng, eta, size):
        """Draw with -eta."""
        return super().simulate(rng, np.concatenate([-eta[:1], eta[1:]]), size)


BUGS = {
    "a second derivative off by 1e-5": (
        check_derivatives,
        Wrong("expansion", lambda f: changed(f, (slice(None), K + 5), 1.00001)),
    ),
    "slopes without the widths": (check_derivatives, Wrong("slopes", forgets_widths)),
    "a term off by 1e-8": (check_density, Wrong("terms", lambda f: changed(f, slice(None), 1.00000001))),
    "the wrong sign of the predictor": (check_simulation, OtherSign(K)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_rejected(bug, rng):
    check, wrong = BUGS[bug]
    with pytest.raises(AssertionError):
        check(dataclasses.replace(CASES["ordered"], likelihood=wrong), rng)


@pytest.mark.parametrize(
    ("name", "bound", "factor"),
    [("softmax", "slopes_within", 0.5), ("softmax", "forms_within", 0.3), ("ordered", "forms_within", 0.1)],
)
def test_a_bound_that_is_too_small_is_rejected(name, bound, factor, rng, monkeypatch):
    likelihood = CASES[name].likelihood
    right = getattr(likelihood, bound)
    monkeypatch.setattr(likelihood, bound, lambda *arguments: factor * right(*arguments))
    with pytest.raises(AssertionError):
        check_bounds(CASES[name], rng)


@pytest.mark.thorough
def test_the_twin_of_another_link_is_rejected(rng):
    def probit(pm, eta, y):
        cuts = eta[0, 1] + pm.math.concatenate([np.zeros(1), pm.math.cumsum(pm.math.exp(eta[0, 2:]))])
        return pm.OrderedProbit("y", eta=eta[:, 0], cutpoints=cuts, compute_p=False, observed=y)

    with pytest.raises(AssertionError):
        check_twin(dataclasses.replace(CASES["ordered"], twin=probit), rng)
