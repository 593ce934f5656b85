"""What a `ControlVariate` knows of blocks of rows, so that blocks can come and go without the rows of the others.

    S(theta) = log p(theta) + sum_b sum_{i light in block b} w_i(theta) + sum_{i always read} log p(x_i | theta).

The sums over the light rows of each block are kept apart. A new block costs one pass over its own rows; a block that
goes takes its sums with it, so nothing is subtracted and no digit is lost.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.expansion.quadratic import Quadratic, Survey


class SumsOfBlocks(NamedTuple):
    """Sums over the light rows of some blocks, at the centre of the expansion.

    Parameters
    ----------
    names
        The blocks: those that were there when the centre was placed are one entry, each later block is another.
    light
        Sum of the quadratics.
    curvature
        Value, gradient and Hessian of the log-likelihood, for an expansion of order 1; None for other orders.
    left
        Sum of the residuals at each draw of the pilot, up to a constant, shape (draws,); None if bounds show
        that it is small.
    deviations
        Sum of the residuals' standard deviations over these draws, or an upper bound; NaN without draws.
    """

    names: tuple[str, ...]
    light: Quadratic
    curvature: Quadratic | None
    left: np.ndarray | None
    deviations: float


class RowsOfBlock(NamedTuple):
    """The rows of one block, expanded: their sums, the coefficients (rows, columns), and which are always read."""

    sums: SumsOfBlocks
    numbers: np.ndarray
    is_read: np.ndarray


def total(parts: Sequence[Quadratic]) -> Quadratic:
    """Return the sum of some quadratics, from the first to the last."""
    whole, *others = parts
    for other in others:
        whole = whole + other
    return whole


def spread_of(parts: Sequence[SumsOfBlocks]) -> float:
    """Return the standard deviation of the sum of all residuals over the pilot's draws, or an upper bound."""
    left_out = [part.left for part in parts if part.left is not None]
    bounds = sum(part.deviations for part in parts if part.left is None)
    return bounds + (float(np.sum(left_out, axis=0).std(ddof=1)) if left_out else 0.0)


def left_of_light(survey: Survey, is_read: np.ndarray) -> np.ndarray | None:
    """Return the sum of the residuals of light rows at the pilot's draws; None if bounds show that it is small."""
    if survey.left is None or survey.residuals_of is None or not is_read.any():
        return survey.left
    return survey.left - survey.residuals_of(np.flatnonzero(is_read)).sum(axis=0)
