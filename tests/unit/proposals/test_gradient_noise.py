"""The noise that friction adds: the given noise of gradients, its estimate, and the message where it is NaN."""

import math

import numpy as np
import pytest

from approxmcmc.contracts.records import COUNT_NAMES, GRADIENTS
from approxmcmc.contracts.speaker import speaking
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.gradient_noise import (
    added_noise,
    apply_compensating_friction,
    checked_noise,
    explain_noise,
    learn,
    why_too_noisy,
)
from approxmcmc.proposals.langevin_step import Spread
from approxmcmc.proposals.minibatch_gradient import MinibatchGradient, write_scores
from tests.planting import plain

EMPTY = np.empty((0, 0))
COVARIANCE = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, 0.2], [0.1, 0.2, 0.5]])
STEP, KEEP, N, BATCH = 0.1, 0.8, 1000, 10
HEAT = 0.25 * ((1.0 + KEEP) * STEP) ** 2


def minibatch(dim, anchored=False):
    return MinibatchGradient(
        None, N, BATCH, None, None, 0, None, np.zeros(dim * anchored), np.zeros(dim), np.zeros(dim)
    )


def noise_of(given, dim=3, spread=None):
    spread = Spread(np.ones(dim), EMPTY) if spread is None else spread
    return added_noise(given, minibatch(dim), spread, STEP, KEEP)


@pytest.mark.parametrize(
    "given", [np.ones((2, 3)), np.ones((3, 2)), np.ones(3), np.ones((2, 2, 2)), [[1.0, 0.5], [0.4, 1.0]], "learn"]
)
def test_what_is_no_covariance_is_refused(given):
    with pytest.raises(InvalidInputError, match="gradient_noise must be"):
        checked_noise(given)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], r"not symmetric: entries \(i, j\) and \(j, i\) differ by up to 0\.1"),
        ([[1.0, math.nan], [math.nan, 1.0]], "not finite"),
        (-np.eye(2), "negative eigenvalue -1"),
        ([[1.0, 2.0], [2.0, 1.0]], "negative eigenvalue -1"),
    ],
)
def test_the_message_names_what_is_wrong_with_the_matrix(given, fault):
    with pytest.raises(InvalidInputError, match=fault):
        checked_noise(given)


@pytest.mark.parametrize("given", [np.zeros((2, 2)), np.outer([1.0, 1e-3], [1.0, 1e-3]), np.diag([1e-12, 1e12])])
def test_gradients_without_noise_in_some_direction_have_a_covariance(given):
    np.testing.assert_array_equal(checked_noise(given), given)


def test_a_covariance_of_other_parameters_is_refused():
    with pytest.raises(IncompatibleError, match="target has 2 parameters"):
        noise_of(COVARIANCE, dim=2)


@pytest.mark.parametrize("kind", ["scales", "factor"])
def test_what_is_added_makes_up_for_what_gradients_bring(kind):
    """S + heat L' V L = (1 - keep^2) I, in the metric L L' of the preconditioner."""
    L = np.diag([0.5, 1.0, 2.0]) if kind == "scales" else np.linalg.cholesky(COVARIANCE)
    spread = Spread(np.diag(L).copy(), EMPTY) if kind == "scales" else Spread(np.empty(0), L.T.copy())
    noise = noise_of(COVARIANCE, spread=spread)
    both = noise.lower @ noise.lower.T + HEAT * L.T @ COVARIANCE @ L
    np.testing.assert_allclose(both, (1.0 - KEEP**2) * np.eye(3), atol=1e-14)
    assert noise.due.tolist() == [0.0]


def test_too_hot_in_one_direction_is_too_hot():
    assert why_too_noisy(np.diag([1.0, 2.0, 3.0]), STEP, 1.0 - KEEP**2, HEAT) == ""
    said = why_too_noisy(np.diag([1.0, 2.0, 100.0]), STEP, 1.0 - KEEP**2, HEAT)
    assert "adds 2.25 times the energy" in said and "friction of at least" in said
    with pytest.raises(IncompatibleError, match=r"SGHMC: gradient noise adds 2\.25 times"), speaking("SGHMC"):
        noise_of(np.diag([1.0, 2.0, 100.0]))


@pytest.mark.parametrize(("largest", "told"), [(399.0, True), (401.0, False), (900.0, False)])
def test_no_friction_is_enough_for_gradients_that_throw_further_than_a_step(largest, told):
    """(h^2 / 4) w = tanh(gamma h / 2) < 1; here h = 1 / 10."""
    assert ("friction of at least" in why_too_noisy(np.array([[largest]]), STEP, 1.0 - KEEP**2, HEAT)) is told


def test_infinite_friction_is_no_advice():
    """At h = keep = 1/2 and w = 16 all numbers are exact."""
    assert "friction of at least" not in why_too_noisy(np.array([[16.0]]), 0.5, 0.75, 0.25 * (1.5 * 0.5) ** 2)


@pytest.mark.parametrize("kind", ["scales", "factor"])
def test_the_first_minibatch_is_all_that_is_known(kind):
    """Then W = L' C_n L, and S = total I - heat W is factored."""
    L = np.diag([0.5, 1.0, 2.0]) if kind == "scales" else np.linalg.cholesky(COVARIANCE)
    scale, upper = (np.diag(L).copy(), EMPTY) if kind == "scales" else (np.empty(0), L.T.copy())
    noise, count = noise_of("tune"), np.zeros(len(COUNT_NAMES), np.int64)

    def scores(batch, theta, mean, covariance, score):
        covariance[:] = 1e-5 * COVARIANCE

    plain(learn, {write_scores: scores})(minibatch(3), np.zeros(3), scale, upper, noise, count)
    np.testing.assert_allclose(noise.estimate, 1e-5 * L.T @ COVARIANCE @ L, rtol=1e-12)
    expected = noise.total * np.eye(3) - noise.heat * noise.estimate
    np.testing.assert_allclose(np.tril(noise.lower) @ np.tril(noise.lower).T, expected, atol=1e-12)
    assert (noise.learnt[0], count[GRADIENTS]) == (1.0, BATCH)
    assert noise.heat == pytest.approx(HEAT * N**2 * (1.0 / BATCH - 1.0 / N))


@pytest.mark.parametrize("dim", [1, 3])
def test_a_control_variate_takes_two_gradients_of_each_datum(dim):
    noise, count = noise_of("tune", dim), np.zeros(len(COUNT_NAMES), np.int64)
    batch = minibatch(dim, anchored=True)
    plain(learn, {write_scores: lambda *given: None})(batch, np.zeros(dim), np.ones(dim), EMPTY, noise, count)
    assert count[GRADIENTS] == 2 * BATCH


class Fixed:
    """Draws 1, 2, 3, ... for normal numbers."""

    def __init__(self):
        self.drawn = 0.0

    def standard_normal(self):
        self.drawn += 1.0
        return self.drawn


def after(noise):
    """Return the velocity after one step of friction from (1, 1, 1)."""
    velocity = np.ones(3)
    plain(apply_compensating_friction)(Fixed(), KEEP, noise, velocity)
    return velocity


def test_isotropic_noise_and_noise_by_its_factor():
    np.testing.assert_allclose(after(noise_of(None)), KEEP + 0.6 * np.arange(1, 4), rtol=1e-12)
    noise = noise_of(COVARIANCE)
    np.testing.assert_allclose(after(noise), KEEP + noise.lower @ np.arange(1.0, 4.0), rtol=1e-12)


def test_nothing_is_added_while_tuning_comes_through_places_that_are_too_noisy():
    noise = noise_of("tune")
    noise.lower[:], noise.lower[2, 2] = np.tril(np.ones((3, 3))), math.nan
    assert noise.due[0] == 1.0 and after(noise).tolist() == [KEEP] * 3


@pytest.mark.parametrize("places", [(2, 2), slice(None)])
def test_why_it_is_nan_is_said_once_it_is(places):
    noise = noise_of("tune")
    noise.lower[:], noise.estimate[:] = np.eye(3), 100.0 * np.eye(3)
    assert explain_noise(noise, STEP) == ""
    noise.lower[places] = math.nan
    with speaking("SGHMC"):
        assert explain_noise(noise, STEP).startswith("SGHMC: gradient noise")
    noise.estimate[0, 1] = math.nan
    assert explain_noise(noise, STEP) == ""
    assert explain_noise(noise_of(None), STEP) == ""


@pytest.mark.parametrize("steps", [1, 3])
def test_a_chain_that_never_tuned_has_learnt_nothing(steps):
    """Its first trajectory has read a minibatch for each of its steps."""
    noise = noise_of("tune")
    noise.lower[:] = np.eye(3)
    noise.learnt[0] = steps
    assert np.isfinite(after(noise)).all()
    noise.due[0] = 0.0
    assert np.isnan(after(noise)).all()
    assert "there were no tuning steps" in explain_noise(noise, STEP)
