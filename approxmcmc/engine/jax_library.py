"""JAX, set up for chains that share a machine: each call runs in the thread of its caller, on one thread."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from approxmcmc.engine.extras import extra
from approxmcmc.errors import SamplingWarning, warn

# One thread, like every other sampler of a study; XLA reads this when it first compiles.
FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def load_jax(purpose: str) -> Any:
    """Return the module `jax`, after switching off asynchronous dispatch on processors.

    With asynchronous dispatch JAX hands every call to another thread: a small call costs four times as much, and the
    processor time of the chain's thread does not contain the work.

    Warns
    -----
    SamplingWarning
        If another library has started JAX before, so that dispatch can no longer be switched off.

    Raises
    ------
    MissingExtraError
        When JAX is not installed; `purpose` is what needs it.
    """
    os.environ.setdefault("XLA_FLAGS", FLAGS)  # a user's own flags come first; JAX may then use several threads
    with extra("jax", purpose):
        import jax
    name = "jax_cpu_enable_async_dispatch"
    if jax.config.read(name):
        if _is_running():
            warn(
                f"JAX was started before approxmcmc could switch off {name}: each call costs about four times as much, "
                "and processor seconds of a trace do not contain the work of JAX. Make the target before you use JAX, "
                f'or call jax.config.update("{name}", False) first',
                SamplingWarning,
            )
        jax.config.update(name, False)
    return jax


def _is_running() -> bool:
    """Return whether JAX has started its backends; False if this version of JAX does not say so."""
    try:
        from jax._src.xla_bridge import backends_are_initialized
    except ImportError:
        return False
    return bool(backends_are_initialized())


def precision(jax: Any, dtype: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context in which this thread computes in the type `dtype`; entering it takes a microsecond.

    A GPU by default computes products of float32 matrices to a relative 1e-3; here it computes them in full float32.
    """
    double = jax.enable_x64(np.dtype(dtype) == np.float64)
    if jax.default_backend() == "cpu":
        return double  # type: ignore[no-any-return]  # JAX has no types here
    return _in_full_precision(jax, double)


@contextlib.contextmanager
def _in_full_precision(jax: Any, inner: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    with jax.default_matmul_precision("highest"), inner:
        yield
