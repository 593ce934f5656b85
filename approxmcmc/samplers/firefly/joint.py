"""The joint density of theta and z, and the bright set: the data with z_i = 1.

    log p(theta, z) = log p(theta) + sum_i log B_i(theta) + sum_{i bright} log(exp(gap_i) - 1),

with gap_i = log p(x_i|theta) - log B_i(theta) >= 0. Summed over z this is the posterior density of theta. Each summand
of the last sum is the log odds of brightness,

    P(z_i = 1) / P(z_i = 0) = (L_i - B_i) / B_i = exp(gap_i) - 1,

computed as gap + log1mexp(gap), or -inf if the bound touches the likelihood. A step needs no other number of a datum.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledBound, CompiledTarget
from approxmcmc.contracts.records import BOUNDS, EVALUATIONS
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.numerics import log1mexp
from approxmcmc.engine.terms.batches import BATCH, full_terms

LEAST_GAP = -1e-6  # rounding makes gaps of -1e-9; a lower gap means a bound above the likelihood


class Bright(NamedTuple):
    """The bright set of a chain, a permutation of all data with the bright ones in front: moving a datum is O(1).

    `order` is the permutation, an array of indices of data, `position` the place of every datum in it, `size` (1,) the
    number of bright data; ``log_odds[place]`` is the log odds of the bright datum ``order[place]`` at the current
    theta.
    """

    order: np.ndarray
    position: np.ndarray
    size: np.ndarray
    log_odds: np.ndarray


def new_bright(is_bright: np.ndarray, gaps: np.ndarray) -> Bright:
    """Return the bright set from a mask of the bright data and the gaps of all data, shape (n,) each."""
    order = np.argsort(~is_bright, kind="stable").astype(np.int64)
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    bright = Bright(order, position, np.array([is_bright.sum()], dtype=np.int64), np.empty(order.size))
    for place in range(bright.size[0]):
        bright.log_odds[place] = log_odds_of(gaps[order[place]])
    return bright


@compiled
def log_odds_of(gap: float) -> float:
    """Return log(exp(gap) - 1); -inf if bound and likelihood touch, NaN if the bound lies above or gap is NaN."""
    if gap > 0.0:
        return gap + log1mexp(gap)
    return -math.inf if gap >= LEAST_GAP else math.nan


def all_log_odds(gaps: np.ndarray) -> np.ndarray:
    """Return `log_odds_of` each of `gaps`, in NumPy."""
    with np.errstate(all="ignore"):  # a search for undefined densities asks where they overflow
        touching = np.where(gaps >= LEAST_GAP, -np.inf, np.nan)
        return np.where(gaps > 0.0, gaps + np.log(-np.expm1(-gaps)), touching)


@compiled
def make_bright(bright: Bright, datum: int, log_odds: float) -> None:
    """Make the dark datum with index `datum` bright, in the last place of the bright ones, with these log odds."""
    order = bright.order
    position = bright.position
    place = position[datum]
    end = bright.size[0]
    other = order[end]
    order[end] = datum
    order[place] = other
    position[datum] = end
    position[other] = place
    bright.log_odds[end] = log_odds
    bright.size[0] = end + 1


@compiled
def make_dark(bright: Bright, place: int) -> None:
    """Make the bright datum at a place dark; the last bright datum fills the place."""
    order = bright.order
    position = bright.position
    log_odds = bright.log_odds
    last = bright.size[0] - 1
    datum = order[place]
    other = order[last]
    order[place] = other
    order[last] = datum
    position[other] = place
    position[datum] = last
    log_odds[place] = log_odds[last]
    bright.size[0] = last


class JointDensity(NamedTuple):
    """The functions of the joint density, from a target and its bound, with the arrays that they read.

    ``log_prior(theta)``, ``log_bound(theta, sums)`` and ``gaps(theta, data, order, lo, hi, out)`` are as in
    `CompiledTarget` and `CompiledBound`.
    """

    log_prior: Any
    log_bound: Any
    gaps: Any
    data: Any
    sums: Any


class Factors(NamedTuple):
    """The summands of the log joint density at one theta.

    `log_prior` and `log_bound` hold one number each, `log_odds` the log odds of the bright data, by place.
    """

    log_prior: np.ndarray
    log_bound: np.ndarray
    log_odds: np.ndarray


@compiled
def log_joint(factors: Factors, n_bright: int) -> float:
    """Return the log joint density, the sum of `factors` with the first `n_bright` log odds."""
    log_odds = 0.0
    for place in range(n_bright):
        log_odds += factors.log_odds[place]
    return factors.log_prior[0] + factors.log_bound[0] + log_odds


@compiled
def log_joint_at(joint: JointDensity, theta: np.ndarray, bright: Bright, factors: Factors, count: np.ndarray) -> float:
    """Return log p(theta, z), and write its summands to `factors`; -inf outside the support of the prior."""
    n_bright = bright.size[0]
    log_odds = factors.log_odds
    factors.log_prior[0] = joint.log_prior(theta)
    if factors.log_prior[0] == -math.inf:
        return -math.inf
    factors.log_bound[0] = joint.log_bound(theta, joint.sums)
    write_gaps(joint, theta, bright.order, n_bright, log_odds)
    for place in range(n_bright):
        log_odds[place] = log_odds_of(log_odds[place])
    count[BOUNDS] += 1
    count[EVALUATIONS] += n_bright
    return log_joint(factors, n_bright)


@compiled
def write_gaps(joint: JointDensity, theta: np.ndarray, data: np.ndarray, n: int, out: np.ndarray) -> None:
    """Write the gaps of the data with the indices ``data[:n]`` to ``out[:n]``."""
    for lo in range(0, n, BATCH):
        hi = min(lo + BATCH, n)
        joint.gaps(theta, joint.data, data, lo, hi, out[lo:hi])


def false_bound(bound: CompiledBound, target: CompiledTarget, theta: np.ndarray) -> str:
    """Return why the bounds are false at theta, "" if they are valid; all terms and gaps are evaluated.

    They are false if one lies above its likelihood, or if the closed form is not their sum.
    """
    log_likelihood = full_terms(target.log_terms, theta, target.data, target.n_obs)
    gaps = full_terms(bound.gaps, theta, bound.data, target.n_obs)
    size = 1.0 + np.abs(log_likelihood) + np.abs(gaps)
    below = ~(gaps >= -1e-9 * size) & ~np.isnan(log_likelihood)
    if below.any():
        worst = int(np.argmin(np.where(below, np.nan_to_num(gaps, nan=-np.inf), np.inf)))
        return (
            f"the lower bound lies above the likelihood for {below.sum()} of {gaps.size} data at theta = "
            f"{show(theta)}; the worst is datum {worst}: log L = {log_likelihood[worst]:.6g}, log B = "
            f"{log_likelihood[worst] - gaps[worst]:.6g}. Lower the bound: Firefly is exact only where B <= L"
        )
    summed = float(np.sum(log_likelihood - gaps))
    closed = float(bound.log_bound(theta, bound.sums))
    if np.isfinite(summed) and not abs(summed - closed) <= 1e-9 * float(size.sum()):
        return (
            f"the closed form of the bound is {closed:.12g} at theta = {show(theta)}, and its terms add up to "
            f"{summed:.12g}; log_bound must return the sum of log L_i - gap_i over all data"
        )
    return ""
