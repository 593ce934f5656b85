"""Planted heavy rows never give a silent wrong answer.

A Gaussian set of 4000 x 4 gets 1, 10 or 1000 rows whose predictors are 10, 1e3 or 1e5 times as large, or one row that
separates the classes. Each sampler runs on each set, and an exact chain is the reference. A run is *wrong* where a mean
is off by more than .1 posterior standard deviations and five standard errors of both chains, or a standard deviation by
more than 10 % and five standard errors; wrong and silent fails.

False fails: 4 coefficients x 2 moments x 10 sets x 4 samplers at five standard errors, 2e-4 in all if they were normal.
Power: without its audits (`audit_every=None`) the sampler on control variates is wrong and silent on one of these sets
at least, which the last test asserts.
"""

import warnings

import numpy as np
import pytest
from arviz_stats import ess

import approxmcmc as amc

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]

N, DIM = 4000, 4
SETS = [(rows, weight) for rows in (1, 10, 1000) for weight in (10.0, 1e3, 1e5)] + ["separating"]


def planted(which):
    """Return the target of one set."""
    rng = np.random.default_rng(17)
    X, beta = rng.normal(size=(N, DIM)), np.array([1.0, -0.5, 0.25, 0.0])
    if which == "separating":
        X[0] = 1e3 * np.array([0.0, 0.0, 0.0, 1.0])
        X[1:, 3] = 0.0
        return amc.targets.LogisticRegression(
            X, (rng.random(N) < 1.0 / (1.0 + np.exp(-X @ beta))) | (np.arange(N) == 0)
        )
    rows, weight = which
    X[:rows] *= weight
    eta = np.clip(X @ beta, -700.0, 700.0)
    return amc.targets.LogisticRegression(X, rng.random(N) < 1.0 / (1.0 + np.exp(-eta)))


def samplers(target):
    """Yield name, target and sampler."""
    fit = amc.laplace(target)
    walk = amc.RandomWalk(2.38 / DIM**0.5, preconditioner=fit)
    mixture = amc.proposals.Mixture([amc.proposals.PreconditionedCrankNicolson(0.0, fit), walk], weights=[0.9, 0.1])
    small = amc.SequentialTTest(0.01, batch_size=64, growth=2.0, tol=0.05)
    yield "control variates", amc.ControlVariate(target, at=fit), amc.MetropolisHastings(mixture, small)
    yield "plain", target, amc.MetropolisHastings(walk, amc.SequentialTTest(0.05, batch_size=500))
    split = amc.ControlVariate(target, always_read="auto")
    yield "influential rows", split, amc.MetropolisHastings(amc.SurrogateTransition(), small)
    strata = amc.ControlVariate(target, always_read="auto", at=split.pilot, order=0)
    yield "strata", strata, amc.MetropolisHastings(walk, amc.SequentialTTest(0.05, batch_size=500))


def draws_of(target, sampler, draws, **settings):
    """Return draws (chains, draws, dim) and what the run warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trace = amc.sample(target, sampler, draws=draws, tune=500, chains=2, progressbar=False, **settings)
    return trace.posterior["beta"].values, [str(each.message) for each in told]


def reference(target):
    """Return draws of an exact chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all rows are influential
        split = amc.ControlVariate(target, always_read="auto")
    sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.ExactTest())
    return draws_of(split, sampler, 4000, random_seed=1)[0]


def standard_errors(draws):
    """Return those of means, and of logs of standard deviations, in posterior standard deviations."""
    squares = np.square(draws - draws.mean(axis=(0, 1)))
    sizes = [np.array([max(float(ess(moment[..., j])), 4.0) for j in range(DIM)]) for moment in (draws, squares)]
    return 1.0 / np.sqrt(sizes[0]), np.sqrt(0.5 / sizes[1])


def is_wrong(draws, exact):
    """Return whether a mean or a spread is off by more than chance, and by more than matters."""
    sd = exact.std(axis=(0, 1))
    shift = np.abs(draws.mean(axis=(0, 1)) - exact.mean(axis=(0, 1))) / sd
    spread = np.abs(np.log(draws.std(axis=(0, 1)) / sd))
    (mean_here, spread_here), (mean_there, spread_there) = standard_errors(draws), standard_errors(exact)
    limits = 5.0 * np.hypot(mean_here, mean_there), 5.0 * np.hypot(spread_here, spread_there)
    return bool((shift > np.maximum(0.1, limits[0])).any() or (spread > np.maximum(0.1, limits[1])).any())


@pytest.mark.parametrize("which", SETS, ids=str)
def test_no_sampler_is_wrong_and_silent(which):
    target = planted(which)
    exact, silent = reference(target), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)
        pairings = list(samplers(target))
    for name, on, sampler in pairings:
        draws, told = draws_of(on, sampler, 4000, random_seed=2)
        if is_wrong(draws, exact) and not told:
            silent.append(name)
    assert silent == []


def test_without_audits_a_run_on_control_variates_would_be_wrong_and_silent():
    found = []
    for which in SETS:
        target = planted(which)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", amc.errors.SamplingWarning)
            _, on, sampler = next(samplers(target))
        draws, told = draws_of(on, sampler, 4000, random_seed=2, audit_every=None)
        found.append(is_wrong(draws, reference(target)) and not told)
    assert any(found)
