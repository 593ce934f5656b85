"""Kernels of a PyMC model: kernels of the engine around functions that PyTensor compiled by its numba linker.

The dispatcher of such a function, ``fn.vm.jit_fn``, is semi-private; it is asked for here alone.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor
from numba.core.errors import NumbaError, NumbaPerformanceWarning

from approxmcmc.engine.compiler.compile import bind, closure, kept, type_of
from approxmcmc.engine.compiler.work import compiling, count_kernel
from approxmcmc.engine.terms.batches import LOG_PRIOR, Data, log_terms_type
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT, gradient_signature
from approxmcmc.engine.terms.row_reader import row_reader
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.rows import first_line


def numba_function(inputs: Sequence[Any], outputs: Sequence[Any], example: Sequence[Any]) -> Any:
    """Compile by PyTensor's numba linker; return the dispatcher, which any compiled function may call.

    Raises
    ------
    IncompatibleError
        When PyTensor or numba cannot compile an operation.
    """
    try:
        function = pytensor.function(inputs, outputs, mode="NUMBA", on_unused_input="ignore", trust_input=True)
        with _no_advice_on_speed(), compiling():
            function(*example)
    except (NumbaError, NotImplementedError, TypeError, AttributeError, AssertionError) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise IncompatibleError(
            f"from_pymc: PyTensor cannot compile the model's terms ({reason}); sample it by NUTS, amc.NUTS()"
        ) from error
    count_kernel()
    return function.vm.jit_fn


def log_terms_kernel(terms: Any, data: Data) -> Any:
    """Return ``log_terms(theta, data, order, lo, hi, out)`` around ``terms(theta, *rows)``."""
    return _bind(make_log_terms, terms, row_reader(len(data)), signature=log_terms_type(type_of(data)).signature)


def gradient_kernel(gradient: Any, data: Data) -> Any:
    """Return ``add_gradient(theta, data, order, lo, hi, out)`` around ``gradient(theta, *rows)``."""
    return _bind(make_add_gradient, gradient, row_reader(len(data)), signature=gradient_signature(type_of(data)))


def log_prior_kernel(prior: Any) -> Any:
    """Return ``log_prior(theta)``."""
    return _bind(make_log_prior, prior, signature=LOG_PRIOR.signature)


def prior_gradient_kernel(gradient: Any) -> Any:
    """Return ``add_prior_gradient(theta, out)``."""
    return _bind(make_add_prior_gradient, gradient, signature=ADD_PRIOR_GRADIENT)


def kept_log_prior_kernel(prior: Callable[[], Any], content: str | None) -> Any:
    """Return ``log_prior(theta)`` from disk, or around ``prior()``, which compiles the function."""
    return _kept(lambda: closure(make_log_prior, prior()), LOG_PRIOR.signature, "log_prior", content)


def kept_prior_gradient_kernel(gradient: Callable[[], Any], content: str | None) -> Any:
    """Return ``add_prior_gradient(theta, out)`` from disk, or around ``gradient()``."""
    name = "add_prior_gradient"
    return _kept(lambda: closure(make_add_prior_gradient, gradient()), ADD_PRIOR_GRADIENT, name, content)


def _kept(make: Callable[[], Any], signature: Any, name: str, content: str | None) -> Any:
    with _no_advice_on_speed():
        return kept(make, signature, name=name, content=content)


def _bind(make: Any, *parts: Any, signature: Any) -> Any:
    with _no_advice_on_speed():
        return bind(make, *parts, signature=signature, cache=False)


@contextlib.contextmanager
def _no_advice_on_speed() -> Iterator[None]:
    """Keep back what numba says of the layout of arrays in code that PyTensor 3.2 wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        yield


def make_log_terms(terms: Callable[..., Any], rows: Callable[..., Any]) -> Callable[..., None]:
    """Return the batch kernel of a function of theta and rows."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        values = terms(theta, *rows(data, order, lo, hi))[0]
        for i in range(hi - lo):
            out[i] = values[i]

    return log_terms


def make_add_gradient(gradient: Callable[..., Any], rows: Callable[..., Any]) -> Callable[..., None]:
    """Return the batch kernel of a gradient in theta of a sum over rows."""

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        slope = gradient(theta, *rows(data, order, lo, hi))[0]
        for j in range(out.shape[0]):
            out[j] += slope[j]

    return add_gradient


def make_log_prior(prior: Callable[..., Any]) -> Callable[[np.ndarray], float]:
    """Return the log prior of a model."""

    def log_prior(theta: np.ndarray) -> float:
        return prior(theta)[0].item()

    return log_prior


def make_add_prior_gradient(gradient: Callable[..., Any]) -> Callable[..., None]:
    """Return the gradient of a model's log prior."""

    def add_prior_gradient(theta: np.ndarray, out: np.ndarray) -> None:
        slope = gradient(theta)[0]
        for j in range(out.shape[0]):
            out[j] += slope[j]

    return add_prior_gradient
