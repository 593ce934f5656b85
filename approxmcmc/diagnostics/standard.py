"""Errors in posterior standard deviations: of means, spreads and tails, of all coordinates together.

A difference of a sampler from the gold standard is reported if chance explains it in fewer than one table of twenty:
all coordinates, the three quantities and all samplers of a table share this rate (Bonferroni). The mean over replicates
has the standard error of their scatter and of the gold standard together, and quantiles of Student's t.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import special

from approxmcmc.diagnostics.bootstrap import Resampling, draws_at, estimate, resample
from approxmcmc.diagnostics.estimands import Reference
from approxmcmc.diagnostics.moments import GROUP, described, has_only_moments, in_form_of_draws
from approxmcmc.diagnostics.risk import errors_of
from approxmcmc.diagnostics.running import Completions

MEANS = "posterior means"
VARIANCES = "posterior variances"
TAILS = "tail probabilities"
FAR = 2.0  # posterior standard deviations
SD_OF_SQUARE = np.sqrt(2.0)  # standard deviation of z^2, for a posterior of which only moments are known


def standard_estimands(reference: xr.Dataset) -> Mapping[str, Callable[[xr.Dataset], xr.DataArray]]:
    r"""Return estimands: means, variances and tail probabilities of all coordinates, scaled by the gold standard.

    With mean :math:`m_j` and standard deviation :math:`s_j` of coordinate j in the gold standard, the posterior
    averages of

    .. math:: z_j = (\theta_j - m_j) / s_j, \qquad z_j^2, \qquad 1\{|z_j| > 2\}.

    A risk of 0.01 in the first is a typical error of a tenth of a posterior standard deviation, in the second of 10 %
    of a variance.

    Parameters
    ----------
    reference
        Posterior of the gold standard, dims (chain, draw, ...); or its moments, each variable with a leading dim
        ``moment``, of which tail probabilities are unknown.

    Returns
    -------
    dict
        Functions of a posterior Dataset with the same variables; each returns an array of dims (chain, draw,
        parameter). Name them in `Study(average_over=...)` to get one risk for all coordinates.

    Examples
    --------
    >>> draws = xr.Dataset({"beta": (("chain", "draw", "coef"), np.arange(12.0).reshape(2, 3, 2))})
    >>> estimands = standard_estimands(draws)
    >>> list(estimands)
    ['posterior means', 'posterior variances', 'tail probabilities']
    >>> round(float(estimands["posterior variances"](draws).mean()), 12)
    1.0
    """
    names = tuple(str(name) for name in reference.data_vars)
    if "moment" in reference.dims:
        [moments] = _flat(in_form_of_draws(reference), names)
        mean, sd, mcse, mcse_sd = moments
        zero = np.zeros(len(mean))
        return {
            MEANS: _Standardized(names, mean, sd, _same, (zero, zero + 1.0, mcse / sd)),
            VARIANCES: _Standardized(names, mean, sd, np.square, (zero + 1.0, zero + SD_OF_SQUARE, 2.0 * mcse_sd / sd)),
        }
    truth = _flat(reference, names)
    mean = truth.mean(axis=(0, 1))
    sd = truth.std(axis=(0, 1))
    sd = np.where(sd > 0.0, sd, 1.0)
    return {
        MEANS: _Standardized(names, mean, sd, _same),
        VARIANCES: _Standardized(names, mean, sd, np.square),
        TAILS: _Standardized(names, mean, sd, _is_far),
    }


def standard_of(reference: xr.DataTree) -> Mapping[str, Callable[[xr.Dataset], xr.DataArray]]:
    """Return the standard estimands of a gold standard, which has draws or only moments."""
    return standard_estimands(reference[GROUP if has_only_moments(reference) else "posterior"].to_dataset())


@dataclasses.dataclass(frozen=True, eq=False)
class _Standardized:
    """A function of z, the coordinates of `names` in standard deviations from the gold standard's means."""

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    function: Callable[[np.ndarray], np.ndarray]
    moments: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __call__(self, posterior: xr.Dataset) -> xr.DataArray:
        z = (_flat(posterior, self.names) - self.mean) / self.sd
        return xr.DataArray(self.function(z), dims=("chain", "draw", "parameter"))

    def of_moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, standard deviation and standard error under a gold standard that has only moments."""
        assert self.moments is not None
        return self.moments


def _flat(posterior: xr.Dataset, names: Sequence[str]) -> np.ndarray:
    """Return all coordinates as one array, (chain, draw, coordinate)."""
    arrays = [posterior[name].transpose("chain", "draw", ...).to_numpy() for name in names]
    return np.concatenate([array.reshape(*array.shape[:2], -1) for array in arrays], axis=2)


def _same(z: np.ndarray) -> np.ndarray:
    return z


def _is_far(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(z) > FAR, dtype=np.float64)


ROUNDING = 1e-12
TENTH = 0.1  # posterior standard deviations
TO_TENTH_SD = ("to_tenth_sd", "to_tenth_sd_lower", "to_tenth_sd_upper")


class Departures(NamedTuple):
    """How far the averages of a sampler are from the gold standard at a budget.

    Parameters
    ----------
    mean_error
        Largest error of a mean, in posterior standard deviations, with its sign.
    sd_ratio
        Standard deviation over that of the gold standard, of the coordinate where it is farthest from 1.
    sentences
        The differences that chance does not explain: the largest of each quantity, and how many more there are.
    mean_at, sd_at
        The coordinates of `mean_error` and `sd_ratio`.
    mean_error_limit, sd_ratio_lower, sd_ratio_upper
        Half-width of the interval of `mean_error`, and the ends of that of `sd_ratio`, at the rate of the sentences.
    """

    mean_error: float
    sd_ratio: float
    sentences: list[str]
    mean_at: str
    sd_at: str
    mean_error_limit: float
    sd_ratio_lower: float
    sd_ratio_upper: float


UNKNOWN = Departures(np.nan, np.nan, [], "", "", np.nan, np.nan, np.nan)


def departures(
    traces: Sequence[xr.DataTree],
    reference: xr.DataTree,
    *,
    clocks: Sequence[Completions],
    budget: float,
    rate: float,
) -> Departures:
    """Compare means, spreads and tails of all coordinates with the gold standard, from the draws within a budget.

    Parameters
    ----------
    traces, clocks
        Traces of one sampler, whose coordinates are in the order of the reference, and the clock of each chain.
    reference
        The gold standard.
    budget
        Point of the axis of the clocks.
    rate
        Probability that one of the sentences is due to chance.
    """
    labels = _labels(described(reference))
    rate = rate / (3 * len(labels))
    points = np.array([budget])
    draws = min(int(np.searchsorted(clock.ends, budget, side="right")) for clock in clocks)
    differences = {}
    for name, function in standard_of(reference).items():
        errors, gold, _ = errors_of(traces, name, function, reference=reference, clocks=clocks, points=points)
        differences[name] = _differences(errors, gold, rate, draws)
    means = differences[MEANS]
    if not np.isfinite(means.center).all():
        return UNKNOWN
    # The second moment is taken about the gold standard's mean; a shift of the mean is no spread.
    excess = differences[VARIANCES]
    excess = excess._replace(center=excess.center - means.center**2)
    ratios = _root(1.0 + excess.center)
    farthest = int(np.argmax(np.abs(excess.center)))
    largest = int(np.argmax(np.abs(means.center)))
    sentences = [
        *_sentence(means, "mean", lambda k: f"the mean of {labels[k]} is off by {means.center[k]:+.2g} posterior sd"),
        *_sentence(excess, "sd", lambda k: f"the sd of {labels[k]} is {ratios[k]:.2g} times that of the reference"),
    ]
    if TAILS in differences:  # a gold standard known by its moments has none
        tails = differences[TAILS]
        sentences += _sentence(
            tails, "share", lambda k: f"the share of {labels[k]} beyond 2 sd is off by {tails.center[k]:+.2g}"
        )
    ends = _root(1.0 + excess.center[farthest] + np.array([-1.0, 1.0]) * excess.limit[farthest])
    return Departures(
        float(means.center[largest]),
        float(ratios[farthest]),
        sentences,
        labels[largest],
        labels[farthest],
        float(means.limit[largest]),
        *map(float, ends),
    )


def _root(squares: np.ndarray) -> np.ndarray:
    return np.sqrt(np.where(squares > ROUNDING, squares, 0.0))


def start_of_draws(clocks: Sequence[Completions]) -> float:
    """Return the point of the axis at which all chains draw, after the longest warm-up; NaN if a chain has no draw."""
    if not all(len(clock.ends) for clock in clocks):
        return np.nan
    starts = []
    for clock in clocks:
        of_one_draw = (clock.ends[-1] - clock.ends[0]) / max(len(clock.ends) - 1, 1)
        starts.append(float(clock.ends[0] - of_one_draw))
    return max(*starts, 0.0)


def to_tenth_sd(
    traces: Sequence[xr.DataTree],
    reference: xr.DataTree,
    *,
    clocks: Sequence[Completions],
    budget: float,
    confidence: float,
    n_bootstrap: int = 2000,
    random_seed: int = 0,
) -> tuple[float, float, float]:
    """Return the budget at which the typical error of a mean is a tenth of a posterior standard deviation.

    It is computed from the errors at a budget, with the ends of its interval: see :func:`budget_for`. The traces, the
    reference and the clocks are those of :func:`departures`. All are NaN if a chain has no draw within the budget.
    """
    errors, gold, _ = errors_of(
        traces, MEANS, standard_of(reference)[MEANS], reference=reference, clocks=clocks, points=np.array([budget])
    )
    if not np.isfinite(errors).all():
        return np.nan, np.nan, np.nan
    resampling = resample(n_bootstrap, len(errors), len(gold.directions), random_seed)
    return budget_for(TENTH, errors[:, 0], gold, budget, resampling, confidence, start=start_of_draws(clocks))


def budget_for(
    tolerance: float,
    errors: np.ndarray,
    gold: Reference,
    budget: float,
    resampling: Resampling,
    confidence: float,
    *,
    start: float = 0.0,
) -> tuple[float, float, float]:
    r"""Return the budget at which the typical error falls to a tolerance, with the ends of its interval.

    With squared bias :math:`B^2` and variance V at the budget T, averaged over coordinates, the squared error at t is
    :math:`B^2 + V (T - s) / (t - s)`, because the variance of a mean falls as one over the number of draws, and the
    first is drawn after the warm-up, which takes s. It is the tolerance squared at

    .. math:: t = s + (T - s) V / (tolerance^2 - B^2),

    which is infinite if the bias alone is larger. The interval has the quantiles of t over the bootstrap.

    Parameters
    ----------
    tolerance
        In the units of the errors.
    errors
        Errors of the running means at the budget, shape (replicate, coordinate).
    gold
        The reference.
    budget
        T, a point of any axis.
    resampling, confidence
        Bootstrap weights of the replicates, and level of the interval.
    start
        s, the point at which the draws begin.
    """
    if len(errors) == 1:
        return np.nan, np.nan, np.nan
    average = estimate(errors[:, None], gold.mcse)
    drawn_bias_sq, drawn_variance, _ = draws_at(errors, gold.mcse * gold.directions, resampling)
    tail = (1.0 - confidence) / 2.0
    length = budget - start
    # "nearest", because infinite budgets cannot be interpolated
    ends = np.quantile(
        extrapolated(drawn_bias_sq, drawn_variance, tolerance, length), [tail, 1.0 - tail], method="nearest"
    )
    needed = extrapolated(average["bias_sq"], average["variance"], tolerance, length)
    return start + float(needed[0]), start + float(ends[0]), start + float(ends[1])


def extrapolated(bias_sq: np.ndarray, variance: np.ndarray, tolerance: float, length: float) -> np.ndarray:
    """Return the time of drawing at which the error is a tolerance, from bias and variance after the time `length`.

    Infinite if the bias alone is larger; a negative estimate of the squared bias counts as 0.
    """
    left = tolerance**2 - np.maximum(bias_sq, 0.0)
    return np.where(left > 0.0, length * variance / np.where(left > 0.0, left, 1.0), np.inf)


class _Differences(NamedTuple):
    """Mean difference of each coordinate over replicates, and its limit by chance."""

    center: np.ndarray
    limit: np.ndarray


def _differences(errors: np.ndarray, gold: Reference, rate: float, draws: int) -> _Differences:
    replicates = len(errors)
    center = errors.mean(axis=0)[0]
    if replicates == 1 or draws == 0:  # nothing is known of the chance, or a chain has no draw within the time
        return _Differences(center, np.full(len(center), np.inf))
    # Not below the variance of independent draws: of a few draws, none may be in a tail in every replicate.
    variance = np.maximum(errors.var(axis=0, ddof=1)[0], gold.sd**2 / draws)
    error = np.sqrt(variance / replicates + gold.mcse**2)
    limit = special.stdtrit(replicates - 1, 1.0 - rate / 2.0) * error
    return _Differences(center, limit)


def _sentence(differences: _Differences, quantity: str, words: Callable[[int], str]) -> list[str]:
    """Return the largest difference that chance does not explain, in words, and the number of the others."""
    beyond = np.abs(differences.center) > differences.limit
    if not beyond.any():
        return []
    worst = int(np.argmax(np.where(beyond, np.abs(differences.center), -np.inf)))
    others = int(beyond.sum()) - 1
    rest = {0: "", 1: f", and 1 more {quantity} differs"}
    return [words(worst) + rest.get(others, f", and {others} more {quantity}s differ")]


def _labels(posterior: xr.Dataset) -> list[str]:
    """Return the labels of all coordinates, in the order of `standard_estimands`."""
    labels = []
    for name, variable in posterior.data_vars.items():
        extra = [dim for dim in variable.dims if dim not in ("chain", "draw")]
        ticks = itertools.product(*(np.asarray(variable[dim]).tolist() for dim in extra))
        labels += [f"{name}[{', '.join(map(str, tick))}]" if tick else str(name) for tick in ticks]
    return labels
