r"""The remaining parameters of a PyMC model without its effects, their coordinates, and their prior.

Parameters keep the model's unconstrained coordinates, except scales of effects, which are sampled with either sign; the
trace holds the absolute value. The integrated likelihood is a smooth and even function of such a scale s. On the log
scale it would have an infinite plateau if the data hardly distinguish s from 0. With t of either sign and s = abs(t),
the density of t at either sign is half the density of s, without a Jacobian. If the prior has an upper bound b, then
s = b abs(tanh(t / 2)), so that a mode at the bound lies far inside the support of t. If the prior is 0 or infinite at
s = 0, the scale keeps the model's coordinate.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pytensor.graph.replace import vectorize_graph

from approxmcmc.contracts import Variables
from approxmcmc.interop.densities import initial_point
from approxmcmc.interop.graphs import frozen, rebuild, simplify
from approxmcmc.interop.values import shape_of
from approxmcmc.interop.variables import ModelVariables, has_fixed_parameters, labels_of_model, over_draws
from approxmcmc.interop.walk import evaluate, in_python
from approxmcmc.targets.groups.link import ABS, ABS_TANH, AS_IT_IS, EXP, EXPIT


class Coordinates:
    """The flat theta of a model without its integrated effects, the other variables as graphs of it, and the prior.

    `signed` maps the scales that are sampled with either sign to their upper bounds, None without a bound.
    """

    def __init__(self, model: Any, integrated: Collection[Any], signed: Collection[Any]) -> None:
        self.model = model
        self.signed = {variable: upper_bound(model, variable) for variable in signed}
        self.free = [variable for variable in model.free_RVs if variable not in integrated]
        start = initial_point(model)
        self.start = []
        self.places = {}
        pieces = {}
        dim = 0
        for variable in self.free:
            value = np.asarray(start[model.rvs_to_values[variable].name], dtype=np.float64)
            if variable in self.signed:
                scale = model.rvs_to_transforms[variable].backward(value, *variable.owner.inputs)
                value = np.asarray(evaluate(self._signed_coordinate(variable, scale)), dtype=np.float64)
            self.start.append(value)
            self.places[variable] = dim
            dim += value.size
        self.theta = pt.vector("theta", shape=(dim,))
        for variable, value in zip(self.free, self.start, strict=True):
            place = self.places[variable]
            pieces[variable] = self.theta[place : place + value.size].reshape(value.shape)
        self.pieces = pieces
        self.of: dict[Any, Any] = {}  # the constrained variables as graphs of theta
        terms = []
        for variable in self.free:
            own, jacobian = self._constrained(variable, pieces[variable])
            [own] = rebuild([own], self.of)
            terms.append(self._log_prior_of(variable, own, jacobian))
            self.of[variable] = own
        terms += [rebuild([potential], self.of)[0] for potential in model.potentials]
        self.log_prior = simplify(frozen([sum(term.sum() for term in terms)])[0].astype("float64"))

    def _constrained(self, variable: Any, piece: Any) -> tuple[Any, Any]:
        """Return a variable as a graph of its piece of theta, and the graph of the log Jacobian, or None."""
        transform = self.model.rvs_to_transforms[variable]
        inputs = variable.owner.inputs
        if variable in self.signed:
            bound = self.signed[variable]
            if bound is None:
                return pt.abs(piece), None
            return bound * pt.abs(pt.tanh(piece / 2.0)), self.log_jacobian(variable)
        if transform is None:
            return piece, None
        return transform.backward(piece, *inputs), transform.log_jac_det(piece, *inputs)

    def log_jacobian(self, variable: Any) -> Any:
        """Return log abs(ds/dt) of a scale s = b abs(tanh(t / 2)) with the upper bound b, entry by entry."""
        bound = self.signed[variable]
        assert bound is not None
        distance = pt.abs(self.pieces[variable])
        return np.log(2.0 * bound) - distance - 2.0 * pt.log1p(pt.exp(-distance))

    def _signed_coordinate(self, variable: Any, scale: Any) -> Any:
        """Return the positive coordinate of a scale that is sampled with either sign, as a graph."""
        bound = self.signed[variable]
        return scale if bound is None else 2.0 * pt.arctanh(scale / bound)

    def _log_prior_of(self, variable: Any, own: Any, jacobian: Any) -> Any:
        term = pm.logp(variable, own, warn_rvs=False).sum()
        term = term if jacobian is None else term + jacobian.sum()
        return rebuild([term], self.of)[0]

    def kind(self, variable: Any, entry: int) -> int | None:
        """Return which function of its coordinate an entry of a variable is, see `link`; None if another.

        A variable of the kinds ABS_TANH and EXPIT is that function times its `bound`.
        """
        transform = self.model.rvs_to_transforms[variable]
        if variable in self.signed:
            return ABS if self.signed[variable] is None else ABS_TANH
        if transform is None:
            return AS_IT_IS
        if is_between_0_and_a_bound(self.model, variable):
            return EXPIT
        if isinstance(transform, LogTransform):
            return EXP
        if isinstance(transform, CholeskyCovPacked):
            row = int((np.sqrt(8 * entry + 1) - 1) / 2)
            return EXP if entry == (row + 1) * (row + 2) // 2 - 1 else AS_IT_IS
        return None

    def bound(self, variable: Any, entry: int) -> float:
        """Return the upper bound of an entry of a variable of the kinds ABS_TANH and EXPIT, else 1."""
        if not is_between_0_and_a_bound(self.model, variable):
            return 1.0
        bound = upper_bound(self.model, variable)
        assert bound is not None
        return float(np.broadcast_to(bound, shape_of(self.model, variable)).ravel()[entry])

    def initial_point(self) -> np.ndarray:
        """Return the model's initial point as a theta."""
        return np.concatenate([np.ravel(one) for one in self.start]) if self.start else np.empty(0)

    def describe(self) -> "GlobalVariables":
        """Return the variables of theta, with the maps from and to theta."""
        model = self.model
        names = [variable.name for variable in self.free]
        graphs = frozen([self.of[v] for v in self.free])
        constrain = over_draws(self.theta, graphs, names)
        first = {name: value[0] for name, value in constrain(self.initial_point()[None]).items()}
        defaults = {name: first[name] for name in names}
        dims, coords = labels_of_model(model)
        value_names = [
            variable.name if variable in self.signed else model.rvs_to_values[variable].name for variable in self.free
        ]
        shapes = {name: value.shape for name, value in zip(value_names, self.start, strict=True)}
        same = {
            value_name: dims[name]
            for value_name, name in zip(value_names, names, strict=True)
            if name in dims and shapes[value_name] == defaults[name].shape
        }
        return GlobalVariables(
            shapes={name: value.shape for name, value in defaults.items()},
            dims=dims,
            coords=coords,
            unconstrained=Variables(shapes, same, coords),
            defaults=defaults,
            constrain=constrain,
            unconstrain_draws=self._unconstrain(),
            signed=[
                self.places[v] + k
                for v, at in zip(self.free, self.start, strict=True)
                if v in self.signed
                for k in range(at.size)
            ],
        )

    def _unconstrain(self) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
        """Return the map from constrained draws, shape (n, ...) each, to thetas; shape (n, dim)."""
        given = {v: v.type() if v.ndim == 0 else pt.tensor(shape=shape_of(self.model, v)) for v in self.free}
        flat = []
        for variable in self.free:
            transform = self.model.rvs_to_transforms[variable]
            if variable in self.signed:
                value = self._signed_coordinate(variable, given[variable])
            elif transform is None:
                value = given[variable]
            else:
                value = transform.forward(given[variable], *variable.owner.inputs)
            flat.append(value.ravel())
        [theta] = frozen(rebuild([pt.concatenate(flat)], given))
        many = {one: pt.tensor(shape=(None, *one.type.shape), dtype=one.dtype) for one in given.values()}
        function = in_python([many[given[v]] for v in self.free], vectorize_graph(theta, many))
        dim = sum(value.size for value in self.start)

        def unconstrain(values: Mapping[str, np.ndarray]) -> np.ndarray:
            # PyTensor's ravel cannot tell the length of an axis from no draws.
            n_draws = len(next(iter(values.values()), ()))
            return np.asarray(function(*(values[v.name] for v in self.free))) if n_draws else np.empty((0, dim))

        return unconstrain


def is_between_0_and_a_bound(model: Any, variable: Any) -> bool:
    """Return whether PyMC samples a variable by its logit between 0 and a known upper bound."""
    transform = model.rvs_to_transforms[variable]
    if isinstance(transform, LogOddsTransform):
        return True
    if isinstance(transform, LogTransform) or not isinstance(transform, IntervalTransform):
        return False
    lower, upper = transform.args_fn(*variable.owner.inputs)
    if lower is None or upper is None or not has_fixed_parameters(model, variable):
        return False
    return not np.any(evaluate(pt.as_tensor(lower)) != 0.0)


def may_be_signed(model: Any, variable: Any) -> bool:
    """Return whether a variable is positive, and its prior has fixed parameters and a positive, finite density at 0."""
    transform = model.rvs_to_transforms[variable]
    if not isinstance(transform, LogTransform | IntervalTransform | LogOddsTransform):
        return False
    if not has_fixed_parameters(model, variable):
        return False
    if isinstance(transform, IntervalTransform) and not isinstance(transform, LogTransform):
        lower, _ = transform.args_fn(*variable.owner.inputs)
        if lower is None or np.any(evaluate(pt.as_tensor(lower)) != 0.0):
            return False
    zeros = np.zeros(shape_of(model, variable))
    with np.errstate(all="ignore"):  # a density of 0 or infinity at 0 is an answer
        at_zero = in_python([], pm.logp(variable, pt.as_tensor(zeros)))()
    return bool(np.isfinite(at_zero).all())


def upper_bound(model: Any, variable: Any) -> np.ndarray | None:
    """Return the upper bounds of a positive variable whose prior has fixed parameters; None without a bound."""
    transform = model.rvs_to_transforms[variable]
    if isinstance(transform, LogOddsTransform):
        return np.ones(())
    if isinstance(transform, LogTransform) or not isinstance(transform, IntervalTransform):
        return None
    _, upper = transform.args_fn(*variable.owner.inputs)
    return None if upper is None else np.asarray(evaluate(pt.as_tensor(upper)), dtype=np.float64)


@dataclasses.dataclass(frozen=True)
class GlobalVariables(ModelVariables):
    """The constrained variables of theta, without the integrated effects."""

    signed: Sequence[int] = ()
    """Indices of the coordinates of theta that the trace holds as absolute values."""

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map constrained values to theta; missing values come from the model's initial point."""
        known = {name: np.asarray(values.get(name, default))[None] for name, default in self.defaults.items()}
        assert self.unconstrain_draws is not None
        return self.unconstrain_draws(known)[0]

    def with_signs(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return thetas with a random sign for each scale that may have either."""
        signed = theta.copy()
        signed[..., list(self.signed)] *= rng.choice([-1.0, 1.0], size=(*theta.shape[:-1], len(self.signed)))
        return signed
