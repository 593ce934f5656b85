"""The prior of a PyMC model: independent normal laws where it is that, else its graph, which PyTensor compiles."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.graph.traversal import ancestors

from approxmcmc.interop.graphs import evaluate, simplify
from approxmcmc.interop.kernels import log_prior_kernel, numba_function, prior_gradient_kernel
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tall_data import Prior


class PriorOfPyMC(Prior):
    """A log prior that PyTensor compiles, such as that of a hierarchy."""

    def __init__(self, source: ModelOfPyMC) -> None:
        super().__init__(math.inf, None, who="PyMCTarget")
        self.scale, self.source = math.nan, source
        self.graph = simplify(log_prior_of(source))
        self._kernels: dict[str, Any] = {}

    def normal(self, dim: int) -> None:
        """Return None: it is no normal law, as far as anybody looked."""

    def compile(self, dim: int) -> Any:
        """Compile the graph, once for this object."""
        if "value" not in self._kernels:
            self._kernels["value"] = log_prior_kernel(self._function(self.graph))
        return self._kernels["value"]

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Compile its gradient, likewise."""
        if "gradient" not in self._kernels:
            gradient = pytensor.grad(self.graph, self.source.theta)
            self._kernels["gradient"] = prior_gradient_kernel(self._function(gradient))
        return self._kernels["gradient"]

    def _function(self, graph: Any) -> Any:
        return numba_function([self.source.theta], [graph], (self.source.initial_point(),))

    def identity(self) -> str:
        """Return the hash of the model."""
        return self.source.hash


def log_prior_of(source: ModelOfPyMC) -> Any:
    """Return the sum of the log densities of variables and potentials, as a graph of the flat theta."""
    total = sum(term.sum() for term in source.log_priors())
    return source.over_flat([total])[0].astype("float64")


def prior_of(source: ModelOfPyMC) -> Prior:
    """Return independent normal priors where all are, else the prior's graph."""
    model = source.model
    means, scales = [], []
    if model.potentials or source.scales:
        return PriorOfPyMC(source)
    for variable, value in zip(model.free_RVs, source.values, strict=True):
        node = variable.owner
        law, shape = type(node.op).__name__, np.shape(source.start[value.name])
        changed = model.rvs_to_transforms[variable] is not None
        parents = set(ancestors(node.inputs)) & set(model.free_RVs)
        if changed or parents or law not in ("NormalRV", "FlatRV"):
            return PriorOfPyMC(source)
        mean, scale = [evaluate(p) for p in node.op.dist_params(node)] if law == "NormalRV" else (0.0, math.inf)
        means.append(np.broadcast_to(mean, shape).ravel())
        scales.append(np.broadcast_to(scale, shape).ravel())
    return NormalPrior(np.concatenate(means), np.concatenate(scales))
