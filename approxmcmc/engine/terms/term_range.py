r"""Bounds on how far the terms of a decision can lie apart, which concentration bounds need.

A kernel ``term_range(theta, proposed, numbers)`` returns C >= max_i l_i - min_i l_i, l_i = log p(x_i|theta') - log
p(x_i|theta); `numbers` is a vector of constants, so that one kernel serves all data of a model. Targets provide such
kernels, acceptance tests receive them as function pointers.

The last part of this file bounds how much a power of a predictor can change between two states, whatever the row.

With phi = L^-1 (theta - c) the predictor of a row differs by delta = h^(1/2) u . phi from its value at c, where
h = |L' x|^2 and u is a unit vector. A function r with abs(r'(delta)) <= K abs(delta)^(k - 1) / (k - 1)! changes by at
most the integral of this bound,

    abs(r(delta') - r(delta)) <= (K / k!) abs(delta'^[k] - delta^[k]) <= (K / k!) h^(k/2) P_k(phi, phi'),
    P_k = max over unit vectors u of abs((u . phi')^[k] - (u . phi)^[k]),    t^[k] = sign(t) abs(t)^k.

The second inequality takes the worst u. For r = K delta^[k] / k! both are equalities in one direction u, so no bound
that knows only h of a row can be smaller. P_k is at most |phi|^k + |phi'|^k, the sum of a bound for each state; for
short steps it is about |phi|^(k - 1) |phi' - phi|. With m = (phi + phi') / 2, D = phi' - phi, v = |m|^2, w = |D|^2,
z = m . D:

- P_1 = w^(1/2).
- P_2. Where u . phi and u . phi' have one sign, the difference is 2 (u . m) (u . D), in all directions at most (v
  w)^(1/2) + abs(z), attained halfway between m and D. Where their signs differ, it is (u . phi)^2 + (u . phi')^2, which
  is never less than the former, and its largest value, an eigenvalue, is v + w / 4 + (z^2 + (v - w / 4)^2)^(1/2). The
  eigenvector lies between signs that differ if phi . phi' = v - w / 4 < 0. Else the largest value over such directions
  lies at their edge, where one of the two is 0, and the former formula holds there.
- P_3. s = u . m and e = u . D give (s + e / 2)^3 - (s - e / 2)^3 = e (3 s^2 + e^2 / 4). With the angle of u to D it is
  the form of `largest_on_circle`.

*Several predictors.* A row with K predictors has delta = A phi, and a term's k-th derivative in the direction A u is at
most F for unit vectors u. By Banach's theorem on symmetric forms that also bounds the form of different vectors, so the
residual of a polynomial of order k - 1 changes by at most (F / k!) Q_k, the integral along the straight line

    Q_k(phi, phi') = k int_0^1 |phi(s)|^(k - 1) ds |D|,   Q_2 <= 2 (w u)^(1/2),   Q_3 = 3 w^(1/2) u,   u = v + w / 12.

References: Prado, Nemeth and Sherlock (2024), whose bounds of order 1 and 2 follow the same path and add up the largest
values of its parts; Cornish et al. (2019) for P_k <= |phi|^k + |phi'|^k.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types as nb
from scipy.linalg import solve_triangular

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, VECTOR, bind, compiled, kernel

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


def constant_range() -> Any:
    """Return the kernel that returns ``numbers[0]``."""
    return kernel(_constant, TERM_RANGE.signature)


def user_range(function: Callable[..., float]) -> Any:
    """Return the kernel of a plain function ``(theta, proposed) -> float``."""
    return bind(_make_user_range, function, signature=TERM_RANGE.signature)


def distance_range() -> Any:
    """Return the kernel of a linear model, which returns 2 L R ||theta' - theta||, with ``numbers = [L R]``.

    L bounds the derivative of every log p(y_i | eta) in eta = x_i' theta, R is the largest norm of a row x_i.
    """
    return kernel(_by_distance, TERM_RANGE.signature)


# indices into the numbers of a reach: three weights, the radius, the centre, the whitening
FARTHEST = 3
CENTER = 4
# limits of Newton's method, which usually takes 5 steps, to an error of 1e-18
MOST_STEPS = 60
LEAST_STEP = 1e-9


@compiled
def largest_on_circle(a: float, b: float, c: float) -> float:
    """Return the maximum of x (a x^2 + b x y + c y^2) over x^2 + y^2 = 1; a, b and c not negative, a positive.

    It lies at x, y >= 0. There t = y / x is the largest root of b + (2 c - 3 a) t - 2 b t^2 - c t^3. For t >= 0 this is
    concave, and it is negative at 2^(1/2): Newton's method descends to the root from there.
    """
    t = math.sqrt(2.0)
    for _ in range(MOST_STEPS):
        value = b + t * (2.0 * c - 3.0 * a - t * (2.0 * b + t * c))
        step = value / (2.0 * c - 3.0 * a - t * (4.0 * b + t * 3.0 * c))
        t -= step
        if step < LEAST_STEP:
            break
    squared = 1.0 + t * t
    return (a + t * (b + t * c)) / (squared * math.sqrt(squared))


@compiled
def first_power(w: float) -> float:
    """Return P_1; w = |D|^2, see the module."""
    return math.sqrt(w)


@compiled
def second_power(v: float, w: float, z: float) -> float:
    """Return P_2; v = |m|^2, w = |D|^2 and z = m . D, see the module."""
    between = v - 0.25 * w
    if between >= 0.0:
        return math.sqrt(v * w) + abs(z)
    return v + 0.25 * w + math.sqrt(z * z + between * between)


@compiled
def third_power(v: float, w: float, z: float) -> float:
    """Return P_3; v = |m|^2, w = |D|^2 and z = m . D, see the module."""
    if w == 0.0:
        return 0.0
    along = z * z / w
    across = max(v - along, 0.0)
    form = largest_on_circle(3.0 * along + 0.25 * w, 6.0 * math.sqrt(along * across), 3.0 * across)
    return math.sqrt(w) * form


@compiled(fastmath=set(BATCH_FASTMATH))
def squares_of_path(
    theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray, middle: np.ndarray, difference: np.ndarray
) -> tuple[float, float, float]:
    """Return v = |m|^2, w = |D|^2 and z = m . D, see the module; `middle` and `difference` are scratch, (dim,) each."""
    dim = theta.shape[0]
    v = 0.0
    w = 0.0
    z = 0.0
    for k in range(dim):
        middle[k] = 0.5 * (theta[k] + proposed[k]) - numbers[CENTER + k]
        difference[k] = proposed[k] - theta[k]
    for j in range(dim):
        row = CENTER + dim + j * dim
        m = 0.0
        d = 0.0
        for k in range(j + 1):  # the whitening is lower triangular
            m += numbers[row + k] * middle[k]
            d += numbers[row + k] * difference[k]
        v += m * m
        w += d * d
        z += m * d
    return v, w, z


def _along_path(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
    dim = theta.shape[0]
    v, w, z = squares_of_path(theta, proposed, numbers, np.empty(dim), np.empty(dim))
    if not math.sqrt(v + 0.25 * w + abs(z)) <= numbers[FARTHEST]:  # the radius of the more distant state
        return math.inf
    reach = numbers[2] * third_power(v, w, z) if numbers[2] > 0.0 else 0.0
    if numbers[1] > 0.0:
        reach += numbers[1] * second_power(v, w, z)
    return reach + numbers[0] * first_power(w)


def reach_along_path(weights: Sequence[float], farthest: float, center: np.ndarray, cholesky: np.ndarray) -> Any:
    """Return the kernel that computes a_1 P_1 + a_2 P_2 + a_3 P_3, and its `numbers`; L = `cholesky`, a_k = `weights`.

    The sum is infinite if a state lies further from the centre than `farthest`, in whitened coordinates.
    """
    numbers = _numbers_of_reach(weights, farthest, center, cholesky)
    # Sums in any order take .8 us instead of 1.6 at 50 coefficients. Swapping the states changes only signs, so the
    # result stays symmetric.
    return kernel(_along_path, TERM_RANGE.signature, fastmath=BATCH_FASTMATH), numbers


def _in_space(theta: np.ndarray, proposed: np.ndarray, numbers: np.ndarray) -> float:
    dim = theta.shape[0]
    v, w, z = squares_of_path(theta, proposed, numbers, np.empty(dim), np.empty(dim))
    if not math.sqrt(v + 0.25 * w + abs(z)) <= numbers[FARTHEST]:  # the radius of the more distant state
        return math.inf
    mean_square = v + w / 12.0  # of |phi| along the line
    return 2.0 * numbers[1] * math.sqrt(w * mean_square) + 3.0 * numbers[2] * math.sqrt(w) * mean_square


def reach_in_space(weights: Sequence[float], farthest: float, center: np.ndarray, cholesky: np.ndarray) -> Any:
    """Return the kernel that computes a_2 Q_2 + a_3 Q_3, for rows with several predictors; as `reach_along_path`."""
    numbers = _numbers_of_reach(weights, farthest, center, cholesky)
    return kernel(_in_space, TERM_RANGE.signature, fastmath=BATCH_FASTMATH), numbers


def _numbers_of_reach(
    weights: Sequence[float], farthest: float, center: np.ndarray, cholesky: np.ndarray
) -> np.ndarray:
    whiten = solve_triangular(cholesky, np.eye(len(center)), lower=True)
    return np.concatenate([[*weights, farthest], center, whiten.ravel()])
