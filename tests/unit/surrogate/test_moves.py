"""Moves on a surrogate that is undefined somewhere: rejected out of its reach, the end of the chain within it."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance.out_of_reach import evaluations_to_reject
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import OUT_OF_REACH
from approxmcmc.surrogate.kernels import kernel_named
from approxmcmc.surrogate.moves import SurrogateState
from approxmcmc.surrogate.transition import Ends, TransitionState, make_couple, make_propose
from tests.planting import plain

WALL = 5.0
START = 4.0


def surrogate(beyond, curvature, *, across=False, slope_beyond=0.0):
    """Return the state of a normal log density on the line, which is `beyond` from the wall on."""

    def log_density(theta):
        return beyond if theta[0] > WALL else -0.5 * curvature * theta[0] ** 2

    def add_gradient(theta, out):
        out[0] += slope_beyond if theta[0] > WALL else 0.0  # a trajectory is reversible for any force

    none = np.zeros((0, 1))
    one = np.ones((1, 1))
    return SurrogateState(
        log_density=log_density,
        add_gradient=add_gradient,
        predict=lambda theta, out, rows: None,
        on_line=lambda eta, slopes, t, rows: 0.0,
        rows=None,
        log_prior=log_density,
        n_rows=3,
        center=np.zeros(1),
        slope=np.zeros(1),
        basis=none if across else one,
        walls=one if across else none,
        wall_slopes=np.zeros((1 if across else 0, 0)),
        wall_bends=np.zeros((1 if across else 0, 1)),
        log_step=np.full(1, math.log(6.0)),
        length=6.0,
        value=np.full(1, math.nan),
        exact=np.zeros(1),
        position=np.zeros(1),
        gradient=np.zeros(1),
        momentum=np.zeros(0 if across else 1),
        eta=np.zeros(0),
        order=np.arange(2 if across else 1),
    )


def transition_of(state):
    here, there = np.full((2, 1), math.nan)
    ends = Ends(here, there, np.empty(2), lambda: evaluations_to_reject(state.log_density, here, there))
    return TransitionState(state, 1, ends)


def proposals(kernel, beyond, curvature, seeds=60, **settings):
    """Return the points proposed from START with one seed after the other, their log q ratios, and the counts."""
    propose = plain(make_propose(kernel_named(kernel).move))
    count = np.zeros(len(COUNT_NAMES), np.int64)
    found = []
    for seed in range(seeds):
        state = transition_of(surrogate(beyond, curvature, across=kernel.endswith("walls"), **settings))
        out = np.empty(1)
        ratio = propose(np.random.default_rng(seed), state, np.full(1, START), out, count)
        found.append((out[0], ratio))
    return np.array(found), count


# From START = 4 to the wall S falls by 4.5 curvatures.
KERNELS = ["walk", "hmc", "walk+walls"]
FAR, NEAR = 170.0, 160.0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("beyond", [math.nan, math.inf])
def test_an_undefined_surrogate_out_of_reach_is_zero(kernel, beyond):
    """Bit by bit, if the transition is one proposal; one with slices is rejected as a whole."""
    undefined, count = proposals(kernel, beyond, FAR)
    zero, none = proposals(kernel, -math.inf, FAR)
    assert count[OUT_OF_REACH] > 5 and none[OUT_OF_REACH] == 0
    assert np.isfinite(undefined).all() and (undefined[:, 0] <= WALL).all()
    met = (undefined != zero).any(axis=1)
    assert met.sum() == 0 if not kernel.endswith("walls") else (undefined[met, 0] == START).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("beyond", [math.nan, math.inf])
def test_an_undefined_surrogate_within_reach_is_seen(kernel, beyond):
    """The log q ratio is NaN, which the step judges; a move that stays would truncate the distribution."""
    found, count = proposals(kernel, beyond, NEAR)
    beyond_wall = found[:, 0] > WALL
    assert beyond_wall.sum() > 5 and count[OUT_OF_REACH] == 0
    np.testing.assert_array_equal(np.isnan(found[:, 1]), beyond_wall)


@pytest.mark.parametrize("slope", [math.inf, -math.inf, 1e40])
def test_a_trajectory_whose_momentum_diverges_is_rejected(slope):
    found, count = proposals("hmc", math.nan, 1.0, slope_beyond=slope)
    assert (found[:, 0] <= WALL).all() and np.isfinite(found[:, 1]).all() and count[OUT_OF_REACH] == 0
    assert 0.1 < (found[:, 0] == START).mean() < 1.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_coupled_chain_does_not_notice_where_the_other_is_undefined(kernel):
    """Y from far below the wall proposes what it proposes alongside a chain without a wall."""
    moves = kernel_named(kernel)
    couple = plain(make_couple(moves.move_both))
    across = kernel.endswith("walls")
    met = 0
    for seed in range(40):
        ends = []
        for beyond in (math.nan, 0.0):
            x = transition_of(surrogate(beyond, 1.0, across=across))
            y = transition_of(surrogate(0.0, 1.0, across=across))
            x_new, y_new = np.empty(1), np.empty(1)
            points = np.full(1, START), np.full(1, -2.0)
            count = np.zeros(len(COUNT_NAMES), np.int64)
            ratios = couple(np.random.default_rng(seed), x, y, *points, x_new, y_new, np.empty((2, 1)), count)
            ends.append((y_new[0], ratios[1]))
            met += math.isnan(ratios[0])
        assert ends[0][1] == ends[1][1]
        if not across:
            assert ends[0] == ends[1]
    assert met > 3
