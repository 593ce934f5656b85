"""Exact tests that read a Poisson number of rows, PoissonTest and TunaMH, and the cheaper of PoissonTest and all rows.

`approxmcmc.acceptance.thinning` has the proof.

References: Prado, Nemeth and Sherlock (2024), Metropolis-Hastings with Scalable Subsampling, gamma = 0; Zhang, Cooper
and De Sa (2020), Asymptotically Optimal Exact Minibatch Metropolis-Hastings, NeurIPS, algorithm 2.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.acceptance.exact import ExactTest
from approxmcmc.acceptance.thinning import LARGEST_SHARE, ThinnedTest
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


@compiled
def poisson_rate(bound: float, difference: float, w: float) -> float:
    """Return b - max(0, D), the rate of `PoissonTest` for a difference D with bound b; `w` is not used."""
    return bound - max(0.0, difference)


@dataclasses.dataclass(frozen=True, eq=False)
class PoissonTest(ThinnedTest):
    r"""Accept or reject on a Poisson number of rows; the chain leaves the posterior invariant, exactly.

    Notes
    -----
    With :math:`D_i = \log p(x_i \mid \theta') - \log p(x_i \mid \theta)` and bounds :math:`|D_i| \le c_i M(\theta,
    \theta')` it draws :math:`B \sim \mathrm{Poisson}(M \sum c_i)` rows with probabilities proportional to
    :math:`c_i`, keeps each with probability :math:`1 - D_i^+ / (c_i M)`, and accepts when, with :math:`D^+ = \max(0,
    D)` and :math:`D^- = \max(0, -D)`,

    .. math:: \log u < c + \sum_\text{kept} \log\frac{c_i M - D_i^-}{c_i M - D_i^+}.

    Here c is the log ratio of prior and proposal. Guarantee: exact if the bounds hold. A decision that reads a term
    beyond its bound is made on all data and counted in ``range_violations``, and a run warns.

    Requires a target that bounds each of its terms, such as a :class:`ControlVariate` of a
    generalised linear model with a bounded third derivative (`LogisticRegression`; `GLMTarget` with ``derivatives_eta``
    and ``third_derivative_bound``), or the plain model with a bounded slope, which only pays at tiny steps. If M sum
    c_i exceeds a fifth of the rows, or a bound is infinite because a state lies far out, the test sums all terms,
    which is also exact.

    Cost: B rows, each evaluated at two states and counted with repetitions. In the trace ``expected_reads`` is the mean
    of B given the two states, and ``setup_expected_reads`` the pilot's prediction. The estimate of the log ratio has
    a variance of about sum D_i^2 / (c_i M), which hardly lowers the acceptance rate if the bounds are wide.

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
    >>> target = amc.ControlVariate(amc.LogisticRegression(X, y), always_read="auto")
    >>> sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.PoissonTest())
    >>> trace = amc.sample(target, sampler, draws=200, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["datapoints_touched"].mean() < 200)
    True
    """

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test, which reads a Poisson number of rows."""
        return self.compile_with(poisson_rate, target)


@compiled
def tuna_rate(bound: float, difference: float, w: float) -> float:
    """Return (w b - D) / 2, the rate of `TunaTest` for a difference D with bound b; w as in `thinning`."""
    return 0.5 * (w * bound - difference)


@dataclasses.dataclass(frozen=True, eq=False)
class TunaTest(ThinnedTest):
    r"""Accept or reject on a Poisson minibatch: TunaMH, exact.

    Parameters
    ----------
    chi
        Sets the mean number of additional rows: :math:`\chi C^2 M^2`, on top of the necessary :math:`C M` (see Notes);
        at least 0. More rows make the estimated log ratio less noisy, and the acceptance rate closer to the rate of the
        exact test.

    Raises
    ------
    InvalidInputError
        When `chi` is negative or not finite.

    Notes
    -----
    With :math:`|D_i| \le c_i M(\theta, \theta')` and :math:`C = \sum c_i` it draws :math:`B \sim
    \mathrm{Poisson}(\chi C^2 M^2 + C M)` rows, keeps each with probability :math:`(w c_i M - D_i) / ((w + 1) c_i M)`,
    :math:`w = 1 + 2 \chi C M`, and accepts when :math:`\log u` lies below :math:`c + 2 \sum_\text{kept}
    \operatorname{artanh}(D_i / (w c_i M))`. Here :math:`D_i = \log p(x_i \mid \theta') - \log p(x_i \mid \theta)`, and
    c is the log ratio of prior and proposal.

    Guarantee and requirements: the same as for :class:`PoissonTest`. ``TunaTest(0)`` reads as many rows as
    :class:`PoissonTest`, and its estimate of the log ratio has twice the variance. The paper uses plain terms and
    :math:`M = \lVert\theta' - \theta\rVert`; here an expanded target is far cheaper.

    References
    ----------
    Zhang, Cooper and De Sa (2020), algorithm 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.RandomWalk(0.01), amc.acceptance.TunaTest(1e-5)).test
    TunaTest(chi=1e-05)
    """

    chi: float = 0.0

    def __post_init__(self) -> None:
        """Check chi."""
        if not 0.0 <= self.chi < math.inf:
            raise InvalidInputError(f"TunaTest: chi must be finite and at least 0, found {self.chi!r}")

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test, which reads a Poisson number of rows."""
        return self.compile_with(tuna_rate, target)


@dataclasses.dataclass(frozen=True, eq=False)
class CheapestExactTest(AcceptanceTest):
    """Make all decisions by `PoissonTest` if that is predicted to be cheaper, otherwise by `ExactTest`; both are exact.

    Notes
    -----
    `PoissonTest` is used if the target bounds its terms one by one and a pilot predicts that a decision reads less than
    a fifth of the rows (:meth:`PoissonTest.expected_reads`). The choice is made when the sampler is built, and stored
    in the trace as ``setup_exact_test``. Guarantee: exact with either test. `MetropolisHastings` uses this test by
    default for a `SurrogateTransition`.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(20_000, 3)
    >>> target = amc.ControlVariate(amc.LogisticRegression(X, y), always_read="auto")
    >>> (
    ...     amc.acceptance.CheapestExactTest().chosen_for(target),
    ...     amc.acceptance.CheapestExactTest().chosen_for(target.target),
    ... )
    (PoissonTest(), ExactTest(rule='metropolis'))
    """

    @property
    def order(self) -> str:
        """Return "memory": neither test needs another order of the data."""
        return "memory"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return an empty array: the number of terms read may be random."""
        return np.empty(0, dtype=np.int64)

    def why_not_invariant(self, n_obs: int) -> str:
        """Return "": either test leaves the target invariant."""
        return ""

    def chosen_for(self, target: Target | Population) -> AcceptanceTest:
        """Return the test used for this target: a `PoissonTest` or an `ExactTest`."""
        poisson = PoissonTest()
        try:
            reads = poisson.expected_reads(target)  # if NaN, the comparison below is False
        except IncompatibleError:
            return ExactTest()
        return poisson if reads < LARGEST_SHARE * target.n_obs else ExactTest()

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return a warning if a bound of the terms proved false during the run."""
        return PoissonTest().problems(stats)

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Choose a test, and compile it."""
        if not target.same_terms:
            raise IncompatibleError("CheapestExactTest works with MetropolisHastings; give Gibbs an ExactTest")
        chosen = self.chosen_for(target)
        compiled = chosen.build_test(target)
        return compiled._replace(attrs={**compiled.attrs, "setup_exact_test": type(chosen).__name__})
