r"""The acceptance probability of the exchange sampler and its noisy relatives, on a grid of theta.

With auxiliary data y'_1 ... y'_N drawn at theta', the ratio is estimated by

    a^ = exp((theta' - theta)' s(y)) p(theta') / p(theta)  (1/N) sum_k exp((theta - theta')' s(y'_k)),

and depends on the data only through their statistics. The probability of a value of the statistic at theta is
proportional to the number of data sets with this value times exp(theta' s). For N = 1 (exchange, exact) and N =
infinity (Metropolis-Hastings, exact) the acceptance probability is a sum in closed form. For other N the distribution
of the mean is a convolution. Each term is first capped, V_k = min(1, a_k / N) in [0, 1], with a_k the ratio estimated
by draw k alone; then E min(1, V_1 + ... + V_N) is computed on a lattice of [0, 1] with M steps. Each atom is split
between its two lattice neighbours so that the mean is preserved.

The split adds noise Z to the sum of the V_k, of mean 0 given this sum, and variance at most N / (4 M^2). Because min(1,
.) is concave, the result can only be too low, by at most E Z^+ = E|Z| / 2 <= sqrt(N) / (4 M): 0.0012 at N = 100. The
measured error is 2e-6 (see the tests). Because E min(1, a^) <= min(1, a), a the exact ratio, an acceptance probability
that is too low is farther from the exact one. So the computed one-step error delta is too large, and bounds that grow
with delta hold for the sampler. The stationary distribution of the matrix is approximate.

References: Murray, Ghahramani and MacKay (2006); Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import TransitionMatrix
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.counted_model import CountedModel
from approxmcmc.samplers.metropolis_hastings.distribution import decided

LATTICE = 2048  # M, the number of steps of the lattice
PAIRS_AT_ONCE = 512


def acceptance_of_exchange(model: CountedModel, n_auxiliary: float, pairs: np.ndarray | None = None) -> np.ndarray:
    """Return E min(1, a^) for every pair of points of a symmetric proposal.

    Parameters
    ----------
    model
        The posterior on the grid.
    n_auxiliary
        N >= 1; ``inf`` is Metropolis-Hastings, a^ = a.
    pairs
        Pairs to compute, shape (n, n); other pairs get 0.

    Returns
    -------
    np.ndarray
        Shape (n, n), row: current, column: proposed. With three or more draws the values are too low, by at most
        :func:`lattice_error`.
    """
    rows, columns = _pairs(model, pairs)
    acceptance = np.zeros((len(model.points),) * 2)
    if math.isinf(n_auxiliary):
        acceptance[rows, columns] = np.exp(np.minimum(_log_ratio(model, rows, columns), 0.0))
        return acceptance
    for i, j, log_draws, law in single_draws(model, pairs):
        shares = np.exp(np.minimum(log_draws - math.log(n_auxiliary), 0.0))
        acceptance[i, j] = _mean_of_capped_sum(shares, law, int(n_auxiliary))
    return acceptance


class ExpectedMinima(NamedTuple):
    """log a, and the means of min(1, a^), min(1, a, a^) and min(a, a^), for every pair of points; (n, n)."""

    log_a: np.ndarray
    accepted: np.ndarray
    both_accept: np.ndarray
    below_a: np.ndarray


def expected_minima(model: CountedModel, n_auxiliary: int, pairs: np.ndarray) -> ExpectedMinima:
    """Return log a and the means of the three minima for the wanted pairs; log a is 0 for other pairs.

    With three or more draws the means are too low, by at most :func:`lattice_error` times the largest value of the
    minimum.
    """
    rows, columns = _pairs(model, pairs)
    expected = ExpectedMinima(*np.zeros((4, len(model.points), len(model.points))))
    expected.log_a[rows, columns] = _log_ratio(model, rows, columns)
    for i, j, log_draws, law in single_draws(model, pairs):
        log_a = expected.log_a[i, j]
        log_shares = log_draws - math.log(n_auxiliary)
        sums, weights = _law_of_capped_sum(np.exp(np.minimum(log_shares, 0.0)), law, n_auxiliary)
        expected.accepted[i, j] = (weights * np.minimum(sums, 1.0)).sum(axis=1)
        expected.both_accept[i, j] = (weights * np.minimum(sums, np.exp(np.minimum(log_a, 0.0))[:, None])).sum(axis=1)
        expected.below_a[i, j] = expected.both_accept[i, j]
        if (high := log_a > 0.0).any():  # min(a, a^) = a min(1, a^/a)
            shares = np.exp(np.minimum(log_shares[high] - log_a[high, None], 0.0))
            expected.below_a[i[high], j[high]] = np.exp(log_a[high]) * _mean_of_capped_sum(
                shares, law[high], n_auxiliary
            )
    return expected


def _pairs(model: CountedModel, pairs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    n = len(model.points)
    possible = np.isfinite(model.log_prior)
    pairs = ~np.eye(n, dtype=bool) if pairs is None else pairs & ~np.eye(n, dtype=bool)
    return np.nonzero(pairs & possible[:, None] & possible[None, :])  # type: ignore[return-value]  # two axes


def _log_ratio(model: CountedModel, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    density = model.log_density()
    return np.asarray(density[columns] - density[rows])


def single_draws(
    model: CountedModel, pairs: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield batches of pairs of points: indices of theta, of theta', log a^ of one draw, and its probabilities.

    The last two have shape (pairs, values): one column for each value that the draw's statistic can have.
    """
    rows, columns = _pairs(model, pairs)
    law = model.law_of_statistics().probabilities
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        i = rows[start : start + PAIRS_AT_ONCE]
        j = columns[start : start + PAIRS_AT_ONCE]
        step = model.points[j] - model.points[i]
        fixed = step @ model.observed + model.log_prior[j] - model.log_prior[i]
        yield i, j, fixed[:, None] - step @ model.statistics.T, law[j]


def standard_deviation_of_ratio(
    model: CountedModel, log_a: np.ndarray, n_auxiliary: int, pairs: np.ndarray
) -> np.ndarray:
    """Return sd(a^), which bounds E|a^ - a| (lemma 3.1), for the wanted pairs of points, 0 for others; (n, n)."""
    deviation = np.zeros(pairs.shape)
    for i, j, log_draws, law in single_draws(model, pairs):
        error = np.exp(log_draws) - np.exp(log_a[i, j])[:, None]
        deviation[i, j] = np.sqrt((law * error**2).sum(axis=1) / n_auxiliary)
    return deviation


def lattice_error(n_auxiliary: float) -> float:
    """Return by how much an acceptance probability of `acceptance_of_exchange` is too low at most: sqrt(N) / (4 M).

    0 for one or two draws and for N = inf, which need no lattice.

    Examples
    --------
    >>> lattice_error(2), round(lattice_error(100), 5)
    (0.0, 0.00122)
    """
    return math.sqrt(n_auxiliary) / (4.0 * LATTICE) if 2 < n_auxiliary < math.inf else 0.0


def _mean_of_capped_sum(values: np.ndarray, law: np.ndarray, count: int) -> np.ndarray:
    """Return E min(1, V_1 + ... + V_count), V iid on `values` in [0, 1] with `law`; shape (pairs,)."""
    sums, weights = _law_of_capped_sum(values, law, count)
    return np.asarray((weights * np.minimum(sums, 1.0)).sum(axis=1))


def _law_of_capped_sum(values: np.ndarray, law: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return possible values and probabilities of V_1 + ... + V_count; shapes that broadcast to (pairs, m).

    V as in `_mean_of_capped_sum`. From three draws on, the sums are on the lattice and capped at 1.
    """
    if count == 1:
        return values, law
    n = len(values)
    if count == 2:
        sums = (values[:, :, None] + values[:, None, :]).reshape(n, -1)
        return sums, (law[:, :, None] * law[:, None, :]).reshape(n, -1)
    place = values * LATTICE
    low = np.minimum(place.astype(np.int64), LATTICE - 1)
    share = place - low
    single = np.zeros((n, LATTICE + 1))
    rows = np.broadcast_to(np.arange(n)[:, None], low.shape)
    np.add.at(single, (rows, low), law * (1.0 - share))
    np.add.at(single, (rows, low + 1), law * share)
    return np.arange(LATTICE + 1)[None, :] / LATTICE, _power(single, count)


def _power(law: np.ndarray, count: int) -> np.ndarray:
    """Return the distribution of the capped sum of `count` draws, by repeated doubling."""
    result: np.ndarray | None = None
    while True:
        if count & 1:
            result = law if result is None else _capped_convolution(result, law)
        count >>= 1
        if not count:
            return result  # type: ignore[return-value]  # count >= 1: a bit was set
        law = _capped_convolution(law, law)


def _capped_convolution(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distribution of min(top, A + B); all mass beyond the top point of the lattice is put on it."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * a.shape[1] - 1, real=True)
    full = irfft(rfft(a, size) * rfft(b, size), size)
    law = np.maximum(full[:, : a.shape[1]], 0.0)
    law[:, -1] = np.maximum(1.0 - law[:, :-1].sum(axis=1), 0.0)
    return np.asarray(law)


class DrawsLaw(NamedTuple):
    """The distribution of the N auxiliary draws that a step uses, and the rest of the step.

    `steps` holds the probability of proposing each state from each, (n, n), if draws estimate the ratio; it is the
    variance of the noise if draws estimate the drift. `error` bounds by how much a computed mean of min(1, a^) is too
    low, see :func:`lattice_error`.
    """

    model: CountedModel
    n_auxiliary: int
    steps: Any

    @property
    def error(self) -> float:
        """Upper bound of the amount by which a computed mean of min(1, a^) is too low."""
        return lattice_error(self.n_auxiliary)

    def expected_minima(self) -> ExpectedMinima:
        """Return :func:`expected_minima` at all pairs that can be proposed."""
        return expected_minima(self.model, self.n_auxiliary, self.steps > 0.0)

    def standard_deviation_of_ratio(self, log_a: np.ndarray) -> np.ndarray:
        """Return :func:`standard_deviation_of_ratio` at all pairs that can be proposed."""
        return standard_deviation_of_ratio(self.model, log_a, self.n_auxiliary, self.steps > 0.0)


def transition_matrix(draws: DrawsLaw) -> TransitionMatrix:
    """Return the transition matrix of the exchange sampler on a grid, from the distribution of its draws."""
    accepted = acceptance_of_exchange(draws.model, draws.n_auxiliary, draws.steps > 0.0)
    return decided(draws.steps, accepted, "lattice" if draws.error > 0.0 else "enumerate", draws.error)


def refuse_inexact_draws(sampler: Any) -> None:
    """Raise IncompatibleError if the sampler's auxiliary data are not exact draws."""
    if sampler.auxiliary not in ("auto", "exact"):
        raise IncompatibleError(f'auxiliary draws must be exact, found {sampler!r}; use auxiliary="exact"')
