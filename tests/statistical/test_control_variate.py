"""Control variates at the scale of their use: moments, audited errors, and what a bad point of expansion does."""

import warnings

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic, synthetic_stand_in
from approxmcmc.errors import SamplingWarning
from approxmcmc.numerics import laplace
from approxmcmc.surrogate import ControlVariate
from approxmcmc.targets import LogisticRegression

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]

DIM = 50
RUN = {"progressbar": False, "audit_every": None}


def independence_chain(target, fit, test, draws, seed, chains=8):
    """Return the draws in posterior standard deviations from the mode; shape (chains, draws, dim)."""
    sampler = amc.MetropolisHastings(amc.proposals.PreconditionedCrankNicolson(0.0, fit), test)
    trace = amc.sample(target, sampler, draws=draws, tune=100, chains=chains, random_seed=seed, **RUN)
    white = np.linalg.solve(fit.cholesky, (trace.posterior["beta"].values - fit.mode).reshape(-1, DIM).T)
    return white.T.reshape(chains, draws, DIM)


def scores(ours, exact):
    """Return z-scores of the differences in mean and sd of every coordinate, and the ratio of the sds over all.

    Each chain is one replicate, so that no effective sample size is guessed.
    """
    result = []
    for summary in (np.mean, np.std):
        a, b = summary(ours, axis=1), summary(exact, axis=1)
        error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
        result.append((a.mean(axis=0) - b.mean(axis=0)) / error)
    ratio = np.std(ours, axis=1).mean() / np.std(exact, axis=1).mean()
    return np.array(result), ratio


@pytest.fixture(scope="module")
def tall():
    """10^5 data, 50 parameters."""
    return ControlVariate(LogisticRegression(*synthetic_logistic(100_000, DIM, seed=0)))


def test_moments_at_1e5_data_are_those_of_the_exact_chain(tall, seed):
    """Sds within 1 %, means within noise.

    False-fail: the mean square of 50 z-scores with 14 degrees of freedom (mean 1.17, sd .26) exceeds 3 in less than
    1e-6 by simulation; the mean sd of 50 coordinates over 8 x 1500 exact draws has error 0.1 %, a tenth of the limit.
    Power: a shift of 0.03 sd in every mean (Laplace without a test is off by that) moves the mean square to 4.
    """
    exact = independence_chain(tall.target, tall.laplace, amc.ExactTest(), 1500, seed)
    test = amc.SequentialTTest(0.01, batch_size=64, growth=2.0, tol=0.05)
    ours = independence_chain(tall, tall.laplace, test, 20_000, seed + 1)
    z, ratio = scores(ours, exact)
    assert abs(ratio - 1.0) < 0.01
    assert (z**2).mean(axis=1).max() < 3.0
    shifted, _ = scores(ours + 0.04, exact)
    assert (shifted**2).mean(axis=1).max() > 3.0, "the test must see such a bias"


def test_audited_wrong_decisions_are_ties(tall, seed):
    """Under tol = .05 a wrong decision has |Lambda - log u| of the order of .05: fewer than 4 % of all, at 99.9 %.

    notes/control_variates.md: .017 [measured by replication]. Planted: tol = 2 must exceed it.
    """
    rates = []
    for tol in (0.05, 2.0):
        test = amc.SequentialTTest(0.01, batch_size=64, growth=2.0, tol=tol)
        sampler = amc.MetropolisHastings(amc.proposals.PreconditionedCrankNicolson(0.0, tall.laplace), test)
        settings = {**RUN, "audit_every": 10}
        trace = amc.sample(tall, sampler, draws=10_000, tune=0, chains=2, random_seed=seed, **settings)
        stats = trace.sample_stats
        rates.append(float(stats["wrong_decisions"].sum() / stats["decisions_audited"].sum()))
    assert rates[0] < 0.04 < rates[1]


@pytest.fixture(scope="module")
def images():
    """The size and spectrum of MNIST 7 against 9 in 50 components, and the Laplace approximation at the mode."""
    data = synthetic_stand_in()
    target = LogisticRegression(data.X_train, data.y_train, prior_scale=10**-0.5)
    return target, laplace(target)


def expand(images, case):
    """Return the target expanded at the point of a row of the robustness table, and its distance in posterior sds."""
    target, fit = images
    if case == "mode":
        return ControlVariate(target, at=fit)
    if case == "one coordinate":
        return ControlVariate(target, at=fit.mode + fit.cholesky @ (3.0 * np.eye(DIM)[0]))
    if case == "every coordinate":
        signs = np.where(np.arange(DIM) % 2, 3.0, -3.0)
        return ControlVariate(target, at=fit.mode + fit.cholesky @ signs)
    few = LogisticRegression(target.X[:1221], target.y[:1221], prior_scale=10**-0.5)  # "subsample"
    return ControlVariate(target, at=laplace(few))


def run_from_the_bulk(target, proposal, fit, seed, tune=1500):
    """Return the trace and the warnings of a chain that starts in the posterior's bulk."""
    sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(0.05, batch_size=64, growth=2.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = amc.sample(
            target, sampler, draws=1500, tune=tune, chains=2, random_seed=seed, initvals=fit, audit_every=None,
            progressbar=False,
        )  # fmt: skip
    return trace, [str(warning.message) for warning in caught if issubclass(warning.category, SamplingWarning)]


CASES = {"mode": 0.0, "one coordinate": 3.0, "every coordinate": 21.2, "subsample": 20.0}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_point_of_expansion_is_told_and_no_chain_sticks_in_silence(case, images, seed):
    """Robustness table of the documentation: theta_hat off by 3 sd in one coordinate, in every one, and unpolished.

    Deterministic up to the chain's noise: acceptance is either near 0 or above .4, gates lie far from both.
    """
    _, fit = images
    target = expand(images, case)
    assert target.distance_to_mode == pytest.approx(CASES[case], rel=0.5, abs=1e-3)
    told = target.distance_to_mode > 1.0
    small = amc.RandomWalk(2.38 / DIM**0.5, preconditioner=target.laplace)
    independent = amc.proposals.PreconditionedCrankNicolson(0.0, target.laplace)
    for proposal in (small, independent, amc.proposals.Mixture([independent, small], [0.7, 0.3])):
        trace, warned = run_from_the_bulk(target, proposal, fit, seed)
        rate = float(trace.sample_stats["accepted"].mean())
        assert any("expanded" in sentence for sentence in warned) == told
        stuck = [sentence for sentence in warned if "of its proposals" in sentence]
        assert stuck or rate > 0.1, "a chain that hardly moves must give a warning"
        if case in ("mode", "one coordinate"):
            assert not stuck
            assert rate > 0.15
        elif proposal is independent:
            assert stuck
        _, warned = run_from_the_bulk(target, proposal, fit, seed, tune=0)
        assert not any("gate" in sentence for sentence in warned), "gates act in tuning only"


@pytest.mark.parametrize("proposal", ["independent", "mixture"])
def test_from_a_far_start_a_chain_comes_home_or_is_told_of(proposal, images, seed):
    """Started 10 sd off in every coordinate, 71 in all: out there the posterior is e^146 times the normal law's tail.

    An exact independence chain therefore stays for ever, and must give a warning; the walk in a mixture leads home,
    which takes it some 700 steps by itself.
    """
    target, fit = images
    independent = amc.proposals.PreconditionedCrankNicolson(0.0, fit)
    walk = amc.RandomWalk(2.38 / DIM**0.5, preconditioner=fit)
    proposed = independent if proposal == "independent" else amc.proposals.Mixture([independent, walk], [0.7, 0.3])
    far = fit.mode + fit.cholesky @ np.full(DIM, 10.0)
    test = amc.ExactTest() if proposal == "independent" else amc.SequentialTTest(0.01, batch_size=64, growth=2.0)
    sampler = amc.MetropolisHastings(proposed, test)
    settings = {**RUN, "draws": 100, "chains": 2, "random_seed": seed, "initvals": far}
    if proposal == "independent":
        with pytest.warns(SamplingWarning) as caught:
            amc.sample(ControlVariate(target, at=fit), sampler, tune=200, **settings)
        assert any("hardly moves" in str(warning.message) for warning in caught)
        return
    trace = amc.sample(ControlVariate(target, at=fit), sampler, tune=6000, **settings)
    white = np.linalg.solve(fit.cholesky, (trace.posterior["beta"].values[:, -1] - fit.mode).T)
    assert np.linalg.norm(white, axis=0).max() < 12.0  # sqrt(50) = 7.1 at home, sd 0.7
