"""NUTS, HMC-ECS and ADVI of numpyro, on the target's log density in JAX."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.extras import extra
from approxmcmc.whole_chains.approximation import fitted_trace
from approxmcmc.whole_chains.jax_chain import Density, JaxKernel, JaxSampler, density_of
from approxmcmc.whole_chains.trace import LibrarySampler
from approxmcmc.whole_chains.twin import twin_of

CHUNK = 100  # iterations of ADVI between two readings of the clock


@dataclasses.dataclass(frozen=True, eq=False)
class NumPyroNUTS(JaxSampler):
    """The no-U-turn sampler of numpyro on all data.

    Guarantee: asymptotically exact.

    Parameters
    ----------
    tune
        Warm-up draws.
    thin
        Steps for each kept draw.
    target_accept
        Acceptance rate that the step size is tuned to.

    Raises
    ------
    MissingExtraError
        When numpyro is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    D. Phan, N. Pradhan, M. Jankowiak (2019), section 3.1: the iterative form of NUTS.

    Examples
    --------
    >>> amc.whole_chains.NumPyroNUTS(tune=500)
    NumPyroNUTS(tune=500, thin=1, target_accept=0.8)
    """

    tune: int = 1000
    thin: int = 1
    target_accept: float = 0.8

    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return NUTS, which adapts in its first `tune` steps only."""
        from numpyro.infer import NUTS

        nuts = NUTS(potential_fn=lambda theta: -density.log_density(theta), target_accept_prob=self.target_accept)

        def step(key: Any, state: Any) -> Any:
            state = nuts.sample(state._replace(rng_key=key), (), {})
            return state, state.num_steps.astype(float)

        def start(key: Any, theta: Any) -> Any:
            return nuts.init(key, self.tune, theta, (), {})

        return JaxKernel(_warmed(start, step, self.tune), step, lambda state: state.z, density.n_obs)


@dataclasses.dataclass(frozen=True, eq=False)
class NumPyroHMCECS(JaxSampler):
    """Energy-conserving subsampling of numpyro: NUTS on a minibatch likelihood, with a Taylor proxy at the mode.

    Guarantee: biased; the estimate of the likelihood is perturbed, by an error that falls with the square of the batch
    size. The search for the mode and the proxy, one pass with second derivatives, count as set-up, outside the clock.

    Parameters
    ----------
    batch_size
        Rows of the minibatch.
    num_blocks
        Blocks of the minibatch; one of them is redrawn before each step.
    tune
        Warm-up draws.
    thin
        Steps for each kept draw.

    Raises
    ------
    MissingExtraError
        When numpyro is not installed.
    IncompatibleError
        When the target has no PyMC model, or one without rows.

    References
    ----------
    K.-D. Dang and others (2019), Hamiltonian Monte Carlo with energy conserving subsampling, section 3.

    Examples
    --------
    >>> amc.whole_chains.NumPyroHMCECS(batch_size=200)
    NumPyroHMCECS(batch_size=200, num_blocks=10, tune=1000, thin=1)
    """

    batch_size: int = 100
    num_blocks: int = 10
    tune: int = 1000
    thin: int = 1

    @names_itself()
    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return HMC-ECS, which adapts in its first `tune` steps only."""
        import jax
        from numpyro.infer import HMCECS, NUTS, init_to_value

        from approxmcmc.numerics import laplace

        density.refuse_whole()
        mode = {"theta": jax.numpy.asarray(twin_of(target).unconstrain(laplace(target).mode))}
        model = functools.partial(_model, density, self.batch_size, len(mode["theta"]))
        inner = NUTS(model, init_strategy=init_to_value(values=mode))
        ecs = HMCECS(inner, num_blocks=self.num_blocks, proxy=HMCECS.taylor_proxy(mode))
        # Called here, outside JAX tracing, because `ecs` stores the proxy.
        at_mode = ecs.init(jax.random.key(0), self.tune, None, (), {})

        def start(key: Any, theta: Any) -> Any:
            moved = at_mode.hmc_state._replace(z={"theta": theta})
            return ecs.refresh(at_mode._replace(rng_key=key, hmc_state=moved, z={**at_mode.z, **moved.z}), (), {})

        def step(key: Any, state: Any) -> Any:
            first, second = jax.random.split(key)
            held = state._replace(rng_key=first, hmc_state=state.hmc_state._replace(rng_key=second))
            state = ecs.sample(held, (), {})
            return state, state.hmc_state.num_steps.astype(float)

        return JaxKernel(_warmed(start, step, self.tune), step, lambda state: state.z["theta"], self.batch_size)


@dataclasses.dataclass(frozen=True, eq=False)
class NumPyroADVI(LibrarySampler):
    """Automatic differentiation variational inference of numpyro: the best normal with independent coordinates.

    Guarantee: biased; variances are too small if parameters are correlated, however many iterations are made. Optimises
    on all data, by Adam.

    Parameters
    ----------
    iterations
        Steps of the optimiser, rounded up to a multiple of 100; fewer if the time limit comes first.
    learning_rate
        Learning rate of Adam.
    n_draws
        Draws of the fitted distribution.

    Raises
    ------
    MissingExtraError
        When numpyro is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    A. Kucukelbir and others (2017), automatic differentiation variational inference.

    Examples
    --------
    >>> amc.whole_chains.NumPyroADVI(iterations=2000)
    NumPyroADVI(iterations=2000, learning_rate=0.01, n_draws=4000)
    """

    iterations: int = 10_000
    learning_rate: float = 0.01
    n_draws: int = 4000

    def draw_chain(
        self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray
    ) -> xr.DataTree:
        """Fit, and draw from the fitted distribution; see :class:`approxmcmc.whole_chains.ChainSampler`."""
        with extra("foreign", type(self).__name__):
            import jax
            from numpyro.infer import SVI, Trace_ELBO, init_to_value
            from numpyro.infer.autoguide import AutoDiagonalNormal
            from numpyro.optim import Adam

            density, translation_seconds = density_of(target)
        twin = twin_of(target)
        began = time.perf_counter()
        model = functools.partial(_model, density, None, twin.dim)
        start = init_to_value(values={"theta": jax.numpy.asarray(twin.unconstrain(initial))})
        guide = AutoDiagonalNormal(model, init_loc_fn=start)
        svi = SVI(model, guide, Adam(self.learning_rate), Trace_ELBO())
        state = svi.init(jax.random.key(seed))

        def run_chunk(state: Any) -> Any:
            return jax.lax.fori_loop(0, CHUNK, lambda _, held: svi.update(held)[0], state)

        compiled = jax.jit(run_chunk).lower(state).compile()
        compile_seconds = translation_seconds + time.perf_counter() - began
        began = time.perf_counter()
        steps_made = 0
        fit_seconds = 0.0
        while steps_made < self.iterations and (seconds is None or fit_seconds < seconds):
            state = jax.block_until_ready(compiled(state))
            steps_made = steps_made + CHUNK
            fit_seconds = time.perf_counter() - began
        fitted = guide.get_posterior(svi.get_params(state))
        return fitted_trace(
            self,
            target,
            twin,
            np.asarray(fitted.loc),
            np.diag(np.asarray(fitted.scale)),
            n_draws=min(draws, self.n_draws),
            seed=seed,
            fit_seconds=fit_seconds,
            compile_seconds=compile_seconds,
            gradients=steps_made,
            stopped="time_limit" if steps_made < self.iterations else "",
        )


def _warmed(start: Callable[..., Any], step: Callable[..., Any], tune: int) -> Callable[..., Any]:
    """Return a warm-up: `start`, then `tune` calls of `step`, in which numpyro's kernels adapt themselves."""

    def warm(key: Any, theta: Any) -> Any:
        import jax

        first, second = jax.random.split(key)

        def adapting_step(i: Any, held: Any) -> Any:
            state, gradients_so_far = held
            state, gradients = step(jax.random.fold_in(second, i), state)
            return state, gradients_so_far + gradients

        return jax.lax.fori_loop(0, tune, adapting_step, (start(first, theta), jax.numpy.zeros(())))

    return warm


def _model(density: Density, batch_size: int | None, dim: int) -> None:
    """Define a numpyro model of one vector with this log density, on all rows or on minibatches of `batch_size`."""
    import numpyro
    from numpyro import distributions as dist

    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([dim]).to_event(1))
    # numpyro needs a distribution to draw from; this cancels its density, so that theta has only the factors below.
    flat = 0.5 * theta @ theta
    if batch_size is None:
        numpyro.factor("density", density.log_density(theta) + flat)
        return
    numpyro.factor("prior", density.log_prior(theta) + flat)  # type: ignore[misc]
    with numpyro.plate("N", density.n_obs, subsample_size=batch_size):
        rows = tuple(numpyro.subsample(array, event_dim=array.ndim - 1) for array in density.data)
        numpyro.factor("terms", density.log_terms(theta, rows))  # type: ignore[misc]
