"""Noisy Langevin: a step along a gradient estimated from auxiliary data, plus noise, without a test.

    theta' = theta + Sigma/2 [grad log p(theta) + s(y) - (1/N) sum_k s(y'_k)] + N(0, Sigma),    y'_k drawn at theta.

The chain has two biases: from the step size, like every unadjusted Langevin chain, and from the noise of the gradient.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, DoublyIntractableTarget, Sampler, Streams
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.chain import adapt_nothing
from approxmcmc.samplers.counted_model import counted_model
from approxmcmc.samplers.noisy.doubly_intractable import RatioState, make_draw_rows
from approxmcmc.samplers.noisy.estimated_drift import (
    DriftState,
    add_noise,
    check_steps,
    langevin_program,
    mean_after_drift,
)
from approxmcmc.samplers.noisy.matrix import DrawsLaw, refuse_inexact_draws
from approxmcmc.samplers.noisy.program import NoisyProgram
from approxmcmc.samplers.noisy.step import keep_nothing, make_step


@cached_by_content(maxsize=64)
def make_drift(simulate: Callable[..., None]) -> Callable[..., float]:
    """Return the move that draws G at theta and follows the estimated drift, without the density of the way back."""
    draw_rows = make_draw_rows(simulate)

    def drift(streams: Streams, state: DriftState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray) -> float:
        draw_rows(streams.order, theta, state.simulator, state.here, count)
        count[TOUCHED] += 1
        count[GRADIENTS] += 1
        mean_after_drift(state, theta, state.here, 1.0, proposed)
        add_noise(streams.proposal, state.lower, 1.0, state.scratch, proposed)
        return 0.0

    return compiled(drift)


@compiled
def no_estimate(
    rng: np.random.Generator, state: RatioState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
) -> float:
    """Do nothing: every step is accepted."""
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyLangevin(Component, Sampler):
    """Unadjusted Langevin steps with a gradient estimated from auxiliary data.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    n_auxiliary
        Auxiliary draws N at theta; their mean statistic replaces grad log Z(theta).
    cov
        Shape of the steps, (dim, dim), or an object with an attribute `cov`, such as the result of
        :func:`robbins_monro`. None: the identity.
    auxiliary
        As for :class:`Exchange`.

    Raises
    ------
    InvalidInputError
        When a number is out of range or `cov` is not symmetric positive definite.
    IncompatibleError
        When the target cannot simulate, or `cov` has another size; raised before anything runs.

    Notes
    -----
    Guarantee: biased. As the step size tends to 0 and N to infinity the stationary distribution tends to the posterior;
    the error of one step's drift has a standard deviation of Sigma/2 sd(s) / sqrt(N). The chain does not make steps out
    of the support of the prior. The gradient of the log prior is a central difference.

    Records: ``decisions_made`` is 0, ``gradient_evaluations`` 1 per step: the data count as one datum.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), section 3.4, algorithm 8.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.NoisyLangevin(step_size=0.5, n_auxiliary=100).step_size
    0.5
    """

    step_size: float
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    target_acceptance = None  # not a setting: there is no acceptance

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains; it makes no decisions."""

        def step(simulate: Callable[..., None]) -> Callable[..., int]:
            return make_step(make_drift(simulate), no_estimate, keep_nothing, adapt_nothing, False)

        return langevin_program(self, target, step, fresh_for_ratio=False, decides=False, audit_every=None)

    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason: steps are not tested."""
        return f"{self!r} does not test its steps; the bias vanishes as step_size tends to 0 and n_auxiliary grows"

    def draws_law(self, target: Any, states: np.ndarray) -> DrawsLaw:
        """Return the distribution of the draws that estimate one parameter's drift, and the variance of the noise."""
        refuse_inexact_draws(self)
        variance = self.step_size * (1.0 if self.cov is None else self.cov.item())
        return DrawsLaw(counted_model(target, states), self.n_auxiliary, variance)
