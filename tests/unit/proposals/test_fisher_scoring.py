"""Stochastic-gradient Fisher scoring, step by step as the paper writes it."""

import copy
import types

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import checked_cholesky
from approxmcmc.proposals.fisher_scoring import _explain
from tests.models import logistic
from tests.planting import plain

N, BATCH, ALPHA = 60, 12, 0.7
NOISE = np.array([[3.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 1.0]])


@pytest.mark.recompiles
@pytest.mark.parametrize("B", [None, NOISE], ids=["own", "given"])
def test_three_steps(B):
    """theta' = theta + 2 (gamma I + 4 B / alpha)^-1 (grad log p + N gbar + noise), noise ~ N(0, 4 B / alpha)."""
    target = logistic(N, 3)
    proposal = amc.proposals.StochasticGradientFisherScoring(ALPHA, BATCH, B).build_unadjusted(target)
    state, rng, running = proposal.make_state(), np.random.default_rng(3), np.zeros((3, 3))
    theirs, order, count = copy.deepcopy(rng), state.minibatch.order.copy(), np.zeros(len(COUNT_NAMES), np.int64)
    theta, out = np.array([0.1, -0.2, 0.3]), np.empty(3)
    for step in range(1, 4):
        assert plain(proposal.propose)(rng, state, theta, out, count) == 0.0
        plain(draw_next)(theirs, order, 0, BATCH)
        rows = order[:BATCH]
        scores = (target.y[rows] - expit(target.X[rows] @ theta))[:, None] * target.X[rows]
        running += (np.cov(scores.T) - running) / step
        spread = N * running if B is None else B
        push = N * scores.mean(axis=0)
        target.compile_gradient().add_prior_gradient(theta, push)
        push += np.sqrt(4.0 / ALPHA) * np.linalg.cholesky(spread) @ theirs.standard_normal(3)
        matrix = N / BATCH * N * running + 4.0 / ALPHA * spread
        np.testing.assert_allclose(out, theta + 2.0 * np.linalg.solve(matrix, push), rtol=1e-11)
        assert count[TOUCHED] == count[GRADIENTS] == step * BATCH
        theta = out.copy()


@pytest.mark.parametrize(
    "B", [None, np.array([3.0, 0.5, 2.0]), np.array([[3.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 1.0]])]
)
def test_the_density_ratio_of_a_fixed_information(B):
    """Of N(theta + 2 M^-1 g(theta), 16/alpha M^-1 B M^-1), M = gamma I + 4 B / alpha, given the minibatch."""
    target = logistic(N, 3)
    information = np.array([[9.0, 2.0, -1.0], [2.0, 7.0, 1.0], [-1.0, 1.0, 5.0]])
    part = amc.proposals.StochasticGradientFisherScoring(ALPHA, BATCH, B, information).build_proposal(target)
    spread = information if B is None else np.diag(B**2) if B.ndim == 1 else B
    matrix = N / BATCH * information + 4.0 / ALPHA * spread
    cov = 16.0 / ALPHA * np.linalg.inv(matrix) @ spread @ np.linalg.inv(matrix)
    theta, out, count = np.array([0.1, -0.2, 0.3]), np.empty(3), np.zeros(len(COUNT_NAMES), np.int64)
    state = part.make_state()
    ratio = plain(part.propose)(np.random.default_rng(3), state, theta, out, count)
    assert count[TOUCHED] == BATCH and count[GRADIENTS] == 2 * BATCH
    again = np.empty(3)
    assert plain(part.move)(np.random.default_rng(3), part.make_state(), theta, again, count) == 0.0
    assert np.array_equal(out, again) and count[GRADIENTS] == 3 * BATCH
    rows = state.minibatch.order[:BATCH]

    def log_q(there, here):
        gradient = N / BATCH * target.X[rows].T @ (target.y[rows] - expit(target.X[rows] @ here))
        target.compile_gradient().add_prior_gradient(here, gradient)
        return multivariate_normal(here + 2.0 * np.linalg.solve(matrix, gradient), cov).logpdf(there)

    assert ratio == pytest.approx(log_q(theta, out) - log_q(out, theta), rel=1e-9)


def test_a_laplace_approximation_gives_its_precision_as_information():
    fit = amc.numerics.Laplace(np.zeros(2), np.array([[0.5, 0.1], [0.1, 0.2]]))
    proposal = amc.proposals.StochasticGradientFisherScoring(1.0, 5, information=fit)
    np.testing.assert_allclose(proposal.information, np.linalg.inv(fit.cov))
    with pytest.raises(IncompatibleError, match=r"target has 3 parameters, information has shape \(2, 2\)"):
        proposal.build_proposal(logistic(N, 3))
    with pytest.raises(InvalidInputError, match="information must be a matrix"):
        amc.proposals.StochasticGradientFisherScoring(1.0, 5, information=np.ones(2))
    with pytest.raises(InvalidInputError, match="information must be positive definite"):
        amc.proposals.StochasticGradientFisherScoring(1.0, 5, information=-np.eye(2))


@pytest.mark.parametrize(("information", "rank"), [([1e-13, 1e-7, 1e6], 1), ([1e-5, 1.0, 1e6], 3)])
def test_the_rank_is_that_beside_the_largest_eigenvalue(information, rank):
    state = types.SimpleNamespace(running=np.diag(information))
    assert _explain(state) == "" if rank == 3 else f"of rank {rank} for 3 parameters" in _explain(state)


@pytest.mark.parametrize(
    "cov", [np.ones(3), np.ones((2, 3)), np.diag([1.0, np.nan]), np.array([[1.0, 0.2], [0.1, 1.0]])]
)
def test_what_is_no_covariance_is_refused(cov):
    with pytest.raises(InvalidInputError, match="must be symmetric and finite, found shape"):
        checked_cholesky(cov)
