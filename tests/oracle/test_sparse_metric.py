"""Trajectories in the metric of a sparse precision equal the textbook's with its dense factor; bugs differ."""

import itertools
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, Component
from approxmcmc.engine.sparse_factor import independent_set, solve, solve_transposed, sparse_factor
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.numerics.laplace_approximation import Laplace
from approxmcmc.numerics.sparse_normal import SparseNormal, normal_by_precision
from tests import hamiltonian as momentum, langevin as book
from tests.planting import plain

forward, backward = plain(solve), plain(solve_transposed)


def crossed(levels=(14, 5), shared=2, seed=0):
    """Return the precision of effects of crossed factors and of `shared` parameters, in random order."""
    rng, ends = np.random.default_rng(seed), np.cumsum((0, *levels))
    dim = ends[-1] + shared
    P = np.where(rng.random((dim, dim)) < 0.5, rng.normal(size=(dim, dim)), 0.0)
    for lo, hi in itertools.pairwise(ends):
        P[lo:hi, lo:hi] = 0.0
    P[:, ends[-1] :] = rng.normal(size=(dim, shared))
    P = np.triu(P, 1) + np.triu(P, 1).T
    P += np.diag(1.0 + np.abs(P).sum(axis=0))
    order = rng.permutation(dim)
    return P[np.ix_(order, order)]


def nested(schools=4, classes=5):
    """Return the precision of effects of classes, of their schools, and of an intercept."""
    dim = schools * classes + schools + 1
    P = np.zeros((dim, dim))
    for k in range(schools * classes):
        P[k, [schools * classes + k // classes, dim - 1]] = 1.0, 2.0
    P[schools * classes : -1, -1] = 3.0
    P += P.T
    return P + np.diag(1.0 + np.abs(P).sum(axis=0))


PRECISIONS = {
    "crossed": crossed(),
    "many factors": crossed((20, 3, 2)),
    "one factor": crossed((9,), 1),
    "nested": nested(),
}


def inverse_of(function, factor, dim):
    """Return the matrix that a solve multiplies by."""
    columns = np.eye(dim)
    for column in columns:
        function(factor, column)
    return columns.T


@pytest.mark.parametrize("name", PRECISIONS)
def test_solves_are_those_with_a_factor_of_the_precision(name):
    P = PRECISIONS[name]
    factor = sparse_factor(P)
    inner = P[np.ix_(factor.inner, factor.inner)]
    np.testing.assert_array_equal(inner, np.diag(np.diag(inner)))
    assert sorted([*factor.inner, *factor.rest]) == list(range(len(P)))
    inverse, transposed = (inverse_of(each, factor, len(P)) for each in (forward, backward))
    np.testing.assert_allclose(inverse @ P @ inverse.T, np.eye(len(P)), atol=1e-13)  # G^-1 P G'^-1 = I
    np.testing.assert_allclose(transposed, inverse.T, atol=1e-14)


def test_a_dense_matrix_has_no_sparse_factor_and_its_law_is_a_laplace_approximation():
    P = 9.0 * np.eye(8) + 1.0
    assert sparse_factor(P) is None
    assert isinstance(normal_by_precision(np.zeros(8), P), Laplace)
    assert list(independent_set(P != 0.0)) == [0]


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_sparse_law_has_the_moments_of_its_precision(name):
    P = PRECISIONS[name]
    law = normal_by_precision(np.arange(len(P)), P)
    np.testing.assert_array_equal(law.precision, P)
    np.testing.assert_allclose(law.cov, np.linalg.inv(P), atol=1e-13)
    np.testing.assert_allclose(law.sd, np.sqrt(np.diag(law.cov)), rtol=1e-12)
    scripts = (types.SimpleNamespace(standard_normal=lambda size, unit=unit: unit.copy()) for unit in np.eye(len(P)))
    roots = np.array([law.draw(script) - law.mode for script in scripts])
    np.testing.assert_allclose(roots.T @ roots, law.cov, atol=1e-13)  # the covariance of draws
    assert Component.from_dict(law.to_dict()) == law


@pytest.mark.parametrize("part", ["inner", "rest"])
def test_a_matrix_that_is_not_positive_definite_is_refused(part):
    P = crossed()
    where = getattr(sparse_factor(P), part)[0]
    P[[where], [where]] = -1.0
    rows, columns = np.nonzero(np.triu(P))
    with pytest.raises(InvalidInputError, match="must be positive definite"):
        SparseNormal(np.zeros(len(P)), rows, columns, P[rows, columns])


@pytest.mark.parametrize(
    ("rows", "columns", "values", "message"),
    [
        ([0, 0], [6, 6], [1.0, 1.0], r"the entry \(0, 6\) is given twice; add the values up first"),
        ([0, 6], [6, 0], [1.0, 2.0], r"above it, found \(6, 0\)"),
        ([7], [7], [1.0], r"0 <= row <= column < 7, .* found \(7, 7\)"),
        ([-1], [3], [1.0], r"found \(-1, 3\)"),
        ([], [], [1.0], r"rows, columns and values one shape"),
    ],
)
def test_entries_are_given_once_and_in_the_upper_triangle(rows, columns, values, message):
    diagonal = list(range(7))
    with pytest.raises(InvalidInputError, match=message):
        SparseNormal(np.zeros(7), diagonal + rows, diagonal + columns, 7 * [4.0] + values)


# --- trajectories ---

P = crossed((7, 2), 1)
LAW = normal_by_precision(np.zeros(len(P)), P)
TARGET = book.normal_means(30, len(P))
PROPOSAL = amc.proposals.Hamiltonian(0.3, length=1.2, preconditioner=LAW)
START = np.linspace(-0.3, 0.3, len(P))


def differs(wrong=None):
    """Make 8 proposals by both implementations; return whether a theta' or a log q ratio differs."""
    part, L = PROPOSAL.build_proposal(TARGET), inverse_of(backward, LAW.factor, len(P))
    textbook = momentum.hmc(book.scores(TARGET.data[0]), book.prior_score, 0.3, 1.2, LAW.cov, 100, L)
    propose, state = plain(part.propose, wrong), part.make_state()
    out, count = np.empty(len(P)), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    rng, book_rng, theta = np.random.default_rng(3), np.random.default_rng(3), START
    for _ in range(8):
        ratio = propose(rng, state, theta, out, count)
        proposed, book_ratio = textbook(book_rng, theta)
        if not (np.allclose(out, proposed, rtol=0, atol=1e-11) and abs(ratio - book_ratio) < 1e-9):
            return True
        theta = proposed
    return False


def test_trajectories_equal_the_textbook():
    assert not differs()


@pytest.mark.parametrize("wrong", [{solve: backward}, {solve_transposed: forward}], ids=["kick", "drift"])
def test_a_product_with_the_transposed_factor_differs(wrong):
    assert differs(wrong)


def test_chains_run_and_their_settings_can_be_stored():
    sampler = amc.MetropolisHastings(PROPOSAL, amc.ExactTest())
    trace = amc.sample(TARGET, sampler, draws=20, tune=0, chains=1, random_seed=2, initvals=START, progressbar=False)
    assert 0.5 < trace.sample_stats["accepted"].values.mean() <= 1.0
    assert Component.from_dict(sampler.to_dict()) == sampler


def test_a_law_of_another_target_is_refused():
    with pytest.raises(IncompatibleError, match="the target has 2 parameters"):
        PROPOSAL.build_proposal(book.normal_means(30, 2))
