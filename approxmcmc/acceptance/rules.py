"""The rules of Metropolis and Barker: both compare the log ratio with a random threshold.

With Lambda the full log ratio and u ~ U(0, 1), Metropolis accepts iff log u < Lambda, Barker iff logit(u) < Lambda
(methods: Metropolis et al. 1953; Barker 1965). Gibbs sampling of a binary variable uses Barker's rule. The threshold is
drawn once per decision, from its own random stream.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled


class Rule(NamedTuple):
    """A threshold, drawn as ``threshold(rng)``, and the probability that a log ratio exceeds it."""

    threshold: Callable[[np.random.Generator], float]
    probability: Callable[[float], float]


@compiled
def log_uniform(rng: np.random.Generator) -> float:
    """Return log u, u ~ U(0, 1), drawn as -Exponential(1): u is never 0, and log u keeps its digits near u = 1."""
    return -rng.standard_exponential()


@compiled
def logit_uniform(rng: np.random.Generator) -> float:
    """Return log(u / (1 - u)) with u = exp(-e), e ~ Exponential(1): the same u as :func:`log_uniform` draws."""
    exponential = rng.standard_exponential()
    # From 30 on the two are equal to 1e-13.
    return -math.log(math.expm1(exponential)) if exponential < 30.0 else -exponential


@compiled
def metropolis_probability(log_ratio: float) -> float:
    """Return min(1, exp(Lambda)); Lambda = -inf gives 0."""
    return 1.0 if log_ratio >= 0.0 else math.exp(log_ratio)


@compiled
def barker_probability(log_ratio: float) -> float:
    """Return 1 / (1 + exp(-Lambda)), without overflow."""
    if log_ratio >= 0.0:
        return 1.0 / (1.0 + math.exp(-log_ratio))
    ratio = math.exp(log_ratio)
    return ratio / (1.0 + ratio)


@compiled
def mirrored_log(threshold: float) -> float:
    """Return log(1 - u), given log u."""
    return math.log(max(-math.expm1(threshold), 5e-324))


@compiled
def mirrored_logit(threshold: float) -> float:
    """Return logit(1 - u), given logit(u)."""
    return -threshold


METROPOLIS = Rule(log_uniform, metropolis_probability)
BARKER = Rule(logit_uniform, barker_probability)
RULES: Mapping[str, Rule] = {"metropolis": METROPOLIS, "barker": BARKER}
MIRRORS: Mapping[str, Callable[[float], float]] = {"metropolis": mirrored_log, "barker": mirrored_logit}
