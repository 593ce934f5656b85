"""Compute the factors of a linear predictor from theta.

If each is a simple function of one coordinate, the table of a `link` gives them, else a graph compiled by PyTensor.
"""

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.groups.coordinates import Coordinates, may_be_signed
from approxmcmc.interop.groups.forms import FactorsOfModel
from approxmcmc.interop.groups.predictor import Product
from approxmcmc.interop.kernels import numba_function
from approxmcmc.targets.groups.link import Link, add_factor_slopes, factors_of, link


def scales_of(
    model: Any, integrated: Collection[Any], factors: FactorsOfModel, scales: list[Product], others: list[Product]
) -> set[Any]:
    """Return the positive variables that only scale effects, which may be sampled with either sign.

    `scales` are the products of factors that multiply effects, `others` the other products.
    """

    def read(products: list[Product]) -> set[Any]:
        return {factors.entries[f][0] for _, _, monomial in products for f in monomial}

    free = set(model.free_RVs)
    graphs = [v for v in read(others) | read(scales) if v not in free]
    parents = [parent for v in model.free_RVs if v not in integrated for parent in v.owner.inputs]
    elsewhere = set(ancestors([*graphs, *parents])) | read(others)
    return {v for v in (read(scales) & free) - elsewhere if may_be_signed(model, v)}


def places_of(factors: FactorsOfModel, coordinates: Coordinates) -> list[tuple[int, int]] | None:
    """Return coordinate and kind (see `link`) of each factor; None if a factor needs a graph."""
    found = []
    for variable, entry in factors.entries:
        kind = coordinates.kind(variable, entry) if variable in coordinates.places else None
        if kind is None:
            return None
        found.append((coordinates.places[variable] + entry, kind))
    return found


class FactorsGiven:
    """A target with factors that are computed from theta by the table of its link, or by a graph."""

    coordinates: Coordinates
    keeps_kernels: bool

    def link_of(self, factors: FactorsOfModel, products: Sequence[Product], logs: Sequence[bool]) -> Link:
        """Return the table of these products of factors; its places are unused if a graph computes the factors.

        A factor with an upper bound is a share of the bound, which goes into the weights of the products.
        """
        self._factors_given = factors
        places = places_of(factors, self.coordinates)
        self.keeps_kernels = places is not None
        if places is None:
            return link([(0, 0)] * len(factors.entries), products, logs)
        bounds = [self.coordinates.bound(variable, entry) for variable, entry in factors.entries]
        scaled = [(j, weight * math.prod(bounds[f] for f in monomial), monomial) for j, weight, monomial in products]
        return link(places, scaled, logs)

    @functools.cached_property
    def _graph(self) -> "GraphOfFactors":
        return GraphOfFactors(self._factors_given, self.coordinates)

    @functools.cached_property
    def _bound(self) -> dict[Any, Any]:
        return {}

    def _bind(self, make: Callable[..., Any], *parts: Any, signature: Any) -> Any:
        """Compile a kernel; one around a graph is compiled once for this target, because it is not cached on disk."""
        if self.keeps_kernels:
            return super()._bind(make, *parts, signature=signature)  # type: ignore[misc]
        if (make, signature) not in self._bound:
            self._bound[make, signature] = super()._bind(make, *parts, signature=signature)  # type: ignore[misc]
        return self._bound[make, signature]

    def _factors(self) -> tuple[Any, Any]:
        return (factors_of, add_factor_slopes) if self.keeps_kernels else self._graph.parts

    def _factor_values(self, thetas: np.ndarray) -> np.ndarray:
        if self.keeps_kernels:
            return super()._factor_values(thetas)  # type: ignore[misc,no-any-return]
        return np.apply_along_axis(lambda theta: self._graph.value(theta)[0], -1, thetas)

    def _factor_slopes(self, theta: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        if self.keeps_kernels:
            return super()._factor_slopes(theta, slopes)  # type: ignore[misc,no-any-return]
        return np.array([self._graph.gradient(theta, one)[0] for one in slopes])


class GraphOfFactors:
    """The factors as a graph of theta, compiled by PyTensor."""

    def __init__(self, factors: FactorsOfModel, coordinates: Coordinates) -> None:
        entries = [variable.ravel()[entry] for variable, entry in factors.entries]
        [graph] = coordinates.frozen(rebuild([pt.stack(entries)], coordinates.of))
        slopes = pt.vector("slopes", shape=(len(entries),))
        theta = coordinates.theta
        start = coordinates.initial_point()
        self.value = numba_function([theta], [graph], (start,))
        gradient = pytensor.grad((graph * slopes).sum(), theta, disconnected_inputs="ignore")
        self.gradient = numba_function([theta, slopes], [gradient], (start, np.ones(len(entries))))

    @property
    def parts(self) -> tuple[Any, Any]:
        """The two functions that kernels of a `link` call, in place of `factors_of` and `add_factor_slopes`."""
        return make_read(self.value), make_add(self.gradient)


def make_read(value: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return a function like `link.factors_of` that evaluates the compiled graph `value`."""

    def read(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        return value(theta)[0]

    return read


def make_add(gradient: Callable[..., Any]) -> Callable[..., None]:
    """Return a function like `link.add_factor_slopes` that evaluates the compiled graph `gradient`."""

    def add(theta: np.ndarray, places: np.ndarray, slopes: np.ndarray, out: np.ndarray) -> None:
        found = gradient(theta, slopes)[0]
        for j in range(out.shape[0]):
            out[j] += found[j]

    return add
