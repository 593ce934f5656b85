"""An offset is a column whose coefficient is 1, in every regression that takes one."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import InvalidInputError

pytestmark = pytest.mark.recompiles
N = 36
rng = np.random.default_rng(8)
X = rng.normal(size=(N, 2))
OFFSET = 0.5 * rng.normal(size=N)
OF_CLASSES = 0.5 * rng.normal(size=(N, 3))
WITH_COLUMN = np.column_stack([X, OFFSET])
NUMBERS = rng.normal(size=N)
BOTH = rng.normal(size=(N, 2))
COUNTS = np.arange(N) % 4
GROUPS = np.arange(N) // 3
AT = {"n_nodes": 8}


def linear(columns, **settings):
    """Return a regression of one outcome by its rows, whose target of statistics is compared elsewhere."""
    return amc.targets.LinearRegression(columns, NUMBERS, **settings)


# The target with an offset, the target with columns instead, and the map of theta to that of the second.
def after_beta(theta):
    """Insert the coefficient 1 after two others."""
    return np.insert(theta, 2, 1.0)


def of_outcomes(theta):
    """Insert the coefficient 1 of both outcomes after those of two columns."""
    return np.insert(theta, [4, 4], 1.0)


def of_classes(theta):
    """Append to the coefficients of each class 1 for its column of the offset, else 0."""
    return np.column_stack([theta.reshape(3, 2), np.eye(3)]).ravel()


CASES = {
    "linear": lambda: (linear(X, offset=OFFSET), linear(WITH_COLUMN), after_beta),
    "linear, rows": lambda: (linear(X, offset=OFFSET).plain, linear(WITH_COLUMN).plain, after_beta),
    "linear, weights and known scale": lambda: (
        linear(X, offset=OFFSET, weights=1.0 + COUNTS, sigma=0.7),
        linear(WITH_COLUMN, weights=1.0 + COUNTS, sigma=0.7),
        after_beta,
    ),
    "two outcomes": lambda: (
        amc.targets.LinearRegression(X, BOTH, offset=OFFSET),
        amc.targets.LinearRegression(WITH_COLUMN, BOTH),
        of_outcomes,
    ),
    "softmax": lambda: (
        amc.targets.SoftmaxRegression(X, COUNTS % 3, offset=OF_CLASSES),
        amc.targets.SoftmaxRegression(np.column_stack([X, OF_CLASSES]), COUNTS % 3),
        of_classes,
    ),
    "groups": lambda: (
        amc.targets.GroupedTarget(X, COUNTS, GROUPS, family="poisson", offset=OFFSET, at=np.full(3, 0.3), **AT),
        amc.targets.GroupedTarget(
            WITH_COLUMN, COUNTS, GROUPS, family="poisson", at=np.array([0.3, 0.3, 1.0, 0.3]), **AT
        ),
        after_beta,
    ),
    "groups with a shape": lambda: (
        amc.targets.GroupedTarget(
            X, COUNTS, GROUPS, family="negative binomial", shape=2.0, offset=OFFSET, at=np.full(3, 0.3), **AT
        ),
        amc.targets.GroupedTarget(
            WITH_COLUMN, COUNTS, GROUPS, family="negative binomial", shape=2.0, at=np.array([0.3, 0.3, 1.0, 0.3]), **AT
        ),
        after_beta,
    ),
    "normal groups": lambda: (
        amc.targets.NormalGroups(X, NUMBERS, GROUPS, offset=OFFSET),
        amc.targets.NormalGroups(WITH_COLUMN, NUMBERS, GROUPS),
        after_beta,
    ),
}


def terms_and_gradient(target, theta):
    """Return the terms, and the gradient of their sum."""
    compiled, slopes = target.compile(), target.compile_gradient()
    terms, gradient = np.empty(target.n_obs), np.zeros(len(theta))
    compiled.log_terms(theta, compiled.data, ALL_ROWS, 0, target.n_obs, terms)
    slopes.add_gradient(theta, slopes.data, ALL_ROWS, 0, target.n_obs, gradient)
    return terms, gradient


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_an_offset_is_a_column_with_coefficient_1(name):
    target, other, mapped = CASES[name]()
    theta = 0.3 * np.random.default_rng(1).normal(size=target.variables.size)
    kept = np.flatnonzero(mapped(np.full(theta.size, 7.0)) == 7.0)
    terms, gradient = terms_and_gradient(target, theta)
    expected, slopes = terms_and_gradient(other, mapped(theta))
    np.testing.assert_allclose(terms, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient, slopes[kept], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["tuned", "untuned"])
def test_the_lower_bound_of_a_softmax_counts_the_offset(kind):
    target = CASES["softmax"]()[0]
    theta, at = 0.5 * np.random.default_rng(1).normal(size=(2, 6))
    bound = target.likelihood_bound(kind, at)
    terms, gradient = terms_and_gradient(target, theta)
    gaps, slopes = np.empty(N), np.zeros(6)
    bound.gaps(theta, bound.data, ALL_ROWS, 0, N, gaps)
    assert gaps.min() > 0.0
    assert bound.log_bound(theta, bound.sums) == pytest.approx((terms - gaps).sum(), rel=1e-12)
    bound.add_gap_gradient(theta, bound.data, ALL_ROWS, 0, N, np.ones(N), slopes)
    bound.add_bound_gradient(theta, bound.sums, slopes)
    np.testing.assert_allclose(slopes, gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(X, offset=OF_CLASSES), r"offset must hold 36 numbers, found shape \(36, 3\)"),
        (lambda: amc.targets.SoftmaxRegression(X, COUNTS, offset=OFFSET), "each row alone would cancel"),
        (
            lambda: amc.targets.GroupedTarget(X, COUNTS % 2, GROUPS, offset=OFFSET[1:]),
            "GroupedTarget: offset must",
        ),
        (lambda: amc.targets.NormalGroups(X, NUMBERS, GROUPS, offset=OFFSET[1:]), "offset must hold 36 numbers"),
    ],
)
def test_offsets_of_another_shape_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
