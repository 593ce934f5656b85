"""With what probability does the minibatch Barker test accept? By enumeration of its looks, and in the Gaussian regime.

Given the data read, the probability is a smoothed sum over the atoms of the correction distribution, or Barker's own
at n = N. In the Gaussian regime Delta* + X_nc has the law N(Lambda, sigma^2) at whatever n the test stops.
"""

import numpy as np
from scipy.special import ndtr

from approxmcmc.acceptance.laws.correction import CorrectionDistribution
from approxmcmc.acceptance.laws.enumeration import Order, mean_over_orders
from approxmcmc.acceptance.laws.threshold import exact_probability

LEAST_SPREAD = 1e-6  # below it the distribution of the normal part is a step for every purpose


def enumerated_probability(
    differences: np.ndarray,
    log_rest: np.ndarray,
    looks: np.ndarray,
    *,
    target_variance: float,
    correction: CorrectionDistribution,
    rule: str,
) -> np.ndarray:
    """Return the probability to accept, for terms of shape (pairs, N) and c of shape (pairs,)."""
    n_obs = differences.shape[1]

    def given(order: Order) -> np.ndarray:
        accepted = np.full(len(differences), np.nan)
        seen: tuple[int, ...] = ()
        for new in order:
            seen += new
            n, part = len(seen), differences[:, list(seen)]
            estimate = log_rest + n_obs * part.mean(axis=1)
            variance = n_obs**2 * part.var(axis=1, ddof=1) / n * (1.0 - n / n_obs)
            spread = np.maximum(np.sqrt(np.maximum(target_variance - variance, 0.0)), LEAST_SPREAD)
            smooth = ndtr((estimate[:, None] + correction.atoms) / spread[:, None]) @ correction.weights
            answer = exact_probability(estimate, rule) if n == n_obs else smooth
            stops = np.isnan(accepted) & ((variance < target_variance) | (n == n_obs))
            accepted = np.where(stops, answer, accepted)
        return accepted

    return mean_over_orders(looks, given)


def gaussian_probability(
    log_ratio: np.ndarray,
    tau: np.ndarray,
    looks: np.ndarray,
    *,
    target_variance: float,
    correction: CorrectionDistribution,
    rule: str,
) -> np.ndarray:
    """Return the probability to accept at (Lambda, tau)."""
    smooth = np.zeros(log_ratio.shape)
    for atom, weight in zip(correction.atoms, correction.weights, strict=True):
        smooth += weight * ndtr((log_ratio + atom) / correction.sigma)
    n_obs, last = int(looks[-1]), int(looks[-2])  # the last look that leaves something unread
    stops_early = tau**2 * (1.0 / last - 1.0 / n_obs) * n_obs < target_variance
    return np.where(stops_early, smooth, exact_probability(log_ratio, rule))
