"""The library's chains equal a textbook implementation, draw for draw; each planted bug makes them differ."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest

from approxmcmc.acceptance import ExactTest, SequentialTTest, exact, rules, sequential_t
from approxmcmc.api import sample
from approxmcmc.contracts import CompiledProposal, Component, Proposal
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import log_likelihood_at
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.chain import is_chosen_for_audit
from tests import textbook
from tests.data_order import draw_with_replacement
from tests.models import normal_mean
from tests.planting import plain, plant

# Ten data to a look make the terms look heavy-tailed, which these tests are not about.
pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

STEPS, SEED = 150, 20140621
EPSILON, BATCH_SIZE = 0.1, 10


class ScalingState(NamedTuple):
    spread: float


@compiled
def propose_scaled(rng, state, theta, out, count):
    factor = math.exp(state.spread * rng.standard_normal())
    for j in range(theta.shape[0]):
        out[j] = theta[j] * factor
    return theta.shape[0] * math.log(factor)


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling(Component, Proposal):
    """theta' = theta exp(s z): asymmetric, log q(theta|theta') - log q(theta'|theta) = dim s z."""

    spread: float = 0.2

    def build_proposal(self, target):
        return CompiledProposal(propose_scaled, lambda: ScalingState(self.spread))


def scaling(spread):
    def propose(rng, theta):
        factor = np.exp(spread * rng.standard_normal())
        return theta * factor, len(theta) * np.log(factor)

    return propose


CASES = {
    "exact": (RandomWalk(0.15), ExactTest(), textbook.random_walk(0.15), textbook.exact),
    "barker": (RandomWalk(0.15), ExactTest("barker"), textbook.random_walk(0.15), textbook.exact),
    "asymmetric": (Scaling(), ExactTest(), scaling(0.2), textbook.exact),
    "sequential": (
        RandomWalk(0.15),
        SequentialTTest(EPSILON, BATCH_SIZE),
        textbook.random_walk(0.15),
        textbook.sequential_t(EPSILON, BATCH_SIZE),
    ),
}


def differs(case: str, audit_every=None) -> bool:
    """Run both implementations of a case; return whether a draw or a count of data read differs."""
    target = normal_mean()
    proposal, test, propose, decide = CASES[case]
    trace = sample(
        target, MetropolisHastings(proposal, test), draws=STEPS, tune=0, chains=1, random_seed=SEED,
        initvals=np.array([0.4]), audit_every=audit_every, progressbar=False,
    )  # fmt: skip
    (x,) = target.data
    draws, read = textbook.chain(
        lambda theta: -0.5 * (x - theta[0]) ** 2,
        lambda theta: -2.0 * (theta[0] - 1.0) ** 2,
        propose,
        np.array([0.4]),
        n_obs=target.n_obs,
        steps=STEPS,
        seed=SEED,
        test=decide,
        rule="barker" if case == "barker" else "metropolis",
    )
    same_draws = np.allclose(trace.posterior["mu"].values[0], draws[:, 0], rtol=0.0, atol=1e-12)
    same_reads = np.array_equal(trace.sample_stats["datapoints_touched"].values[0], read)
    return not (same_draws and same_reads)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.core if case == "sequential" else ()) for case in CASES]
)
def test_chains_equal_the_textbook(case):
    assert not differs(case, audit_every=3)


def forget_the_rest(rng, evidence, threshold, log_rest, test, count, value):
    return plain(exact.decide)(rng, evidence, threshold, 0.0, test, count, value)


def flip_the_ratio(rng, state, theta, out, count):
    return -plain(propose_scaled)(rng, state, theta, out, count)


def decide_without_correction(rng, evidence, threshold, log_rest, test, count, value):
    """Compare with s_l / sqrt(n), as critical values that are larger by the factor do."""
    early = test.critical[:-1] / np.sqrt(1.0 - test.looks[:-1] / evidence.n_obs)
    test = test._replace(critical=np.append(early, 0.0))
    return plain(sequential_t.decide)(rng, evidence, threshold, log_rest, test, count, value)


def audit_by_the_uniforms(streams, clock):
    return clock.audit_probability > 0.0 and streams.uniform.random() < clock.audit_probability


def keep_what_was_rejected(rng, evidence, threshold, log_rest, test, count, value):
    answer = plain(exact.decide)(rng, evidence, threshold, log_rest, test, count, value)
    test.log_likelihood[0] = plain(log_likelihood_at)(evidence, evidence.proposed, evidence.order.places)
    return answer


BUGS = {
    "prior ratio forgotten": ({exact.decide: forget_the_rest}, "exact"),
    "q-ratio sign flipped": ({propose_scaled: flip_the_ratio}, "asymmetric"),
    "correction factor dropped": ({sequential_t.decide: decide_without_correction}, "sequential"),
    "subset drawn with replacement": ({draw_next: draw_with_replacement}, "sequential"),
    "log u is log(1 - u) in one of two places": (
        {rules.log_uniform: lambda rng: math.log1p(-math.exp(-rng.standard_exponential()))}, "exact",
    ),
    "audit moves the chain's stream": ({is_chosen_for_audit: audit_by_the_uniforms}, "sequential"),
    "cached log-likelihood of a rejected proposal": ({exact.decide: keep_what_was_rejected}, "exact"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("case", sorted({case for _, case in BUGS.values()}))
def test_the_plain_chain_without_a_bug_equals_the_textbook(case, monkeypatch):
    plant(monkeypatch, {})
    assert not differs(case, audit_every=3)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch):
    wrong, case = BUGS[bug]
    plant(monkeypatch, wrong)
    assert differs(case, audit_every=3)
