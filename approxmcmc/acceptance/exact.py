"""The exact test: read all N terms in every decision.

With Lambda = c + sum_i [log p(x_i|theta') - log p(x_i|theta)], c the log ratio of prior and proposal, accept iff the
threshold lies below Lambda. The log-likelihood at the current theta is cached, so a decision costs N evaluations, not
2N. The test reads the data in memory order.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, decision_on, log_ratio_of
from approxmcmc.acceptance.rules import RULES
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Population, Target
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import Evidence, log_likelihood_at
from approxmcmc.errors import IncompatibleError, InvalidInputError


class KeptLikelihood(NamedTuple):
    """The log-likelihood at the current theta, one number."""

    log_likelihood: np.ndarray


def nothing_kept() -> KeptLikelihood:
    """Return the test's state before the chain starts: the log-likelihood is NaN."""
    return KeptLikelihood(np.full(1, math.nan))


@compiled
def decide(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: KeptLikelihood,
    count: np.ndarray,
    value: np.ndarray,
) -> tuple[int, float]:
    """Sum all terms at theta', and accept if the threshold is below the log ratio; the sum at theta is cached.

    Return ACCEPT, REJECT or UNDECIDED, see `metropolis`, and the log ratio.
    """
    total = log_likelihood_at(evidence, evidence.proposed, evidence.order.places)
    count[TOUCHED] += evidence.n_obs
    count[EVALUATIONS] += evidence.n_obs
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    log_ratio = log_ratio_of(log_rest, test.log_likelihood[0], total)
    decision = decision_on(threshold, log_ratio)
    if decision == ACCEPT:
        test.log_likelihood[0] = total
    return decision, log_ratio


@compiled
def kept_log_likelihood(test: KeptLikelihood) -> float:
    """Return the log-likelihood at the current theta."""
    return test.log_likelihood[0]


@compiled
def keep_log_likelihood(test: KeptLikelihood, total: float) -> None:
    """Store the log-likelihood at the current theta."""
    test.log_likelihood[0] = total


@dataclasses.dataclass(frozen=True, eq=False)
class ExactTest(AcceptanceTest):
    """Accept or reject on all data; with any proposal of known density ratio the chain leaves the posterior invariant.

    Parameters
    ----------
    rule
        ``"metropolis"``: accept with probability min(1, exp(Lambda)). ``"barker"``: accept with probability 1 / (1 +
        exp(-Lambda)), which is smaller. Barker's asymptotic variance is at least Metropolis's asymptotic variance V,
        and at most 2 V plus the posterior variance.

    Notes
    -----
    Guarantee: exact. Cost: N evaluations per decision, plus N once at the start (booked as set-up).

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
    def sums_all_terms(self) -> bool:
        """True: it sums all terms, and caches the sum at the current theta."""
        return True

    @property
    def only_compares(self) -> bool:
        """True: it compares the log ratio with the threshold."""
        return True

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test on all data. Its state is the log-likelihood at the current theta."""
        return CompiledTest(
            decide,
            nothing_kept,
            RULES[self.rule].threshold,
            RULES[self.rule].probability,
            log_likelihood=kept_log_likelihood,
            keep_log_likelihood=keep_log_likelihood,
            is_audited=False,
        )


def exact_twin_of(test: AcceptanceTest) -> ExactTest:
    """Return the exact test with the same rule as another test.

    Raises
    ------
    IncompatibleError
        When the other test's temperature is not 1, so that its chain samples a tempered posterior.
    """
    if test.temperature != 1.0:
        raise IncompatibleError(
            f"{test!r} divides the log-likelihood by {test.temperature:g} and so targets a tempered posterior, "
            "unlike its exact twin; use temperature 1"
        )
    return ExactTest(test.rule)
