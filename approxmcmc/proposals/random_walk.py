"""The Gaussian random walk: theta' = theta + factor * L z, z ~ N(0, I).

Symmetric, so log q(theta|theta') - log q(theta'|theta) = 0. With a wanted acceptance rate the factor follows a
Robbins-Monro recursion during tuning, log factor += (acceptance - wanted) / step^0.6, and is frozen afterwards
(Andrieu and Thoms 2008, algorithm 4 without the covariance): kept draws come from one fixed kernel.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, Part, Target
from approxmcmc.errors import IncompatibleError, InvalidInputError

LOG_FACTOR = 0


def _propose_independent(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    scale = params[0]
    factor = math.exp(state[LOG_FACTOR])
    for j in range(theta.shape[0]):
        out[j] = theta[j] + factor * scale[j] * rng.standard_normal()
    return 0.0


def _propose_correlated(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    lower = params[0]
    factor = math.exp(state[LOG_FACTOR])
    for j in range(theta.shape[0]):
        out[j] = rng.standard_normal()
    for i in range(theta.shape[0] - 1, -1, -1):  # from the last row up: row i needs z_0 ... z_i, still in place
        step = 0.0
        for j in range(i + 1):
            step += lower[i, j] * out[j]
        out[i] = theta[i] + factor * step
    return 0.0


def _adapt_factor(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into a template
    state[LOG_FACTOR] += (acceptance - params[1]) / (step + 1.0) ** 0.6


def keep(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into a template
    """Adapt nothing."""


def _describe(state: np.ndarray) -> Mapping[str, float]:
    return {"scale_factor": math.exp(state[LOG_FACTOR])}


@dataclasses.dataclass(frozen=True, eq=False)
class RandomWalk(Component):
    """Propose theta' ~ N(theta, Sigma).

    Parameters
    ----------
    scale
        A positive number (the standard deviation of every coordinate), a vector of standard deviations, shape
        (dim,), or a covariance matrix Sigma, shape (dim, dim), in the units of theta.
    target_acceptance
        Wanted acceptance rate in (0, 1). The size of the steps is tuned to it in the tune phase and frozen after.
        None: the scale is used as it is.

    Raises
    ------
    InvalidInputError
        When a scale is not positive, or the matrix not symmetric positive definite.
    IncompatibleError
        When the scale's length is not the target's dimension.

    Notes
    -----
    On a Gaussian target the best exact random walk has Sigma = 2.38^2 / dim times the posterior covariance and
    accepts 0.44 (dim 1) down to 0.234 (Roberts, Gelman and Gilks 1997). Approximate tests prefer smaller steps: they
    read less data.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.RandomWalk([0.1, 0.2], target_acceptance=0.3)
    RandomWalk(scale=array([0.1, 0.2]), target_acceptance=0.3)
    """

    scale: Any = 1.0
    target_acceptance: float | None = None

    def __post_init__(self) -> None:
        """Check signs, symmetry and ranges."""
        scale = np.array(self.scale, dtype=np.float64)
        if not np.all(np.isfinite(scale)):
            raise InvalidInputError("RandomWalk: scale must be finite")
        if scale.ndim < 2 and not np.all(scale > 0.0):
            raise InvalidInputError(f"RandomWalk: standard deviations must be positive, found {scale.min()}")
        if scale.ndim == 2:
            self._cholesky(scale)
        if scale.ndim > 2:
            raise InvalidInputError(
                f"RandomWalk: scale must be a number, a vector or a matrix, found shape {scale.shape}"
            )
        object.__setattr__(self, "scale", scale if scale.ndim else float(scale))
        if self.target_acceptance is not None and not 0.0 < self.target_acceptance < 1.0:
            raise InvalidInputError(
                f"RandomWalk: target_acceptance must lie strictly between 0 and 1, found {self.target_acceptance}"
            )

    @staticmethod
    def _cholesky(cov: np.ndarray) -> np.ndarray:
        if cov.shape[0] != cov.shape[1] or not np.allclose(cov, cov.T):
            raise InvalidInputError(
                f"RandomWalk: a matrix scale is a covariance and must be symmetric, found shape {cov.shape}"
            )
        try:
            return np.linalg.cholesky(cov)
        except np.linalg.LinAlgError:
            least = np.linalg.eigvalsh(cov)[0]
            raise InvalidInputError(
                f"RandomWalk: the covariance must be positive definite, its least eigenvalue is {least:.3g}"
            ) from None

    def build_proposal(self, target: Target) -> Part:
        """Return the part that proposes; its state is the logarithm of the tuned factor."""
        dim, scale = target.variables.size, np.asarray(self.scale)
        if scale.ndim and scale.shape[0] != dim:
            raise IncompatibleError(
                f"RandomWalk: the target has {dim} parameters, scale has shape {scale.shape}; "
                f"give a number, {dim} standard deviations or a {dim} x {dim} covariance"
            )
        correlated = scale.ndim == 2
        spread = self._cholesky(scale) if correlated else np.ascontiguousarray(np.broadcast_to(scale, (dim,)))
        functions = {
            "PROPOSE": _propose_correlated if correlated else _propose_independent,
            "ADAPT": keep if self.target_acceptance is None else _adapt_factor,
        }
        params = (spread, self.target_acceptance or 0.0)
        tuned = self.target_acceptance is not None
        return Part(functions, params, lambda: np.zeros(1), _describe if tuned else lambda state: {})
