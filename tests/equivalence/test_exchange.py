"""The noisy family, bit for bit: chunks, threads, thinning, audits; what must agree with what."""

import dataclasses

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from tests.intractable import five_values

SAMPLERS = {
    "exchange": amc.Exchange(amc.RandomWalk(0.6), 2),
    "population": amc.Exchange(amc.proposals.AdaptiveDirection()),
    "MALA": amc.samplers.MALAExchange(0.5, False, 2),
    "Langevin": amc.samplers.NoisyLangevin(0.5, 2),
}


def draws(sampler, **options):
    settings = {"draws": 30, "tune": 4, "chains": 2, "random_seed": 5, "progressbar": False, "audit_every": None}
    return amc.sample(five_values(), sampler, **{**settings, **options}).posterior["theta"].values


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_depend_on_seed_and_chain_alone(name):
    sampler = SAMPLERS[name]
    first = draws(sampler)
    np.testing.assert_array_equal(first, draws(sampler, cores=1))
    np.testing.assert_array_equal(first[:1], draws(sampler, chains=1))
    np.testing.assert_array_equal(first, draws(sampler, audit_every=1))
    np.testing.assert_array_equal(first[:, 2::3], draws(sampler, draws=10, thin=3))


@pytest.mark.parametrize("name", SAMPLERS)
def test_chunks_leave_no_trace(name):
    program = SAMPLERS[name].build(five_values(), audit_every=2)
    results = []
    for chunks in ((20,), (1, 7, 12)):
        chain = program.start(np.array([0.3]), streams(seed_sequences(1, 1)[0][0]), 0)
        pieces = []
        for n in chunks:
            out = np.empty((n, 1)), np.empty((n, len(COUNT_NAMES)), np.int64), np.empty((n, len(VALUE_NAMES)))
            assert chain.advance(n, 1, *out) == n
            pieces.append((out[0], out[1]))
        results.append([np.concatenate(column) for column in zip(*pieces, strict=True)])
    for one, many in zip(*results, strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.recompiles
def test_one_draw_behind_drift_and_ratio_is_noisy_with_one():
    """A noisy MALA step with N = 1 differs from the exact one by the draw that judges, and from itself by nothing."""
    noisy = amc.samplers.MALAExchange(0.5, True, 1)
    np.testing.assert_array_equal(draws(noisy), draws(dataclasses.replace(noisy)))
    assert not np.array_equal(draws(noisy), draws(dataclasses.replace(noisy, noisy=False)))


@pytest.mark.recompiles
def test_an_estimate_without_noise_is_metropolis_hastings():
    """GIMH, MCWM and the noisy ratio agree with the exact chain of the same proposals and uniforms."""

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def estimate(rng, theta, data):
        return -0.5 * (data[0][0] - theta[0]) ** 2

    def estimate_ratio(rng, theta, proposed, data):
        return 0.5 * (data[0][0] - theta[0]) ** 2 - 0.5 * (data[0][0] - proposed[0]) ** 2

    def log_prior(theta):
        return -0.125 * theta[0] ** 2

    x, walk = np.array([1.5]), amc.RandomWalk(1.2)
    settings = {"draws": 50, "tune": 0, "chains": 1, "random_seed": 2, "initvals": np.zeros(1), "progressbar": False}
    tall = amc.FunctionTarget(loglik, log_prior, data=x, n_obs=1, dim=1)
    exact = amc.sample(tall, amc.MetropolisHastings(walk, amc.ExactTest()), **settings).posterior["theta"].values
    likelihood = amc.targets.EstimatedLikelihood(estimate, log_prior, dim=1, data=x)
    ratio = amc.targets.EstimatedRatio(estimate_ratio, log_prior, dim=1, data=x)
    for target, sampler in (
        (likelihood, amc.samplers.PseudoMarginal(walk)),
        (likelihood, amc.samplers.PseudoMarginal(walk, refresh=True)),
        (ratio, amc.samplers.NoisyMetropolisHastings(walk)),
    ):
        np.testing.assert_array_equal(amc.sample(target, sampler, **settings).posterior["theta"].values, exact)
