r"""Error bounds of noisy Langevin, with the truth by quadrature, for one parameter.

The ideal chain draws theta' ~ N(theta + Sigma g / 2, Sigma) with g = grad log pi(theta); the noisy chain replaces g by
g^, estimated from N auxiliary draws y'_1 ... y'_N at theta. The prior cancels in g^ - g = E s - mean of s(y'_i), s the
model's statistics, so the distance of one step depends on the model alone. With V = Sigma^(1/2) (g - g^),

    d_v(P^(theta, .), P(theta, .))  <=  (1/4) E|V|                        Pinsker, and convexity in g^
                                    <=  sqrt(delta / 2),   delta = E exp(|V|^2 / 4) - 1             lemma 2.4
    delta  <=  (1 - k ||Sigma|| S^2 / (2 N))^(-1/2) - 1   for N > k ||Sigma|| S^2 / 2             lemma 3.3

with k parameters and S = sup |s|. Two normal distributions with the same covariance Sigma and means that differ by
Sigma (g^ - g) / 2 have the Kullback-Leibler divergence |V|^2 / 8 and the chi-square divergence exp(|V|^2 / 4) - 1.
Pinsker's inequality, d_v <= sqrt(KL / 2), gives the first line; KL <= chi^2 <= delta gives the second. By Hoeffding's
lemma each coordinate of V is sub-Gaussian with variance ||Sigma|| S^2 / N; together with the convexity of exp this
gives the third. **The exponent 1/4 and the third line are rederived here.** The paper bounds the same expectation with
Hoeffding's tail inequality, cut at a chosen level, which costs a factor log N.

Theorem 2.2 needs a function W, a rate r < 1 and L with P W <= r W + L and P^ W <= r W + L for all N. Theorem 3.4 gives
them for a real parameter with the prior N(0, v): with W = 1 + |theta|,

    r = |1 - Sigma / (2 v)|,    L = 1 - r + Sigma S + sqrt(2 Sigma / pi),      so that 0 < Sigma < 4 v is enough,

at every N. It follows that both chains are geometrically ergodic, and that the distance of their stationary
distributions vanishes as N grows; the theorem gives no rate.

Reference: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, theorem 2.2, lemma 2.4 (section 2.3), lemma 3.3
and theorem 3.4 (section 3.4).
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.bounds.finite import RIGOROUS, grid_of_points
from approxmcmc.contracts import ProposalSampler
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

# points of an integral over theta', and its half-width in standard deviations
QUADRATURE = 801
REACH = 8.0


def law_of_the_mean(model: Any, n_auxiliary: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the m possible values of the mean of s over N draws, and their probabilities at each of the n points.

    Shapes (m,) and (n, m). The statistic takes integer values, multiples of a spacing up to an
    offset, so a convolution gives the exact distribution of the sum over draws. With N = inf the mean is the
    expectation, one value for each point: both results have the shape (n, 1).
    """
    law = model.law_of_statistics().probabilities
    values = model.statistics[:, 0]
    if math.isinf(n_auxiliary):
        return (law @ values)[:, None], np.ones((len(law), 1))
    spacing = float(np.gcd.reduce(np.rint(values - values.min()).astype(np.int64)))
    positions = np.rint((values - values.min()) / spacing).astype(np.int64)
    law_of_one_draw = np.zeros((len(law), positions.max() + 1))
    law_of_one_draw[:, positions] = law
    total = np.array([_power(row, int(n_auxiliary)) for row in law_of_one_draw])
    return values.min() + spacing * np.arange(total.shape[1]) / n_auxiliary, total


def noisy_langevin_errors(target: Any, sampler: Any, grid: Any) -> "xr.Dataset":
    """Return the distance of one noisy Langevin step from the ideal step at every point of a grid, and its bounds.

    Parameters
    ----------
    target
        A doubly intractable target with one parameter whose statistic can be counted: `Ising`.
    sampler
        `NoisyLangevin` with exact auxiliary draws.
    grid
        Points theta, shape (n,).

    Returns
    -------
    xarray.Dataset
        Dim ``state``: `delta`, the true d_v of the two steps (quadrature); `pinsker` and `lemma_2_4`, the bounds in the
        module's first two lines. Scalar `lemma_3_3`, which holds at every theta; NaN if N is too small for the lemma.
        All bounds are rigorous; a bound of 1 or more is vacuous.

    Raises
    ------
    IncompatibleError
        When the sampler is not `NoisyLangevin` with exact draws, or the statistic cannot be counted.
    InvalidInputError
        When the grid has the wrong shape.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), lemmas 2.4 and 3.3.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> target = amc.targets.Ising(np.ones((4, 4), dtype=int), prior_scale=1.0)
    >>> found = noisy_langevin_errors(
    ...     target, amc.samplers.NoisyLangevin(0.02, n_auxiliary=10), np.linspace(-0.4, 0.8, 13)
    ... )
    >>> bool((found["delta"] <= found["pinsker"]).all() and (found["pinsker"] <= found["lemma_2_4"]).all())
    True
    """
    import xarray as xr

    model, n_auxiliary, variance = _langevin(target, sampler, grid)
    means, law = law_of_the_mean(model, n_auxiliary)
    expected, _ = law_of_the_mean(model, math.inf)
    difference = means[None, :] - expected  # g - g^, shape (n, m)
    V = math.sqrt(variance) * np.abs(difference)
    largest = float(np.abs(model.statistics).max())
    columns = {
        "delta": ("state", _distance_of_mixtures(0.5 * math.sqrt(variance) * difference, law), {"label": RIGOROUS}),
        "pinsker": ("state", 0.25 * (law * V).sum(axis=1), {"label": RIGOROUS}),
        "lemma_2_4": ("state", np.sqrt(0.5 * (law * np.expm1(0.25 * V**2)).sum(axis=1)), {"label": RIGOROUS}),
        "lemma_3_3": hoeffding_langevin_bound(n_auxiliary, variance, largest, dim=1),
    }
    return xr.Dataset(columns, attrs={"variance": variance, "largest_statistic": largest})


@naming_the_arguments
def hoeffding_langevin_bound(n_auxiliary: int, variance: float, largest_statistic: float, *, dim: int = 1) -> float:
    """Return lemma 3.3's bound on the one-step distance, d_v <= sqrt(delta / 2); NaN if N is too small for the lemma.

    Parameters
    ----------
    n_auxiliary
        N.
    variance
        ||Sigma||, the largest eigenvalue of the covariance of a step.
    largest_statistic
        S, the largest absolute value of the model's statistic s(y) over all data y.
    dim
        k, the number of parameters.

    Returns
    -------
    float
        sqrt(((1 - k ||Sigma|| S^2 / (2 N))^(-1/2) - 1) / 2), near S sqrt(k ||Sigma|| / (8 N)) for large N.

    Raises
    ------
    InvalidInputError
        When a number is not positive.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), lemma 3.3; the constant is rederived, see the module.

    Examples
    --------
    >>> round(hoeffding_langevin_bound(1000, 0.02, 24.0), 4)
    0.038
    """
    if not (n_auxiliary >= 1 and variance > 0.0 and largest_statistic > 0.0 and dim >= 1):
        raise InvalidInputError(
            "hoeffding_langevin_bound needs n_auxiliary, dim >= 1, variance > 0 and largest_statistic > 0, found "
            f"{n_auxiliary}, {dim}, {variance}, {largest_statistic}"
        )
    share = dim * variance * largest_statistic**2 / (2.0 * n_auxiliary)
    return math.sqrt(0.5 * math.expm1(-0.5 * math.log1p(-share))) if share < 1.0 else math.nan


class Drift(NamedTuple):
    """E[W(theta')] <= rate W(theta) + constant after a step from theta to theta', with W(theta) = 1 + |theta|."""

    rate: float
    constant: float


@naming_the_arguments
def langevin_drift(variance: float, prior_scale: float, largest_statistic: float) -> Drift:
    """Return r and L of theorem 3.4's drift condition, which holds for ideal and for noisy Langevin, at every N.

    Parameters
    ----------
    variance
        Sigma, the variance of a step; below 4 prior_scale^2.
    prior_scale
        Standard deviation of the normal prior with mean 0.
    largest_statistic
        S, the largest absolute value of the statistic s(y), which moves theta by at most Sigma S in a step.

    Returns
    -------
    Drift
        r and L; see the module.

    Raises
    ------
    InvalidInputError
        When the step is so long that r >= 1, where the theorem does not apply, or a number is out of range.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), theorems 2.2 and 3.4.

    Examples
    --------
    >>> langevin_drift(0.02, 1.0, 24.0).rate
    0.99
    """
    rate = abs(1.0 - variance / (2.0 * prior_scale**2)) if prior_scale > 0.0 else math.inf
    if not (rate < 1.0 and largest_statistic >= 0.0):
        raise InvalidInputError(
            f"langevin_drift needs 0 < variance < 4 prior_scale^2 and largest_statistic >= 0: with variance={variance} "
            f"and prior_scale={prior_scale} the factor of theta is {rate:g}"
        )
    return Drift(rate, 1.0 - rate + variance * largest_statistic + math.sqrt(2.0 * variance / math.pi))


@naming_the_arguments
def langevin_matrix(target: Any, sampler: Any, grid: Any, *, ideal: bool = False) -> np.ndarray:
    """Return the transition matrix of noisy Langevin on an even grid, each row scaled to the sum 1; shape (n, n).

    Parameters
    ----------
    target, sampler, grid
        As for :func:`noisy_langevin_errors`; the prior is normal or flat.
    ideal
        Use the expectation of the statistic in place of the mean of auxiliary draws.

    Raises
    ------
    IncompatibleError
        When the prior is uniform: the sampler does not make steps across its edge, where the prior has no gradient.
    """
    model, n_auxiliary, variance = _langevin(target, sampler, grid)
    if target.prior.bounds is not None:
        raise IncompatibleError(f"langevin_matrix needs a prior that has a gradient everywhere, found {target!r}")
    theta = model.points[:, 0]
    scale = target.prior.normal.scale
    means, law = law_of_the_mean(model, math.inf if ideal else n_auxiliary)
    gradient = model.observed[0] - means - theta[:, None] / scale**2  # (n, m)
    centre = theta[:, None] + 0.5 * variance * gradient
    matrix = np.empty((len(theta), len(theta)))
    for row, (points, weights) in enumerate(zip(centre, law, strict=True)):
        kept = weights > 1e-18
        density = np.exp(-0.5 * (theta[None, :] - points[kept, None]) ** 2 / variance)
        matrix[row] = weights[kept] @ density
    return matrix / matrix.sum(axis=1, keepdims=True)


def _langevin(target: Any, sampler: Any, grid: Any) -> Any:
    """Return the target's model on the grid, and N and Sigma of the `NoisyLangevin` sampler."""
    if isinstance(sampler, ProposalSampler):
        raise IncompatibleError(f"the theory of noisy Langevin is about NoisyLangevin, found {sampler!r}")
    return sampler.draws_law(target, grid_of_points(target, grid))


def _power(law: np.ndarray, count: int) -> np.ndarray:
    """Return the distribution of the sum of `count` >= 1 independent draws from `law`, by repeated doubling."""
    result: np.ndarray | None = None
    while True:
        if count & 1:
            result = law if result is None else np.convolve(result, law)
        count >>= 1
        if not count:
            return result  # type: ignore[return-value]  # count >= 1: a bit was set
        law = np.convolve(law, law)


def _distance_of_mixtures(shifts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Return d_v of sum_k law_k N(shift_k, 1) and N(0, 1) for every row of `shifts` and `law` (n, m); shape (n,)."""
    distances = np.empty(len(law))
    for row, (shift, weights) in enumerate(zip(shifts, law, strict=True)):
        kept = weights > 1e-15
        reach = max(REACH, float(np.abs(shift[kept]).max()) + REACH)
        x = np.linspace(-reach, reach, QUADRATURE)
        normal = np.exp(-0.5 * x**2)
        mixture = weights[kept] @ np.exp(-0.5 * (x[None, :] - shift[kept, None]) ** 2)
        distances[row] = 0.5 * np.abs(mixture - normal).sum() * (x[1] - x[0]) / math.sqrt(2.0 * math.pi)
    return distances
