r"""Cutpoints c_0 < ... < c_{K-2}: theta holds the first, and the logarithms of the distances between neighbours.

.. math:: c_k = t_0 + e^{t_1} + \dots + e^{t_k}.

Their prior is that of independent normals, given that they increase. In theta it has the Jacobian of this map,
exp(t_1 + ... + t_{K-2}), as the transform ``ordered`` of PyMC has.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Variables, content_hash
from approxmcmc.engine.numerics import exp
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.ordered import cutpoints_of
from approxmcmc.targets.normal_prior import PriorOfNumbers
from approxmcmc.targets.tall_data import checked_prior_scale


@dataclasses.dataclass(frozen=True)
class WithCutpoints(Variables):
    """Variables of which the last, `ordered`, are cutpoints."""

    ordered: str = ""

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta: of cutpoints after the first, ``log_step_`` is in front."""
        n_steps = self.shapes[self.ordered][0] - 1
        labels = super().labels()
        first = len(labels) - n_steps
        return [*labels[:first], *(f"log_step_{label}" for label in labels[first:])]

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Map the last axis of `theta` to the variables of the trace; leading axes are kept."""
        values = super().unpack(theta)
        t = np.moveaxis(values[self.ordered], -1, 0)
        return {**values, self.ordered: np.moveaxis(cutpoints_of(t), 0, -1)}

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map the variables of the trace to theta; raise unless the cutpoints increase."""
        return super().pack({**values, self.ordered: self._steps(np.asarray(values[self.ordered], np.float64))})

    def pack_draws(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Map draws with leading axes (chain, draw) to thetas."""
        return super().pack_draws({**values, self.ordered: self._steps(values[self.ordered])})

    def _steps(self, cutpoints: np.ndarray) -> np.ndarray:
        """Return the first cutpoint and the logarithms of the distances, on the last axis."""
        steps = np.diff(cutpoints, axis=-1)
        if not (steps > 0.0).all():
            raise InvalidInputError(f"the {self.ordered} must increase from each to the next, found {cutpoints}")
        return np.concatenate([cutpoints[..., :1], np.log(steps)], axis=-1)


class Scales(NamedTuple):
    """Precisions of the coefficients, the first entries of theta, and of the cutpoints, the last ones."""

    precision: float
    cutpoint_precision: float
    n_cutpoints: int


def log_ordered(theta: np.ndarray, known: Scales) -> float:
    """Return the log density of coefficients and cutpoints at theta, up to a constant."""
    first = theta.shape[0] - known.n_cutpoints
    squares = 0.0
    log_jacobian = 0.0
    for j in range(first):
        squares += known.precision * theta[j] ** 2
    cutpoint = theta[first]
    squares += known.cutpoint_precision * cutpoint**2
    for j in range(first + 1, theta.shape[0]):
        cutpoint += exp(theta[j])
        squares += known.cutpoint_precision * cutpoint**2
        log_jacobian += theta[j]
    return log_jacobian - 0.5 * squares


def add_slopes(theta: np.ndarray, out: np.ndarray, known: Scales) -> None:
    """Add the gradient of the log density to `out`: a step moves all cutpoints above it."""
    first = theta.shape[0] - known.n_cutpoints
    for j in range(first):
        out[j] -= known.precision * theta[j]
    cutpoints = np.empty(known.n_cutpoints)
    cutpoints[0] = theta[first]
    for k in range(1, known.n_cutpoints):
        cutpoints[k] = cutpoints[k - 1] + exp(theta[first + k])
    above = 0.0
    for k in range(known.n_cutpoints - 1, 0, -1):
        above += cutpoints[k]
        out[first + k] += 1.0 - known.cutpoint_precision * exp(theta[first + k]) * above
    out[first] -= known.cutpoint_precision * (above + cutpoints[0])


class OrderedPrior(PriorOfNumbers):
    """N(0, scale^2) for each coefficient, and N(0, cutpoint_scale^2) for cutpoints, given that they increase.

    Parameters
    ----------
    scale, cutpoint_scale
        Standard deviations; inf is flat.
    n_cutpoints
        Number of cutpoints, the last entries of theta.
    """

    log_density = log_ordered
    slopes = add_slopes
    known: Scales

    def __init__(self, scale: float, cutpoint_scale: float, n_cutpoints: int) -> None:
        super().__init__(scale, None)
        self.cutpoint_scale = checked_prior_scale(cutpoint_scale, "cutpoint_scale")
        self.known = Scales(1.0 / self.scale**2, 1.0 / self.cutpoint_scale**2, n_cutpoints)

    @property
    def text(self) -> str:
        """The prior in words."""
        coefficients, cutpoints = (
            "flat" if math.isinf(scale) else f"N(0, {scale:g}²)" for scale in (self.scale, self.cutpoint_scale)
        )
        return f"{coefficients} for each coefficient, {cutpoints} for increasing cutpoints"

    def normal(self, dim: int) -> None:
        """Return None: the prior of theta is not normal."""

    def identity(self) -> str:
        """Return a hash of the prior."""
        return content_hash("ordered", *(repr(number) for number in self.known))
