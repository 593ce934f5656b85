"""The law of the random threshold, which is the exact acceptance probability: P(T(u) < Lambda)."""

import numpy as np
from scipy.special import expit, logit


def exact_probability(log_ratio: np.ndarray, rule: str) -> np.ndarray:
    """Return min(1, exp(Lambda)) for the Metropolis rule, 1 / (1 + exp(-Lambda)) for Barker's."""
    return np.exp(np.minimum(log_ratio, 0.0)) if rule == "metropolis" else np.asarray(expit(log_ratio))


def threshold_at(u: np.ndarray, rule: str) -> np.ndarray:
    """Return T(u): log u for the Metropolis rule, log(u / (1 - u)) for Barker's."""
    return np.log(u) if rule == "metropolis" else np.asarray(logit(u))
