"""Langevin steps along a gradient estimated from auxiliary data: untested (noisy Langevin), or MALA-exchange.

Noisy Langevin:

    theta' = theta + Sigma/2 [grad log p(theta) + s(y) - (1/N) sum_k s(y'_k)] + N(0, Sigma),    y'_k drawn at theta.

The chain has two biases: from the step size, like every unadjusted Langevin chain, and from the noise of the gradient.

MALA-exchange stores theta together with G, the auxiliary draws that estimate the drift at theta. One step:

1. theta' ~ N(m(theta, G), Sigma);
2. G' = N draws at theta' for the drift of the reverse step, and *another* draw y' at theta' for the ratio;
3. log a = (theta' - theta)'[s(y) - s(y')] + log p(theta')/p(theta)
           + log N(theta; m(theta', G'), Sigma) - log N(theta'; m(theta, G), Sigma);
4. move to (theta', G') if log u < log a.

Exchanging (theta, G) for (theta', G') and y for y' leaves the extended distribution invariant, so the chain is exact.
The chain is not exact if y' is one of the draws G', because the reverse proposal then uses the draw that
decides.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, DoublyIntractableTarget, Sampler, Streams
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.proposals.covariance import check_target_acceptance
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    RatioState,
    estimate_from_draws,
    make_draw_rows,
    make_estimate_from_fresh_draws,
    why_not_exact,
)
from approxmcmc.samplers.auxiliary_variable.estimated_drift import (
    DriftState,
    add_noise,
    check_steps,
    langevin_program,
    mean_after_drift,
    squared_distance,
)
from approxmcmc.samplers.auxiliary_variable.matrix import DrawsLaw, refuse_inexact_draws
from approxmcmc.samplers.auxiliary_variable.program import NoisyProgram
from approxmcmc.samplers.auxiliary_variable.step import NoisyState, keep_nothing, make_step
from approxmcmc.samplers.counted_model import counted_model
from approxmcmc.sampling.chain import adapt_nothing


@cached_by_content(maxsize=64)
def make_drift(simulate: Callable[..., None]) -> Callable[..., float]:
    """Return the move that draws G at theta and follows the estimated drift; it returns 0 in place of the q ratio."""
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
    """Return 0: no ratio is estimated, because every step inside the support is accepted."""
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyLangevin(Component, Sampler):
    """Noisy Langevin (NL): unadjusted Langevin steps with a gradient estimated from auxiliary data.

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
    of the support of the prior. The gradient of the log prior is a central difference, one-sided at the edge of the
    support.

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
        """Check and compile the pairing; return the program of chains that accept every step in the support."""

        def step(simulate: Callable[..., None]) -> Callable[..., int]:
            return make_step(make_drift(simulate), no_estimate, keep_nothing, adapt_nothing, False)

        return langevin_program(self, target, step, fresh_for_ratio=False, decides=False, audit_every=None)

    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason: steps are not tested."""
        return f"{self!r} does not test its steps; the bias vanishes as step_size tends to 0 and n_auxiliary grows"

    def draws_law(self, target: Any, states: np.ndarray) -> DrawsLaw:
        """Return the distribution of the draws that estimate the drift, and the variance of a step's noise.

        For targets with one parameter, on the grid `states`.
        """
        refuse_inexact_draws(self)
        variance = self.step_size * (1.0 if self.cov is None else self.cov.item())
        return DrawsLaw(counted_model(target, states), self.n_auxiliary, variance)


@cached_by_content(maxsize=64)
def make_drift_and_return(simulate: Callable[..., None], refresh: bool) -> Callable[..., float]:
    """Return the move that proposes theta', draws G' there, and returns the log q ratio (steps 1 and 2).

    With `refresh`, G is redrawn for each step. Outside the support G' is not drawn, and the ratio is 0.
    """
    draw_rows = make_draw_rows(simulate)

    def drift_and_return(
        streams: Streams, state: DriftState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        here = state.here
        there = state.there
        factor = math.exp(state.log_factor[0])
        if refresh or not state.has_draws[0]:
            draw_rows(streams.order, theta, state.simulator, here, count)
            count[GRADIENTS] += 1
            state.has_draws[0] = True
        mean_after_drift(state, theta, here, factor, proposed)
        forward = add_noise(streams.proposal, state.lower, factor, state.scratch, proposed)
        if state.log_prior(proposed) == -math.inf:
            return 0.0
        draw_rows(streams.order, proposed, state.simulator, there, count)
        count[GRADIENTS] += 1
        mean_after_drift(state, proposed, there, factor, state.mean_back)
        return 0.5 * (forward - squared_distance(state.lower, factor, theta, state.mean_back, state.scratch))

    return compiled(drift_and_return)


@compiled
def carry_drift_draws(state: NoisyState) -> None:
    """Store the auxiliary draws G' at theta' as the draws G of the next step."""
    drift = state.move
    for k in range(drift.here.shape[0]):
        assign(drift.here[k], drift.there[k])


@compiled
def adapt_step(state: DriftState, acceptance: float, step: int) -> None:
    """Tune the length of the steps to the rate ``state.wanted`` (Robbins and Monro 1951); `step` counts from 0."""
    state.log_factor[0] += (acceptance - state.wanted) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class MALAExchange(Component, Sampler):
    """Langevin steps with an estimated gradient and an exchange test: exact, or noisy.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    noisy
        False: the ratio is estimated from a separate draw. True: it is estimated from the N draws for the drift at
        theta', which saves a draw and makes the chain biased.
    n_auxiliary
        Number N of auxiliary draws for each drift.
    cov, auxiliary
        As for :class:`NoisyLangevin`.
    refresh
        True: redraw the auxiliary draws for the drift at theta in each step. False: keep them from the step that led to
        theta, which halves the cost and keeps the chain exact. Kept draws that mislead the drift do so until the chain
        moves: look for long stays at one point.
    target_acceptance
        Target acceptance rate in (0, 1). Tuning adapts the step size to reach this rate; afterwards the step size is
        fixed. None: the step size is used as given.

    Raises
    ------
    InvalidInputError
        When a number is out of range or `cov` is not symmetric positive definite.
    IncompatibleError
        When the target cannot simulate, or `cov` has another size; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``noisy=False`` and exact auxiliary draws; biased otherwise. The draw for the ratio comes from
    its own simulation, even if `auxiliary` continues one Markov chain from draw to draw.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), sections 3.5 and 3.6. Algorithm 9 does not say which draw the ratio uses;
    see the module for why it must be a separate one.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.MALAExchange(step_size=0.5, noisy=True, n_auxiliary=50).noisy
    True
    """

    step_size: float
    noisy: bool = False
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    refresh: bool = False
    target_acceptance: float | None = None

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)
        check_target_acceptance(self.target_acceptance, who="MALAExchange")

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""

        def step(simulate: Callable[..., None]) -> Callable[..., int]:
            return make_step(
                make_drift_and_return(simulate, self.refresh),
                estimate_from_draws if self.noisy else make_estimate_from_fresh_draws(simulate),
                keep_nothing if self.refresh else carry_drift_draws,
                adapt_nothing if self.target_acceptance is None else adapt_step,
                True,
            )

        return langevin_program(
            self, target, step, fresh_for_ratio=not self.noisy, decides=True, audit_every=audit_every
        )

    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason if the ratio of normalisers has an error; "" otherwise."""
        if self.noisy:
            return f"{self!r} uses the drift's draws for the ratio, too; the bias vanishes as n_auxiliary grows"
        return why_not_exact(target, self.auxiliary, "MALAExchange")
