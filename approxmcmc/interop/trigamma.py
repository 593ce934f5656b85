r"""The trigamma function as a graph of powers, because PyTensor's numba linker lacks it and would call Python.

.. math:: \psi'(x) = \sum_{k=0}^{9} \frac{1}{(x + k)^2} + \psi'(x + 10), \qquad
          \psi'(z) \approx \frac{1}{z} + \frac{1}{2 z^2} + \sum_{j=1}^{7} \frac{B_{2j}}{z^{2j+1}},

its recurrence and its asymptotic series, with the Bernoulli numbers B. For x > 0, the range of log densities, the first
omitted term is below 1e-15 of the whole.
"""

from collections.abc import Sequence
from typing import Any

from pytensor.graph.traversal import toposort
from pytensor.scalar.math import TriGamma
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.interop.graphs import rebuild

SHIFT = 10
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def trigamma(x: Any) -> Any:
    """Return the graph of psi'(x)."""
    z = x + SHIFT
    inverse = 1.0 / z
    square = inverse * inverse
    series = 0.0
    for number in reversed(BERNOULLI):
        series = (number + series) * square
    tail = inverse * (1.0 + 0.5 * inverse + series)
    return sum((1.0 / ((x + k) * (x + k)) for k in range(SHIFT)), start=tail)


def with_compiled_trigamma(graphs: Sequence[Any]) -> list[Any]:
    """Return graphs with the series in place of PyTensor's operation."""
    nodes: list[Any] = list(toposort(graphs))
    met = [node for node in nodes if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, TriGamma)]
    return rebuild(graphs, {node.outputs[0]: trigamma(node.inputs[0]) for node in met})
