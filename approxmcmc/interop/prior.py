"""The prior of a PyMC model: independent normal priors if it has that form, else its graph, compiled by PyTensor."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.graph.traversal import ancestors

from approxmcmc.interop.graphs import simplify
from approxmcmc.interop.kernels import kept_log_prior_kernel, kept_prior_gradient_kernel, numba_function
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.model_hash import content_of
from approxmcmc.interop.walk import evaluate
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tall_data import Prior


class PriorOfGraph(Prior):
    """A log prior compiled by PyTensor, such as that of a hierarchy.

    `graph` is a graph of the flat vector `theta`, and `start` an example of it. `model_hash` identifies the model, and
    `name` the graph among those of the model, for kernels that are kept on disk.
    """

    is_graph = True

    def __init__(self, graph: Any, theta: Any, start: np.ndarray, model_hash: str, name: str = "prior") -> None:
        super().__init__(math.inf, None)
        self.scale = math.nan
        self.graph = graph
        self.theta = theta
        self.start = start
        self.model_hash = model_hash
        self.name = name
        self._kernels: dict[str, Any] = {}

    def normal(self, dim: int) -> None:
        """Return None: no normal form is known."""

    def compile(self, dim: int) -> Any:
        """Return the compiled log prior; it is compiled once for this object."""
        if "value" not in self._kernels:
            self._kernels["value"] = kept_log_prior_kernel(lambda: self._function(self.graph), self._content("value"))
        return self._kernels["value"]

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Return the compiled gradient of the log prior; it is compiled once for this object."""
        if "gradient" not in self._kernels:
            self._kernels["gradient"] = kept_prior_gradient_kernel(self._gradient, self._content("gradient"))
        return self._kernels["gradient"]

    def _gradient(self) -> Any:
        return self._function(pytensor.grad(self.graph, self.theta))

    def _content(self, part: str) -> str | None:
        return content_of(self.model_hash, f"{part} of the {self.name}", [self.theta], [self.graph])

    def _function(self, graph: Any) -> Any:
        return numba_function([self.theta], [graph], (self.start,))

    def identity(self) -> str:
        """Return the hash of the model."""
        return self.model_hash


def graph_prior(source: ModelOfPyMC) -> PriorOfGraph:
    """Return the prior of a model as its graph."""
    return PriorOfGraph(simplify(log_prior_of(source)), source.theta, source.initial_point(), source.hash)


def log_prior_of(source: ModelOfPyMC) -> Any:
    """Return the sum of the log densities of variables and potentials, as a graph of the flat theta."""
    total = sum(term.sum() for term in source.log_priors())
    return source.over_flat([total])[0].astype("float64")


def prior_of(source: ModelOfPyMC) -> Prior:
    """Return a `NormalPrior` if all variables are independent, normal or flat; else a `PriorOfGraph`.

    Also a `PriorOfGraph` if the model has potentials, or group effects that are sampled in scaled coordinates.
    """
    model = source.model
    means = []
    scales = []
    if model.potentials or source.scales:
        return graph_prior(source)
    for variable, value in zip(model.free_RVs, source.values, strict=True):
        node = variable.owner
        distribution = type(node.op).__name__
        shape = np.shape(source.start[value.name])
        changed = model.rvs_to_transforms[variable] is not None
        parents = set(ancestors(node.inputs)) & set(model.free_RVs)
        if changed or parents or distribution not in ("NormalRV", "FlatRV"):
            return graph_prior(source)
        mean, scale = (
            [evaluate(p) for p in node.op.dist_params(node)] if distribution == "NormalRV" else (0.0, math.inf)
        )
        means.append(np.broadcast_to(mean, shape).ravel())
        scales.append(np.broadcast_to(scale, shape).ravel())
    return NormalPrior(np.concatenate(means), np.concatenate(scales))
