"""One sampler for many posteriors: its metric is the Laplace approximation of the target that it meets."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component, Sampler

UNIT = amc.targets.Laplace(np.zeros(1), np.eye(1))


@functools.cache
def laplace_of(target: Any) -> "amc.targets.Laplace":
    """Return the Laplace approximation of a target, found once per process."""
    return amc.laplace(target)


@functools.cache
def residuals_of(target: Any) -> "amc.ControlVariate":
    """Return the control variate of a target, expanded at its mode once per process."""
    return amc.ControlVariate(target, at=laplace_of(target))


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
    residuals
        Whether it runs on the target's control variate.
    """

    recipe: Callable[[Any], Any]
    residuals: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in whitened coordinates, those of a standard normal law of one dimension."""
        return {**self.recipe(UNIT).to_dict(), "recipe": self.recipe.__name__, "residuals": self.residuals}

    def build(self, target: Any, *, audit_every: Any) -> Any:
        """Make the sampler in the metric of the target, and build it."""
        form = residuals_of(target) if self.residuals else target
        program = self.recipe(laplace_of(target)).build(form, audit_every=audit_every)
        attrs: Mapping[str, Any] = {**form.setup_attrs, **program.attrs}  # the gates of an expansion read them
        program.attrs = attrs
        return program
