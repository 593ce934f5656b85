"""Processes on few rows: their rates by enumeration over rows, and a chain against the textbook."""

import numpy as np
import pytest
from scipy.integrate import quad

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.numerics import Laplace
from approxmcmc.samplers.pdmp import bouncy_particle, split, step, zigzag
from tests import pdmp as book
from tests.planting import plain

PLACES = [np.array([0.3, -0.7]), np.array([-1.9, 0.4]), np.array([2.5, 2.0])]


class Scripted:
    """A generator that returns given numbers."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def new_program(sampler, target=None):
    target = target or book.logistic_rows()
    return target, sampler(amc.laplace(target)).build(target)


def at(program, phi, velocity):
    """Return the flight of a particle at phi."""
    state = program.new_state(program.split.center + program.split.cholesky @ phi, 0)
    state.flight.velocity[:] = velocity
    state.flight.gain[0] = 1.0 if program.dynamics is zigzag.ZIGZAG else np.linalg.norm(velocity)
    plain(step.set_force)(state.flight, program.split.force)
    return state


def turning_probability(turn_by_row, flight, record, slope, ceiling, first):
    """Return the probability that a row turns the particle, by bisection of the uniform that decides it."""
    velocity, change, (low, high) = flight.velocity.copy(), flight.change.copy(), (0.0, 1.0)
    for _ in range(50):
        u = 0.5 * (low + high)
        turned = turn_by_row(Scripted(*first, u), flight, record, slope, ceiling)
        low, high = (u, high) if turned else (low, u)
        flight.velocity[:], flight.change[:] = velocity, change
    return low


def zigzag_rates(program, phi, velocity, slope_of=step.slope_of):
    """Return the rate of each coordinate: that of Q, and what rows add by thinning, enumerated."""
    slope_of, turn_by_row = plain(slope_of), plain(zigzag.turn_by_row)
    split_of, state = program.split, at(program, phi, velocity)
    rates = np.maximum(0.0, velocity * state.flight.force)
    radius, orders = np.linalg.norm(phi), np.repeat(np.arange(3), np.diff(split_of.first))
    for record, order in zip(split_of.records, orders, strict=True):
        ceiling, sizes = record[split.RATE] * radius**order, np.abs(record[split.N_SCALARS :])
        slope = slope_of(split_of, record, phi)
        for j, before in enumerate(np.cumsum(sizes) - sizes):
            first = [(before + 0.5 * sizes[j]) / record[split.LENGTH]]
            chance = turning_probability(turn_by_row, state.flight, record, slope, ceiling, first)
            rates[j] += ceiling * sizes[j] * chance
    return rates


def bouncy_rate(program, phi, velocity):
    """Return the total rate of bounces."""
    slope_of, turn_by_row = plain(step.slope_of), plain(bouncy_particle.turn_by_row)
    split_of = program.split
    state = at(program, phi, velocity)
    rate = max(0.0, float(velocity @ state.flight.force))
    orders = np.repeat(np.arange(3), np.diff(split_of.first))
    for record, order in zip(split_of.records, orders, strict=True):
        ceiling = record[split.RATE] * np.linalg.norm(phi) ** order
        slope = slope_of(split_of, record, phi)
        chance = turning_probability(turn_by_row, state.flight, record, slope, ceiling, [])
        rate += ceiling * record[split.LENGTH] * np.linalg.norm(velocity) * chance
    return rate


def energy_gradient(target, program, phi):
    """Return the gradient in phi of minus the log density, from the target's own gradients."""
    theta, gradient = program.split.center + program.split.cholesky @ phi, target.compile_gradient()
    total = full_gradient(gradient, theta)
    gradient.add_prior_gradient(theta, total)
    return -program.split.cholesky.T @ total


def imbalance(program, target, slope_of=step.slope_of):
    """Return the largest error of lambda_j(v) - lambda_j(F_j v) = v_j dU_j over some places and all velocities."""
    worst = 0.0
    for phi in PLACES:
        forces = energy_gradient(target, program, phi)
        for v in (np.array([1.0, 1.0]), np.array([1.0, -1.0])):
            there, back = zigzag_rates(program, phi, v, slope_of), zigzag_rates(program, phi, -v, slope_of)
            worst = max(worst, np.abs(there - back - v * forces).max())
    return worst


def test_the_example_has_rows_without_and_with_a_polynomial():
    # Of logistic regression no row ever has order 1: where its bound is below that of order 2, that of order 0 is less.
    target, program = new_program(amc.samplers.ZigZag)
    assert (np.diff(program.split.first) > 0).tolist() == [True, False, True]
    assert sorted(program.split.rows) == list(range(target.n_obs))


@pytest.mark.thorough
@pytest.mark.parametrize("orders", [(0, 1, 2), (0,), (1,), (2,), (0, 1)])
def test_the_zigzag_leaves_the_posterior_invariant(orders):
    target = book.with_orders(book.logistic_rows(), orders)
    program = amc.samplers.ZigZag(amc.laplace(target)).build(target)
    assert set(np.flatnonzero(np.diff(program.split.first))) <= set(orders)
    assert imbalance(program, target) < 1e-10


ROWS = np.arange(8)
FAMILIES = {
    "binomial": lambda X: amc.targets.BinomialRegression(X, ROWS % 3, 2 + ROWS % 4),
    "negative binomial": lambda X: amc.targets.NegativeBinomialRegression(X, ROWS % 5, 2.0),
    "beta": lambda X: amc.targets.BetaRegression(X, (1 + ROWS % 3) / 5.0, 4.0),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_with_a_size_or_with_a_bound_each_leave_the_posterior_invariant(family):
    target = FAMILIES[family](book.logistic_rows().X)
    assert imbalance(amc.samplers.ZigZag(amc.laplace(target)).build(target), target) < 1e-10


def test_a_forgotten_size_is_seen():
    target = FAMILIES["binomial"](book.logistic_rows().X)
    program = amc.samplers.ZigZag(amc.laplace(target)).build(target)
    program.split.records[:, split.SIZE] = 1.0
    assert imbalance(program, target) > 0.05


@pytest.mark.parametrize(
    "fit", [Laplace([0.4, 1.0], np.diag([2.0, 0.5])), Laplace([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])]
)
def test_it_does_so_around_any_normal_law(fit):
    target = book.logistic_rows()
    assert imbalance(amc.samplers.ZigZag(fit).build(target), target) < 1e-10


def test_the_bouncy_particle_leaves_the_posterior_invariant():
    target, program = new_program(amc.samplers.BouncyParticle)
    for phi in PLACES:
        for v in (np.array([0.4, -1.1]), np.array([2.0, 0.3])):
            there, back = bouncy_rate(program, phi, v), bouncy_rate(program, phi, -v)
            assert there - back == pytest.approx(v @ energy_gradient(target, program, phi), abs=1e-10)


def test_a_bounce_turns_the_push_round_and_keeps_the_speed():
    _, program = new_program(amc.samplers.BouncyParticle)
    state, normal = at(program, PLACES[0], np.array([0.4, -1.1])), np.array([0.3, 2.0])
    before = state.flight.velocity.copy()
    plain(bouncy_particle.reflect)(state.flight, normal)
    assert state.flight.velocity @ normal == pytest.approx(-(before @ normal), rel=1e-14)
    assert np.linalg.norm(state.flight.velocity) == pytest.approx(np.linalg.norm(before), rel=1e-14)


class TestPlantedBugs:
    def test_a_forgotten_control_variate_is_seen(self):
        def forgotten(split_of, record, position):
            delta = record[split.N_SCALARS :] @ position
            return split_of.derivatives_eta(record[split.ETA] + delta, record[split.RESPONSE], record[split.SIZE])[0]

        target, program = new_program(amc.samplers.ZigZag)
        assert imbalance(program, target, forgotten) > 0.05

    def test_the_gradient_of_the_wrong_row_is_seen(self):
        target, program = new_program(amc.samplers.ZigZag)

        def of_the_next(split_of, record, position):
            place = np.flatnonzero((split_of.records == record).all(axis=1))[0]
            return plain(step.slope_of)(split_of, split_of.records[place - 1], position)

        assert imbalance(program, target, of_the_next) > 0.05

    def test_a_bound_that_is_too_small_is_seen(self):
        target, program = new_program(amc.samplers.ZigZag)
        program.split.records[:, split.RATE] *= 0.05
        assert imbalance(program, target) > 0.05


@pytest.mark.parametrize(
    ("rate", "growth"), [(1.0, 2.0), (-1.0, 2.0), (0.7, 0.0), (0.0, 1.0), (2.0, -0.5), (3.0, -1.0)]
)
def test_arrivals_invert_the_integral_of_the_rate(rate, growth):
    for exponential in (0.1, 0.9, 2.5):
        time = plain(step.arrival)(rate, growth, exponential)
        whole = rate**2 / (-2.0 * growth) if growth < 0.0 else np.inf
        if exponential > whole:
            assert time == np.inf
        else:
            points = [-rate / growth] if growth != 0.0 and 0.0 < -rate / growth < time else None
            found, _ = quad(lambda s: max(0.0, rate + growth * s), 0.0, time, points=points)
            assert found == pytest.approx(exponential, rel=1e-9)


@pytest.mark.parametrize(("rate", "growth"), [(0.0, 0.0), (-1.0, 0.0), (-1.0, -1.0), (0.0, -1.0)])
def test_a_rate_that_is_never_positive_has_no_arrival(rate, growth):
    assert plain(step.arrival)(rate, growth, 0.5) == np.inf


@pytest.mark.core
def test_a_chain_on_one_row_equals_the_textbook():
    X, y = np.array([[1.5]]), np.array([1.0])
    target = amc.targets.LogisticRegression(X, y, prior_scale=2.0)
    book.with_orders(target, [1])
    fit = amc.laplace(target)
    settings = {"steps": 400, "seed": 8, "start": [0.2]}
    draws, counts, _ = book.draws_of(target, amc.samplers.ZigZag(fit, spacing=0.7), **settings)
    settings["start"] = 0.2
    expected, rows = book.zigzag(X, y, 2.0, fit, 0.25, spacing=0.7, **settings)
    np.testing.assert_allclose(draws[:, 0], expected, rtol=1e-11)
    assert counts["datapoints_touched"].sum() == rows
    assert 0 < counts["row_events"].sum() < counts["events"].sum()
