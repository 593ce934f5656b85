"""Processes on few rows against distributions by quadrature.

Chains start away from the posterior, independent of one another, and run for twenty units of time before their draws
count. Per moment the mean over chains has a standard error from the chains, and abs(z) < 5: with ten moments a right
sampler fails once in 170 000 runs. 400 chains of 30 draws see a shift of .1 posterior standard deviations.
"""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import NotFiniteError
from approxmcmc.samplers.pdmp import bouncy_particle
from approxmcmc.samplers.pdmp.rows import ETA, N_SCALARS, RESPONSE, SIZE, slope_of
from tests import pdmp as book
from tests.planting import plant

CHAINS, BURN_IN, DRAWS, LIMIT = 400, 20, 30, 5.0


def log_normal_term(eta, y):
    """Return log N(y | eta, 1) up to a constant."""
    return -0.5 * (y - eta) ** 2


def normal_derivatives(eta, y):
    """Return its first two derivatives."""
    return y - eta, -1.0


def normal_target(dim):
    """Return a linear regression whose rows are all read: control variates of order 1 leave their curvature."""
    rng = np.random.default_rng(dim)
    X, y = rng.normal(size=(12, dim)), rng.normal(size=12)
    return amc.targets.GLMTarget(log_normal_term, X, y, derivatives_eta=normal_derivatives, second_derivative_bound=1.0)


def quadrature(target, fit):
    """Return mean and second moments of phi under the posterior, on a grid."""
    dim = fit.mode.size
    axis = np.linspace(-30.0, 20.0, 301 if dim == 2 else 4001)  # a wall of the logistic example has a tail to -20
    grid = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    thetas = fit.mode + grid @ fit.cholesky.T
    eta = thetas @ target.X.T
    mean, precision = target.normal_prior
    logs = -0.5 * np.square(thetas - mean) @ precision
    logs += sum(np.vectorize(target.likelihood.loglik)(eta[:, i], target.y[i]) for i in range(target.n_obs))
    weights = np.exp(logs - logs.max())
    return moments(grid).T @ weights / weights.sum()


def moments(phi):
    """Return phi and all its second products; shape (..., moments)."""
    dim = phi.shape[-1]
    return np.stack(
        [*(phi[..., j] for j in range(dim)), *(phi[..., j] * phi[..., k] for j in range(dim) for k in range(j + 1))], -1
    )


def scores(target, sampler, expected, seed, chains=CHAINS):
    """Return the z of each moment over independent chains."""
    program, fit = sampler.build(target), sampler.fit
    found = []
    for sequence in seed_sequences(seed, chains)[0]:
        own = streams(sequence)
        start = fit.mode + fit.cholesky @ (3.0 * np.ones(fit.mode.size))
        draws, _, running = book.advance(program, start, own, BURN_IN + DRAWS)
        if len(draws) < BURN_IN + DRAWS:
            raise NotFiniteError(running.explain_failure())
        found.append(moments(np.linalg.solve(fit.cholesky, (draws[BURN_IN:] - fit.mode).T).T).mean(axis=0))
    found = np.array(found)
    return (found.mean(axis=0) - expected) / (found.std(axis=0, ddof=1) / np.sqrt(chains))


TARGETS = {
    "normal in one dimension": lambda: normal_target(1),
    "normal in two": lambda: normal_target(2),
    "logistic": book.logistic_rows,
}


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", [amc.samplers.ZigZag, amc.samplers.BouncyParticle])
@pytest.mark.parametrize("name", TARGETS)
def test_moments_are_those_of_the_posterior(name, sampler, seed):
    target = TARGETS[name]()
    fit = amc.laplace(target)
    assert np.abs(scores(target, sampler(fit), quadrature(target, fit), seed)).max() < LIMIT


@pytest.mark.statistical
class TestPlantedBugs:
    def rejected(self, monkeypatch, wrong, seed, *, target=None, sampler=amc.samplers.ZigZag, chains=150):
        target = target or book.logistic_rows()
        fit = amc.laplace(target)
        plant(monkeypatch, wrong)
        return np.abs(scores(target, sampler(fit), quadrature(target, fit), seed, chains)).max() > LIMIT

    def test_rows_that_turn_nothing_are_rejected(self, monkeypatch, seed):
        def silent(split, record, position):
            return 0.0

        assert self.rejected(monkeypatch, {slope_of: silent}, seed)

    def test_a_forgotten_refreshment_is_rejected(self, monkeypatch, seed):
        def never(rng, flight):
            velocity = flight.velocity.copy()
            if velocity.any():
                rng.standard_normal(velocity.size)
            else:
                velocity[:] = rng.standard_normal(velocity.size)
            flight.velocity[:] = velocity
            flight.gain[0] = np.linalg.norm(velocity)

        target = normal_target(2)
        target.likelihood.second_derivative_bound, target.likelihood.third_derivative_bound = None, 1e-9
        wrong = {bouncy_particle.start: never}
        assert self.rejected(monkeypatch, wrong, seed, target=target, sampler=amc.samplers.BouncyParticle)

    def test_a_forgotten_control_variate_breaks_its_bound(self, monkeypatch, seed):
        def forgotten(split, record, position):
            delta = record[N_SCALARS:] @ position
            return split.likelihood.derivatives_eta(record[ETA] + delta, record[RESPONSE], record[SIZE])[0]

        with pytest.raises(NotFiniteError, match="true bound"):
            self.rejected(monkeypatch, {slope_of: forgotten}, seed)
