"""Step sizes that fall along the chain: alpha_t = a (b + t)^-gamma.

With 0.5 < gamma <= 1 the sum of alpha_t diverges and that of its squares converges, so that the averages

    sum_t alpha_t f(theta_t) / sum_t alpha_t

of an unadjusted Langevin chain converge to posterior means (Teh, Thiery and Vollmer 2016). gamma = 0 would be a
constant step.
"""

import dataclasses
import math

from approxmcmc.contracts import Component
from approxmcmc.errors import InvalidInputError


@dataclasses.dataclass(frozen=True, eq=False)
class DecreasingStep(Component):
    """The step size alpha_t = scale (offset + t)^-exponent at step t = 0, 1, ...; tuning steps count.

    Parameters
    ----------
    scale
        a, positive: the step size, a variance, where offset + t = 1.
    offset
        b, at least 1: until t is near b, steps hardly fall.
    exponent
        gamma in (0.5, 1].

    Raises
    ------
    InvalidInputError
        When a number is out of its range.

    Notes
    -----
    Draws then carry the weight alpha_t, ``sample_stats["weight"]``; averages must use it, and `risk` does. The mean
    squared error falls at best like t^(-2/3), for gamma = 1/3 outside the range above; of that range, slower decreases
    are better.

    References
    ----------
    Welling and Teh (2011), section 3; Teh, Thiery and Vollmer (2016).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.proposals.DecreasingStep(1e-3, offset=100.0).at(0) > amc.proposals.DecreasingStep(1e-3, offset=100.0).at(50)
    True
    """

    scale: float
    offset: float = 1.0
    exponent: float = 0.55

    def __post_init__(self) -> None:
        """Check the ranges."""
        ranges = {
            "scale": (0.0 < self.scale < math.inf, "be positive and finite"),
            "offset": (1.0 <= self.offset < math.inf, "be at least 1"),
            "exponent": (0.5 < self.exponent <= 1.0, "lie in (0.5, 1], where averages converge"),
        }
        for name, (fine, rule) in ranges.items():
            if not fine:
                raise InvalidInputError(f"DecreasingStep: {name} must {rule}, found {getattr(self, name)!r}")

    def at(self, t: int) -> float:
        """Return alpha_t."""
        return self.scale * (self.offset + t) ** -self.exponent
