"""Normal distributions fitted to a posterior, as chains of independent draws, all available after the fit."""

import dataclasses
import math
import time
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.engine.extras import extra
from approxmcmc.whole_chains.chain_by_chain import ChainSampler
from approxmcmc.whole_chains.jax_chain import density_of
from approxmcmc.whole_chains.trace import LibrarySampler, chain_trace
from approxmcmc.whole_chains.twin import Twin, twin_of


def fitted_trace(
    sampler: ChainSampler,
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
    """Return a trace of draws of N(mean, L L'), where L is `cholesky`.

    The draws are unconstrained vectors of the twin's model, or thetas if `twin` is None.
    """
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
    """Return normal draws in pairs z, -z; their covariance is exactly the identity if n_draws is even and > 2 dim.

    Then averages of odd and of quadratic functions over these draws have no Monte Carlo error.
    """
    half = np.random.default_rng(seed).standard_normal((math.ceil(n_draws / 2), dim))
    if len(half) > dim:
        half = np.linalg.qr(half)[0] * np.sqrt(len(half))
    return np.concatenate([half, -half])[:n_draws]


@dataclasses.dataclass(frozen=True, eq=False)
class LaplaceApproximation(LibrarySampler):
    """The normal distribution at the posterior's mode with the curvature there, as a sampler of a study.

    Guarantee: biased, unless the posterior is normal; the error of means and the relative error of variances are of
    order 1 / n_obs if the posterior is smooth and has one mode. Deterministic except for its draws.

    Parameters
    ----------
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    IncompatibleError
        When the target is discrete, or has no terms.
    InvalidInputError
        When the posterior has no mode.

    References
    ----------
    A. Gelman and others (2013), Bayesian data analysis, section 4.1.

    Examples
    --------
    >>> amc.whole_chains.LaplaceApproximation()
    LaplaceApproximation(n_draws=4000)
    """

    n_draws: int = 4000

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Find the mode and draw; the time limit is ignored."""
        from approxmcmc.numerics import laplace

        began = time.perf_counter()
        laplace(target)  # compile before the clock starts
        first = time.perf_counter() - began
        began = time.perf_counter()
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


@dataclasses.dataclass(frozen=True, eq=False)
class BlackjaxPathfinder(LibrarySampler):
    """Pathfinder of blackjax: the best normal distribution along the path of a quasi-Newton search.

    Guarantee: biased, unless the posterior is normal.

    Parameters
    ----------
    max_iterations
        Largest number of iterations of the search.
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    MissingExtraError
        When blackjax is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    L. Zhang, B. Carpenter, A. Gelman, A. Vehtari (2022), algorithm 1.

    Examples
    --------
    >>> amc.whole_chains.BlackjaxPathfinder()
    BlackjaxPathfinder(max_iterations=30, n_draws=4000)
    """

    max_iterations: int = 30
    n_draws: int = 4000

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Fit, and draw from the fitted distribution; the time limit is ignored."""
        with extra("foreign", type(self).__name__):
            import blackjax
            import jax

            density, translation_seconds = density_of(target)
        twin = twin_of(target)
        began = time.perf_counter()
        key = jax.random.key(seed)
        theta = jax.numpy.asarray(twin.unconstrain(initial))

        def fit(key: Any, theta: Any) -> Any:
            return blackjax.pathfinder.approximate(key, density.log_density, theta, maxiter=self.max_iterations)[0]

        compiled = jax.jit(fit).lower(key, theta).compile()
        compile_seconds = translation_seconds + time.perf_counter() - began
        began = time.perf_counter()
        state = jax.block_until_ready(compiled(key, theta))
        spent = time.perf_counter() - began
        # The inverse Hessian of L-BFGS in its compact form, and a Newton step with it: algorithm 4 of the paper.
        position, gradient, alpha, beta, gamma = (
            np.asarray(getattr(state, name)) for name in ("position", "grad_position", "alpha", "beta", "gamma")
        )
        cov = np.diag(alpha) + beta @ gamma @ beta.T
        return fitted_trace(
            self,
            target,
            twin,
            position + cov @ gradient,
            np.linalg.cholesky(cov),
            n_draws=min(draws, self.n_draws),
            seed=seed,
            fit_seconds=spent,
            compile_seconds=compile_seconds,
        )
