"""A model as two Python functions of a batch of rows, in NumPy or any other library."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.terms.python_batches import BatchFunction
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.batches.base import BatchedTarget, BatchModel, checked_tolerance, normal_scales
from approxmcmc.targets.checks import check_gradient, checked_array, checked_dimension, real_numbers
from approxmcmc.targets.given import named_variables
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tall_data import Prior

Terms = Callable[[np.ndarray, tuple[np.ndarray, ...]], np.ndarray]


class PlainFunctions(BatchModel):
    """A user's functions, which take any number of rows."""

    def __init__(self, terms: Terms, gradient: Terms | None, content: str | None, dim: int) -> None:
        self._terms = terms
        self._gradient = gradient
        self._content = content
        self._dim = dim

    def write_terms(self, theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
        """Write the terms; theta is a copy, which the function may keep or change."""
        out[:] = real_numbers(self._terms(theta.copy(), rows), (n,), f"terms(theta, rows) of {n} rows")

    @property
    def add_gradient(self) -> BatchFunction | None:
        """The gradient of a sum of terms, if the user gave it."""
        gradient = self._gradient
        if gradient is None:
            return None

        def add(theta: np.ndarray, rows: tuple[np.ndarray, ...], n: int, out: np.ndarray) -> None:
            what = "gradient(theta, rows), the gradient of the sum over the rows,"
            out += real_numbers(gradient(theta.copy(), rows), (self._dim,), what)

        return add

    def identity(self) -> str:
        """Return the content of the functions; see :class:`BatchTarget` for `content`."""
        if self._content is not None:
            return self._content
        return content_id((self._terms, self._gradient))


class BatchTarget(BatchedTarget):
    """A posterior from Python functions of a batch of rows: log p(theta | x) = log p(theta) + sum_i terms_i.

    Python is called once for each batch of some hundred rows, which costs about 6 us. For models in one linear
    predictor `GLMTarget` is 10 times faster; for models in JAX and PyTorch see :class:`JaxTarget` and
    :class:`TorchTarget`, which make these functions.

    Parameters
    ----------
    terms
        ``terms(theta, rows) -> (n,)``: log p(x_i | theta) of n rows. `theta` is a float64 vector of shape (dim,),
        `rows` a tuple with n rows of each array in `data`. The functions are called from the threads of several chains.
    data
        An array, or a tuple of arrays or sources (`approxmcmc.sources`), each with N rows; types are kept.
    dim
        Length of theta.
    gradient
        ``gradient(theta, rows) -> (dim,)``: the gradient of the sum of these terms. Gradient proposals need it. It is
        compared with finite differences.
    prior_scale
        Standard deviations of independent normal priors with mean 0: one number, or shape (dim,); inf is flat.
    prior, grad_prior
        ``prior(theta) -> float`` in place of the normal prior, and ``grad_prior(theta, out)``, which adds its gradient
        to `out`: plain Python, compiled here.
    var_names, dims, coords, initial_point
        As for :class:`FunctionTarget`.
    term_tolerance
        Relative rounding error of a term. Checks allow this difference between batches; use 1e-5 for float32.
    identity
        A text that changes whenever the functions change, if their content cannot be found in their code (methods,
        objects of other libraries); else None.

    Raises
    ------
    InvalidInputError
        When arrays, names or sizes do not fit, or the gradient differs from finite differences.
    CompilationError
        When a function returns another shape; raised here, before sampling.
    IncompatibleError
        At set-up, when the term of a row changes with the other rows of its batch.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> x = np.random.default_rng(0).normal(1.0, 2.0, size=1000)
    >>> def terms(theta, rows):
    ...     (x,) = rows
    ...     return -theta[1] - 0.5 * ((x - theta[0]) * np.exp(-theta[1])) ** 2
    >>> amc.targets.BatchTarget(terms, x, dim=2, prior_scale=10.0, var_names=("mu", "log_sigma"))
    BatchTarget(terms, n_obs=1000, dim=2)
    """

    @naming_the_arguments
    def __init__(
        self,
        terms: Terms,
        data: Any,
        *,
        dim: int,
        gradient: Terms | None = None,
        prior_scale: Any = 1.0,
        prior: Callable[..., float] | None = None,
        grad_prior: Callable[..., None] | None = None,
        var_names: Sequence[str] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        initial_point: Any = None,
        term_tolerance: float = 1e-9,
        identity: str | None = None,
    ) -> None:
        dim = checked_dimension(dim, "dim")
        self._functions = (terms, gradient, identity, dim)
        variables = named_variables(dim, var_names, dims or {}, coords or {})
        start = np.zeros(dim) if initial_point is None else checked_array(initial_point, "initial_point")
        if start.shape != (dim,):
            raise InvalidInputError(f"{speaker()}: initial_point must have shape ({dim},), found {start.shape}")
        if prior is None:
            scales = normal_scales(prior_scale, dim)
            prior_of_theta: Prior = NormalPrior(np.zeros(dim), scales)
        else:
            prior_of_theta = Prior(1.0, prior, gradient=grad_prior)
        self._set(data, variables, start, prior_of_theta, checked_tolerance(term_tolerance))
        self._check_terms()
        if gradient is not None:
            self._check_gradient()

    def _make_model(self) -> BatchModel:
        return PlainFunctions(*self._functions)

    @names_itself()
    def _check_gradient(self) -> None:
        """Compare the gradient of a few rows with differences of their terms."""
        rows = np.unique(np.linspace(0, self.n_obs - 1, 8).astype(np.int64))
        batch = tuple(array[rows] for array in self.data)
        add_gradient = self.model.add_gradient
        assert add_gradient is not None

        def value(theta: np.ndarray) -> float:
            return float(self._terms_of(rows, theta).sum())

        def add(theta: np.ndarray, out: np.ndarray) -> None:
            add_gradient(theta, batch, len(rows), out)

        if self.term_tolerance > 1e-8:  # rounding of the terms would exceed the error of central differences
            add(self._start, np.zeros_like(self._start))
            return
        check_gradient(value, add, self._start + 0.1, "gradient", self.variables.labels())

    def __repr__(self) -> str:
        """Show the name of the function and the size."""
        name = getattr(self._functions[0], "__name__", type(self._functions[0]).__name__)
        return f"BatchTarget({name}, n_obs={self.n_obs}, dim={self.variables.size})"
