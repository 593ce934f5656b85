"""Delayed acceptance: evaluate the cheap part of the ratio first, and the data only if it accepts.

A proposal is accepted with probability min(1, e^c) alpha_2. Here c is the log of the cheap part of the ratio, l_i =
log p(x_i|theta') - log p(x_i|theta), and alpha_2 the acceptance probability of any rule that balances the terms,
alpha_2(theta, theta') / alpha_2(theta', theta) = e^{sum l_i}. Each factor satisfies detailed balance for its part of
the ratio, so the product satisfies it too.

References: Christen and Fox (2005), Markov Chain Monte Carlo Using an Approximation; Banterle, Grazian, Lee and Robert
(2019), Accelerating Metropolis-Hastings Algorithms by Delayed Acceptance.
Cornish, Vanetti, Bouchard-Cote, Deligiannidis and Doucet (2019), Scalable Metropolis-Hastings for Exact Bayesian
Inference with Large Datasets, ICML: the second stage is a product of factors, one for each datum.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.acceptance.thinning import ThinnedTest
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.contracts.records import DECISIONS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.errors import IncompatibleError

if TYPE_CHECKING:
    import xarray as xr


class DelayedState(NamedTuple):
    """The state of the second stage."""

    second: Any


@cached_by_content(maxsize=16)
def make_decide(
    decide: Callable[..., tuple[int, float]], draw_threshold: Callable[..., float], probability: Callable[..., float]
) -> Callable[..., tuple[int, float]]:
    """Return the decision in two stages: first on `log_rest` alone, then by `decide` on the terms alone.

    ``draw_threshold(rng)`` draws the threshold of the second stage, ``probability(log_ratio)`` is its acceptance
    probability. Instead of the log ratio the decision returns the log of the second stage's acceptance probability;
    -inf if the first stage rejects.
    """

    def decide_in_two_stages(
        rng: np.random.Generator,
        evidence: Evidence,
        threshold: float,
        log_rest: float,
        test: DelayedState,
        count: np.ndarray,
        value: np.ndarray,
    ) -> tuple[int, float]:
        if not threshold < log_rest:
            count[DECISIONS] += 1
            return 0, -math.inf
        answer, log_ratio = decide(rng, evidence, draw_threshold(rng), 0.0, test.second, count, value)
        accepted = probability(log_ratio) if answer >= 0 else 0.0
        return answer, (math.log(accepted) if accepted > 0.0 else -math.inf)

    return compiled(decide_in_two_stages)


@cached_by_content(maxsize=16)
def make_kept(log_likelihood: Callable[..., float]) -> Callable[..., float]:
    """Return the function that reads the log-likelihood cached by the second stage."""

    def kept(test: DelayedState) -> float:
        return log_likelihood(test.second)

    return compiled(kept)


@cached_by_content(maxsize=16)
def make_keep(keep: Callable[..., None]) -> Callable[..., None]:
    """Return the function that stores the log-likelihood at a chain's start in the second stage."""

    def keep_in_second(test: DelayedState, total: float) -> None:
        keep(test.second, total)

    return compiled(keep_in_second)


def delayed(second: CompiledTest) -> CompiledTest:
    """Return the compiled test in two stages: prior, expansion and proposal first, then the test `second`."""
    tells = second.log_likelihood
    keeps = second.keep_log_likelihood
    return second._replace(
        decide=make_decide(second.decide, second.threshold, second.probability),
        make_state=lambda: DelayedState(second.make_state()),
        threshold=METROPOLIS.threshold,
        probability=METROPOLIS.probability,
        audit=None,
        log_likelihood=None if tells is None else make_kept(tells),
        keep_log_likelihood=None if keeps is None else make_keep(keeps),
        is_audited=False,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class DelayedAcceptance(AcceptanceTest):
    r"""Delayed acceptance (DA): decide on prior, expansion and proposal first, and only then on the terms, by a test.

    Parameters
    ----------
    test
        The second stage: :class:`ExactTest`, :class:`PoissonTest`, :class:`SequentialTTest` or another one.

    Raises
    ------
    IncompatibleError
        When `test` is not an acceptance test, uses no ratio, or changes during the run.

    Notes
    -----
    .. math:: \alpha = \min\left(1, e^{c}\right) \alpha_2, \qquad
              c = \log\frac{S(\theta')\, q(\theta \mid \theta')}{S(\theta)\, q(\theta' \mid \theta)},

    S is the part evaluated first: with :class:`ControlVariate` the expanded posterior, on plain
    targets only the prior, which helps little. :math:`\alpha_2` is the probability of the second test, on the terms
    only.

    Guarantee: exact if the second stage is exact; otherwise only the errors of the second stage's decisions matter. The
    product is at most Metropolis's acceptance probability, so the chain mixes more slowly than with the second test
    alone; it skips the second stage for proposals that the first one rejects. Decisions are not audited, because the
    second stage has its own threshold. With :class:`PoissonTest` it is the algorithm of Prado, Nemeth and Sherlock
    (2024).

    References
    ----------
    Christen and Fox (2005); Banterle, Grazian, Lee and Robert (2019).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.RandomWalk(0.1), amc.acceptance.DelayedAcceptance(amc.ExactTest())).test
    DelayedAcceptance(test=ExactTest(rule='metropolis'))
    """

    test: Any

    def __post_init__(self) -> None:
        """Raise unless the second stage is a test that computes the ratio and stays the same during the run."""
        if not (isinstance(self.test, AcceptanceTest) and self.test.uses_ratio and self.test.is_homogeneous):
            raise IncompatibleError(
                "DelayedAcceptance: the second stage must be one test of the ratio, such as ExactTest() or "
                f"PoissonTest(), found {self.test!r}"
            )

    @property
    def order(self) -> str:
        """How the second stage draws subsets."""
        return self.test.order

    @property
    def batch_size(self) -> int:
        """Number of data that the first look of the second stage reads."""
        return int(self.test.batch_size)

    @property
    def temperature(self) -> float:
        """The number by which the second stage divides the log-likelihood."""
        return self.test.temperature

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms the second stage has read at each of its looks."""
        return self.test.looks(n_obs)

    def reads_all(self, n_obs: int) -> bool:
        """Return False: a proposal that the first stage rejects is decided without reading terms."""
        return False

    def why_not_invariant(self, n_obs: int) -> str:
        """Return the second stage's reason: the first stage satisfies detailed balance for everything but the terms."""
        why: str = self.test.why_not_invariant(n_obs)
        return why

    def with_independent_subsets(self) -> "DelayedAcceptance":
        """Return the same two stages, but every decision draws its own subset (``order="rows"``); none share blocks."""
        return dataclasses.replace(self, test=self.test.with_independent_subsets())

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return the second stage's warnings; without audits, those about wrong decisions never appear."""
        return self.test.problems(stats)

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test with its two stages."""
        if not target.same_terms:  # the conditionals of Gibbs consist only of terms
            raise IncompatibleError(f"DelayedAcceptance works with MetropolisHastings; give Gibbs {self.test!r} itself")
        return delayed(self.test.build_test(target))


@compiled
def veto_rate(bound: float, difference: float, w: float) -> float:
    """Return max(0, -D), the rate of `FactorizedTest`, D = `difference`; `bound` and `w` are not used."""
    return max(0.0, -difference)


@dataclasses.dataclass(frozen=True, eq=False)
class FactorizedTest(ThinnedTest):
    r"""Accept with a product of probabilities, one for each datum, and read few of the data; exact.

    Notes
    -----
    .. math:: \alpha = \min(1, e^c) \prod_{i=1}^N \min(1, e^{D_i}),
              \qquad D_i = \log p(x_i \mid \theta') - \log p(x_i \mid \theta),

    Here c is the log ratio of prior and proposal. :math:`\alpha` satisfies detailed balance, because each factor does.
    With :math:`D^- = \max(0, -D)`, the product over i is the probability that a Poisson process of rate :math:`\sum
    D_i^-` has no event. With bounds
    :math:`|D_i| \le c_i M(\theta, \theta')` the test draws :math:`\mathrm{Poisson}(M \sum c_i)` rows with probabilities
    proportional to :math:`c_i`; each row rejects (a veto) with probability :math:`D_i^- / (c_i M)`. Reading ends after
    the batch with the first veto; no row is read if c already rejects. If the test sums all terms instead, as
    :class:`PoissonTest` does, the product is replaced by :math:`\min(1, e^{\sum D_i})`.

    Guarantee and requirements: the same as for :class:`PoissonTest`. :math:`\alpha` is smaller than Metropolis's
    probability, by a factor that vanishes as N grows on plain targets; so use the expansion of order 1 or 2 that a
    :class:`ControlVariate` makes (SMH-1 and SMH-2). Cost: at most that of :class:`PoissonTest`;
    ``expected_reads`` is the cost without a veto.

    References
    ----------
    Cornish, Vanetti, Bouchard-Cote, Deligiannidis and Doucet (2019).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.RandomWalk(0.01), amc.acceptance.FactorizedTest()).test
    FactorizedTest()
    """

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test, which reads rows until one of them rejects."""
        return delayed(self.compile_with(veto_rate, target))
