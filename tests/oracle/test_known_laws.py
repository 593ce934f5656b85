"""Chains against laws known in closed form. Fixed seeds; each check states its false-fail rate and its power."""

import numpy as np
import pytest

from approxmcmc.acceptance import ExactTest
from approxmcmc.api import sample
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import FunctionTarget
from tests.models import normal_mean

FIVE_SIGMA = 5.0  # two-sided false-fail rate 5.7e-7 for each comparison


def _no_information(theta, data, i):
    return 0.0


def _standard_normal(theta):
    return -0.5 * theta[0] * theta[0]


@pytest.mark.parametrize(("scale", "expected"), [(2.4, 0.4422841), (2.38, 0.4449061)])
@pytest.mark.needs_jit
def test_acceptance_of_a_random_walk_on_a_normal(scale, expected, seed):
    """Stationary acceptance is (2 / pi) arctan(2 / h) (methods B.1).

    40 chains of 5000 steps started from exact draws: independent chain means give the standard error, about 0.0008, so
    an acceptance off by 0.008 is seen with probability over 0.999.
    """
    assert expected == pytest.approx(2 / np.pi * np.arctan(2 / scale), abs=1e-7)
    target = FunctionTarget(_no_information, _standard_normal, data=np.zeros(1), n_obs=1, dim=1)
    start = np.random.default_rng(seed).normal(size=(40, 1))
    sampler = MetropolisHastings(RandomWalk(scale), ExactTest())
    trace = sample(target, sampler, draws=5000, tune=0, chains=40, initvals=start, random_seed=seed, progressbar=False)
    per_chain = trace.sample_stats["accepted"].mean("draw").values
    error = per_chain.std(ddof=1) / np.sqrt(len(per_chain))
    assert abs(per_chain.mean() - expected) < FIVE_SIGMA * error
    assert FIVE_SIGMA * error < 0.008


@pytest.mark.needs_jit
@pytest.mark.parametrize("rule", ["metropolis", pytest.param("barker", marks=pytest.mark.recompiles)])
def test_posterior_of_a_normal_mean_is_invariant(rule, seed):
    """Start 2000 chains from the exact posterior, make 20 steps, and compare mean and variance with the posterior's.

    Chains are independent, so no effective sample size enters. Power: a forgotten prior moves the mean by 0.29 sd in
    stationarity and by more than half of that in 20 steps, six standard errors; see also the planted bugs.
    """
    target = normal_mean()
    (x,) = target.data
    precision = len(x) + 4.0
    mean, sd = (x.sum() + 4.0) / precision, precision**-0.5
    n = 2000
    start = mean + sd * np.random.default_rng(seed).normal(size=(n, 1))
    sampler = MetropolisHastings(RandomWalk(2.4 * sd), ExactTest(rule))
    trace = sample(
        target, sampler, draws=1, tune=0, thin=20, chains=n, initvals=start, random_seed=seed, progressbar=False
    )
    z = (trace.posterior["mu"].values[:, 0] - mean) / sd
    assert abs(z.mean()) * np.sqrt(n) < FIVE_SIGMA
    assert abs((z**2).mean() - 1.0) * np.sqrt(n / 2.0) < FIVE_SIGMA
    assert trace.sample_stats["accepted"].mean() > 0.1
