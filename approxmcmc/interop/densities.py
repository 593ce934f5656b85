"""Log densities and the initial point of a PyMC model, which PyMC derives once for everything that reads the model.

PyMC derives the log densities of all variables together, in 80 ms of a processor for four of them, also if one is
wanted, and compiles a function for each initial point, in 15 to 50 ms. A model is read by up to six parts of this room.

A graph does not change, so the log densities stay valid while the model has the same variables; new data
(``pm.set_data``) change the values of shared variables in the graph. The initial point is evaluated again at each call.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.initial_point import make_initial_point_fn

from approxmcmc.interop.graphs import simplify

Derived = dict[str, Any]
# By model: the objects from which its graphs were derived, and what was derived.
_DERIVED: weakref.WeakKeyDictionary[Any, tuple[list[Any], Derived]] = weakref.WeakKeyDictionary()


def log_densities(model: Any, variables: Sequence[Any], *, jacobian: bool = True) -> list[Any]:
    """Return the log density of each of these random variables, as a graph of the value variables.

    With `jacobian`, that of a transformed variable contains the Jacobian of its transform.
    """
    transformed = any(model.rvs_to_transforms[one] is not None for one in variables)
    by_variable = _all(model, jacobian=jacobian or not transformed)
    return [by_variable[one] for one in variables]


def simplified_densities(model: Any, variables: Sequence[Any]) -> list[Any]:
    """Return the same log densities in a stable form without checks (`graphs.simplify`), each simplified once."""
    return [
        _derived(model, f"simplified {variable.name}", functools.partial(simplify, density))
        for variable, density in zip(variables, log_densities(model, variables), strict=True)
    ]


def log_density(model: Any) -> Any:
    """Return the log density of the model, with Jacobians and potentials, as a graph of the value variables."""

    def derive() -> Any:
        terms = [*_all(model, jacobian=True).values(), *model.replace_rvs_by_values(model.potentials)]
        sums = [pt.as_tensor(term).sum() for term in terms]
        total = pt.add(*sums) if len(sums) > 1 else sums[0]
        total.name = f"__logp_{model.name}" if model.name else "__logp"  # as PyMC's: the name is part of hashes
        return total

    return _derived(model, "log density", derive)


def _all(model: Any, *, jacobian: bool) -> Mapping[Any, Any]:
    """Return the log densities of all free and observed variables."""

    def derive() -> Mapping[Any, Any]:
        variables = [*model.free_RVs, *model.observed_RVs]
        return dict(zip(variables, model.logp(vars=variables, sum=False, jacobian=jacobian), strict=True))

    return _derived(model, f"log densities, Jacobians: {jacobian}", derive)


def initial_point(model: Any) -> dict[str, np.ndarray]:
    """Return ``model.initial_point()``: unconstrained values by the names of the value variables."""
    lock, function = _derived(model, "initial point", lambda: (threading.Lock(), make_initial_point_fn(model=model)))
    with lock:
        return {name: np.array(value) for name, value in function(None).items()}


def _derived(model: Any, name: str, derive: Callable[[], Any]) -> Any:
    """Return what was derived from the model under this name; derive it if the model has changed since."""
    parts = _parts(model)
    known, derived = _DERIVED.get(model, ([], {}))
    if len(known) != len(parts) or any(one is not other for one, other in zip(known, parts, strict=True)):
        derived = {}
        _DERIVED[model] = parts, derived
    if name not in derived:
        derived[name] = derive()
    return derived[name]


def _parts(model: Any) -> list[Any]:
    """Return the objects that a model combines to its log densities and its initial point."""
    maps = model.rvs_to_values, model.rvs_to_transforms, model.rvs_to_initial_values
    lists = [model.free_RVs, model.observed_RVs, model.potentials, *(one.values() for one in maps)]
    return [part for parts in lists for part in parts]
