r"""One of K ordered categories: a logistic variable with location eta, cut at c_0 < ... < c_{K-2}.

.. math:: P(y \le k \mid \eta) = \sigma(c_k - \eta), \qquad c_k = t_0 + e^{t_1} + \dots + e^{t_k},

with the logistic function sigma. The predictors of a row are eta and t_0 ... t_{K-2}: the first cutpoint, and the
logarithms of the distances between neighbours. Category k lies between the cutpoints c_{k-1} and c_k, and

.. math:: \log P(y = k) = \log \sigma(c_k - \eta) + \log \sigma(\eta - c_{k-1}) + \log(1 - e^{-\exp t_k}).

So a row is two logits, one for each side, and a complementary log-log for the width of its category; the first and the
last category have one side only. All three terms are concave, the first two in (eta, c).

Reference: McCullagh (1980), Regression models for ordinal data.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.numerics import exp, log_sigmoid, sigmoid
from approxmcmc.engine.terms.batches import datum_at
from approxmcmc.families.bernoulli import CLOGLOG, cloglog, cloglog_derivatives
from approxmcmc.families.family import Form

FARTHEST = 1e300  # the cutpoint below the first category is minus this number, that above the last one is this number
# Rows of a table of categories: the cutpoint below each, the width, its term, and the term's first two derivatives.
CUT = 0
WIDTH = 1
TERM = 2
SLOPE = 3
BEND = 4
NUMBERS = 5
term_of_width = compiled(cloglog)
derivatives_of_width = compiled(cloglog_derivatives)


@compiled(fastmath=set(BATCH_FASTMATH))
def set_categories(eta: np.ndarray, i: int, table: np.ndarray) -> None:
    """Write the table of the categories of row i, shape (NUMBERS, K + 1); its last column is the cutpoint above.

    The first and the last category have infinite width, and the term 0.
    """
    last = eta.shape[0] - 1
    table[1:, 0] = 0.0
    table[1:, last] = 0.0
    table[CUT, 0] = -FARTHEST
    table[CUT, 1] = eta[1, i]
    for k in range(1, last):
        t = eta[k + 1, i]
        table[WIDTH, k] = exp(t)
        table[CUT, k + 1] = table[CUT, k] + table[WIDTH, k]
        table[TERM, k] = term_of_width(t, 1.0, 1.0, 1.0)
        table[SLOPE, k], table[BEND, k] = derivatives_of_width(t, 1.0, 1.0, 1.0)
    table[CUT, last + 1] = FARTHEST


@compiled(fastmath=set(BATCH_FASTMATH))
def share_cutpoints(eta: np.ndarray, n: int) -> bool:
    """Return whether all rows have the cutpoints of the first, as rows of a regression have."""
    n_others = 0
    for k in range(1, eta.shape[0]):
        for i in range(n):
            n_others += eta[k, i] != eta[k, 0]
    return n_others == 0


@compiled(fastmath=set(BATCH_FASTMATH))
def set_sides(
    eta: np.ndarray, y: np.ndarray, order: np.ndarray, lo: int, hi: int, table: np.ndarray, sides: np.ndarray
) -> None:
    """Write c_k - eta, eta - c_{k-1}, and the term of the width and its slope, of each row to `sides`, shape (4, rows).

    `table` is scratch, see `set_categories`.
    """
    is_shared = share_cutpoints(eta, hi - lo)
    for i in range(hi - lo):
        if i == 0 or not is_shared:
            set_categories(eta, i, table)
        k = y[datum_at(order, lo + i)]
        sides[0, i] = table[CUT, k + 1] - eta[0, i]
        sides[1, i] = eta[0, i] - table[CUT, k]
        sides[2, i] = table[TERM, k]
        sides[3, i] = table[SLOPE, k]


def ordered_terms(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write log p(y | eta, t) of each row in ``order[lo:hi]`` to `out`."""
    [y] = responses
    sides = np.empty((4, hi - lo))
    set_sides(eta, y, order, lo, hi, np.empty((NUMBERS, eta.shape[0] + 1)), sides)
    for i in range(hi - lo):
        out[i] = log_sigmoid(sides[0, i]) + log_sigmoid(sides[1, i]) + sides[2, i]


def ordered_slopes(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the slopes of row ``order[lo + i]`` in eta, t_0, ... t_{K-2} to ``out[:, i]``.

    With a = sigma(eta - c_k) and b = sigma(c_{k-1} - eta), the slope is a in the upper cutpoint, -b in the lower one.
    """
    [y] = responses
    sides = np.empty((4, hi - lo))
    set_sides(eta, y, order, lo, hi, np.empty((NUMBERS, eta.shape[0] + 1)), sides)
    for i in range(hi - lo):
        sides[0, i] = sigmoid(-sides[0, i])
        sides[1, i] = sigmoid(-sides[1, i])
        out[0, i] = sides[1, i] - sides[0, i]
        out[1, i] = sides[0, i] - sides[1, i]
    for m in range(1, eta.shape[0] - 1):
        for i in range(hi - lo):
            k = y[datum_at(order, lo + i)]
            through = (sides[0, i] if m <= k else 0.0) - (sides[1, i] if m < k else 0.0)
            out[m + 1, i] = exp(eta[m + 1, i]) * through + (sides[3, i] if m == k else 0.0)


def forms_within(order: int, eta: np.ndarray, y: np.ndarray, covariances: np.ndarray, radius: float) -> np.ndarray:
    """Return bounds of the derivatives of a term in a direction of length 1, of second or third order.

    ``covariances`` (rows, K, K) are those of the predictors: a direction moves predictor k by at most its standard
    deviation s_k, and `eta` (K, rows) by at most `radius` s_k. A row has one or two sides F(a), F = log sigma, with a =
    t_0 - eta + sum_m exp(t_m) or its negative. With E_m the largest exp(t_m), the slope of a in a direction is at most
    sd(t_0 - eta) + sum_m E_m s_m, and its second and third derivatives at most sum_m E_m s_m^2 and sum_m E_m s_m^3;
    those of F are at most 1, 1/4 and 1 / (6 sqrt(3)). Between two cutpoints there is also the term of the width, a
    function of t_m alone.
    """
    K = eta.shape[0]
    spread = np.sqrt(np.maximum(np.einsum("rkk->kr", covariances), 0.0))
    with np.errstate(over="ignore"):
        widths = np.exp(eta[2:] + radius * spread[2:])  # (K - 2, rows)
    of_start = covariances[:, 0, 0] + covariances[:, 1, 1] - 2.0 * covariances[:, 0, 1]
    start = np.sqrt(np.maximum(of_start, 0.0))
    total = np.zeros(eta.shape[1])
    for cut in range(K - 1):
        first, second, third = ((widths[:cut] * spread[2 : 2 + cut] ** power).sum(axis=0) for power in (1, 2, 3))
        first = first + start
        if order == 2:
            of_side = first**2 / 4.0 + second
        else:
            of_side = first**3 / (6.0 * math.sqrt(3.0)) + 0.75 * first * second + third
        total += np.where((y == cut) | (y == cut + 1), of_side, 0.0)
    bound_of_width = CLOGLOG.second_derivative_within if order == 2 else CLOGLOG.third_derivative_within
    assert bound_of_width is not None
    for k in range(1, K - 1):
        reach = radius * spread[k + 1]
        ones = np.ones(eta.shape[1])
        of_width = bound_of_width(eta[k + 1], ones, ones, 1.0, reach) * spread[k + 1] ** order
        total += np.where(y == k, of_width, 0.0)
    return total


def ordered_expansion(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write value, slopes and upper triangle of the Hessian of each row in ``order[lo:hi]`` to ``out[i]``.

    The logits add -a (1 - a) u u' - b (1 - b) v v', where u and v are the slopes of c_k - eta and c_{k-1} - eta in the
    predictors. Since c_k is not linear in t, the slope in t_m through cutpoints is also on the diagonal.
    """
    [y] = responses
    K = eta.shape[0]  # predictors
    is_shared = share_cutpoints(eta, hi - lo)
    table = np.empty((NUMBERS, K + 1))
    to_upper = np.empty(K)
    to_lower = np.empty(K)
    for i in range(hi - lo):
        if i == 0 or not is_shared:
            set_categories(eta, i, table)
        k = y[datum_at(order, lo + i)]
        upper = sigmoid(eta[0, i] - table[CUT, k + 1])
        lower = sigmoid(table[CUT, k] - eta[0, i])
        to_upper[0] = -1.0
        to_lower[0] = -1.0
        to_upper[1] = 1.0
        to_lower[1] = 1.0
        for m in range(1, K - 1):
            to_upper[m + 1] = table[WIDTH, m] if m <= k else 0.0
            to_lower[m + 1] = table[WIDTH, m] if m < k else 0.0
        out[i, 0] = log_sigmoid(table[CUT, k + 1] - eta[0, i]) + log_sigmoid(eta[0, i] - table[CUT, k]) + table[TERM, k]
        for p in range(K):
            out[i, 1 + p] = upper * to_upper[p] - lower * to_lower[p] + (table[SLOPE, k] if p == k + 1 else 0.0)
        of_upper = -upper * (1.0 - upper)
        of_lower = -lower * (1.0 - lower)
        place = 1 + K
        for p in range(K):
            for q in range(p, K):
                out[i, place] = of_upper * to_upper[p] * to_upper[q] + of_lower * to_lower[p] * to_lower[q]
                if p == q and p > 1:
                    out[i, place] += upper * to_upper[p] - lower * to_lower[p]
                    out[i, place] += table[BEND, k] if p == k + 1 else 0.0
                place += 1


def cutpoints_of(t: np.ndarray) -> np.ndarray:
    """Return the cutpoints of t_0 ... t_{K-2}, which are on the first axis."""
    steps = np.concatenate([t[:1], np.exp(t[1:])])
    return np.cumsum(steps, axis=0)


def ordered_probabilities(eta: np.ndarray) -> np.ndarray:
    """Return the probabilities of all categories, given the predictors (K, ...); shape (K, ...).

    They are exponentials of the terms, not differences of distribution functions, so small ones keep their digits.
    """
    from scipy.special import log_expit

    cuts = cutpoints_of(eta[1:]) - eta[:1]
    below = log_expit(cuts)
    above = log_expit(-cuts)
    inner = below[1:] + above[:-1]
    with np.errstate(divide="ignore"):
        inner += np.log(-np.expm1(-np.exp(eta[2:])))
    return np.exp(np.concatenate([below[:1], inner, above[-1:]]))  # type: ignore[no-any-return]


def draw_categories(rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    """Draw categories, given the predictors (K, ...): how many cutpoints lie below a logistic variable; shape (...)."""
    latent = eta[0] + rng.logistic(size=eta.shape[1:])
    return (latent > cutpoints_of(eta[1:])).sum(axis=0)


def first_cutpoints(shares: np.ndarray) -> np.ndarray:
    """Return the cutpoints at which the categories have these positive shares if eta is 0; shape (K - 1,)."""
    below = np.cumsum(shares)[:-1]
    return np.log(below / (1.0 - below))  # type: ignore[no-any-return]


def _read(graphs: Any, p: Any) -> Any:
    return graphs.of_ordered(p)


FORMS = (Form("Categorical", "p of an OrderedLogistic with cutpoints under the transform ordered", _read),)
