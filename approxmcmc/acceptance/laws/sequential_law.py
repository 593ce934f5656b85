"""The acceptance probability of a sequential t-test, by enumeration of its looks, and in the Gaussian regime.

Given the order of the data, a look with mean m and limit w stops for thresholds mu_0 outside m -+ w. So the thresholds
that are still undecided form an interval, the thresholds that accept form intervals too, and the probability over u has
a closed form.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.looks import critical_values
from approxmcmc.acceptance.laws.probability import Order, exact_probability, mean_over_orders
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error


def enumerated_probability(
    differences: np.ndarray,
    log_rest: np.ndarray,
    looks: np.ndarray,
    *,
    epsilon: float,
    tol: float,
    boundary_shape: float,
    rule: str,
) -> np.ndarray:
    """Return the probability to accept, for terms of shape (pairs, N) and c of shape (pairs,)."""
    n_obs = differences.shape[1]
    critical = np.append(critical_values(looks, epsilon, shape=boundary_shape), 0.0)

    def below(mu_0: np.ndarray) -> np.ndarray:
        return exact_probability(n_obs * mu_0 + log_rest, rule)

    def given(order: Order) -> np.ndarray:
        accepted = np.zeros(len(differences))
        low, high = np.full(len(differences), -np.inf), np.full(len(differences), np.inf)  # mu_0 not yet decided
        seen: tuple[int, ...] = ()
        for new, limit in zip(order, critical, strict=True):
            seen += new
            n, part = len(seen), differences[:, list(seen)]
            mean = part.mean(axis=1)
            error = part.std(axis=1, ddof=1) / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)
            # limit * 0 = 0 also if the limit is infinite: all terms seen are equal, and only the last look decides.
            half = np.zeros(len(mean)) if n == n_obs else np.where(math.isinf(limit), np.inf, limit * error)
            by_tolerance = math.isfinite(limit) and n < n_obs and tol > 0.0
            half = np.where(by_tolerance & (n_obs * error <= tol), 0.0, half)
            accepts = np.minimum(high, mean - half)
            accepted += np.where(accepts > low, below(accepts) - below(low), 0.0)
            low, high = np.maximum(low, mean - half), np.minimum(high, mean + half)
            high = np.maximum(high, low)
        return accepted

    return mean_over_orders(looks, given)


def gaussian_probability(log_ratio: np.ndarray, tau: np.ndarray, *, rule: str, **test: Any) -> np.ndarray:
    """Return the probability to accept at (Lambda, tau); `test` as for `acceptance_probability_error`."""
    pairs = np.stack([log_ratio.ravel(), tau.ravel()]).round(14)
    distinct, place = np.unique(pairs, axis=1, return_inverse=True)
    error = acceptance_probability_error(distinct[0], distinct[1], rule=rule, **test)["error"].values
    return np.asarray(exact_probability(log_ratio, rule) + error[place.ravel()].reshape(log_ratio.shape))
