r"""Stein's identities: what gradients at draws of a posterior must average to.

For draws of a density :math:`\pi` with tails that vanish, in whitened coordinates :math:`\varphi = L^{-1}(\theta - m)`,

.. math:: E[g] = 0, \qquad E[\varphi g'] = -I, \qquad g = L' \nabla \log \pi(\theta).

Both follow from integration by parts, and need no other sampler to compare with. Near a normal posterior the first is
minus the error of the mean, in posterior standard deviations, and the second minus the ratio of the covariance to the
true one. They see what is wrong where the draws are; a mode that no chain found they do not see.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

BATCHES = 20  # of each chain: means of a twentieth of a chain are nearly independent, and nearly normal


class Deviations(NamedTuple):
    """Averages less what they should be, in standard errors: Student's t with `degrees` degrees of freedom.

    `gradient` has shape (dim,), `identity` (dim, dim); rows of the second are coordinates, columns gradients.
    """

    gradient: np.ndarray
    identity: np.ndarray
    degrees: int


def stein_deviations(draws: np.ndarray, gradients: np.ndarray) -> Deviations:
    """Return how far draws are from Stein's identities, in standard errors by batch means.

    Parameters
    ----------
    draws
        Draws of theta; shape (chains, draws, dim), at least 20 draws a chain. Batches should be longer than the chain
        remembers: else the standard errors are too small.
    gradients
        grad log pi at the draws; same shape.

    References
    ----------
    Stein (1972) and Gorham and Mackey (2015) for the identities; Flegal, Haran and Jones (2008) for batch means.

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(4, 2000, 2))
    >>> bool(np.abs(stein_deviations(draws, -draws).gradient).max() < 5)
    True
    """
    dim = draws.shape[2]
    flat = draws.reshape(-1, dim)
    L = np.linalg.cholesky(np.atleast_2d(np.cov(flat.T)))
    phi = solve_triangular(L, (flat - flat.mean(axis=0)).T, lower=True).T
    length = draws.shape[1] // BATCHES

    def in_batches(values: np.ndarray) -> np.ndarray:
        return values.reshape(draws.shape)[:, : BATCHES * length].reshape(-1, length, dim)

    phi, g = in_batches(phi), in_batches(gradients.reshape(-1, dim) @ L)
    return Deviations(
        _in_standard_errors(g.mean(axis=1)),
        _in_standard_errors(phi.transpose(0, 2, 1) @ g / length + np.eye(dim)),
        len(g) - 1,
    )


def _in_standard_errors(batch_means: np.ndarray) -> np.ndarray:
    return batch_means.mean(axis=0) / (batch_means.std(axis=0, ddof=1) / np.sqrt(len(batch_means)))
