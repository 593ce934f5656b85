"""The factorised test (scalable Metropolis-Hastings): any datum may reject a proposal, but few data are read.

Reference: Cornish, Vanetti, Bouchard-Cote, Deligiannidis and Doucet (2019), Scalable Metropolis-Hastings for Exact
Bayesian Inference with Large Datasets, ICML. `approxmcmc.acceptance.thinning` shows that a veto is a Poisson count of
rate max(0, -D_i).
"""

import dataclasses

from approxmcmc.acceptance.delayed import delayed
from approxmcmc.acceptance.thinning import ThinnedTest
from approxmcmc.contracts import CompiledTest, Population, Target
from approxmcmc.engine.compiler.compile import compiled


@compiled
def rate(bound: float, difference: float, w: float) -> float:
    """Return max(0, -D)."""
    return max(0.0, -difference)


@dataclasses.dataclass(frozen=True, eq=False)
class FactorizedTest(ThinnedTest):
    r"""Accept with a product of probabilities, one for each datum, and read few of them: exact.

    Notes
    -----
    .. math:: \alpha = \min(1, e^c) \prod_{i=1}^N \min(1, e^{D_i}),
              \qquad D_i = \log p(x_i \mid \theta') - \log p(x_i \mid \theta),

    Here c is the log ratio of prior and proposal. :math:`\alpha` satisfies detailed balance, because each factor does.
    The product over i is the probability that a Poisson process of rate :math:`\sum D_i^-` has no event. So the test
    draws :math:`\mathrm{Poisson}(M \sum c_i)` rows with probabilities proportional to their bounds :math:`|D_i| \le c_i
    M`; each row rejects (a veto) with probability :math:`D_i^- / (c_i M)`. Reading ends after the batch with the first
    veto; no row is read if c already rejects. If all terms are summed instead, their sum is one factor.

    Guarantee and requirements: the same as for :class:`PoissonTest`. :math:`\alpha` is smaller than Metropolis's
    probability, by a factor that vanishes as N grows on plain targets; so use the expansion of order 1 or 2 that a
    :class:`ControlVariate` makes (SMH-1 and SMH-2), or :class:`CoreRows`. Cost: at most that of :class:`PoissonTest`;
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
        return delayed(self.compile_with(rate, target))
