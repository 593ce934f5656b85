"""The thermostat: its step against the textbook, and the law that its equations leave invariant."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import stochastic_gradient_nose_hoover as sgnht
from tests import hamiltonian as book, langevin as models
from tests.models import logistic
from tests.planting import plain

N, n, H, A = 6, 2, 0.3, 0.7
DENSE = np.array([[0.3, 0.1], [0.1, 0.2]])
TARGET = models.normal_means(N, 2)


def written(draw, M):
    """Return ``propose(rng, theta)`` of BADODAB with one kick a step, and the frictions as they go."""
    L, v, xi = np.linalg.cholesky(M), None, [A]

    def propose(rng, theta):
        nonlocal v
        v = book.normals(rng, len(M)) if v is None else v
        v = v + H * L.T @ draw(rng)(theta)
        theta = theta + H / 2.0 * L @ v
        friction = xi[-1] + H / 2.0 * ((v**2).mean() - 1.0)
        variance = A * (1.0 - np.exp(-2.0 * friction * H)) / friction
        v = np.exp(-friction * H) * v + np.sqrt(variance) * book.normals(rng, len(M))
        xi.append(friction + H / 2.0 * ((v**2).mean() - 1.0))
        return theta + H / 2.0 * L @ v

    return propose, xi


def differs(wrong=None):
    """Make 12 steps by both; return whether theta or the friction differs."""
    part = amc.proposals.StochasticGradientNoseHoover(H, A, n, DENSE).build_unadjusted(TARGET)
    propose, state = plain(part.propose, wrong), part.make_state()
    estimator = book.estimator(models.scores(TARGET.data[0]), models.prior_score, n=n, n_obs=N)
    expected, xi = written(estimator, DENSE)
    rng, book_rng = np.random.default_rng(1), np.random.default_rng(1)
    theta, out, count = np.array([0.5, 0.1]), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    book_theta = theta
    for _ in range(12):
        propose(rng, state, theta, out, count)
        theta, book_theta = out.copy(), expected(book_rng, book_theta)
        if not (np.allclose(theta, book_theta, rtol=0, atol=1e-10) and abs(state.friction[0] - xi[-1]) < 1e-10):
            return True
    assert count[COUNT_NAMES.index("gradient_evaluations")] == 12 * n
    assert count[COUNT_NAMES.index("datapoints_touched")] == 12 * n
    return False


adjust, spread = plain(sgnht.adjust_friction), plain(sgnht.spread_at)
BUGS = {
    "friction sees the sum": {
        sgnht.adjust_friction: lambda time, v, friction: adjust(time, np.sqrt(2.0) * v, friction)
    },
    "friction of a whole step": {sgnht.adjust_friction: lambda time, *rest: adjust(2.0 * time, *rest)},
    "noise of Euler's step": {sgnht.spread_at: lambda friction, noise, time: spread(1e-12, noise, time)},
}


def test_the_step_is_the_textbooks():
    assert not differs()


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug):
    assert differs(BUGS[bug])


def test_noise_is_right_where_friction_vanishes():
    assert spread(0.0, A, H) == np.sqrt(2.0 * A * H)
    for friction in (1e-7, -1e-7, 2e-8):
        assert spread(friction, A, H) == pytest.approx(np.sqrt(2.0 * A * H), rel=1e-7)
    assert spread(-0.5, A, H) == pytest.approx(np.sqrt(A * (np.exp(0.3) - 1.0) / 0.5), rel=1e-12)


def generator_of_the_density(B, mass, dim=3, seed=0):
    """Return (L* rho) / rho at a random point, L* the forward operator of the equations, derivatives written out.

    rho = exp(-U) N(v) N(xi; A + B, 1/d), with U(z) = |z|^4 / 4; gradient noise makes A into A + B; d xi = (|v|^2 / d -
    1) dt d / mass.
    """
    rng = np.random.default_rng(seed)
    z, v, xi = rng.normal(size=dim), rng.normal(size=dim), rng.normal()
    slope = -(z @ z) * z  # of log rho in z, and the force
    transport = -v @ slope  # d theta = v dt
    kick = -slope @ -v  # force on v, whose density has the slope -v
    friction = xi * (dim - v @ v)
    noise = (A + B) * (v @ v - dim)
    thermostat = -((v @ v) / dim - 1.0) * (dim / mass) * (-(xi - A - B) * dim)
    return transport + kick + friction + noise + thermostat


@pytest.mark.parametrize("seed", range(5))
def test_the_law_that_is_stated_is_invariant(seed):
    for B in (0.0, 2.5):
        assert abs(generator_of_the_density(B, 3, seed=seed)) < 1e-12
        assert abs(generator_of_the_density(B, 1, seed=seed)) > 1e-3  # another thermostat has another law of xi


def test_what_is_out_of_range_is_refused():
    with pytest.raises(InvalidInputError, match=r"noise is a rate, positive and finite, found 0\.0"):
        amc.proposals.StochasticGradientNoseHoover(0.1, 0.0)
    with pytest.raises(InvalidInputError, match="step_size is the time of a step"):
        amc.proposals.StochasticGradientNoseHoover(-0.1)
    with pytest.raises(IncompatibleError, match="has no density ratio"):
        amc.MetropolisHastings(amc.proposals.StochasticGradientNoseHoover(0.1), amc.ExactTest()).build(logistic())
