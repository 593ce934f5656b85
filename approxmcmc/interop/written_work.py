"""The counted work of one likelihood evaluation of a PyMC model exactly as its user wrote it, as NUTS evaluates it.

No quicker form of the model is looked for. The module `nuts_seconds` converts the counts to seconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pytensor.graph.traversal import toposort

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.densities import log_densities
from approxmcmc.interop.graphs import operations_of_a_row, simplify
from approxmcmc.interop.operations import MULTIPLYING, name_of

# An operation with a branch (switch, clip) is not vectorised, and takes nutpie some 25 ns, as long as 100 simple ones.
OPERATIONS_OF_A_BRANCH = 100.0


def work_as_written(model: Any, sizes: Sequence[int], dim: int) -> WrittenWork:
    """Return the counted work of an evaluation of the likelihood by NUTS, without its gradient.

    `model` is a ``pm.Model``, `sizes` are the numbers of rows of its observed variables, and `dim` is the number of
    parameters.
    """
    logps = log_densities(model, model.observed_RVs)
    operations = sum(
        n * operations_of_a_row(simplify(logp), n, OPERATIONS_OF_A_BRANCH)
        for logp, n in zip(logps, sizes, strict=True)
        if n
    )
    return WrittenWork(operations, dim, multiplies=_has_matrix_product(logps))


def _has_matrix_product(graphs: Sequence[Any]) -> bool:
    """Return whether a graph multiplies by a matrix."""
    products = (node for node in toposort(graphs) if name_of(node) in MULTIPLYING)
    inputs: Iterator[Any] = (operand for node in products for operand in node.inputs)
    return any(operand.ndim > 1 for operand in inputs)
