"""One sampler for many posteriors: its metric is the Laplace approximation of its target."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Sampler

UNIT = amc.numerics.Laplace(np.zeros(1), np.eye(1))


@functools.cache
def laplace_of(target: Any) -> "amc.numerics.Laplace":
    """Return the Laplace approximation of a target, found once per process."""
    return amc.laplace(target)


def plain(target: Any) -> Any:
    """Return the target itself."""
    return target


@functools.cache
def control_variate(target: Any) -> "amc.ControlVariate":
    """Return the `ControlVariate` of a target, expanded at its mode; made once per process."""
    return amc.ControlVariate(target, at=laplace_of(target))


@functools.cache
def influential_rows(target: Any) -> "amc.ControlVariate":
    """Return the `ControlVariate` of a target with its influential rows, made once per process."""
    return amc.ControlVariate(target, always_read="auto")


def start(target: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a draw of the Laplace approximation: where chains start."""
    return laplace_of(target).draw(rng)


@dataclasses.dataclass(frozen=True, eq=False)
class InLaplaceMetric(Component, Sampler):
    """A sampler that is made when its target is known.

    Parameters
    ----------
    recipe
        Makes the sampler from a Laplace approximation.
    form
        Makes the form of the target that it runs on: `plain`, `control_variate` or `influential_rows`.
    """

    recipe: Callable[[Any], Any]
    form: Callable[[Any], Any] = plain

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in whitened coordinates, as for a standard normal target of one dimension."""
        return {**self.recipe(UNIT).to_dict(), "recipe": self.recipe.__name__, "form": self.form.__name__}

    def build(self, target: Any, *, audit_every: Any) -> Any:
        """Make the sampler in the metric of the target, and build it."""
        form = self.form(target)
        program = self.recipe(laplace_of(target)).build(form, audit_every=audit_every)
        attrs: Mapping[str, Any] = {**form.setup_attrs, **program.attrs}  # the gates of an expansion read them
        program.attrs = attrs
        return program

    def unwrapped(self, target: Any) -> tuple[Any, Sampler]:
        """Return the form of the target, and the library's sampler that runs on it."""
        return self.form(target), self.recipe(laplace_of(target))


def unwrapped(target: Any, sampler: Any) -> tuple[Any, Sampler]:
    """Return target and sampler as objects of the library."""
    return sampler.unwrapped(target) if isinstance(sampler, InLaplaceMetric) else (target, sampler)
