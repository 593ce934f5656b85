"""Pathfinder of blackjax, on the target's log density in JAX: one normal distribution and its draws."""

import dataclasses
import time
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.engine.extras import extra
from approxmcmc.foreign.approximation import fitted_trace
from approxmcmc.foreign.density import density_of
from approxmcmc.foreign.settings import LibrarySampler
from approxmcmc.foreign.twin import twin_of


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
    >>> amc.foreign.BlackjaxPathfinder()
    BlackjaxPathfinder(max_iterations=30, n_draws=4000)
    """

    max_iterations: int = 30
    n_draws: int = 4000

    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> xr.DataTree:
        """Fit, and draw from the fitted distribution; the time limit is ignored."""
        with extra("foreign", type(self).__name__):
            import blackjax
            import jax

            density, translation_seconds = density_of(target)
        twin, began = twin_of(target), time.perf_counter()
        key = jax.random.key(seed)
        theta = jax.numpy.asarray(twin.unconstrain(initial))

        def fit(key: Any, theta: Any) -> Any:
            return blackjax.pathfinder.approximate(key, density.log_density, theta, maxiter=self.max_iterations)[0]

        compiled = jax.jit(fit).lower(key, theta).compile()
        compile_seconds, began = translation_seconds + time.perf_counter() - began, time.perf_counter()
        state = jax.block_until_ready(compiled(key, theta))
        spent = time.perf_counter() - began
        # The inverse Hessian of L-BFGS in its compact form, and a Newton step by it: algorithm 4 of the paper.
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
