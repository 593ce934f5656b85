"""How often a sequential test claims a difference at a tie, and the epsilon that keeps this at a wanted rate.

Reference: Pocock (1977), Group sequential methods in the design and analysis of clinical trials.
"""

import math

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
    """Return the probability that any look before the last stops the test when mu = mu_0.

    At a tie an early stop claims a difference that is not there: P(some |z_j| > G_j, j < J | mu_std = 0). It exceeds
    the ``2 epsilon`` of one look because every look is another chance.

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
    """Return the `epsilon` whose test has the wanted Type-I error over all its looks: the Pocock (1977) boundary.

    Parameters
    ----------
    type_one_error
        Wanted probability of an early stop at a tie; 0 (gives ``epsilon=0``) to 1 (gives 0.5).
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

    wanted = type_one_error
    if not 0.0 <= wanted <= 1.0:
        raise InvalidInputError(f"type_one_error must lie between 0 and 1, found {wanted!r}.")
    n_early = len(look_sizes(n_obs, batch_size, growth)) - 1
    if wanted == 0.0:
        return 0.0
    if n_early == 0:
        raise InvalidInputError(
            f"a test with batch_size={batch_size} reads all n_obs={n_obs} terms at its only look, so its Type-I error "
            f"is 0 and cannot be {wanted!r}; ask for 0 or choose a smaller batch_size."
        )

    def excess(log_epsilon: float) -> float:
        fractions, limits = schedule(math.exp(log_epsilon), batch_size, n_obs, growth, thresholds, boundary_shape)
        return 2.0 * float(stopped_early(np.zeros(1), fractions, limits)[0][0]) - wanted

    # The union bound over the early looks makes the lower end safe; one look in the middle makes the upper end certain.
    lower = math.log(wanted / (2.0 * n_early)) - 1e-6
    return math.exp(brentq(excess, lower, math.log(0.5), xtol=1e-10, rtol=1e-10))
