"""Stochastic-gradient Fisher scoring, step by step as the paper writes it."""

import copy
import types

import numpy as np
import pytest
from scipy.special import expit

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.covariance import checked_cholesky
from approxmcmc.proposals.fisher_scoring import _explain
from tests.models import logistic
from tests.planting import plain

N, BATCH, ALPHA = 60, 12, 0.7


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "B", [None, np.array([[3.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 1.0]])], ids=["own", "given"]
)
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
