"""What `approxmcmc.latents` needs of a target: draws of the effects that it integrates out."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class LatentTarget(abc.ABC):
    """A target that integrates an effect of each group out, and can draw it."""

    @property
    @abc.abstractmethod
    def group_labels(self) -> np.ndarray:
        """Labels of the groups in the order of the terms; shape (G,)."""

    @property
    @abc.abstractmethod
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """Labels of the axes of one group's effect, by name; empty where that is one number."""

    @abc.abstractmethod
    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return an exact draw of the effects of these groups at each theta; shape (thetas, groups, ...)."""
