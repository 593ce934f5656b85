r"""The parameters of a model with group effects, in coordinates without an edge.

The coordinate of a scale :math:`\sigma` of an effect may have either sign, and the trace holds :math:`|\sigma|`: the
likelihood is a smooth, even function of it. In :math:`\log \sigma` a scale that the data hardly distinguish from 0 lies
on a plateau without end, and in :math:`\sigma^2` a half-normal prior is infinite at 0. Several effects have the
covariance LL', L lower triangular with entries of either sign. The coordinate of the noise :math:`\tau` or of a shape,
which data keep away from 0, is its logarithm.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables

SCALE = "sigma"
COVARIANCE = "effect_cov"
NOISE = "noise"
SHAPE = "shape"


@dataclasses.dataclass(frozen=True)
class GroupVariables(Variables):
    """Theta is the coefficients, the lower triangle of L row by row, and the log of `positive` unless it is None.

    The trace has ``beta``, ``sigma`` = abs(L) of one effect or ``effect_cov`` = LL' of several, and `positive`: the
    noise or a shape. `n_coef` and `n_effects` are the numbers of coefficients and of effects of a group.
    """

    n_coef: int = 0
    n_effects: int = 1
    positive: str | None = None

    @property
    def n_scales(self) -> int:
        """Number of entries of the lower triangle of L."""
        return self.n_effects * (self.n_effects + 1) // 2

    @property
    def size(self) -> int:
        """Length of theta."""
        return self.n_coef + self.n_scales + (self.positive is not None)

    @property
    def content(self) -> Variables:
        """The parts of theta: coefficients, the triangle of L, and the log of the positive variable."""
        positive: dict[str, tuple[int, ...]] = {} if self.positive is None else {f"log_{self.positive}": ()}
        return Variables({"beta": (self.n_coef,), "effect_chol": (self.n_scales,), **positive})

    def labels(self) -> list[str]:
        """Return the name of every coordinate of theta."""
        names = [f"beta[{label}]" for label in self.coords["coef"]]
        places = zip(*np.tril_indices(self.n_effects), strict=True)
        names += [SCALE] if self.n_effects == 1 else [f"effect_chol[{j}, {k}]" for j, k in places]
        return names if self.positive is None else [*names, f"log_{self.positive}"]

    def unpack(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Map the last axis of `theta` to the variables of the trace; leading axes are kept."""
        stop = self.n_coef + self.n_scales
        values = {"beta": theta[..., : self.n_coef]}
        if self.n_effects == 1:
            values[SCALE] = np.abs(theta[..., self.n_coef])
        else:
            L = self.cholesky(theta)
            values[COVARIANCE] = L @ np.swapaxes(L, -1, -2)
        return values if self.positive is None else {**values, self.positive: np.exp(theta[..., stop])}

    def pack(self, values: Mapping[str, Any]) -> np.ndarray:
        """Map the variables of the trace to theta, with a positive diagonal of L."""
        packed = self.pack_draws({name: np.asarray(values[name], np.float64)[None, None] for name in self.shapes})
        return np.asarray(packed[0, 0])

    def pack_draws(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Map draws with leading axes (chain, draw) to thetas; shape (chain, draw, size)."""
        if self.n_effects == 1:
            scales = values[SCALE][..., None]
        else:
            scales = np.linalg.cholesky(values[COVARIANCE])[..., *np.tril_indices(self.n_effects)]
        logs = [] if self.positive is None else [np.log(values[self.positive])[..., None]]
        return np.concatenate([values["beta"], scales, *logs], axis=-1)

    def with_signs(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return thetas with a random sign for each column of L."""
        signed = theta.copy()
        (_, column) = np.tril_indices(self.n_effects)
        signs = rng.choice([-1.0, 1.0], size=(*theta.shape[:-1], self.n_effects))
        signed[..., self.n_coef : self.n_coef + self.n_scales] *= signs[..., column]
        return signed

    def cholesky(self, theta: np.ndarray) -> np.ndarray:
        """Return L; shape (..., effects, effects)."""
        L = np.zeros((*theta.shape[:-1], self.n_effects, self.n_effects))
        L[..., *np.tril_indices(self.n_effects)] = theta[..., self.n_coef : self.n_coef + self.n_scales]
        return L


def group_variables(coef: Sequence[Any], effects: Sequence[Any], *, positive: str | None = None) -> GroupVariables:
    """Return the variables of a model with these labels of coefficients and effects, and the name of a noise or shape.

    `positive` is None if there is neither, or its value is known.
    """
    q = len(effects)
    scale: dict[str, tuple[int, ...]] = {SCALE: ()} if q == 1 else {COVARIANCE: (q, q)}
    of_positive: dict[str, tuple[int, ...]] = {} if positive is None else {positive: ()}
    covariance = {} if q == 1 else {COVARIANCE: ("effect", "effect_bis")}
    axes = {} if q == 1 else {"effect": list(effects), "effect_bis": list(effects)}
    return GroupVariables(
        shapes={"beta": (len(coef),), **scale, **of_positive},
        dims={"beta": ("coef",), **covariance},
        coords={"coef": list(coef), **axes},
        n_coef=len(coef),
        n_effects=q,
        positive=positive,
    )
