r"""Draw indicators that were summed out: given theta their entries are independent.

.. math:: P(z_g = k \mid \theta, y) \propto p(z_g = k \mid \theta) \prod_{i \in g} p(y_i \mid z_g = k, \theta)
"""

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph

from approxmcmc.contracts import LatentTarget, Variables, as_labels
from approxmcmc.interop.graphs import by_numpy, rebuild, simplify
from approxmcmc.interop.returned import ReturnedByModel
from approxmcmc.interop.summed.model import SummedModel
from approxmcmc.interop.values import shape_of
from approxmcmc.interop.variables import labels_of_model
from approxmcmc.interop.walk import in_python

AT_ONCE = 1 << 21  # terms of states per chunk of draws


class SummedOut(LatentTarget):
    """The indicators of a `SummedModel`, drawn given the `variables` of a target that was made from it."""

    def __init__(self, model: SummedModel, variables: Variables) -> None:
        self.model = model
        self.variables = variables
        self.latents_wanted = model.latents_wanted
        self.shape = model.found.shape
        self.supports = model.found.supports
        self.dims = {variable.name: self._dims_of(variable.name, self.shape) for variable in self.supports}

    def _dims_of(self, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
        dims = self.model.given.named_vars_to_dims.get(name) or (None,) * len(shape)
        return tuple(str(dim) if dim is not None else f"{name}_dim_{axis}" for axis, dim in enumerate(dims))

    @property
    def sentence(self) -> str:
        """A sentence: the indicators, and their number of values and of entries."""
        return self.model.sentence

    @property
    def group_dim(self) -> str:
        """Name of the first axis of the indicators."""
        return next(iter(self.dims.values()))[0]

    @property
    def group_labels(self) -> np.ndarray:
        """The model's labels of the first axis of the indicators."""
        return as_labels(labels_of_model(self.model.given)[1].get(self.group_dim, range(self.shape[0])))

    @property
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """The other axes of the indicators, numbered."""
        return {f"axis_{axis}": range(length) for axis, length in enumerate(self.shape[1:], 1)}

    def coords_of_latents(self, groups: np.ndarray) -> Mapping[str, Sequence[Any]]:
        """Return the model's coords; the first axis of each indicator has the labels of `groups`."""
        chosen = list(self.group_labels[groups])
        return {**labels_of_model(self.model.given)[1], **{dims[0]: chosen for dims in self.dims.values()}}

    @property
    def latent_roots(self) -> Sequence[str]:
        """Names of the indicators."""
        return list(self.dims)

    def weights(self, thetas: np.ndarray) -> np.ndarray:
        """Return the probability of each state given theta and the rows; shape (thetas, states, *shape)."""
        terms = self._terms(*(self.variables.unpack(thetas)[one.name] for one in self.model.free_RVs))
        shape = (len(thetas), *self.shape)
        stacked = np.stack([np.broadcast_to(one, shape) for one in terms], axis=1)
        weights = np.exp(stacked - stacked.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def draw_latents(self, rng: np.random.Generator, thetas: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Return exact draws of the states of `groups`, as numbers, shape (thetas, groups, ...)."""
        uniform = rng.random((len(thetas), len(groups), *self.shape[1:]))
        if not len(thetas):
            return np.zeros(uniform.shape, dtype=np.int64)
        step = max(1, AT_ONCE // (len(self.model.terms) * int(np.prod(self.shape))))
        pieces = [
            (
                np.cumsum(self.weights(thetas[lo : lo + step])[:, :, groups], axis=1)[:, :-1]
                <= uniform[lo : lo + step, None]
            ).sum(axis=1)
            for lo in range(0, len(thetas), step)
        ]
        return np.concatenate(pieces)

    def latent_sizes(self, groups: np.ndarray) -> Mapping[str, int]:
        """Return how many numbers each deterministic of indicators has in a draw, if `groups` are all groups."""
        if np.unique(groups).size < self.shape[0]:
            return {}
        mine = {variable.name for variable in self.supports}
        return {
            name: math.prod(shape)
            for name, shape in self._returned.shapes.items()
            if mine & set(self._returned.parents(name))
        }

    def name_latents(
        self, thetas: np.ndarray, drawn: np.ndarray, groups: np.ndarray, names: Collection[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the indicators by name, dims and values, and the deterministics `names`, which depend on them."""
        names = list(self.latent_sizes(groups) if names is None else names)
        states = np.array(list(itertools.product(*self.supports.values())), dtype=np.int64)
        values = [states[drawn, column] for column in range(len(self.supports))]
        named = {name: (dims, value) for (name, dims), value in zip(self.dims.items(), values, strict=True)}
        if names:
            in_order = [np.take(value, np.argsort(groups), axis=1) for value in values]
            indicators = dict(zip(self.dims, in_order, strict=True))
            computed = self._returned.compute({**self.variables.unpack(thetas), **indicators}, names)
            named |= {name: (tuple(self._returned.axes(name)), value) for name, value in computed.items()}
        return named

    @functools.cached_property
    def _returned(self) -> ReturnedByModel:
        return ReturnedByModel(self.model.given)

    @functools.cached_property
    def _terms(self) -> Any:
        """The function of the parameters of many draws that returns the terms of all states."""
        return self._of_draws(
            self.model.free_RVs, [by_numpy(simplify(term)) for term in self._of_inputs(self.model.terms)]
        )

    @functools.cached_property
    def _inputs(self) -> dict[Any, Any]:
        variables = [*self.model.free_RVs, *self.supports]
        return {
            variable: pt.tensor(variable.name, dtype=variable.dtype, shape=shape_of(self.model.given, variable))
            for variable in variables
        }

    def _of_inputs(self, graphs: Sequence[Any]) -> list[Any]:
        return rebuild(list(graphs), self._inputs)

    def _of_draws(self, variables: Sequence[Any], graphs: Sequence[Any]) -> Any:
        inputs = [self._inputs[variable] for variable in variables]
        many = [pt.tensor(dtype=each.dtype, shape=(None, *each.type.shape)) for each in inputs]
        batched = vectorize_graph(list(graphs), dict(zip(inputs, many, strict=True)))
        return in_python(many, batched)
