"""The Poisson test: an exact Metropolis-Hastings test that reads a random number of rows.

Reference: Prado, Nemeth and Sherlock (2024), Metropolis-Hastings with Scalable Subsampling, gamma = 0; Zhang, Cooper
and De Sa (2020). `approxmcmc.acceptance.thinning` has the proof.
"""

import dataclasses

from approxmcmc.acceptance.thinning import ThinnedTest
from approxmcmc.contracts import CompiledTest, Population, Target
from approxmcmc.engine.compiler.compile import compiled


@compiled
def rate(bound: float, difference: float, w: float) -> float:
    """Return b - max(0, D)."""
    return bound - max(0.0, difference)


@dataclasses.dataclass(frozen=True, eq=False)
class PoissonTest(ThinnedTest):
    r"""Accept or reject on a Poisson number of rows; the chain leaves the posterior invariant, exactly.

    Notes
    -----
    With :math:`D_i = \log p(x_i \mid \theta') - \log p(x_i \mid \theta)` and bounds :math:`|D_i| \le c_i M(\theta,
    \theta')` it draws :math:`B \sim \mathrm{Poisson}(M \sum c_i)` rows with probabilities proportional to
    :math:`c_i`, keeps each with probability :math:`1 - D_i^+ / (c_i M)`, and accepts when

    .. math:: \log u < c + \sum_\text{kept} \log\frac{c_i M - D_i^-}{c_i M - D_i^+},

    Here c is the log ratio of prior and proposal. Guarantee: exact if the bounds hold. A decision that reads a term
    beyond its bound is made on all data and counted in ``range_violations``, and a run warns.

    Requires a target that bounds each of its terms: :class:`CoreRows` or :class:`ControlVariate` of a generalised
    linear model with a bounded third derivative (`LogisticRegression`; `GLMTarget` with ``derivatives_eta`` and
    ``third_derivative_bound``), or the plain model with a bounded slope, which only pays at tiny steps. If M sum c_i
    exceeds a fifth of the rows, or a state lies beyond the pilot's range, the test sums all terms, which is also exact.

    Cost: B rows, each evaluated at two states and counted with repetitions. In the trace ``expected_reads`` is the mean
    of B given the two states, and ``setup_expected_reads`` the pilot's prediction. The estimate of the log ratio has
    variance sum D_i^2 / (c_i M), which hardly lowers the acceptance rate if the bounds are wide.

    References
    ----------
    Prado, Nemeth and Sherlock (2024), gamma = 0. Algorithm 2 of Zhang, Cooper and De Sa (2020) with chi = 0 reads as
    many rows, but has twice the variance.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> target = amc.CoreRows(amc.targets.LogisticRegression(X, y))
    >>> sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.acceptance.PoissonTest())
    >>> trace = amc.sample(target, sampler, draws=200, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 200)
    True
    """

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test, which reads a Poisson number of rows."""
        return self.compile_with(rate, target)
