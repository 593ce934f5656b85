"""Chains of Langevin proposals equal the textbook, draw for draw; each planted bug makes a proposal differ."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from tests import langevin as book
from tests import textbook

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
SEED, STEPS, N, BATCH = 20110628, 120, 60, 20
IDENTITY = np.eye(2)
DENSE = np.array([[0.8, 0.3], [0.3, 1.2]])
ANCHOR = np.array([0.2, 0.4])
FALLING = amc.DecreasingStep(0.05, offset=3.0, exponent=0.7)
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
        amc.Langevin(0.03), amc.AlwaysAccept(),
        lambda: book.mala(TERMS, book.prior_score, 0.03, np.eye(2)), always,
    ),
    "SGLD": (amc.StochasticGradientLangevin(0.03, 10), amc.AlwaysAccept(), book_sgld, always),
    "SGLD, falling step, control variates, diagonal": (
        amc.StochasticGradientLangevin(FALLING, 10, [0.5, 2.0], ANCHOR), amc.AlwaysAccept(),
        lambda: book_sgld(FALLING.at, np.diag([0.25, 4.0]), ANCHOR), always,
    ),
    "corrected SGLD": (
        amc.StochasticGradientLangevin(0.03, 10, DENSE, ANCHOR), amc.ExactTest(),
        lambda: book_sgld(constant, DENSE, ANCHOR), textbook.exact,
    ),
    "SGLD, sequential test": (
        amc.StochasticGradientLangevin(0.03, 10), amc.SequentialTTest(0.1, BATCH),
        book_sgld, textbook.sequential_t(0.1, BATCH),
    ),
}  # fmt: skip


RECOMPILED = ("SGLD, falling step, control variates, diagonal", "corrected SGLD")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.recompiles if case in RECOMPILED else ()) for case in CASES]
)
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
        amc.StochasticGradientLangevin(FALLING, 10, [0.5, 2.0], ANCHOR),
        lambda: book_sgld(FALLING.at, np.diag([0.25, 4.0]), ANCHOR),
    ),
    "constant": (amc.StochasticGradientLangevin(0.03, 10, DENSE), lambda: book_sgld(constant, DENSE)),
}


def differs(case, bugs=None):
    """Make 12 proposals by both implementations; return whether a theta' or a log q ratio differs."""
    proposal, book_propose = PROPOSALS[case]
    part = proposal.build_proposal(TARGET)
    propose, book_propose = book.plain(part.functions["PROPOSE"], bugs), book_propose()
    state, out, count = part.make_state(), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    rng, book_rng, theta = np.random.default_rng(SEED), np.random.default_rng(SEED), np.array([0.5, 0.1])
    for step in range(12):
        ratio = propose(rng, part.params, state, theta, out, count)
        proposed, book_ratio = book_propose(book_rng, theta)
        if not (np.allclose(out, proposed, rtol=0, atol=1e-11) and abs(ratio - book_ratio) < 1e-9):
            return True
        theta = proposed if step % 3 else theta  # rejections too: what is remembered must be of the right point
    return False


DRAW = "_draw_minibatch(rng, model, state, order, at_anchor, count)"
ESTIMATE = "_estimate(model, theta, order, at_anchor, slope, count)"
BUGS = {
    "drift has alpha, not alpha/2": ("langevin", {"drift": ("0.5 * alpha * component", "alpha * component")}),
    "drift has alpha, diagonal": ("falling", {"drift": ("0.5 * alpha * scale[j]", "alpha * scale[j]")}),
    "noise has variance 2 alpha": ("constant", {"add_noise": ("math.sqrt(alpha)", "math.sqrt(2.0 * alpha)")}),
    "noise has standard deviation alpha": ("constant", {"add_noise": ("math.sqrt(alpha)", "alpha")}),
    "noise not preconditioned": ("falling", {"add_noise": ("spread * scale[j] * z", "spread * z")}),
    "distance for squared distance": ("langevin", {"squared_distance": ("return total", "return math.sqrt(total)")}),
    "density ratio upside down": (
        "langevin",
        {"_propose": ("squared - squared_distance(scale, upper, mean, theta, work) / alpha",
                      "squared_distance(scale, upper, mean, theta, work) / alpha - squared")},
    ),
    "density ratio without alpha": ("langevin", {"_propose": ("theta, work) / alpha", "theta, work)")}),
    "way back with the gradient of the way out": (
        "langevin",
        {"_propose": ("there, slope_there, mean)", "there, slope, mean)")},
    ),
    "gradient of a rejected point is kept": ("langevin", {"_propose": ("not equal(theta, here)", "step_size < 0")}),
    "minibatch never refreshed": ("constant", {"_draw_minibatch": ("draw_next(rng, order, 0, batch_size)", "pass")}),
    "minibatch drawn after its gradient": (
        "constant",
        {"_propose": (f"    {DRAW}\n    {ESTIMATE}\n", f"    {ESTIMATE}\n    {DRAW}\n")},
    ),
    "way back with another minibatch": (
        "constant",
        {"_propose": ("(model, out, order,", "(model, out, order[::-1].copy(),")},
    ),
    "prior counted N/n times": (
        "constant",
        {"_estimate": ("    out[:] = 0.0\n", "    out[:] = 0.0\n    add_prior_gradient(theta, out)\n")},
    ),
    "minibatch not scaled to all data": ("constant", {"_estimate": ("n_obs / batch_size *", "1.0 *")}),
    "control variate not subtracted": ("falling", {"_estimate": ("(out[j] - at_anchor[j])", "out[j]")}),
    "control variate's total forgotten": ("falling", {"_estimate": ("+ anchor_total[j]", "")}),
    "step size falls one step late": ("falling", {"_next_step_size": ("b + state[TIME]", "b + state[TIME] - 1")}),
}  # fmt: skip


@pytest.mark.parametrize("case", PROPOSALS)
def test_proposals_equal_the_textbook(case):
    assert not differs(case)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug):
    case, bugs = BUGS[bug]
    assert differs(case, bugs)
