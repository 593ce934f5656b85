"""Seconds of single draws, if only the total of a chain is known."""

import numpy as np


def spread(total: float, weights: np.ndarray) -> np.ndarray:
    """Return `total` seconds divided over draws in proportion to `weights`; evenly if all weights are 0."""
    weights = np.asarray(weights, dtype=np.float64)
    weights = weights if weights.sum() > 0.0 else np.ones_like(weights)
    return total * weights / weights.sum() if len(weights) else weights
