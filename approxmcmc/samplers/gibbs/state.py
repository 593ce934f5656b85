"""The state of a Gibbs chain, the order in which tests read the terms of a site, and the check that they can decide it.

The terms of a site are read in the orders of `engine/terms/order.py`: single rows in a random order, or blocks of a
shuffled copy. Each chain has a copy of its own, in which each site's terms are shuffled among themselves.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import (
    AcceptanceTest,
    CompiledConditionals,
    CompiledTest,
    DiscreteTarget,
    MovableTerms,
    Population,
)
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import DataOrder, Evidence, new_evidence
from approxmcmc.engine.terms.order import BLOCK_SIZE, block_size, blocks_order, rows_order
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.metropolis_hastings.program import data_schedule
from approxmcmc.sampling.chain import Clock


class Sites(NamedTuple):
    """Where the terms of every site are, how many they are, and the number of states; int64, (D,) each, except `base`.

    Site i has the terms ``first[i] ... first[i] + n_terms[i] - 1`` in the list of all terms; `base` holds ``first[i]``
    of the site that is being drawn, for the kernel, and i too if tests read blocks. Sites with equally many terms form
    a `group`: one test decides them, and they share one permutation, of their terms or of their blocks, which begins at
    ``first_place[i]`` in the array of all permutations.
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


class BlocksOfSites(NamedTuple):
    """How tests read blocks: the terms in rows that can be moved, and the rows in a block by group of sites, (G,)."""

    terms: MovableTerms
    sizes: np.ndarray


def blocks_of_sites(
    test: AcceptanceTest, compiled_test: CompiledTest, target: DiscreteTarget, conditionals: CompiledConditionals
) -> BlocksOfSites | None:
    """Return how `test` reads blocks of a site's terms; None if it reads rows, or all terms.

    With ``order="auto"`` it reads blocks if a site has 10 000 terms. Raises IncompatibleError if it reads blocks and
    the target has no rows that can be moved.
    """
    sizes = np.unique(conditionals.n_terms)
    if data_schedule(test, compiled_test, int(sizes[-1])).name != "blocks":
        return None
    if conditionals.compile_movable is None and test.order == "auto":
        return None
    if conditionals.compile_movable is None:
        raise IncompatibleError(
            f"Gibbs: {test!r} reads blocks of a shuffled copy, but {target!r} has no terms to shuffle, or "
            'a few of its tables are much larger than the others; give the test order="rows"'
        )
    of_group = [block_size(int(n), test.batch_size) for n in sizes]  # type: ignore[attr-defined]  # see `data_schedule`
    return BlocksOfSites(conditionals.compile_movable(), np.array(of_group))


def evidence_in_rows(conditionals: CompiledConditionals, theta: np.ndarray, proposed: np.ndarray) -> Evidence:
    """Return the evidence on all sites for tests that read single rows: a permutation of the terms for each group."""
    places = np.concatenate([np.arange(size) for size in np.unique(conditionals.n_terms)])
    base = np.zeros(1, dtype=np.int64)
    data = (base, *conditionals.tables)
    return new_evidence(conditionals.log_terms, data, 0, theta, proposed, rows_order(0)._replace(places=places))


def evidence_in_blocks_of(
    conditionals: CompiledConditionals,
    blocks: BlocksOfSites,
    theta: np.ndarray,
    proposed: np.ndarray,
    rng: np.random.Generator,
) -> Evidence:
    """Return the evidence on all sites for tests that read blocks, with a copy of the terms shuffled by `rng`.

    Its order holds the blocks of all groups, one group after the other, and in ``cursor[i]`` the cursor of site i.
    """
    sizes, group = np.unique(conditionals.n_terms, return_inverse=True)
    words = np.empty_like(blocks.terms.words)
    for first, n in zip(conditionals.first, conditionals.n_terms, strict=True):
        words[first : first + n] = blocks.terms.words[first + rng.permutation(n)]
    orders = [blocks_order(int(n), int(size), [words]) for n, size in zip(sizes, blocks.sizes, strict=True)]
    order = DataOrder(
        places=orders[0].places,
        blocks=np.concatenate([of_group.blocks for of_group in orders]),
        kept=np.concatenate([of_group.kept for of_group in orders]),
        terms=orders[-1].terms,
        cursor=np.array([of_group.cursor for of_group in orders])[group],
        rows=(words,),
        at_both=blocks.terms.at_both,
    )
    base = np.zeros(2, dtype=np.int64)
    data = (base, *blocks.terms.views(words))
    return new_evidence(blocks.terms.log_terms, data, 0, theta, proposed, order)


def new_state(
    conditionals: CompiledConditionals,
    parts: Sequence[Any],
    theta: np.ndarray,
    clock: Clock,
    blocks: BlocksOfSites | None = None,
    rng: np.random.Generator | None = None,
) -> GibbsState:
    """Return the state of a chain that uses the array `theta`.

    Each of `parts` makes its state by `make_state`: the tests of `build_tests`, or the counts of `poisson_counts`. With
    `blocks` the chain has a copy of all terms, shuffled by `rng`.
    """
    sizes, group = np.unique(conditionals.n_terms, return_inverse=True)
    proposed = theta.copy()
    if blocks is None:
        evidence = evidence_in_rows(conditionals, theta, proposed)
        places = sizes
    else:
        assert rng is not None
        evidence = evidence_in_blocks_of(conditionals, blocks, theta, proposed, rng)
        places = -(-sizes // blocks.sizes)  # the number of blocks, of which the last may be shorter
    first_place = (np.cumsum(places) - places)[group]
    return GibbsState(
        theta=theta,
        proposed=proposed,
        log_density=np.full(1, math.nan),
        clock=clock,
        sites=Sites(
            evidence.data[0],
            conditionals.first,
            conditionals.n_terms,
            conditionals.n_states,
            group.astype(np.int64),
            first_place.astype(np.int64),
        ),
        evidence=evidence,
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


@compiled
def evidence_in_blocks(state: GibbsState, site: int) -> Evidence:
    """Return the evidence on one site, as `evidence_on`, for a test that reads blocks of the site's rows."""
    sites = state.sites
    on_all = state.evidence
    order = on_all.order
    n = sites.n_terms[site]
    first = sites.first[site]
    cursor = order.cursor[site]
    start = sites.first_place[site]
    stop = start + (n + cursor[BLOCK_SIZE] - 1) // cursor[BLOCK_SIZE]
    kept = order.kept[start:stop]
    kept[:] = 0  # the other sites have changed since the site's last decision, so no term is known
    sites.base[0] = first
    sites.base[1] = site
    return Evidence(
        on_all.log_terms,
        on_all.data,
        n,
        on_all.theta,
        on_all.proposed,
        DataOrder(
            order.places,
            order.blocks[start:stop],
            kept,
            order.terms,
            cursor,
            (order.rows[0][first : first + n],),
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
