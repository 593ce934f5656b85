"""The state of a Gibbs chain, and the check that an acceptance test can decide its sites."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import AcceptanceTest, CompiledConditionals, CompiledTest, DiscreteTarget, Population
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import DataOrder, Evidence, new_evidence
from approxmcmc.engine.terms.order import rows_order
from approxmcmc.errors import IncompatibleError
from approxmcmc.sampling.chain import Clock


class Sites(NamedTuple):
    """Where the terms of every site are, how many they are, and the number of states; int64, (D,) each, except `base`.

    Site i has the terms ``first[i] ... first[i] + n_terms[i] - 1`` in the list of all terms; `base` holds ``first[i]``
    of the site that is being drawn, for the kernel. Sites with equally many terms form a `group`: one test decides
    them, and they share one permutation of their terms, which begins at ``first_place[i]`` in the array of all
    permutations.
    """

    base: np.ndarray
    first: np.ndarray
    n_terms: np.ndarray
    n_states: np.ndarray
    group: np.ndarray
    first_place: np.ndarray


class Field(NamedTuple):
    """The log odds of all sites, shape (D,), and the coefficients of the sum that gives them; see `refresh`."""

    log_odds: np.ndarray
    linear: np.ndarray
    pair: np.ndarray
    triple: np.ndarray


class GibbsState(NamedTuple):
    """A chain of Gibbs: its states, and the parts of its conditionals.

    While a site is tested, its value is 0 in `theta` and 1 in `proposed`. `evidence` holds the evidence on all sites,
    see :func:`evidence_on`; `tests` are the states of the test, one for each group of sites; `log_weights` is scratch.
    `field` is None if no log odds are cached.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    sites: Sites
    evidence: Evidence
    tests: tuple[Any, ...]
    log_weights: np.ndarray
    field: Any


def new_state(
    conditionals: CompiledConditionals,
    parts: Sequence[Any],
    theta: np.ndarray,
    clock: Clock,
    log_density: float = math.nan,
) -> GibbsState:
    """Return the state of a chain that uses the array `theta`.

    Each of `parts` makes its state by `make_state`: the tests of `build_tests`, or the counts of `poisson_counts`.
    """
    sizes, group = np.unique(conditionals.n_terms, return_inverse=True)
    first_place = (np.cumsum(sizes) - sizes)[group]
    base = np.zeros(1, dtype=np.int64)
    proposed = theta.copy()
    order = rows_order(0)._replace(places=np.concatenate([np.arange(size) for size in sizes]))
    return GibbsState(
        theta=theta,
        proposed=proposed,
        log_density=np.array([log_density]),
        clock=clock,
        sites=Sites(
            base,
            conditionals.first,
            conditionals.n_terms,
            conditionals.n_states,
            group.astype(np.int64),
            first_place.astype(np.int64),
        ),
        evidence=new_evidence(conditionals.log_terms, (base, *conditionals.tables), 0, theta, proposed, order),
        tests=tuple(part.make_state() for part in parts),
        log_weights=np.empty(int(conditionals.n_states.max())),
        field=None if conditionals.fields is None else Field(np.zeros(theta.size), *conditionals.fields),
    )


@compiled
def evidence_on(state: GibbsState, site: int) -> Evidence:
    """Return the evidence on one site, as views of the arrays of `state`.

    It is what a test needs to compare the terms of the site at `state.theta` and at `state.proposed`: the number of
    terms, the two states, and the order in which the test reads the terms.
    """
    sites = state.sites
    on_all = state.evidence
    order = on_all.order
    start = sites.first_place[site]
    sites.base[0] = sites.first[site]
    return Evidence(
        on_all.log_terms,
        on_all.data,
        sites.n_terms[site],
        on_all.theta,
        on_all.proposed,
        DataOrder(
            order.places[start : start + sites.n_terms[site]],
            order.blocks,
            order.kept,
            order.terms,
            order.cursor,
            order.rows,
            order.at_both,
        ),
        on_all.memory_order,
        on_all.moments,
        on_all.current,
        on_all.differences,
    )


def build_tests(
    test: AcceptanceTest, target: DiscreteTarget, conditionals: CompiledConditionals
) -> tuple[CompiledTest, ...]:
    """Return the test, compiled once for each number of terms that some site has, in ascending order of this number.

    Raises IncompatibleError if the test cannot decide a site: only an exact test can decide sites with more than two
    states, and sites with a single term.
    """
    kind = type(test).__name__
    sizes = np.unique(conditionals.n_terms)
    exact = test.sums_all_terms
    if not exact and conditionals.n_states.max() > 2:
        site = int(np.argmax(conditionals.n_states))
        raise IncompatibleError(
            f"Gibbs: {kind} decides between two states, site {site} of {target!r} has "
            f"{conditionals.n_states[site]}; use ExactTest"
        )
    if not exact and sizes[0] < 2:
        site = int(np.argmin(conditionals.n_terms))
        raise IncompatibleError(
            f"Gibbs: {kind} needs at least 2 terms per site, site {site} of {target!r} has {sizes[0]}; use ExactTest"
        )
    tests = tuple(test.build_test(Population(int(size), same_terms=False)) for size in sizes)
    if not tests[0].uses_ratio:
        raise IncompatibleError(
            f"Gibbs: {kind} ignores the terms, but a conditional consists only of terms; use ExactTest"
        )
    return tests
