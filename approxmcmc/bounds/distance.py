"""Total variation and Wasserstein distance of draws from a distribution, or from other draws, with intervals.

With f_k the share of draws in cell k, and p_k the cell's probability under the other distribution, the plug-in estimate
1/2 sum |f_k - p_k| of the total variation d_v is biased upwards, because noise adds distance. So the two limits come
from different estimates, with z a normal quantile:

upper   the plug-in estimate plus z standard errors: the estimate's expectation is never below the truth.
lower   d_v >= f(A) - p(A) for every set A of cells. The set where f exceeds p is chosen on half of the chains (or of
        the batches of a single chain) and evaluated on the other half, which is nearly independent of the choice;
        the halves then change places, and the two values are averaged;
        subtract z standard errors, and set values below 0 to 0.

Standard errors come from batch means, with at most 20 batches in each chain. The noise floor is the plug-in distance
that draws from the right distribution would show by chance, at the same batch variances. The distance of two marginal
distributions never exceeds the distance of the joint distributions.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.errors import InvalidInputError

BATCHES = 20  # batches of draws in each chain, or one for each draw of a shorter chain
BINS = 20  # bins of equal mass under the reference


class Distance(NamedTuple):
    """An estimate of a total variation distance, its confidence limits, and the noise floor of the estimate."""

    estimate: float
    lower: float
    upper: float
    floor: float


def frequencies(cells: np.ndarray, n_cells: int) -> np.ndarray:
    """Return the share of each cell in each batch of each chain; `cells` (chain, draw), result (chain, batch, cell)."""
    chains, draws = cells.shape
    batches = min(BATCHES, draws)
    length = draws // batches
    blocks = cells[:, : batches * length].reshape(chains * batches, length)
    counts = np.zeros((len(blocks), n_cells))
    np.add.at(counts, (np.arange(len(blocks))[:, None], blocks), 1.0)
    return (counts / length).reshape(chains, batches, n_cells)


def total_variation_interval(found: np.ndarray, law: np.ndarray, confidence: float = 0.95) -> Distance:
    """Return the total variation distance of a chain's distribution from another, with limits.

    Parameters
    ----------
    found
        Frequencies of the cells, shape (chain, batch, cell), from :func:`frequencies`.
    law
        The other distribution: probabilities, shape (cell,), or frequencies of draws from it, shape (chain, batch,
        cell).
    confidence
        Level of the interval (two-sided, normal).
    """
    from scipy.special import ndtri

    if found.shape[0] * found.shape[1] < 4:
        raise InvalidInputError("an interval of total variation needs at least 4 batches of draws: run longer chains.")
    z = float(ndtri(0.5 + 0.5 * confidence))
    # Exact probabilities enter as two identical chains, so that they have halves, and the variance 0.
    other = np.broadcast_to(law, (2, 1, law.size)) if law.ndim == 1 else law
    means = [_mean(values) for values in (found, other)]
    sign = np.sign(means[0] - means[1])
    estimate = 0.5 * float(np.abs(means[0] - means[1]).sum())
    noise = math.sqrt(_variance(found, 0.5 * sign) + _variance(other, 0.5 * sign))
    cell_variance = sum(_cell_variance(values) for values in (found, other))
    # E |Z| = sqrt(2 / pi) sd for the normal difference Z of a cell
    floor = 0.5 * float(np.sqrt(cell_variance * 2.0 / math.pi).sum())
    halves = [_halves(values) for values in (found, other)]
    differences = []
    variances = []
    for choice, judge in ((0, 1), (1, 0)):
        chosen = _mean(halves[0][choice]) > _mean(halves[1][choice])
        differences.append(float((_mean(halves[0][judge]) - _mean(halves[1][judge]))[chosen].sum()))
        variances.append(_variance(halves[0][judge], chosen) + _variance(halves[1][judge], chosen))
    lower = 0.5 * sum(differences) - z * 0.5 * math.sqrt(sum(variances))
    return Distance(estimate, max(0.0, lower), min(1.0, estimate + z * noise), floor)


def marginal_distances(
    draws: np.ndarray, reference: np.ndarray, confidence: float = 0.95
) -> tuple[Distance, float, float]:
    """Return the largest marginal total variation (20 bins of equal mass), and the largest Wasserstein-1 distance.

    Parameters
    ----------
    draws, reference
        Shapes (chain, draw, coordinate).

    Returns
    -------
    tuple
        The distance of the coordinate whose estimate is largest, with limits at a level shared by all coordinates; the
        largest Wasserstein-1 distance over coordinates, in standard deviations of the reference; and its noise floor,
        which is half the distance between the two halves of the draws in the same coordinate.
    """
    n = draws.shape[2]
    if n == 0:
        raise InvalidInputError("marginal_distances: the draws have no coordinate.")
    pairs = [(draws[:, :, k], reference[:, :, k]) for k in range(n)]
    level = 1.0 - (1.0 - confidence) / n
    best = max((_binned_distance(*pair, level) for pair in pairs), key=lambda distance: distance.estimate)
    return best, *max(_wasserstein(*pair) for pair in pairs)


def _binned_distance(draws: np.ndarray, reference: np.ndarray, confidence: float) -> Distance:
    """Return total variation over bins of equal mass under the reference; shapes (chain, draw)."""
    edges = np.quantile(reference, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    ours, theirs = (frequencies(np.searchsorted(edges, values), BINS) for values in (draws, reference))
    return total_variation_interval(ours, theirs, confidence)


def _wasserstein(draws: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    levels = (np.arange(200) + 0.5) / 200
    scale = float(reference.std()) or 1.0  # if the coordinate never varies, keep its units
    ours, theirs = (np.quantile(values, levels) for values in (draws, reference))
    half = len(draws) // 2
    parts = (draws[:half], draws[half:]) if half else np.array_split(draws, 2, axis=1)
    first, second = (np.quantile(part, levels) for part in parts)
    # The difference of two halves has sqrt(2) sqrt(2) = 2 times the error of the mean of both.
    return float(np.abs(ours - theirs).mean()) / scale, 0.5 * float(np.abs(first - second).mean()) / scale


def cells_of_states(draws: np.ndarray, n_states: Sequence[int]) -> np.ndarray:
    """Return the index of each draw's state among all states, the last site fastest; shape (chain, draw).

    `draws` (chain, draw, site) holds the values of the sites, `n_states` how many values each site has.
    """
    strides = np.append(np.cumprod(np.asarray(n_states)[:0:-1])[::-1], 1)
    return np.asarray(np.rint(draws @ strides), dtype=np.int64)


def _mean(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.mean(axis=(0, 1)))


def _variance(values: np.ndarray, weights: Any) -> float:
    """Return the variance of the mean of ``sum_k weights_k f_k`` over batches."""
    scores = (values @ np.asarray(weights, dtype=np.float64)).ravel()
    return float(scores.var(ddof=1)) / scores.size if scores.size > 1 else 0.0


def _cell_variance(values: np.ndarray) -> np.ndarray:
    flat = values.reshape(-1, values.shape[-1])
    return np.asarray(flat.var(axis=0, ddof=1) / len(flat))


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `values` (chain, batch, cell) in two halves: half of the chains each, or of a single chain's batches."""
    if len(values) > 1:
        return values[: len(values) // 2], values[len(values) // 2 :]
    half = values.shape[1] // 2
    return values[:, :half], values[:, half:]
