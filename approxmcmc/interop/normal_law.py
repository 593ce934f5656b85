"""Find normal outcomes in a PyMC model, with means that are affine in theta, and scales with an affine logarithm.

    y_ij ~ N(mu_ij(theta), (s_ij exp(c_j' theta))^2),

such as ``pm.Normal("y", X @ beta + a, sigma)`` with a positive sigma, which is sampled as log sigma; ``sigma * s`` with
known s, a precision, or 1 / sqrt of one. That the logarithm of the scale is affine follows from its operations; testing
it at some points would not prove it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.interop.affine import AFFINE, CONSTANT, LOG_AFFINE, kinds
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.predictors import Predictors, Quantity, design_of
from approxmcmc.interop.walk import in_python
from approxmcmc.targets.predictors.design import Design, Predictor

DIGITS = 12  # of the weights of log scales, most of which are 1


def normal_design(source: ModelOfPyMC, found: Predictors, operation: Any, parameters: Sequence[Any]) -> Design | None:
    """Return the design of means and log scales of normal outcomes; None if the model has another form.

    `operation` is that of the observed variable's distribution, `parameters` its parameters as graphs of theta.
    """
    rows = source.rows
    if type(operation).__name__ != "NormalRV" or rows.variables[0].ndim > 2:
        return None
    mean, scale = parameters
    kind = kinds([mean, scale], source.theta)
    if kind.get(mean) != AFFINE or kind.get(scale, CONSTANT) not in (CONSTANT, LOG_AFFINE):
        return None
    J = int(np.prod(np.shape(rows.observed[0])[1:], dtype=int))
    return _with_scales(source, _of_means(source, found, mean, J), scale, J)


def _of_means(source: ModelOfPyMC, found: Predictors, mean: Any, J: int) -> Design:
    """Return a design that begins with the J means: that of `found` if it does so, else a new one."""
    theta = np.random.default_rng(0).normal(size=found.design.dim)
    function = in_python([source.theta], mean)
    at_theta = np.asarray(function(theta)).T
    of_rows = [quantity.size for quantity in found.quantities if quantity.row_axis is not None]
    if of_rows == [J] and np.allclose(found.design.eta(theta, slice(None))[:J], at_theta, rtol=1e-9, atol=1e-9):
        return found.design
    return design_of(source, [Quantity(mean, 0, J)])


def _with_scales(source: ModelOfPyMC, design: Design, scale: Any, J: int) -> Design | None:
    """Return the design of J means, with J log scales in place of the other predictors.

    None if a scale is not positive and finite at theta = 0.
    """
    n_rows = source.rows.n_rows
    dim = design.dim
    of_theta = in_python([source.theta], scale)

    def log_scales(theta: np.ndarray) -> np.ndarray:
        values = np.asarray(of_theta(theta), np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(
                np.broadcast_to(values.reshape(-1, 1) if values.ndim == 1 and J == 1 else values, (n_rows, J))
            )

    offsets = log_scales(np.zeros(dim))
    if not np.isfinite(offsets).all():
        return None
    weights = np.array([np.round(log_scales(unit)[0] - offsets[0], DIGITS) for unit in np.eye(dim)])
    X = design.X
    scales = []
    for column, mine in zip(offsets.T, weights.T, strict=True):
        entries = np.flatnonzero(mine)
        if (column == column[0]).all():
            shared = [*entries, dim]
            values = [*mine[entries], float(column[0])]
            span = (0, 0)
            places = []
        else:
            shared = [*entries]
            values = [*mine[entries]]
            span = (X.shape[1], X.shape[1] + 1)
            places = [dim]
            X = np.column_stack([X, column])
        scales.append(
            Predictor(span, places, shared=[int(entry) for entry in shared], values=[float(v) for v in values])
        )
    return Design(dim, X, design.codes, design.weight_columns, [*design.predictors[:J], *scales])
