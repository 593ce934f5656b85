"""Arguments that are arrays, or normal approximations with such arrays, such as the result of `laplace`."""

from typing import Any

import numpy as np


def mode_of(given: Any) -> np.ndarray:
    """Return the given point, or the mode of the approximation; a float64 copy."""
    return _copy(given, "mode")


def cov_of(given: Any) -> np.ndarray:
    """Return the given matrix or vector, or the covariance of the approximation; a float64 copy."""
    return _copy(given, "cov")


def is_approximation(given: Any) -> bool:
    """Return whether this is an approximation, with a mode and a covariance."""
    return _holds(given, "mode") and _holds(given, "cov")


def _copy(given: Any, name: str) -> np.ndarray:
    return np.array(getattr(given, name) if _holds(given, name) else given, dtype=np.float64)


def _holds(given: Any, name: str) -> bool:
    return hasattr(given, name) and not callable(getattr(given, name))  # a DataFrame has methods of these names
