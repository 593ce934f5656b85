"""TunaMH: exact minibatch Metropolis-Hastings with an adjustable batch size.

Reference: Zhang, Cooper and De Sa (2020), Asymptotically Optimal Exact Minibatch Metropolis-Hastings, NeurIPS,
algorithm 2. `approxmcmc.acceptance.thinning` has the proof.
"""

import dataclasses
import math

from approxmcmc.acceptance.thinning import ThinnedTest
from approxmcmc.contracts import CompiledTest, Population, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import InvalidInputError


@compiled
def rate(bound: float, difference: float, w: float) -> float:
    """Return (w b - D) / 2."""
    return 0.5 * (w * bound - difference)


@dataclasses.dataclass(frozen=True, eq=False)
class TunaTest(ThinnedTest):
    r"""Accept or reject on a Poisson minibatch: TunaMH, exact.

    Parameters
    ----------
    chi
        Sets the mean number of additional rows, :math:`\chi C^2 M^2` beside the necessary :math:`C M`; at least 0. More
        rows make the estimated log ratio less noisy, and the acceptance rate closer to the rate of the exact test.

    Raises
    ------
    InvalidInputError
        When `chi` is negative or not finite.

    Notes
    -----
    With :math:`|D_i| \le c_i M(\theta, \theta')` and :math:`C = \sum c_i` it draws :math:`B \sim
    \mathrm{Poisson}(\chi C^2 M^2 + C M)` rows, keeps each with probability :math:`(w c_i M - D_i) / ((w + 1) c_i M)`,
    :math:`w = 1 + 2 \chi C M`, and accepts when :math:`\log u` lies below :math:`c + 2 \sum_\text{kept}
    \operatorname{artanh}(D_i / (w c_i M))`.

    Guarantee, requirements and cost: the same as for :class:`PoissonTest`, which reads as many rows as ``TunaTest(0)``
    and has half its variance. The
    paper uses plain terms and :math:`M = \lVert\theta' - \theta\rVert`; here an expanded target is far cheaper.

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
        return self.compile_with(rate, target)
