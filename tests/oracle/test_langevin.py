"""Chains of Langevin proposals equal the textbook, draw for draw; each planted bug makes a proposal differ."""

import itertools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.compiler.vectors import equal
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.proposals import langevin, stochastic_gradient_langevin as sgld
from approxmcmc.proposals.langevin_step import add_noise, drift, squared_distance
from approxmcmc.proposals.minibatch_gradient import draw_minibatch, estimate_gradient
from tests import langevin as book, textbook
from tests.planting import plain

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
SEED, STEPS, N, BATCH = 20110628, 120, 60, 20
IDENTITY = np.eye(2)
DENSE = np.array([[0.8, 0.3], [0.3, 1.2]])
ANCHOR = np.array([0.2, 0.4])
FALLING = amc.proposals.DecreasingStep(0.05, offset=3.0, exponent=0.7)
TARGET = book.normal_means(N, 2)
TERMS = book.scores(TARGET.data[0])


def constant(t):
    return 0.03


def always(rng, order, differences, mu_0):
    return True, 0


def book_sgld(step_size=constant, M=IDENTITY, anchor=None):
    return book.sgld(TERMS, book.prior_score, step_size, M, n=10, n_obs=N, anchor=anchor)


CASES = {
    "MALA": (
        amc.Langevin(0.03), amc.ExactTest(),
        lambda: book.mala(TERMS, book.prior_score, 0.03, np.eye(2)), textbook.exact,
    ),
    "MALA, dense": (
        amc.Langevin(0.03, cov=DENSE), amc.ExactTest(),
        lambda: book.mala(TERMS, book.prior_score, 0.03, DENSE), textbook.exact,
    ),
    "ULA": (
        amc.Langevin(0.03), amc.acceptance.AlwaysAccept(),
        lambda: book.mala(TERMS, book.prior_score, 0.03, np.eye(2)), always,
    ),
    "SGLD": (amc.proposals.StochasticGradientLangevin(0.03, 10), amc.acceptance.AlwaysAccept(), book_sgld, always),
    "SGLD, falling step, control variates, diagonal": (
        amc.proposals.StochasticGradientLangevin(FALLING, 10, [0.5, 2.0], ANCHOR), amc.acceptance.AlwaysAccept(),
        lambda: book_sgld(FALLING.at, np.diag([0.25, 4.0]), ANCHOR), always,
    ),
    "corrected SGLD": (
        amc.proposals.StochasticGradientLangevin(0.03, 10, DENSE, ANCHOR), amc.ExactTest(),
        lambda: book_sgld(constant, DENSE, ANCHOR), textbook.exact,
    ),
    "SGLD, sequential test": (
        amc.proposals.StochasticGradientLangevin(0.03, 10), amc.SequentialTTest(0.1, BATCH),
        book_sgld, textbook.sequential_t(0.1, BATCH),
    ),
}  # fmt: skip


RECOMPILED = ("ULA", "SGLD, sequential test", "SGLD, falling step, control variates, diagonal", "corrected SGLD")
MARKS = dict.fromkeys(RECOMPILED, pytest.mark.recompiles) | {"SGLD": pytest.mark.core}


@pytest.mark.parametrize("case", [pytest.param(case, marks=MARKS.get(case, ())) for case in CASES])
def test_chains_equal_the_textbook(case):
    proposal, test, propose, decide = CASES[case]
    sampler, start = amc.MetropolisHastings(proposal, test), np.array([0.5, 0.1])
    trace = amc.sample(
        TARGET, sampler, draws=STEPS, tune=0, chains=1, random_seed=SEED, initvals=start, audit_every=3,
        progressbar=False,
    )  # fmt: skip
    x = TARGET.data[0]
    draws, read = textbook.chain(
        lambda theta: -0.5 * ((x - theta) ** 2).sum(axis=1),
        lambda theta: -0.005 * theta @ theta,
        propose(),
        start,
        n_obs=N, steps=STEPS, seed=SEED, test=decide,
    )  # fmt: skip
    np.testing.assert_allclose(trace.posterior["theta"].values[0], draws, rtol=0.0, atol=1e-11)
    touched = N if isinstance(proposal, amc.Langevin) else 10
    np.testing.assert_array_equal(trace.sample_stats["datapoints_touched"].values[0], read + touched)


PROPOSALS = {
    "langevin": (amc.Langevin(0.03, cov=DENSE), lambda: book.mala(TERMS, book.prior_score, 0.03, DENSE)),
    "falling": (
        amc.proposals.StochasticGradientLangevin(FALLING, 10, [0.5, 2.0], ANCHOR),
        lambda: book_sgld(FALLING.at, np.diag([0.25, 4.0]), ANCHOR),
    ),
    "constant": (amc.proposals.StochasticGradientLangevin(0.03, 10, DENSE), lambda: book_sgld(constant, DENSE)),
}


def differs(case, wrong=None):
    """Make 12 proposals by both implementations; return whether a theta' or a log q ratio differs."""
    proposal, book_propose = PROPOSALS[case]
    part = proposal.build_proposal(TARGET)
    propose, book_propose = plain(part.propose, wrong), book_propose()
    state, out, count = part.make_state(), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    rng, book_rng, theta = np.random.default_rng(SEED), np.random.default_rng(SEED), np.array([0.5, 0.1])
    for step in range(12):
        ratio = propose(rng, state, theta, out, count)
        proposed, book_ratio = book_propose(book_rng, theta)
        if not (np.allclose(out, proposed, rtol=0, atol=1e-11) and abs(ratio - book_ratio) < 1e-9):
            return True
        theta = proposed if step % 3 else theta  # rejections too: what is remembered must be of the right point
    return False


ALPHA = 0.03
estimate, next_step_size = plain(estimate_gradient), plain(sgld._next_step_size)


def in_turn(first, second):
    """Return a function that does what the first does, then what the second does, and so on."""
    turns = itertools.cycle((first, second))

    def turn(*arguments):
        return next(turns)(*arguments)

    return turn


def with_settings(function, change):
    """Return a function that sees other settings in its state than there are."""
    return lambda state, *rest: function(state._replace(**change(state)), *rest)


def drift_back_as_out():
    """Return a drift that on the way back follows the gradient of the way out."""
    kept = []

    def out(alpha, scale, upper, theta, gradient, result):
        kept[:] = [gradient.copy()]
        drift(alpha, scale, upper, theta, gradient, result)

    return in_turn(out, lambda alpha, scale, upper, theta, _, result: drift(alpha, scale, upper, theta, *kept, result))


def draw_after_the_gradient(rng, state, theta, out, count):
    """Do what `propose` does, but estimate the way out on the last step's minibatch."""
    scale, upper, slope = state.scale, state.upper, state.slope
    alpha = next_step_size(state)
    estimate(state.minibatch, theta, slope, count)
    plain(draw_minibatch)(rng, state.minibatch, count)
    drift(alpha, scale, upper, theta, slope, out)
    squared = add_noise(rng, alpha, scale, upper, out)
    estimate(state.minibatch, out, slope, count)
    drift(alpha, scale, upper, out, slope, state.mean)
    return 0.5 * (squared - squared_distance(scale, upper, state.mean, theta, state.work) / alpha)


def reversed_order(minibatch):
    return {"order": minibatch.order[::-1].copy()}


def unscaled(minibatch):
    return {"n_obs": minibatch.batch_size}


def scale_the_prior(minibatch, theta, out, count):
    """Add the gradient of the prior N/n times."""
    estimate(minibatch, theta, out, count)
    for _ in range(minibatch.n_obs // minibatch.batch_size - 1):
        minibatch.add_prior_gradient(theta, out)


BUGS = {
    "drift has alpha, not alpha/2": ("langevin", {drift: lambda alpha, *rest: drift(2.0 * alpha, *rest)}),
    "drift has alpha, diagonal": ("falling", {drift: lambda alpha, *rest: drift(2.0 * alpha, *rest)}),
    "noise has variance 2 alpha": ("constant", {add_noise: lambda rng, alpha, *rest: add_noise(rng, 2 * alpha, *rest)}),
    "noise has standard deviation alpha": (
        "constant", {add_noise: lambda rng, alpha, *rest: add_noise(rng, alpha**2, *rest)},
    ),
    "noise not preconditioned": (
        "falling", {add_noise: lambda rng, alpha, scale, *rest: add_noise(rng, alpha, np.ones_like(scale), *rest)},
    ),
    "distance for squared distance": ("langevin", {squared_distance: lambda *a: math.sqrt(squared_distance(*a))}),
    "density ratio upside down": ("langevin", {langevin.propose: lambda *a: -plain(langevin.propose)(*a)}),
    "density ratio without alpha": ("langevin", {squared_distance: lambda *a: ALPHA * squared_distance(*a)}),
    "way back with the gradient of the way out": ("langevin", {drift: drift_back_as_out()}),
    "gradient of a rejected point is kept": ("langevin", {equal: lambda one, other: not np.isnan(other).any()}),
    "minibatch never refreshed": ("constant", {draw_next: lambda *a: None}),
    "minibatch drawn after its gradient": ("constant", {sgld.propose: draw_after_the_gradient}),
    "way back with another minibatch": (
        "constant", {estimate_gradient: in_turn(estimate, with_settings(estimate, reversed_order))},
    ),
    "prior counted N/n times": ("constant", {estimate_gradient: scale_the_prior}),
    "minibatch not scaled to all data": ("constant", {estimate_gradient: with_settings(estimate, unscaled)}),
    "control variate not subtracted": (
        "falling", {estimate_gradient: with_settings(estimate, lambda batch: {"at_anchor": 0.0 * batch.at_anchor})},
    ),
    "control variate's total forgotten": (
        "falling", {estimate_gradient: with_settings(estimate, lambda at: {"anchor_total": 0.0 * at.anchor_total})},
    ),
    "step size falls one step late": (
        "falling", {sgld._next_step_size: with_settings(next_step_size, lambda state: {"b": state.b - 1.0})},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROPOSALS)
def test_proposals_equal_the_textbook(case):
    assert not differs(case)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug):
    case, wrong = BUGS[bug]
    assert differs(case, wrong)
