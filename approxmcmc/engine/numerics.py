"""Scalar functions for likelihoods, without overflow; all but `log1mexp` without branches, so that loops vectorise.

``log1p(exp(-|x|))`` costs 9.5 ns through the C library; the polynomial form below costs 1.35 ns in a vectorised loop
and is right to 1e-14 relative. User functions may call :func:`softplus`, :func:`log_sigmoid` and :func:`log1mexp`.
With the JIT off they run on the C library's functions and agree to rounding.
"""

import functools
import math
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from approxmcmc.engine.compiler.compile import compiled

LOG_2 = math.log(2.0)
LOG2_E = 1.0 / LOG_2
# log 2 in two parts: k times the first is exact, so x - k log 2 is right to its last digits (Cody and Waite 1980).
LOG_2_HIGH = 6.93147180369123816490e-01
LOG_2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds a double to the nearest integer and leaves that integer in its low bits.
ROUND_TO_INTEGER = 6755399441055744.0
SQRT_2_MINUS_1 = math.sqrt(2.0) - 1.0

# Only fused multiply-add is allowed: it makes the polynomials 1.5 times as fast, and their rounding errors smaller.
# Reassociation would break the range reduction.
contracted = functools.partial(compiled, fastmath={"contract"})


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing_context: Any, x: Any) -> Any:
    """Return the bit pattern of a double as an integer."""
    return types.int64(types.float64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic  # type: ignore[untyped-decorator]
def _double(typing_context: Any, x: Any) -> Any:
    """Return the double that has this bit pattern."""
    return types.float64(types.int64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.DoubleType())


@contracted
def _exp_to_700(x: float) -> float:
    """Return exp(x) for x <= 700: Taylor polynomial on [-log(2)/2, log(2)/2], times a power of two."""
    x = -700.0 if x < -700.0 else x  # exp(-700) = 1e-304 replaces all smaller values
    shifted = x * LOG2_E + ROUND_TO_INTEGER
    exponent = _bits(shifted) << 52
    k = shifted - ROUND_TO_INTEGER
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    p = 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return _double(_bits(p) + exponent)  # type: ignore[no-any-return]


@contracted
def _log1p_of_fraction(e: float) -> float:
    """Return log(1 + e) for e in [0, 1] by the series 2 artanh(s), split at sqrt(2) - 1 so that |s| < 0.18."""
    upper = e > SQRT_2_MINUS_1
    s = ((e - 1.0) if upper else e) / ((e + 3.0) if upper else (e + 2.0))
    z = s * s
    p = 2.0 / 19.0
    p = p * z + 2.0 / 17.0
    p = p * z + 2.0 / 15.0
    p = p * z + 2.0 / 13.0
    p = p * z + 2.0 / 11.0
    p = p * z + 2.0 / 9.0
    p = p * z + 2.0 / 7.0
    p = p * z + 2.0 / 5.0
    p = p * z + 2.0 / 3.0
    p = p * z + 2.0
    return p * s + (LOG_2 if upper else 0.0)


@contracted
def _log(x: float) -> float:
    """Return log(x) of a normal positive x: the logarithm of its mantissa, plus a multiple of log 2."""
    bits = _bits(x)
    exponent = (bits >> 52) - 1023
    fraction = _double(bits - (exponent << 52)) - 1.0
    return _log1p_of_fraction(fraction) + exponent * LOG_2  # type: ignore[no-any-return]


def _choose(fast: Any, plain: Any) -> Any:
    """Return the bit-level form for compiled code, the C library's form without the JIT."""
    return plain if config.DISABLE_JIT else fast


def _plain_exp_to_700(x: float) -> float:
    return math.exp(-700.0 if x < -700.0 else x)


exp_to_700 = _choose(_exp_to_700, _plain_exp_to_700)
log1p_of_fraction = _choose(_log1p_of_fraction, math.log1p)
log = _choose(_log, math.log)  # of positive numbers that are not subnormal; loops over it vectorise


@compiled
def exp(x: float) -> float:
    """Return exp(x), as exp(700) above 700 and exp(-700) below -700; loops over it vectorise."""
    return exp_to_700(700.0 if x > 700.0 else x)  # type: ignore[no-any-return]


LARGEST_LOG = 300.0  # beyond it, and below its negative, a shape or scale stays constant: lgamma and log stay finite


@compiled
def bounded_exp(log_scale: float) -> float:
    """Return a shape or a scale from its logarithm, within the limits; a search may try points beyond them."""
    return math.exp(max(min(log_scale, LARGEST_LOG), -LARGEST_LOG))


@compiled
def softplus(x: float) -> float:
    """Return log(1 + exp(x)). NaN stays NaN; softplus(inf) = inf; below x = -700 the result is 1e-304, not smaller."""
    return (0.0 if x < 0.0 else x) + log1p_of_fraction(exp_to_700(-abs(x)))


@compiled
def log_sigmoid(x: float) -> float:
    """Return log(1 / (1 + exp(-x))) = -softplus(-x)."""
    return (0.0 if x > 0.0 else x) - log1p_of_fraction(exp_to_700(-abs(x)))


@compiled
def sigmoid(x: float) -> float:
    """Return 1 / (1 + exp(-x)); branch-free, so that loops over data vectorise."""
    e = exp_to_700(-abs(x))
    return (e if x < 0.0 else 1.0) / (1.0 + e)


@compiled
def log1mexp(x: float) -> float:
    """Return log(1 - exp(-x)) for x >= 0; -inf at 0 (Maechler 2012: two branches that meet at log 2)."""
    if x <= 0.0:
        return -math.inf
    return math.log(-math.expm1(-x)) if x <= LOG_2 else math.log1p(-math.exp(-x))
