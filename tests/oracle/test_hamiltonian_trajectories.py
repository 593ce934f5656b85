"""Hamiltonian trajectories: equal to the textbook, invertible, volume preserved; each planted bug is rejected."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.vectors import equal
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.hamiltonian_step import drift, kick
from tests import hamiltonian as momentum, langevin as book, textbook
from tests.models import normal_mean
from tests.planting import plain

DENSE = np.array([[0.8, 0.3], [0.3, 1.2]])
N, SEED = 40, 20111
TARGET = book.normal_means(N, 2)
TERMS = book.scores(TARGET.data[0])
SETTINGS = {
    "plain": (amc.proposals.Hamiltonian(0.27, length=0.8), np.eye(2), 100),
    "dense": (amc.proposals.Hamiltonian(0.1, length=0.5, preconditioner=DENSE), DENSE, 100),
    "diagonal, few steps": (
        amc.proposals.Hamiltonian(0.05, length=2.0, preconditioner=[0.5, 2.0], most_steps=7), np.diag([0.25, 4.0]), 7,
    ),
}  # fmt: skip


def textbook_of(case):
    proposal, M, most_steps = SETTINGS[case]
    return momentum.hmc(TERMS, book.prior_score, proposal.step_size, proposal.length, M, most_steps)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.recompiles) if k else case for k, case in enumerate(SETTINGS)]
)
def test_chains_equal_the_textbook(case):
    sampler, start, steps = amc.MetropolisHastings(SETTINGS[case][0], amc.ExactTest()), np.array([0.5, 0.1]), 60
    trace = amc.sample(
        TARGET, sampler, draws=steps, tune=0, chains=1, random_seed=SEED, initvals=start, audit_every=None,
        progressbar=False,
    )  # fmt: skip
    x = TARGET.data[0]
    draws, _ = textbook.chain(
        lambda theta: -0.5 * ((x - theta) ** 2).sum(axis=1), lambda theta: -0.005 * theta @ theta, textbook_of(case),
        start, n_obs=N, steps=steps, seed=SEED, test=textbook.exact,
    )  # fmt: skip
    np.testing.assert_allclose(trace.posterior["theta"].values[0], draws, rtol=0.0, atol=1e-11)
    assert 0.05 < trace.sample_stats["accepted"].values.mean() < 1.0  # both answers are seen


def differs(case, wrong=None):
    """Make 12 proposals by both implementations; return whether a theta' or a log q ratio differs."""
    part = SETTINGS[case][0].build_proposal(TARGET)
    propose, book_propose = plain(part.propose, wrong), textbook_of(case)
    state, out, count = part.make_state(), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    rng, book_rng, theta = np.random.default_rng(SEED), np.random.default_rng(SEED), np.array([0.5, 0.1])
    for step in range(12):
        ratio = propose(rng, state, theta, out, count)
        proposed, book_ratio = book_propose(book_rng, theta)
        if not (np.allclose(out, proposed, rtol=0, atol=1e-11) and abs(ratio - book_ratio) < 1e-9):
            return True
        theta = proposed if step % 3 else theta  # rejections too: what is remembered must be of the right point
    return False


BUGS = {
    "whole kicks at the ends": ("dense", {kick: lambda time, *rest: kick(0.1, *rest)}),
    "kicks that put in no energy": ("plain", {kick: lambda *a: 0.0 * kick(*a)}),
    "energy with the wrong sign": ("plain", {kick: lambda *a: -kick(*a)}),
    "drift without the metric": (
        "dense", {drift: lambda t, scale, upper, *rest: drift(t, np.ones(2), np.empty((0, 0)), *rest)},
    ),
    "gradient of a rejected point is kept": ("plain", {equal: lambda one, other: not np.isnan(other).any()}),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_proposals_equal_the_textbook(case):
    assert not differs(case)


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_differ(bug):
    case, wrong = BUGS[bug]
    assert differs(case, wrong)


def _step(part, theta, velocity):
    """Return the end of a trajectory with this velocity, its velocity there, and the log q ratio; 4 steps of .15."""
    state, out, count = part.make_state(), np.empty(2), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    script = book.Script(uniforms=[0.5, 0.5], normals=list(velocity))
    ratio = plain(part.propose)(script, state, theta, out, count)
    return out, state.velocity.copy(), ratio, count


def test_a_trajectory_is_its_own_inverse_and_preserves_volume():
    """So that with the ratio |v|^2 / 2 - |v'|^2 / 2 the posterior is invariant, whatever the target."""
    part = amc.proposals.Hamiltonian(0.15, length=0.6, preconditioner=DENSE).build_proposal(TARGET)
    theta, v = np.array([0.4, -0.2]), np.array([0.7, -1.1])
    there, v_there, ratio, count = _step(part, theta, v)
    assert ratio == pytest.approx(0.5 * (v @ v - v_there @ v_there), abs=1e-12)
    assert count[GRADIENTS] == 5 * (N + TARGET.compile_gradient().prior_rows) and count[TOUCHED] == N
    back, v_back, ratio_back, _ = _step(part, there, -v_there)
    np.testing.assert_allclose(np.r_[back, v_back], np.r_[theta, -v], atol=1e-12)
    assert ratio_back == pytest.approx(-ratio, abs=1e-12)

    def flow(z):
        return np.concatenate(_step(part, z[:2], z[2:])[:2])

    z, h = np.r_[theta, v], 1e-5
    jacobian = np.array([(flow(z + h * unit) - flow(z - h * unit)) / (2.0 * h) for unit in np.eye(4)])
    assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-8)


def test_a_trajectory_beyond_all_doubles_is_rejected():
    part = amc.proposals.Hamiltonian(1e150, length=1e153, most_steps=30).build_proposal(TARGET)
    with np.errstate(over="ignore", invalid="ignore"):
        out, _, ratio, _ = _step(part, np.array([0.4, -0.2]), np.array([0.7, -1.1]))
    assert ratio == -math.inf and np.isfinite(out).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: amc.proposals.Hamiltonian(0.0), "step_size is the time of a step"),
        (lambda: amc.proposals.Hamiltonian(0.1, length=0.0), "length is a time and must be positive, found 0.0"),
        (lambda: amc.proposals.Hamiltonian(0.1, most_steps=0), "most_steps must be"),
        (lambda: amc.proposals.Hamiltonian(0.1, target_acceptance=1.0), "strictly between 0 and 1"),
        (lambda: amc.proposals.Hamiltonian(0.1, preconditioner=-np.eye(2)), "positive definite"),
    ],
)
def test_ranges(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_what_has_no_gradient_is_refused():
    with pytest.raises(IncompatibleError, match="pass grad_loglik="):
        amc.MetropolisHastings(amc.proposals.Hamiltonian(0.1), amc.ExactTest()).build(normal_mean(), audit_every=None)
