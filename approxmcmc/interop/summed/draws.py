r"""Draw indicators that were summed out: given theta their entries are independent.

.. math:: P(z_g = k \mid \theta, y) \propto p(z_g = k \mid \theta) \prod_{i \in g} p(y_i \mid z_g = k, \theta)
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.backends.arviz import find_constants, find_observations
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import LatentTarget, Variables
from approxmcmc.interop.graphs import by_numpy, rebuild, simplify
from approxmcmc.interop.groups.coordinates import labels_of_model
from approxmcmc.interop.groups.values import PYTHON, shape_of
from approxmcmc.interop.summed.model import SummedModel

AT_ONCE = 1 << 21  # terms of states per chunk of draws


class SummedOut(LatentTarget):
    """The indicators of a `SummedModel`, drawn given the `variables` of a target that was made from it."""

    def __init__(self, model: SummedModel, variables: Variables) -> None:
        self.model, self.variables = model, variables
        self.latents_wanted = model.latents_wanted
        self.shape, self.supports = model.found.shape, model.found.supports
        self.dims = {one.name: self._dims_of(one.name, self.shape) for one in self.supports}

    def _dims_of(self, name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
        known = self.model.given.named_vars_to_dims.get(name) or (None,) * len(shape)
        return tuple(str(one) if one is not None else f"{name}_dim_{axis}" for axis, one in enumerate(known))

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
        return np.asarray(self.coords_of_latents.get(self.group_dim, range(self.shape[0])))

    @property
    def latent_coords(self) -> Mapping[str, Sequence[Any]]:
        """The other axes of the indicators, numbered."""
        return {f"axis_{axis}": range(length) for axis, length in enumerate(self.shape[1:], 1)}

    @property
    def coords_of_latents(self) -> Mapping[str, Sequence[Any]]:
        """The model's coords; axes without a name are numbered."""
        unnamed = {dim: range(n) for dims in self.dims.values() for dim, n in zip(dims, self.shape, strict=True)}
        return {**unnamed, **labels_of_model(self.model.given)[1]}

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
        step = max(1, AT_ONCE // (len(self.model.terms) * int(np.prod(self.shape))))
        pieces = [
            (
                np.cumsum(self.weights(thetas[lo : lo + step])[:, :, groups], axis=1)[:, :-1]
                <= uniform[lo : lo + step, None]
            ).sum(axis=1)
            for lo in range(0, len(thetas), step)
        ]
        return np.concatenate(pieces)

    def name_latents(
        self, thetas: np.ndarray, drawn: np.ndarray, groups: np.ndarray
    ) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the indicators by name, dims and values, and if `groups` are all groups, what depends on them."""
        states = np.array(list(itertools.product(*self.supports.values())), dtype=np.int64)
        values = [states[drawn, place] for place in range(len(self.supports))]
        named = {name: (dims, value) for (name, dims), value in zip(self.dims.items(), values, strict=True)}
        if np.unique(groups).size == self.shape[0] and self._deterministics:
            every = [np.take(value, np.argsort(groups), axis=1) for value in values]
            parameters = self.variables.unpack(thetas)
            found = self._computed(*(parameters[one.name] for one in self.model.free_RVs), *every)
            for one, value in zip(self._deterministics, found, strict=True):
                named[one.name] = self._dims_of(one.name, value.shape[1:]), value
        return named

    @functools.cached_property
    def _deterministics(self) -> list[Any]:
        """The deterministics that depend on indicators, without those that have an axis of rows."""
        lengths = {len(values) for values in self.observed_data.values() if np.ndim(values)} - {self.shape[0]}
        mine = set(self.supports)
        found = [one for one in self.model.given.deterministics if mine & set(ancestors([one]))]
        return [one for one in found if not lengths & set(one.type.shape)]

    @functools.cached_property
    def _terms(self) -> Any:
        """The function of the parameters of many draws that returns the terms of all states."""
        return self._of_draws(
            self.model.free_RVs, [by_numpy(simplify(one)) for one in self._of_inputs(self.model.terms)]
        )

    @functools.cached_property
    def _computed(self) -> Any:
        """The function of parameters and indicators of many draws that returns the deterministics."""
        return self._of_draws([*self.model.free_RVs, *self.supports], self._of_inputs(self._deterministics))

    @functools.cached_property
    def _inputs(self) -> dict[Any, Any]:
        variables = [*self.model.free_RVs, *self.supports]
        return {one: pt.tensor(one.name, dtype=one.dtype, shape=shape_of(self.model.given, one)) for one in variables}

    def _of_inputs(self, graphs: Sequence[Any]) -> list[Any]:
        return rebuild(list(graphs), self._inputs)

    def _of_draws(self, variables: Sequence[Any], graphs: Sequence[Any]) -> Any:
        one = [self._inputs[variable] for variable in variables]
        many = [pt.tensor(dtype=each.dtype, shape=(None, *each.type.shape)) for each in one]
        batched = vectorize_graph(list(graphs), dict(zip(one, many, strict=True)))
        return pytensor.function(many, batched, mode=PYTHON, on_unused_input="ignore")

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data, under the names of the user's model."""
        return {name: np.asarray(values) for name, values in find_observations(self.model.given).items()}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The data containers of the user's model without the observed ones."""
        return {name: np.asarray(values) for name, values in find_constants(self.model.given).items()}
