"""An undefined log density or gradient at a proposal: a proposal far beyond the posterior, or an error in the model.

exp(eta) overflows beyond eta = 709, and further computations give inf - inf: NaN. A long step may get there from any
state, and the density there is numerically 0. A function with an error is NaN where the density is not small. The path
from theta to theta' separates the two cases. It is bisected for the place at which the density becomes undefined, and
theta' is *out of reach* if

    log pi(theta + s (theta' - theta) | x) < log pi(theta | x) - 745    for some s in (0, 1] that is looked at:

the density has fallen to less than the smallest positive double, relative to that at theta. A proposal out of reach is
rejected and counted; any other ends the chain. No random number is drawn for this, and a step without undefined values
has no extra cost: the check runs in Python, so that chains are not compiled with code that is hardly ever needed.
"""

import math
from collections.abc import Callable

import numpy as np

OUT_OF_REACH = 745.0  # nats: exp(-745) is the smallest positive double
BISECTIONS = 60  # enough to reach the rounding of s


def looks_to_reject(log_density: Callable[[np.ndarray], float], theta: np.ndarray, proposed: np.ndarray) -> int:
    """Return the number of densities evaluated on the way to `proposed` until one is negligible; 0 if none is.

    The count includes the density at theta.
    """
    if not np.isfinite(proposed).all():  # the gradient at theta is wrong
        return 0
    nothing = log_density(theta) - OUT_OF_REACH
    defined, undefined, s = 0.0, 1.0, 1.0
    for look in range(BISECTIONS):
        found = log_density(theta + s * (proposed - theta))
        if found < nothing:
            return look + 2
        if not found < math.inf:
            undefined = s
        elif s == 1.0:  # theta' has a density: the gradient there, or the proposal, is wrong
            return 0
        else:
            defined = s
        s = 0.5 * (defined + undefined)
    return 0
