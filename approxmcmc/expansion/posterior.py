"""Expand the log posterior of a target around a point: the sum of the expansions of its terms and of its prior."""

import contextlib
import copy
import functools
from typing import Any

import numpy as np

from approxmcmc.contracts import DifferentiableTarget, DiscreteTarget, ExpandableTarget, Target
from approxmcmc.engine.terms.gradients import DIFFERENCE, make_add_differences
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.expansion.base import Expansion
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.expansion.quadratic import Quadratic
from approxmcmc.sources.parts import parts_of

STEP = 1e-3  # step of differences of the prior's gradient, in units of the larger of 1 and the coordinate
# Up to so many parameters the 4 dim^2 calls of the prior take 30 ms; compiling its gradient takes a second or more.
FEW_PARAMETERS = 64

ROUNDING = 1e-9  # relative difference of two sums of the same terms; generous
UNSEEN = 1e-4  # posterior standard deviations: a gradient error of this size does not affect a search for a mode


def expansion_of(target: Target, order: int) -> Expansion:
    """Return the object that expands the terms of a target: in closed form if the target has one.

    If a Dask client is active, its cluster makes the passes over rows that came from sources.
    """
    expansion: Expansion = (
        target.expansion(order) if isinstance(target, ExpandableTarget) else GeneralExpansion(target, order)
    )
    expansion.parts = parts_of(target)
    return expansion


class Posterior:
    """Evaluate the log posterior of a target and its derivatives, and count the passes over the data."""

    def __init__(self, target: Target, order: int = 2) -> None:
        if isinstance(target, DiscreteTarget) or not isinstance(target, Target):
            raise IncompatibleError(
                f"a mode and an expansion need a target with continuous parameters and a likelihood, found {target!r}"
            )
        self.target = target
        self.log_prior = target.compile().log_prior
        self.expansion: Expansion = expansion_of(target, order)

    @classmethod
    def by_gradients(cls, target: Target) -> "Posterior":
        """Return the log posterior with values and gradients from the target's own kernels, without closed forms.

        For targets whose kernels are compiled when the closed forms are not.
        """
        posterior = cls.__new__(cls)
        posterior.target = target
        posterior.log_prior = target.compile().log_prior
        posterior.expansion = GeneralExpansion(target, order=1)
        posterior.expansion.parts = parts_of(target)
        return posterior

    def of_rows(self, rows: np.ndarray) -> "Posterior":
        """Return the log posterior with the log-likelihood estimated from the rows with these indices."""
        posterior = copy.copy(self)
        posterior.expansion = self.expansion.of_rows(rows)
        return posterior

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log posterior at theta."""
        return self.expansion.at(theta) + self.prior_at(theta)

    def may_reach(self, theta: np.ndarray, height: float) -> bool:
        """Return False if the log density at theta is below `height`, True if it is not, or if only `at` can decide.

        It takes one pass where values are cheap. Their sum may differ from that of `at` by `ROUNDING`, so a value that
        is nearly high enough is left to `at`.
        """
        if not self.expansion.values_are_cheap:
            return True
        assert isinstance(self.expansion, GeneralExpansion)
        value = self.expansion.log_likelihood(theta) + float(self.log_prior(theta))
        return value >= height - ROUNDING * (1.0 + abs(height))

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the log prior at theta; shape (dim,)."""
        normal = self.target.normal_prior
        if normal is not None:
            mean, precision = normal
            return -precision * (theta - mean)
        slope = np.zeros(theta.size)
        with np.errstate(invalid="ignore"):  # inf - inf beyond the support
            self._add_prior_gradient(theta, slope)
        return slope

    def prior_at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log prior at theta; Hessian by 2 dim gradients if not normal.

        Raises
        ------
        NotFiniteError
            If the log prior or a derivative is not finite there, or the prior is too narrow for differences.
        """
        value = float(self.log_prior(theta))
        slope = self.prior_gradient(theta)
        normal = self.target.normal_prior
        if normal is not None:
            return Quadratic(value, slope, -np.diag(normal[1]))
        hessian = np.array([self._prior_second_differences(theta, j) for j in range(theta.size)])
        if not (np.isfinite(value) and np.isfinite(slope).all() and np.isfinite(hessian).all()):
            raise NotFiniteError(
                f"{self.target!r}: the log prior is not finite around theta = {theta}; start, or expand, inside the "
                "support"
            )
        # Rounding changes the prior's gradient, a central difference, by eps |H| h, where h = DIFFERENCE
        # max(1, |theta|); that is eps sqrt(|H|) h standard deviations of the prior.
        off = np.sqrt(np.abs(np.diag(hessian))) * DIFFERENCE * np.maximum(1.0, np.abs(theta)) * np.finfo(float).eps
        if off.max() > UNSEEN:
            raise NotFiniteError(
                f"{self.target!r}: around theta = {theta} the log prior is too narrow for differences in coordinate "
                f"{off.argmax()}, as in a hierarchy whose scale runs to 0"
            )
        return Quadratic(value, slope, 0.5 * (hessian + hessian.T))

    def _prior_second_differences(self, theta: np.ndarray, j: int) -> np.ndarray:
        """Return row j of the Hessian of the log prior, by central differences of its gradient."""
        shift = np.zeros(theta.size)
        shift[j] = STEP * max(1.0, abs(theta[j]))
        with np.errstate(invalid="ignore"):  # inf - inf, which `prior_at` refuses
            return (self.prior_gradient(theta + shift) - self.prior_gradient(theta - shift)) / (2.0 * shift[j])

    @functools.cached_property
    def _add_prior_gradient(self) -> Any:
        """The gradient of the log prior: compiled if there are many parameters, else by differences."""
        if self.target.variables.size > FEW_PARAMETERS and isinstance(self.target, DifferentiableTarget):
            with contextlib.suppress(IncompatibleError):
                return self.target.compile_prior_gradient()
        return make_add_differences(self.log_prior)
