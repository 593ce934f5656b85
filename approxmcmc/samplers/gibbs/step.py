"""One sweep of Gibbs: every site is drawn from its conditional, in place, in one of three forms.

- *field*: the log odds L_i of all binary sites are kept, and updated when a site flips. O(1) per decision, O(D^2) per
  flip; exact.
- *terms*: an acceptance test decides a binary site from the terms l_n = log psi_n(x_i = 1, rest) - log psi_n(x_i = 0,
  rest) and the threshold logit(u), as in Metropolis-Hastings.
- *states*: the log probabilities of all states of a site are computed, and one is drawn by inversion; exact.

All forms use one uniform u per decision, from one stream: a binary x_i becomes 1 iff u < P(x_i = 1 | rest), or iff an
approximate test decides so. Each is a function ``draw(streams, state, site, count, value) -> status`` of one site.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import CompiledTest, Streams
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.evidence import Evidence, log_likelihood_at
from approxmcmc.samplers.decision import keep_nothing, make_decision
from approxmcmc.samplers.gibbs.state import Field, GibbsState, evidence_on
from approxmcmc.sampling.chain import FAILED, MOVED, STAYED

SWEEPS_BETWEEN_REFRESHES = 1000  # sweeps after which log odds are recomputed; rounding errors are then 1e-13


# --- which site is next ---


@compiled
def one_after_the_other(rng: np.random.Generator, place: int, n_sites: int) -> int:
    """Return `place`, so that a sweep visits the sites 0, 1, ..., D - 1 in turn."""
    return place


@compiled
def any_site(rng: np.random.Generator, place: int, n_sites: int) -> int:
    """Return the index of a site drawn uniformly from all sites."""
    return int(rng.random() * n_sites)


SCANS = {"systematic": one_after_the_other, "random": any_site}


# --- the sweep ---


@compiled
def prepare_nothing(state: GibbsState) -> None:
    """Do nothing: the sweep needs no preparation."""


@cached_by_content(maxsize=64)
def make_step(
    prepare: Callable[[GibbsState], None],
    next_site: Callable[..., int],
    draw: Callable[..., int],
) -> Callable[..., int]:
    """Return the compiled sweep, ``sweep(streams, state, count, value) -> status``.

    It calls ``prepare(state)`` first. The status is FAILED if a draw failed, MOVED if a site changed, else STAYED.
    """

    def sweep(streams: Streams, state: GibbsState, count: np.ndarray, value: np.ndarray) -> int:
        prepare(state)
        n_sites = state.theta.shape[0]
        status = STAYED
        for place in range(n_sites):
            site = next_site(streams.proposal, place, n_sites)
            drawn = draw(streams, state, site, count, value)
            if drawn == FAILED:
                return FAILED
            if drawn == MOVED:
                status = MOVED
        return status

    return compiled(inline="always")(sweep)


# --- by the field ---


@compiled
def refresh(x: np.ndarray, field: Field) -> None:
    """Compute the log odds of all sites: L_i = linear_i + sum_j pair_ij x_j + sum_{j<k} triple_ijk x_j x_k."""
    log_odds = field.log_odds
    n = x.shape[0]
    for a in range(n):
        log_odds[a] = field.linear[a]
    for j in range(n):
        if x[j] != 0.0:
            for a in range(n):
                log_odds[a] += field.pair[j, a]
            for k in range(j + 1, n):
                if x[k] != 0.0:
                    for a in range(n):
                        log_odds[a] += field.triple[j, k, a]


@compiled
def refresh_field(state: GibbsState) -> None:
    """Recompute the log odds of all sites before the first sweep, and before every thousandth after it."""
    if state.clock.steps[0] % SWEEPS_BETWEEN_REFRESHES == 0:
        refresh(state.theta, state.field)


@compiled
def flip(x: np.ndarray, field: Field, site: int, step: float) -> None:
    """Change ``x[site]`` by `step` (1 or -1), and update the log odds of the other sites."""
    log_odds = field.log_odds
    n = x.shape[0]
    x[site] += step
    for a in range(n):
        log_odds[a] += step * field.pair[site, a]
    for k in range(n):  # whole rows, so that the inner loop vectorises without reordering a sum
        if x[k] != 0.0 and k != site:
            for a in range(n):
                log_odds[a] += step * field.triple[site, k, a]


@cached_by_content(maxsize=64)
def make_draw_by_field(draw_threshold: Callable[[np.random.Generator], float]) -> Callable[..., int]:
    """Return the update of a binary site from its cached log odds."""

    def draw(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> int:
        theta = state.theta
        log_odds = state.field.log_odds[site]
        n = state.sites.n_terms[site]
        drawn = 1.0 if draw_threshold(streams.uniform) < log_odds else 0.0
        if math.isnan(log_odds):
            return FAILED
        count[TOUCHED] += n
        count[DECISIONS] += 1
        count[ROUNDS] += 1
        if drawn == theta[site]:
            return STAYED
        step = drawn - theta[site]
        state.log_density[0] += step * log_odds
        flip(theta, state.field, site, step)
        count[EVALUATIONS] += 2 * n  # the site's terms are used at both states of the site
        return MOVED

    return compiled(inline="always")(draw)


# --- by terms ---


def draw_by_terms(
    draw_threshold: Callable[[np.random.Generator], float],
    test: CompiledTest,
    on_site: Callable[[GibbsState, int], Evidence] = evidence_on,
) -> Callable[..., int]:
    """Return the update of a binary site by an acceptance test on the site's terms, `on_site` its evidence."""
    keep_sum = test.keep_log_likelihood
    return make_draw_by_terms(
        draw_threshold, make_decision(test), keep_sum or keep_nothing, keep_sum is not None, on_site
    )


@cached_by_content(maxsize=64)
def make_draw_by_terms(
    draw_threshold: Callable[[np.random.Generator], float],
    decide: Callable[..., tuple[int, float]],
    keep_sum: Callable[..., None],
    keeps_sum: bool,
    on_site: Callable[[GibbsState, int], Evidence] = evidence_on,
) -> Callable[..., int]:
    """Return the update of a binary site by a decision between x_i = 0, the current state for the test, and x_i = 1.

    If `keeps_sum`, the test caches a sum of terms at the current state: ``keep_sum(test, total)`` stores the sum at
    x_i = 0 before the decision.
    """

    def draw(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> int:
        theta = state.theta
        proposed = state.proposed
        test = state.tests[state.sites.group[site]]
        threshold = draw_threshold(streams.uniform)
        evidence = on_site(state, site)
        before = theta[site]
        at_zero = 0.0
        theta[site] = 0.0
        proposed[site] = 1.0
        if keeps_sum:  # each site has different terms, so a sum is valid for one decision only
            at_zero = log_likelihood_at(evidence, theta, evidence.order.places)
            keep_sum(test, at_zero)
            count[EVALUATIONS] += evidence.n_obs
        decision, log_odds = decide(streams, state.clock, evidence, threshold, 0.0, test, count, value)
        if decision < 0 or not at_zero < math.inf:
            theta[site] = proposed[site] = before
            return FAILED
        theta[site] = proposed[site] = decision
        if decision == before:
            return STAYED
        state.log_density[0] += (decision - before) * log_odds  # the log odds are infinite if a table holds a zero
        return MOVED

    return compiled(inline="always")(draw)


# --- by states ---


@compiled
def draw_by_states(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> int:
    """Sum the terms of every state of a site, and draw its state by inversion with u = exp(-e), e exponential."""
    theta = state.theta
    log_weights = state.log_weights
    n_states = state.sites.n_states[site]
    evidence = evidence_on(state, site)
    before = int(theta[site])
    exponential = streams.uniform.standard_exponential()
    largest = -math.inf
    for k in range(n_states):
        theta[site] = k
        log_weights[k] = log_likelihood_at(evidence, theta, evidence.order.places)
        largest = max(largest, log_weights[k])
    total = 0.0
    for k in range(n_states):
        total += math.exp(log_weights[k] - largest)
    if math.isnan(total):
        theta[site] = before
        return FAILED
    rest = math.exp(-exponential) * total
    chosen = n_states - 1  # start at the last state, so that with two states x = 1 iff u < P(x = 1)
    while chosen > 0 and rest >= math.exp(log_weights[chosen] - largest):
        rest -= math.exp(log_weights[chosen] - largest)
        chosen -= 1
    theta[site] = chosen
    state.log_density[0] += log_weights[chosen] - log_weights[before]
    count[TOUCHED] += evidence.n_obs
    count[EVALUATIONS] += evidence.n_obs * n_states
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    return MOVED if chosen != before else STAYED
