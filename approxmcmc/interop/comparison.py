"""The comparison of what was read from a model with PyMC's own log densities: one rule and one error for all plans.

Each plan evaluates the terms of its target and those of the model at a few points around the initial one. If a graph
was misread, or rows taken for independent depend on each other, they differ by far more than rounding does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.interop.attempts import NotPossibleError

# Two graphs of the same density that are written differently agree to six digits: that of a truncated distribution is a
# difference of probabilities, which loses ten of sixteen.
WRITTEN_DIFFERENTLY = 1e-6
ROUNDING = 1e-8  # of the same formula, evaluated on other rows or in another order


def compare(
    own: Any,
    model: Any,
    sentence: str | Callable[[int, float, float], str],
    *,
    sizes: Any = 0.0,
    tolerance: float = WRITTEN_DIFFERENTLY,
    finite: bool = True,
) -> None:
    """Raise unless two arrays agree: abs(own - model) <= tolerance (1 + abs(model) + abs(sizes)), entry by entry.

    Parameters
    ----------
    own, model
        What a plan computed, and what the model's own density gives.
    sentence
        What the error says; a function gets the first entry that differs: its index, its value, and that of the model.
    sizes
        Numbers that were added or subtracted on the way to the result: it has their rounding error, too.
    tolerance
        `WRITTEN_DIFFERENTLY` or `ROUNDING`.
    finite
        Whether all entries must be finite. Otherwise equal infinities agree, and so do two NaN.

    Raises
    ------
    NotPossibleError
        When an entry differs, or the shapes do.
    """
    ours = np.asarray(own, dtype=np.float64)
    theirs = np.asarray(model, dtype=np.float64)
    if ours.shape != theirs.shape:
        raise NotPossibleError(sentence if isinstance(sentence, str) else "the terms of the model have another shape")
    with np.errstate(invalid="ignore"):
        agree = np.abs(ours - theirs) <= tolerance * (1.0 + np.abs(theirs) + np.abs(sizes))
    agree &= np.isfinite(ours) & np.isfinite(theirs)
    if not finite:
        agree |= (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if not agree.all():
        index = int(np.flatnonzero(~np.atleast_1d(agree))[0])
        numbers = float(ours.flat[index]), float(theirs.flat[index])
        raise NotPossibleError(sentence if isinstance(sentence, str) else sentence(index, *numbers))
