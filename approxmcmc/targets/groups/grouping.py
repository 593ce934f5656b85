"""Sort rows by group, once: the rows of group g are then start[g] ... start[g + 1] - 1.

Arrays that are mapped from files are read in pieces, and what is sorted goes to scratch files. So memory holds a few
numbers for each group, and none for each row.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.files.mapped_files import is_mapped, nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.terms.partitions import spans
from approxmcmc.engine.terms.shuffled import in_order
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import as_source

ROWS = 1 << 20  # rows of a mapped array that are read at a time


class Grouping(NamedTuple):
    """Labels of the G groups in increasing order, row indices sorted by group, and where each group starts (G + 1)."""

    labels: np.ndarray
    order: np.ndarray
    start: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group; shape (G,)."""
        return np.diff(self.start)

    @property
    def cuts(self) -> np.ndarray:
        """Groups g such that rows before row start[g], in the order given, are all those of groups before g; 0 ... G.

        There the rows can be cut into parts that keep groups whole. If the rows are sorted by group, these are all g.
        """
        last = np.maximum.accumulate(np.maximum.reduceat(self.order, self.start[:-1]))
        return np.append(0, 1 + np.flatnonzero(last == self.start[1:] - 1))

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield pairs (g, h): the sorted rows of groups g ... h - 1 are about a million, and are read together."""
        for lo, hi in spans(self.start, ROWS):
            yield tuple(np.searchsorted(self.start, [lo, hi]))


def grouping(groups: Any, n_rows: int) -> Grouping:
    """Return the grouping of `n_rows` rows by their labels in `groups`, of any type that can be sorted.

    `groups` may be a source; the codes of a column of text or categories are replaced by its labels.

    Raises
    ------
    InvalidInputError
        If there is not one label for each row; or a label is missing, infinite, or of a type that cannot be sorted
        among the others.
    """
    source = as_source(groups)
    labels = np.asarray(groups if source is None else source)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"{speaker()}: groups must hold the label of each row's group, shape ({n_rows},), found {labels.shape}"
        )
    _check_labels(groups, labels)
    of_labels = _in_pieces(labels) if is_mapped(labels) else _at_once(labels)
    if source is not None and source.categories:
        [names] = source.categories.values()
        return of_labels._replace(labels=np.array(names)[of_labels.labels])
    return of_labels


def _check_labels(given: Any, labels: np.ndarray) -> None:
    """Raise if a label is missing or infinite, or if labels have several types; `labels` is `given` as an array.

    NumPy makes texts of a list that holds one: NaN and None would become labels, and 1 and "1" the same group.
    """
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInputError(f"{speaker()}: groups hold NaN or infinity; give every row a label")
    if labels.dtype.kind in "US" and isinstance(given, (list, tuple)):
        labels = np.array(given, dtype=object)
    if labels.dtype.kind not in "OMm":
        return
    import pandas as pd

    missing = pd.isna(labels)
    if missing.any():
        row = int(np.argmax(missing))
        raise InvalidInputError(
            f"{speaker()}: groups hold the missing label {labels[row]!r} in row {row}; give every row a label, or "
            "leave the row out"
        )
    try:
        np.sort(labels)
    except TypeError as error:
        names = sorted({type(label).__name__ for label in labels})
        raise InvalidInputError(
            f"{speaker()}: groups hold labels of the types {', '.join(names)}, which cannot be sorted ({error}); give "
            "labels of one type, such as texts or the codes 0, 1, 2, ..."
        ) from error


def _at_once(labels: np.ndarray) -> Grouping:
    distinct, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return Grouping(distinct, np.argsort(codes, kind="stable"), _starts(sizes))


def _in_pieces(labels: np.ndarray) -> Grouping:
    """Return the grouping of labels in a file: count them, then give each row the next place of its group."""
    pieces = [slice(lo, lo + ROWS) for lo in range(0, len(labels), ROWS)]
    distinct, sizes = functools.reduce(_merged, (np.unique(labels[piece], return_counts=True) for piece in pieces))
    start = _starts(sizes)
    order = nameless_array(labels.shape, np.int64, user_cache("laid_out_rows"), purpose="groups")
    places = start[:-1].copy()
    for piece in pieces:
        of_piece = _at_once(labels[piece])
        groups = np.searchsorted(distinct, of_piece.labels)
        order[np.repeat(places[groups] - of_piece.start[:-1], of_piece.sizes) + np.arange(len(of_piece.order))] = (
            piece.start + of_piece.order
        )
        places[groups] += of_piece.sizes
    return Grouping(distinct, order, start)


def _merged(first: tuple[np.ndarray, np.ndarray], more: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in either of two counts, sorted, and how often they occur in both together."""
    labels, places = np.unique(np.concatenate([first[0], more[0]]), return_inverse=True)
    return labels, np.bincount(places, np.concatenate([first[1], more[1]])).astype(np.int64)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def by_group(columns: Sequence[np.ndarray], groups: Grouping) -> np.ndarray:
    """Return float64 `columns`, arrays (n,) or (n, m), side by side, with their rows sorted by group.

    The result is a mapped scratch file if one of the arrays is mapped from a file.
    """
    n = len(groups.order)
    widths = [1 if array.ndim == 1 else array.shape[1] for array in columns]
    shape = (n, sum(widths))
    folder = user_cache("laid_out_rows")
    on_disk = any(is_mapped(array) for array in columns)
    sorted_rows = nameless_array(shape, np.float64, folder, purpose="rows by group") if on_disk else np.empty(shape)
    for array, stop in zip(columns, np.cumsum(widths).tolist(), strict=True):
        lo = 0
        width = 1 if array.ndim == 1 else array.shape[1]
        for piece in in_order(array, groups.order, folder):
            sorted_rows[lo : lo + len(piece), stop - width : stop] = piece.reshape(len(piece), width)
            lo += len(piece)
    return sorted_rows
