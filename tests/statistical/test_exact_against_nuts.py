"""Exact Metropolis-Hastings and NUTS share nothing but the model: their moments must agree."""

import arviz as az
import numpy as np
import pytest

import approxmcmc as amc
from tests.models import logistic

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]

DRAWS, THIN, CHAINS = 10_000, 20, 8
FOUR_MCSE = 4.0


def moments(posterior, reference):
    """Return |difference| / Monte Carlo standard error for the mean and the sd of every coefficient."""
    scores = []
    for method in ("mean", "sd"):
        value = {"mean": lambda d: d.mean(("chain", "draw")), "sd": lambda d: d.std(("chain", "draw"))}[method]
        ours, theirs = posterior["beta"], reference["posterior"]["beta"]
        error = np.hypot(*(az.mcse(draws, method=method).values for draws in (ours, theirs)))
        scores.append(np.abs(value(ours) - value(theirs)).values / error)
    return np.array(scores)


@pytest.fixture(scope="module")
def target():
    return logistic(n=400, dim=4, prior_scale=0.7)


@pytest.fixture(scope="module")
def reference(target):
    return amc.reference_posterior(target, random_seed=2014)


def test_exact_metropolis_hastings_agrees_with_nuts(target, reference, seed):
    """Mean and sd of 4 coefficients within 4 standard errors: false-fail rate 8 * 6.3e-5 = 5e-4.

    Effective sample sizes are some ten thousand, so a mean off by 0.06 sd or an sd off by 5 % is seen: the planted bugs
    below, a forgotten prior among them, move them by more.
    """
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.15), amc.ExactTest())
    trace = amc.sample(
        target, sampler, draws=DRAWS, tune=2000, thin=THIN, chains=CHAINS, random_seed=seed, progressbar=False
    )
    assert moments(trace.posterior, reference).max() < FOUR_MCSE


@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
@pytest.mark.parametrize("bug", ["prior forgotten", "a biased test"])
def test_it_would_see_a_broken_chain(bug, target, reference, seed):
    broken = logistic(n=400, dim=4, prior_scale=np.inf) if bug == "prior forgotten" else target
    test = amc.SequentialTTest(epsilon=0.3, batch_size=20) if bug == "a biased test" else amc.ExactTest()
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.15), test)
    trace = amc.sample(
        broken, sampler, draws=DRAWS, tune=2000, thin=THIN, chains=CHAINS, random_seed=seed, progressbar=False
    )
    assert moments(trace.posterior, reference).max() > 2 * FOUR_MCSE
