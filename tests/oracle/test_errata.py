"""What the page of errata says of slips in the sources, computed on a few states from the formulas alone."""

import itertools
import math

import numpy as np
import pytest

from approxmcmc import bounds
from approxmcmc.acceptance.laws.barker_law import minibatch_barker_error_bound
from approxmcmc.bounds.finite import contractions, stationary_distribution, total_variation
from approxmcmc.errors import InvalidInputError


def share_bright(dark_ratio, bright_ratio, q, q_bright):
    """Return P(z = 1) of one datum that proposes dark with q_bright and bright with q, by acceptance ratios."""
    to_dark = q_bright * min(1.0, bright_ratio)
    to_bright = q * min(1.0, dark_ratio)
    return to_bright / (to_bright + to_dark)


def test_the_ratios_of_algorithm_5_need_the_probability_of_proposing_dark():
    """B / L = 0.6, q = 0.1, q_bright = 0.5; P(bright) is 1 - B / L. Line 17 as corrected in the entry before."""
    r, q, q_bright = 0.6, 0.1, 0.5
    dark, bright = (1.0 - r) / (q * r), q * r / (1.0 - r)
    assert share_bright(dark, bright, q, q_bright) == pytest.approx(0.571, abs=5e-4)
    assert share_bright(q_bright * dark, bright / q_bright, q, q_bright) == pytest.approx(0.4, rel=1e-12)
    # With q_bright = 1 line 6 is right, and the printed line 17 is not where its ratio is below 1.
    assert share_bright(dark, bright, q, 1.0) == pytest.approx(0.4, rel=1e-12)
    assert share_bright((1.0 - r) / q, bright, q, 1.0) == pytest.approx(0.4, rel=1e-12)
    assert share_bright((1.0 - r) / 0.9, 0.9 * r / (1.0 - r), 0.9, 1.0) < 0.38


def test_the_printed_sum_over_z_is_not_the_marginal():
    """Two data with P(z_n = 1) = p_n: the sum over all z is 1, the printed one depends on the z that it leaves free."""
    p = np.array([0.3, 0.8])
    joint = {z: float(np.prod(np.where(z, p, 1.0 - p))) for z in itertools.product((0, 1), repeat=2)}
    assert sum(joint.values()) == pytest.approx(1.0)
    printed = [sum(joint[z] for i in range(2) for z in joint if z[1 - i] == free[1 - i]) for free in ((0, 0), (1, 1))]
    assert printed[0] != pytest.approx(1.0) and printed[0] != pytest.approx(printed[1])


def test_the_bound_of_berry_and_esseen_needs_standardised_terms(rng):
    """As printed, X_i = N l_i - sum l: for 2000 normal terms the bound is above 1 when all data are read."""
    n = 2000
    terms = rng.normal(0.0, 1.0 / math.sqrt(n), n)  # the log ratio has standard deviation 1
    X = n * terms - terms.sum()

    def printed(scale):
        return (6.4 * np.mean(np.abs(scale * X) ** 3) + 2.0 * np.mean(np.abs(scale * X))) / math.sqrt(n)

    assert printed(1.0) > 100.0 and printed(2.0) > 7.0 * printed(1.0)
    standardised = minibatch_barker_error_bound(terms, n)
    assert standardised == pytest.approx(11.8 / math.sqrt(n), rel=0.1)
    assert minibatch_barker_error_bound(2.0 * terms, n) == pytest.approx(standardised, rel=1e-12)


def one_site(n_sites):
    """Return the matrix of the update of one of `n_sites` fair binary sites, chosen at random."""
    states = list(itertools.product((0, 1), repeat=n_sites))
    matrix = np.zeros((len(states), len(states)))
    for i, state in enumerate(states):
        for site, value in itertools.product(range(n_sites), (0, 1)):
            there = (*state[:site], value, *state[site + 1 :])
            matrix[i, states.index(there)] += 0.5 / n_sites
    return matrix


@pytest.mark.parametrize(("n_sites", "eta"), [(2, 0.5), (3, 1.0), (4, 1.0)])
def test_a_random_scan_forgets_its_start_in_one_step_on_two_sites_only(n_sites, eta):
    matrix = one_site(n_sites)
    etas, _ = contractions(matrix, stationary_distribution(matrix), n_sites)
    assert etas[0] == pytest.approx(eta, abs=1e-12)


def test_a_reversible_chain_that_does_not_reach_every_state_has_many_stationary_distributions():
    """Metropolis-Hastings on four states; a proposal stays within {0, 1} or {2, 3}."""
    p = np.array([0.1, 0.2, 0.3, 0.4])
    matrix = np.zeros((4, 4))
    for a, b in ((0, 1), (1, 0), (2, 3), (3, 2)):
        matrix[a, b] = min(1.0, p[b] / p[a])
        matrix[a, a] = 1.0 - matrix[a, b]
    for law in (p, np.array([1.0, 2.0, 0.0, 0.0]) / 3.0, np.array([0.0, 0.0, 3.0, 4.0]) / 7.0):
        np.testing.assert_allclose(law @ matrix, law, rtol=0.0, atol=1e-15)
    with pytest.raises(InvalidInputError, match="reducible"):
        bounds.exact(matrix, matrix)


def test_the_theory_holds_for_a_deterministic_approximation_of_the_ratio():
    """Remark 2.3: an acceptance ratio that is always off by the same factor, at each pair of states."""
    n = 12
    p = np.exp(-0.5 * np.linspace(-2.0, 2.0, n) ** 2)
    p /= p.sum()

    def chain(factor):
        """Return Metropolis-Hastings by a uniform proposal, with the ratio times a function of the pair."""
        matrix = np.minimum(1.0, factor * p[None] / p[:, None]) / n
        np.fill_diagonal(matrix, 0.0)
        np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
        return matrix

    pair = np.arange(n)[:, None] + 3.0 * np.arange(n)[None]
    exact, approximate = chain(1.0), chain(np.exp(0.2 * np.sin(pair)))
    found = bounds.exact(exact, approximate)
    truth = total_variation(stationary_distribution(exact), stationary_distribution(approximate))
    assert 1e-3 < truth <= float(found["b5"]) < 1.0
    # Corollary 2.3 with a fixed ratio: the error of a step is at most the mean error of its decisions.
    decisions = np.abs(
        np.minimum(1.0, np.exp(0.2 * np.sin(pair)) * p[None] / p[:, None]) - np.minimum(1.0, p[None] / p[:, None])
    )
    assert float(found["delta"]) <= decisions.sum(axis=1).max() / n + 1e-15
