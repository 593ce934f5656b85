"""A proposal with an undefined density: rejected if it is out of reach of the distribution, otherwise the chain ends.

A log density that is NaN or +inf, or a ratio that is NaN, may be an error in the model, or an overflow of a step that
was much too long. To find out which, the line from theta to theta' is bisected for the point where the density becomes
undefined. If the log density falls by over 745 nats before that point, the ratio of densities is less than the smallest
double, and theta' is rejected exactly as if its density were 0. If no such fall is found, the density is undefined
where the chain may go, and the chain ends: rejecting would sample another distribution without a word.

Samplers whose density cannot be evaluated, because it is estimated or has an unknown normaliser, cannot search: their
chains end.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts.records import EVALUATIONS, OUT_OF_REACH, TOUCHED
from approxmcmc.engine.compiler.compile import compiled

LARGEST_FALL = 745.0  # nats: exp(-745) is the smallest positive double
BISECTIONS = 60  # enough to reach the rounding of s


def evaluations_to_reject(log_density: Callable[[np.ndarray], float], theta: np.ndarray, proposed: np.ndarray) -> int:
    """Return how many densities were evaluated on the way from theta to `proposed` until one was negligible.

    0 if none was. The count includes the density at theta.
    """
    if not np.isfinite(proposed).all():  # the gradient at theta is wrong
        return 0
    nothing = log_density(theta) - LARGEST_FALL
    defined = 0.0
    undefined = 1.0
    s = 1.0
    for bisection in range(BISECTIONS):
        density = log_density(theta + s * (proposed - theta))
        if density < nothing:
            return bisection + 2  # with those at theta and at this point
        if not density < math.inf:
            undefined = s
        elif s == 1.0:  # theta' has a density: the gradient there, or the proposal, is wrong
            return 0
        else:
            defined = s
        s = 0.5 * (defined + undefined)
    return 0


@compiled
def is_out_of_reach(to_reject: Callable[[], int], n_rows: int, prior_rows: int, count: np.ndarray) -> bool:
    """Return whether an undecided proposal is out of reach, and count it with the rows that the search evaluated.

    ``to_reject()`` is `evaluations_to_reject` for the current theta and theta', a `PythonCall`. Each evaluation reads
    `n_rows` rows of the data for the likelihood, and `prior_rows` for the prior.
    """
    evaluations = to_reject()
    if evaluations == 0:
        return False
    count[OUT_OF_REACH] += 1
    count[TOUCHED] += n_rows
    count[EVALUATIONS] += evaluations * (prior_rows + n_rows)
    return True
