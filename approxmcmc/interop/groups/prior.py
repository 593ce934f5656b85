"""The log prior of the parameters of a model that are not integrated out, compiled by PyTensor."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor

from approxmcmc.interop.groups.coordinates import Coordinates
from approxmcmc.interop.kernels import kept_log_prior_kernel, kept_prior_gradient_kernel, numba_function
from approxmcmc.interop.model_hash import content_of
from approxmcmc.targets.tall_data import Prior


class PriorOfCoordinates(Prior):
    """The log prior of a model's parameters in theta's `Coordinates`; `model_hash` identifies the model."""

    is_graph = True

    def __init__(self, coordinates: Coordinates, model_hash: str) -> None:
        super().__init__(math.inf, None, who="from_pymc")
        self.scale = math.nan
        self.coordinates = coordinates
        self.model_hash = model_hash
        self._kernels: dict[str, Any] = {}

    def normal(self, dim: int) -> None:
        """Return None: the prior is a graph."""

    def compile(self, dim: int) -> Any:
        """Return the compiled log prior; it is compiled once for this object."""
        if "value" not in self._kernels:
            graph = self.coordinates.log_prior
            self._kernels["value"] = kept_log_prior_kernel(lambda: self._function(graph), self._content("value"))
        return self._kernels["value"]

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Return the compiled gradient of the log prior; it is compiled once for this object."""
        if "gradient" not in self._kernels:
            self._kernels["gradient"] = kept_prior_gradient_kernel(self._gradient, self._content("gradient"))
        return self._kernels["gradient"]

    def _gradient(self) -> Any:
        return self._function(pytensor.grad(self.coordinates.log_prior, self.coordinates.theta))

    def _content(self, name: str) -> str | None:
        known = self.model_hash, f"{name} of the prior without effects"
        return content_of(*known, [self.coordinates.theta], [self.coordinates.log_prior])

    def _function(self, graph: Any) -> Any:
        return numba_function([self.coordinates.theta], [graph], (self.coordinates.initial_point(),))

    def identity(self) -> str:
        """Return the hash of the model."""
        return self.model_hash
