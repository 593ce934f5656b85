"""NUTS, MCLMC, SGLD and SGHMC of blackjax, on the target's log density in JAX."""

import dataclasses
from typing import Any

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaking
from approxmcmc.whole_chains.jax_chain import Density, JaxKernel, JaxSampler


@dataclasses.dataclass(frozen=True, eq=False)
class BlackjaxNUTS(JaxSampler):
    """The no-U-turn sampler of blackjax on all data, after its window adaptation.

    Guarantee: asymptotically exact. Of the warm-up, only the gradients of its draws are counted.

    Parameters
    ----------
    tune
        Steps of the window adaptation.
    thin
        Steps for each kept draw.

    Raises
    ------
    MissingExtraError
        When blackjax is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    M. D. Hoffman, A. Gelman (2014), algorithm 6, with multinomial sampling of the trajectory.

    Examples
    --------
    >>> amc.whole_chains.BlackjaxNUTS(tune=500)
    BlackjaxNUTS(tune=500, thin=1)
    """

    tune: int = 1000
    thin: int = 1

    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return NUTS with the step size and the diagonal mass matrix that its warm-up has found."""
        import blackjax

        adaptation = blackjax.window_adaptation(blackjax.nuts, density.log_density)
        transition = blackjax.nuts.build_kernel()

        def warm(key: Any, theta: Any) -> Any:
            (state, parameters), info = adaptation.run(key, theta, num_steps=self.tune)
            return (state, parameters), info.info.num_integration_steps.sum().astype(float)

        def step(key: Any, held: Any) -> Any:
            state, parameters = held
            state, info = transition(key, state, density.log_density, **parameters)
            return (state, parameters), info.num_integration_steps.astype(float)

        return JaxKernel(warm, step, lambda held: held[0].position, density.n_obs)


@dataclasses.dataclass(frozen=True, eq=False)
class BlackjaxMCLMC(JaxSampler):
    """Microcanonical Langevin Monte Carlo of blackjax on all data: moves of nearly constant energy, none rejected.

    Guarantee: biased by its step size, which its warm-up sets by the variance of the energy error.

    Parameters
    ----------
    tune
        Steps of the warm-up that sets step size, momentum decoherence length and mass matrix.
    thin
        Steps for each kept draw.

    Raises
    ------
    MissingExtraError
        When blackjax is not installed.
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    J. Robnik and others (2023), microcanonical Hamiltonian Monte Carlo, section 4.

    Examples
    --------
    >>> amc.whole_chains.BlackjaxMCLMC()
    BlackjaxMCLMC(tune=2000, thin=1)
    """

    tune: int = 2000
    thin: int = 1

    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return warm-up and step of MCLMC; a step (of the McLachlan integrator) evaluates two gradients."""
        import blackjax
        import jax

        transition = blackjax.mcmc.mclmc.build_kernel()

        def warm(key: Any, theta: Any) -> Any:
            first, second = jax.random.split(key)
            state = blackjax.mcmc.mclmc.init(theta, density.log_density, first)
            state, parameters, steps = blackjax.mclmc_find_L_and_step_size(
                mclmc_kernel=transition,
                num_steps=self.tune,
                state=state,
                rng_key=second,
                logdensity_fn=density.log_density,
            )
            return (state, parameters), jax.numpy.asarray(2.0 * steps)

        def step(key: Any, held: Any) -> Any:
            state, tuned = held
            state, _ = transition(key, state, density.log_density, tuned.inverse_mass_matrix, tuned.L, tuned.step_size)
            return (state, tuned), 2.0

        return JaxKernel(warm, step, lambda held: held[0].position, density.n_obs)


@dataclasses.dataclass(frozen=True, eq=False)
class BlackjaxSGLD(JaxSampler):
    r"""Stochastic gradient Langevin dynamics of blackjax.

    .. math:: \theta' = \theta + h \, \hat\nabla \log \pi(\theta) + \sqrt{2 h} \, \xi,

    with a gradient estimated on rows drawn with replacement. Guarantee: biased, by the step size and by the noise of
    the gradient; both inflate variances.

    Parameters
    ----------
    step_size
        h, in squared units of theta. A tenth of twice the smallest posterior variance is a safe choice.
    batch_size
        Rows per step.
    tune
        Steps dropped before the first kept draw.
    thin
        Steps for each kept draw.

    Raises
    ------
    MissingExtraError
        When blackjax is not installed.
    IncompatibleError
        When the target has no PyMC model, or one without rows.

    References
    ----------
    M. Welling, Y. W. Teh (2011), section 3, with a fixed step size.

    Examples
    --------
    >>> amc.whole_chains.BlackjaxSGLD(step_size=1e-4, batch_size=100)
    BlackjaxSGLD(step_size=0.0001, batch_size=100, tune=1000, thin=10)
    """

    step_size: float
    batch_size: int = 500
    tune: int = 1000
    thin: int = 10

    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return a kernel with steps that draw a new minibatch each."""
        import blackjax

        dynamics = blackjax.sgld(_gradient_estimator(self, density))
        return _minibatch_kernel(dynamics, density, self.batch_size, self.step_size, self.tune, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class BlackjaxSGHMC(JaxSampler):
    """Stochastic gradient Hamiltonian Monte Carlo of blackjax: each draw takes steps with friction on one minibatch.

    Guarantee: biased, by the step size (its Euler steps inflate variances in the first order) and by the noise of the
    gradient. The momentum is redrawn for each draw.

    Parameters
    ----------
    step_size
        Step size of the momentum updates, in squared units of theta.
    batch_size
        Rows per draw; all its steps read the same rows.
    num_integration_steps
        Steps per draw.
    tune
        Draws dropped before the first kept draw.
    thin
        Draws made per kept draw.

    Raises
    ------
    MissingExtraError
        When blackjax is not installed.
    IncompatibleError
        When the target has no PyMC model, or one without rows.

    References
    ----------
    T. Chen, E. B. Fox, C. Guestrin (2014), section 3.2.

    Examples
    --------
    >>> amc.whole_chains.BlackjaxSGHMC(step_size=1e-4)
    BlackjaxSGHMC(step_size=0.0001, batch_size=500, num_integration_steps=10, tune=200, thin=1)
    """

    step_size: float
    batch_size: int = 500
    num_integration_steps: int = 10
    tune: int = 200
    thin: int = 1

    def kernel(self, target: Target, density: Density) -> JaxKernel:
        """Return a kernel with trajectories that draw a new minibatch each."""
        import blackjax

        steps = self.num_integration_steps
        dynamics = blackjax.sghmc(_gradient_estimator(self, density), steps)
        return _minibatch_kernel(dynamics, density, self.batch_size, self.step_size, self.tune, steps)


def _gradient_estimator(sampler: Any, density: Density) -> Any:
    """Return a function of theta and rows that estimates the gradient of the log density from these rows."""
    import jax

    with speaking(type(sampler).__name__):
        density.refuse_whole()

    def estimate(theta: Any, rows: Any) -> Any:
        return density.log_prior(theta) + density.n_obs * density.log_terms(theta, rows).mean()  # type: ignore[misc]

    return jax.grad(estimate)


def _minibatch_kernel(
    dynamics: Any, density: Density, batch_size: int, step_size: float, tune: int, gradients: int
) -> JaxKernel:
    import jax

    def step(key: Any, theta: Any) -> Any:
        rows_key, noise_key = jax.random.split(key)
        return dynamics.step(noise_key, theta, density.batch(rows_key, batch_size), step_size), float(gradients)

    def warm(key: Any, theta: Any) -> Any:
        moved = jax.lax.fori_loop(0, tune, lambda i, x: step(jax.random.fold_in(key, i), x)[0], theta)
        return moved, jax.numpy.asarray(float(gradients * tune))

    return JaxKernel(warm, step, lambda theta: theta, batch_size)
