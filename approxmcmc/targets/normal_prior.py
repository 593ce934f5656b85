"""Independent normal priors with a mean and a scale for each parameter; inf is flat."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import LOG_PRIOR
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT
from approxmcmc.targets.tall_data import Prior

MOST_LISTED = 4  # different scales


class Normals(NamedTuple):
    """Means and precisions; shape (dim,) each."""

    mean: np.ndarray
    precision: np.ndarray


def log_normals(theta: np.ndarray, known: Normals) -> float:
    """Return the log density of the normals `known` at theta, up to a constant."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += known.precision[j] * (theta[j] - known.mean[j]) ** 2
    return -0.5 * total


def add_slopes(theta: np.ndarray, out: np.ndarray, known: Normals) -> None:
    """Add the gradient of the log density to `out`."""
    for j in range(theta.shape[0]):
        out[j] -= known.precision[j] * (theta[j] - known.mean[j])


class PriorOfNumbers(Prior):
    """A prior of the library's own, as a density and its slopes that read the numbers `known`, compiled once for all.

    A subclass sets the functions ``log_density(theta, known)`` and ``slopes(theta, out, known)``, and `known`.
    """

    log_density: ClassVar[Callable[..., float]]
    slopes: ClassVar[Callable[..., None]]
    known: NamedTuple

    def compile(self, dim: int) -> Any:
        """Return the compiled log prior."""
        return self._log_prior

    def compile_gradient(self, at: np.ndarray, labels: Sequence[str]) -> Any:
        """Return the compiled gradient of the log prior."""
        return self._gradient

    @functools.cached_property
    def _log_prior(self) -> Any:
        """The compiled log prior, cached: making it takes 0.25 s, and a run uses it five times."""
        return with_context(type(self).log_density, LOG_PRIOR.signature, self.known)

    @functools.cached_property
    def _gradient(self) -> Any:
        return with_context(type(self).slopes, ADD_PRIOR_GRADIENT, self.known)


class NormalPrior(PriorOfNumbers):
    """N(mean_j, scale_j^2), independent; the code is compiled once for all means and scales.

    Parameters
    ----------
    mean, scale
        Shape (dim,) each; a scale of inf is flat.
    """

    log_density = log_normals
    slopes = add_slopes
    known: Normals

    @names_itself()
    def __init__(self, mean: np.ndarray, scale: np.ndarray) -> None:
        super().__init__(1.0, None)
        self.scale = float("nan")  # parameters have different scales
        self.known = Normals(np.array(mean, dtype=np.float64), 1.0 / np.square(np.array(scale, dtype=np.float64)))

    def normal(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return means and precisions; shape (dim,) each."""
        return self.known.mean, self.known.precision

    def identity(self) -> str:
        """Return a hash of the prior."""
        return content_hash("normal", *self.known)

    @property
    def text(self) -> str:
        """The prior in words: the scales if they are few."""
        sds = [f"{scale:g}" for scale in np.unique(1.0 / np.sqrt(self.known.precision))]
        if len(sds) > MOST_LISTED:
            return f"independent normal, with {len(sds)} standard deviations from {sds[0]} to {sds[-1]}"
        return f"independent normal, with standard deviation {' or '.join(sds)}"
