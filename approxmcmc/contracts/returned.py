"""The variables that a model returns besides the parameters of its target, and the labels of all axes."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class ReturnedVariables(abc.ABC):
    """Functions of a model's free variables, computed from the draws of a finished run; PyMC's deterministics."""

    wanted: Sequence[str] | None = None
    """Names of the deterministics to store, whatever their size; None: all, as far as they fit."""

    @property
    @abc.abstractmethod
    def free(self) -> Sequence[str]:
        """Names of the free variables of the model."""

    @property
    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """Names of the deterministics, in the model's order."""

    @property
    @abc.abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each deterministic."""

    @property
    @abc.abstractmethod
    def why_not_computed(self) -> Mapping[str, str]:
        """Why some deterministics cannot be computed from draws, by name; empty if all can."""

    @abc.abstractmethod
    def parents(self, name: str) -> Sequence[str]:
        """Return the names of the free variables on which a deterministic depends."""

    @abc.abstractmethod
    def compute(self, draws: Mapping[str, np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Return the deterministics `names` at n draws of the free variables.

        `draws` holds arrays of shape (n, ...) by name, at least of the free variables on which `names` depend. Each
        result has the shape (n, *shape).
        """

    @abc.abstractmethod
    def axes(self, name: str) -> Sequence[str]:
        """Return the names of the axes of a variable of the model: its dims, or ``{name}_dim_0`` and so on."""

    @property
    @abc.abstractmethod
    def coords(self) -> Mapping[str, Sequence[Any]]:
        """The model's labels by axis; axes that are missing here are numbered."""

    @abc.abstractmethod
    def advice(self, names: Sequence[str]) -> str:
        """Return the calls that compute the deterministics `names` from a trace, or store them in one."""
