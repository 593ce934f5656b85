"""Normal distributions fitted to a posterior, as chains of independent draws, all available after the fit."""

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import ForeignSampler, Target
from approxmcmc.foreign.settings import LibrarySampler
from approxmcmc.foreign.trace import chain_trace
from approxmcmc.foreign.twin import Twin


def fitted_trace(
    sampler: ForeignSampler,
    target: Target,
    twin: Twin | None,
    mean: np.ndarray,
    cholesky: np.ndarray,
    *,
    n_draws: int,
    seed: int,
    fit_seconds: float,
    compile_seconds: float,
    gradients: float | None = None,
    stopped: str = "",
) -> xr.DataTree:
    """Return draws of N(mean, L L') as the model's unconstrained vectors, or without a PyMC model as thetas."""
    vectors = mean + matched_normals(n_draws, len(mean), seed) @ cholesky.T
    return chain_trace(
        sampler,
        target,
        vectors if twin is None else twin.constrain(vectors),
        seconds=0.0,
        warmup_seconds=fit_seconds,
        compile_seconds=compile_seconds,
        gradients=None if gradients is None else np.zeros(n_draws),
        warmup_gradients=gradients or 0.0,
        stopped=stopped,
        approximation=True,
    )


def matched_normals(n_draws: int, dim: int, seed: int) -> np.ndarray:
    """Return standard normal draws in pairs z, -z with covariance the identity to rounding, if n_draws > 2 dim.

    They measure the fitted distribution without the noise of drawing from it: averages of odd and of quadratic
    functions have no noise.
    """
    half = np.random.default_rng(seed).standard_normal((-(-n_draws // 2), dim))
    if len(half) > dim:
        half = np.linalg.qr(half)[0] * np.sqrt(len(half))
    return np.concatenate([half, -half])[:n_draws]


@dataclasses.dataclass(frozen=True, eq=False)
class LaplaceApproximation(LibrarySampler):
    """The normal distribution at the posterior's mode with the curvature there, as a sampler of a study.

    Guarantee: biased; the error of means and variances is of order 1 / n_obs if the posterior is smooth and has one
    mode. Deterministic except for its draws.

    Parameters
    ----------
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    IncompatibleError
        When the target has no gradients.

    References
    ----------
    A. Gelman and others (2013), Bayesian data analysis, section 4.1.

    Examples
    --------
    >>> amc.foreign.LaplaceApproximation()
    LaplaceApproximation(n_draws=4000)
    """

    n_draws: int = 4000

    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> xr.DataTree:
        """Find the mode and draw; the time limit is ignored."""
        from approxmcmc.targets import laplace

        began = time.perf_counter()
        laplace(target)  # compile before the clock starts
        first, began = time.perf_counter() - began, time.perf_counter()
        fit = laplace(target)
        spent = time.perf_counter() - began
        return fitted_trace(
            self,
            target,
            None,
            fit.mode,
            fit.cholesky,
            n_draws=min(draws, self.n_draws),
            seed=seed,
            fit_seconds=spent,
            compile_seconds=max(first - spent, 0.0),
            gradients=fit.passes,
        )
