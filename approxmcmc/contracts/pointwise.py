"""The log-likelihood of single rows, which leave-one-out cross-validation reads."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class PointwiseLikelihood:
    """The log-likelihood of the rows of an observed variable, at the draws of a trace and at their mean.

    Parameters
    ----------
    observed
        The observed values, an ``xarray.DataArray`` with named axes; the log-likelihood has the same shape.
    at_draw
        ``at_draw(chain, draw, rows)`` returns the log-likelihood of ``observed[np.ix_(*rows)]`` at one draw; `rows`
        holds one array of indices for each axis.
    at_mean
        ``at_mean()`` returns the log-likelihood at the posterior mean, for all entries of `observed`.
    """

    observed: Any
    at_draw: Callable[[int, int, tuple[np.ndarray, ...]], np.ndarray]
    at_mean: Callable[[], np.ndarray]
