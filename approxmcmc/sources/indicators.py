"""Columns of 0 and 1 in place of columns of categories: computed when a block is read, never in memory as a whole."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.sources.base import DataSource


class Levels(NamedTuple):
    """A column of categories as codes, and the codes whose levels get a column of 0 and 1."""

    column: DataSource
    codes: np.ndarray


class IndicatorColumns(DataSource):
    """A table of the columns of tables of numbers, and of 0 and 1 for levels of columns of categories.

    Parameters
    ----------
    parts
        Tables of numbers and :class:`Levels`, all with the same rows.
    columns
        Names of the columns, those of the first part first.
    """

    def __init__(self, parts: Sequence[DataSource | Levels], columns: Sequence[str]) -> None:
        self._parts = tuple(parts)
        self._names = self.columns = tuple(columns)
        self.offsets = next(part.column if isinstance(part, Levels) else part for part in parts).offsets

    def _read(self, block: int) -> np.ndarray:
        lo, hi = (int(row) for row in self.offsets[block : block + 2])
        whole = np.concatenate([self._rows_of(part, lo, hi) for part in self._parts], axis=1)
        return whole[:, [self._names.index(name) for name in self.columns]]

    def _rows_of(self, part: DataSource | Levels, lo: int, hi: int) -> np.ndarray:
        """Return the columns of one part in some rows."""
        if not isinstance(part, Levels):
            return part.rows(lo, hi)
        codes = part.column.rows(lo, hi)  # from 0: sources refuse missing values
        return (codes[:, None] == part.codes).astype(np.float64)

    def _types(self) -> Sequence[np.dtype]:
        return [np.dtype(np.float64)]

    def fingerprint(self) -> str:
        """Return a text that changes when the data of a part change."""
        texts = []
        for part in self._parts:
            source = part.column if isinstance(part, Levels) else part
            codes = part.codes.tolist() if isinstance(part, Levels) else []
            texts.append(content_hash(source.fingerprint(), list(source.columns), str(source.ones), codes))
        return content_hash("IndicatorColumns", *texts)
