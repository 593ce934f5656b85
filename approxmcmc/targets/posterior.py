"""The log posterior of a target near a point: its likelihood by the expansion of its terms, its prior beside it."""

import copy

import numpy as np

from approxmcmc.contracts import DiscreteTarget, Target
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.targets.expansion.general import GeneralExpansion
from approxmcmc.targets.expansion.linear import LinearExpansion
from approxmcmc.targets.expansion.own import ExpandsItself, OwnExpansion
from approxmcmc.targets.expansion.predictors import PredictorExpansion
from approxmcmc.targets.expansion.quadratic import Quadratic
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.parts import parts_of
from approxmcmc.targets.predictors.base import PredictorsTarget

AnyExpansion = LinearExpansion | PredictorExpansion | GeneralExpansion


def expansion_of(target: Target, order: int) -> AnyExpansion:
    """Return what expands the terms of a target: in closed form where they have linear predictors.

    Passes over rows that came from sources are made by the Dask cluster whose client is active.
    """
    expansion: AnyExpansion
    if isinstance(target, LinearTarget):
        expansion = LinearExpansion(target, order)
    elif isinstance(target, PredictorsTarget):
        expansion = PredictorExpansion(target, order)
    elif isinstance(target, ExpandsItself):
        expansion = OwnExpansion(target, order)
    else:
        expansion = GeneralExpansion(target, order)
    expansion.parts = parts_of(target)
    return expansion


class Posterior:
    """The log posterior of a target, its derivatives, and the passes over the data that they took."""

    def __init__(self, target: Target, order: int = 2) -> None:
        if isinstance(target, DiscreteTarget) or not isinstance(target, Target):
            raise IncompatibleError(
                f"a mode and an expansion need a target with continuous parameters and a likelihood, found {target!r}"
            )
        self.target, self.log_prior = target, target.compile().log_prior
        self.expansion: AnyExpansion = expansion_of(target, order)

    def of_rows(self, rows: np.ndarray) -> "Posterior":
        """Return the log posterior, the log-likelihood estimated by some rows."""
        some = copy.copy(self)
        some.expansion = self.expansion.of_rows(rows)
        return some

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return the expansion of the log posterior at theta."""
        return self.expansion.at(theta) + self.prior_at(theta)

    def prior_at(self, theta: np.ndarray) -> Quadratic:
        """Return the expansion of the log prior at theta; in closed form where it is normal, else by differences."""
        value, dim, normal = float(self.log_prior(theta)), theta.size, self.target.normal_prior
        if normal is not None:
            mean, precision = normal
            return Quadratic(value, -precision * (theta - mean), -np.diag(precision))
        steps = np.diag(1e-3 * np.maximum(1.0, np.abs(theta)))
        up, down = (np.array([self.log_prior(theta + sign * step) for step in steps]) for sign in (1.0, -1.0))
        h = np.diag(steps)
        hessian = np.empty((dim, dim))
        with np.errstate(invalid="ignore"):  # inf - inf beyond the support, found out below
            for j in range(dim):
                hessian[j, j] = (up[j] - 2.0 * value + down[j]) / h[j] ** 2
                for k in range(j):
                    corners = sum(self.log_prior(theta + sign * (steps[j] + steps[k])) for sign in (1.0, -1.0))
                    pure = up[j] + down[j] + up[k] + down[k] - 2.0 * value
                    hessian[j, k] = hessian[k, j] = (corners - pure) / (2.0 * h[j] * h[k])
        if not (np.isfinite(value) and np.isfinite(hessian).all()):
            raise NotFiniteError(
                f"{self.target!r}: the log prior is not finite around theta = {theta}; start, or expand, inside the "
                "support"
            )
        return Quadratic(value, (up - down) / (2.0 * h), hessian)
