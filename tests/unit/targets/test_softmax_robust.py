"""Softmax and robust regression: their terms, gradients, bounds and twins; and the bounds of logistic regression."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import special, stats

import approxmcmc as amc
from approxmcmc.contracts import BoundedTarget, DifferentiableTarget, Target as TargetProtocol
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.families.binomial import jaakkola_coefficients
from approxmcmc.families.student_t import student_coefficients
from approxmcmc.numerics import laplace
from approxmcmc.targets import LogisticRegression, RobustRegression, SoftmaxRegression

rng = np.random.default_rng(7)
X = rng.normal(size=(40, 2))
RESPONSES = X[:, 0] + rng.standard_t(3, size=40)
CLASSES = rng.integers(3, size=40)
TARGETS = {
    "logistic": LogisticRegression(X, CLASSES > 0),
    "softmax": SoftmaxRegression(X, CLASSES, prior_scale=0.7),
    "robust": RobustRegression(X, RESPONSES, df=3.0, scale=0.6, prior_scale=2.0),
}
KINDS = [("logistic", "tuned"), ("logistic", "untuned"), ("logistic", "taylor"), ("softmax", "tuned"),
         ("softmax", "untuned"), ("robust", "tuned"), ("robust", "untuned")]  # fmt: skip


@functools.cache
def likelihood_bound(name, kind):
    target = TARGETS[name]
    return target.likelihood_bound(kind, np.linspace(-1.0, 1.0, target.variables.size))


def terms(target, theta):
    compiled = target.compile()
    return full_terms(compiled.log_terms, np.asarray(theta, dtype=float), compiled.data, compiled.n_obs)


class TestTerms:
    def test_softmax(self):
        beta = rng.normal(size=(3, 2))
        expected = special.log_softmax(X @ beta.T, axis=1)[np.arange(40), CLASSES]
        np.testing.assert_allclose(terms(TARGETS["softmax"], beta.ravel()), expected, rtol=1e-12)

    def test_two_classes_are_logistic_regression(self):
        beta = rng.normal(size=(2, 2))
        two = SoftmaxRegression(X, CLASSES > 0)
        np.testing.assert_allclose(
            terms(two, beta.ravel()), terms(TARGETS["logistic"], beta[1] - beta[0]), rtol=1e-12, atol=1e-14
        )

    def test_robust(self):
        theta = np.array([0.3, -0.4])
        expected = stats.t.logpdf(RESPONSES, 3.0, loc=X @ theta, scale=0.6)
        np.testing.assert_allclose(terms(TARGETS["robust"], theta), expected, rtol=1e-12)

    @pytest.mark.parametrize("name", ["softmax", "robust"])
    def test_gradients_are_those_of_the_terms(self, name):
        target = TARGETS[name]
        gradient, theta = target.compile_gradient(), rng.normal(size=target.variables.size)
        numerical = [
            (terms(target, theta + h).sum() - terms(target, theta - h).sum()) / 2e-6 for h in 1e-6 * np.eye(theta.size)
        ]
        np.testing.assert_allclose(full_gradient(gradient, theta), numerical, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("name", ["softmax", "robust"])
    def test_predictors_of_800_are_finite(self, name):
        target = TARGETS[name]
        assert np.isfinite(
            terms(target, np.full(target.variables.size, 800.0) * np.linspace(-1, 1, 6)[: target.variables.size])
        ).all()

    def test_second_derivatives_of_the_student_term(self):
        derivatives = TARGETS["robust"].likelihood.derivatives
        for eta in (-2.0, 0.1, 5.0):
            above, below = derivatives(eta + 1e-5, 0.4)[0], derivatives(eta - 1e-5, 0.4)[0]
            assert derivatives(eta, 0.4)[1] == pytest.approx((above - below) / 2e-5, rel=1e-7)


@pytest.mark.thorough
def test_a_softmax_term_changes_by_its_bound_at_most(rng):
    """Also along the worst direction from where two classes share all mass, for small steps nearly by as much."""
    target = SoftmaxRegression(X, CLASSES)
    bound = target.compile_difference_bound()
    far = np.zeros((3, 2))
    largest = np.zeros(40)
    for _ in range(200):
        here = 3.0 * rng.normal(size=6)
        there = here + rng.exponential() * rng.normal(size=6)
        reach = float(bound.reach(here, there, bound.numbers))
        shares = np.abs(terms(target, there) - terms(target, here)) / (bound.rates * reach)
        largest = np.maximum(largest, shares)
    assert largest.max() <= 1.0
    row = int(np.argmax(np.linalg.norm(X, axis=1)))
    own, other = int(CLASSES[row]), int((CLASSES[row] + 1) % 3)
    far[other] = 30.0 * X[row]  # the other class has all mass, so the term is linear in both predictors
    step = np.zeros((3, 2))
    step[own], step[other] = 1e-3 * X[row], -1e-3 * X[row]
    here, there = far.ravel(), (far + step).ravel()
    change = terms(target, there)[row] - terms(target, here)[row]
    assert change == pytest.approx(bound.rates[row] * bound.reach(here, there, bound.numbers), rel=1e-6)


class TestHousekeeping:
    def test_labels(self):
        frame = pd.DataFrame(X, columns=["age", "dose"])
        target = SoftmaxRegression(frame, 10 * CLASSES, intercept=True)
        assert target.variables.shapes == {"beta": (3, 3)}
        assert target.variables.coords == {"category": [0, 10, 20], "coef": ["intercept", "age", "dose"]}
        assert repr(target) == "SoftmaxRegression(n_obs=40, n_classes=3, dim=9)"
        assert repr(TARGETS["robust"]) == "RobustRegression(n_obs=40, dim=2)"

    @pytest.mark.parametrize("name", TARGETS)
    def test_protocols(self, name):
        for protocol in (TargetProtocol, BoundedTarget, DifferentiableTarget):
            assert isinstance(TARGETS[name], protocol)

    def test_hashes_depend_on_settings(self):
        settings = [{}, {"df": 5.0}, {"scale": 2.0}, {"prior_scale": 2.0}]
        assert len({RobustRegression(X, RESPONSES, **more).content_hash() for more in settings}) == 4
        assert TARGETS["softmax"].content_hash() != SoftmaxRegression(X, CLASSES).content_hash()

    @pytest.mark.parametrize(
        ("make", "match"),
        [
            (lambda: RobustRegression(X, RESPONSES, df=0.0), "df must be positive and finite, found 0.0"),
            (lambda: RobustRegression(X, RESPONSES, scale=-1.0), "scale must be positive"),
            (lambda: RobustRegression(X, RESPONSES[:3]), "same n >= 1"),
            (lambda: SoftmaxRegression(X, CLASSES[:3]), r"found X \(40, 2\) and y \(3,\)"),
            (lambda: SoftmaxRegression(X, np.zeros(40)), r"two or more classes.*found \[0"),
            (lambda: SoftmaxRegression(X, RESPONSES), "as integers"),
            (lambda: SoftmaxRegression(X, CLASSES, prior_scale=math.inf), "a flat prior gives an improper posterior"),
            (lambda: SoftmaxRegression(X, CLASSES, coef_names=["a"]), "2 columns, 1 names"),
        ],
    )
    def test_bad_input_is_refused(self, make, match):
        with pytest.raises(InvalidInputError, match=match):
            make()

    @pytest.mark.parametrize("name", ["softmax", "robust"])
    def test_a_prior_given_as_a_function_has_no_twin(self, name):
        kind = type(TARGETS[name])
        with pytest.raises(IncompatibleError, match="no PyMC twin"):
            kind(X, CLASSES, prior=lambda theta: 0.0).to_pymc()

    @pytest.mark.needs_jit
    @pytest.mark.parametrize("name", ["softmax", "robust"])
    def test_the_twin_is_the_same_posterior(self, name):
        target, model = TARGETS[name], TARGETS[name].to_pymc()
        log_density, log_prior = model.compile_logp(mode="FAST_COMPILE"), target.compile().log_prior
        points = [rng.normal(size=target.variables.size) for _ in range(2)]
        ours = [terms(target, theta).sum() + log_prior(theta) for theta in points]
        theirs = [log_density({"beta": theta.reshape(target.variables.shapes["beta"])}) for theta in points]
        assert ours[0] - ours[1] == pytest.approx(theirs[0] - theirs[1], rel=1e-9)


class TestBounds:
    """Numbers of Maclaurin and Adams' bounds, computed by hand."""

    def test_jaakkola_jordan(self):
        a, c = jaakkola_coefficients(1.5)
        assert (float(a), float(c)) == (
            pytest.approx(-0.1058581587, abs=1e-10),
            pytest.approx(-0.7132324208, abs=1e-10),
        )
        assert float(jaakkola_coefficients(0.0)[0]) == -0.125
        near, at = jaakkola_coefficients(1.0001e-4), jaakkola_coefficients(0.9999e-4)
        np.testing.assert_allclose(near, at, rtol=1e-10)
        s = np.array([0.0, 2.5, 3.0, 5.0, -4.0])
        bright = -np.expm1(a * s**2 + 0.5 * s + c - special.log_expit(s))
        np.testing.assert_allclose(bright, [0.01988488, 0.04491619, 0.11074256, 0.57385305, 0.32213900], atol=5e-9)
        target = LogisticRegression(np.eye(1), [1])
        bound = target.likelihood_bound("untuned", None)
        ours = [-math.expm1(-full_terms(bound.gaps, np.array([value]), bound.data, 1)[0]) for value in s]
        np.testing.assert_allclose(ours, bright, atol=1e-14)

    def test_taylor_touches_at_one_place(self):
        bound = LogisticRegression(np.eye(1), [1]).likelihood_bound("taylor", np.array([1.5]))
        gaps = [full_terms(bound.gaps, np.array([s]), bound.data, 1)[0] for s in (1.5, -1.5, 0.0, 3.0)]
        assert gaps[0] == pytest.approx(0.0, abs=1e-15)
        assert gaps[1] > 0.05
        np.testing.assert_allclose(-np.expm1(-np.array(gaps[2:])), [0.0612, 0.1482], atol=5e-5)

    def test_student(self):
        alpha, c = student_coefficients(1.0, 4.0)
        assert (float(alpha), float(c)) == (-0.5, pytest.approx(-0.05785888, abs=5e-9))
        bound = RobustRegression(np.eye(1), [0.0]).likelihood_bound("untuned", None)
        bright = [-math.expm1(-full_terms(bound.gaps, np.array([r]), bound.data, 1)[0]) for r in (0.0, 1.0, 3.0)]
        np.testing.assert_allclose(bright, [0.056217, 0.0, 0.800356], atol=5e-7)

    def test_boehning(self):
        """K = 3, expanded at (1, 0, -1): lse(.5, .5, 0) = 1.45802009 <= 1.57904696."""
        target = SoftmaxRegression(np.ones((3, 1)), [0, 1, 2])
        bound = target.likelihood_bound("tuned", np.array([1.0, 0.0, -1.0]))
        eta = np.array([0.5, 0.5, 0.0])
        gap = full_terms(bound.gaps, eta, bound.data, 3)
        np.testing.assert_allclose(gap, 1.57904696 - 1.45802009, atol=1.1e-8)

    @pytest.mark.thorough
    @pytest.mark.parametrize(("name", "kind"), KINDS)
    @given(seed=st.integers(0, 2**31), spread=st.sampled_from([0.1, 1.0, 30.0]))
    def test_they_are_bounds_and_their_sums_are_sums(self, name, kind, seed, spread):
        target, bound = TARGETS[name], likelihood_bound(name, kind)
        theta = spread * np.random.default_rng(seed).normal(size=target.variables.size)
        gaps, log_likelihood = full_terms(bound.gaps, theta, bound.data, 40), terms(target, theta)
        assert gaps.min() >= -1e-12 * (1.0 + np.abs(log_likelihood).max())
        size = np.abs(log_likelihood).sum() + np.abs(gaps).sum()
        assert bound.log_bound(theta, bound.sums) == pytest.approx((log_likelihood - gaps).sum(), abs=1e-11 * size)

    @pytest.mark.parametrize(("name", "kind"), [pair for pair in KINDS if pair[1] != "untuned"])
    def test_they_touch_where_they_should(self, name, kind):
        bound = likelihood_bound(name, kind)
        at = np.linspace(-1.0, 1.0, TARGETS[name].variables.size)
        np.testing.assert_allclose(full_terms(bound.gaps, at, bound.data, 40), 0.0, atol=1e-13)

    @pytest.mark.parametrize(("name", "kind"), KINDS)
    def test_their_gradients(self, name, kind):
        target, bound = TARGETS[name], likelihood_bound(name, kind)
        theta, weights = rng.normal(size=target.variables.size), rng.random(40)
        gap_gradient, sum_gradient = np.zeros(theta.size), np.zeros(theta.size)
        bound.add_gap_gradient(theta, bound.data, np.arange(40), 0, 40, weights, gap_gradient)
        bound.add_bound_gradient(theta, bound.sums, sum_gradient)
        steps = 1e-6 * np.eye(theta.size)
        gaps = [
            full_terms(bound.gaps, theta + s, bound.data, 40) - full_terms(bound.gaps, theta - s, bound.data, 40)
            for s in steps
        ]
        sums = [bound.log_bound(theta + s, bound.sums) - bound.log_bound(theta - s, bound.sums) for s in steps]
        np.testing.assert_allclose(gap_gradient, np.array(gaps) @ weights / 2e-6, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(sum_gradient, np.array(sums) / 2e-6, rtol=1e-6, atol=1e-6)

    def test_unknown_kinds_are_told(self):
        with pytest.raises(InvalidInputError, match=r"RobustRegression: bound must be one of .* found 'taylor'"):
            TARGETS["robust"].likelihood_bound("taylor", np.zeros(2))
        with pytest.raises(InvalidInputError, match="needs the theta at which it touches"):
            TARGETS["softmax"].likelihood_bound("tuned", None)


@pytest.mark.recompiles
def test_other_samplers_take_the_new_targets():
    for name, test in (("softmax", amc.SequentialTTest(0.1, 20)), ("robust", amc.ExactTest())):
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), test)
        trace = amc.sample(TARGETS[name], sampler, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
        assert trace.posterior["beta"].shape == (1, 10, *TARGETS[name].variables.shapes["beta"])


@pytest.mark.needs_jit
def test_the_mode_is_found_beside_rare_categories():
    """A difference step as long as a typical term bends is 10 logits long for the few rows of a category."""
    rng, n = np.random.default_rng(0), 10_000
    place = np.arange(n)
    rare = np.column_stack([(first <= place) & (place < first + size) for first, size in ((0, 2), (9, 5), (20, 20))])
    X = np.column_stack([np.ones(n), rng.normal(size=n), (rare - rare.mean(axis=0)) / rare.std(axis=0)])
    y = np.where(rare.any(axis=1), 2, (X[:, 1] + rng.logistic(size=n) > 0).astype(int) + (rng.random(n) < 0.1))
    fit = laplace(SoftmaxRegression(X, y, prior_scale=1.0))
    probability = special.softmax(X @ fit.mode.reshape(3, 5).T, axis=1)
    gradient = ((y[:, None] == np.arange(3)) - probability).T @ X - fit.mode.reshape(3, 5)
    assert np.abs(np.linalg.cholesky(fit.cov).T @ gradient.ravel()).max() < 1e-3
