r"""Kernels of a PyMC model: kernels of the engine around functions that PyTensor compiled by its numba linker.

The dispatcher of such a function, ``fn.vm.jit_fn``, is semi-private; only this file uses it. The linker lacks the
trigamma function and would call Python, so it is replaced by its recurrence and its asymptotic series, with the
Bernoulli numbers B:

.. math:: \psi'(x) = \sum_{k=0}^{9} \frac{1}{(x + k)^2} + \psi'(x + 10), \qquad
          \psi'(z) \approx \frac{1}{z} + \frac{1}{2 z^2} + \sum_{j=1}^{7} \frac{B_{2j}}{z^{2j+1}}.

For x > 0, the range of log densities, the first omitted term is below 1e-15 of the whole.
"""

import contextlib
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytensor
from numba import config
from numba.core.errors import NumbaError, NumbaPerformanceWarning
from pytensor.scalar.math import TriGamma
from pytensor.tensor.basic import Split
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.engine.compiler.compilations import compiling, count_kernel
from approxmcmc.engine.compiler.compile import bind, closure, kept, type_of
from approxmcmc.engine.terms.batches import LOG_PRIOR, Data, log_terms_type, row_reader
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT, gradient_signature
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import first_line, refusals
from approxmcmc.interop.graphs import replace_nodes
from approxmcmc.interop.walk import PYTHON

# What PyTensor and numba raise at operations that they cannot compile.
NOT_COMPILED = (NumbaError, NotImplementedError, TypeError, AttributeError, AssertionError)
SHIFT = 10
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def numba_function(inputs: Sequence[Any], outputs: Sequence[Any], example: Sequence[Any]) -> Any:
    """Compile graphs with PyTensor's numba linker, for arguments like `example`; return numba's dispatcher.

    Any compiled function may call it; it returns a tuple of arrays. With ``NUMBA_DISABLE_JIT=1``, which PyTensor's
    numba linker cannot do without, PyTensor evaluates the same graphs in Python.

    Raises
    ------
    IncompatibleError
        When PyTensor or numba cannot compile an operation.
    """
    if config.DISABLE_JIT:
        how: dict[str, Any] = {"mode": PYTHON, "on_unused_input": "ignore", "trust_input": True}
        return _in_python(pytensor.function(inputs, compilable(outputs), **how))
    with refusals(*NOT_COMPILED, reason=_not_compiled):
        function = pytensor.function(
            inputs, compilable(outputs), mode="NUMBA", on_unused_input="ignore", trust_input=True
        )
        with _no_advice_on_speed(), compiling():
            function(*example)
    count_kernel()
    return function.vm.jit_fn


def _not_compiled(error: Exception) -> IncompatibleError:
    reason = f"{type(error).__name__}: {first_line(error)}"
    return IncompatibleError(
        f"from_pymc: PyTensor cannot compile the model's terms ({reason}); sample the model by NUTS, amc.NUTS()"
    )


def _in_python(function: Any) -> Callable[..., tuple[Any, ...]]:
    """Return a function of PyTensor as one that the threads of several chains may call: it stores its arguments."""
    lock = threading.Lock()

    def call(*arguments: Any) -> tuple[Any, ...]:
        with lock:
            return tuple(function(*arguments))

    return call


def log_terms_kernel(terms: Any, data: Data) -> Any:
    """Return ``log_terms(theta, data, order, lo, hi, out)`` around ``terms(theta, *rows)``."""
    return _bind(make_log_terms, terms, row_reader(len(data)), signature=log_terms_type(type_of(data)).signature)


def gradient_kernel(gradient: Any, data: Data) -> Any:
    """Return ``add_gradient(theta, data, order, lo, hi, out)`` around ``gradient(theta, *rows)``."""
    return _bind(make_add_gradient, gradient, row_reader(len(data)), signature=gradient_signature(type_of(data)))


def log_prior_kernel(prior: Any) -> Any:
    """Return ``log_prior(theta) -> float``, compiled around PyTensor's ``prior(theta)``, and not kept on disk."""
    return _bind(make_log_prior, prior, signature=LOG_PRIOR.signature)


def prior_gradient_kernel(gradient: Any) -> Any:
    """Return ``add_prior_gradient(theta, out)``, compiled around PyTensor's ``gradient(theta)``; not kept on disk."""
    return _bind(make_add_prior_gradient, gradient, signature=ADD_PRIOR_GRADIENT)


def kept_log_prior_kernel(prior: Callable[[], Any], content: str | None) -> Any:
    """Return ``log_prior(theta)``, from disk if it was kept there under `content`.

    Otherwise ``prior()`` compiles the function that it calls.
    """
    return _kept(lambda: closure(make_log_prior, prior()), LOG_PRIOR.signature, "log_prior", content)


def kept_prior_gradient_kernel(gradient: Callable[[], Any], content: str | None) -> Any:
    """Return ``add_prior_gradient(theta, out)``, from disk or around ``gradient()``, see `kept_log_prior_kernel`."""
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
    """Suppress numba's advice on the layout of arrays in code generated by PyTensor 3.2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumbaPerformanceWarning)
        yield


def make_log_terms(terms: Callable[..., Any], rows: Callable[..., Any]) -> Callable[..., None]:
    """Return the batch kernel of ``terms(theta, *rows)``; `rows` reads rows from the data."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        values = terms(theta, *rows(data, order, lo, hi))[0]
        for i in range(hi - lo):
            out[i] = values[i]

    return log_terms


def make_add_gradient(gradient: Callable[..., Any], rows: Callable[..., Any]) -> Callable[..., None]:
    """Return the batch kernel of ``gradient(theta, *rows)``, the gradient of the sum of the terms of `rows`."""

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        slope = gradient(theta, *rows(data, order, lo, hi))[0]
        for j in range(out.shape[0]):
            out[j] += slope[j]

    return add_gradient


def make_log_prior(prior: Callable[..., Any]) -> Callable[[np.ndarray], float]:
    """Return ``log_prior(theta) -> float`` that calls PyTensor's ``prior(theta)``."""

    def log_prior(theta: np.ndarray) -> float:
        return prior(theta)[0].item()

    return log_prior


def make_add_prior_gradient(gradient: Callable[..., Any]) -> Callable[..., None]:
    """Return ``add_prior_gradient(theta, out)`` that calls PyTensor's ``gradient(theta)``."""

    def add_prior_gradient(theta: np.ndarray, out: np.ndarray) -> None:
        slope = gradient(theta)[0]
        for j in range(out.shape[0]):
            out[j] += slope[j]

    return add_prior_gradient


def trigamma(x: Any) -> Any:
    """Return the graph of the trigamma function psi'(x), by the series of the module."""
    z = x + SHIFT
    inverse = 1.0 / z
    square = inverse * inverse
    series = 0.0
    for number in reversed(BERNOULLI):
        series = (number + series) * square
    tail = inverse * (1.0 + 0.5 * inverse + series)
    return sum((1.0 / ((x + k) * (x + k)) for k in range(SHIFT)), start=tail)


def compilable(graphs: Sequence[Any]) -> list[Any]:
    """Return graphs without operations that numba lacks, or compiles slowly.

    The series replaces the trigamma function, and slices replace splits, which occur in the gradients of stacked
    vectors: the messages of PyTensor's code for a split take two seconds to compile.
    """

    def make(node: Any, inputs: list[Any]) -> list[Any] | None:
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, TriGamma):
            return [trigamma(*inputs)]
        if not isinstance(node.op, Split):
            return None
        whole, sizes = inputs
        return _slices(whole, sizes, node.op.axis, len(node.outputs))

    return replace_nodes(graphs, make)


def _slices(whole: Any, sizes: Any, axis: int, n: int) -> list[Any]:
    """Return a tensor's slices of these sizes along an axis."""
    stops = itertools.accumulate((sizes[k] for k in range(n)), initial=0)
    axes = (slice(None),) * axis
    return [whole[(*axes, slice(start, stop))] for start, stop in itertools.pairwise(stops)]
