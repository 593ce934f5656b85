"""Base class of targets whose terms are the terms of another target minus an expansion of these terms."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import (
    BoundedDifferencesTarget,
    BoundedTermsTarget,
    CompiledTarget,
    DifferentiableTarget,
    Target,
    TwinnedTarget,
    pymc_model_of,
)
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.surrogate.pilot import Pilot, normal_pilot, run_pilot
from approxmcmc.targets.laplace_approximation import Laplace
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.mode import laplace

PLACES = ("mode", "pilot")


class ExpandedTarget(Target, DifferentiableTarget, BoundedTermsTarget, BoundedDifferencesTarget, TwinnedTarget):
    """The posterior of another target, `target`, with terms expanded around `center`.

    Subclasses set `center` and `laplace`, and define `_compile`.
    """

    terms_are_likelihood = False  # terms are residuals: a temperature would divide these and not the expansion

    target: Target
    center: np.ndarray
    laplace: Laplace | None

    def __init__(self, target: Target) -> None:
        if isinstance(target, ExpandedTarget):
            raise IncompatibleError(
                f"{type(self).__name__}: the target is a {type(target).__name__} already; give it the plain target"
            )
        self.target, self.variables, self.n_rows = target, target.variables, target.n_rows or target.n_obs
        self.distance_to_model = target.distance_to_model
        self._compiled: CompiledTarget | None = None
        self._content = ""  # of the plain target, when it was compiled

    @abc.abstractmethod
    def _compile(self, plain: CompiledTarget) -> CompiledTarget:
        """Return the compiled target: the residual terms, and the density that replaces the prior."""

    def compile(self) -> CompiledTarget:
        """Compile the residual terms, and the density that replaces the prior; once for this object.

        Raises
        ------
        InvalidInputError
            When data or functions of the plain target have changed since the expansion was made.
        """
        content = self.target.content_hash()
        if self._compiled is not None and content != self._content:
            raise InvalidInputError(
                f"{self!r}: the data of {self.target!r}, or numbers that its functions read, were changed after the "
                f"expansion was made; make a new target and a new {type(self).__name__}"
            )
        if self._compiled is None:
            self._content = content
            self._compiled = self._compile(self.target.compile())
        return self._compiled

    @property
    def plain(self) -> Target:
        """The target whose terms were expanded."""
        return self.target

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data of the plain target."""
        return self.target.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The plain target's constants, and mode and covariance of the Laplace approximation."""
        fit = {} if self.laplace is None else {"laplace_mode": self.laplace.mode, "laplace_cov": self.laplace.cov}
        return {**self.target.constant_data, **fit}

    def initial_point(self) -> np.ndarray:
        """Return the mode of the Laplace approximation, or the centre without one; shape (dim,)."""
        return self.center.copy() if self.laplace is None else self.laplace.mode.copy()

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of the Laplace approximation, or U(-1, 1) around the centre without one; shape (dim,)."""
        if self.laplace is None:
            return self.center + rng.uniform(-1.0, 1.0, size=self.center.size)
        return self.laplace.draw(rng)

    def to_pymc(self) -> Any:
        """Return the plain target's PyMC twin."""
        return pymc_model_of(self.target)

    def _linear_target(self) -> LinearTarget:
        """Return the plain target; raise if it has no linear predictor with known derivatives."""
        if isinstance(self.target, LinearTarget) and self.target.knows_derivatives:
            return self.target
        raise IncompatibleError(
            f"{self!r} does not bound its residuals one by one: exact subsampling needs a generalised linear model "
            "with exact derivatives, LogisticRegression or a GLMTarget with derivatives_eta=; use ExactTest"
        )

    def _place(self, at: Any, memory_limit: float) -> Any:
        """Return `at` itself; for "mode" compute the Laplace approximation, for "pilot" a pilot with its survey."""
        if isinstance(at, str) and at not in PLACES:
            raise InvalidInputError(
                f'{type(self).__name__}: at must be "mode", "pilot", an array or a Laplace object, found {at!r}'
            )
        if isinstance(at, str):
            return laplace(self.target) if at == "mode" else run_pilot(self.target, memory_limit)
        return at

    def _pilot(self, found: Any) -> Pilot:
        """Return `found`, the result of `_place`, as a distribution with draws; raise if it is only a point."""
        if not isinstance(found, Laplace):
            raise InvalidInputError(
                f"{type(self).__name__}: averaged coefficients and core rows need the width of the posterior, "
                'which a point does not show; give at="pilot", at="mode" or a Laplace approximation'
            )
        if found.mode.shape != (self.variables.size,):
            raise InvalidInputError(
                f"{type(self).__name__}: at must have shape ({self.variables.size},), found {found.mode.shape}"
            )
        return found if isinstance(found, Pilot) and len(found.draws) else normal_pilot(found)
