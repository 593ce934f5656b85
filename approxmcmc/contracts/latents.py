"""The interface that `approxmcmc.latents` needs of a target: draws of the effects that it integrates out."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

EFFECT, GROUP = "effect", "group"


class LatentTarget(abc.ABC):
    """A target that integrates out an effect of each group, and can draw it."""

    @property
    @abc.abstractmethod
    def group_labels(self) -> np.ndarray:
        """Labels of the groups in the order of the terms; shape (G,)."""

    @property
    @abc.abstractmethod
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """Labels of the axes of one group's effect, by name; empty for a scalar effect."""

    latents_wanted: Any = None
    """Which effects `sample` stores in the trace: None, "auto" (all, if few), or a list of groups."""

    @abc.abstractmethod
    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return an exact draw of the effects of these groups at each theta; shape (thetas, groups, ...)."""

    def name_latents(
        self, thetas: np.ndarray, drawn: np.ndarray, groups: np.ndarray
    ) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the draws of these groups by variable name: dims, and values of shape (thetas, ...)."""
        return {EFFECT: ((GROUP, *self.latent_coords), drawn)}

    @property
    def coords_of_latents(self) -> Mapping[str, Sequence[Any]]:
        """Labels of the axes that `name_latents` uses, for all groups."""
        return {GROUP: list(self.group_labels), **self.latent_coords}

    @property
    def group_dim(self) -> str:
        """Name of the axis that counts groups."""
        return GROUP

    @property
    def latent_roots(self) -> Sequence[str]:
        """Names of the effects themselves, from which a model computes all other group variables."""
        return [EFFECT]
