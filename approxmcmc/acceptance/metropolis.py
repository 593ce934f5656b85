r"""One Metropolis decision, given its random numbers: the log ratio of two states, and the answer.

With theta' proposed and the threshold T = log u (or Barker's logit u) drawn,

    Lambda = c + log p(theta') - log p(theta),        accept iff T < Lambda,

c the part of the log ratio that is known before these densities: the log q ratio, then the priors as well. Every
decision of the library between two states is made by these two functions: steps and their couplings, Firefly's updates,
moves on a surrogate, slices.

This module has the one rule for densities that are 0 or undefined:

1. log p(theta') = -inf: Lambda is -inf, a rejection, whatever the other numbers. Outside the support a gradient may be
   undefined, and with it the q ratio; and a chain that starts where p(theta) = 0 must not move to another such state.
2. log p(theta') = +inf: Lambda is NaN, because no chain would ever leave theta'.
3. Lambda is NaN: the decision is UNDECIDED, neither an acceptance nor a rejection. A comparison with NaN is False, and
   would reject without a word where the model has an error. The step then finds out whether theta' is out of reach
   (`acceptance/out_of_reach.py`): if so it rejects, otherwise the chain ends.

Lambda = +inf is an acceptance: it means p(theta) = 0, where a chain may start.
"""

import math

from approxmcmc.engine.compiler.compile import compiled

REJECT = 0
ACCEPT = 1
UNDECIDED = -1


@compiled
def log_ratio_of(log_rest: float, here: float, there: float) -> float:
    """Return Lambda = log_rest + there - here, by rules 1 and 2 of the module.

    `here` and `there` are log p(theta) and log p(theta'), of a prior, a likelihood, an estimate or a joint density;
    `log_rest` is c, the rest of the log ratio.
    """
    if math.isinf(there):
        return -math.inf if there < 0.0 else math.nan
    return log_rest + (there - here)


@compiled
def decision_on(threshold: float, log_ratio: float) -> int:
    """Return ACCEPT if the threshold is below the log ratio, REJECT if not, UNDECIDED if the log ratio is NaN.

    Both arguments may be transformed by one increasing function, such as u and the acceptance probability.
    """
    if threshold < log_ratio:
        return ACCEPT
    return UNDECIDED if math.isnan(log_ratio) else REJECT
