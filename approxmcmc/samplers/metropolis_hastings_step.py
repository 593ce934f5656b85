"""One step of Metropolis-Hastings, compiled for a pairing.

1. theta' ~ q(.|theta), with log q(theta|theta') - log q(theta'|theta);
2. u ~ U(0, 1);  c = log p(theta') - log p(theta) + log q ratio;
3. ask the test whether c + sum_i [log p(x_i|theta') - log p(x_i|theta)] exceeds the threshold of u; move if it does.
"""

import math
from typing import Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledTarget, Part
from approxmcmc.engine.batches import (
    CERTAIN,
    FINITE,
    LOG_PRIOR,
    UNDEFINED,
    log_terms_type,
    memory_order,
    merge_differences,
)
from approxmcmc.engine.bind import COUNTS, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.clock import nanoseconds
from approxmcmc.engine.moments import MEAN, reset, standard_deviation
from approxmcmc.engine.order import settle
from approxmcmc.engine.vectors import assign

DECISIONS = COUNT_NAMES.index("decisions_made")
AUDITS = COUNT_NAMES.index("decisions_audited")
WRONG = COUNT_NAMES.index("wrong_decisions")
WRONG_ACCEPTS = COUNT_NAMES.index("wrong_accepts")
ACCEPTED = COUNT_NAMES.index("accepted")
ACCEPTANCE_RATE = VALUE_NAMES.index("acceptance_rate")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
LP = VALUE_NAMES.index("lp")
DRAW_WEIGHT = VALUE_NAMES.index("weight")
MU_STD = VALUE_NAMES.index("audited_mu_std")
AUDIT_ERROR = VALUE_NAMES.index("audit_acceptance_error")
AUDIT_NOISE = VALUE_NAMES.index("audit_acceptance_noise")
EPSILON = VALUE_NAMES.index("epsilon")
AUDIT_COUNTS = ("decisions_audited", "wrong_decisions", "wrong_accepts")


def audit(  # type: ignore[no-untyped-def]  # bound into the template below
    rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, value
):
    """Decide on all data, read in memory order, and record how clear the answer was; -1 when a log density is NaN."""
    reset(work[2])
    start = np.int64(0)  # a literal 0 would compile the helper twice
    outcome = merge_differences(log_terms, theta, proposed, data, memory_order(), start, n_obs, work)
    if outcome != FINITE:
        return -1 if outcome == UNDEFINED else (1 if outcome == CERTAIN else 0)
    log_ratio = log_rest + n_obs * work[2, MEAN]
    s_l = standard_deviation(work[2])
    if s_l > 0.0:
        value[MU_STD] = (log_ratio - threshold) / (math.sqrt(n_obs) * s_l)
    return 1 if threshold < log_ratio else 0


def no_weight(params, state):  # type: ignore[no-untyped-def]  # bound into the template below
    """Return 0: draws weigh the same, and the trace holds no weights."""
    return 0.0


def _advance(  # type: ignore[no-untyped-def]
    streams, log_terms, log_prior, data, n_obs, proposal_params, proposal_state, test_params, test_state,
    theta, proposed, current_log_prior, order, work, first_step, n_tune, thin, audit_probability, draws, counts, values,
):  # fmt: skip
    proposal_rng, uniform_rng, order_rng, audit_rng = streams
    for draw in range(draws.shape[0]):
        started = nanoseconds()
        paused = 0
        count, value = counts[draw], values[draw]
        count[:] = 0
        value[:] = 0.0
        value[MU_STD] = value[AUDIT_ERROR] = value[AUDIT_NOISE] = value[EPSILON] = math.nan
        for repeat in range(thin):
            step = first_step + draw * thin + repeat
            log_q_ratio = PROPOSE(  # noqa: F821 (bound)
                proposal_rng, proposal_params, proposal_state, theta, proposed, count
            )
            threshold = THRESHOLD(uniform_rng)  # noqa: F821 (bound)
            proposed_log_prior = log_prior(proposed) if USES_RATIO else 0.0  # noqa: F821 (bound)
            log_rest = proposed_log_prior - current_log_prior[0] + log_q_ratio
            if proposed_log_prior == -math.inf:  # a gradient may be undefined there, and with it the density ratio
                log_rest = -math.inf
            audited = AUDITED and audit_probability > 0.0 and audit_rng.random() < audit_probability  # noqa: F821 (bound)
            if math.isnan(log_rest) or proposed_log_prior == math.inf:  # from +inf no chain would ever come back
                return draw
            if log_rest == -math.inf:  # outside the support: no datum can change the answer
                count[DECISIONS] += 1
                count[AUDITS] += 1 if audited else 0
                decision, log_ratio = 0, log_rest
            else:
                decision, log_ratio = TEST(  # noqa: F821 (bound)
                    order_rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest,
                    order, work, test_params, test_state, count, value,
                )  # fmt: skip
                if decision < 0:
                    return draw
                if audited:
                    pause = nanoseconds()
                    exact = AUDIT(  # noqa: F821 (bound)
                        audit_rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest,
                        order, work, test_params, value,
                    )  # fmt: skip
                    if exact >= 0:
                        count[AUDITS] += 1
                        if exact != decision:
                            count[WRONG] += 1
                            count[WRONG_ACCEPTS] += decision
                    paused += nanoseconds() - pause
            if USES_RATIO and not CACHES_LIKELIHOOD:  # noqa: F821 (bound)
                settle(order, decision == 1)
            if decision == 1:
                assign(theta, proposed)
                current_log_prior[0] = proposed_log_prior
            acceptance = ACCEPTANCE_PROBABILITY(log_ratio)  # noqa: F821 (bound)
            if step < n_tune:
                ADAPT(proposal_params, proposal_state, acceptance, step)  # noqa: F821 (bound)
            count[ACCEPTED] = decision
            value[ACCEPTANCE_RATE] += acceptance / thin
        assign(draws[draw], theta)
        value[LP] = current_log_prior[0] + test_state[0]
        value[DRAW_WEIGHT] = WEIGHT(proposal_params, proposal_state)  # noqa: F821 (bound)
        value[SECONDS] = 1e-9 * (nanoseconds() - started - paused)
    return draws.shape[0]


def compile_step(target: CompiledTarget, proposal: Part, test: Part, order: tuple[Any, ...]) -> Any:
    """Return the kernel of a pairing whose chains read the data in orders of this type."""
    parts = {"AUDIT": audit, "WEIGHT": no_weight, **proposal.functions, **test.functions}
    return bind(_advance, None if config.DISABLE_JIT else _signature(target, proposal, test, order), **parts)


def _signature(target: CompiledTarget, proposal: Part, test: Part, order: tuple[Any, ...]) -> Any:
    generator = type_of(np.random.default_rng(0))
    data = type_of(target.data)
    return nb.int64(
        nb.UniTuple(generator, 4), log_terms_type(data), LOG_PRIOR, data, nb.int64,
        type_of(proposal.params), VECTOR, type_of(test.params), VECTOR,
        VECTOR, VECTOR, VECTOR, type_of(order), MATRIX,
        nb.int64, nb.int64, nb.int64, nb.float64, MATRIX, COUNTS, MATRIX,
    )  # fmt: skip
