"""Seconds of NUTS on a model as it is written, by counted work.

A leapfrog step is a gradient on all data, and trajectories in d dimensions take some 4 d^(1/4) of them (Beskos and
others 2013).
"""

from collections.abc import Sequence
from typing import Any

from approxmcmc.interop.graphs import operations_of_a_row, simplify

# Seconds in which nutpie compiles a model: 5 to 8 without products of matrices, 12 to 13 with, and 42 with a Cholesky
# factor.
COMPILE, COMPILE_FACTORS = 7.0, 42.0
# Seconds for one operation of a row in PyTensor's graph, with its derivative. Measured, and by this count: 2 to 4 ns
# and 5 for a normal row, 8 to 11 and 6 to 9 for a Poisson row, 50 to 56 and 52 for a logistic one, 75 and 83 for an
# ordered one, 40 and 77 for a softmax of three classes.
OPERATION = 0.25e-9
WITH_BRANCHES = 100.0  # operations: code with branches is not vectorised, and takes nutpie some 25 ns
LEAST = 7e-6  # seconds of a gradient of a few rows


def operations_as_written(model: Any, sizes: Sequence[int]) -> float:
    """Return the operations of all rows in the graph that NUTS evaluates, given the rows of each observed variable."""
    rows = zip(model.logp(vars=model.observed_RVs, sum=False), sizes, strict=True)
    return sum(n * operations_of_a_row(simplify(one), n, WITH_BRANCHES) for one, n in rows)


def seconds_of_trajectory(operations: float, dim: int) -> float:
    """Return the seconds of a draw of a model whose rows take so many operations."""
    return float(4.0 * dim**0.25 * (LEAST + operations * OPERATION))
