"""What a stop by tolerance costs: the error of a decision that gave up on a tie.

A sequential test with ``tol > 0`` also stops once the log ratio is known to within `tol`. Such a decision is near a tie
and may well be wrong; how often, the recursion of the test's law says.
"""

from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.bridge import schedule, stopped_early


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

    The look at which ``tol`` stops a test depends on its population alone, not on its sample. There the test knows
    abs(z) <= G and decides by the sign of z: P(z < 0 | no stop before or there by the t-test, mu_std > 0).

    Parameters
    ----------
    mu_std
        Standardised distance, as in `sequential_test_error`.
    look
        Place of the look in `look_sizes`, from 0; not the last.
    epsilon, batch_size, n_obs, growth, thresholds, boundary_shape
        The test, as in `sequential_test_error`.

    Examples
    --------
    >>> tolerance_stop_error([0.0, 2.0], 0, epsilon=0.05, batch_size=500, n_obs=1000).round(3).tolist()
    [0.5, 0.062]
    """
    distance = np.abs(np.asarray(mu_std, dtype=np.float64))
    fractions, limits = schedule(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    fractions, limits = np.append(fractions[: look + 1], 1.0), limits[: look + 1]
    wrong, used = stopped_early(distance.ravel(), fractions, limits)
    wrong_by_sign, used_by_sign = stopped_early(distance.ravel(), fractions, np.append(limits[:-1], 0.0))
    stopped = (used - used_by_sign) / (1.0 - fractions[look])
    # Far from the threshold both are 0: no test stops there by tolerance, and none would err.
    error = np.divide(wrong_by_sign - wrong, stopped, out=np.zeros_like(stopped), where=stopped > 1e-12)
    return np.clip(error, 0.0, 0.5).reshape(distance.shape)
