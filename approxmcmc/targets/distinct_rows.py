r"""Replace identical rows of a regression by one weighted term.

.. math:: \sum_{i=1}^N \log p(y_i \mid \eta_{i1} \dots \eta_{iK})
          = \sum_{d=1}^D w_d \log p(y_d \mid \eta_{d1} \dots \eta_{dK}),

where d is the index of a distinct row of columns, codes and responses, and w_d is how many rows equal it, or the sum of
their known weights.
"""

import copy
import time
from typing import Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts import TermWork
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.files.grown_arrays import followed_by
from approxmcmc.targets.blocks import Blocks
from approxmcmc.targets.equal_rows import EqualRows, KnownRows, equal_rows, merged_rows
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows


class WeightsOfBlock(NamedTuple):
    """The distinct rows that a block has, by their indices, and how often, or with which weight, it has each."""

    places: np.ndarray
    weights: np.ndarray


class DistinctRows(StandsForRows, Regression):
    r"""A regression by its distinct rows: term d is w_d log p(y_d | eta_d1 ... eta_dK), see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    found
        Its distinct rows.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Tests draw terms uniformly, whatever their weights, so a row with a
    large weight is an outlier among the terms; `ControlVariate` with `always_read` reads such rows in every step.
    Bounds of derivatives are those of a single row times its weight, or the largest weight if they hold for all rows.
    `ZigZag` and `BouncyParticle` need the target of single rows.
    """

    weights: np.ndarray
    """How many rows equal each distinct row, or the sum of their known weights; shape (D,)."""
    _rows: Regression

    def __init__(self, rows: Regression, classes: EqualRows) -> None:
        super().__init__(rows)
        self._take(rows, classes)
        self._of_blocks: tuple[WeightsOfBlock, ...] = (WeightsOfBlock(np.arange(self.n_obs), classes.weights),)

    def _take(self, rows: Regression, classes: EqualRows) -> None:
        """Store the distinct rows, with their numbers or the sums of their weights as weights."""
        began = time.perf_counter()
        design = rows.design
        arrays = (design.X, design.codes, *rows.unweighted_responses)
        X, codes, *responses = (_taken(array, classes.first) for array in arrays)
        self.likelihood = rows.likelihood.single
        distinct = Design(design.dim, X, codes, design.weight_columns, design.predictors)
        self._set_rows(distinct, tuple(responses), classes.weights)
        self.seconds = time.perf_counter() - began

    # --- blocks of rows that come and go ---

    @property
    def blocks(self) -> Blocks:
        """Blocks of rows, those of the target of single rows."""
        return self._rows.blocks

    def rows_to_append(self, *rows: Any, **columns: Any) -> Self:
        """Return the distinct rows of new rows alone; the arguments are those of the target of single rows."""
        single = self._rows.rows_to_append(*rows, **columns)
        return type(self)(single, merged_rows(arrays_of_rows(single), single.weights))

    def joined(self, more: Self, block: str | None = None) -> Self:
        """Return the distinct rows of the rows of this target and those of `more`: weights add up."""
        joined = copy.copy(self)
        joined._rows = self._rows.joined(more._rows, block)
        joined.n_rows = joined._rows.n_obs
        places = KnownRows(self._arrays()).places(more._arrays())
        is_new = places < 0
        places[is_new] = self.n_obs + np.arange(is_new.sum())
        design = self.design
        fresh = Design(
            design.dim, more.design.X[is_new], more.design.codes[is_new], design.weight_columns, design.predictors
        )
        weights = np.concatenate([self.weights, np.zeros(is_new.sum())])
        weights[places] += more.weights
        responses = tuple(
            followed_by(mine, theirs[is_new])
            for mine, theirs in zip(self.unweighted_responses, more.unweighted_responses, strict=True)
        )
        joined._of_blocks = (*self._of_blocks, WeightsOfBlock(places, more.weights))
        joined._set_rows(design.followed_by(fresh), responses, weights)
        return joined

    @names_itself("remove from {}")
    def remove(self, block: str) -> Self:
        """Return the distinct rows without those of a block: the weights of the other blocks are added again."""
        k = self.blocks.place(block)
        rest = copy.copy(self)
        rest._rows = self._rows.remove(block)
        rest.n_rows = rest._rows.n_obs
        others = (*self._of_blocks[:k], *self._of_blocks[k + 1 :])
        weights = np.zeros(self.n_obs)
        for of_block in others:
            weights[of_block.places] += of_block.weights
        kept = np.flatnonzero(weights > 0.0)
        new_place = np.full(self.n_obs, -1)
        new_place[kept] = np.arange(kept.size)
        rest._of_blocks = tuple(of_block._replace(places=new_place[of_block.places]) for of_block in others)
        design = self.design
        arrays = (design.X, design.codes, *self.unweighted_responses)
        X, codes, *responses = (_taken(array, kept) for array in arrays)
        of_kept = Design(design.dim, X, codes, design.weight_columns, design.predictors)
        rest._set_rows(of_kept, tuple(responses), weights[kept])
        return rest

    def _arrays(self) -> list[np.ndarray]:
        """Return the distinct rows as arrays of numbers, without weights."""
        return arrays_of(self.design, self.unweighted_responses)

    @property
    def term_work(self) -> TermWork:
        """The work of a term, taken to be that of a single row."""
        return self._rows.term_work

    @property
    def found(self) -> str:
        """Return a sentence: how many distinct rows represent all."""
        return (
            f"identical rows are merged: {self.n_obs:,} distinct rows with weights replace {self.n_rows:,}, so a step "
            f"with all data reads {self.n_obs:,}"
        )


def _taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a copy of some rows that has the same type in numba: contiguous, and read-only if `array` is."""
    chosen = np.ascontiguousarray(array[rows])
    chosen.flags.writeable = array.flags.writeable
    return chosen


def distinct_rows(target: Regression) -> DistinctRows | None:
    """Return the `DistinctRows` of a regression if `equal_rows` finds few distinct rows, else None.

    None also if a response has no entry for each row. Known weights of equal rows are added.
    """
    if any(array.shape[:1] != (target.n_obs,) for array in target.unweighted_responses):
        return None
    distinct = equal_rows(arrays_of_rows(target), target.weights)
    return DistinctRows(target, distinct) if distinct else None


def arrays_of_rows(target: Regression) -> list[np.ndarray]:
    """Return the arrays of real numbers that make up the rows of a regression without weights, shape (n, ...) each."""
    return arrays_of(target.design, target.unweighted_responses)


def arrays_of(design: Design, responses: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Return the columns, codes and responses of rows as arrays of real numbers, shape (n, ...) each."""
    arrays = [design.X, design.codes]
    for response in responses:
        arrays += [response.real, response.imag] if np.iscomplexobj(response) else [response]
    return [array for array in arrays if array.size]
