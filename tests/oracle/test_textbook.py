"""The library's chains equal a textbook implementation, draw for draw; each planted bug makes them differ."""

import dataclasses
import inspect
import math
import textwrap

import numpy as np
import pytest

from approxmcmc.acceptance import ExactTest, SequentialTTest, exact, rules, sequential_t
from approxmcmc.api import sample
from approxmcmc.contracts import Component, Part, Proposal
from approxmcmc.engine import order
from approxmcmc.engine.compile import _bind
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings, metropolis_hastings_step
from tests import textbook
from tests.data_order import plant_in_order
from tests.models import normal_mean

# Ten data to a look make the terms look heavy-tailed, which these tests are not about.
pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

STEPS, SEED = 150, 20140621
EPSILON, BATCH_SIZE = 0.1, 10


def _propose_scaled(rng, params, state, theta, out, count):
    factor = math.exp(params[0] * rng.standard_normal())
    for j in range(theta.shape[0]):
        out[j] = theta[j] * factor
    return theta.shape[0] * math.log(factor)


def _keep(params, state, acceptance, step):
    pass


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling(Component, Proposal):
    """theta' = theta exp(s z): asymmetric, log q(theta|theta') - log q(theta'|theta) = dim s z."""

    spread: float = 0.2

    def build_proposal(self, target):
        return Part({"PROPOSE": _propose_scaled, "ADAPT": _keep}, (self.spread,), lambda: np.zeros(1))


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


@pytest.mark.parametrize("case", CASES)
def test_chains_equal_the_textbook(case):
    assert not differs(case, audit_every=3)


def plant(monkeypatch, module, name: str, right: str, wrong: str) -> None:
    """Replace a piece of a function's source, and put the broken function in its module."""
    source = textwrap.dedent(inspect.getsource(getattr(module, name)))
    source = source[source.index("def ") :]
    assert right in source, f"{name} no longer holds {right!r}: mend the planted bug"
    scope = module.__dict__.copy()
    exec(source.replace(right, wrong), scope)
    monkeypatch.setattr(module, name, scope[name])


BUGS = {
    "prior ratio forgotten": (
        metropolis_hastings_step, "_advance",
        "proposed_log_prior - current_log_prior[0] + log_q_ratio", "log_q_ratio", "exact",
    ),
    "q-ratio sign flipped": (metropolis_hastings_step, "_advance", "+ log_q_ratio", "- log_q_ratio", "asymmetric"),
    "correction factor dropped": (
        sequential_t, "_decide", "s_l / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)", "s_l / math.sqrt(n)", "sequential",
    ),
    "subset drawn with replacement": (order, "draw_next", "order[other] = order[place]", "pass", "sequential"),
    "log u is log(1 - u) in one of two places": (
        rules, "log_uniform",
        "-rng.standard_exponential()", "math.log1p(-math.exp(-rng.standard_exponential()))", "exact",
    ),
    "audit moves the chain's stream": (
        metropolis_hastings_step, "_advance", "audit_rng.random() <", "uniform_rng.random() <", "sequential",
    ),
    "cached log-likelihood of a rejected proposal": (
        exact, "_decide", "if threshold < log_ratio:", "state[0] = total\n    if threshold < log_ratio:", "exact",
    ),
}  # fmt: skip


@pytest.fixture
def fresh_kernels():
    """Forget bound kernels before and after: a function whose callee was exchanged looks the same to the memory."""
    _bind.cache_clear()
    yield
    _bind.cache_clear()


@pytest.mark.recompiles
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("fresh_kernels")
def test_planted_bugs_are_seen(bug, monkeypatch):
    module, name, right, wrong, case = BUGS[bug]
    if module is order:
        plant_in_order(monkeypatch, name, right, wrong)
    else:
        plant(monkeypatch, module, name, right, wrong)
    if module is rules:
        broken = getattr(module, name)
        monkeypatch.setitem(rules.RULES, "metropolis", {**rules.RULES["metropolis"], "THRESHOLD": broken})
    assert differs(case, audit_every=3)
