"""Bounds that exist on R^d, where all is known: an autoregression, and a network of six states that is enumerated.

A Crank-Nicolson step whose reference is the posterior is an autoregression, theta' - c = rho (theta - c) + noise, and
always accepted: m steps contract every pair by rho^m, and by no less. On the network the joint law of the library's
coupled steps is computed in `test_couplings`; from it follow D_k and both bounds, and by linear programming the
Wasserstein distance that they bound.
"""

import functools
import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.finite import stationary_distribution, total_variation
from approxmcmc.engine.compiler.compile import config
from tests.oracle.test_couplings import by_sites, network

pytestmark = [
    pytest.mark.recompiles,
    pytest.mark.skipif(not config.DISABLE_JIT, reason="compiled code cannot use a scripted generator"),
]
RHO = 0.8
STEPS = [1, 3, 12]


@functools.cache
def regression():
    """Return a linear regression on two columns: its posterior is the normal distribution of the approximation."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    return amc.targets.LinearRegression(X, X @ np.array([0.5, -1.0]) + rng.normal(size=40), sigma=1.0)


def autoregression():
    proposal = amc.proposals.PreconditionedCrankNicolson(RHO, amc.laplace(regression()))
    return amc.MetropolisHastings(proposal, amc.ExactTest())


def three_pairs():
    fit = amc.laplace(regression())
    lower = np.linalg.cholesky(fit.cov)
    starts = np.array([[[0.0, 0.0], [0.3, 0.0]], [[-2.0, 1.0], [2.0, -1.0]], [[0.0, 3.0], [1.0, 0.0]]])
    return fit.mode + starts @ lower.T


@pytest.mark.thorough
def test_equal_random_numbers_show_the_contraction_of_an_autoregression_without_noise():
    found = bounds.contraction(
        regression(),
        autoregression(),
        three_pairs(),
        steps=STEPS,
        coupling="synchronous",
        replications=2,
        random_seed=1,
    )
    for name in ("tau_estimate", "tau", "tau_lower"):
        np.testing.assert_allclose(found[name], RHO ** np.array(STEPS), rtol=1e-9)
    np.testing.assert_allclose(found["separation"], [0.3, 20**0.5, 10**0.5], rtol=1e-9)


@pytest.mark.thorough
def test_reflected_chains_bracket_the_contraction_and_refute_a_wrong_one(seed):
    """The limits hold together with probability .975; a claim of rho^m / 2 is below the lower limit."""
    found = bounds.contraction(
        regression(), autoregression(), three_pairs(), steps=STEPS, coupling="reflection", replications=60,
        random_seed=seed,
    )  # fmt: skip
    truth = RHO ** np.array(STEPS)
    assert (found["tau_lower"] < truth).all() and (found["tau"] > truth).all()
    assert float(found["tau_lower"][0]) > 0.5 * truth[0]


@pytest.mark.thorough
def test_the_better_of_two_couplings_counts():
    found = bounds.contraction(
        regression(), autoregression(), three_pairs()[:1], steps=STEPS, replications=10, random_seed=1
    )
    assert (found["tau"] <= (1.0 + 1e-9) * RHO ** np.array(STEPS)).all()


def distances_of(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def moved_mass(p, q, distance):
    """Return the Wasserstein distance of two distributions on the states, by linear programming."""
    n = len(p)
    rows, columns = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    plan = linprog(distance.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([p, q]), method="highs")
    return plan.fun


def summed_until(law, distance):
    """Return E sum_{t < tau} d(X_t, Y_t) by pair of starts, and E d(X_m, Y_m) for each of STEPS."""
    n = len(law)
    step = law.reshape(n * n, n * n).copy()
    step[:, [i * n + i for i in range(n)]] = 0.0
    flat = distance.ravel()
    after = [np.linalg.matrix_power(step, m) @ flat for m in STEPS]
    return np.linalg.solve(np.eye(n * n) - step, flat).reshape(n, n), [each.reshape(n, n) for each in after]


@functools.cache
def truth():
    """Return what a run must find on the network: the error of a step, W4, B4, and the distances that they bound."""
    points, P, law = by_sites("metropolis")
    P_hat = bounds.transition_matrix(network(), by_few_rows(), method="enumerate").to_numpy()
    distance = distances_of(points)
    apart = (distance > 0.0).astype(float)
    pi, pi_hat = stationary_distribution(P), stationary_distribution(P_hat)
    error = pi_hat[:, None] * np.abs(P_hat - P) * apart
    return {
        "one_step_error": (error * distance).sum(),
        "w4_estimate": (error * summed_until(law, distance)[0]).sum(),
        "b4_estimate": (error * summed_until(law, apart)[0]).sum(),
        "W": moved_mass(pi_hat, pi, distance),
        "tv": total_variation(pi_hat, pi),
        "tau": [max(m[i, j] / distance[i, j] for i, j in itertools.permutations(range(len(P)), 2))
                for m in summed_until(law, distance)[1]],
        "error": [(error * sum_before(law, distance, m)).sum() for m in STEPS],
    }  # fmt: skip


def sum_before(law, distance, m):
    """Return E sum_{k < m} d(X_k, Y_k) by pair of starts."""
    n = len(law)
    step = law.reshape(n * n, n * n).copy()
    step[:, [i * n + i for i in range(n)]] = 0.0
    return sum(np.linalg.matrix_power(step, k) @ distance.ravel() for k in range(m)).reshape(n, n)


def by_few_rows():
    return amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.4, 2))


@pytest.mark.thorough
def test_both_bounds_hold_on_every_state_and_are_not_vacuous():
    found = truth()
    w2 = min(error / (1.0 - tau) for error, tau in zip(found["error"], found["tau"], strict=True) if tau < 1.0)
    assert 0.001 < found["W"] <= found["w4_estimate"] <= w2 + 1e-12
    assert 0.001 < found["tv"] <= found["b4_estimate"] < 1.0
    assert found["one_step_error"] <= found["w4_estimate"]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_a_run_finds_the_error_and_the_bounds_of_the_enumeration(seed):
    """300 audits of 100 orders: five standard errors, and at most a tenth too large for the noise of the orders."""
    trace = amc.sample(network(), by_few_rows(), draws=500, tune=50, chains=4, random_seed=seed, progressbar=False)
    pairs = np.array(list(itertools.combinations(by_sites("metropolis")[0], 2)))
    contracted = bounds.contraction(network(), by_few_rows(), pairs, steps=STEPS, replications=30, random_seed=seed)
    found = bounds.perturbation(
        trace, network(), by_few_rows(), contracted=contracted, n_audits=300, replications=100, random_seed=seed
    )
    for name in ("one_step_error", "w4_estimate", "b4_estimate"):
        limit = "one_step_error_upper" if name == "one_step_error" else name.removesuffix("_estimate")
        error = (float(found[limit]) - float(found[name])) / 1.96
        assert truth()[name] - 5.0 * error < float(found[name]) < 1.1 * truth()[name] + 5.0 * error, name
        assert error < 0.2 * truth()[name]
    assert (found["tau"] > truth()["tau"]).all()
    assert (np.abs(found["tau_estimate"] - truth()["tau"]) < 0.5).all()
    assert truth()["W"] < float(found["w4"])
