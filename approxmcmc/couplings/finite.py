"""Coupled chains of a transition matrix: the maximal coupling of two rows."""

import numpy as np

from approxmcmc.couplings.meeting import NOT_MET


def maximal_coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the joint law of (X, Y), X ~ p, Y ~ q, with the largest chance to be equal; independent where they differ.

    Examples
    --------
    >>> joint = maximal_coupling(np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    >>> joint.round(12).tolist()
    [[0.2, 0.7], [0.0, 0.1]]
    """
    both = np.minimum(p, q)
    left, joint = 1.0 - both.sum(), np.diag(both)
    return joint + np.outer(p - both, q - both) / left if left > 1e-15 else joint


class CoupledStates:
    """The coupling of a transition matrix: ``meeting_time(rng, x, y, lag, max_steps) -> tau``."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.n, self.rows = len(matrix), matrix.cumsum(axis=1)
        self.joint = {
            (i, j): maximal_coupling(matrix[i], matrix[j]).ravel().cumsum()
            for i in range(self.n)
            for j in range(self.n)
            if i != j
        }

    def meeting_time(self, rng: np.random.Generator, x: np.ndarray, y: np.ndarray, lag: int, max_steps: int) -> int:
        """Return when two chains meet, in steps of X."""
        i, j = int(x[0]), int(y[0])
        for _ in range(lag):
            i = _draw(rng, self.rows[i])
        for t in range(lag, max_steps + 1):
            if i == j:
                return t
            i, j = divmod(_draw(rng, self.joint[i, j]), self.n)
        return NOT_MET


def _draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
    return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"), len(cumulative) - 1))
