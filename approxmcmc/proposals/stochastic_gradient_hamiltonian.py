r"""Stochastic-gradient Hamiltonian Monte Carlo (SGHMC), as a proposal with a momentum.

Underdamped Langevin dynamics (:mod:`~approxmcmc.proposals.hamiltonian_step`) by BAOAB (Leimkuhler and Matthews 2013):

    kick h/2,  drift h/2,  friction h,  drift h/2,  kick h/2,

each kick along the gradient of a minibatch. Without a test the last kick of a step and the first kick of the next share
one gradient, and friction adds less noise, because the estimated gradient is itself noisy
(:mod:`~approxmcmc.proposals.gradient_noise`).

With a test a proposal is a trajectory of T steps with T + 1 kicks, each with its own minibatch. Friction with the noise
(1 - c^2) I is reversible under N(0, I), kicks and drifts preserve volume and are their own inverses after the velocity
is reversed. The reverse path uses the same minibatches in reverse order, which is as probable. So the ratio of the
densities of the reverse and the forward path, each with the density of its velocity, is

.. math:: \log\frac{N(v')\, q(-v', \theta' \to -v, \theta)}{N(v)\, q(v, \theta \to v', \theta')}
          = -\sum_{\text{kicks}} \tfrac12 \bigl(|v_{\text{after}}|^2 - |v_{\text{before}}|^2\bigr),

that is minus the energy added by the kicks; energy from friction is not counted. A rejected trajectory reverses the
velocity.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.speaker import names_itself, speaker, speaking
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.gradient_noise import (
    AddedNoise,
    added_noise,
    apply_compensating_friction,
    checked_noise,
    explain_noise,
    learn,
)
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


class HamiltonianState(NamedTuple):
    """The minibatch; T, h, c (`keep`) and the preconditioner; the noise that friction adds; velocities and scratch.

    `velocity` is NaN before the first step. `velocity_there` is the velocity at the end of the last trajectory, which a
    test may reject.
    """

    minibatch: MinibatchGradient
    steps: int
    step_size: float
    keep: float
    scale: np.ndarray
    upper: np.ndarray
    noise: AddedNoise
    velocity: np.ndarray
    velocity_there: np.ndarray
    slope: np.ndarray


@compiled
def kick_by_minibatch(
    rng: np.random.Generator,
    state: HamiltonianState,
    time: float,
    theta: np.ndarray,
    velocity: np.ndarray,
    count: np.ndarray,
) -> float:
    """Kick along the gradient of a new minibatch (B of BAOAB); return the kinetic energy gained."""
    draw_minibatch(rng, state.minibatch, count)
    estimate_gradient(state.minibatch, theta, state.slope, count)
    return kick(time, state.scale, state.upper, state.slope, velocity)


@compiled
def move(
    rng: np.random.Generator, state: HamiltonianState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta after T steps to `out`; neighbouring kicks are merged into one, so this takes T gradients.

    Return 0, or NaN if this theta is not finite.
    """
    h = state.step_size
    scale = state.scale
    upper = state.upper
    velocity = state.velocity
    noise = state.noise
    if math.isnan(velocity[0]):
        draw_velocity(rng, velocity)
    assign(out, theta)
    book_reads(state.minibatch, state.steps, count)
    for _ in range(state.steps):
        kick_by_minibatch(rng, state, h, out, velocity, count)
        if noise.due[0] > 0.0:
            learn(state.minibatch, out, scale, upper, noise, count)
        drift(0.5 * h, scale, upper, velocity, out)
        apply_compensating_friction(rng, state.keep, noise, velocity)
        drift(0.5 * h, scale, upper, velocity, out)
    noise.due[0] = 0.0
    return 0.0 * out.sum()  # NaN stops the chain


@compiled
def learn_at_the_next_step(state: HamiltonianState, acceptance: float, step: int) -> None:
    """Make the next draw learn the noise of the gradients."""
    state.noise.due[0] = 1.0
    state.noise.tuned[0] = 1.0


@compiled
def propose(
    rng: np.random.Generator, state: HamiltonianState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write the end of a trajectory of T steps to `out`, and return minus the energy added by its kicks."""
    h = state.step_size
    scale = state.scale
    upper = state.upper
    velocity = state.velocity_there
    if math.isnan(state.velocity[0]):
        draw_velocity(rng, state.velocity)
    assign(velocity, state.velocity)
    assign(out, theta)
    book_reads(state.minibatch, state.steps + 1, count)
    spread = math.sqrt(1.0 - state.keep * state.keep)
    work = kick_by_minibatch(rng, state, 0.5 * h, out, velocity, count)
    for step in range(1, state.steps + 1):
        drift(0.5 * h, scale, upper, velocity, out)
        apply_friction(rng, state.keep, spread, velocity)
        drift(0.5 * h, scale, upper, velocity, out)
        work += kick_by_minibatch(rng, state, h if step < state.steps else 0.5 * h, out, velocity, count)
    return -work


@compiled
def settle_velocity(state: HamiltonianState, accepted: bool) -> None:
    """Keep the velocity at the end of an accepted trajectory; reverse the old one after a rejection."""
    velocity = state.velocity
    if accepted:
        assign(velocity, state.velocity_there)
    else:
        for j in range(velocity.shape[0]):
            velocity[j] = -velocity[j]


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientHamiltonian(Component, Proposal):
    r"""Propose by underdamped Langevin dynamics along the gradients of minibatches: SGHMC, by BAOAB.

    Parameters
    ----------
    step_size
        h, the time of a step, for velocities of variance 1: theta moves by about h L in a step, L L' = M. (A Langevin
        step of variance alpha moves as far as h = sqrt(alpha).) If M is the posterior covariance, steps below 2 are
        stable.
    friction
        gamma, a positive rate: a step keeps the share c = exp(-gamma h) of the velocity. With inf the velocity is drawn
        anew at every step. If M is the posterior covariance, 2 is critical damping.
    batch_size
        n, the size of a minibatch, redrawn for each gradient, without replacement.
    steps
        T, steps for each draw, or for each decision of a test.
    preconditioner
        M: a covariance, shape (dim, dim), standard deviations, shape (dim,), or a Laplace approximation. None: the
        identity. Masses are M^-1.
    control_variate
        A point near the mode, as for :class:`StochasticGradientLangevin`. A :class:`ControlVariate` needs none.
    gradient_noise
        The covariance V of the estimated gradient, shape (dim, dim); friction then compensates this noise. ``"tune"``:
        estimate V from the minibatches of the tuning steps, with a relative error of about 2 / sqrt(tune n). None: do
        not compensate the noise. No effect if there is a test.

    Raises
    ------
    InvalidInputError
        When a number is out of range, the preconditioner is not symmetric positive definite, or `gradient_noise` not
        symmetric positive semidefinite.
    IncompatibleError
        When the target has no gradient, another dimension, or fewer data than a minibatch; when friction removes less
        energy than the noise `gradient_noise` adds.
    NotFiniteError
        During sampling with ``"tune"``, when friction removes less energy than the learnt noise adds, or there were no
        tuning steps.

    Notes
    -----
    With c = exp(-gamma h) a step is

    .. math:: v \leftarrow v + h L' \hat g(\theta), \quad \theta \leftarrow \theta + \tfrac h2 L v, \quad
              v \leftarrow c v + N(0, S), \quad \theta \leftarrow \theta + \tfrac h2 L v .

    Guarantee: with :class:`AlwaysAccept`, biased. For a normal target of whitened precision A and gradients of whitened
    covariance W, both in one direction, the stationary variance is

    .. math:: \frac1A \Bigl[\frac{S}{1 - c^2} + \frac{1 + c}{1 - c} \, \frac{h^2 W}{4 - h^2 A}\Bigr] :

    without gradient noise this is 1/A at any h. With `gradient_noise` the relative error of the variance is about h^3 A
    W / (8 gamma), with ``None``, S = 1 - c^2, about h W / (2 gamma). If V varies over the posterior, only its mean is
    compensated. On other targets the positions have an additional error of order h^2. With :class:`ExactTest`, exact
    for any step, friction and minibatch: AMAGOLD (Zhang, Cooper and De Sa 2020), here with BAOAB; with other tests, the
    guarantee of the test. Cost: T n gradients a draw without a test, (T + 1) n with a test, and twice as many with
    control variates. With ``"tune"`` each step of the tuning costs n more gradients (2 n with control variates) and 2
    dim^3 multiplications.

    References
    ----------
    Chen, Fox and Guestrin (2014); Leimkuhler and Matthews (2013); Zhang, Cooper and De Sa (2020).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0)
    >>> fit = amc.laplace(target)
    >>> sghmc = amc.proposals.StochasticGradientHamiltonian(
    ...     0.1, 2.0, batch_size=100, preconditioner=fit, control_variate=fit
    ... )
    >>> sampler = amc.MetropolisHastings(sghmc, amc.AlwaysAccept())
    >>> trace = amc.sample(target, sampler, draws=10, tune=100, chains=1, random_seed=1, progressbar=False)
    >>> int(trace.sample_stats["gradient_evaluations"][0, 1:].sum())
    1800
    """

    error_untested = (
        "untested trajectories along minibatch gradients are biased, by order step_size^2, and by step_size "
        "times the part of the gradients' noise that friction does not compensate"
    )

    step_size: float
    friction: float = 1.0
    batch_size: int = 500
    steps: int = 1
    preconditioner: Any = None
    control_variate: Any = None
    gradient_noise: Any = "tune"

    def __post_init__(self) -> None:
        """Check the ranges; Laplace approximations become arrays."""
        object.__setattr__(self, "step_size", checked_time(self.step_size))
        if not self.friction > 0.0:
            raise InvalidInputError(f"{speaker()}: friction is a rate and must be positive, found {self.friction!r}")
        object.__setattr__(self, "batch_size", checked_integer(self.batch_size, "batch_size"))
        object.__setattr__(self, "steps", checked_integer(self.steps, "steps"))
        object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner))
        object.__setattr__(self, "control_variate", checked_anchor(self.control_variate))
        object.__setattr__(self, "gradient_noise", checked_noise(self.gradient_noise))
        if isinstance(self.gradient_noise, str) and self.batch_size < 2:
            raise InvalidInputError(
                f"{speaker()}: the noise of a minibatch of one cannot be learnt; give gradient_noise"
            )

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile trajectories with their density ratio."""
        return self._compile(target, propose, gradient_noise=None)._replace(settle=settle_velocity)

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal without a density ratio."""
        return self._compile(target, move, self.gradient_noise)

    @names_itself()
    def _compile(self, target: Target, propose: Callable[..., float], gradient_noise: Any) -> CompiledProposal:
        dim = target.variables.size
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, self.batch_size, self.control_variate)
        spread = spread_of(self.preconditioner, dim)
        keep = math.exp(-self.friction * self.step_size)

        def make_state() -> HamiltonianState:
            minibatch = make_minibatch()
            vectors = (np.full(dim, math.nan) for _ in range(3))
            noise = added_noise(gradient_noise, minibatch, spread, self.step_size, keep)
            return HamiltonianState(minibatch, self.steps, self.step_size, keep, *spread, noise, *vectors)

        @speaking(type(self).__name__)
        def explain(state: HamiltonianState) -> str:
            return explain_noise(state.noise, self.step_size)

        make_state()  # raises on invalid settings
        return CompiledProposal(
            propose,
            make_state,
            learn_at_the_next_step if isinstance(gradient_noise, str) else None,
            explain=explain,
            refresh=lambda state: state.velocity.fill(math.nan),  # NaN marks a first step
            records=("gradient_evaluations",),
            attrs=setup_cost(gradient, self.control_variate),
        )
