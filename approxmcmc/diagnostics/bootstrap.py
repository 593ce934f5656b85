r"""Squared bias, variance and risk of running means over replicates, with joint percentile intervals.

Replicate r knows :math:`\bar f_r`, the reference :math:`f^*` has standard error e. With :math:`\hat V` the sample
variance over R replicates,

.. math:: \widehat{bias^2} = (\bar f_\cdot - f^*)^2 - \hat V/R - e^2, \qquad
          \widehat{risk} = \frac1R \sum_r (\bar f_r - f^*)^2 - e^2 = \widehat{bias^2} + \hat V .

Both are unbiased, so either may come out negative. Averages over the K coordinates of an estimand need the errors
:math:`E_{rk} = \bar f_{rk} - f^*_k` only through the R x R matrix :math:`G = E E^T / K`; a bootstrap draw with weights
w is the quadratic form :math:`w^T G w`, whatever K is.

A bootstrap draw resamples replicates and adds a fresh reference error to the one that is there already. It therefore
holds the noise of the estimate twice: :math:`2 \hat V/R + 2 e^2` is taken off, so that the draws scatter around the
estimate.
"""

from typing import NamedTuple

import numpy as np

from approxmcmc.errors import InvalidInputError

QUANTITIES = ("bias_sq", "variance", "risk")


class Resampling(NamedTuple):
    """The random part of the bootstrap, shared by all estimands and grid points, which makes the intervals joint.

    `weights` (draw, replicate): shares of the replicates, each row sums to 1. `normals` (draw, batch): where the
    reference moves along its `directions`.
    """

    weights: np.ndarray
    normals: np.ndarray


def resample(n_bootstrap: int, n_replicates: int, n_batches: int, random_seed: int) -> Resampling:
    """Draw the bootstrap's weights and reference errors."""
    if n_bootstrap < 1:
        raise InvalidInputError(f"`n_bootstrap` needs at least 1 repetition, found {n_bootstrap}.")
    replicates, reference = (np.random.default_rng(s) for s in np.random.SeedSequence(random_seed).spawn(2))
    counts = replicates.multinomial(n_replicates, np.full(n_replicates, 1 / n_replicates), size=n_bootstrap)
    return Resampling(counts / n_replicates, reference.standard_normal((n_bootstrap, n_batches)))


def estimate(errors: np.ndarray, mcse: np.ndarray) -> dict[str, np.ndarray]:
    """Return the unbiased estimates, averaged over coordinates.

    Parameters
    ----------
    errors
        Running means minus reference means, shape (replicate R, grid point, coordinate).
    mcse
        Standard errors of the reference means, shape (coordinate,).

    Returns
    -------
    dict
        ``bias_sq``, ``variance``, ``risk``, each of shape (grid point,). With R = 1 only the risk is defined.
    """
    n_replicates = len(errors)
    reference_variance = np.mean(mcse**2)
    mean_square_error = (errors**2).mean(axis=(0, 2))
    center = errors.mean(axis=0)
    if n_replicates == 1:
        undefined = np.full(len(center), np.nan)
        return {"bias_sq": undefined, "variance": undefined, "risk": mean_square_error - reference_variance}
    variance = ((errors - center) ** 2).sum(axis=0).mean(axis=1) / (n_replicates - 1)
    bias_sq = (center**2).mean(axis=1) - variance / n_replicates - reference_variance
    return {"bias_sq": bias_sq, "variance": variance, "risk": mean_square_error - reference_variance}


def intervals(
    errors: np.ndarray, mcse: np.ndarray, directions: np.ndarray, resampling: Resampling, confidence: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return percentile limits of the three quantities, each of shape (grid point,); NaN with one replicate.

    Parameters
    ----------
    errors, mcse
        As for :func:`estimate`.
    directions
        Directions of the reference's error, shape (batch, coordinate), columns of length 1 (or 0 where mcse is 0).
    resampling
        From :func:`resample`.
    confidence
        Of each interval.
    """
    n_replicates, n_points, n_coordinates = errors.shape
    if n_replicates == 1:
        undefined = np.full(n_points, np.nan)
        return dict.fromkeys(QUANTITIES, (undefined, undefined))
    weights, normals = resampling
    shifts = directions * mcse
    reference_variance = np.mean(mcse**2)
    shift_sq = ((normals @ (shifts @ shifts.T / n_coordinates)) * normals).sum(axis=1)
    draws = np.empty((len(QUANTITIES), len(weights), n_points))
    for point in range(n_points):
        error = errors[:, point]
        gram = error @ error.T / n_coordinates
        crossed = ((weights @ (error @ shifts.T / n_coordinates)) * normals).sum(axis=1)
        center_sq = ((weights @ gram) * weights).sum(axis=1)
        mean_square = weights @ np.diag(gram)
        variance = (mean_square - center_sq) * n_replicates / (n_replicates - 1)
        moved = shift_sq - 2 * crossed - 2 * reference_variance
        draws[:, :, point] = center_sq + moved - 2 * variance / n_replicates, variance, mean_square + moved
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=1)
    return {name: (lower[i], upper[i]) for i, name in enumerate(QUANTITIES)}
