"""The integrated effects of a PyMC model under the model's names, and the variables computed from them."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from approxmcmc.interop.graphs import frozen, rebuild
from approxmcmc.interop.groups.candidates import GroupEffects
from approxmcmc.interop.groups.coordinates import Coordinates
from approxmcmc.interop.groups.labels import MIXED, labels_of
from approxmcmc.interop.groups.predictor import triangle_of
from approxmcmc.interop.values import ValuesOfGraph, shape_of, size
from approxmcmc.interop.walk import in_python

AT_ONCE = 1 << 21  # numbers of u per chunk


class Named(NamedTuple):
    """A variable or deterministic that depends on effects.

    `axis` counts the groups; it is None if an entry depends on several groups.
    """

    name: str
    graph: Any
    shape: tuple[int, ...]
    axis: int | None


class EffectsOfModel:
    """The effects and their deterministics as functions of theta and u, shape (groups, K)."""

    def __init__(self, model: Any, effects: GroupEffects, coordinates: Coordinates, n_effects: int) -> None:
        self.model = model
        self.effects = effects
        self.coordinates = coordinates
        self.u = pt.matrix("u", shape=(effects.n_groups, n_effects))
        first = 0
        self.of: dict[Any, Any] = {}
        self._compiled: dict[tuple[str, ...], Any] = {}
        for variable, axis in effects.axes.items():
            shape = shape_of(model, variable)
            count = size([n for place, n in enumerate(shape) if place != axis])
            self.of[variable] = self._scaled(variable, shape, axis, self.u[:, first : first + count])
            first += count
        known = {**coordinates.of, **self.of}
        self.of = dict(zip(self.of, frozen(rebuild(list(self.of.values()), known)), strict=True))

    def _scaled(self, variable: Any, shape: tuple[int, ...], axis: int, u: Any) -> Any:
        """Return the graph of the effects `variable`: location + scale u, or location + L u with L L' a covariance."""
        node = variable.owner
        location, scale = node.op.dist_params(node)
        if type(node.op).__name__ == "MvNormalRV":
            return location + u @ triangle_of(scale).T
        moved = (shape[axis], *(n for place, n in enumerate(shape) if place != axis))
        return location + scale * pt.moveaxis(u.reshape(moved), 0, axis)

    @functools.cached_property
    def roots(self) -> list[Named]:
        """The effects themselves."""
        shapes = {variable: shape_of(self.model, variable) for variable in self.effects.axes}
        return [Named(v.name, self.of[v], shapes[v], axis) for v, axis in self.effects.axes.items()]

    @functools.cached_property
    def deterministics(self) -> list[Named]:
        """The deterministics that depend on effects; they are read when groups are drawn, not with the model."""
        mine = set(self.of)
        wanted = [one for one in self.model.deterministics if mine & set(ancestors([one]))]
        values = ValuesOfGraph(self.model, wanted)
        effects = {variable: np.indices(values.shape(variable))[axis] for variable, axis in self.effects.axes.items()}
        labels = labels_of(values, effects)
        graphs = frozen(rebuild(wanted, {**self.coordinates.of, **self.of}))
        return [
            Named(one.name, graph, values.shape(one), _axis_of_groups(labels[one], self.effects.n_groups))
            for one, graph in zip(wanted, graphs, strict=True)
        ]

    def evaluate(
        self, named: Sequence[Named], thetas: np.ndarray, u: np.ndarray, groups: np.ndarray
    ) -> list[np.ndarray]:
        """Return the entries of `groups` in each of `named`, at draws `thetas` and `u`, shape (n, groups, K).

        Variables without an axis of groups depend on several groups: then all of them must be given, in any order.
        """
        if not len(thetas):
            return [np.empty((0, *_shape_of_groups(one, len(groups)))) for one in named]
        function = self._function(named)
        shape = self.u.type.shape
        step = max(1, AT_ONCE // size(shape))
        columns = []
        for lo in range(0, len(thetas), step):
            some = slice(lo, lo + step)
            full = np.full((len(thetas[some]), *shape), np.nan)
            full[:, groups] = u[some]
            values = zip(named, function(thetas[some], full), strict=True)
            columns.append([v if one.axis is None else np.take(v, groups, axis=1 + one.axis) for one, v in values])
        return [np.concatenate(column) for column in zip(*columns, strict=True)]

    def _function(self, named: Sequence[Named]) -> Any:
        """Return the function that evaluates the variables `named` at n pairs (theta, u), compiled once."""
        names = tuple(one.name for one in named)
        if names not in self._compiled:
            theta = self.coordinates.theta
            thetas = pt.matrix("thetas", shape=(None, theta.type.shape[0]))
            many = pt.tensor("many", shape=(None, *self.u.type.shape))
            graphs = vectorize_graph([one.graph for one in named], {theta: thetas, self.u: many})
            self._compiled[names] = in_python([thetas, many], graphs)
        return self._compiled[names]


def _shape_of_groups(one: Named, n_groups: int) -> list[int]:
    """Return the shape of the entries of some groups in a variable."""
    return [n_groups if axis == one.axis else length for axis, length in enumerate(one.shape)]


def _axis_of_groups(labels: np.ndarray, n_groups: int) -> int | None:
    if (labels == MIXED).any():
        return None
    for axis, length in enumerate(labels.shape):
        if length == n_groups and (labels == np.indices(labels.shape)[axis]).all():
            return axis
    return None
