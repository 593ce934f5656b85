"""A user-defined model, written as plain Python functions of one datum."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import CompiledDifferenceBound, CompiledTermRange, TermWork
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.compiler.operations import LENGTH, operations
from approxmcmc.engine.terms.batches import batch_kernel
from approxmcmc.engine.terms.gradients import gradient_kernel
from approxmcmc.engine.terms.term_range import user_range
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import (
    CHECKED_ROWS,
    check_compiles,
    check_fills,
    check_gradient,
    check_terms,
    checked_array,
    checked_arrays,
    checked_dimension,
    plain_function,
    positive_integer,
)
from approxmcmc.targets.given import kept, named_variables, with_sources
from approxmcmc.targets.tall_data import Prior, TallDataTarget


class FunctionTarget(TallDataTarget):
    """A posterior from two plain Python functions: log p(theta | x) = logprior(theta) + sum_i loglik(theta, data, i).

    Parameters
    ----------
    loglik
        ``loglik(theta, data, i) -> float``: log p(x_i | theta). `theta` is a float64 vector of shape (dim,), `data`
        the tuple of arrays given here, `i` the index of a row. Compiled here: write plain loops; row slices that
        allocate are three times slower than a loop.
    logprior
        ``logprior(theta) -> float``, up to a constant; -inf outside the support.
    data
        An array or a tuple of arrays, or of sources (`approxmcmc.sources`). At least one has `n_obs` rows; arrays of
        other lengths are passed to your functions unchanged. Contiguous float64 and int64 arrays are not copied.
        float32 arrays become float64, so that your function computes in double precision.
    n_obs
        Number of terms N.
    dim
        Length of theta.
    grad_loglik
        ``grad_loglik(theta, data, i, out)`` adds the gradient of ``loglik(theta, data, i)`` in theta to `out`, shape
        (dim,). Gradient proposals need it; it is compared with finite differences before they run.
    grad_logprior
        ``grad_logprior(theta, out)`` adds the gradient of `logprior`. None: central differences, 2 dim + 1 calls.
    term_range
        ``term_range(theta, proposed) -> float``: an upper bound of max l - min l over all data, l_i =
        ``loglik(proposed, data, i) - loglik(theta, data, i)``. :class:`BernsteinTest` needs it for its guarantee.
    difference_bound
        ``(rates, reach)`` with ``abs(l_i) <= rates[i] * reach(theta, proposed)`` for every datum and pair of states:
        positive `rates` of shape (n_obs,), and a function that is symmetric in the two states and infinite where
        no bound is known. :class:`PoissonTest` and related tests need it, and raise if terms at some pairs of states
        break it.
    var_names
        Names of the variables that theta holds, in order: one name for a vector of length `dim`, or `dim` names of
        scalars, or several names with `dims` and `coords`. Default ``"theta"``, a vector.
    dims, coords
        Axis names by variable, and labels by axis, as in `pymc.Model`.
    initial_point
        The theta around which chains start, shape (dim,); default the origin.
    pymc_model
        A function that returns the same posterior as a `pymc.Model`, for gold standards.

    Raises
    ------
    InvalidInputError
        When arrays, names or sizes do not fit.
    CompilationError
        When a function does not compile, returns anything but one number, or fails at a datum, as with an index beyond
        the end; raised here, before sampling.

    Notes
    -----
    A function uses the values that its globals, its closures and uncopied arrays have when `sample` is called. A helper
    that numba compiled keeps the values of its first call. Return -inf outside the support: an exception ends the run.
    These functions must not draw random numbers; for that see :class:`EstimatedLikelihood`.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> x = np.random.default_rng(0).normal(1.0, 2.0, size=1000)
    >>> def loglik(theta, data, i):
    ...     (x,) = data
    ...     return -theta[1] - 0.5 * ((x[i] - theta[0]) * np.exp(-theta[1])) ** 2
    >>> def logprior(theta):
    ...     return -0.5 * (theta[0] ** 2 / 100.0 + theta[1] ** 2)
    >>> amc.FunctionTarget(loglik, logprior, data=x, n_obs=1000, dim=2, var_names=("mu", "log_sigma"))
    FunctionTarget(loglik, n_obs=1000, dim=2)
    """

    by_row = ("data", "_difference_bound")

    @naming_the_arguments
    def __init__(
        self,
        loglik: Callable[..., float],
        logprior: Callable[..., float],
        *,
        data: Any,
        n_obs: int,
        dim: int,
        grad_loglik: Callable[..., None] | None = None,
        grad_logprior: Callable[..., None] | None = None,
        term_range: Callable[..., float] | None = None,
        difference_bound: tuple[Any, Callable[..., float]] | None = None,
        var_names: Sequence[str] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        initial_point: Any = None,
        pymc_model: Callable[[], Any] | None = None,
    ) -> None:
        self._loglik = plain_function(loglik, "loglik")
        self._grad_loglik = None if grad_loglik is None else plain_function(grad_loglik, "grad_loglik")
        self.prior = Prior(1.0, logprior, name="logprior", gradient=grad_logprior)
        self.n_obs = positive_integer(n_obs, "n_obs")
        dim = checked_dimension(dim, "dim")
        if isinstance(data, list) and any(np.ndim(array) for array in data):
            data = tuple(data)
        data = with_sources(data)
        self.given = kept(data)
        self.data = self._checked_data(data)
        self.variables = named_variables(dim, var_names, dims or {}, coords or {})
        start = np.zeros(dim) if initial_point is None else checked_array(initial_point, "initial_point")
        self._initial_point = start.astype(np.float64)
        if self._initial_point.shape != (dim,):
            raise InvalidInputError(
                f"FunctionTarget: initial_point must have shape ({dim},), found {self._initial_point.shape}"
            )
        self._term_range = None if term_range is None else plain_function(term_range, "term_range")
        self._difference_bound = None if difference_bound is None else self._checked_bound(*difference_bound)
        self.pymc_model = pymc_model
        expected = "loglik(theta, data, i) -> float"
        check_terms(self._loglik, "loglik", self._initial_point + 0.1, self.data, self.n_obs, expected)
        self.prior.compile(dim)

    @names_itself()
    def with_rows(self, given: Any, n_obs: int) -> Self:
        """Return this model with `given` as its data; arrays in it with a row for each term must have `n_obs` rows."""
        other = copy.copy(self)
        other.given = None
        other.data = checked_arrays(given, "data")
        other.n_obs = n_obs
        return other

    @names_itself()
    def _checked_data(self, data: Any) -> tuple[np.ndarray, ...]:
        checked = checked_arrays(data, "data")
        if not any(array.ndim and array.shape[0] == self.n_obs for array in checked):
            shapes = [array.shape for array in checked]
            shown = f"{shapes[:5]}{' and so on' if len(shapes) > 5 else ''}"
            raise InvalidInputError(
                f"FunctionTarget: no array in data has n_obs = {self.n_obs} rows, found shapes {shown}; data is an "
                "array, or a tuple of arrays"
            )
        return checked

    @names_itself()
    def _checked_bound(self, rates: Any, reach: Callable[..., float]) -> tuple[np.ndarray, Callable[..., float]]:
        rates = checked_array(rates, "the rates of difference_bound").astype(np.float64)
        if rates.shape != (self.n_obs,) or not np.all((rates > 0.0) & (rates < np.inf)):
            raise InvalidInputError(
                f"FunctionTarget: the rates of difference_bound must be positive and finite, of shape "
                f"({self.n_obs},), found {rates!r}"
            )
        return rates, plain_function(reach, "the reach of difference_bound")

    @property
    def term_work(self) -> TermWork:
        """Operations of a term, from the byte code of the user's functions; loops count as loops over one row."""
        numbers = sum(array.size for array in self.data if array.shape[:1] == (self.n_obs,)) / self.n_obs
        length = max(numbers, min(self.variables.size, LENGTH))
        slope = None if self._grad_loglik is None else operations(self._grad_loglik, length)
        return TermWork(operations(self._loglik, length), slope, 8.0 * numbers, "python")

    def _log_terms(self) -> Any:
        return batch_kernel(self._loglik, self.data)

    @names_itself()
    def _term_gradients(self) -> Any:
        if self._grad_loglik is None:
            raise IncompatibleError(
                f"{self!r} has no gradient: pass grad_loglik=, a function grad_loglik(theta, data, i, out) that adds "
                "the gradient of loglik to out, or use RandomWalk, which needs none"
            )
        at = self.initial_point() + 0.1
        labels = self.variables.labels()
        expected = "grad_loglik(theta, data, i, out)"
        check_fills(self._grad_loglik, "grad_loglik", (at, self.data, 0, np.zeros_like(at)), expected)
        terms = self._log_terms()
        kernel = gradient_kernel(self._grad_loglik, self.data)
        for i in np.unique(np.linspace(0, self.n_obs - 1, CHECKED_ROWS).astype(np.int64)):
            self._check_row(terms, kernel, at, np.array([i]), labels)
        return kernel

    @names_itself()
    def _check_row(self, terms: Any, kernel: Any, at: np.ndarray, row: np.ndarray, labels: Sequence[str]) -> None:
        term = np.empty(1)

        def value(theta: np.ndarray) -> float:
            terms(theta, self.data, row, 0, 1, term)
            return float(term[0])

        def add_gradient(theta: np.ndarray, out: np.ndarray) -> None:
            kernel(theta, self.data, row, 0, 1, out)

        check_gradient(value, add_gradient, at, f"grad_loglik of datum {row[0]}", labels)

    @names_itself()
    def compile_term_range(self) -> CompiledTermRange:
        """Compile the user's `term_range`; raise `IncompatibleError` if the user gave no range."""
        if self._term_range is None:
            return super().compile_term_range()
        arguments = (self._initial_point, self._initial_point + 0.1)
        expected = "term_range(theta, proposed) -> float"
        check_compiles(self._term_range, "term_range", arguments, expected)
        return CompiledTermRange(user_range(self._term_range), np.zeros(1))

    @names_itself()
    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Compile the user's `difference_bound`.

        Raises
        ------
        IncompatibleError
            If there is none.
        InvalidInputError
            When `reach` is not symmetric in two states near the initial point.
        """
        if self._difference_bound is None:
            return super().compile_difference_bound()
        rates, reach = self._difference_bound
        near = self._initial_point
        far = self._initial_point + 0.1
        check_compiles(reach, "reach", (near, far), "reach(theta, proposed) -> float")
        if not np.isclose(reach(near, far), reach(far, near), rtol=1e-9):
            raise InvalidInputError(
                "FunctionTarget: the reach of difference_bound must be symmetric in the two states, or no test is "
                f"exact; found {reach(near, far)!r} and {reach(far, near)!r}"
            )
        return CompiledDifferenceBound(user_range(reach), np.zeros(1), rates, np.empty(0))

    def _identity(self) -> str:
        return content_id(self._loglik)

    def initial_point(self) -> np.ndarray:
        """Return the point around which chains start; shape (dim,)."""
        return self._initial_point.copy()

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The arrays in `data`, as data_0, data_1 and so on."""
        return {f"data_{k}": array for k, array in enumerate(self.data)}

    def to_pymc(self) -> Any:
        """Return the `pymc.Model` that the user supplied."""
        return self.pymc_model() if self.pymc_model is not None else super().to_pymc()

    def __repr__(self) -> str:
        """Show the likelihood's name and the size."""
        return f"FunctionTarget({self._loglik.__name__}, n_obs={self.n_obs}, dim={self.variables.size})"
