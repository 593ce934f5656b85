"""What tunes the steps of proposals: its range, its recursion, and that all of a proposal follows the factor."""

import copy
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.auxiliary_variable import langevin as noisy
from approxmcmc.samplers.auxiliary_variable.langevin import DriftState
from tests.models import logistic
from tests.planting import plain

MOVES = {  # with the gain of the recursion: a Langevin step is a variance, the others are lengths
    amc.RandomWalk: 1.0,
    amc.Langevin: 2.0,
    amc.proposals.Hamiltonian: 1.0,
}
pytestmark = pytest.mark.recompiles
each_move = pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)


def built(move, step=0.1, target_acceptance=None):
    """Return a proposal for a logistic regression, its state, and counts."""
    proposal = move(step, target_acceptance=target_acceptance).build_proposal(logistic(30, 2))
    return proposal, proposal.make_state(), np.zeros(len(COUNT_NAMES), np.int64)


@each_move
@pytest.mark.parametrize("wanted", [-0.1, 0.0, 1.0, 1.1, math.nan])
def test_a_rate_outside_zero_and_one_is_refused(move, wanted):
    with pytest.raises(InvalidInputError, match="target_acceptance must lie strictly between 0 and 1"):
        move(0.1, target_acceptance=wanted)


@each_move
def test_the_recursion(move):
    """Of the log of the factor, by the distance from the rate that is wanted over (step + 1)^0.6."""
    assert built(move)[0].adapt is None
    proposal, state, _ = built(move, target_acceptance=0.3)
    assert state.log_factor[0] == 0.0
    for step, rate in ((0, 0.9), (7, 0.1)):
        before = state.log_factor[0]
        plain(proposal.adapt)(state, rate, step)
        gained = MOVES[move] * (rate - 0.3) / (step + 1.0) ** 0.6
        assert state.log_factor[0] - before == pytest.approx(gained, rel=1e-12)


def test_the_recursion_of_the_noisy_family():
    state = dict.fromkeys(DriftState._fields)
    state = DriftState(**state | {"log_factor": np.zeros(1), "wanted": 0.5})
    plain(noisy.adapt_step)(state, 0.75, 3)
    assert state.log_factor[0] == pytest.approx(0.25 / 4.0**0.6)


@each_move
def test_a_factor_is_a_step_of_another_size(move):
    ends = []
    for step, factor in ((0.02, 3.0), (0.06, 1.0)):
        proposal, state, count = built(move, step, 0.5)
        state.log_factor[0] = math.log(factor)
        out = np.empty(2)
        ratio = plain(proposal.propose)(np.random.default_rng(2), state, np.array([0.3, -0.2]), out, count)
        ends.append([*out, ratio])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9, atol=1e-12)
    assert np.abs(np.array(ends[0][:2]) - [0.3, -0.2]).max() > 1e-3


@pytest.mark.parametrize("move", [amc.RandomWalk, amc.Langevin], ids=lambda move: move.__name__)
def test_coupled_chains_at_one_place_make_one_step(move):
    """As the proposal alone makes it, whatever the factor."""
    proposal, state, count = built(move, 0.05, 0.5)
    state.log_factor[0] = math.log(3.0)
    x, ends, rng = np.array([0.3, -0.2]), np.empty((3, 2)), np.random.default_rng(2)
    plain(proposal.propose)(copy.deepcopy(rng), state, x, ends[0], count)
    plain(proposal.couple)(rng, state, copy.deepcopy(state), x, x.copy(), ends[1], ends[2], np.empty((2, 2)), count)
    np.testing.assert_allclose(ends[1:], ends[[0, 0]], rtol=1e-12)
