"""Pairs of states from a pilot, with the two numbers per pair that determine how a sequential test performs.

A pair is the state theta and the proposal theta' of a step, with the log ratio Lambda and the scale tau = sqrt(N) S_l
of the terms. In the Gaussian regime these two numbers determine the error and the reads of a test (see
`acceptance_probability_error`). A pilot uses the steps of a short exact chain, which keeps the terms at theta, so each
pair costs one pass over the data. Pairs can also come from proposals at the draws of a finished run.
"""

import dataclasses
import math
import reprlib
import time
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.contracts import (
    COUNT_NAMES,
    VALUE_NAMES,
    AcceptanceTest,
    CompiledProposal,
    CompiledTest,
    Proposal,
    Target,
)
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.contracts.speaker import speaking
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.batches import IMPOSSIBLE, scale_of, subtract
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.moments import total
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.samplers.metropolis_hastings.replication import compiled_propose, ratio_and_scale
from approxmcmc.sampling.assembly import assemble
from approxmcmc.targets.all_rows import AllRows


class Pairs(NamedTuple):
    """Log ratios and scales of pairs, their states and proposals, and what it cost to collect them.

    `log_ratio` and `tau` have shape (n_pairs,), `states` and `proposed` (n_pairs, dim). `rise` is the increase of the
    log posterior density from the first state to the last; NaN if the states do not come from one pilot.

    A proposal outside the support of the prior has log ratio -inf and scale 0: every test rejects it and reads nothing.
    A proposal at which a datum has probability 0 has log ratio -inf and scale inf: only a test that reads this datum
    rejects it.
    """

    log_ratio: np.ndarray
    tau: np.ndarray
    states: np.ndarray
    proposed: np.ndarray
    likelihood_evaluations: int
    seconds: float
    rise: float = math.nan

    @property
    def inside(self) -> np.ndarray:
        """Which proposals are in the support, and give no datum probability 0; bool, shape (n_pairs,)."""
        return np.isfinite(self.log_ratio)


class AllTerms(NamedTuple):
    """The terms at theta (NaN before the first decision), those at theta', their differences, the log ratio Lambda."""

    here: np.ndarray
    there: np.ndarray
    differences: np.ndarray
    log_ratio: np.ndarray


@compiled
def decide(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: AllTerms,
    count: np.ndarray,
    value: np.ndarray,
) -> tuple[int, float]:
    """Decide on all terms, and leave the terms and the log ratio in `test`."""
    start = np.int64(0)
    n_obs = evidence.n_obs
    if math.isnan(test.here[0]):
        evidence.log_terms(evidence.theta, evidence.data, evidence.memory_order, start, n_obs, test.here)
        count[EVALUATIONS] += n_obs
    evidence.log_terms(evidence.proposed, evidence.data, evidence.memory_order, start, n_obs, test.there)
    count[TOUCHED] += n_obs
    count[EVALUATIONS] += n_obs
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    differences = subtract(test.here, test.there, test.differences)
    test.log_ratio[0] = log_rest + (-math.inf if differences == IMPOSSIBLE else total(test.differences, n_obs))
    if not test.log_ratio[0] < math.inf:  # NaN, or +inf, which is no valid log density
        return -1, 0.0
    if threshold < test.log_ratio[0]:
        assign(test.here, test.there)
        return 1, test.log_ratio[0]
    return 0, test.log_ratio[0]


@dataclasses.dataclass(frozen=True, eq=False)
class PilotTest(AcceptanceTest):
    """The exact Metropolis test, with a state that shows all terms of the last pair."""

    order = "memory"

    def build_test(self, target: Any) -> CompiledTest:
        """Compile the test."""

        def unknown() -> AllTerms:
            at_theta, at_proposed, differences = np.full((3, target.n_obs), math.nan)
            return AllTerms(at_theta, at_proposed, differences, np.zeros(1))

        return CompiledTest(decide, unknown, METROPOLIS.threshold, METROPOLIS.probability, is_audited=False)


def collect_pairs(
    target: Any,
    proposal: Any,
    *,
    n_pairs: int = 500,
    tune: int = 200,
    initvals: Any = None,
    random_seed: Any = None,
) -> Pairs:
    """Run an exact chain of `tune` + `n_pairs` steps; return the pairs of the last `n_pairs` steps.

    It takes a pass over the data for each proposal inside the support, and four more.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or `initvals` is not a point inside the support.
    NotFiniteError
        When all proposals fall outside the support, or a log density is NaN.
    """
    with speaking("pilot pairs"):
        checked_integer(n_pairs, "n_pairs", 1)
        checked_integer(tune, "tune", 0)
    for part_of, role, part in ((Target, "target", target), (Proposal, "proposal", proposal)):
        if not isinstance(part, part_of):
            raise IncompatibleError(f"pilot pairs: {role} must be a {role}, found {reprlib.repr(part)}")
    began = time.perf_counter()
    sampler = MetropolisHastings(proposal, PilotTest())
    run = assemble(target, sampler, seed=random_seed, chains=1, tune=tune, initvals=initvals)
    chain: Any = run.chains[0]
    n_steps = tune + n_pairs
    terms = chain.state.test
    model = target.compile()
    draws = np.empty((n_steps, target.variables.size))
    proposed = np.empty((n_steps, target.variables.size))
    counts = np.zeros((n_steps, len(COUNT_NAMES)), np.int64)
    values = np.empty((n_steps, len(VALUE_NAMES)))
    log_ratio = np.full(n_steps, -math.inf)
    tau = np.zeros(n_steps)
    for step in range(n_steps):
        terms.log_ratio[0] = math.nan  # no datum is read for a proposal outside the support
        at = slice(step, step + 1)
        if not chain.advance(1, 1, draws[at], counts[at], values[at]):
            raise NotFiniteError(f"pilot pairs: {chain.explain_failure()}")
        proposed[step] = chain.proposed
        if not math.isnan(terms.log_ratio[0]):
            log_ratio[step] = terms.log_ratio[0]
            tau[step] = math.inf if log_ratio[step] == -math.inf else scale_of(terms.differences)
    states = np.concatenate([run.points, draws])
    begun, ended = run.program.log_densities(states[[tune, -1]])
    kept = slice(tune, None)
    evaluations = (run.evaluations + 2) * model.n_obs + int(counts[:, EVALUATIONS].sum())
    collected = Pairs(
        log_ratio=log_ratio[kept],
        tau=tau[kept],
        states=states[tune:-1],
        proposed=proposed[kept],
        likelihood_evaluations=evaluations,
        seconds=time.perf_counter() - began,
        rise=float(ended - begun),
    )
    if not collected.inside.any():
        raise NotFiniteError(
            f"pilot pairs: none of {n_pairs} proposals of {proposal!r} had a finite log ratio; use shorter steps"
        )
    return collected


def pairs_from(states: np.ndarray, target: Target, proposal: CompiledProposal, rng: np.random.Generator) -> Pairs:
    """Return the pairs of one proposal from each of the states, shape (n_pairs, dim); each takes at most two passes."""
    began = time.perf_counter()
    rows = AllRows(target)
    propose = compiled_propose(proposal)
    memory = proposal.make_state()
    states, proposed = np.array(states, dtype=np.float64), np.empty(states.shape)
    log_ratio = np.empty(len(states))
    tau = np.empty(len(states))
    count = np.zeros(len(COUNT_NAMES), np.int64)
    for k, theta in enumerate(states):
        proposal.refresh(memory)  # steps are independent
        log_q_ratio = propose(rng, memory, theta, proposed[k], count)
        log_ratio[k], tau[k] = ratio_and_scale(rows, theta, proposed[k], log_q_ratio, 1.0)
    evaluations = 2 * int(((log_ratio > -np.inf) | (tau > 0.0)).sum()) * target.n_obs
    return Pairs(log_ratio, tau, states, proposed, evaluations, time.perf_counter() - began)
