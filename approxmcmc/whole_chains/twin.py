"""The PyMC model of a target, and the map between the target's theta and the model's unconstrained vector."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Target, pymc_model_of
from approxmcmc.errors import IncompatibleError

KEPT = 3  # most twins kept in a cache: a study uses each target many times


class Twin:
    """A target's PyMC model; its variables have the target's names.

    Raises
    ------
    IncompatibleError
        If the target has no such model, or one with discrete variables or other names.
    """

    def __init__(self, target: Target) -> None:
        import pytensor.tensor as pt

        from approxmcmc.interop.variables import describe_variables

        self.target = target
        self.model = pymc_model_of(target)
        model = self.model
        names = list(target.variables.shapes)
        free = [variable.name for variable in model.free_RVs]
        deterministics = {variable.name: variable for variable in model.deterministics}
        missing = [name for name in names if name not in free and name not in deterministics]
        if missing or model.discrete_value_vars:
            raise IncompatibleError(
                f"The PyMC model of {target!r} needs only continuous variables, with the target's names; it has "
                f"{free}, lacks {missing}, and {[v.name for v in model.discrete_value_vars]} of them are discrete. "
                "Give the model's variables the names of the target's."
            )
        self.start = model.initial_point()
        self.values = [model.rvs_to_values[variable] for variable in model.free_RVs]
        self.theta = pt.vector("theta", shape=(sum(np.size(self.start[v.name]) for v in self.values),))
        derived = [deterministics[name] for name in names if name in deterministics]
        self.variables = describe_variables(model, self.theta, self.start, derived, {})

    @property
    def dim(self) -> int:
        """Length of the unconstrained vector."""
        return int(self.theta.type.shape[0])

    def unconstrain(self, initial: np.ndarray) -> np.ndarray:
        """Return the unconstrained vector at a theta of the target; other variables have their initial values."""
        return self.variables.pack(self.free_values(initial))

    def free_values(self, initial: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of the model's free variables at a theta of the target, by name."""
        named = self.target.variables.unpack(np.asarray(initial, dtype=np.float64)[None])
        free = {variable.name for variable in self.model.free_RVs}
        return {name: value[0] for name, value in named.items() if name in free}

    def constrain(self, vectors: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the target's variables by name at unconstrained vectors, shape (n, dim)."""
        values = self.variables.unpack(np.asarray(vectors, dtype=np.float64))
        return {name: values[name] for name in self.target.variables.shapes}

    def point(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Return an unconstrained vector as a point of the model, by PyMC's names."""
        return {name: value[0] for name, value in self.variables.unconstrained.unpack(vector[None]).items()}

    def flat(self, point: Mapping[str, Any]) -> np.ndarray:
        """Return a point of the model as an unconstrained vector."""
        return np.concatenate([np.ravel(point[value.name]) for value in self.values])


@functools.lru_cache(maxsize=KEPT)
def twin_of(target: Target) -> Twin:
    """Return the twin of a target; it is made on first use, and cached."""
    return Twin(target)


def once[T](make: Callable[[Target], T]) -> Callable[[Target], tuple[T, float]]:
    """Return a cached function of a target that returns ``make(target)`` and the seconds that making it took.

    The seconds are those of the first call, so every cell of a study can report how long a user waits, even if an
    earlier cell of the process compiled the code.
    """

    @functools.lru_cache(maxsize=KEPT)
    def made(target: Target) -> tuple[T, float]:
        began = time.perf_counter()
        return make(target), time.perf_counter() - began

    return made
