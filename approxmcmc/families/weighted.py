"""Rows with known weights: a row's log density is its weight times that of a family, here and in PyMC."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import closure
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.families.family import Family, no_share

WITH_LOGIT = "logit", "binomial"


class WeightedRows(NamedTuple):
    """A family, and the numbers (y, size) of rows; its terms are the weighted terms of another family."""

    family: Family
    y: np.ndarray
    size: np.ndarray


def weighted_rows(family: Family, y: np.ndarray, size: np.ndarray, weight: np.ndarray) -> WeightedRows:
    """Return the rows of a family with `weight` times its terms; constants are those without weights.

    For a logit, w (y eta - n softplus(eta)) is a binomial term with w y and w n. Other families read no size, and their
    weighted form reads the weight in its place.
    """
    if family.name in WITH_LOGIT:
        return WeightedRows(BINOMIAL, weight * y, weight * size)
    scaled = Family(
        f"weighted {family.name}",
        closure(make_times_size, family.term),
        closure(make_pair_times_size, family.derivatives),
        family.constants,
        family.support,
        family.fits,
        in_shape=closure(make_times_size, family.in_shape),
        of_row=closure(make_of_row_times_size, family.of_row) if family.has_shape else no_share,
    )
    return WeightedRows(scaled, y, weight)


def observe_weighted(
    name: str, weights: Any, observe: Callable[..., Any], *graphs: Any, observed: Any, y: np.ndarray
) -> Any:
    """Add responses to the PyMC model of the current context whose log densities are multiplied by known weights.

    ``observe(name, observed, *graphs)`` adds them without weights, given the graphs of their parameters, and the
    container of the responses `y`. `weights` is a container or None. Random draws of the responses are those without
    weights, as in Bambi, and as many as the parameters have.
    """
    if weights is None:
        return observe(name, observed, *graphs)
    import pymc as pm

    def law(*parameters: Any) -> Any:
        with pm.Model(model=None):
            return observe(name, y, *parameters)  # an array: graphs inside an operation read no containers

    def draw(weights: Any, *parameters_and_size: Any) -> Any:
        node = law(*parameters_and_size[:-1]).owner
        return without_size(node, node.op.dist_params(node))

    def logp(value: Any, weights: Any, *parameters: Any) -> Any:
        node = law(*parameters).owner
        return weights * pm.logp(without_size(node, node.op.dist_params(node)), value)

    return pm.CustomDist(name, weights, *graphs, dist=draw, logp=logp, observed=observed)


def without_size(node: Any, parameters: Sequence[Any]) -> Any:
    """Return a random variable of PyMC like that of a node, with these parameters, whose draws have no given size.

    With a size PyMC also broadcasts densities to it, so equal densities would not be equal graphs.
    """
    if hasattr(node.op, "rv_op"):  # of several operations
        return node.op.rv_op(*parameters)
    return node.op.make_node(node.inputs[0], None, *parameters).outputs[1]


def make_times_size(function: Callable[..., float]) -> Callable[..., float]:
    """Return `size` times the function of (eta, y, 1, shape), as a function of (eta, y, size, shape)."""

    def times_size(eta: float, y: float, size: float, shape: float) -> float:
        return size * function(eta, y, 1.0, shape)

    return times_size


def make_pair_times_size(function: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    """Return the same as `make_times_size`, for a function that returns two numbers."""

    def times_size(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
        first, second = function(eta, y, 1.0, shape)
        return size * first, size * second

    return times_size


def make_of_row_times_size(function: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    """Return the same as `make_pair_times_size`, for a function of (y, size, shape)."""

    def times_size(y: float, size: float, shape: float) -> tuple[float, float]:
        first, second = function(y, 1.0, shape)
        return size * first, size * second

    return times_size
