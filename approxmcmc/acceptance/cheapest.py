"""Choose the cheaper of two exact tests by a pilot: read a Poisson number of rows, or all rows."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.acceptance.exact import ExactTest
from approxmcmc.acceptance.poisson import PoissonTest
from approxmcmc.acceptance.thinning import LARGEST_SHARE
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.errors import IncompatibleError

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True, eq=False)
class CheapestExactTest(AcceptanceTest):
    """Decide by `PoissonTest` if it is cheap, otherwise by `ExactTest`; both are exact.

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
    >>> target = amc.CoreRows(amc.targets.LogisticRegression(X, y))
    >>> (
    ...     amc.acceptance.CheapestExactTest().chosen_for(target),
    ...     amc.acceptance.CheapestExactTest().chosen_for(target.target),
    ... )
    (PoissonTest(), ExactTest(rule='metropolis'))
    """

    @property
    def order(self) -> str:
        """Both tests read their data in memory order."""
        return "memory"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return an empty array: the number of terms read may be random."""
        return np.empty(0, dtype=np.int64)

    def why_not_invariant(self, n_obs: int) -> str:
        """Return "": either test leaves the target invariant."""
        return ""

    def chosen_for(self, target: Target | Population) -> AcceptanceTest:
        """Return the test used for this target."""
        poisson = PoissonTest()
        try:
            reads = poisson.expected_reads(target)  # False for NaN
        except IncompatibleError:
            return ExactTest()
        return poisson if reads < LARGEST_SHARE * target.n_obs else ExactTest()

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Warn if a bound of the terms proved false during the run."""
        return PoissonTest().problems(stats)

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Choose a test, and compile it."""
        if not target.same_terms:
            raise IncompatibleError("CheapestExactTest works with MetropolisHastings; give Gibbs an ExactTest")
        chosen = self.chosen_for(target)
        compiled = chosen.build_test(target)
        return compiled._replace(attrs={**compiled.attrs, "setup_exact_test": type(chosen).__name__})
