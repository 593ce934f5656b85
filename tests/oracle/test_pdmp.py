"""Processes on few rows: their rates by enumeration over rows, and a chain against the textbook."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.numerics import Laplace
from approxmcmc.samplers.pdmp import bouncy_particle, rows, step, zigzag
from approxmcmc.samplers.pdmp.split import rows_of
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


def turning_probability(turn_by_row, flight, record, residual, ceiling, first):
    """Return the probability that a row turns the particle, by bisection of the uniform that decides it."""
    velocity, change, (low, high) = flight.velocity.copy(), flight.change.copy(), (0.0, 1.0)
    for _ in range(50):
        u = 0.5 * (low + high)
        slope, direction = residual
        turned = turn_by_row(Scripted(*first, u), flight, record, direction, slope, ceiling)
        low, high = (u, high) if turned else (low, u)
        flight.velocity[:], flight.change[:] = velocity, change
    return low


def places_with_ceilings(split_of, phi):
    """Yield each row's place, its record, and the bound of its slope at phi."""
    radius, orders = np.linalg.norm(phi), np.repeat(np.arange(3), np.diff(split_of.first))
    factors = split_of.factors[plain(step.shell_of)(split_of.limits, radius**2)]
    for place, (record, order) in enumerate(zip(split_of.records, orders, strict=True)):
        yield place, record, factors[order] * record[rows.RATE] * radius**order


def zigzag_rates(program, phi, velocity, read=None):
    """Return the rate of each coordinate: that of Q, and what rows add by thinning, enumerated."""
    read, turn_by_row = plain(read or program.read), plain(zigzag.turn_by_row)
    split_of, state = program.split, at(program, phi, velocity)
    rates = np.maximum(0.0, velocity * state.flight.force)
    for place, record, ceiling in places_with_ceilings(split_of, phi):
        sizes = np.abs(record[rows.N_SCALARS : rows.N_SCALARS + len(phi)])
        residual = read(split_of, place, phi, state.scratch)
        for j, before in enumerate(np.cumsum(sizes) - sizes):
            first = [(before + 0.5 * sizes[j]) / record[rows.LENGTH]]
            chance = turning_probability(turn_by_row, state.flight, record, residual, ceiling, first)
            rates[j] += ceiling * sizes[j] * chance
    return rates


def bouncy_rate(program, phi, velocity):
    """Return the total rate of bounces."""
    read, turn_by_row = plain(program.read), plain(bouncy_particle.turn_by_row)
    split_of = program.split
    state = at(program, phi, velocity)
    rate = max(0.0, float(velocity @ state.flight.force))
    for place, record, ceiling in places_with_ceilings(split_of, phi):
        residual = read(split_of, place, phi, state.scratch)
        chance = turning_probability(turn_by_row, state.flight, record, residual, ceiling, [])
        rate += ceiling * record[rows.LENGTH] * np.linalg.norm(velocity) * chance
    return rate


def energy_gradient(target, program, phi):
    """Return the gradient in phi of minus the log density, from the target's own gradients."""
    theta, gradient = program.split.center + program.split.cholesky @ phi, target.compile_gradient()
    total = full_gradient(gradient, theta)
    gradient.add_prior_gradient(theta, total)
    return -program.split.cholesky.T @ total


def imbalance(program, target, read=None, places=PLACES):
    """Return the largest error of lambda_j(v) - lambda_j(F_j v) = v_j dU_j over some places and two velocities."""
    worst = 0.0
    for phi in places:
        forces = energy_gradient(target, program, phi)
        for v in (np.ones(len(phi)), np.resize([1.0, -1.0], len(phi))):
            there, back = zigzag_rates(program, phi, v, read), zigzag_rates(program, phi, -v, read)
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
    program.split.records[:, rows.SIZE] = 1.0
    assert imbalance(program, target) > 0.05


X = book.logistic_rows(heavy=False).X
COUNTS = ROWS % 5
WITHOUT_GLOBAL_BOUNDS = {
    "poisson": lambda: amc.PoissonRegression(X, COUNTS),
    "cloglog": lambda: amc.targets.CloglogRegression(X, ROWS % 2),
    "negative binomial": lambda: amc.NegativeBinomialRegression(X, COUNTS),
    "gamma": lambda: amc.targets.GammaRegression(X, 0.5 + COUNTS, weights=1.0 + ROWS % 2),
    "weibull": lambda: amc.targets.WeibullRegression(X, 0.5 + COUNTS),
    "beta": lambda: amc.targets.BetaRegression(X, (1 + ROWS % 3) / 5.0),
    "normal": lambda: amc.LinearRegression(X, COUNTS - 2.0).plain,
}
SEVERAL = {
    "softmax": lambda: amc.SoftmaxRegression(X, ROWS % 3),
    "softmax of a table": lambda: amc.SoftmaxRegression(
        pd.DataFrame({"x": X[:, 0], "town": np.array(["a", "b"])[ROWS % 2]}), ROWS % 3, weights=1.0 + ROWS % 2
    ),
    **WITHOUT_GLOBAL_BOUNDS,
}


def near_the_mode(target):
    """Return a narrow normal law at the mode, around which several shells have bounds, and places in three of them."""
    law = amc.laplace(target)
    places = np.random.default_rng(5).normal(size=(3, law.mode.size))
    places *= np.array([0.7, 0.8, 1.4])[:, None] * np.sqrt(law.mode.size) / np.linalg.norm(places, axis=1)[:, None]
    places[1] *= (np.sqrt(law.mode.size) + 2.5) / np.linalg.norm(places[1])
    return Laplace(law.mode, 0.1 * law.cholesky @ law.cholesky.T), places


@pytest.mark.parametrize("name", SEVERAL)
def test_rows_with_several_predictors_or_with_local_bounds_leave_the_posterior_invariant(name):
    target = SEVERAL[name]()
    fit, places = near_the_mode(target)
    program = amc.samplers.ZigZag(fit).build(target)
    assert (len(program.split.limits) > 1) == (name in WITHOUT_GLOBAL_BOUNDS)
    assert imbalance(program, target, places=places) < 1e-10
    bouncy, v = amc.samplers.BouncyParticle(fit).build(target), np.resize([0.4, -1.1, 2.0], fit.mode.size)
    for phi in places:
        difference = bouncy_rate(bouncy, phi, v) - bouncy_rate(bouncy, phi, -v)
        assert difference == pytest.approx(v @ energy_gradient(target, bouncy, phi), abs=1e-10)


class TestPlantedBugsOfSeveralPredictors:
    @pytest.mark.parametrize("part", ["of_slopes", "of_bends", "of_eta", "of_design"])
    def test_a_forgotten_part_of_a_record_is_seen(self, part):
        target = SEVERAL["softmax"]()
        fit, places = near_the_mode(target)
        program = amc.samplers.ZigZag(fit).build(target)
        program.split.records[:, getattr(rows_of(target, fit, 1), part)] = 0.0
        assert imbalance(program, target, places=places) > 0.005

    def test_shares_that_are_too_small_are_seen(self):
        target = SEVERAL["softmax"]()
        fit, places = near_the_mode(target)
        program = amc.samplers.ZigZag(fit).build(target)
        program.split.records[:, rows.RATE] *= 0.03
        assert imbalance(program, target, places=places) > 1e-4

    def test_a_bound_of_the_innermost_ball_is_too_small_further_out(self):
        target = amc.PoissonRegression(X, COUNTS, prior_scale=0.3)
        program = amc.samplers.ZigZag(amc.laplace(target)).build(target)
        far = [radius * np.array([np.cos(a), np.sin(a)]) for radius in (3.0, 5.0) for a in (0.3, 1.7, 3.1, 4.5)]
        assert len(program.split.limits) > 2
        assert imbalance(program, target, places=far) < 1e-9
        program.split.factors[1:] *= 0.05
        assert imbalance(program, target, places=far[:4]) < 1e-9
        assert imbalance(program, target, places=far[4:]) > 1e-3


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
        def forgotten(split_of, place, position, work):
            record = split_of.records[place].copy()
            record[[rows.SLOPE, rows.BEND]] = 0.0
            return plain(rows.slope_of)(split_of, record, position), record[rows.N_SCALARS :]

        target, program = new_program(amc.samplers.ZigZag)
        assert imbalance(program, target, forgotten) > 0.05

    def test_the_gradient_of_the_wrong_row_is_seen(self):
        target, program = new_program(amc.samplers.ZigZag)

        def of_the_next(split_of, place, position, work):
            slope, _ = plain(rows.read_one)(split_of, place - 1, position, work)
            return slope, split_of.records[place][rows.N_SCALARS :]

        assert imbalance(program, target, of_the_next) > 0.05

    def test_a_bound_that_is_too_small_is_seen(self):
        target, program = new_program(amc.samplers.ZigZag)
        program.split.records[:, rows.RATE] *= 0.05
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
