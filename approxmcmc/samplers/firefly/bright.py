"""The bright set: the data with z_i = 1, and how likely that is.

With gap_i = log p(x_i|theta) - log B_i(theta) >= 0 the odds of brightness given theta are

    P(z_i = 1) / P(z_i = 0) = (L_i - B_i) / B_i = exp(gap_i) - 1,

and log(exp(gap) - 1) = gap + log1mexp(gap), -inf where the bound touches, is all that a step needs of a datum.
"""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.numerics import log1mexp

LEAST_GAP = -1e-6  # rounding makes gaps of -1e-9; what lies lower is a bound above the likelihood


class Bright(NamedTuple):
    """The bright set of a chain, a permutation of all data with the bright ones in front: moving a datum is O(1).

    `order` is the permutation, `position` the place of every datum in it, `size`, of one element, the number of bright
    data, and `log_odds` holds theirs at the current theta, by place.
    """

    order: np.ndarray
    position: np.ndarray
    size: np.ndarray
    log_odds: np.ndarray


def new_bright(is_bright: np.ndarray, gaps: np.ndarray) -> Bright:
    """Return the bright set that a mask marks, with the odds of data with these gaps."""
    order = np.argsort(~is_bright, kind="stable").astype(np.int64)
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    bright = Bright(order, position, np.array([is_bright.sum()], dtype=np.int64), np.empty(order.size))
    for place in range(bright.size[0]):
        bright.log_odds[place] = log_odds_of(gaps[order[place]])
    return bright


@compiled
def log_odds_of(gap: float) -> float:
    """Return log(exp(gap) - 1); -inf where bound and likelihood touch, NaN where the bound lies above or gap is NaN."""
    if gap > 0.0:
        return gap + log1mexp(gap)
    return -math.inf if gap >= LEAST_GAP else math.nan


@compiled
def make_bright(bright: Bright, datum: int, log_odds: float) -> None:
    """Move a dark datum to the end of the bright ones."""
    order, position = bright.order, bright.position
    place, end = position[datum], bright.size[0]
    other = order[end]
    order[end], order[place] = datum, other
    position[datum], position[other] = end, place
    bright.log_odds[end] = log_odds
    bright.size[0] = end + 1


@compiled
def make_dark(bright: Bright, place: int) -> None:
    """Take the bright datum at a place out; the last bright one fills the place."""
    order, position, log_odds = bright.order, bright.position, bright.log_odds
    last = bright.size[0] - 1
    datum, other = order[place], order[last]
    order[place], order[last] = other, datum
    position[other], position[datum] = place, last
    log_odds[place] = log_odds[last]
    bright.size[0] = last
