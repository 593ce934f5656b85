r"""Stochastic-gradient Nose-Hoover thermostat (SGNHT), as a proposal: friction adapts to the noise.

In the coordinates of the preconditioner (:mod:`~approxmcmc.proposals.hamiltonian_step`), with a friction xi that rises
where the velocity is too hot and falls where it is too cold,

.. math:: d\theta = L v\, dt, \quad dv = (L' g - \xi v)\, dt + \sqrt{2 A}\, dW, \quad
          d\xi = (|v|^2 / d - 1)\, dt .

Gradient noise adds some B to A, which need not be known: the distribution

.. math:: p(\theta | x)\; N(v; 0, I)\; N(\xi; A + B, 1/d)

is invariant. (Ding et al. 2014. The generator applied to it: the terms in xi of the friction, xi (d - |v|^2), and of
the noise, (A + B) (|v|^2 - d), add up to (xi - A - B) (d - |v|^2), and the drift of xi gives the same with the other
sign.) A step is: kick, drift, D, friction at a fixed xi, D, drift, kick, where D is half a step of xi (Leimkuhler and
Shang 2016).
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.hamiltonian_step import apply_friction, checked_time, draw_velocity, drift, kick
from approxmcmc.proposals.langevin_step import checked_preconditioner, gradient_of, spread_of
from approxmcmc.proposals.minibatch_gradient import (
    MinibatchGradient,
    book_reads,
    checked_anchor,
    draw_minibatch,
    estimate_gradient,
    minibatch_gradient,
    setup_cost,
)


class NoseHooverState(NamedTuple):
    """The minibatch; h, A, and the preconditioner; velocity, NaN before the first step; friction xi, at first A."""

    minibatch: MinibatchGradient
    step_size: float
    noise: float
    scale: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    friction: np.ndarray
    slope: np.ndarray


@compiled
def adjust_friction(time: float, velocity: np.ndarray, friction: np.ndarray) -> None:
    """Add time (|v|^2 / d - 1) to the friction xi, in place (step D of the scheme)."""
    squared = 0.0
    for j in range(velocity.shape[0]):
        squared += velocity[j] * velocity[j]
    friction[0] += time * (squared / velocity.shape[0] - 1.0)


@compiled
def spread_at(friction: float, noise: float, time: float) -> float:
    """Return the standard deviation of the noise over a time t, sqrt(A (1 - exp(-2 xi t)) / xi); A is `noise`."""
    # The variance is 2 A t (1 - exp(-decay)) / decay; for xi near 0 it is 2 A t.
    decay = 2.0 * friction * time
    share = -math.expm1(-decay) / decay if abs(decay) > 1e-8 else 1.0
    return math.sqrt(2.0 * noise * time * share)


@compiled
def move(
    rng: np.random.Generator, state: NoseHooverState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta after a step to `out`; neighbouring kicks are merged into one, so this takes one gradient.

    Return 0, or NaN if this theta is not finite.
    """
    h = state.step_size
    scale = state.scale
    upper = state.upper
    velocity = state.velocity
    friction = state.friction
    if math.isnan(velocity[0]):
        draw_velocity(rng, velocity)
    assign(out, theta)
    draw_minibatch(rng, state.minibatch, count)
    book_reads(state.minibatch, 1, count)
    estimate_gradient(state.minibatch, out, state.slope, count)
    kick(h, scale, upper, state.slope, velocity)
    drift(0.5 * h, scale, upper, velocity, out)
    adjust_friction(0.5 * h, velocity, friction)
    apply_friction(rng, math.exp(-friction[0] * h), spread_at(friction[0], state.noise, h), velocity)
    adjust_friction(0.5 * h, velocity, friction)
    drift(0.5 * h, scale, upper, velocity, out)
    return 0.0 * out.sum()  # NaN stops the chain


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientNoseHoover(Component, Proposal):
    r"""Propose by a stochastic-gradient Nose-Hoover thermostat (SGNHT); only for :class:`AlwaysAccept`.

    Parameters
    ----------
    step_size
        h, the time of a step, as for :class:`StochasticGradientHamiltonian`.
    noise
        A, a positive rate: noise added to the noise of the gradients. Friction settles near A + B; gradients of
        whitened covariance W contribute B = h W / 2.
    batch_size
        n, the size of a minibatch, redrawn for each step, without replacement.
    preconditioner
        M: a covariance, shape (dim, dim), standard deviations, shape (dim,), or a Laplace approximation. None: the
        identity. With the posterior covariance, gradient noise is more equal in all directions.
    control_variate
        A point near the mode, as for :class:`StochasticGradientLangevin`.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient, another dimension, or fewer data than a minibatch, and with any test.

    Notes
    -----
    Guarantee: biased, by order h^2 if the noise of the gradients is equal in all (whitened) directions and at all
    theta, whatever its size. Otherwise some directions are too hot and others too cold, because one friction responds
    only to the mean over directions. :class:`StochasticGradientHamiltonian` with ``gradient_noise="tune"`` learns the
    matrix. Cost: n gradients a step, twice that with control variates.

    References
    ----------
    Ding, Fang, Babbush, Chen, Skeel and Neven (2014); Leimkuhler and Shang (2016).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.proposals.StochasticGradientNoseHoover(0.1, batch_size=100), amc.AlwaysAccept()).test
    AlwaysAccept()
    """

    error_untested = (
        "its thermostat is biased, by order step_size^2 if gradient noise is equal in all directions, by "
        "an unknown amount otherwise"
    )

    step_size: float
    noise: float = 1.0
    batch_size: int = 500
    preconditioner: Any = None
    control_variate: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; Laplace approximations become arrays."""
        object.__setattr__(self, "step_size", checked_time(self.step_size))
        if not 0.0 < self.noise < math.inf:
            raise InvalidInputError(f"{speaker()}: noise is a rate, positive and finite, found {self.noise!r}")
        object.__setattr__(self, "batch_size", checked_integer(self.batch_size, "batch_size"))
        object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner))
        object.__setattr__(self, "control_variate", checked_anchor(self.control_variate))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Raise: this proposal has no density ratio."""
        raise IncompatibleError(
            "StochasticGradientNoseHoover has no density ratio, because its friction moves; pair it with "
            "AlwaysAccept(), or use StochasticGradientHamiltonian, which has one"
        )

    @names_itself()
    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal."""
        dim = target.variables.size
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, self.batch_size, self.control_variate)
        spread = spread_of(self.preconditioner, dim)

        def make_state() -> NoseHooverState:
            moving = np.full(dim, math.nan), np.full(1, float(self.noise)), np.zeros(dim)
            return NoseHooverState(make_minibatch(), self.step_size, float(self.noise), *spread, *moving)

        return CompiledProposal(
            move,
            make_state,
            records=("gradient_evaluations",),
            attrs=setup_cost(gradient, self.control_variate),
        )
