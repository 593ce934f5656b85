"""Kernels of a PyMC model: templates of the engine around functions that PyTensor compiled by its numba linker.

The dispatcher of such a function, ``fn.vm.jit_fn``, is semi-private; it is asked for here alone.
"""

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytensor
from numba.core.errors import NumbaPerformanceWarning

from approxmcmc.engine.batches import LOG_PRIOR, log_terms_type
from approxmcmc.engine.bind import bind, type_of
from approxmcmc.engine.gradients import ADD_PRIOR_GRADIENT

Data = tuple[np.ndarray, ...]


def numba_function(inputs: Sequence[Any], outputs: Sequence[Any], example: Sequence[Any]) -> Any:
    """Compile by PyTensor's numba linker; return the dispatcher, which any compiled function may call."""
    function = pytensor.function(inputs, outputs, mode="NUMBA", on_unused_input="ignore", trust_input=True)
    with _no_advice_on_speed():
        function(*example)
    return function.vm.jit_fn


def log_terms_kernel(terms: Any, data: Data) -> Any:
    """Return ``log_terms(theta, data, order, lo, hi, out)`` around ``terms(theta, *rows)``."""
    return _bind(_log_terms, log_terms_type(type_of(data)).signature, TERMS=terms, ROWS=_row_reader(len(data)))


def gradient_kernel(gradient: Any, data: Data) -> Any:
    """Return ``add_gradient(theta, data, order, lo, hi, out)`` around ``gradient(theta, *rows)``."""
    return _bind(_add_gradient, log_terms_type(type_of(data)).signature, GRADIENT=gradient, ROWS=_row_reader(len(data)))


def log_prior_kernel(prior: Any) -> Any:
    """Return ``log_prior(theta)``."""
    return _bind(_log_prior, LOG_PRIOR.signature, PRIOR=prior)


def prior_gradient_kernel(gradient: Any) -> Any:
    """Return ``add_prior_gradient(theta, out)``."""
    return _bind(_add_prior_gradient, ADD_PRIOR_GRADIENT, GRADIENT=gradient)


def _bind(template: Any, signature: Any, **parts: Any) -> Any:
    with _no_advice_on_speed():
        return bind(template, signature, cache=False, **parts)


@contextlib.contextmanager
def _no_advice_on_speed() -> Iterator[None]:
    """Keep back what numba says of the layout of arrays in code that PyTensor 3.2 wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        yield


def _log_terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    terms = TERMS(theta, *ROWS(data, order, lo, hi))[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for i in range(hi - lo):
        out[i] = terms[i]


@functools.cache
def _row_reader(n_arrays: int) -> Any:
    """Return ``rows(data, order, lo, hi)`` for a tuple of arrays: those of ``order[lo:hi]``, or views of lo ... hi - 1.

    Written out for each number of arrays, because compiled code cannot loop over a tuple of arrays of several types.
    """
    chosen, views = ("".join(f"data[{k}][{rows}], " for k in range(n_arrays)) for rows in ("index", "lo:hi"))
    source = f"""
def rows(data, order, lo, hi):
    if order.shape[0] > 0:
        index = order[lo:hi]
        return ({chosen})
    return ({views})
"""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope["rows"]


def _log_prior(theta):  # type: ignore[no-untyped-def]  # a template
    return PRIOR(theta)[0].item()  # type: ignore[name-defined]  # noqa: F821 (bound)


def _add_gradient(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    gradient = GRADIENT(theta, *ROWS(data, order, lo, hi))[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for j in range(out.shape[0]):
        out[j] += gradient[j]


def _add_prior_gradient(theta, out):  # type: ignore[no-untyped-def]  # a template
    gradient = GRADIENT(theta)[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
    for j in range(out.shape[0]):
        out[j] += gradient[j]
