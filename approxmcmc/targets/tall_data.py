"""Base class of all tall-data targets: a log prior, N terms, and a compiled form of both."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import (
    BoundedDifferencesTarget,
    BoundedTermsTarget,
    CompiledDifferenceBound,
    CompiledGradient,
    CompiledTarget,
    CompiledTermRange,
    DifferentiableTarget,
    Target,
    TermWork,
    TwinnedTarget,
    content_hash,
)
from approxmcmc.contracts.arguments import is_number
from approxmcmc.contracts.speaker import speaker, speaking
from approxmcmc.engine.compiler.compile import bind
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.terms.batches import LOG_PRIOR, prior_kernel
from approxmcmc.engine.terms.gradients import (
    ADD_PRIOR_GRADIENT,
    difference_prior_gradient_kernel,
    prior_gradient_kernel,
)
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sources.parts import MadeOfRows
from approxmcmc.targets.checks import check_compiles, check_fills, check_gradient, plain_function
from approxmcmc.targets.unchanged import NotesItsData

SMALLEST_SCALE = 1e-150  # smallest scale of a normal prior; the square of a smaller one has no finite reciprocal
SCALE_RULE = f"above {SMALLEST_SCALE:g} (inf for a flat prior)"  # for messages


def is_prior_scale(value: Any) -> bool:
    """Return whether a value is a valid standard deviation of a normal prior, see `SCALE_RULE`."""
    return is_number(value) and float(value) > SMALLEST_SCALE


def checked_prior_scale(value: Any, name: str, *, otherwise: str = "") -> float:
    """Return a standard deviation of normal priors; raise if it is invalid, and add the remedy `otherwise`."""
    if not is_prior_scale(value):
        raise InvalidInputError(
            f"{speaker()}: {name} must be positive, one number {SCALE_RULE}, found {value!r}{otherwise}"
        )
    return float(value)


def make_gaussian_log_prior(precision: float) -> Callable[[np.ndarray], float]:
    """Return the log density of independent N(0, 1 / precision), up to a constant."""

    def log_prior(theta: np.ndarray) -> float:
        total = 0.0
        for j in range(theta.shape[0]):
            total += theta[j] * theta[j]
        return -0.5 * precision * total

    return log_prior


def make_add_gaussian_gradient(precision: float) -> Callable[..., None]:
    """Return a function that adds the gradient of the log density of independent N(0, 1 / precision) to `out`."""

    def add_gradient(theta: np.ndarray, out: np.ndarray) -> None:
        for j in range(theta.shape[0]):
            out[j] -= precision * theta[j]

    return add_gradient


class Prior:
    """A log prior density over flat theta: independent N(0, scale^2), or the user's function of theta.

    Parameters
    ----------
    scale
        Standard deviation, positive; ``inf`` is the flat prior. Ignored if a function is given.
    function
        ``log_prior(theta) -> float`` up to a constant, -inf outside the support; plain Python, compiled here.
    gradient
        ``grad_log_prior(theta, out)``, which adds the gradient to `out`; None: central differences of `function`.
    name
        What messages call the function; they call the target as when the prior was made.
    """

    is_graph = False
    """Whether the prior is a graph, compiled by PyTensor for each model."""

    def __init__(
        self,
        scale: float,
        function: Callable[..., float] | None,
        *,
        name: str = "prior",
        gradient: Callable[..., None] | None = None,
    ) -> None:
        self.scale = math.nan
        if function is None:
            otherwise = "; give any other prior as a function, prior=..."
            self.scale = checked_prior_scale(scale, "prior_scale", otherwise=otherwise)
        self.speaker = speaker()
        self.name = name
        self.function = None if function is None else plain_function(function, name)
        self.gradient = None if gradient is None else plain_function(gradient, f"grad_{name}")

    def compile(self, dim: int) -> Any:
        """Return the compiled ``log_prior(theta) -> float`` of `dim` parameters, after checking a user's function."""
        if self.function is None:
            return bind(make_gaussian_log_prior, 1.0 / self.scale**2, signature=LOG_PRIOR.signature)
        with speaking(self.speaker):
            check_compiles(self.function, self.name, (np.full(dim, 0.5),), f"{self.name}(theta) -> float")
        return prior_kernel(self.function)

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Return the compiled gradient, after comparing a user's gradient with differences at `at`.

        `labels` are the names of the parameters, for messages.
        """
        if self.function is None:
            return bind(make_add_gaussian_gradient, 1.0 / self.scale**2, signature=ADD_PRIOR_GRADIENT)
        if self.gradient is None:
            return difference_prior_gradient_kernel(self.function)
        name = f"grad_{self.name}"
        with speaking(self.speaker):
            check_fills(self.gradient, name, (at, np.zeros_like(at)), f"{name}(theta, out)")
            kernel = prior_gradient_kernel(self.gradient)
            check_gradient(self.compile(at.size), kernel, at, name, labels)
        return kernel

    def normal(self, dim: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return means and precisions, shape (dim,) each; None if the prior is a function."""
        return None if self.function is not None else (np.zeros(dim), np.full(dim, 1.0 / self.scale**2))

    def __getstate__(self) -> dict[str, Any]:
        """Drop the kernels that subclasses cache: another process compiles them again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_log_prior", "_gradient")}

    def identity(self) -> str:
        """Return a text that identifies the prior."""
        return f"normal({self.scale!r})" if self.function is None else content_id(self.function)

    @property
    def text(self) -> str:
        """The prior in words."""
        if self.function is not None:
            return f"the function {getattr(self.function, '__name__', self.name)}"
        if math.isnan(self.scale):
            return "that of the model"
        return "flat" if math.isinf(self.scale) else f"N(0, {self.scale:g}²) for each parameter"


class TallDataTarget(
    NotesItsData, MadeOfRows, Target, DifferentiableTarget, BoundedTermsTarget, BoundedDifferencesTarget, TwinnedTarget
):
    """A posterior with a likelihood that is a product of N terms of data in arrays.

    Subclasses set `variables`, `data` (contiguous arrays), `n_obs` and `prior`, and compile their terms.
    """

    data: tuple[np.ndarray, ...]
    prior: Prior
    terms_are_concave: bool = False
    """Whether every log-likelihood term is known to be concave in theta, whatever the data."""

    @abc.abstractmethod
    def _log_terms(self) -> Any:
        """Return the compiled batch kernel of the terms; called at set-up."""

    @abc.abstractmethod
    def _identity(self) -> str:
        """Return a text that identifies the likelihood's code and settings, without the data."""

    @property
    def prior_text(self) -> str:
        """The prior in words."""
        return self.prior.text

    @property
    def compiles_prior(self) -> bool:  # type: ignore[override]  # a constant of other targets
        """Whether the log prior is compiled for each model, by PyTensor."""
        return self.prior.is_graph

    def compile(self) -> CompiledTarget:
        """Compile terms and prior; raise `InvalidInputError` if the data were changed in place."""
        self.refuse_changed_data()
        return CompiledTarget(self._log_terms(), self.prior.compile(self.variables.size), self.data, self.n_obs)

    @property
    def term_work(self) -> TermWork:
        """Operations of a term: two for each number in `data`, and three times that for a gradient."""
        numbers = sum(array.size for array in self.data) / self.n_obs
        has_gradients = type(self)._term_gradients is not TallDataTarget._term_gradients
        stored = sum(array.nbytes for array in self.data) / self.n_obs
        return TermWork(2.0 * numbers, 6.0 * numbers if has_gradients else None, stored)

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of terms and prior.

        Raises
        ------
        IncompatibleError
            When the model has no gradient; the message says how to give one.
        InvalidInputError
            When a user's gradient differs from finite differences; the message names the worst coordinate.
        """
        return CompiledGradient(self._term_gradients(), self.compile_prior_gradient(), self.data, self.n_obs)

    def compile_prior_gradient(self) -> Any:
        """Compile the gradient of the log prior; by differences if the prior is a function without a gradient."""
        return self.prior.compile_gradient(self.initial_point() + 0.1, self.variables.labels())

    def _term_gradients(self) -> Any:
        """Return the compiled batch kernel of the gradients of the terms; raise if the model has none."""
        raise IncompatibleError(f"{type(self).__name__} has no gradient; use RandomWalk, which needs none")

    def compile_term_range(self) -> CompiledTermRange:
        """Compile a bound of max_i l_i - min_i l_i between two states, see `CompiledTermRange`, for `BernsteinTest`.

        Raises
        ------
        IncompatibleError
            When the terms have no bound; the message says how to give one.
        """
        raise IncompatibleError(
            f"{type(self).__name__} does not bound its terms; BernsteinTest needs range=<number>, an upper bound of "
            "max l - min l, or range='observed', without a guarantee"
        )

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile bounds of each abs(l_i) between two states, see `CompiledDifferenceBound`, for `PoissonTest`.

        Raises
        ------
        IncompatibleError
            When the terms have no bound; the message says how to give one.
        """
        raise IncompatibleError(
            f"{type(self).__name__} does not bound its terms one by one, which exact subsampling needs: give a "
            "FunctionTarget difference_bound=, a GLMTarget slope_bound=, or expand a GLMTarget with a "
            "third_derivative_bound by ControlVariate; or use ExactTest"
        )

    def initial_point(self) -> np.ndarray:
        """Return the origin; shape (dim,)."""
        return np.zeros(self.variables.size)

    def content_hash(self) -> str:
        """Return a hash of model and data."""
        names = {name: list(shape) for name, shape in self.variables.shapes.items()}
        return content_hash(type(self).__name__, self._identity(), self.prior.identity(), names, *self.data)

    @property
    def normal_prior(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and precisions of the normal prior, 0 where flat; None if the prior is a function."""
        return self.prior.normal(self.variables.size)

    @property
    def why_one_mode(self) -> str:  # type: ignore[override]  # a constant of other targets
        """A proof that there is one mode: concave terms and a normal or flat prior; "" if there is none."""
        is_concave = self.terms_are_concave and self.normal_prior is not None
        return "the log density is concave in the parameters" if is_concave else ""

    def to_pymc(self) -> Any:
        """Raise; models with a PyMC twin override this, and return the same posterior as a `pymc.Model`."""
        raise IncompatibleError(
            f"{type(self).__name__} has no PyMC twin; give one by pymc_model=, a function that returns the pm.Model"
        )
