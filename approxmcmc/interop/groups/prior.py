"""The log prior of the remaining parameters of a model, compiled by PyTensor."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor

from approxmcmc.interop.groups.coordinates import Coordinates
from approxmcmc.interop.kernels import log_prior_kernel, numba_function, prior_gradient_kernel
from approxmcmc.targets.tall_data import Prior


class PriorOfCoordinates(Prior):
    """The log prior of a model's parameters in their coordinates."""

    def __init__(self, coordinates: Coordinates, model_hash: str) -> None:
        super().__init__(math.inf, None, who="from_pymc")
        self.scale, self.coordinates, self.model_hash = math.nan, coordinates, model_hash
        self._kernels: dict[str, Any] = {}

    def normal(self, dim: int) -> None:
        """Return None: the prior is a graph."""

    def compile(self, dim: int) -> Any:
        """Compile the graph, once for this object."""
        if "value" not in self._kernels:
            self._kernels["value"] = log_prior_kernel(self._function(self.coordinates.log_prior))
        return self._kernels["value"]

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Compile the gradient of the prior, once for this object."""
        if "gradient" not in self._kernels:
            gradient = pytensor.grad(self.coordinates.log_prior, self.coordinates.theta)
            self._kernels["gradient"] = prior_gradient_kernel(self._function(gradient))
        return self._kernels["gradient"]

    def _function(self, graph: Any) -> Any:
        return numba_function([self.coordinates.theta], [graph], (self.coordinates.initial_point(),))

    def identity(self) -> str:
        """Return the hash of the model."""
        return self.model_hash
