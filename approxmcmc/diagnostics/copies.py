"""Chains that are copies of each other, and count as one.

A sampler that ignores its seed, a trace that is passed twice, or a chain that is stored twice gives equal draws. All
that takes chains as independent is then wrong: R-hat, effective sample sizes, the error of a gold standard, and the
variance over replicates.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding

NAME = "copies"
LEAST_MOVES = 20  # of two chains with few states, such as coins, fewer equal moves may be chance
NAMED = 3  # most copies that a sentence names
ADVICE = "give each chain its own seed, and pass each trace once"


class Place(NamedTuple):
    """A chain: the number of its trace, and its label."""

    trace: int
    chain: Any


def copied_chains(posteriors: Sequence[xr.Dataset]) -> list[tuple[Place, Place]]:
    """Return each chain whose draws equal those of an earlier chain, with that earlier chain.

    Chains are compared up to the end of the shortest, before its padding, in their continuous variables, if they move
    at least `LEAST_MOVES` times. Chains with equal draws have an equal last draw, so few chains are compared as a
    whole.
    """
    traces = [_arrays(posterior) for posterior in posteriors]
    shortest = min((_last_draw(arrays.values()) for arrays in traces if arrays), default=0)
    if shortest <= LEAST_MOVES:
        return []
    earlier: dict[Any, tuple[Place, list[np.ndarray]]] = {}
    copies = []
    for k, (posterior, arrays) in enumerate(zip(posteriors, traces, strict=True)):
        for position, label in enumerate(posterior["chain"].to_numpy().tolist()):
            draws = [array[position, :shortest] for array in arrays.values()]
            last = b"".join(values[-1].tobytes() for values in draws)
            original, original_draws = earlier.setdefault((tuple(arrays), last), (Place(k, label), draws))
            if original_draws is not draws and _are_equal(draws, original_draws) and _moves(draws) >= LEAST_MOVES:
                copies.append((Place(k, label), original))
    return copies


def _arrays(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the continuous variables by name, in alphabetical order, each of shape (chain, draw, ...)."""
    names = sorted(str(name) for name, variable in posterior.data_vars.items() if variable.dtype.kind == "f")
    return {name: posterior[name].transpose("chain", "draw", ...).to_numpy() for name in names}


def _last_draw(arrays: Collection[np.ndarray]) -> int:
    """Return how many draws the shortest chain has before its padding, where all variables are NaN."""
    chains, draws = next(iter(arrays)).shape[:2]
    drawn = np.zeros((chains, draws), dtype=bool)
    for values in arrays:
        drawn |= ~np.isnan(values).reshape(chains, draws, -1).all(axis=2)
    return min(int(np.flatnonzero(row).max(initial=-1)) + 1 for row in drawn)


def copies_sentence(posteriors: Sequence[xr.Dataset]) -> str:
    """Return a sentence that names the copies among the chains of several traces; "" without copies.

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(1, 100)).repeat(2, axis=0)
    >>> copies_sentence([xr.DataArray(draws, dims=("chain", "draw"), name="mu").to_dataset()])
    'chain 1 has the same draws as chain 0'
    """
    copies = copied_chains(posteriors)

    def named(place: Place) -> str:
        return f"chain {place.chain} of trace {place.trace}" if len(posteriors) > 1 else f"chain {place.chain}"

    sentences = [f"{named(copy)} has the same draws as {named(original)}" for copy, original in copies[:NAMED]]
    more = f"; {len(copies) - NAMED} more copies" if len(copies) > NAMED else ""
    return "; ".join(sentences) + more


def copies(posterior: xr.Dataset) -> list[Finding]:
    """Return the finding on copies among the chains of a trace; [] without copies."""
    sentence = copies_sentence([posterior])
    if not sentence:
        return []
    number = len(copied_chains([posterior]))
    effect = "R-hat, ESS and standard errors count them as independent"
    return [Finding(NAME, "failure", f"{sentence}: {effect}", ADVICE, float(number), 0.0)]


def _are_equal(draws: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(draws, others, strict=True))


def _moves(draws: Sequence[np.ndarray]) -> int:
    """Return how many draws of a chain differ from the draw before."""
    moved = [(values[1:] != values[:-1]).reshape(len(values) - 1, -1).any(axis=1) for values in draws]
    return int(np.any(moved, axis=0).sum()) if moved else 0
