"""What targets of batch functions share: the kernels that call them, checks of their terms, prior and identity."""

import abc
import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import CompiledTarget, TermWork, Variables, content_hash
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.terms.python_batches import (
    BatchFunction,
    RowReader,
    gradient_by_python,
    prior_by_python,
    prior_gradient_by_python,
    terms_by_python,
)
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.sources import as_source
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import kept
from approxmcmc.targets.tall_data import SCALE_RULE, SMALLEST_SCALE, Prior, TallDataTarget

MOST_FOR_A_CHOICE = 200  # parameters: second derivatives at a mode take 2 dim gradients, and matrices of dim x dim
NOT_OVER_ROWS = "sum over outputs, not over rows"  # advice in messages on the shape of terms
CHECKED_TOGETHER = 16  # rows whose terms are compared between one batch and batches of two


class BatchModel(abc.ABC):
    """The functions of a target on batches of rows, made once in each process."""

    sizes: Sequence[int] = ()
    """Numbers of rows for which the functions are compiled, ascending; empty if any number will do."""

    float_dtype = np.dtype(np.float64)
    """Type of the floats that the functions receive."""

    @abc.abstractmethod
    def write_terms(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        """Write the terms of the first n of the rows to `out`, shape (n,)."""

    @property
    @abc.abstractmethod
    def add_gradient(self) -> BatchFunction | None:
        """``add_gradient(theta, rows, n, out)`` adds the gradient of the sum of n terms; None if there is none."""

    @abc.abstractmethod
    def identity(self) -> str:
        """Return a text that identifies the functions and everything that they read except the rows."""

    def work(self) -> TermWork | None:
        """Return the counted work of a term; None if it is unknown."""
        return None


class PythonPrior(Prior):
    """A log prior that another library computes.

    Parameters
    ----------
    value
        ``value(theta) -> float``.
    add_slope
        ``add_slope(theta, out)`` adds the gradient to `out`.
    text
        A text that identifies the prior.
    """

    def __init__(
        self,
        value: Callable[[np.ndarray], float],
        add_slope: Callable[[np.ndarray, np.ndarray], None],
        text: Callable[[], str],
    ) -> None:
        super().__init__(1.0, None)
        self.scale = float("nan")  # the prior is not normal
        self._value = value
        self._add_slope = add_slope
        self._text = text

    def compile(self, dim: int) -> Any:
        """Return the kernel ``log_prior(theta)``."""
        return self._log_prior

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Return the kernel ``add_prior_gradient(theta, out)``."""
        return self._gradient

    @functools.cached_property
    def _log_prior(self) -> Any:
        return prior_by_python(self._value)

    @functools.cached_property
    def _gradient(self) -> Any:
        return prior_gradient_by_python(self._add_slope)

    def normal(self, dim: int) -> None:
        """Return None: the prior is not known to be normal."""

    def identity(self) -> str:
        """Return the text that identifies the prior."""
        return self._text()


class BatchedTarget(TallDataTarget):
    """A posterior with terms that Python functions compute for a batch of rows at a time.

    Subclasses call `_set` and implement `_make_model`. Kernels and functions live in one process: a pickled target
    makes them again.
    """

    _of_process: tuple[str, ...] = (
        "model",
        "reader",
        "_terms_kernel",
        "_gradient_kernel",
    )  # cached, and dropped by pickle

    @names_itself()
    def _set(self, data: Any, variables: Variables, start: np.ndarray, prior: Prior, term_tolerance: float) -> None:
        arrays = data if isinstance(data, tuple | list) else (data,)
        self.given = kept(tuple(arrays))
        self.data = tuple(rows_of(values, f"data[{k}]") for k, values in enumerate(arrays))
        lengths = {len(array) if array.ndim else 0 for array in self.data}
        if len(lengths) != 1 or 0 in lengths:
            raise InvalidInputError(
                f"{speaker()}: every array in data needs one row for each term, found shapes "
                f"{[array.shape for array in self.data]}; put constants into the function"
            )
        self.n_obs = len(self.data[0])
        self.variables = variables
        self.prior = prior
        self._start = np.ascontiguousarray(start, dtype=np.float64)
        self.term_tolerance = term_tolerance

    @abc.abstractmethod
    def _make_model(self) -> BatchModel:
        """Return the functions; called once in each process."""

    @functools.cached_property
    def model(self) -> BatchModel:
        """The functions of this target, made when they are first used."""
        return self._make_model()

    @functools.cached_property
    def reader(self) -> RowReader:
        """Reads the rows of a batch."""
        return RowReader(self.data, self.model.sizes, self.model.float_dtype)

    def compile(self) -> CompiledTarget:
        """Compile terms and prior."""
        return super().compile()._replace(term_tolerance=self.term_tolerance)

    def _log_terms(self) -> Any:
        return self._terms_kernel

    def _term_gradients(self) -> Any:
        return self._gradient_kernel

    @functools.cached_property
    def _terms_kernel(self) -> Any:
        self._check_terms()
        for n in self._warm_sizes():
            self._terms_of(np.arange(n), self._start)
        return terms_by_python(self.model.write_terms, self.reader, self.data)

    @functools.cached_property
    def _gradient_kernel(self) -> Any:
        add_gradient = self.model.add_gradient
        if add_gradient is None:
            raise IncompatibleError(
                f"{self!r} has no gradient: give gradient=, a function gradient(theta, rows) that returns the gradient "
                "of the sum of the terms, or use RandomWalk, which needs none"
            )
        for n in self._warm_sizes():
            for _, length, rows in self.reader.pieces(self.data, np.arange(n), n):
                add_gradient(self._start, rows, length, np.zeros(self.variables.size))
        return gradient_by_python(add_gradient, self.reader, self.data)

    def _warm_sizes(self) -> list[int]:
        """Numbers of rows to evaluate at set-up, so that everything is compiled before the clock of a run starts."""
        return [size for size in self.model.sizes if size <= self.n_obs] or [self.n_obs][: len(self.model.sizes)]

    def _terms_of(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the terms of some rows, by Python alone: an exception of the function is raised as it is."""
        out = np.empty(len(rows))
        for first, n, piece in self.reader.pieces(self.data, rows, len(rows)):
            self.model.write_terms(theta, piece, n, out[first : first + n])
        return out

    @names_itself()
    def _check_terms(self) -> None:
        """Raise unless each term is one number that depends on its own row alone."""
        at = self._start + 0.01 * np.sin(1.0 + np.arange(self.variables.size))
        rows = np.unique(np.linspace(0, self.n_obs - 1, CHECKED_TOGETHER).astype(np.int64))
        together = self._terms_of(rows, at)
        # Pairs, because batch normalisation fails for a single row, with an error that names no cause.
        in_pairs = np.array(
            [self._terms_of(np.array(pair), at)[0] for pair in zip(rows, np.roll(rows, 1), strict=True)]
        )
        if not np.allclose(together, in_pairs, rtol=10 * self.term_tolerance, atol=self.term_tolerance, equal_nan=True):
            worst = int(np.argmax(np.abs(together - in_pairs)))
            raise IncompatibleError(
                f"{speaker()}: the term of row {rows[worst]} is {in_pairs[worst]:.9g} beside one row and "
                f"{together[worst]:.9g} in a batch of {len(rows)} rows. A term must depend on its own row alone: "
                "switch off batch normalisation, dropout and random augmentation, or raise term_tolerance (now "
                f"{self.term_tolerance:g}) if this is rounding"
            )

    @property
    def why_no_choice(self) -> str:  # type: ignore[override]  # a constant of other targets
        """Why no sampler can be chosen: a network's posterior has no mode that describes it."""
        dim = self.variables.size
        if dim <= MOST_FOR_A_CHOICE:
            return ""
        return (
            f"{self!r} has {dim} parameters, more than the {MOST_FOR_A_CHOICE} for which a normal approximation of a "
            "model of batches is searched, and its terms have no bounds; for networks try "
            "MetropolisHastings(proposals.StochasticGradientHamiltonian(..., gradient_noise=None), "
            "acceptance.AlwaysAccept()), or HMC with ExactTest"
        )

    @property
    def term_work(self) -> TermWork:
        """Operations of a term as counted by its library, else two for each number of a row and parameter."""
        counted = self.model.work()
        if counted is not None:
            return counted
        stored = sum(array.nbytes for array in self.data) / self.n_obs
        numbers = max(sum(array.size for array in self.data) / self.n_obs, self.variables.size)
        return TermWork(2.0 * numbers, None if self.model.add_gradient is None else 6.0 * numbers, stored, "python")

    def initial_point(self) -> np.ndarray:
        """Return the point around which chains start; shape (dim,)."""
        return self._start.copy()

    def _identity(self) -> str:
        return self.model.identity()

    def content_hash(self) -> str:
        """Return a hash of functions, prior, names, number type and data."""
        names = {name: list(shape) for name, shape in self.variables.shapes.items()}
        precision = np.dtype(self.model.float_dtype).name
        return content_hash(type(self).__name__, self._identity(), self.prior.identity(), names, precision, *self.data)

    def with_rows(self, given: Any, n_obs: int) -> Self:
        """Return this model with other rows as its data."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__getstate__())
        other.given = None
        other.data = tuple(given)
        other.n_obs = n_obs
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Drop functions and kernels of this process."""
        return {name: value for name, value in self.__dict__.items() if name not in self._of_process}


def checked_settings(
    loglik: Any,
    logprior: Any,
    dtype: Any,
    term_tolerance: float | None,
) -> tuple[np.dtype, float]:
    """Return the type in which a library computes, and the relative rounding error of a term; raise on wrong settings.

    The default of the rounding error allows for other neighbours in the batch.
    """
    for name, function in (("loglik", loglik), ("logprior", logprior)):
        if not callable(function) and not (name == "logprior" and function is None):
            raise InvalidInputError(f"{speaker()}: {name} must be a function, found {type(function).__name__}")
    tolerances = {"float32": 1e-5, "float64": 1e-9}
    if dtype not in tolerances:
        raise InvalidInputError(f'{speaker()}: dtype must be "float32" or "float64", found {dtype!r}')
    tolerance = tolerances[dtype] if term_tolerance is None else checked_tolerance(term_tolerance)
    return np.dtype(dtype), tolerance


def checked_tolerance(value: Any) -> float:
    """Return the tolerance as a float; raise unless it is between 0 and 0.01."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not 0.0 < value < 0.01:
        raise InvalidInputError(f"{speaker()}: term_tolerance must be a number above 0 and below 0.01, found {value!r}")
    return float(value)


def normal_scales(scale: Any, dim: int) -> np.ndarray:
    """Return the standard deviations of normal priors, shape (dim,), from one number or an array of that shape."""
    try:
        scales = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        scales = np.asarray(np.nan)
    if isinstance(scale, bool) or scales.shape not in ((), (dim,)) or not np.all(scales > SMALLEST_SCALE):
        raise InvalidInputError(
            f"{speaker()}: prior_scale must be positive, one number or shape ({dim},), {SCALE_RULE}; found {scale!r}"
        )
    return np.broadcast_to(scales, (dim,)).copy()


def text_hash(*texts: str) -> str:
    """Return a hash of texts."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()


def rows_of(values: Any, name: str) -> np.ndarray:
    """Return data as a contiguous array of its own type; float32, integers of any size and booleans are kept."""
    if as_source(values) is None and not np.ma.isMaskedArray(values):
        array = np.asarray(values)
        if array.dtype.kind in "iub":
            return np.ascontiguousarray(array)
    return checked_array(values, name, keep_float32=True)
