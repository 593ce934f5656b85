"""The first two derivatives of the logarithm of the gamma function, for compiled code."""

import math

from approxmcmc.engine.compiler.compile import compiled


@compiled
def digamma(x: float) -> float:
    """Return the slope of lgamma at x > 0, by the recursion up to 6 and then the asymptotic series, right to 1e-12."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return total + math.log(x) - 0.5 / x - series


@compiled
def trigamma(x: float) -> float:
    """Return the second derivative of lgamma at x > 0, in the same way, right to 1e-11."""
    total = 0.0
    while x < 6.0:
        total += 1.0 / (x * x)
        x += 1.0
    z = 1.0 / (x * x)
    series = 1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * (691 / 2730 - z * 7 / 6)))))
    return total + (1.0 + 0.5 / x + z * series) / x
