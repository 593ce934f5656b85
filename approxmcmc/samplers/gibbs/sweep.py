"""The compiled sweep of Gibbs: every site is drawn from its conditional, in place, in one of three forms.

- *fields*: the log odds L_i of all binary sites are kept, and updated when a site flips. O(1) per decision, O(D^2) per
  flip; exact.
- *terms*: the terms l_n = log psi_n(x_i = 1, rest) - log psi_n(x_i = 0, rest) of a binary site and the threshold logit
u
  are put to an acceptance test: the very functions that Metropolis-Hastings uses.
- *states*: the log probabilities of all states of a site are summed up, and one is drawn by inversion; exact.

All forms use one uniform u per decision, from one stream: x_i becomes 1 iff u < P(x_i = 1 | rest).
"""

import math

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.batches import sum_terms
from approxmcmc.engine.clock import nanoseconds
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.vectors import assign

FIELDS, TERMS, STATES = 0, 1, 2
SWEEPS_BETWEEN_REFRESHES = 1000  # of the fields; a thousand sweeps leave rounding errors of 1e-13

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")
AUDITS = COUNT_NAMES.index("decisions_audited")
WRONG = COUNT_NAMES.index("wrong_decisions")
WRONG_ACCEPTS = COUNT_NAMES.index("wrong_accepts")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
LP = VALUE_NAMES.index("lp")
MU_STD = VALUE_NAMES.index("audited_mu_std")
AUDIT_ERROR = VALUE_NAMES.index("audit_acceptance_error")
AUDIT_NOISE = VALUE_NAMES.index("audit_acceptance_noise")


@compiled
def refresh(x, fields, coefficients):  # type: ignore[no-untyped-def]  # a kernel helper
    """Compute the log odds of all sites: fields_i = linear_i + sum_j pair_ij x_j + sum_{j<k} triple_ijk x_j x_k."""
    linear, pair, triple = coefficients
    n = x.shape[0]
    for a in range(n):
        fields[a] = linear[a]
    for j in range(n):
        if x[j] != 0.0:
            for a in range(n):
                fields[a] += pair[j, a]
            for k in range(j + 1, n):
                if x[k] != 0.0:
                    for a in range(n):
                        fields[a] += triple[j, k, a]


@compiled
def flip(x, fields, coefficients, site, step):  # type: ignore[no-untyped-def]  # a kernel helper
    """Change ``x[site]`` by `step` (1 or -1), and the fields of the other sites with it."""
    _, pair, triple = coefficients
    n = x.shape[0]
    x[site] += step
    for a in range(n):
        fields[a] += step * pair[site, a]
    for k in range(n):  # whole rows, so that the inner loop vectorises without reordering a sum
        if x[k] != 0.0 and k != site:
            for a in range(n):
                fields[a] += step * triple[site, k, a]


@compiled
def draw_by_field(threshold, x, fields, coefficients, site, n, log_density, count):  # type: ignore[no-untyped-def]  # as above
    """Draw a binary site from its field; 2 n evaluations where it flips, as its n terms enter at both of its states."""
    state = 1.0 if threshold < fields[site] else 0.0
    count[TOUCHED] += n
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    if state != x[site]:
        step = state - x[site]
        log_density[0] += step * fields[site]
        flip(x, fields, coefficients, site, step)
        count[EVALUATIONS] += 2 * n


@compiled
def draw_by_states(  # type: ignore[no-untyped-def]  # as above
    exponential, log_terms, data, n, n_states, site, x, order, work, log_weights, log_density, count
):
    """Add up the terms of every state of a site, and draw one by inversion with u = exp(-exponential)."""
    before = int(x[site])
    largest = -math.inf
    for k in range(n_states):
        x[site] = k
        log_weights[k] = sum_terms(log_terms, x, data, order, n, work[1])
        largest = max(largest, log_weights[k])
    total = 0.0
    for k in range(n_states):
        total += math.exp(log_weights[k] - largest)
    rest = math.exp(-exponential) * total
    chosen = n_states - 1  # from the top, so that two states follow the rule u < P(x = 1)
    while chosen > 0 and rest >= math.exp(log_weights[chosen] - largest):
        rest -= math.exp(log_weights[chosen] - largest)
        chosen -= 1
    x[site] = chosen
    log_density[0] += log_weights[chosen] - log_weights[before]
    count[TOUCHED] += n
    count[EVALUATIONS] += n * n_states
    count[DECISIONS] += 1
    count[ROUNDS] += 1


def advance(  # type: ignore[no-untyped-def]  # a template; Gibbs binds FORM, SYSTEMATIC, THRESHOLD, TEST, AUDIT, ...
    streams, log_terms, data, first, n_terms, n_states, group_of, coefficients, test_params, test_state,
    x, other, fields, log_density, orders, order_start, no_blocks, work, first_sweep, thin, audit_probability, draws,
    counts, values,
):  # fmt: skip
    """Make ``len(draws) * thin`` sweeps; record the states after every `thin`-th and the summed costs."""
    scan_rng, uniform_rng, order_rng, audit_rng = streams
    base = data[0]
    log_weights = np.empty(n_states.max())
    for draw in range(draws.shape[0]):
        started = nanoseconds()
        paused = 0
        count, value = counts[draw], values[draw]
        count[:] = 0
        value[:] = 0.0
        value[MU_STD] = value[AUDIT_ERROR] = value[AUDIT_NOISE] = math.nan
        for repeat in range(thin):
            if FORM == FIELDS and (first_sweep + draw * thin + repeat) % SWEEPS_BETWEEN_REFRESHES == 0:  # noqa: F821 (bound)
                refresh(x, fields, coefficients)
            for place in range(x.shape[0]):
                site = place if SYSTEMATIC else int(scan_rng.random() * x.shape[0])  # noqa: F821 (bound)
                n = n_terms[site]
                if FORM == FIELDS:  # noqa: F821 (bound)
                    draw_by_field(THRESHOLD(uniform_rng), x, fields, coefficients, site, n, log_density, count)  # noqa: F821 (bound)
                    continue
                group = group_of[site]
                order = orders[order_start[group] : order_start[group] + n]
                base[0] = first[site]
                if FORM == STATES:  # noqa: F821 (bound)
                    draw_by_states(
                        uniform_rng.standard_exponential(), log_terms, data, n, n_states[site], site, x, order, work,
                        log_weights, log_density, count,
                    )  # fmt: skip
                    continue
                threshold = THRESHOLD(uniform_rng)  # noqa: F821 (bound)
                by_row = (order,) + no_blocks  # noqa: RUF005 (numba cannot unpack into a tuple)
                audited = AUDITED and audit_probability > 0.0 and audit_rng.random() < audit_probability  # noqa: F821 (bound)
                old = x[site]
                x[site], other[site] = 0.0, 1.0
                if CACHES_LIKELIHOOD:  # noqa: F821 (every site has terms of its own: no cache lasts)
                    test_state[0] = sum_terms(log_terms, x, data, order, n, work[1])
                    count[EVALUATIONS] += n
                decision, log_odds = TEST(  # noqa: F821 (bound)
                    order_rng, log_terms, data, n, x, other, threshold, 0.0,
                    by_row, work, test_params[group], test_state, count, value,
                )  # fmt: skip
                if audited:
                    pause = nanoseconds()
                    exact = AUDIT(  # noqa: F821 (bound)
                        audit_rng, log_terms, data, n, x, other, threshold, 0.0, by_row, work, test_params[group], value
                    )
                    count[AUDITS] += 1
                    if exact != decision:
                        count[WRONG] += 1
                        count[WRONG_ACCEPTS] += decision
                    paused += nanoseconds() - pause
                x[site] = other[site] = decision
                if decision != old:  # the log odds are infinite where a table holds a zero
                    log_density[0] += (decision - old) * log_odds
        assign(draws[draw], x)
        value[LP] = log_density[0]
        value[SECONDS] = 1e-9 * (nanoseconds() - started - paused)
    return draws.shape[0]
