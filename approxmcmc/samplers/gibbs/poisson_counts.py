r"""Draw a site by Poisson counts of its terms: an exact conditional update that reads some of them.

Subtract from each term l_n of a site its minimum over the states of the site, phi_n(k) = l_n(k) - min_k l_n(k), which
lies between 0 and M_n, and draw a count

    s_n | x ~ Poisson(c_n + phi_n(x_i)),    c_n = lambda M_n / L,    L = sum M_n.

Given the counts, x_i has probability proportional to prod_n (c_n + phi_n(k))^{s_n}: with p(x) proportional to exp(sum
phi_n) the exponents of the Poisson probabilities cancel. Drawing the counts at the current state, then a state given
the counts, leaves p(x_i | rest) invariant; so does a Metropolis step given the counts.

Terms with a count of 0 are not read. The others are found by thinning: Poisson(lambda + L) terms are drawn in
proportion to M_n, and each is kept with probability (c_n + phi_n(x_i)) / (c_n + M_n).

References: Zhang and De Sa (2019), Poisson-minibatching for Gibbs sampling with convergence rate guarantees, algorithms
2 and 4.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.acceptance.thinning import ROWS, arrivals
from approxmcmc.contracts import CompiledConditionals, Streams
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, EXPECTED_READS, ROUNDS, TOUCHED
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.alias_table import alias_table, draw_rows
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.gibbs.state import GibbsState, evidence_on
from approxmcmc.sampling.chain import MOVED, STAYED


class PoissonCounts(NamedTuple):
    """The tables for drawing counts, and scratch.

    `table` (terms, 4) holds the alias tables of the sites, one after the other, with the weights M_n; `shift` (D,) is
    lambda / L of every site, `expected` (D,) lambda + L of every site, the mean number of terms drawn for an update.
    `rows`, `weights` and `terms` (states, ROWS) are scratch for the terms of a batch.
    """

    table: np.ndarray
    shift: np.ndarray
    expected: np.ndarray
    rows: np.ndarray
    weights: np.ndarray
    terms: np.ndarray


def largest_changes(conditionals: CompiledConditionals) -> np.ndarray:
    """Return M_n of every term of every site, the most by which the site's state can change the term; (terms,)."""
    rows, tables = conditionals.tables
    owners = np.repeat(conditionals.n_states, conditionals.n_terms)
    starts = rows[:, 0].astype(np.int64)
    sizes = np.diff([*starts, tables.size])
    changes = np.empty(len(rows))
    for size, n_states in {*zip(sizes.tolist(), owners.tolist(), strict=True)}:
        here = np.flatnonzero((sizes == size) & (owners == n_states))
        entries = tables[starts[here, None] + np.arange(size)].reshape(len(here), -1, n_states)
        changes[here] = np.ptp(entries, axis=2).max(axis=1)
    return changes


@compiled
def weigh_states(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> None:
    """Draw the counts of a site, and write sum_n s_n log(c_n + phi_n(k)) of every state k to `log_weights`."""
    theta = state.theta
    log_weights = state.log_weights
    counts = state.tests[0]
    n_states = state.sites.n_states[site]
    before = int(theta[site])
    shift = counts.shift[site]
    evidence = evidence_on(state, site)
    first = state.sites.first[site]
    table = counts.table[first : first + state.sites.n_terms[site]]
    for k in range(n_states):
        log_weights[k] = 0.0
    # The draws are arrivals of a Poisson process of rate 1 up to lambda + L. A term may be drawn several times; each
    # draw that is kept adds 1 to its count s_n.
    now = 0.0
    end = counts.expected[site]
    value[EXPECTED_READS] += end
    while now < end:
        n, now = arrivals(streams.order, now, end)
        draw_rows(streams.order, table, n, counts.rows, counts.weights)
        for k in range(n_states):
            theta[site] = k
            evidence.log_terms(theta, evidence.data, counts.rows, 0, n, counts.terms[k])
        theta[site] = before
        count[TOUCHED] += n
        count[EVALUATIONS] += n * n_states
        for i in range(n):
            least = counts.terms[0, i]
            for k in range(1, n_states):
                least = min(least, counts.terms[k, i])
            added = shift * counts.weights[i]  # c_n
            largest = (1.0 + shift) * counts.weights[i]  # c_n + M_n
            if streams.order.random() * largest < added + (counts.terms[before, i] - least):
                for k in range(n_states):
                    log_weights[k] += math.log(added + (counts.terms[k, i] - least))


@compiled
def draw_given_counts(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> int:
    """Draw the counts of a site, then its state given the counts, by inversion; return MOVED or STAYED."""
    weigh_states(streams, state, site, count, value)
    log_weights = state.log_weights
    n_states = state.sites.n_states[site]
    before = int(state.theta[site])
    largest = log_weights[0]
    total = 0.0
    for k in range(1, n_states):
        largest = max(largest, log_weights[k])
    for k in range(n_states):
        total += math.exp(log_weights[k] - largest)
    rest = math.exp(-streams.uniform.standard_exponential()) * total
    chosen = n_states - 1  # start at the last state, as in `draw_by_states`
    while chosen > 0 and rest >= math.exp(log_weights[chosen] - largest):
        rest -= math.exp(log_weights[chosen] - largest)
        chosen -= 1
    return settle_site(state, site, before, chosen, count)


@compiled
def flip_given_counts(streams: Streams, state: GibbsState, site: int, count: np.ndarray, value: np.ndarray) -> int:
    """Draw the counts of a site, propose one of its other states, and accept by Metropolis's rule given the counts.

    Return MOVED or STAYED.
    """
    weigh_states(streams, state, site, count, value)
    n_states = state.sites.n_states[site]
    before = int(state.theta[site])
    # Uniform among the other states, so the proposal is symmetric.
    chosen = (before + 1 + int(streams.proposal.random() * (n_states - 1))) % n_states if n_states > 1 else before
    log_ratio = state.log_weights[chosen] - state.log_weights[before]
    if not -streams.uniform.standard_exponential() < log_ratio:  # minus an exponential variable is log u
        chosen = before
    return settle_site(state, site, before, chosen, count)


@compiled
def settle_site(state: GibbsState, site: int, before: int, chosen: int, count: np.ndarray) -> int:
    """Set the state of a site to `chosen`, count the decision, and return MOVED if it was not `before`, else STAYED."""
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    state.theta[site] = chosen
    return MOVED if chosen != before else STAYED


class CompiledCounts(NamedTuple):
    """The update of a site by counts, compiled.

    ``draw(streams, state, site, count, value) -> status`` updates a site, ``make_state()`` makes the `PoissonCounts` of
    a chain, and `expected_reads` is the mean number of terms that a sweep draws.
    """

    draw: Callable[..., int]
    make_state: Callable[[], PoissonCounts]
    expected_reads: float


def compile_counts(
    conditionals: CompiledConditionals,
    rate: float | None,
    metropolised: bool,
) -> CompiledCounts:
    """Return the update of sites by counts; `rate` is lambda, None for L^2 of each site.

    If `metropolised`, another state is accepted by Metropolis's rule given the counts. Raises IncompatibleError if a
    table contains the probability 0.
    """
    tables = conditionals.tables[1]
    if not np.isfinite(tables).all():
        raise IncompatibleError(f"{speaker()} needs bounded terms, but a table contains the probability 0; use Gibbs()")
    changes = largest_changes(conditionals)
    stops = conditionals.first + conditionals.n_terms
    parts = [changes[first:stop] for first, stop in zip(conditionals.first, stops, strict=True)]
    totals = np.array([part.sum() for part in parts])
    added = np.where(totals > 0.0, totals**2 if rate is None else rate, 0.0)
    shift = np.divide(added, totals, out=np.zeros_like(totals), where=totals > 0.0)
    slots = [alias_table(part) if part.sum() > 0.0 else np.zeros((len(part), 4)) for part in parts]
    table = np.concatenate(slots)
    expected = totals + added
    n_states = int(conditionals.n_states.max())

    def make_state() -> PoissonCounts:
        scratch = np.empty(ROWS, dtype=np.int64), np.empty(ROWS), np.empty((n_states, ROWS))
        return PoissonCounts(table, shift, expected, *scratch)

    draw = flip_given_counts if metropolised else draw_given_counts
    return CompiledCounts(draw, make_state, float(expected.sum()))
