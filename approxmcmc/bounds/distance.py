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

The Wasserstein-1 distance of two distributions on the line is the largest E_F f - E_G f over functions f of slope at
most 1; the largest is at f' = sign(G - F), F and G the distribution functions. Its limits are found in the same two
ways, with f in place of the indicator of a set.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.errors import InvalidInputError

BATCHES = 20  # batches of draws in each chain, or one for each draw of a shorter chain
BINS = 20  # bins of equal mass under the reference
EDGES = 1001  # points between which the potential of a Wasserstein distance is linear


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


def total_variation_interval(counts: np.ndarray, law: np.ndarray, confidence: float = 0.95) -> Distance:
    """Return the total variation distance of a chain's distribution from another, with limits.

    Parameters
    ----------
    counts
        Frequencies of the cells, shape (chain, batch, cell), from :func:`frequencies`.
    law
        The other distribution: probabilities, shape (cell,), or frequencies of draws from it, shape (chain, batch,
        cell).
    confidence
        Level of the interval (two-sided, normal).
    """
    from scipy.special import ndtri

    if counts.shape[0] * counts.shape[1] < 4:
        raise InvalidInputError("an interval of total variation needs at least 4 batches of draws: run longer chains.")
    z = float(ndtri(0.5 + 0.5 * confidence))
    # Exact probabilities enter as two identical chains, so that they have halves, and the variance 0.
    other = np.broadcast_to(law, (2, 1, law.size)) if law.ndim == 1 else law
    means = [_mean(values) for values in (counts, other)]
    sign = np.sign(means[0] - means[1])
    estimate = 0.5 * float(np.abs(means[0] - means[1]).sum())
    noise = math.sqrt(_variance(counts, 0.5 * sign) + _variance(other, 0.5 * sign))
    cell_variance = sum(_cell_variance(values) for values in (counts, other))
    # E |Z| = sqrt(2 / pi) sd for the normal difference Z of a cell
    floor = 0.5 * float(np.sqrt(cell_variance * 2.0 / math.pi).sum())
    halves = [_halves(values) for values in (counts, other)]
    differences = []
    variances = []
    for choice, judge in ((0, 1), (1, 0)):
        chosen = _mean(halves[0][choice]) > _mean(halves[1][choice])
        differences.append(float((_mean(halves[0][judge]) - _mean(halves[1][judge]))[chosen].sum()))
        variances.append(_variance(halves[0][judge], chosen) + _variance(halves[1][judge], chosen))
    lower = 0.5 * sum(differences) - z * 0.5 * math.sqrt(sum(variances))
    return Distance(estimate, max(0.0, lower), min(1.0, estimate + z * noise), floor)


def marginal_distances(draws: np.ndarray, reference: np.ndarray, confidence: float = 0.95) -> tuple[Distance, Distance]:
    """Return the largest marginal total variation (20 bins of equal mass), and the largest Wasserstein-1 distance.

    Parameters
    ----------
    draws, reference
        Shapes (chain, draw, coordinate).

    Returns
    -------
    tuple
        Each distance is that of the coordinate whose estimate is largest, with limits at a level shared by all
        coordinates. The Wasserstein distance is in standard deviations of the reference; its noise floor is half the
        distance between the two halves of the draws in the same coordinate.
    """
    n = draws.shape[2]
    if n == 0:
        raise InvalidInputError("marginal_distances: the draws have no coordinate.")
    pairs = [(draws[:, :, k], reference[:, :, k]) for k in range(n)]
    level = 1.0 - (1.0 - confidence) / n
    of_bins = [_binned_distance(*pair, level) for pair in pairs]
    moved = [wasserstein_interval(*pair, level) for pair in pairs]
    return max(of_bins, key=_estimate), max(moved, key=_estimate)


def _estimate(distance: Distance) -> float:
    return distance.estimate


def _binned_distance(draws: np.ndarray, reference: np.ndarray, confidence: float) -> Distance:
    """Return total variation over bins of equal mass under the reference; shapes (chain, draw)."""
    edges = np.quantile(reference, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    ours, theirs = (frequencies(np.searchsorted(edges, values), BINS) for values in (draws, reference))
    return total_variation_interval(ours, theirs, confidence)


def wasserstein_interval(draws: np.ndarray, reference: np.ndarray, confidence: float = 0.95) -> Distance:
    """Return the Wasserstein-1 distance of draws of one coordinate from others, in standard deviations of the others.

    Parameters
    ----------
    draws, reference
        Shapes (chain, draw). If the reference never varies, the distance has its units.
    confidence
        Level of the interval (two-sided, normal).
    """
    from scipy.special import ndtri

    scale = float(reference.std()) or 1.0
    z = float(ndtri(0.5 + 0.5 * confidence))
    estimate = _mean_distance_of_quantiles(draws, reference)
    halves = [_halves_of_draws(values) for values in (draws, reference)]
    floor = 0.5 * _mean_distance_of_quantiles(*halves[0])  # two halves differ by 2 times the error of the mean of both
    _, variance = _difference_of(_potential(draws, reference), draws, reference)
    judged = [
        _difference_of(_potential(halves[0][choice], halves[1][choice]), halves[0][judge], halves[1][judge])
        for choice, judge in ((0, 1), (1, 0))
    ]
    lower = 0.5 * sum(difference for difference, _ in judged) - z * 0.5 * math.sqrt(sum(error for _, error in judged))
    upper = estimate + z * math.sqrt(variance)
    return Distance(estimate / scale, max(0.0, lower) / scale, upper / scale, floor / scale)


def _mean_distance_of_quantiles(draws: np.ndarray, reference: np.ndarray) -> float:
    levels = (np.arange(200) + 0.5) / 200
    ours, theirs = (np.quantile(values, levels) for values in (draws, reference))
    return float(np.abs(ours - theirs).mean())


def _potential(draws: np.ndarray, reference: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function f of slope -1, 0 or 1 that has the largest difference of means between the two samples."""
    pooled = np.concatenate([draws.ravel(), reference.ravel()])
    edges = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, EDGES)))
    middles = 0.5 * (edges[1:] + edges[:-1])
    ours, theirs = (
        np.searchsorted(np.sort(values, axis=None), middles, side="right") / values.size
        for values in (draws, reference)
    )
    heights = np.append(0.0, np.cumsum(np.sign(theirs - ours) * np.diff(edges)))
    return lambda values: np.asarray(np.interp(values, edges, heights))


def _shares_up_to(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of `values` that is at most each point: their distribution function."""
    return np.asarray(np.searchsorted(np.sort(values, axis=None), points, side="right") / values.size)


def _difference_of(
    function: Callable[[np.ndarray], np.ndarray], draws: np.ndarray, reference: np.ndarray
) -> tuple[float, float]:
    """Return the difference of the means of a function over two samples, and its variance from batch means."""
    batches = [_batch_means(function(values)) for values in (draws, reference)]
    difference = float(batches[0].mean()) - float(batches[1].mean())
    return difference, sum(float(means.var(ddof=1)) / means.size if means.size > 1 else 0.0 for means in batches)


def _batch_means(values: np.ndarray) -> np.ndarray:
    """Return the means of at most `BATCHES` batches of each chain; `values` (chain, draw)."""
    chains, draws = values.shape
    batches = min(BATCHES, draws)
    length = draws // batches
    return np.asarray(values[:, : batches * length].reshape(chains * batches, length).mean(axis=1))


def _halves_of_draws(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `values` (chain, draw) in two halves: half of the chains each, or the two halves of a single chain."""
    half = len(values) // 2
    first, second = (values[:half], values[half:]) if half else np.array_split(values, 2, axis=1)
    return first, second


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
