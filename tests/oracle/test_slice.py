"""Slice sampling with a test: equal to the textbook, draw for draw."""

import numpy as np
import pytest
from scipy.special import log_expit

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.samplers.slice import line, step as of_steps
from tests import textbook
from tests.models import logistic
from tests.planting import plant

N, DIM, WIDTHS, SEED = 300, 3, np.array([0.3, 0.5, 0.8]), 11


def textbook_slice(target, *, steps, max_steps, directions, test=textbook.exact):
    """Return the states after each step and the number of comparisons: Neal (2003), figures 3 and 5.

    ``test(rng, order, differences, mu_0)`` says whether the mean of all differences is above mu_0.
    """
    own, order = streams(seed_sequences(SEED, 1)[0][0]), np.arange(N)
    X, y, theta = target.X, target.y, np.array([0.1, -0.2, 0.3])
    draws, comparisons = [], []

    def terms(theta):
        return log_expit(np.where(y == 1.0, 1.0, -1.0) * (X @ theta))

    for _ in range(steps):
        log_u, rng = -own.uniform.standard_exponential(), own.proposal
        if directions == "coordinates":
            chosen = int(rng.random() * DIM)
            direction = WIDTHS * (np.arange(DIM) == chosen)
        else:
            direction = rng.standard_normal(DIM)
            direction = WIDTHS * direction / np.linalg.norm(direction)

        def inside(t, theta=theta, direction=direction, log_u=log_u):
            there = theta + t * direction
            log_rest = -0.5 * (there @ there - theta @ theta)
            comparisons[-1] += 1
            return test(own.order, order, terms(there) - terms(theta), (log_u - log_rest) / N)[0]

        comparisons.append(0)
        left = -rng.random()
        right = left + 1.0
        to_the_left = int(rng.random() * max_steps)
        to_the_right = max_steps - 1 - to_the_left
        while to_the_left > 0 and inside(left):
            left, to_the_left = left - 1.0, to_the_left - 1
        while to_the_right > 0 and inside(right):
            right, to_the_right = right + 1.0, to_the_right - 1
        while True:
            t = left + rng.random() * (right - left)
            if inside(t):
                break
            left, right = (t, right) if t < 0.0 else (left, t)
        theta = theta + t * direction
        draws.append(theta)
    return np.array(draws), np.array(comparisons)


def library(test, *, steps, max_steps, directions):
    """Return draws and counts of the library's chain from the same start."""
    sampler = amc.samplers.SliceSampler(amc.samplers.Slice(WIDTHS, max_steps, directions), test)
    chain = sampler.build(logistic(N, DIM), audit_every=None).start(
        np.array([0.1, -0.2, 0.3]), streams(seed_sequences(SEED, 1)[0][0]), 0
    )
    draws, counts = np.empty((steps, DIM)), np.empty((steps, len(COUNT_NAMES)), np.int64)
    values = np.empty((steps, len(VALUE_NAMES)))
    assert chain.advance(steps, 1, draws, counts, values) == steps
    return draws, dict(zip(COUNT_NAMES, counts.T, strict=True)), dict(zip(VALUE_NAMES, values.T, strict=True))


@pytest.mark.parametrize(
    "directions",
    [
        pytest.param("sphere", marks=pytest.mark.core),
        pytest.param("coordinates", marks=[pytest.mark.recompiles, pytest.mark.thorough]),
    ],
)
def test_with_the_exact_test_it_equals_the_textbook(directions):
    settings = {"steps": 300, "max_steps": 4, "directions": directions}
    draws, counts, values = library(amc.ExactTest(), **settings)
    expected, comparisons = textbook_slice(logistic(N, DIM), **settings)
    np.testing.assert_allclose(draws, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(counts["decisions_made"], comparisons)
    np.testing.assert_array_equal(counts["datapoints_touched"], N * comparisons)
    target = logistic(N, DIM)
    log_density = [-0.5 * b @ b + log_expit((2 * target.y - 1) * (target.X @ b)).sum() for b in draws]
    np.testing.assert_allclose(values["lp"], log_density, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.recompiles
def test_with_the_sequential_test_it_equals_the_textbook():
    settings = {"steps": 200, "max_steps": 4, "directions": "sphere"}
    draws, counts, _ = library(amc.SequentialTTest(0.05, 30), **settings)
    expected, comparisons = textbook_slice(logistic(N, DIM), **settings, test=textbook.sequential_t(0.05, 30))
    np.testing.assert_allclose(draws, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(counts["decisions_made"], comparisons)
    assert counts["datapoints_touched"].sum() < 0.9 * N * comparisons.sum()


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.parametrize(
    "test",
    [
        amc.SequentialTTest(0.0, 30),
        amc.SequentialTTest(0.0, 30, order="blocks"),
        amc.SequentialTTest(0.2, N),
        amc.acceptance.BernsteinTest(0.01, N),
    ],
    ids=repr,
)
def test_a_test_that_reads_all_data_gives_the_exact_chain(test):
    settings = {"steps": 60, "max_steps": 8, "directions": "sphere"}
    draws, _, _ = library(test, **settings)
    exact, _, _ = library(amc.ExactTest(), **settings)
    np.testing.assert_allclose(draws, exact, rtol=1e-12, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.recompiles
def test_a_sum_that_a_look_leaves_behind_is_seen(monkeypatch):
    settings = {"steps": 100, "max_steps": 4, "directions": "sphere"}
    exact, _, _ = library(amc.ExactTest(), **settings)
    plant(monkeypatch, {amc.acceptance.exact.keep_log_likelihood: lambda test, total: None})
    draws, _, _ = library(amc.ExactTest(), **settings)
    assert np.abs(draws - exact).max() > 0.01


@pytest.mark.thorough
@pytest.mark.recompiles
def test_directions_of_the_wrong_length_are_seen(monkeypatch):
    settings = {"steps": 100, "max_steps": 4, "directions": "sphere"}
    exact, _, _ = library(amc.ExactTest(), **settings)

    def twice_as_long(rng, state):
        state.direction[:] = 2.0 * WIDTHS * rng.standard_normal(DIM)

    plant(monkeypatch, {line.draw_direction: twice_as_long})
    draws, _, _ = library(amc.ExactTest(), **settings)
    assert np.abs(draws - exact).max() > 0.01
    assert of_steps.draw_direction is line.draw_direction
