"""Errors of a sequential test that stops early at a tie, or by tolerance near a tie.

At a tie (mu = mu_0) a stop before the last look claims a difference that does not exist. The probability of such a stop
is the Type-I error over all looks. A test with ``tol > 0`` also stops once the standard error of the log ratio is at
most `tol`. Such a decision is near a tie and may well be wrong; the recursion in `bridge` gives the probability of this
error.

Reference: Pocock (1977), Group sequential methods in the design and analysis of clinical trials.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.bridge import schedule, stopped_early
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.errors import InvalidInputError


def type_one_error(
    *,
    epsilon: float,
    batch_size: int,
    n_obs: int,
    growth: float = 1.0,
    thresholds: str = "student",
    boundary_shape: float = 0.5,
) -> float:
    """Return the probability that any look before the last stops the test at a tie, mu = mu_0.

    With z_j the statistic and G_j the critical value of look j of J, it is P(some |z_j| > G_j, j < J | mu_std = 0).
    With ``thresholds="normal"`` and ``boundary_shape=0.5`` it is ``2 epsilon`` if there is one early look, and larger
    if there are more: each is another chance to stop.

    Examples
    --------
    >>> round(type_one_error(epsilon=0.01, batch_size=500, n_obs=10_000, thresholds="normal"), 4)
    0.1676
    """
    fractions, limits = schedule(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    if epsilon == 0.0 or limits.size == 0:
        return 0.0
    error, _ = stopped_early(np.zeros(1), fractions, limits)
    return 2.0 * float(error[0])


def epsilon_for_type_one_error(
    type_one_error: float,
    *,
    batch_size: int,
    n_obs: int,
    growth: float = 1.0,
    thresholds: str = "student",
    boundary_shape: float = 0.5,
) -> float:
    """Return the `epsilon` whose test has the wanted Type-I error over all its looks, as Pocock (1977) proposed.

    Parameters
    ----------
    type_one_error
        Wanted probability of an early stop at a tie, from 0 (gives ``epsilon=0``) to 1 (gives ``epsilon=0.5``).
    batch_size, n_obs, growth, thresholds, boundary_shape
        The schedule, as in `sequential_test_error`.

    Returns
    -------
    float
        The `epsilon`, to nine digits.

    Raises
    ------
    InvalidInputError
        When `type_one_error` is outside [0, 1], or positive for a schedule with a single look.

    Examples
    --------
    >>> round(epsilon_for_type_one_error(0.05, batch_size=500, n_obs=10_000), 5)
    0.00249
    """
    from scipy.optimize import brentq

    error_goal = type_one_error
    if not 0.0 <= error_goal <= 1.0:
        raise InvalidInputError(f"type_one_error must lie between 0 and 1, found {error_goal!r}.")
    n_early = len(look_sizes(n_obs, batch_size, growth)) - 1
    if error_goal == 0.0:
        return 0.0
    if n_early == 0:
        raise InvalidInputError(
            f"a test with batch_size={batch_size} reads all n_obs={n_obs} terms at its only look, so its Type-I error "
            f"is 0 and cannot be {error_goal!r}; ask for 0 or choose a smaller batch_size."
        )

    def excess(log_epsilon: float) -> float:
        fractions, limits = schedule(math.exp(log_epsilon), batch_size, n_obs, growth, thresholds, boundary_shape)
        return 2.0 * float(stopped_early(np.zeros(1), fractions, limits)[0][0]) - error_goal

    # By the union bound over the early looks the root is not below the lower end. At the upper end, epsilon = 0.5, the
    # first look always stops the test.
    lower = math.log(error_goal / (2.0 * n_early)) - 1e-6
    return math.exp(brentq(excess, lower, math.log(0.5), xtol=1e-10, rtol=1e-10))


def tolerance_stop_error(
    mu_std: Any,
    look: int,
    *,
    epsilon: float,
    batch_size: int,
    n_obs: int,
    growth: float = 1.0,
    thresholds: str = "student",
    boundary_shape: float = 0.5,
) -> np.ndarray:
    """Return the probability that a decision which stopped by tolerance is wrong, in the Gaussian regime.

    In this regime the look at which ``tol`` stops a test depends on the population of terms alone, not on the sample.
    At this look the statistic z is within the critical value, and the test decides by the sign of z. The error is
    P(z < 0 | the t-test did not stop at this look or before, mu_std > 0).

    Parameters
    ----------
    mu_std
        Standardised distance, as in `sequential_test_error`.
    look
        Index of the look in `look_sizes`, from 0; not the last look.
    epsilon, batch_size, n_obs, growth, thresholds, boundary_shape
        The test, as in `sequential_test_error`.

    Examples
    --------
    >>> tolerance_stop_error([0.0, 2.0], 0, epsilon=0.05, batch_size=500, n_obs=1000).round(3).tolist()
    [0.5, 0.062]
    """
    distance = np.abs(np.asarray(mu_std, dtype=np.float64))
    fractions, limits = schedule(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    fractions = np.append(fractions[: look + 1], 1.0)
    limits = limits[: look + 1]
    wrong, used = stopped_early(distance.ravel(), fractions, limits)
    wrong_by_sign, used_by_sign = stopped_early(distance.ravel(), fractions, np.append(limits[:-1], 0.0))
    stopped = (used - used_by_sign) / (1.0 - fractions[look])
    # Far from the threshold both probabilities are 0: no test stops there by tolerance, so there is no error.
    error = np.divide(wrong_by_sign - wrong, stopped, out=np.zeros_like(stopped), where=stopped > 1e-12)
    return np.clip(error, 0.0, 0.5).reshape(distance.shape)
