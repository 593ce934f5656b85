"""Steps of central differences: a thousandth of the scale on which a typical term bends, in each coordinate."""

from collections.abc import Callable

import numpy as np

from approxmcmc.errors import NotFiniteError

# Step of differences, as a share of the scale on which a typical term bends. Second differences are then right to about
# 1e-7.
RELATIVE_STEP = 1e-3


def difference_steps(
    log_likelihood: Callable[[np.ndarray], float], theta: np.ndarray, n_obs: int, who: str
) -> np.ndarray:
    """Return the step of each coordinate around theta; `log_likelihood` is the sum of `n_obs` terms.

    A coordinate in which the sum does not visibly bend has the step max(1, abs(theta_j)) / 1000, made ten times shorter
    until the log-likelihood is finite on both sides.

    Raises
    ------
    NotFiniteError
        If no step that is tried gives finite log-likelihoods; the message names `who`.
    """
    middle = log_likelihood(theta)
    steps = np.empty(len(theta))
    for j in range(len(theta)):
        step = RELATIVE_STEP * max(1.0, abs(theta[j]))
        for _ in range(8):
            shift = np.zeros(len(theta))
            shift[j] = step
            bend = abs(log_likelihood(theta + shift) - 2.0 * middle + log_likelihood(theta - shift))
            if np.isfinite(bend):
                visible = bend > 1e-10 * (1.0 + abs(middle))
                steps[j] = step * RELATIVE_STEP * np.sqrt(n_obs / bend) if visible else step
                break
            step *= 0.1  # over the edge of the support
        else:
            raise NotFiniteError(f"{who}: the log-likelihood is not finite around theta = {theta}; start elsewhere")
    return steps
