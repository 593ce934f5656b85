"""Sort rows by group, once: the rows of group g are then start[g] ... start[g + 1] - 1."""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.errors import InvalidInputError


class Grouping(NamedTuple):
    """Labels of the G groups in increasing order, row indices sorted by group, and where each group starts (G + 1)."""

    labels: np.ndarray
    order: np.ndarray
    start: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each group; shape (G,)."""
        return np.diff(self.start)


def grouping(groups: Any, n_rows: int, *, who: str) -> Grouping:
    """Return the grouping of `n_rows` rows by their labels in `groups`, of any type that can be sorted.

    Raises
    ------
    InvalidInputError
        If there is not one label for each row, or a label is NaN or infinite.
    """
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise InvalidInputError(
            f"{who}: groups must hold the label of each row's group, shape ({n_rows},), found {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInputError(f"{who}: groups hold NaN or infinity; give every row a label")
    known, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grouping(known, np.argsort(codes, kind="stable"), start)
