"""How far the terms of a decision can lie apart: the one number that a concentration bound needs to be told.

A kernel ``term_range(theta, proposed, numbers)`` returns C >= max_i l_i - min_i l_i, l_i = log p(x_i|theta') - log
p(x_i|theta); `numbers` is a vector of constants, so that one kernel serves all data of a model. Targets supply such
kernels, acceptance tests receive them as function pointers.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import VECTOR, bind, kernel

TERM_RANGE = nb.FunctionType(nb.float64(VECTOR, VECTOR, VECTOR))


def _constant(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
    return numbers[0]


def _make_user_range(term_range: Callable[..., float]) -> Callable[..., float]:
    def user_term_range(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
        return term_range(theta, proposed)

    return user_term_range


def _by_distance(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
    # abs(l_i) <= L abs(x_i' (theta' - theta)) <= L max ||x_i|| ||theta' - theta||, and the range at most twice that.
    total = 0.0
    for j in range(theta.shape[0]):
        total += (proposed[j] - theta[j]) ** 2
    return 2.0 * numbers[0] * math.sqrt(total)


def _by_remainder(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
    # The remainder of a second-order expansion at a point t is at most L3 abs(x_i' (theta - t))^3 / 6 for each theta.
    before = after = 0.0
    for j in range(theta.shape[0]):
        before += (theta[j] - numbers[1 + j]) ** 2
        after += (proposed[j] - numbers[1 + j]) ** 2
    return numbers[0] / 3.0 * (before * math.sqrt(before) + after * math.sqrt(after))


def constant_range() -> Any:
    """Return the kernel that answers ``numbers[0]``."""
    return kernel(_constant, TERM_RANGE.signature)


def user_range(function: Callable[..., float]) -> Any:
    """Return the kernel of a plain function ``(theta, proposed) -> float``."""
    return bind(_make_user_range, function, signature=TERM_RANGE.signature)


def distance_range() -> Any:
    """Return the kernel of a linear model: 2 L R ||theta' - theta||, with ``numbers = [L R]``.

    L bounds the derivative of every log p(y_i | eta) in eta, R is the largest norm of a row of predictors.
    """
    return kernel(_by_distance, TERM_RANGE.signature)


def remainder_range() -> Any:
    """Return the kernel of a linear model's control variates: the range of the remainders of second order.

    (L3 R^3 / 3) (||theta' - t||^3 + ||theta - t||^3), with ``numbers = [L3 R^3, *t]``; L3 bounds the third derivative
    of every log p(y_i | eta) in eta (Bardenet, Doucet and Holmes 2017, section 7).
    """
    return kernel(_by_remainder, TERM_RANGE.signature)
