"""Pilot pairs: what decisions an exact chain faces, as the two numbers that decide how a sequential test fares.

The steps of a short exact chain are the pairs: the state theta and the proposal theta' of a step, with the log ratio
Lambda and the scale tau = sqrt(N) S_l of the terms, for the one pass over the data that the exact decision costs
anyway. In the Gaussian regime the two say all (see `acceptance_probability_error`).
"""

import reprlib
import time
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import COUNT_NAMES, Proposal, Target
from approxmcmc.engine.batches import full_terms
from approxmcmc.engine.compile import VECTOR, bind, type_of
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.sampling.initial import random_start


class Pairs(NamedTuple):
    """Log ratios and scales of pilot pairs, shape (n_pairs,), their states and proposals, and what they cost.

    `rise` is by how much the log density of the posterior rose from the first of the states to the last.

    A proposal outside the support of the prior has log ratio -inf and scale 0: every test rejects it and reads nothing.
    One at which a datum has probability 0 has log ratio -inf and scale inf: only who reads that datum rejects it.
    """

    log_ratio: np.ndarray
    tau: np.ndarray
    states: np.ndarray
    proposed: np.ndarray
    likelihood_evaluations: int
    seconds: float
    rise: float

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
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise InvalidInputError(f"pilot pairs: {name} must be an integer >= {least}, found {value!r}")
    for part_of, role, value in ((Target, "target", target), (Proposal, "proposal", proposal)):
        if isinstance(value, type) or not isinstance(value, part_of):
            raise IncompatibleError(f"pilot pairs: {role} must be a {role}, found {reprlib.repr(value)}")
    began = time.perf_counter()
    own = streams(seed_sequences(random_seed, 1)[0][0])
    start = random_start(target, own.start, proposal) if initvals is None else initvals
    theta = np.array(start, dtype=np.float64)
    if theta.shape != (target.variables.size,):  # compiled code would read beyond it
        raise InvalidInputError(f"pilot pairs: initvals need shape ({target.variables.size},), found {theta.shape}")
    compiled, part = target.compile(), proposal.build_proposal(target)
    propose, state = _propose_kernel(part), part.make_state()
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
        log_q_ratio = propose(own.proposal, part.params, state, theta, proposed[step], count)
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
        if step < tune:
            part.functions["ADAPT"](part.params, state, acceptance, step)
        if own.uniform.random() < acceptance:
            theta, log_prior, terms = proposed[step].copy(), proposed_log_prior, there
    kept, rise = slice(tune, None), float(log_prior + terms.sum() - before)
    evaluations, seconds = passes * compiled.n_obs, time.perf_counter() - began
    found = Pairs(log_ratio[kept], tau[kept], states[kept], proposed[kept], evaluations, seconds, rise)
    if not found.inside.any():
        raise NotFiniteError(
            f"pilot pairs: none of {n_pairs} proposals of {proposal!r} had a finite log ratio; use shorter steps"
        )
    return found


def scale_of(differences: np.ndarray) -> float:
    """Return tau = sqrt(N) S_l of a pair's terms; 0 of a single term, inf where one of them is -inf."""
    if not np.isfinite(differences).all():
        return np.inf
    return float(np.sqrt(differences.size) * differences.std(ddof=1)) if differences.size > 1 else 0.0


def _propose_kernel(proposal: Any) -> Any:
    if config.DISABLE_JIT:
        return proposal.functions["PROPOSE"]
    generator = type_of(np.random.default_rng(0))
    counts = nb.Array(nb.int64, 1, "C")
    signature = nb.float64(generator, type_of(proposal.params), VECTOR, VECTOR, VECTOR, counts)
    return bind(_propose, signature, PROPOSE=proposal.functions["PROPOSE"])


def _propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # a template
    return PROPOSE(rng, params, state, theta, out, count)  # type: ignore[name-defined]  # noqa: F821 (bound)
