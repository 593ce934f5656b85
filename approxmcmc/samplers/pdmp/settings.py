"""Settings that the processes share."""

import math
from typing import Any

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets import Laplace


def checked_fit(fit: Any, *, who: str) -> None:
    """Refuse what is no normal approximation."""
    if not isinstance(fit, Laplace):
        raise InvalidInputError(
            f"{who}: fit must be a normal approximation of the posterior such as amc.laplace(target), found {fit!r}"
        )


def checked_positive(value: Any, name: str, *, who: str) -> None:
    """Refuse what is no positive, finite number."""
    if isinstance(value, bool) or not (isinstance(value, (int, float)) and 0.0 < value < math.inf):
        raise InvalidInputError(f"{who}: {name} must be positive and finite, found {value!r}")
