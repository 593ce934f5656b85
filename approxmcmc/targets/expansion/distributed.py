"""The expansion of a generalised linear model whose passes are made by the workers of a Dask cluster.

A part of the rows is a target of its own. Value, gradient and Hessian of all rows are the sums of those of the parts,
added up in the order of the rows; what an expansion writes for each row comes back with them. Rows that are picked out,
some for a first mode or those of a core, are read here, from the local file.
"""

import functools
import operator
import weakref
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.partitions import Partitions, spans
from approxmcmc.sources import DataSource
from approxmcmc.targets.expansion.linear import LinearExpansion
from approxmcmc.targets.expansion.quadratic import Quadratic
from approxmcmc.targets.linear import LinearTarget


class Recipe(NamedTuple):
    """A target without its rows, and where these are read."""

    target: LinearTarget
    X: DataSource
    y: DataSource


class Part(NamedTuple):
    """The target that some rows make, and the number of the first."""

    target: LinearTarget
    first_row: int

    def expansion(self, order: int) -> LinearExpansion:
        """Return the expansion of these rows."""
        expansion = LinearExpansion(self.target, order)
        expansion.first_row = self.first_row
        return expansion


def make_part(recipe: Recipe, lo: int, hi: int) -> Part:
    """Read some rows; read-only, like those that are mapped from a file, they have the same kernels on the disk."""
    rows = recipe.X.rows(lo, hi), recipe.y.rows(lo, hi)
    for array in rows:
        array.flags.writeable = False
    return Part(recipe.target.with_rows(*rows), lo)


_known: "weakref.WeakKeyDictionary[LinearTarget, Partitions]" = weakref.WeakKeyDictionary()


def parts_of(target: LinearTarget, client: Any) -> Partitions:
    """Return the parts of a target's rows: read once, they stay with the workers as long as the target lives."""
    known = _known.get(target)
    if known is None or known.client is not client:
        assert target.sources is not None
        X, y = target.sources
        bare = target.with_rows(np.empty((0, X.shape[1]), X.dtype), np.empty(0))
        known = _known[target] = Partitions(client, make_part, Recipe(bare, X, y), spans(X.offsets))
    return known


class DistributedExpansion(LinearExpansion):
    """A `LinearExpansion` whose passes over all rows are made in parts."""

    def __init__(self, target: LinearTarget, order: int, client: Any) -> None:
        super().__init__(target, order)
        self._parts = parts_of(target, client)
        self._where = self._parts.where

    def of_rows(self, rows: np.ndarray) -> LinearExpansion:
        """Return the expansion of the terms of some rows, which are read here and stand for all."""
        return LinearExpansion(self.target, self.order).of_rows(rows)

    def _pass(self, theta: np.ndarray, out: np.ndarray) -> tuple[Quadratic, np.ndarray]:
        self.passes += 1
        found: dict[int, tuple[Quadratic, np.ndarray]] = {}
        for k, (sums, norms, numbers) in self._parts.map(_pass_of, self.order, theta, len(out) > 0):
            found[k] = sums, norms
            if len(out):
                out[slice(*self._where[k])] = numbers
        sums, norms = zip(*(found[k] for k in range(len(found))), strict=True)
        *totals, _ = functools.reduce(operator.add, norms)
        return functools.reduce(operator.add, sums), np.array([*totals, max(each[2] for each in norms)])

    def _look(
        self,
        law: tuple[np.ndarray, np.ndarray, np.ndarray],
        averaged: bool,
        numbers: np.ndarray,
        spreads: np.ndarray,
        walls: np.ndarray,
    ) -> np.ndarray:
        self.passes += 1
        found: dict[int, np.ndarray] = {}
        for k, (sums, *by_row) in self._parts.map(_look_at, self.order, law, averaged, len(spreads) > 0):
            found[k], here = sums, slice(*self._where[k])
            for array, rows in zip((numbers, spreads, walls), by_row, strict=True):
                if len(array):
                    array[here] = rows
        return functools.reduce(operator.add, (found[k] for k in range(len(found))))

    def terms_at(self, draws: np.ndarray) -> np.ndarray:
        """Return all terms at draws, shape (rows, draws): one pass."""
        self.passes += 1
        terms = np.empty((len(self.y), len(draws)))
        for k, rows in self._parts.map(_terms_of, self.order, draws):
            terms[slice(*self._where[k])] = rows
        return terms


def _pass_of(part: Part, order: int, theta: np.ndarray, by_row: bool) -> tuple[Quadratic, np.ndarray, np.ndarray]:
    expansion = part.expansion(order)
    numbers = np.empty((part.target.n_obs if by_row else 0, expansion.columns))
    return *expansion._pass(theta, numbers), numbers


def _look_at(part: Part, order: int, law: Any, averaged: bool, spread: bool) -> tuple[np.ndarray, ...]:
    expansion, n = part.expansion(order), part.target.n_obs
    by_row = np.empty((n, expansion.columns)), np.empty(n if spread else 0), np.empty(n, dtype=bool)
    return expansion._look(law, averaged, *by_row), *by_row


def _terms_of(part: Part, order: int, draws: np.ndarray) -> np.ndarray:
    return part.expansion(order).terms_at(draws)
