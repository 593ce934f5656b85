"""Hash the content of a PyMC model, or of a function derived from it; the hash is the same in every process."""

import re
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import TwinnedTarget, content_hash
from approxmcmc.engine.compiler.code_version import source_version, version
from approxmcmc.engine.compiler.identity import UnknownContentError, content_id
from approxmcmc.engine.compiler.libraries import counted_by_name

UNREADABLE = "unreadable"  # prefix of the unique text that replaces the hash of a model which has none
TRUSTED_PACKAGES = ("pytensor", "pymc", "pymc_extras")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def model_hash(model: Any) -> str | None:
    """Return a hash of a ``pm.Model``, equal in every process for models built the same way.

    It covers the text of the graph of the log density (Jacobians of the transformations and potentials included) and
    of every deterministic, the bytes of all constants and shared data below them, and the names, dims and coords of
    the variables.

    Returns
    -------
    str or None
        None if parts of the graph cannot be read: an operation written outside PyTensor and PyMC (a black-box
        likelihood), or a random generator (a minibatch). Such a model is never cached.
    """
    from pytensor.printing import debugprint

    from approxmcmc.interop.densities import log_density

    outputs = [log_density(model), *model.replace_rvs_by_values(model.deterministics)]
    text = str(debugprint(outputs, print_type=True, file="str"))
    operations, arrays = _walk(outputs)
    trusted = all(map(is_trusted, operations)) and not any(array.dtype.hasobject for array in arrays)
    if not trusted or ADDRESS.search(text):
        return None
    variables = [variable.name for variable in (*model.free_RVs, *model.observed_RVs, *model.deterministics)]
    labels = {name: None if values is None else list(map(str, values)) for name, values in model.coords.items()}
    return content_hash(text, variables, dict(model.named_vars_to_dims), labels, *arrays)


def twin_id(target: TwinnedTarget) -> str | None:
    """Return a hash of the code that makes a target's PyMC twin; None if it cannot be read.

    The target's own content does not include its twin, and a corrected twin must not be matched with old draws.
    """
    try:
        twin = (type(target).to_pymc, target.pymc_model)
        return content_id(twin, libraries=_counted_by_name)
    except UnknownContentError:
        return None


def _counted_by_name(package: str) -> str | None:
    """Return "" also for the libraries in which a twin is written."""
    return "" if package in TRUSTED_PACKAGES else counted_by_name(package)


def _walk(outputs: Iterable[Any]) -> tuple[list[Any], list[np.ndarray]]:
    """List every operation, and every constant or shared array, of a graph and of the graphs inside its operations."""
    from pytensor.graph.traversal import ancestors

    operations: list[Any] = []
    arrays: list[np.ndarray] = []
    for variable in ancestors(outputs):
        if variable.owner is not None:
            operations.append(variable.owner.op)
            inner = getattr(variable.owner.op, "fgraph", None)
            if inner is not None:
                inner_operations, inner_arrays = _walk(inner.outputs)
                operations += inner_operations
                arrays += inner_arrays
        elif hasattr(variable, "data"):
            arrays.append(np.asarray(variable.data))
        elif hasattr(variable, "get_value"):
            arrays.append(np.asarray(variable.get_value(borrow=True)))
    return operations, arrays


def is_trusted(operation: Any) -> bool:
    """Return whether an operation, and every function in it, belongs to PyTensor or PyMC."""
    functions = [value for value in vars(operation).values() if isinstance(value, types.FunctionType)]
    modules = [type(operation).__module__, *(function.__module__ or "" for function in functions)]
    return all(module.split(".")[0] in TRUSTED_PACKAGES for module in modules)


def content_of(identity: str, name: str, inputs: Sequence[Any], graphs: Sequence[Any]) -> str | None:
    """Return the hash of a function derived from graphs, such as their gradient.

    It covers the text of the graphs over numbered inputs, the model with their constants, the `name` of the derived
    function, this package's code, and the versions and flags of the libraries that derive and compile. None if the
    model has no hash, or the text contains a memory address, which the next process would not find again.
    """
    import pytensor
    from pytensor.printing import debugprint

    from approxmcmc.interop.graphs import rebuild

    numbered = rebuild(graphs, {one: one.type(f"input_{k}") for k, one in enumerate(inputs)})
    text = str(debugprint(numbered, print_type=True, file="str"))
    if identity.startswith(UNREADABLE) or ADDRESS.search(text):
        return None
    versions = (source_version(), *(version(name) for name in ("pytensor", "pymc", "scipy", "numpy")))
    flags = (str(pytensor.config.numba__fastmath), pytensor.config.floatX)
    return content_hash(identity, name, text, len(inputs), versions, flags)
