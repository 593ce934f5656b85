"""A model in JAX: a log-likelihood of rows, as a function of a tree of parameters."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import TermWork, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.jax_library import load_jax, precision
from approxmcmc.engine.terms.python_batches import BatchFunction
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.batches.base import (
    NOT_OVER_ROWS,
    BatchedTarget,
    BatchModel,
    PythonPrior,
    checked_settings,
    normal_scales,
    text_hash,
)
from approxmcmc.targets.checks import real_numbers
from approxmcmc.targets.given import check_names
from approxmcmc.targets.normal_prior import NormalPrior

# XLA compiles each function once for each of these numbers of rows. A batch of n rows is padded to the next of them.
SIZES = (32, 128, 512, 2048, 8192)
WHO = "JaxTarget"


class JaxModel(BatchModel):
    """The functions of a model that XLA compiles."""

    sizes = SIZES

    def __init__(self, loglik: Callable[..., Any], unravel: Callable[[Any], Any], dim: int, row_types: Any, dtype: Any):
        self._jax = load_jax(WHO)
        self._dim = dim
        self._row_types = row_types
        self.float_dtype = np.dtype(dtype)
        jax = self._jax

        def terms(theta: Any, *rows: Any) -> Any:
            return loglik(unravel(theta), *rows)

        def weighted_sum(theta: Any, weights: Any, *rows: Any) -> Any:
            # Rows behind the batch repeat its first row, so their terms are finite if the batch's are; weight 0.
            return (weights * terms(theta, *rows)).sum()

        self._terms = jax.jit(terms)
        self._slope = jax.jit(jax.grad(weighted_sum))

    def write_terms(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        """Write the terms of the first n rows."""
        with precision(self._jax, self.float_dtype):
            terms = self._terms(theta.astype(self.float_dtype), *rows)
        padded = len(rows[0])
        out[:] = real_numbers(terms, (padded,), f"{WHO}: loglik(params, *rows) of {padded} rows", NOT_OVER_ROWS)[:n]

    @property
    def add_gradient(self) -> BatchFunction:
        """The gradient by automatic differentiation."""
        return self._add_gradient

    def _add_gradient(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        weights = (np.arange(len(rows[0])) < n).astype(self.float_dtype)
        with precision(self._jax, self.float_dtype):
            out += np.asarray(self._slope(theta.astype(self.float_dtype), weights, *rows))

    @functools.cached_property
    def _lowered(self) -> tuple[Any, Any]:
        """Terms and gradient as XLA receives them, for the smallest number of rows."""
        spec = self._jax.ShapeDtypeStruct
        size = self.sizes[0]
        with precision(self._jax, self.float_dtype):
            theta = spec((self._dim,), self.float_dtype)
            rows = [spec((size, *shape), dtype) for shape, dtype in self._row_types]
            return self._terms.lower(theta, *rows), self._slope.lower(theta, spec((size,), self.float_dtype), *rows)

    def identity(self) -> str:
        """Return a hash of the lowered programs: they hold helpers and constants at any depth, as numbers."""
        return text_hash(self._jax.__version__, *(lowered.as_text() for lowered in self._lowered))

    def work(self) -> TermWork | None:
        """Return the operations that XLA counts; None on a backend that does not count."""
        operations = []
        for lowered in self._lowered:
            counted = lowered.cost_analysis() or {}
            operations.append(float(counted.get("flops", 0.0)) / self.sizes[0])
        if not all(operations):
            return None
        stored = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self._row_types)
        return TermWork(operations[0], operations[1], float(stored), "python")


class _PriorFunctions(NamedTuple):
    """The log prior of a flat theta and its gradient, both compiled by JAX."""

    value: Any
    gradient: Any


class JaxTarget(BatchedTarget):
    """A posterior from a log-likelihood in JAX: log p(theta | x) = log p(theta) + sum_i log p(x_i | theta).

    All samplers and tests of the library run on it that need no bounds of terms. For a model in a few linear predictors
    `GLMTarget` or `PredictorTarget` is faster: a call of JAX costs some 50 us a batch.

    Parameters
    ----------
    loglik
        ``loglik(params, *rows) -> (n,)``: log p(x_i | theta) of n rows; `rows` has n rows of each array in `data`.
    params
        A tree of arrays: shapes and names of the parameters, and the values around which chains start. Variables of the
        trace are the leaves, named by their path, such as ``layer0.kernel``.
    data
        An array, or a tuple of arrays or sources (`approxmcmc.sources`), each with N rows. Floats are handed to JAX in
        the type `dtype`, other types as they are.
    prior_scale
        Standard deviations of independent normal priors with mean 0: one number, or a tree like `params` with a number
        or an array for each leaf.
    logprior
        ``logprior(params) -> float`` in JAX, in place of the normal prior.
    dtype
        Type in which JAX computes, ``"float32"`` or ``"float64"``. Theta, sums of terms and decisions are float64.
    term_tolerance
        Relative rounding error of a term, in checks; None: 1e-5 in float32, 1e-9 in float64.

    Raises
    ------
    InvalidInputError
        When arrays, names or sizes do not fit.
    CompilationError
        When `loglik` returns another shape.
    IncompatibleError
        At set-up, when the term of a row changes with the other rows of its batch, as with batch normalisation.
    MissingExtraError
        Without JAX: ``pip install "approxmcmc[jax]"``.

    Notes
    -----
    In float64, walks with any test draw bit by bit what the same model of this library draws, and gradient proposals
    the same up to rounding. Posteriors of networks have symmetries, so R-hat of single weights says nothing: judge
    predictions.

    Examples
    --------
    >>> import numpy as np, jax.numpy as jnp, approxmcmc as amc  # doctest: +SKIP
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> def loglik(params, X, y):
    ...     eta = X @ params["beta"]
    ...     return y * eta - jnp.logaddexp(0.0, eta)
    >>> amc.targets.JaxTarget(loglik, {"beta": np.zeros(3)}, (X, X[:, 0] > 0))  # doctest: +SKIP
    JaxTarget(loglik, n_obs=1000, dim=3)
    """

    @naming_the_arguments
    def __init__(
        self,
        loglik: Callable[..., Any],
        params: Any,
        data: Any,
        *,
        prior_scale: Any = 1.0,
        logprior: Callable[[Any], Any] | None = None,
        dtype: str = "float32",
        dims: Mapping[str, tuple[str, ...]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        term_tolerance: float | None = None,
    ) -> None:
        jax = load_jax(WHO)
        self._dtype, tolerance = checked_settings(loglik, logprior, dtype, term_tolerance)
        self._loglik = loglik
        self._logprior = logprior
        self._params = jax.tree_util.tree_map(lambda leaf: np.asarray(leaf, dtype), params)
        leaves = jax.tree_util.tree_leaves(self._params)
        if not leaves:
            raise InvalidInputError(f"{WHO}: params holds no arrays")
        start = np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64)
        variables = Variables(leaf_shapes(jax, self._params), dict(dims or {}), dict(coords or {}))
        check_names(variables)
        if logprior is None:
            prior: Any = NormalPrior(np.zeros(start.size), self._scales(jax, prior_scale, start.size))
        else:
            prior = PythonPrior(self._log_prior, self._add_prior_slope, self._prior_text)
        self._set(data, variables, start, prior, tolerance)
        self._check_terms()

    _of_process = (*BatchedTarget._of_process, "_prior_functions", "_unravel")

    @names_itself()
    def _scales(self, jax: Any, prior_scale: Any, dim: int) -> np.ndarray:
        if np.isscalar(prior_scale):
            return normal_scales(prior_scale, dim)
        try:
            full = jax.tree_util.tree_map(_scale_of_leaf, prior_scale, self._params)
        except ValueError as error:
            raise InvalidInputError(
                f"{WHO}: prior_scale must be a number, or a tree like params with a number or an array for each leaf "
                f"({error})"
            ) from error
        return normal_scales(np.concatenate([np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(full)]), dim)

    @functools.cached_property
    def _unravel(self) -> Callable[[Any], Any]:
        jax = load_jax(WHO)
        from jax.flatten_util import ravel_pytree

        with precision(jax, self._dtype):
            return ravel_pytree(self._params)[1]  # type: ignore[no-any-return]  # JAX has no types here

    def _make_model(self) -> BatchModel:
        row_types = [(array.shape[1:], self._dtype if array.dtype.kind == "f" else array.dtype) for array in self.data]
        return JaxModel(self._loglik, self._unravel, self.variables.size, row_types, self._dtype)

    # --- a prior in JAX ---

    @functools.cached_property
    def _prior_functions(self) -> _PriorFunctions:
        jax = load_jax(WHO)
        unravel = self._unravel
        logprior = self._logprior
        assert logprior is not None

        def value(theta: Any) -> Any:
            return logprior(unravel(theta))

        return _PriorFunctions(jax.jit(value), jax.jit(jax.grad(value)))

    def _log_prior(self, theta: np.ndarray) -> float:
        with precision(load_jax(WHO), self._dtype):
            return float(self._prior_functions.value(theta.astype(self._dtype)))

    def _add_prior_slope(self, theta: np.ndarray, out: np.ndarray) -> None:
        with precision(load_jax(WHO), self._dtype):
            out += np.asarray(self._prior_functions.gradient(theta.astype(self._dtype)))

    def _prior_text(self) -> str:
        jax = load_jax(WHO)
        with precision(jax, self._dtype):
            lowered = self._prior_functions.value.lower(jax.ShapeDtypeStruct((self.variables.size,), self._dtype))
        return text_hash(jax.__version__, lowered.as_text())

    def __repr__(self) -> str:
        """Show the name of the function and the size."""
        name = getattr(self._loglik, "__name__", type(self._loglik).__name__)
        return f"JaxTarget({name}, n_obs={self.n_obs}, dim={self.variables.size})"


def _scale_of_leaf(scale: Any, leaf: np.ndarray) -> np.ndarray:
    """Return a scale for each number of a leaf."""
    return np.broadcast_to(scale, leaf.shape)


def leaf_shapes(jax: Any, params: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each leaf by its path, in the order of `ravel_pytree`.

    Raises
    ------
    InvalidInputError
        If two leaves have the same path, such as "a.b" and "b" in "a".
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    shapes: dict[str, tuple[int, ...]] = {}
    for path, leaf in leaves:
        keys = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        name = ".".join(keys) or "theta"
        if name in shapes:
            raise InvalidInputError(f"{WHO}: two leaves of params are called {name}; rename one")
        shapes[name] = tuple(np.shape(leaf))
    return shapes
