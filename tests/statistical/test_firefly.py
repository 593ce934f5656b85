"""Firefly against NUTS, which shares nothing with it but the model: means and sds of three models."""

import math

import arviz as az
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.firefly import theta_update
from approxmcmc.samplers.firefly.joint import log_joint_at
from tests.models import logistic
from tests.statistical.test_exact_against_nuts import FOUR_MCSE, moments

pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit]

CHAINS, DRAWS = 8, 4000
OPTIMAL = 2.38


def targets():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(500, 2))
    scores = X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(500, 3))
    return {
        "logistic": logistic(n=400, dim=4, prior_scale=0.7),
        "softmax": amc.targets.SoftmaxRegression(X, scores.argmax(axis=1), prior_scale=0.3),
        "robust": amc.targets.RobustRegression(X, X @ [1.0, -0.5] + rng.standard_t(3, size=500), df=3.0),
    }


TARGETS = targets()


@pytest.fixture(scope="module", params=TARGETS)
def case(request):
    """A gold standard of 100 000 draws: all comparisons share its error, which must be small beside theirs."""
    target = TARGETS[request.param]
    return target, amc.reference_posterior(target, draws=10_000, random_seed=2014), amc.laplace(target)


def updates(fit):
    """Return pairs (moves of theta, moves of z), each on the joint density."""
    dim = fit.mode.size
    walk = amc.RandomWalk(OPTIMAL / math.sqrt(dim), preconditioner=fit)
    return {
        "walk, skips": (walk, amc.samplers.ImplicitResampling()),
        "walk, explicit": (walk, amc.samplers.ExplicitResampling(0.1)),
        "slice, skips": (
            amc.samplers.Slice(2.0 * np.sqrt(np.diag(fit.cov))),
            amc.samplers.ImplicitResampling(0.1, 0.6),
        ),
        "langevin, skips": (
            amc.Langevin(1.4 / dim ** (1 / 3), preconditioner=fit),
            amc.samplers.ImplicitResampling(0.1),
        ),
    }


def scores(target, reference, sampler, seed, thin=10):
    trace = amc.sample(
        target, sampler, draws=DRAWS, tune=2000, thin=thin, chains=CHAINS, random_seed=seed, progressbar=False
    )
    return moments(trace.posterior, reference).max(), trace


PAIRINGS = [("tuned", "walk, skips"), ("untuned", "walk, skips"), ("untuned", "walk, explicit"),
            ("untuned", "slice, skips"), ("untuned", "langevin, skips"), ("tuned", "langevin, skips")]  # fmt: skip


@pytest.mark.parametrize(("bound", "update"), PAIRINGS)
def test_firefly_agrees_with_nuts(case, bound, update, seed):
    """Mean and sd of every coordinate within 4 standard errors: false-fail rate at most 12 * 6.3e-5 = 8e-4 a case.

    Effective sample sizes are some thousands: a mean off by 0.1 sd, or an sd off by 8 %, is seen.
    """
    target, reference, fit = case
    proposal, z_update = updates(fit)[update]
    at = fit.mode if bound == "tuned" else None
    worst, trace = scores(target, reference, amc.Firefly(proposal, bound, z_update, at=at), seed)
    assert worst < FOUR_MCSE
    assert float(az.ess(trace.posterior["beta"]).min()) > 1000.0
    if bound == "untuned":
        assert trace.sample_stats["bright_count"].mean() > 1.0  # the comparison is with bright data at work


def test_taylor_agrees_with_nuts(case, seed):
    target, reference, fit = case
    if not isinstance(target, amc.targets.LogisticRegression):
        pytest.skip("the expansion is for logistic regression")
    proposal, z_update = updates(fit)["walk, skips"]
    assert scores(target, reference, amc.Firefly(proposal, "taylor", z_update), seed)[0] < FOUR_MCSE


@compiled
def log_joint_without_bright(factors, n_bright):
    return factors.log_prior[0] + factors.log_bound[0]


@compiled
def log_joint_at_without_bright(joint, theta, bright, factors, count):
    log_joint_at(joint, theta, bright, factors, count)
    return log_joint_without_bright(factors, bright.size[0])


def test_it_would_see_a_broken_chain(case, seed, monkeypatch):
    """Bright data left out of the joint density, so that theta follows prior times bounds."""
    target, reference, fit = case
    walk = amc.RandomWalk(OPTIMAL / math.sqrt(fit.mode.size), preconditioner=fit)
    monkeypatch.setattr(theta_update, "log_joint", log_joint_without_bright)
    monkeypatch.setattr(theta_update, "log_joint_at", log_joint_at_without_bright)
    theta_update.make_metropolis_move.cache_clear()  # a move made before holds the right functions
    worst, _ = scores(target, reference, amc.Firefly(walk, "untuned", amc.samplers.ImplicitResampling(0.1)), seed)
    theta_update.make_metropolis_move.cache_clear()
    assert worst > 2 * FOUR_MCSE
