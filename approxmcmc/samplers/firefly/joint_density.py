"""The joint density of theta and z, which needs the likelihood of the bright data alone.

    log p(theta, z) = log p(theta) + sum_i log B_i(theta) + sum_{i bright} log(exp(gap_i(theta)) - 1).

Summed over z this is the posterior density of theta.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.records import BOUNDS, EVALUATIONS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import BATCH
from approxmcmc.samplers.firefly.bright import Bright, log_odds_of


class JointDensity(NamedTuple):
    """The functions of the joint density, those of a target and of its bound, with the arrays that they read.

    ``log_prior(theta)``, ``log_bound(theta, sums)`` and ``gaps(theta, data, order, lo, hi, out)`` are as in
    `CompiledTarget` and `CompiledBound`.
    """

    log_prior: Any
    log_bound: Any
    gaps: Any
    data: Any
    sums: Any


class Factors(NamedTuple):
    """The three summands of the log joint density at one theta, two numbers and the log odds of the bright data."""

    log_prior: np.ndarray
    log_bound: np.ndarray
    log_odds: np.ndarray


@compiled
def log_joint(factors: Factors, n_bright: int) -> float:
    """Return the log joint density from its summands."""
    log_odds = 0.0
    for place in range(n_bright):
        log_odds += factors.log_odds[place]
    return factors.log_prior[0] + factors.log_bound[0] + log_odds


@compiled
def log_joint_at(joint: JointDensity, theta: np.ndarray, bright: Bright, factors: Factors, count: np.ndarray) -> float:
    """Return log p(theta, z), and write its summands to `factors`; -inf outside the support of the prior."""
    n_bright, log_odds = bright.size[0], factors.log_odds
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
    """Write the gaps of ``data[:n]``, batch by batch."""
    for lo in range(0, n, BATCH):
        hi = min(lo + BATCH, n)
        joint.gaps(theta, joint.data, data, lo, hi, out[lo:hi])
