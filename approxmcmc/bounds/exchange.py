r"""The acceptance probability of the exchange sampler and its noisy relatives, on a grid of theta.

With auxiliary data y'_1 ... y'_N drawn at theta', the ratio is estimated by

    a^ = exp((theta' - theta)' s(y)) p(theta') / p(theta)  (1/N) sum_k exp((theta - theta')' s(y'_k)),

and depends on them through their statistics alone. Their law at theta is the number of data sets with each value of
the statistic, tilted by exp(theta' s) and normalised. N = 1 (exchange, exact) and N = infinity (Metropolis-Hastings,
exact) are sums in closed form. For other N the law of the mean is a convolution: what min(1, .) cuts off is cut off
first, V = min(1, a W / N) in [0, 1], and E min(1, V_1 + ... + V_N) is computed on a lattice of that interval, each
atom being split between two neighbours with its mean kept. The split can only lower the result, by at most N / (4
M) with M lattice points, and by far less where the kink at 1 is not hit (measured: see the tests).

References: Murray, Ghahramani and MacKay (2006); Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.errors import IncompatibleError
from approxmcmc.targets import Ising
from approxmcmc.targets.ising.exact import WIDEST_COUNTS, level_counts

LATTICE = 2048
PAIRS_AT_ONCE = 512


def statistic_counts(target: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return all values of the target's statistics, shape (k, dim), and the logarithm of how many data have each.

    Raises
    ------
    IncompatibleError
        When they cannot be counted.
    """
    if isinstance(target, Ising) and min(target.lattice.shape) <= WIDEST_COUNTS:
        counts = level_counts(*target.lattice.shape)
        most = len(counts) - 1  # k disagreeing pairs of neighbours of n: s = n - 2k
        values = most - 2.0 * np.arange(most + 1)
        return values[counts > 0.0, None], np.log(counts[counts > 0.0])
    raise IncompatibleError(
        f"transition_matrix of an exchange sampler counts the values of the statistic, which it can for Ising lattices "
        f"up to {WIDEST_COUNTS} wide; found {target!r}"
    )


def acceptance_of_exchange(
    points: np.ndarray,
    log_prior: np.ndarray,
    observed: np.ndarray,
    statistics: np.ndarray,
    log_counts: np.ndarray,
    n_auxiliary: float,
    wanted: np.ndarray | None = None,
) -> np.ndarray:
    """Return E min(1, a^) for every pair of points of a symmetric proposal.

    Parameters
    ----------
    points, log_prior
        Grid of theta, shape (n, dim), and log p(theta), shape (n,).
    observed
        s(y), shape (dim,).
    statistics, log_counts
        Values of the statistics, shape (k, dim), and log of the number of data sets with each, shape (k,).
    n_auxiliary
        N >= 1; ``inf`` is Metropolis-Hastings.
    wanted
        Pairs that are needed, shape (n, n); the others are left at 0.

    Returns
    -------
    np.ndarray
        Shape (n, n), row: current, column: proposed.
    """
    from scipy.special import logsumexp

    tilted = points @ statistics.T + log_counts
    log_z = logsumexp(tilted, axis=1)
    law = np.exp(tilted - log_z[:, None])
    n = len(points)
    acceptance = np.zeros((n, n))
    wanted = np.ones((n, n), dtype=bool) if wanted is None else wanted & ~np.eye(n, dtype=bool)
    rows, columns = np.nonzero(wanted & np.isfinite(log_prior)[:, None] & np.isfinite(log_prior)[None, :])
    if math.isinf(n_auxiliary):
        density = points @ observed + log_prior - log_z
        acceptance[rows, columns] = np.exp(np.minimum(density[columns] - density[rows], 0.0))
        return acceptance
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        i, j = rows[start : start + PAIRS_AT_ONCE], columns[start : start + PAIRS_AT_ONCE]
        step = points[j] - points[i]
        log_ratio = (step @ observed + log_prior[j] - log_prior[i])[:, None] - step @ statistics.T
        capped = np.exp(np.minimum(log_ratio - math.log(n_auxiliary), 0.0))
        acceptance[i, j] = _mean_of_capped_sum(capped, law[j], int(n_auxiliary))
    return acceptance


def _mean_of_capped_sum(values: np.ndarray, law: np.ndarray, count: int) -> np.ndarray:
    """Return E min(1, V_1 + ... + V_count), V iid on `values` in [0, 1] with `law`; shape (pairs,)."""
    if count == 1:
        return np.asarray((law * values).sum(axis=1))
    if count == 2:
        sums = np.minimum(values[:, :, None] + values[:, None, :], 1.0)
        return np.asarray(np.einsum("pa,pb,pab->p", law, law, sums))
    place = values * LATTICE
    low = np.minimum(place.astype(np.int64), LATTICE - 1)
    share = place - low
    single = np.zeros((len(values), LATTICE + 1))
    rows = np.broadcast_to(np.arange(len(values))[:, None], low.shape)
    np.add.at(single, (rows, low), law * (1.0 - share))
    np.add.at(single, (rows, low + 1), law * share)
    total = _power(single, count)
    return np.asarray(total @ np.minimum(np.arange(LATTICE + 1) / LATTICE, 1.0))


def _power(law: np.ndarray, count: int) -> np.ndarray:
    """Return the law of the capped sum of `count` draws, by repeated doubling."""
    result: np.ndarray | None = None
    while True:
        if count & 1:
            result = law if result is None else _capped_convolution(result, law)
        count >>= 1
        if not count:
            return result  # type: ignore[return-value]  # count >= 1: a bit was set
        law = _capped_convolution(law, law)


def _capped_convolution(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the law of min(top, A + B); all mass beyond the top point of the lattice lies on it."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * a.shape[1] - 1, real=True)
    full = irfft(rfft(a, size) * rfft(b, size), size)
    found = np.maximum(full[:, : a.shape[1]], 0.0)
    found[:, -1] = np.maximum(1.0 - found[:, :-1].sum(axis=1), 0.0)
    return np.asarray(found)


def exchange_acceptance(target: Any, sampler: Any, points: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the acceptance probabilities of an `Exchange` sampler whose auxiliary draws are exact, and the method."""
    if sampler.auxiliary not in ("auto", "exact"):
        raise IncompatibleError(
            f"transition_matrix: auxiliary draws by a finite chain have no law in closed form, found {sampler!r}; use "
            'auxiliary="exact"'
        )
    statistics, log_counts = statistic_counts(target)
    log_prior_kernel = target.compile_log_prior()
    log_prior = np.array([log_prior_kernel(point) for point in points])
    observed = np.asarray(target.observed_statistics, dtype=np.float64)
    count = sampler.n_auxiliary
    found = acceptance_of_exchange(points, log_prior, observed, statistics, log_counts, count, wanted)
    return found, "enumerate" if count <= 2 else "lattice"
