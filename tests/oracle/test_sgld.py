"""SGLD where everything can be enumerated: its stationary law, and the correction that makes it exact on a grid."""

import itertools

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.proposals.minibatch_gradient import estimate_gradient
from tests import langevin as book
from tests.planting import plain


def proposer(target, proposal, wrong=None):
    """Return ``propose(theta, batch, z)``: theta' and log q ratio of a fresh chain with this minibatch and noise."""
    part = proposal.build_proposal(target)
    kernel = plain(part.propose, wrong)
    out, count = np.empty(1), np.zeros(len(COUNT_NAMES), dtype=np.int64)

    def propose(theta, batch, z):
        script = book.Script(book.picks(batch, target.n_obs), [z])
        ratio = kernel(script, part.make_state(), np.array([theta]), out, count)
        return out[0], ratio

    return propose


def stationary_variance(target, proposal, n):
    """Return the variance of the linear chain theta' = a theta + b(batch) + c z: (c^2 + var b) / (1 - a^2)."""
    propose = proposer(target, proposal)
    batches = list(itertools.combinations(range(target.n_obs), n))
    shifts = np.array([propose(0.0, batch, 0.0)[0] for batch in batches])
    slopes = np.array([propose(1.0, batch, 0.0)[0] for batch in batches]) - shifts
    noise = propose(0.0, batches[0], 1.0)[0] - shifts[0]
    assert np.ptp(slopes) < 1e-12
    return (noise**2 + shifts.var()) / (1.0 - slopes[0] ** 2)


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_stationary_variance_has_the_closed_form(alpha):
    N, n = 6, 2
    target, A = book.normal_means(N), N + 0.01
    V = N**2 / n * (1.0 - n / N)  # S^2 = 1
    found = stationary_variance(target, amc.proposals.StochasticGradientLangevin(alpha, n), n)
    assert found == pytest.approx((1.0 + alpha * V / 4.0) / (A * (1.0 - alpha * A / 4.0)), rel=1e-12)
    anchored = amc.proposals.StochasticGradientLangevin(alpha, n, control_variate=[0.7])
    assert stationary_variance(target, anchored, n) == pytest.approx(1.0 / (A * (1.0 - alpha * A / 4.0)), rel=1e-12)


def test_the_fixtures_numbers():
    A, V = 100.01, 100.0**2 / 10 * (1 - 10 / 100)
    ratios = [(1 + alpha * V / 4) / (1 - alpha * A / 4) for alpha in (0.01, 0.002)]
    assert ratios == pytest.approx([4.33348, 1.52632], abs=5e-6)


@pytest.mark.parametrize("anchor", [None, [0.7]])
def test_halving_the_step_halves_the_bias(anchor):
    target, A = book.normal_means(6), 6.01
    alphas = 0.02 * 0.5 ** np.arange(5)
    bias = [
        A * stationary_variance(target, amc.proposals.StochasticGradientLangevin(alpha, 2, control_variate=anchor), 2)
        - 1.0
        for alpha in alphas
    ]
    ratios = np.array(bias[:-1]) / bias[1:]
    # b(alpha) = c alpha (1 + O(alpha A / 4)), so each ratio is 2 up to a quarter of the larger alpha A.
    np.testing.assert_array_less(np.abs(ratios - 2.0), alphas[:-1] * A / 3.0)


GRID = np.linspace(-2.0, 3.0, 41)
DATA = np.array([-1.0, 0.5, 2.0])


def grid_loglik(theta, data, i):
    (x,) = data
    return -0.5 * (x[i] - theta[0]) ** 2


def grid_grad_loglik(theta, data, i, out):
    (x,) = data
    out[0] += x[i] - theta[0]


def grid_kernels(proposal, wrong=None):
    """Return the kernels of an uncorrected and of a corrected proposal on the grid, and the posterior there."""
    target = amc.FunctionTarget(
        grid_loglik, lambda theta: -(theta[0] ** 2) / 8.0, data=DATA, n_obs=3, dim=1, grad_loglik=grid_grad_loglik
    )
    size = GRID.size
    propose = proposer(target, proposal, wrong)
    some = range(proposal.batch_size)
    spread = propose(0.0, some, 1.0)[0] - propose(0.0, some, 0.0)[0]
    log_posterior = np.array([-0.5 * ((DATA - theta) ** 2).sum() - theta**2 / 8.0 for theta in GRID])
    difference = log_posterior[None, :] - log_posterior[:, None]
    uncorrected, corrected = np.zeros((size, size)), np.zeros((size, size))
    batches = list(itertools.combinations(range(3), proposal.batch_size))
    for batch in batches:
        means = np.array([propose(theta, batch, 0.0)[0] for theta in GRID])
        z = (GRID[None, :] - means[:, None]) / spread
        ratio = np.empty((size, size))
        for i, j in np.ndindex(size, size):
            there, ratio[i, j] = propose(GRID[i], batch, z[i, j])
            assert abs(there - GRID[j]) < 1e-12
        weights = np.exp(-0.5 * z**2)
        total = weights.sum(axis=1)  # the grid's proposal is renormalised, which the density ratio must hear of
        proposed = weights / total[:, None]
        accept = np.minimum(1.0, np.exp(difference + ratio + np.log(total)[:, None] - np.log(total)[None, :]))
        move = proposed * accept
        np.fill_diagonal(move, 0.0)
        np.fill_diagonal(move, 1.0 - move.sum(axis=1))
        uncorrected += proposed / len(batches)
        corrected += move / len(batches)
    posterior = np.exp(log_posterior - log_posterior.max())
    return uncorrected, corrected, posterior / posterior.sum()


def total_variation(kernel, law):
    size = kernel.shape[0]
    equations = np.vstack([kernel.T - np.eye(size), np.ones(size)])
    stationary = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return 0.5 * np.abs(stationary - law).sum()


SGLD = amc.proposals.StochasticGradientLangevin(0.4, 1)
# The information of the data is 3. A wrong one makes the uncorrected steps worse.
SCORING = {
    "B is the information": amc.proposals.StochasticGradientFisherScoring(3.0, 2, information=[[3.0]]),
    "B is given": amc.proposals.StochasticGradientFisherScoring(0.8, 2, [[2.0]], information=[[1.5]]),
}


@pytest.mark.thorough
def test_correction_given_the_same_minibatch_is_exact_on_the_grid():
    uncorrected, corrected, posterior = grid_kernels(SGLD)
    assert total_variation(corrected, posterior) < 1e-10
    assert total_variation(uncorrected, posterior) == pytest.approx(0.3184, abs=5e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("case", SCORING)
def test_fisher_scoring_with_a_fixed_information_is_exact_on_the_grid(case):
    uncorrected, corrected, posterior = grid_kernels(SCORING[case])
    assert total_variation(corrected, posterior) < 1e-10
    assert total_variation(uncorrected, posterior) > 1e-2


estimate = plain(estimate_gradient)


def on_all_data(minibatch, theta, out, count):
    estimate(minibatch._replace(batch_size=minibatch.n_obs), theta, out, count)


def on_another_minibatch(minibatch, theta, out, count):
    minibatch.order[:] = np.roll(minibatch.order, 1)
    estimate(minibatch, theta, out, count)


UNCONDITIONED = {
    "way back along the gradient on all data": on_all_data,
    "way back given another minibatch": on_another_minibatch,
}


@pytest.mark.thorough
@pytest.mark.parametrize("proposal", [SGLD, SCORING["B is given"]], ids=["SGLD", "Fisher scoring"])
@pytest.mark.parametrize("bug", UNCONDITIONED)
def test_a_way_back_that_forgets_the_minibatch_is_not_exact(bug, proposal):
    way_out_and_back = itertools.cycle((estimate, UNCONDITIONED[bug]))

    def wrong(*arguments):
        return next(way_out_and_back)(*arguments)

    _, corrected, posterior = grid_kernels(proposal, {estimate_gradient: wrong})
    assert total_variation(corrected, posterior) > 1e-3
