"""Finite chains at their edges: what is no transition matrix, one state, more states than a block, perfect mixing."""

import numpy as np
import pytest

from approxmcmc import bounds
from approxmcmc.bounds.finite import (
    BLOCK,
    ROW_TOLERANCE,
    asymptotic_variance,
    checked_matrix,
    contraction,
    contractions,
    stationary_distribution,
)
from approxmcmc.errors import InvalidInputError

TWO = np.array([[0.9, 0.1], [0.3, 0.7]])


def with_entry(value, row=2, column=1):
    """Return the uniform chain on four states, with another entry."""
    matrix = np.full((4, 4), 0.25)
    matrix[row, column] = value
    return matrix


@pytest.mark.parametrize("values", [np.empty((0, 0)), np.ones(3), np.full((2, 3), 1.0 / 3.0)])
def test_what_is_no_square_is_refused(values):
    with pytest.raises(InvalidInputError, match="square"):
        checked_matrix(values, "T")


def test_one_state_is_a_chain():
    assert checked_matrix([[1.0]], "T").tolist() == [[1.0]]
    assert stationary_distribution(np.ones((1, 1))).tolist() == [1.0]
    assert contraction(np.ones((1, 1))) == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1])
def test_the_row_with_what_is_no_probability_is_named(value):
    with pytest.raises(InvalidInputError, match="row 2 holds"):
        checked_matrix(with_entry(value), "T")


def test_the_first_of_two_such_rows_is_named():
    matrix = with_entry(-0.1)
    matrix[0, 0], matrix[0, 1], matrix[3, 0] = 0.0, 0.5, np.nan
    with pytest.raises(InvalidInputError, match="row 2 holds"):
        checked_matrix(matrix, "T")


@pytest.mark.parametrize("excess", [1e-3, -1e-3])
def test_the_row_whose_sum_is_furthest_off_is_named(excess):
    matrix = with_entry(0.25 + excess)
    matrix[0, 0] += 0.1 * excess
    with pytest.raises(InvalidInputError, match=f"row 2 sums to {1.0 + excess:.12g}, not 1"):
        checked_matrix(matrix, "T")


def test_rounding_is_taken_off_row_by_row():
    small = 0.5 * ROW_TOLERANCE
    matrix = np.array([[-small, 1.0, 0.0], [0.5 + small, 0.5, 0.0], [0.2, 0.3, 0.5 - small]])
    clean = checked_matrix(matrix, "T")
    assert clean.min() == 0.0 and np.abs(clean.sum(axis=1) - 1.0).max() < 1e-15
    np.testing.assert_allclose(clean[1], [0.5 + small / 2, 0.5 - small / 2, 0.0], atol=1e-3 * small)


def test_three_closed_sets_are_shown_by_five_states_each():
    one = np.full((6, 6), 1.0 / 6.0)
    matrix = np.kron(np.eye(4), one)
    shown = r"4 sets .* \[0, 1, 2, 3, 4\], \[6, 7, 8, 9, 10\], \[12, 13, 14, 15, 16\]\)"
    with pytest.raises(InvalidInputError, match=shown):
        checked_matrix(matrix, "T")


@pytest.mark.parametrize("n", [2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 3])
def test_the_stationary_law_is_that_of_a_linear_solve(n):
    matrix = np.random.default_rng(n).dirichlet(np.ones(n), size=n)
    equations = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    solved = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=None)[0]
    law = stationary_distribution(matrix)
    np.testing.assert_allclose(law, solved, rtol=1e-10)
    assert law.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("n", [BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_detailed_balance_of_a_walk_on_a_line(n):
    """Of probabilities that fall over 200 nats no digit is lost: log p_k is linear in k."""
    up, matrix = 0.5 * np.exp(-400.0 / n), np.zeros((n, n))
    for k in range(n - 1):
        matrix[k, k + 1], matrix[k + 1, k] = up, 0.5
    matrix[np.diag_indices(n)] = 1.0 - matrix.sum(axis=1)
    np.testing.assert_allclose(np.diff(np.log(stationary_distribution(matrix))), -400.0 / n, rtol=1e-10)


def test_contractions_are_those_of_the_powers():
    """Of two states: eta_k = (1 - a - b)^k, and the law is (b, a) / (a + b)."""
    law = np.array([0.75, 0.25])
    etas, distances = contractions(TWO, law, 5)
    np.testing.assert_allclose(etas, 0.6 ** np.arange(1, 6), rtol=1e-12)
    np.testing.assert_allclose(distances, 0.75 * 0.6 ** np.arange(1, 6), rtol=1e-12)


def test_powers_end_where_nothing_is_remembered():
    etas, distances = contractions(np.full((3, 3), 1.0 / 3.0), np.full(3, 1.0 / 3.0), 5)
    assert len(etas) == len(distances) == 1 and etas[0] < 1e-15
    assert len(contractions(TWO, np.array([0.75, 0.25]), 100)[0]) == 59  # the first power of 0.6 below 1e-13


def test_what_never_forgets_contracts_by_1():
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    etas, distances = contractions(swap, np.array([0.5, 0.5]), 3)
    assert etas.tolist() == [1.0] * 3 and distances.tolist() == [0.5] * 3


def test_the_asymptotic_variance_of_two_states():
    """Var(f) (1 + rho) / (1 - rho), rho = 0.6."""
    law = np.array([0.75, 0.25])
    assert asymptotic_variance(TWO, law, np.array([0.0, 1.0])) == pytest.approx(0.75 * 0.25 * 4.0, rel=1e-12)


T = np.array([[0.9, 0.1], [0.2, 0.8]])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.9, 0.2], [0.2, 0.8]], "row 0 sums to 1.1"),
        ([[1.1, -0.1], [0.2, 0.8]], "negative"),
        ([[0.5, 0.5]], "square"),
        ([[np.nan, 1.0], [0.5, 0.5]], "NaN"),
        (np.eye(2), "reducible: 2 sets of states"),
        (np.eye(9), r"9 sets of states are never left \(they begin with \[0\], \[1\], \[2\]\)"),
    ],
)
def test_matrices_that_are_none_are_refused(matrix, message):
    with pytest.raises(InvalidInputError, match=message):
        bounds.exact(matrix, T)
    with pytest.raises(InvalidInputError):
        bounds.exact(T, matrix)


def test_matrices_of_different_states_are_refused():
    with pytest.raises(InvalidInputError, match="same states"):
        bounds.exact(T, np.full((3, 3), 1 / 3))


@pytest.mark.parametrize("n_points", [2, 64, 65, 150])
def test_modes_far_apart_keep_their_probabilities(n_points):
    """Two modes e^35 apart: a linear solve gives them shares that err by 0.4."""
    x = np.linspace(-1.5, 1.5, n_points)
    log_density = -35.0 * (x**2 - 1.0) ** 2 - 0.3 * (x > 0.0)
    up = np.diag(0.5 * np.exp(np.minimum(np.diff(log_density), 0.0)), 1)[:-1]
    down = np.diag(0.5 * np.exp(np.minimum(-np.diff(log_density), 0.0)), -1)[1:]
    matrix = np.zeros((n_points, n_points))
    matrix[:-1] += up
    matrix[1:] += down
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    law = np.exp(log_density) / np.exp(log_density).sum()
    np.testing.assert_allclose(stationary_distribution(matrix), law, rtol=1e-11)


def test_states_that_rounding_cuts_off_are_refused():
    matrix = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 1e-200], [1e-200, 1.0, 0.0]])  # from 1 to 0 with 1e-400
    with pytest.raises(InvalidInputError, match=r"state 1.*underflows"):
        stationary_distribution(matrix)


def test_a_chain_with_transient_states_has_a_stationary_law():
    absorbing = np.array([[0.5, 0.5, 0.0], [0.0, 0.9, 0.1], [0.0, 0.2, 0.8]])
    np.testing.assert_allclose(bounds.exact(absorbing, absorbing)["stationary"], [0.0, 2 / 3, 1 / 3], atol=1e-15)


def test_the_worst_row_is_named():
    with pytest.raises(InvalidInputError, match="row 2"):
        checked_matrix([[0.5, 0.5, 0.0], [0.5, 0.5, 0.3], [0.2, 0.1, 0.1]], "P")
