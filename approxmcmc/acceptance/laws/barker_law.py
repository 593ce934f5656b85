"""The minibatch Barker test's acceptance probability, and a bound of its distance from Barker's rule.

Let X be the terms standardised by their mean and standard deviation, b the number of data read, S the logistic
function, and Delta, Delta*, X_nc and X_corr as in `barker_decision`. The theorem of Berry and Esseen bounds the error
of the test,

    sup_y |P(Delta* + X_nc + X_corr < y) - S(y - Delta)| <= (6.4 E|X|^3 + 2 E|X|) / sqrt(b) + (error of the correction).

The constants are those of the theorem for Student's statistic. The bound holds for terms drawn independently and for a
number b that does not depend on them; it is loose: 0.1 takes 13 900 normal terms.

Given the data read, the acceptance probability is a sum of normal distribution functions, one for each atom of the
correction distribution; if all N data are read, it is Barker's probability. In the Gaussian regime Delta* + X_nc is
N(Delta, sigma^2), however many data the test reads.

Reference: Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI,
section 5.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from approxmcmc.acceptance.laws.correction import CorrectionDistribution
from approxmcmc.acceptance.laws.probability import Order, exact_probability, mean_over_orders
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.moments import kurtosis
from approxmcmc.errors import InvalidInputError

THIRD_MOMENT = 6.4
FIRST_MOMENT = 2.0


@naming_the_arguments
def minibatch_barker_error_bound(terms: Any, batch_size: Any, *, correction_error: float = 0.0) -> Any:
    """Return an upper bound of the error of any acceptance probability of the minibatch Barker test.

    Parameters
    ----------
    terms
        Log-likelihood differences l_i = log p(x_i|theta') - log p(x_i|theta), of all data or a large sample of them;
        shape (n,). They are standardised here: location and scale do not matter.
    batch_size
        Number b of data read; a number or an array.
    correction_error
        Sup-error of the correction distribution.

    Returns
    -------
    float or np.ndarray
        The bound, with the shape of `batch_size`; from 1 on it says nothing.

    Raises
    ------
    InvalidInputError
        When terms are not finite, all equal, or fewer than two, or a batch size is not positive.

    Notes
    -----
    For normal terms the bound is 11.81 / sqrt(b). It bounds the error of the acceptance probability at this pair of
    states; a bound for all pairs also bounds, from any state, the total variation distance between a step with this
    test and a step with Barker's exact rule.

    References
    ----------
    Seita, Pan, Chen and Canny (2017), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> bound = minibatch_barker_error_bound(np.random.default_rng(0).normal(size=100_000), [100, 14_000])
    >>> bound.round(2).tolist()
    [1.18, 0.1]
    """
    terms = np.asarray(terms, dtype=np.float64)
    sizes = np.asarray(batch_size, dtype=np.float64)
    if terms.ndim != 1 or terms.size < 2 or not np.isfinite(terms).all() or not np.ptp(terms) > 0.0:
        raise InvalidInputError(
            f"minibatch_barker_error_bound: terms must be two or more finite numbers, not all equal, in one axis; "
            f"found shape {terms.shape}"
        )
    if not (sizes > 0.0).all():
        raise InvalidInputError(f"minibatch_barker_error_bound: batch_size must be positive, found {batch_size!r}")
    X = np.abs(terms - terms.mean()) / terms.std()
    bound = (THIRD_MOMENT * (X**3).mean() + FIRST_MOMENT * X.mean()) / np.sqrt(sizes) + correction_error
    return bound if sizes.ndim else float(bound)


@compiled
def bound_from_moments(moments: np.ndarray, correction_error: float) -> float:
    """Return `minibatch_barker_error_bound` for the terms read, with upper bounds in place of E|X|^3 and E|X|.

    These bounds are sqrt(E X^4) and 1 (Cauchy and Schwarz), because `moments` holds no absolute moments. For normal
    terms they make the result 11 percent larger.
    """
    spread = THIRD_MOMENT * math.sqrt(max(kurtosis(moments), 1.0)) + FIRST_MOMENT
    return spread / math.sqrt(moments[0]) + correction_error


LEAST_SPREAD = 1e-6  # smallest standard deviation used for the normal part: its distribution function is almost a step


def enumerated_probability(
    differences: np.ndarray,
    log_rest: np.ndarray,
    looks: np.ndarray,
    *,
    target_variance: float,
    correction: CorrectionDistribution,
    rule: str,
) -> np.ndarray:
    """Return the acceptance probability of each pair, shape (pairs,): the mean over all ways to draw the `looks`.

    `differences` (pairs, N) holds the terms log p(x_i|theta') - log p(x_i|theta), `log_rest` (pairs,) the log ratios of
    prior and proposal.
    """
    n_obs = differences.shape[1]

    def given(order: Order) -> np.ndarray:
        accepted = np.full(len(differences), np.nan)
        seen: tuple[int, ...] = ()
        for new in order:
            seen += new
            n = len(seen)
            part = differences[:, list(seen)]
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
    """Return the acceptance probability at each (log_ratio, tau), in the Gaussian regime of `contracts.acceptance`."""
    smooth = np.zeros(log_ratio.shape)
    for atom, weight in zip(correction.atoms, correction.weights, strict=True):
        smooth += weight * ndtr((log_ratio + atom) / correction.sigma)
    # the last look before all data are read
    n_obs = int(looks[-1])
    last = int(looks[-2])
    stops_early = tau**2 * (1.0 / last - 1.0 / n_obs) * n_obs < target_variance
    return np.where(stops_early, smooth, exact_probability(log_ratio, rule))
