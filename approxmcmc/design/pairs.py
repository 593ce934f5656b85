"""Pairs of states: what decisions a chain faces, as the two numbers that decide how a sequential test fares.

A pair is the state theta and the proposal theta' of a step, with the log ratio Lambda and the scale tau = sqrt(N) S_l
of the terms. In the Gaussian regime the two say all (see `acceptance_probability_error`). A pilot takes the steps of a
short exact chain, for the one pass over the data that the exact decision costs anyway. The draws of a finished run give
pairs by proposing from them.
"""

import math
import reprlib
import time
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, CompiledProposal, Proposal, Target
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.batches import full_terms, scale_of
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.metropolis_hastings.replication import compiled_propose
from approxmcmc.sampling.initial import random_start


class Pairs(NamedTuple):
    """Log ratios and scales of pairs, shape (n_pairs,), their states and proposals, and what they cost.

    `rise` is by how much the log density of the posterior rose from the first of the states to the last; NaN where they
    are not those of one pilot.

    A proposal outside the support of the prior has log ratio -inf and scale 0: every test rejects it and reads nothing.
    One at which a datum has probability 0 has log ratio -inf and scale inf: only who reads that datum rejects it.
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
        """Which proposals lie inside the support; bool, shape (n_pairs,)."""
        return np.isfinite(self.log_ratio)


def collect_pairs(
    target: Any,
    proposal: Any,
    *,
    n_pairs: int = 500,
    tune: int = 200,
    initvals: Any = None,
    random_seed: Any = None,
) -> Pairs:
    """Run an exact chain of `tune` + `n_pairs` steps; a pass over the data each.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or `initvals` is no point inside the support.
    NotFiniteError
        When all proposals fall outside the support, or a log density is NaN.
    """
    for name, value, least in (("n_pairs", n_pairs, 1), ("tune", tune, 0)):
        checked_integer(value, name, least, who="pilot pairs")
    for part_of, role, value in ((Target, "target", target), (Proposal, "proposal", proposal)):
        if not isinstance(value, part_of):
            raise IncompatibleError(f"pilot pairs: {role} must be a {role}, found {reprlib.repr(value)}")
    began = time.perf_counter()
    own = streams(seed_sequences(random_seed, 1)[0][0])
    start = random_start(target, own.start, proposal) if initvals is None else initvals
    theta = np.array(start, dtype=np.float64)
    if theta.shape != (target.variables.size,):  # compiled code would read beyond it
        raise InvalidInputError(f"pilot pairs: initvals need shape ({target.variables.size},), found {theta.shape}")
    compiled, part = target.compile(), proposal.build_proposal(target)
    propose, state = compiled_propose(part), part.make_state()
    count = np.zeros(len(COUNT_NAMES), np.int64)

    def terms_at(point: np.ndarray) -> np.ndarray:
        return full_terms(compiled.log_terms, point, compiled.data, compiled.n_obs)

    log_prior, terms = compiled.log_prior(theta), terms_at(theta)
    if not np.isfinite(log_prior + terms.sum()):
        raise InvalidInputError(f"pilot pairs: no finite log density at the start {theta}; give initvals")
    passes, n_steps = 1, tune + n_pairs
    log_ratio, tau = np.full(n_steps, -np.inf), np.zeros(n_steps)
    states, proposed = np.empty((n_steps, theta.size)), np.empty((n_steps, theta.size))
    for step in range(n_steps):
        if step == tune:
            before = log_prior + terms.sum()
        states[step] = theta
        log_q_ratio = propose(own.proposal, state, theta, proposed[step], count)
        proposed_log_prior = compiled.log_prior(proposed[step])
        # Outside the support a gradient may be undefined, and with it the density ratio.
        log_rest = proposed_log_prior - log_prior + log_q_ratio if proposed_log_prior > -np.inf else proposed_log_prior
        if log_rest > -np.inf:
            there, passes = terms_at(proposed[step]), passes + 1
            differences = there - terms
            log_ratio[step] = log_rest + differences.sum()
            tau[step] = scale_of(differences)
        if np.isnan(log_rest) or np.isnan(log_ratio[step]):
            raise NotFiniteError(f"pilot pairs: a log density is NaN from {theta} to {proposed[step]}")
        acceptance = float(np.exp(min(log_ratio[step], 0.0)))
        if step < tune and part.adapt is not None:
            part.adapt(state, acceptance, step)
        accepted = own.uniform.random() < acceptance
        if part.settle is not None:
            part.settle(state, accepted)
        if accepted:
            theta, log_prior, terms = proposed[step].copy(), proposed_log_prior, there
    kept, rise = slice(tune, None), float(log_prior + terms.sum() - before)
    evaluations, seconds = passes * compiled.n_obs, time.perf_counter() - began
    found = Pairs(log_ratio[kept], tau[kept], states[kept], proposed[kept], evaluations, seconds, rise)
    if not found.inside.any():
        raise NotFiniteError(
            f"pilot pairs: none of {n_pairs} proposals of {proposal!r} had a finite log ratio; use shorter steps"
        )
    return found


def pairs_from(states: np.ndarray, target: Target, proposal: CompiledProposal, rng: np.random.Generator) -> Pairs:
    """Propose once from each of the states, shape (n_pairs, dim); two passes over the data each."""
    began = time.perf_counter()
    compiled, propose, memory = target.compile(), compiled_propose(proposal), proposal.make_state()
    states, proposed = np.array(states, dtype=np.float64), np.empty(states.shape)
    log_ratio, tau = np.full(len(states), -np.inf), np.zeros(len(states))
    count, passes = np.zeros(len(COUNT_NAMES), np.int64), 0
    for k, theta in enumerate(states):
        proposal.refresh(memory)  # no step follows the one before
        log_q_ratio = propose(rng, memory, theta, proposed[k], count)
        log_prior = compiled.log_prior(proposed[k])
        if log_prior == -np.inf:
            continue
        here, there = (full_terms(compiled.log_terms, x, compiled.data, compiled.n_obs) for x in (theta, proposed[k]))
        log_ratio[k] = log_prior - compiled.log_prior(theta) + log_q_ratio + (there - here).sum()
        tau[k] = scale_of(there - here)
        passes += 2
    return Pairs(log_ratio, tau, states, proposed, passes * compiled.n_obs, time.perf_counter() - began)
