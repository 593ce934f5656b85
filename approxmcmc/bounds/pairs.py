"""Pilot pairs: what decisions an exact chain faces, as the two numbers that decide how a sequential test fares.

At a state theta of a short exact chain and a proposal theta', the log ratio Lambda and the scale tau = sqrt(N) S_l of
the terms are computed on all data. In the Gaussian regime they say all (see `acceptance_probability_error`).
"""

import time
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.batches import full_terms
from approxmcmc.engine.bind import VECTOR, bind, type_of
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.initial import random_start, starting_points


class Pairs(NamedTuple):
    """Log ratios and scales of pilot pairs, shape (n_pairs,), the chain's states, and what they cost.

    `states` holds every state of the pilot chain after tuning, shape (n_pairs * thin, dim).
    """

    log_ratio: np.ndarray
    tau: np.ndarray
    states: np.ndarray
    likelihood_evaluations: int
    seconds: float


def collect_pairs(
    target: Any,
    proposal: Any,
    *,
    n_pairs: int = 200,
    tune: int = 200,
    thin: int = 5,
    initvals: Any = None,
    random_seed: Any = None,
) -> Pairs:
    """Run an exact chain, and propose from every `thin`-th of its states.

    Raises
    ------
    InvalidInputError
        When a number is out of range.
    NotFiniteError
        When all proposals fall outside the support, or a log density is NaN.
    """
    for name, value, least in (("n_pairs", n_pairs, 1), ("tune", tune, 0), ("thin", thin, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise InvalidInputError(f"pilot pairs: {name} must be an integer >= {least}, found {value!r}")
    began = time.perf_counter()
    program: Any = MetropolisHastings(proposal, ExactTest()).build(target, audit_every=None)
    own = streams(seed_sequences(random_seed, 1)[0][0])
    points, tries = starting_points(
        program, target.variables, lambda rng: random_start(target, rng, proposal), initvals, [own]
    )
    chain = program.start(points[0], own, tune)
    dim, compiled = target.variables.size, program.target
    propose = _propose_kernel(program.proposal)
    count, proposed = np.zeros(len(COUNT_NAMES), np.int64), np.empty(dim)
    states, pairs = np.empty((tune + n_pairs * thin, dim)), []
    _run(chain, states[:tune])
    for b in range(n_pairs):
        _run(chain, states[tune + b * thin : tune + (b + 1) * thin])
        log_rest = propose(
            own.audit, program.proposal.params, chain.proposal_state.copy(), chain.theta, proposed, count
        )
        log_rest += compiled.log_prior(proposed) - compiled.log_prior(chain.theta)
        if log_rest == -np.inf:
            continue  # outside the support, where no test reads anything
        terms = [
            full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs) for theta in (chain.theta, proposed)
        ]
        differences = terms[1] - terms[0]
        pairs.append((log_rest + differences.sum(), np.sqrt(compiled.n_obs) * differences.std(ddof=1)))
    log_ratio, tau = np.array(pairs).reshape(-1, 2).T
    finite = np.isfinite(log_ratio) & np.isfinite(tau)
    if not finite.any():
        raise NotFiniteError(
            f"pilot pairs: none of {n_pairs} proposals of {proposal!r} had a finite log ratio; use shorter steps"
        )
    passes = tries + tune + n_pairs * thin + 1 + 2 * len(pairs)
    seconds = time.perf_counter() - began
    return Pairs(log_ratio[finite], tau[finite], states[tune:], passes * compiled.n_obs, seconds)


def _run(chain: Any, draws: np.ndarray) -> None:
    rows = len(draws)
    counts, values = np.empty((rows, len(COUNT_NAMES)), np.int64), np.empty((rows, len(VALUE_NAMES)))
    if rows and chain.advance(rows, 1, draws, counts, values) < rows:
        raise NotFiniteError(f"pilot pairs: {chain.explain_failure()}. Look at the model there")


def _propose_kernel(proposal: Any) -> Any:
    if config.DISABLE_JIT:
        return proposal.functions["PROPOSE"]
    generator = type_of(np.random.default_rng(0))
    counts = nb.Array(nb.int64, 1, "C")
    signature = nb.float64(generator, type_of(proposal.params), VECTOR, VECTOR, VECTOR, counts)
    return bind(_propose, signature, PROPOSE=proposal.functions["PROPOSE"])


def _propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # a template
    return PROPOSE(rng, params, state, theta, out, count)  # type: ignore[name-defined]  # noqa: F821 (bound)
