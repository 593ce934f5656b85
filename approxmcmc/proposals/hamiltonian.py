r"""Hamiltonian trajectories on all data: draw a velocity, follow leapfrog steps, propose the end point.

With M = L L', v ~ N(0, I) and g the gradient of log p(theta | x), T times

    v <- v + h/2 L' g(theta),    theta <- theta + h L v,    v <- v + h/2 L' g(theta).

The map preserves volume and is its own inverse once the velocity is reversed, so that

.. math:: \log \frac{q(\theta \mid \theta')}{q(\theta' \mid \theta)} = \tfrac12 |v|^2 - \tfrac12 |v'|^2,

which is minus the energy added by the kicks. Step and length are redrawn each time, so that no trajectory is periodic.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.sparse_factor import NO_FACTOR, SparseFactor
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.covariance import check_target_acceptance, tuned_factor
from approxmcmc.proposals.hamiltonian_step import (
    checked_time,
    draw_velocity,
    drift,
    drift_sparsely,
    kick,
    kick_sparsely,
    sparse_factor_of,
)
from approxmcmc.proposals.langevin import PosteriorGradient, forget, recall, write_gradient
from approxmcmc.proposals.langevin_step import checked_preconditioner, gradient_of, spread_of

JITTER = 0.1  # relative random change of the step, up or down
# range of the random factor on the length
SHORTEST = 0.6
LONGEST = 1.4
# A trajectory is rejected if its kicks add more energy than this, which no posterior requires. Below this limit 60
# bisections still find the place where a density becomes undefined.
FARTHEST = 1e30


class TrajectoryState(NamedTuple):
    """The settings; `log_factor`, the log of the tuned factor on the step; and a cache of two points.

    `factor` is the sparse factor of M^-1, empty if M is given by `scale` or `upper`, and `work` its scratch.
    `here` is the last current theta, `there` the end of the last trajectory, `slope` and `slope_there` their gradients.
    """

    gradient: PosteriorGradient
    step_size: float
    length: float
    most_steps: int
    scale: np.ndarray
    upper: np.ndarray
    target_acceptance: float
    log_factor: np.ndarray
    factor: SparseFactor
    work: np.ndarray
    velocity: np.ndarray
    here: np.ndarray
    slope: np.ndarray
    there: np.ndarray
    slope_there: np.ndarray


@compiled
def kicked(time: float, state: TrajectoryState, slope: np.ndarray) -> float:
    """Kick the velocity along `slope` in the metric of the state; return the kinetic energy gained."""
    if state.factor.rest.shape[0] > 0:
        return kick_sparsely(time, state.factor, slope, state.velocity, state.work)
    return kick(time, state.scale, state.upper, slope, state.velocity)


@compiled
def drifted(time: float, state: TrajectoryState) -> None:
    """Move ``state.there`` along the velocity for a time, in place, in the metric of the state."""
    if state.factor.rest.shape[0] > 0:
        drift_sparsely(time, state.factor, state.velocity, state.there, state.work)
    else:
        drift(time, state.scale, state.upper, state.velocity, state.there)


@compiled
def propose(
    rng: np.random.Generator, state: TrajectoryState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write the end of a trajectory to `out`, and return minus the energy added by its kicks, the log q ratio.

    If that energy exceeds FARTHEST, `out` becomes theta, and -inf is returned, a rejection.
    """
    there = state.there
    recall(state, theta, count)
    draw_velocity(rng, state.velocity)
    h = state.step_size * math.exp(state.log_factor[0]) * (1.0 + JITTER * (2.0 * rng.random() - 1.0))
    length = state.length * (SHORTEST + (LONGEST - SHORTEST) * rng.random())
    steps = min(state.most_steps, max(1, int(length / h + 0.5)))
    assign(there, theta)
    count[TOUCHED] += state.gradient.n_obs
    work = kicked(0.5 * h, state, state.slope)
    for k in range(steps):
        if not work < FARTHEST:
            break
        drifted(h, state)
        write_gradient(state.gradient, there, state.slope_there, count)
        work += kicked(h if k < steps - 1 else 0.5 * h, state, state.slope_there)
    if work >= FARTHEST:
        assign(out, theta)
        return -math.inf
    assign(out, there)  # NaN: the sampler decides whether the point is out of reach or the gradient is wrong
    return -work


@compiled
def adapt_step_size(state: TrajectoryState, acceptance: float, step: int) -> None:
    """Tune the step to the target acceptance rate; `step` counts tuning steps from 0."""
    state.log_factor[0] += (acceptance - state.target_acceptance) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class Hamiltonian(Component, Proposal):
    r"""Propose the end of a Hamiltonian trajectory along the gradient on all data: HMC, hybrid Monte Carlo.

    Parameters
    ----------
    step_size
        h, the time of a leapfrog step, for velocities of variance 1: theta moves by about h L in a step, L L' = M. If
        the posterior is normal and M its covariance, steps below 2 are stable. Each trajectory multiplies h by U(.9,
        1.1).
    length
        The time of a trajectory, which each trajectory multiplies by U(.6, 1.4). For a normal posterior, with M its
        covariance, pi / 2 is a quarter period and leads to an independent point.
    preconditioner
        M: a covariance, shape (dim, dim), standard deviations, shape (dim,), a Laplace approximation, or a
        `SparseNormal`, whose precision is M^-1. None: the identity. Masses are M^-1.
    target_acceptance
        Target acceptance rate in (0, 1). Tuning adapts h to reach this rate; afterwards h is fixed. None: h is used as
        given. 0.651 is best in high dimension (Beskos et al. 2013); use a higher rate if the curvature varies.
    most_steps
        Largest number of steps of a trajectory, whatever its length.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient or another dimension.

    Notes
    -----
    Guarantee: with :class:`ExactTest`, exact. With :class:`AlwaysAccept`, biased, by order h^2. With another test, the
    guarantee of the test. Cost: a gradient on all data for each leapfrog step; the gradient at theta is cached.
    A trajectory keeps its direction, while Langevin steps change direction at random. Along a direction in which M
    makes steps k times too short, a trajectory needs about k times as many steps, Langevin k^2 times as many. A
    trajectory ends where the gradient becomes undefined (see the page on the engine), and is rejected if its
    velocity diverges.

    References
    ----------
    Duane, Kennedy, Pendleton and Roweth (1987); Neal (2011), sections 3.2 and 4.2; Beskos et al. (2013).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0)
    >>> hmc = amc.MetropolisHastings(amc.Hamiltonian(0.5, preconditioner=amc.laplace(target)), amc.ExactTest())
    >>> trace = amc.sample(target, hmc, draws=100, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> bool(trace.sample_stats["accepted"].mean() > 0.8)
    True
    """

    error_untested = "untested trajectories are biased, by the square of their step size"

    step_size: float
    length: float = math.pi / 2.0
    preconditioner: Any = None
    target_acceptance: float | None = None
    most_steps: int = 100

    def __post_init__(self) -> None:
        """Check the ranges; a Laplace approximation becomes its covariance."""
        object.__setattr__(self, "step_size", checked_time(self.step_size))
        if not 0.0 < self.length < math.inf:
            raise InvalidInputError(f"Hamiltonian: length is a time and must be positive, found {self.length!r}")
        if sparse_factor_of(self.preconditioner) is None:
            object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner))
        check_target_acceptance(self.target_acceptance)
        object.__setattr__(self, "most_steps", checked_integer(self.most_steps, "most_steps"))

    @names_itself()
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal; its state holds the logarithm of the tuned factor."""
        likelihood_gradient = gradient_of(target)
        dim = target.variables.size
        factor = sparse_factor_of(self.preconditioner)
        preconditioner = self.preconditioner if factor is None else self.preconditioner.sd
        spread = spread_of(preconditioner, dim)
        kernels = (
            likelihood_gradient.add_gradient,
            likelihood_gradient.add_prior_gradient,
            likelihood_gradient.prior_rows,
        )
        gradient = PosteriorGradient(likelihood_gradient.data, likelihood_gradient.n_obs, ALL_ROWS, *kernels)
        settings = (gradient, self.step_size, self.length, self.most_steps, *spread, self.target_acceptance or 0.0)

        def make_state() -> TrajectoryState:
            scratch = (np.full(dim, math.nan) for _ in range(6))
            return TrajectoryState(*settings, np.zeros(1), factor or NO_FACTOR, *scratch)

        records = ("gradient_evaluations",)
        if self.target_acceptance is None:
            return CompiledProposal(propose, make_state, forget=forget, records=records)
        learns = (adapt_step_size, *tuned_factor("step_size", self.step_size))
        return CompiledProposal(propose, make_state, *learns, forget=forget, records=records)
