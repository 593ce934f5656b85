"""The counted work of NUTS on a model as it is written; the module `nuts_seconds` converts the counts to seconds."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytensor.graph.traversal import toposort

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.densities import log_densities
from approxmcmc.interop.graphs import operations_of_a_row, simplify

PRODUCTS = ("Dot", "BatchedDot", "Gemv", "Gemm", "MatMul")
WITH_BRANCHES = 100.0  # operations: code with branches is not vectorised, and takes nutpie some 25 ns


def work_as_written(model: Any, sizes: Sequence[int], dim: int) -> WrittenWork:
    """Return the counted work of the likelihood that NUTS evaluates.

    `model` is a ``pm.Model``, `sizes` are the numbers of rows of its observed variables, and `dim` is the number of
    parameters.
    """
    logps = log_densities(model, model.observed_RVs)
    operations = sum(
        n * operations_of_a_row(simplify(one), n, WITH_BRANCHES) for one, n in zip(logps, sizes, strict=True)
    )
    return WrittenWork(operations, dim, _multiplies(logps))


def _multiplies(graphs: Sequence[Any]) -> bool:
    """Return whether a graph multiplies by a matrix."""
    products = (node for node in toposort(graphs) if type(getattr(node.op, "core_op", node.op)).__name__ in PRODUCTS)
    inputs: Iterator[Any] = (one for node in products for one in node.inputs)
    return any(one.ndim > 1 for one in inputs)
