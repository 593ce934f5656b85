"""Seconds of NUTS on a model as it is written, by counted work.

A leapfrog step is a gradient on all data, and trajectories in d dimensions take some 4 d^(1/4) of them (Beskos and
others 2013). Between standardised effects z and an intercept the posterior is a ridge: the intercept varies F times as
much as given z, F the `hierarchies.variance_ratio`, so trajectories must be F^(1/2) times as long. (Those of nutpie are
not: in a model of 400 and 100 crossed effects 61 draws were one effective draw of the intercept.)
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pytensor.graph.traversal import toposort

from approxmcmc.contracts import WrittenWork
from approxmcmc.interop.graphs import operations_of_a_row, simplify

# Seconds in which nutpie compiles a model: 5 to 8 without products of matrices, 12 to 13 with, and 42 with a Cholesky
# factor.
COMPILE, COMPILE_PRODUCTS, COMPILE_FACTORS = 7.0, 12.5, 42.0
PRODUCTS = ("Dot", "BatchedDot", "Gemv", "Gemm", "MatMul")
# Seconds for one operation of a row in PyTensor's graph, with its derivative. Nanoseconds of a row, measured and by
# this count: 2 to 4 and 5 for a normal row, 8 to 11 and 6 to 9 for a Poisson row, 50 to 56 and 52 for a logistic one,
# 75 and 83 for an ordered one, 40 and 77 for a softmax of three classes.
OPERATION = 0.25e-9
WITH_BRANCHES = 100.0  # operations: code with branches is not vectorised, and takes nutpie some 25 ns
LEAST = 7e-6  # seconds of a gradient of a few rows


def work_as_written(model: Any, sizes: Sequence[int], dim: int) -> WrittenWork:
    """Return the work of the graph that NUTS evaluates; `sizes` are the numbers of rows of the observed variables."""
    logps = model.logp(vars=model.observed_RVs, sum=False)
    operations = sum(
        n * operations_of_a_row(simplify(one), n, WITH_BRANCHES) for one, n in zip(logps, sizes, strict=True)
    )
    return WrittenWork(operations, dim, _multiplies(logps))


def _multiplies(graphs: Sequence[Any]) -> bool:
    """Return whether a graph multiplies by a matrix."""
    products = (node for node in toposort(graphs) if type(getattr(node.op, "core_op", node.op)).__name__ in PRODUCTS)
    inputs: Iterator[Any] = (one for node in products for one in node.inputs)
    return any(one.ndim > 1 for one in inputs)


def seconds_of_trajectory(work: WrittenWork) -> float:
    """Return the seconds of a trajectory of NUTS, which makes one draw."""
    return float(4.0 * work.dim**0.25 * work.longer * (LEAST + work.operations * OPERATION))


def seconds_to_compile(work: WrittenWork) -> float:
    """Return the seconds in which nutpie compiles a model without factors of matrices."""
    return COMPILE_PRODUCTS if work.multiplies else COMPILE
