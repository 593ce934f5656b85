"""Stochastic-gradient zig-zag: the stationary law of its chain by enumeration of minibatches, and its order."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError
from approxmcmc.proposals.stochastic_gradient_zigzag import zig_and_zag
from tests.models import logistic
from tests.planting import plain

WIDEST, CELLS = 7.0, 10  # of the grid: its half width, and its cells in a step


def stationary_variance(h, forces):
    """Return the variance of N(0, 1)'s discrete chain; ``forces(x)`` yields the equally likely forces at x.

    Positions lie on a grid of h / CELLS. From (x, v) with the rate r = max(0, -v f) the chain goes to x + v h with
    probability exp(-r h), or turns at a time t < h and goes to x + v (2 t - h): each interval of t covers a cell of the
    grid, whose probability is shared by its two ends.
    """
    width = h / CELLS
    half = int(WIDEST / width)
    x = width * np.arange(-half, half + 1)
    n, rows, columns, chances = x.size, [], [], []

    def add(v, places, chance):
        rows.append(np.arange(n) + n * (v[0] > 0))
        columns.append(np.clip(places, 0, n - 1) + n * (v[1] > 0))
        chances.append(chance)

    for v in (-1, 1):
        all_forces = np.array(list(zip(*map(np.atleast_1d, forces(x)), strict=True)))
        for force in all_forces.T:
            rate, share = np.maximum(0.0, -v * force), 1.0 / all_forces.shape[1]
            add((v, v), np.arange(n) + v * CELLS, share * np.exp(-rate * h))
            for cell in range(CELLS):
                start, stop = cell * h / CELLS, (cell + 1) * h / CELLS
                chance = 0.5 * share * (np.exp(-rate * start) - np.exp(-rate * stop))
                for end in (2 * cell, 2 * cell + 2):
                    add((v, -v), np.arange(n) + v * (end - CELLS), chance)
    size = 2 * n
    matrix = csr_matrix((np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns))), (size, size)).T
    law = np.tile(np.exp(-0.5 * x**2), 2)
    law /= law.sum()
    for _ in range(int(60.0 / h)):
        law = matrix @ law
    assert law.sum() == pytest.approx(1.0, abs=1e-10)
    density = law[:n] + law[n:]
    return density @ x**2 - (density @ x) ** 2


def of_all_data(x):
    """Yield the force of N(0, 1)."""
    yield -x


def of_minibatches(x):
    """Yield the forces of one of four data, each N times its own gradient: (y_i - x / 4), sum of y zero."""
    for y in (-1.5, -0.2, 0.7, 1.0):
        yield 4.0 * (0.25 * y - 0.25 * x)


class TestOrder:
    @pytest.mark.thorough
    @pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
    def test_the_constant_is_the_rate_of_turns(self, noise):
        def noisy(x):
            yield -x - noise
            yield -x + noise

        near, nearer = ((stationary_variance(h, noisy) - 1.0) / h for h in (0.1, 0.05))
        x = np.random.default_rng(0).standard_normal(1_000_000)  # right to .001
        assert 2.0 * nearer - near == pytest.approx(0.5 * np.abs(x + noise).mean(), abs=0.01)

    def test_with_all_data_it_is_the_first_with_the_constant_of_the_docstring(self):
        errors = np.array([(stationary_variance(h, of_all_data) - 1.0) / h for h in (0.2, 0.1, 0.05)])
        expected = 1.0 / np.sqrt(2.0 * np.pi)
        assert np.abs(errors - expected)[-1] < 0.02
        assert abs(2.0 * errors[2] - errors[1] - expected) < 0.005  # without the term of order h^2

    def test_with_minibatches_it_is_the_first(self):
        errors = np.array([stationary_variance(h, of_minibatches) - 1.0 for h in (0.2, 0.1, 0.05)])
        assert 1.7 < errors[1] / errors[2] < 2.3
        assert abs(2.0 * errors[2] - errors[1]) < 0.003  # the limit is exact
        assert errors[2] > 0.003

    def test_turning_the_wrong_way_is_seen(self):
        def damped(x):
            yield -0.9 * x

        assert abs(stationary_variance(0.05, damped) - 1.0) > 0.08


def textbook(rng, h, velocity, force):
    """Return the way made in a time h, and the velocity, each coordinate with a clock of its own."""
    left, moved, velocity = h, np.zeros(len(force)), velocity.copy()
    while True:
        rates = np.maximum(0.0, -velocity * force)
        time = rng.standard_exponential() / rates.sum() if rates.sum() > 0.0 else np.inf
        if time >= left:
            return moved + left * velocity, velocity
        moved, left = moved + time * velocity, left - time
        chosen = np.searchsorted(np.cumsum(rates), rng.random() * rates.sum(), side="right")
        velocity[chosen] = -velocity[chosen]


@pytest.mark.parametrize("dim", [1, 4])
def test_a_step_equals_the_textbook(dim):
    one, other, rng = (np.random.default_rng(seed) for seed in (1, 1, 2))
    turns = 0
    for _ in range(200):
        velocity, force = rng.choice([-1.0, 1.0], dim), 2.0 * rng.normal(size=dim)
        moved, mine = np.empty(dim), velocity.copy()
        plain(zig_and_zag)(one, 0.8, mine, force, moved)
        expected, there = textbook(other, 0.8, velocity, force)
        np.testing.assert_allclose(moved, expected, atol=1e-14)
        np.testing.assert_array_equal(mine, there)
        turns += (mine != velocity).sum()
    assert turns > 50


def log_normal(theta, data, i):
    """Return log N(x_i | theta, 4), up to a constant, in two dimensions."""
    return -0.125 * ((data[0][i, 0] - theta[0]) ** 2 + (data[0][i, 1] - theta[1]) ** 2)


def grad_log_normal(theta, data, i, out):
    """Add its gradient."""
    out[0] += 0.25 * (data[0][i, 0] - theta[0])
    out[1] += 0.25 * (data[0][i, 1] - theta[1])


def flat(theta):
    """Return a flat log prior."""
    return 0.0


def no_gradient(theta, out):
    """Add the gradient of a flat prior."""


@pytest.mark.recompiles
@pytest.mark.parametrize("control_variate", [None, [0.1, -0.2]])
def test_chains_equal_numpy(control_variate):
    X = np.array([[-1.5, 0.3], [-0.2, -0.3], [0.7, 1.1], [1.0, -1.1]])
    target = amc.FunctionTarget(
        log_normal, flat, data=X, n_obs=4, dim=2, grad_loglik=grad_log_normal, grad_logprior=no_gradient
    )
    upper = np.linalg.cholesky(M := np.array([[1.0, 0.4], [0.4, 0.5]])).T
    proposal = amc.proposals.StochasticGradientZigZag(0.3, 2, 3, preconditioner=M, control_variate=control_variate)
    program = amc.MetropolisHastings(proposal, amc.acceptance.AlwaysAccept()).build(target, audit_every=None)
    chain = program.start(np.array([0.5, -0.5]), streams(seed_sequences(4, 1)[0][0]), 0)
    draws, counts = np.empty((40, 2)), np.empty((40, len(COUNT_NAMES)), np.int64)
    chain.advance(40, 1, draws, counts, np.empty((40, len(VALUE_NAMES))))

    rng, theta, order = streams(seed_sequences(4, 1)[0][0]).proposal, np.array([0.5, -0.5]), np.arange(4)
    velocity = np.array([1.0 if rng.random() < 0.5 else -1.0 for _ in range(2)])
    for draw in draws:
        for _ in range(3):
            for place in range(2):
                other = place + int(rng.random() * (4 - place))
                order[[place, other]] = order[[other, place]]
            rows = X[order[:2]]
            gradient = 2.0 * 0.25 * (rows - theta).sum(axis=0)
            if control_variate is not None:
                at = np.array(control_variate)
                gradient += 0.25 * (X - at).sum(axis=0) - 2.0 * 0.25 * (rows - at).sum(axis=0)
            moved, velocity = textbook(rng, 0.3, velocity, upper @ gradient)
            theta = theta + upper.T @ moved
        np.testing.assert_allclose(draw, theta, atol=1e-12)
    gradients = counts[:, COUNT_NAMES.index("gradient_evaluations")]
    assert (gradients == 6 * (1 if control_variate is None else 2)).all()


def test_a_test_is_refused():
    with pytest.raises(IncompatibleError, match="pair it with AlwaysAccept"):
        amc.MetropolisHastings(amc.proposals.StochasticGradientZigZag(0.1), amc.ExactTest()).build(
            logistic(), audit_every=None
        )
