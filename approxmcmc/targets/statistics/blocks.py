r"""Least-squares fits of blocks of rows, added up without their rows.

.. math:: \sum_b \left( s_b + |R_b (\beta - \hat\beta_b)|^2 \right) = s + |R (\beta - \hat\beta)|^2,

where R comes from a QR decomposition of the R_b, one above the other. So a block of rows costs one QR decomposition
when it comes, and nothing when it goes: the fits of the other blocks are added up again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.targets.statistics.least_squares import LeastSquares
from approxmcmc.targets.statistics.model import NormalOutcome

COLLINEAR = 1e-13  # relative size of a singular value that is rounding


class OutcomeOfBlock(NamedTuple):
    """What the rows of a block say about an outcome.

    `entries` are the entries of theta that the mean reads, `fit` the least-squares fit of these, `constant` is the sum
    of -log s_i - log(2 pi) / 2 over the `n_rows` rows; `scale_weights` (dim,) gives the log scale.
    """

    entries: np.ndarray
    fit: LeastSquares
    constant: float
    n_rows: int
    scale_weights: np.ndarray


def outcome_of_block(outcome: NormalOutcome) -> OutcomeOfBlock:
    """Return the fit of an outcome; one pass over its rows, or a few."""
    fit, constant = outcome.fit()
    return OutcomeOfBlock(outcome.entries, fit, constant, outcome.design.n_rows, outcome.scale_weights)


def added(parts: Sequence[OutcomeOfBlock]) -> OutcomeOfBlock:
    """Return what the rows of all blocks say about one outcome."""
    if len(parts) == 1:
        return parts[0]
    entries = np.unique(np.concatenate([part.entries for part in parts]))
    p = entries.size
    above = []
    for part in parts:
        rows = np.zeros((len(part.fit.root), p + 1))
        rows[:, np.searchsorted(entries, part.entries)] = part.fit.root
        rows[:, p] = part.fit.root @ part.fit.center
        above.append(rows)
    triangle = np.linalg.qr(np.concatenate(above), mode="r")
    root = triangle[:p, :p]
    right_hand_side = triangle[:p, p]
    center = _solution(root, right_hand_side)
    missed = np.concatenate([right_hand_side - root @ center, triangle[p:, p]])  # rounding, and what no beta explains
    squares = sum(part.fit.squares for part in parts) + float(missed @ missed)
    passes = max(part.fit.passes for part in parts)
    fit = LeastSquares(center, root, squares, passes)
    return parts[0]._replace(
        entries=entries,
        fit=fit,
        constant=sum(part.constant for part in parts),
        n_rows=sum(part.n_rows for part in parts),
    )


def _solution(root: np.ndarray, right_hand_side: np.ndarray) -> np.ndarray:
    """Return the beta with R beta = `right_hand_side`, in units in which the columns of R have length 1."""
    lengths = np.linalg.norm(root, axis=0)
    lengths[lengths == 0.0] = 1.0
    return np.linalg.lstsq(root / lengths, right_hand_side, rcond=COLLINEAR)[0] / lengths
