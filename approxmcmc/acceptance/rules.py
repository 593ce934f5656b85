"""Metropolis and Barker: one question, two thresholds.

With Lambda the full log ratio and u ~ U(0, 1), Metropolis accepts iff log u < Lambda, Barker iff logit(u) < Lambda
(methods: Metropolis et al. 1953; Barker 1965). Gibbs sampling of a binary variable asks Barker's question. The
threshold is drawn once per decision, from a stream of its own.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def log_uniform(rng: np.random.Generator) -> float:
    """Return log u = -Exponential(1): no u = 0, and digits to spare near u = 1."""
    return -rng.standard_exponential()


def logit_uniform(rng: np.random.Generator) -> float:
    """Return log(u / (1 - u)) with u = exp(-e), the same u as :func:`log_uniform` draws."""
    exponential = rng.standard_exponential()
    return -math.log(math.expm1(exponential)) if exponential < 30.0 else -exponential  # equal to 1e-13 from 30 on


def metropolis_probability(log_ratio: float) -> float:
    """Return min(1, exp(Lambda)); Lambda = -inf gives 0."""
    return 1.0 if log_ratio >= 0.0 else math.exp(log_ratio)


def barker_probability(log_ratio: float) -> float:
    """Return 1 / (1 + exp(-Lambda)), without overflow."""
    if log_ratio >= 0.0:
        return 1.0 / (1.0 + math.exp(-log_ratio))
    ratio = math.exp(log_ratio)
    return ratio / (1.0 + ratio)


RULES: Mapping[str, Mapping[str, Any]] = {
    "metropolis": {"THRESHOLD": log_uniform, "ACCEPTANCE_PROBABILITY": metropolis_probability},
    "barker": {"THRESHOLD": logit_uniform, "ACCEPTANCE_PROBABILITY": barker_probability},
}
