"""The terms of a model as a graph of theta and some rows, sent to other processes and compiled in each.

Code compiled by PyTensor is not sent, and no kernel around it is cached on disk. So each worker of a cluster compiles
the graph once, for all parts of the rows that it holds.
"""

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pytensor.tensor as pt

from approxmcmc.contracts import CompiledGradient, CompiledTarget, DifferentiableTarget, Target
from approxmcmc.contracts.variables import Variables
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.kernels import gradient_kernel, log_terms_kernel, numba_function
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.parts import MadeOfRows


class GraphOfRows:
    """Terms over the flat theta and arrays with rows; `example` holds a theta and a few rows."""

    def __init__(self, theta: Any, inputs: Sequence[Any], terms: Any, example: Sequence[np.ndarray]) -> None:
        self.theta, self.inputs, self.terms, self.example = theta, list(inputs), terms, list(example)

    @functools.cached_property
    def function(self) -> Any:
        """The compiled function of the terms."""
        return numba_function([self.theta, *self.inputs], [self.terms], self.example)

    @functools.cached_property
    def gradient(self) -> Any:
        """The compiled gradient of the sum of the terms."""
        return numba_function([self.theta, *self.inputs], [pt.grad(self.terms.sum(), self.theta)], self.example)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without compiled functions."""
        return {name: vars(self)[name] for name in ("theta", "inputs", "terms", "example")}


class TermsOfGraph(Target, DifferentiableTarget, MadeOfRows):
    """Terms and gradients, without the prior, that a worker makes of a graph and its rows."""

    data: tuple[np.ndarray, ...]

    def __init__(self, graph: GraphOfRows, n_obs: int, who: str) -> None:
        self.graph, self.n_obs, self.who = graph, n_obs, who
        self.variables = Variables({"theta": graph.example[0].shape})

    def with_rows(self, given: Mapping[str, Any], n_obs: int) -> Self:
        """Return the terms of some rows, given as arrays by name."""
        other = copy.copy(self)
        arrays = (checked_array(rows, name, who="from_pymc", keep_float32=True) for name, rows in given.items())
        other.data, other.n_obs = tuple(arrays), n_obs
        return other

    def compile(self) -> CompiledTarget:
        """Compile the terms."""
        return CompiledTarget(log_terms_kernel(self.graph.function, self.data), None, self.data, self.n_obs)

    def compile_gradient(self) -> CompiledGradient:
        """Compile the gradients of the terms."""
        return CompiledGradient(gradient_kernel(self.graph.gradient, self.data), None, self.data, self.n_obs)

    def initial_point(self) -> np.ndarray:
        """Return the theta of the example."""
        return self.graph.example[0]

    def content_hash(self) -> str:
        """Raise: this is only a part of a posterior."""
        raise IncompatibleError(f"{self.who}: the terms of the rows alone have no hash; use the target they come from")

    def __repr__(self) -> str:
        """Return a text that names the model."""
        return self.who
