"""Transition matrices of the noisy family, enumerated through the library's own estimates of the log ratio.

A scripted simulator returns the value that is asked for, so that the acceptance probability is a finite sum over
auxiliary values. References: methods of the issue, G.1 and G.2; the figures are exact to the digits printed.
"""

import functools
import types
from typing import NamedTuple

import numpy as np
import pytest
from numba import types as nb

from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.compiler.compile import bind, compiled, type_of
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    RatioState,
    estimate_from_draws,
    make_estimate_from_fresh_draws,
)
from approxmcmc.samplers.auxiliary_variable.pseudo_marginal import (
    EstimateState,
    carry_estimate,
    make_estimate_against_kept,
    make_estimate_both,
)
from tests.intractable import five_values, ising_4x4
from tests.planting import plain


def stationary(P):
    n = len(P)
    return np.linalg.lstsq(np.vstack([P.T - np.eye(n), np.ones(n)]), np.r_[np.zeros(n), 1.0], rcond=None)[0]


def completed(P):
    """Return the matrix with the mass that is left put on the diagonal."""
    P = P.copy()
    np.fill_diagonal(P, 0.0)
    P[np.diag_indices(len(P))] = 1.0 - P.sum(axis=1)
    return P


def tv(p, q):
    return 0.5 * np.abs(p - q).sum()


class Script(NamedTuple):
    """A list of values, and the place of the next one."""

    values: np.ndarray
    place: np.ndarray


@compiled
def scripted_simulator(rng, theta, script, statistics, count):
    """Return the next value of a list."""
    statistics[0] = script.values[script.place[0]]
    script.place[0] += 1


@compiled
def scripted_estimator(rng, theta, data):
    """Return the next value of a list."""
    values, place = data
    place[0] += 1.0
    return values[int(place[0]) - 1]


def make_log_ratios(estimate):
    def log_ratios(rng, state, thetas, proposals, script, place, scripts, count, out):
        for i in range(thetas.shape[0]):
            for j in range(proposals.shape[0]):
                for row in range(scripts.shape[0]):
                    script[: scripts.shape[1]] = scripts[row]
                    place[0] = 0
                    theta, proposed = thetas[i : i + 1], proposals[j : j + 1]
                    out[i, j, row] = estimate(rng, state, theta, proposed, count)

    return log_ratios


def log_ratios(estimate, state, thetas, proposals, script, place, scripts):
    """Return the library's estimates of the log ratio, [theta, theta', row of scripted auxiliary values]."""
    rng, count = np.random.default_rng(0), np.zeros(len(COUNT_NAMES), np.int64)
    out = np.empty((len(thetas), len(proposals), len(scripts)))
    arguments = (rng, state, thetas, proposals, script, place, scripts, count, out)
    bind(make_log_ratios, estimate, signature=nb.void(*map(type_of, arguments)))(*arguments)
    return out


from_fresh_draws = make_estimate_from_fresh_draws(scripted_simulator)
against_kept, both = make_estimate_against_kept(scripted_estimator), make_estimate_both(scripted_estimator)


# --- exchange and noisy exchange ---

GRID = np.linspace(-0.4, 0.8, 241)


@functools.cache
def proposal_matrix():
    """Return the random walk on the grid; what falls outside is rejected."""
    Q = np.exp(-((GRID[:, None] - GRID) ** 2) / (2 * 0.2**2))
    Q /= Q.sum(axis=1).max()
    np.fill_diagonal(Q, 0.0)
    return Q


@functools.cache
def acceptance(n_auxiliary):
    """Return E min(1, a) for each pair of grid points, over exact draws at the proposed one."""
    target = ising_4x4()
    law, n, s = target.law(GRID), len(GRID), target.values
    script = Script(np.zeros(2), np.zeros(1, np.int64))
    state = RatioState(target.observed_statistics, script, np.empty((n_auxiliary, 1)))
    pairs = np.stack(np.meshgrid(*[s] * n_auxiliary, indexing="ij"), axis=-1).reshape(-1, n_auxiliary)
    scripts = np.ascontiguousarray(pairs)
    weights = law if n_auxiliary == 1 else (law[:, :, None] * law[:, None, :]).reshape(n, -1)
    A = np.empty((n, n))
    for i in range(n):  # one row at a time: all of N = 2 would fill 250 MB
        ratios = log_ratios(from_fresh_draws, state, GRID[i : i + 1], GRID, *script, scripts)
        A[i] = (weights * np.exp(np.minimum(0.0, ratios[0]))).sum(axis=1)
    return A


def posterior():
    log_p = ising_4x4().log_posterior(GRID)
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def accepted_share(A, p):
    Q = proposal_matrix()
    return (p[:, None] * Q * A).sum() / (p[:, None] * Q).sum()


@pytest.mark.needs_jit
def test_exchange_leaves_the_posterior_invariant():
    A, p = acceptance(1), posterior()
    log_p = ising_4x4().log_posterior(GRID)
    exact = np.exp(np.minimum(0.0, log_p[None] - log_p[:, None]))
    law = stationary(completed(proposal_matrix() * A))
    assert tv(law, p) < 1e-6
    assert accepted_share(A, p) == pytest.approx(0.5956, abs=5e-5)
    assert accepted_share(exact, p) == pytest.approx(0.7086, abs=5e-5)


@pytest.mark.needs_jit
@pytest.mark.slow
def test_noisy_exchange_with_two_draws_has_its_own_law():
    A, p = acceptance(2), posterior()
    law = stationary(completed(proposal_matrix() * A))
    mean, sd = p @ GRID, np.sqrt(p @ GRID**2 - (p @ GRID) ** 2)
    assert tv(law, p) == pytest.approx(0.004948, abs=5e-7)
    assert law @ GRID - mean == pytest.approx(0.001137, abs=5e-7)
    assert np.sqrt(law @ GRID**2 - (law @ GRID) ** 2) / sd == pytest.approx(0.99337, abs=5e-6)
    assert accepted_share(A, p) == pytest.approx(0.6311, abs=5e-5)


# --- MALA-exchange ---


def mala_law(estimate, kept=False):
    """Return the distance of the stationary law on 31 points from the posterior, with one draw behind each drift.

    `estimate` says which draw judges. A draw behind the drift is drawn anew in each step, or `kept`: the chain then
    moves on pairs of a point and a draw, and takes along the draw of the reverse drift when it moves.
    """
    target, sigma = five_values(), 0.8
    grid, y = np.linspace(-2.0, 2.5, 31), target.values
    law, n = target.law(grid), 31
    log_prior = -0.125 * grid**2
    mean = grid[:, None] + 0.5 * sigma * (-0.25 * grid[:, None] + target.observed_statistics - y)
    H = np.exp(-((grid - mean[:, :, None]) ** 2) / (2 * sigma))  # (from, drawn, to)
    H /= H.sum(axis=2, keepdims=True)
    script, there = Script(np.zeros(1), np.zeros(1, np.int64)), np.empty((1, 1))
    state = RatioState(target.observed_statistics, script, there)
    steps = np.zeros((n, 5, n, 5))  # from, its draw, to, the draw there
    scripts = y[:, None].copy()
    for b in range(5):
        there[0, 0] = y[b]
        ratios = log_ratios(estimate, state, grid, grid, *script, scripts)
        for a in range(5):
            log_q_ratio = np.log(H[:, b, :].T / H[:, a, :])
            log_a = (log_prior - log_prior[:, None] + log_q_ratio)[:, :, None] + ratios
            accepted = (np.exp(np.minimum(0.0, log_a)) * law).sum(axis=2)  # law[j] broadcasts over the draw at theta'
            steps[:, a, :, b] = H[:, a, :] * law[:, b] * accepted
    exact = np.exp(target.log_posterior(grid))
    if kept:
        found = stationary(completed(steps.reshape(5 * n, 5 * n))).reshape(n, 5).sum(axis=1)
    else:
        found = stationary(completed((law[:, :, None, None] * steps).sum(axis=(1, 3))))
    return tv(found, exact / exact.sum())


@pytest.mark.needs_jit
def test_mala_exchange_is_exact_with_a_separate_draw():
    assert mala_law(from_fresh_draws) < 1e-12
    assert mala_law(from_fresh_draws, kept=True) < 1e-12


@pytest.mark.needs_jit
def test_mala_exchange_is_not_exact_with_a_reused_draw():
    assert mala_law(estimate_from_draws) == pytest.approx(0.02042, abs=5e-6)
    assert mala_law(estimate_from_draws, kept=True) == pytest.approx(0.012475, abs=5e-6)


# --- GIMH and MCWM ---

PI, W = np.array([0.2, 0.3, 0.5]), np.array([0.5, 1.5])


def pseudo_marginal(estimate, here, there, kept):
    """Return the acceptance probability when the estimates come out as given; `kept` is the stored one, or None."""
    script, place = np.array([there] if kept is not None else [here, there]), np.zeros(1)
    state = EstimateState((script, place), 1, 1, np.array([np.nan if kept is None else kept]), np.array([np.nan]))
    points = np.zeros(1), np.ones(1)
    [[[log_ratio]]] = log_ratios(estimate, state, *points, np.zeros(2), place, np.zeros((1, 2)))
    if kept is not None:
        plain(carry_estimate)(types.SimpleNamespace(estimate=state))
        assert state.here[0] == there
    return METROPOLIS.probability(log_ratio)


def test_gimh_is_exact():
    P = np.zeros((6, 6))
    for i in range(3):
        for a in range(2):
            for j in set(range(3)) - {i}:
                for b in range(2):
                    here, there = np.log(PI[i] * W[a]), np.log(PI[j] * W[b])
                    P[2 * i + a, 2 * j + b] = 0.25 * pseudo_marginal(against_kept, None, there, here)
    law = stationary(completed(P)).reshape(3, 2).sum(axis=1)
    assert np.abs(law - PI).max() < 1e-12


def test_mcwm_has_its_own_law():
    P = np.zeros((3, 3))
    for i in range(3):
        for j in set(range(3)) - {i}:
            for here in np.log(PI[i] * W):
                for there in np.log(PI[j] * W):
                    P[i, j] += 0.125 * pseudo_marginal(both, here, there, None)
    np.testing.assert_allclose(stationary(completed(P)), [0.22955945, 0.31165324, 0.45878730], atol=5e-9)


def test_an_estimate_of_zero_is_rejected_and_infinity_is_no_estimate():
    assert pseudo_marginal(against_kept, None, -np.inf, 0.0) == 0.0
    assert pseudo_marginal(against_kept, None, -np.inf, -np.inf) == 0.0
    assert pseudo_marginal(against_kept, None, 0.0, -np.inf) == 1.0
    assert np.isnan(pseudo_marginal(both, 0.0, np.inf, None))
