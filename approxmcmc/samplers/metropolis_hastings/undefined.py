"""An undefined log density or gradient at a proposal: one far beyond the posterior, or a fault of the model.

exp(eta) overflows beyond eta = 709, and what is computed of it further on is inf - inf: NaN. A long step may get there,
from any state, and the density there is 0 for all that a double can tell. A function with a fault is NaN where the
density is not small. What tells the two apart is the way from theta to theta'. It is bisected for the place where the
density becomes undefined, and theta' is *out of reach* if

    log pi(theta + s (theta' - theta) | x) < log pi(theta | x) - 745    for some s in (0, 1] that is looked at:

the density has fallen to less than the smallest positive double, relative to that at theta. A proposal out of reach is
rejected and counted; any other ends the chain. No random number is drawn for this, and a step that meets nothing
undefined pays nothing.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import log_likelihood_at

OUT_OF_REACH = 745.0  # nats: exp(-745) is the smallest positive double
BISECTIONS = 60  # the last of them are the rounding of s


@compiled
def log_density_at(state: Any, point: np.ndarray, count: np.ndarray) -> float:
    """Return log prior + log-likelihood on all data."""
    count[EVALUATIONS] += state.prior_rows
    log_prior = state.log_prior_of(point)
    if log_prior == -math.inf:
        return log_prior
    count[EVALUATIONS] += state.evidence.n_obs
    return log_prior + log_likelihood_at(state.evidence, point, state.evidence.as_they_lie)


@compiled
def is_out_of_reach(state: Any, count: np.ndarray) -> bool:
    """Return whether the density falls to nothing before it becomes undefined, on the way to ``state.proposed``."""
    theta, proposed, point = state.theta, state.proposed, state.point
    for j in range(theta.shape[0]):
        if not math.isfinite(proposed[j]):  # the gradient at theta is at fault
            return False
    count[TOUCHED] += state.evidence.n_obs
    nothing = log_density_at(state, theta, count) - OUT_OF_REACH
    defined, undefined, s = 0.0, 1.0, 1.0
    for _ in range(BISECTIONS):
        for j in range(theta.shape[0]):
            point[j] = theta[j] + s * (proposed[j] - theta[j])
        found = log_density_at(state, point, count)
        if found < nothing:
            return True
        if not found < math.inf:
            undefined = s
        elif s == 1.0:  # theta' has a density: the gradient there, or the proposal, is at fault
            return False
        else:
            defined = s
        s = 0.5 * (defined + undefined)
    return False
