"""The exact test: all N terms, every time.

Lambda = c + sum_i [log p(x_i|theta') - log p(x_i|theta)], accept iff the threshold lies below Lambda. The
log-likelihood at the current theta is cached, so that a decision costs N evaluations, not 2N. It is the baseline
that every approximate test is measured against, and reads its data in memory order at the full speed of the machine.
"""

import dataclasses
import math

import numpy as np

from approxmcmc.acceptance.rules import RULES
from approxmcmc.contracts import COUNT_NAMES, AcceptanceTest, Part, Target
from approxmcmc.engine.batches import sum_terms
from approxmcmc.errors import InvalidInputError

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")


def _decide(  # type: ignore[no-untyped-def]  # bound into a chain template, which fixes the types
    rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, state, count, value
):
    total = sum_terms(log_terms, proposed, data, order[0], n_obs, work[1])
    count[TOUCHED] += n_obs
    count[EVALUATIONS] += n_obs
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    if not total < math.inf:  # NaN, or a density that no data can have
        return -1, 0.0
    log_ratio = log_rest + (total - state[0])
    if threshold < log_ratio:
        state[0] = total
        return 1, log_ratio
    return 0, log_ratio


@dataclasses.dataclass(frozen=True, eq=False)
class ExactTest(AcceptanceTest):
    """Accept or reject on all data; with any proposal of known density ratio the chain leaves the posterior invariant.

    Parameters
    ----------
    rule
        ``"metropolis"``: accept with probability min(1, exp(Lambda)). ``"barker"``: 1 / (1 + exp(-Lambda)), which
        accepts less often; its asymptotic variance is between that of Metropolis and twice that plus the posterior
        variance.

    Notes
    -----
    Guarantee: exact. Cost: N evaluations per step, plus N once at the start (booked as set-up).

    References
    ----------
    Metropolis et al. (1953); Hastings (1970); Barker (1965).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    MetropolisHastings(proposal=RandomWalk(scale=0.1, target_acceptance=None), test=ExactTest(rule='metropolis'))
    """

    rule: str = "metropolis"

    def __post_init__(self) -> None:
        """Check the rule's name."""
        if self.rule not in RULES:
            raise InvalidInputError(f"ExactTest: rule must be one of {sorted(RULES)}, found {self.rule!r}")

    @property
    def is_exact(self) -> bool:
        """It is."""
        return True

    def build_test(self, target: Target) -> Part:
        """Return the part that decides on all data. Its state is the log-likelihood at the current theta."""
        constants = {"USES_RATIO": True, "CACHES_LIKELIHOOD": True, "AUDITED": False}
        return Part({"TEST": _decide, **RULES[self.rule], **constants}, (0.0,), lambda: np.full(1, np.nan))
