"""Variables of which one is positive: theta holds its logarithm."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables


@dataclasses.dataclass(frozen=True)
class WithPositive(Variables):
    """Variables with one, `positive`, such as a scale or a shape, of which theta holds the logarithm."""

    positive: str = ""

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta."""
        return [f"log_{label}" if label.split("[")[0] == self.positive else label for label in super().labels()]

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Map the last axis of `theta` to the variables of the trace; leading axes are kept."""
        values = super().unpack(theta)
        return {**values, self.positive: np.exp(values[self.positive])}

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map the variables of the trace to theta."""
        return super().pack({**values, self.positive: np.log(values[self.positive])})

    def pack_draws(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Map draws with leading axes (chain, draw) to thetas."""
        return super().pack_draws({**values, self.positive: np.log(values[self.positive])})
