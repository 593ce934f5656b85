"""The variables of a PyMC model and the flat unconstrained vector that samplers move."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.initial_point import make_initial_point_fn
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from approxmcmc.contracts import Variables
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import over_flat, rebuild
from approxmcmc.interop.walk import evaluate, in_python


@dataclasses.dataclass(frozen=True)
class ModelVariables(Variables):
    """The constrained variables represented by a flat unconstrained theta.

    Parameters
    ----------
    unconstrained
        The content of theta, under PyMC's names: ``tau_log__``, ``w_simplex__`` (one number fewer than ``w``).
    constrain, unconstrain
        ``constrain(thetas)`` maps many thetas, shape (n, dim), to constrained values by name; ``unconstrain(values)``
        maps one set of values by name to theta.
    unconstrain_draws
        Maps the values of n draws by name to thetas, shape (n, dim).
    """

    unconstrained: Variables = dataclasses.field(default_factory=lambda: Variables({}))
    constrain: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None
    unconstrain: Callable[[Mapping[str, Any]], np.ndarray] | None = None
    unconstrain_draws: Callable[[Mapping[str, np.ndarray]], np.ndarray] | None = None

    @property
    def size(self) -> int:
        """Length of theta, which differs from the number of constrained values if a variable lies on a simplex."""
        return self.unconstrained.size

    @property
    def content(self) -> Variables:
        """The parts of theta, unconstrained."""
        return self.unconstrained

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta, such as "mu", "tau_log__" or "w_simplex__[0]"."""
        return self.unconstrained.labels()

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Map the last axis of `theta` to the model's variables; leading axes stay."""
        assert self.constrain is not None
        thetas = np.ascontiguousarray(theta.reshape(-1, theta.shape[-1]))
        values = self.constrain(thetas)
        return {name: value.reshape((*theta.shape[:-1], *value.shape[1:])) for name, value in values.items()}

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map constrained values to theta; missing ones are taken from the model's initial point."""
        assert self.unconstrain is not None
        return self.unconstrain(values)

    def pack_draws(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Map constrained values with leading axes (chain, draw) to thetas; shape (chain, draw, size)."""
        assert self.unconstrain_draws is not None
        chains, draws = next(iter(values.values())).shape[:2]
        flat = {name: value.reshape((chains * draws, *value.shape[2:])) for name, value in values.items()}
        return self.unconstrain_draws(flat).reshape((chains, draws, self.size))


def describe_variables(
    model: Any,
    theta: Any,
    start: Mapping[str, np.ndarray],
    deterministics: Sequence[Any],
    scales: Mapping[Any, Any],
    users_model: Any = None,
) -> ModelVariables:
    """Return the free variables of a model, and these deterministics, as functions of the symbolic vector `theta`.

    `start` is the model's initial point. If `scales` has a graph for a value variable, theta holds the variable times
    that scale. Dims and coords are those of `users_model`, if given: where indicators are summed out of it, the rows of
    a group lie along an axis of `model` that the user's data do not have.
    """
    values = [model.rvs_to_values[variable] for variable in model.free_RVs]
    listed = [*model.free_RVs, *deterministics]
    graphs = over_flat(model.replace_rvs_by_values(listed), theta, values, start, scales)
    multiply = multiplier(theta, values, start, scales)
    constrain = over_draws(theta, graphs, [variable.name for variable in listed])

    def unconstrain(given: Mapping[str, Any]) -> np.ndarray:
        overrides = {model[name]: np.asarray(value) for name, value in given.items()}
        return multiply(flat(make_initial_point_fn(model=model, overrides=overrides)(0), values))

    def unconstrain_draws(given: Mapping[str, np.ndarray]) -> np.ndarray:
        free = [variable.name for variable in model.free_RVs]
        pieces = forward()(*(given[name] for name in free))
        packed = np.concatenate([piece.reshape((len(piece), math.prod(piece.shape[1:]))) for piece in pieces], axis=1)
        packed = packed.astype(np.float64)
        return np.array([multiply(draw) for draw in packed]) if scales else packed

    @functools.cache
    def forward() -> Any:
        return _forward(model)

    first = {name: value[0] for name, value in constrain(multiply(flat(start, values))[None, :]).items()}
    defaults = {variable.name: first[variable.name] for variable in model.free_RVs}
    dims, coords = labels_of_model(model if users_model is None else users_model)
    names_of = {value: f"{value.name}_scaled__" if value in scales else value.name for value in values}
    pairs = [
        (names_of[value], value.name, variable.name) for value, variable in zip(values, model.free_RVs, strict=True)
    ]
    same = {
        own: dims[name] for own, key, name in pairs if name in dims and np.shape(start[key]) == defaults[name].shape
    }
    return ModelVariables(
        shapes={name: value.shape for name, value in defaults.items()},
        dims=dims,
        coords=coords,
        unconstrained=Variables({names_of[value]: np.shape(start[value.name]) for value in values}, same, coords),
        defaults=defaults,
        constrain=constrain,
        unconstrain=unconstrain,
        unconstrain_draws=unconstrain_draws,
    )


def over_draws(
    theta: Any, graphs: Sequence[Any], names: Sequence[str]
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return the function of many thetas, shape (n, dim), that returns the values of graphs of theta, by name."""
    many = pt.matrix("thetas", shape=(None, theta.type.shape[0]))
    batched: Sequence[Any] = vectorize_graph(list(graphs), {theta: many})
    # A graph that does not depend on theta gets no axis of draws.
    batched = [graph if graph.ndim > one.ndim else graph[None] for graph, one in zip(batched, graphs, strict=True)]
    function = in_python([many], batched)

    def evaluate_all(thetas: np.ndarray) -> dict[str, np.ndarray]:
        full = zip(names, function(thetas), strict=True)
        return {name: np.broadcast_to(value, (len(thetas), *value.shape[1:])) for name, value in full}

    return evaluate_all


def labels_of_model(model: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, list[Any]]]:
    """Return the dims of a model's variables by name, and its coords."""
    named = {name: dims for name, dims in model.named_vars_to_dims.items() if None not in dims}
    dims = {name: tuple(map(str, axes)) for name, axes in named.items()}
    return dims, {str(name): list(labels) for name, labels in model.coords.items() if labels is not None}


def _forward(model: Any) -> Any:
    """Return the function that maps many constrained values of the free variables to unconstrained ones."""
    transforms = {variable: model.rvs_to_transforms[variable] for variable in model.free_RVs}
    graphs = [
        variable if transform is None else transform.forward(variable, *variable.owner.inputs)
        for variable, transform in transforms.items()
    ]
    single = {variable: variable.type() for variable in transforms}
    many = [pt.tensor(dtype=variable.dtype, shape=(None, *variable.type.shape)) for variable in single.values()]
    batched = vectorize_graph(rebuild(graphs, single), dict(zip(single.values(), many, strict=True)))
    return in_python(many, batched)


def flat(point: Mapping[str, Any], values: Sequence[Any]) -> np.ndarray:
    """Return the entries of `point`, a dict by the names of `values`, one variable after the other; shape (dim,)."""
    return np.concatenate([np.ravel(point[value.name]) for value in values]).astype(np.float64)


def multiplier(
    theta: Any, values: Sequence[Any], start: Mapping[str, Any], scales: Mapping[Any, Any]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that multiplies each part of a flat vector that is named in `scales` by its scale.

    A scale depends on none of these parts. `start` gives the shapes of `values`.
    """
    if not scales:
        return lambda point: point
    function = in_python([theta], over_flat(list(scales.values()), theta, values, start))
    stops = np.cumsum([np.size(start[value.name]) for value in values])
    ends = dict(zip(values, stops, strict=True))

    def multiply(point: np.ndarray) -> np.ndarray:
        scaled = point.copy()
        for value, scale in zip(scales, function(point), strict=True):
            scaled[ends[value] - np.size(start[value.name]) : ends[value]] *= scale
        return scaled

    return multiply


def refuse_unsuitable(model: Any) -> None:
    """Raise on models that are unsuitable whatever their data.

    Raises
    ------
    IncompatibleError
        When the model has no observed variable, missing values, or no free variables.
    """
    observed = [variable.name for variable in model.observed_RVs]
    free = [variable.name for variable in model.free_RVs]
    missing = [name for name in free if name.endswith("_unobserved")]
    if missing:
        reason = (
            f"missing values in the observed data became the parameters {missing}; leave out the rows with missing "
            "values, or impute them before the model"
        )
    elif not observed:
        reason = "the model has no observed variable; give one variable observed="
    elif not free:
        reason = "the model has no free variable; there is nothing to sample"
    else:
        return
    raise IncompatibleError(f"from_pymc: {reason}")


def has_fixed_parameters(model: Any, variable: Any) -> bool:
    """Return whether the prior of a variable depends on no other free variable."""
    return not set(ancestors(variable.owner.inputs)) & set(model.free_RVs)


def is_positive(model: Any, variable: Any) -> bool:
    """Return whether a free variable is positive, by the transform with which PyMC samples it."""
    transform = model.rvs_to_transforms[variable]
    if isinstance(transform, LogTransform | LogOddsTransform):
        return True
    if not isinstance(transform, IntervalTransform) or not has_fixed_parameters(model, variable):
        return False
    lower, _ = transform.args_fn(*variable.owner.inputs)
    return lower is not None and bool(np.all(evaluate(pt.as_tensor(lower)) >= 0.0))


def refuse_other_users(model: Any, variable: Any) -> None:
    """Raise if another free variable or a potential depends on `variable`."""
    for other in model.free_RVs:
        if other is not variable and variable in set(ancestors(other.owner.inputs)):
            raise NotPossibleError(f"the variable {other.name} depends on it")
    for potential in model.potentials:
        if variable in set(ancestors([potential])):
            raise NotPossibleError(f"the potential {potential.name} depends on it")
