r"""The Langevin proposal on all data: with a test MALA, without a test the unadjusted Langevin algorithm.

.. math:: \theta' = m(\theta) + N(0, \alpha M), \qquad
          m(\theta) = \theta + \tfrac{\alpha}{2} M \nabla \log p(\theta | x).

.. math:: \log q(\theta|\theta') - \log q(\theta'|\theta)
          = \frac{|\theta' - m(\theta)|^2_M - |\theta - m(\theta')|^2_M}{2 \alpha}, \qquad |v|^2_M = v' M^{-1} v.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.covariance import check_target_acceptance, couple_noise, tuned_factor
from approxmcmc.proposals.langevin_step import (
    add_given_noise,
    add_noise,
    checked_preconditioner,
    checked_step_size,
    drift,
    gradient_of,
    spread_of,
    squared_distance,
)


class PosteriorGradient(NamedTuple):
    """The kernels of a target's gradients, with the arrays that they read.

    `rows` is empty, which means all rows in the order of memory; `prior_rows` is how many rows the prior's gradient
    counts as.
    """

    data: Any
    n_obs: int
    rows: np.ndarray
    add_gradient: Any
    add_prior_gradient: Any
    prior_rows: int


class LangevinState(NamedTuple):
    """The settings; `log_factor`, the log of the tuned factor on alpha; and a cache of two points.

    `here` is the last current theta, `there` the last proposal, `slope` and `slope_there` their gradients. So a step
    computes only one new gradient, at theta', whether the last proposal was accepted or not. `scale` holds standard
    deviations if M is diagonal, `upper` else its Cholesky factor; `mean` and `work` are scratch.
    """

    gradient: PosteriorGradient
    step_size: float
    scale: np.ndarray
    upper: np.ndarray
    target_acceptance: float
    log_factor: np.ndarray
    here: np.ndarray
    slope: np.ndarray
    there: np.ndarray
    slope_there: np.ndarray
    mean: np.ndarray
    work: np.ndarray


@compiled
def write_gradient(gradient: PosteriorGradient, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> None:
    """Write grad log p(theta | x) to `out`."""
    out[:] = 0.0
    gradient.add_gradient(theta, gradient.data, gradient.rows, 0, gradient.n_obs, out)
    gradient.add_prior_gradient(theta, out)
    count[GRADIENTS] += gradient.n_obs + gradient.prior_rows


@compiled
def recall(state: LangevinState, theta: np.ndarray, count: np.ndarray) -> None:
    """Set ``state.slope`` to the gradient at theta."""
    if not equal(theta, state.here):
        if equal(theta, state.there):
            assign(state.slope, state.slope_there)
        else:
            write_gradient(state.gradient, theta, state.slope, count)
        assign(state.here, theta)


@compiled
def squared_way_back(
    state: LangevinState, alpha: float, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
) -> float:
    """Return |theta - m(theta')|^2 / alpha in the metric M, and cache theta' with its gradient."""
    assign(state.there, proposed)
    write_gradient(state.gradient, state.there, state.slope_there, count)
    count[TOUCHED] += state.gradient.n_obs
    drift(alpha, state.scale, state.upper, state.there, state.slope_there, state.mean)
    return squared_distance(state.scale, state.upper, state.mean, theta, state.work) / alpha


@compiled
def propose(
    rng: np.random.Generator, state: LangevinState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' to `out`, and return log q(theta|theta') - log q(theta'|theta)."""
    alpha = state.step_size * math.exp(state.log_factor[0])
    recall(state, theta, count)
    drift(alpha, state.scale, state.upper, theta, state.slope, out)
    squared = add_noise(rng, alpha, state.scale, state.upper, out)
    return 0.5 * (squared - squared_way_back(state, alpha, theta, out, count))


@compiled
def couple(
    rng: np.random.Generator,
    state: LangevinState,
    other: LangevinState,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    noise: np.ndarray,
    count: np.ndarray,
) -> tuple[float, float]:
    """Propose for two chains along their drifts: the same point for both, or with reflected noise.

    Return both log q-ratios. `noise`, shape (2, dim), is scratch: the standard normal noise of x_new, and the distance
    of the two means in its units.
    """
    log_q_ratio = propose(rng, state, x, x_new, count)
    alpha = state.step_size * math.exp(state.log_factor[0])
    scale = state.scale
    upper = state.upper
    noise_of_x = noise[0]
    distance_of_means = noise[1]
    recall(other, y, count)
    drift(alpha, scale, upper, x, state.slope, state.mean)
    drift(alpha, scale, upper, y, other.slope, other.mean)
    # for what they write to their last argument, the whitened difference of two points
    squared_distance(scale, upper, state.mean, x_new, noise_of_x)
    squared_distance(scale, upper, other.mean, state.mean, distance_of_means)
    for j in range(x.shape[0]):
        noise_of_x[j] /= math.sqrt(alpha)
        distance_of_means[j] /= math.sqrt(alpha)
    if couple_noise(rng, noise_of_x, distance_of_means):
        assign(y_new, x_new)
    else:
        assign(y_new, other.mean)
        add_given_noise(alpha, scale, upper, noise_of_x, y_new)
    squared = squared_distance(scale, upper, other.mean, y_new, other.work) / alpha
    return log_q_ratio, 0.5 * (squared - squared_way_back(other, alpha, y, y_new, count))


@compiled
def forget(state: LangevinState) -> None:
    """Clear the cached points."""
    state.here[:] = math.nan
    state.there[:] = math.nan


@compiled
def move(
    rng: np.random.Generator, state: LangevinState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' to `out`, by one gradient, at theta, without a density ratio; return 0, or NaN if not finite."""
    write_gradient(state.gradient, theta, state.slope, count)
    count[TOUCHED] += state.gradient.n_obs
    drift(state.step_size, state.scale, state.upper, theta, state.slope, out)
    add_noise(rng, state.step_size, state.scale, state.upper, out)
    return 0.0 * out.sum()  # NaN stops the chain


@compiled
def adapt_step_size(state: LangevinState, acceptance: float, step: int) -> None:
    """Tune the step size to the target acceptance rate; `step` counts tuning steps from 0."""
    state.log_factor[0] += 2.0 * (acceptance - state.target_acceptance) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class Langevin(Component, Proposal):
    """MALA, Metropolis-adjusted Langevin: theta' ~ N(theta + (step_size/2) M grad log p(theta|x), step_size M).

    Parameters
    ----------
    step_size
        alpha, the *variance* of the noise (times M); positive. The drift has alpha/2.
    cov
        M: a covariance, shape (dim, dim), or standard deviations, shape (dim,). None: the identity.
    preconditioner
        The matrix M as for `cov`, or a Laplace approximation, whose covariance is used; give one of the two.
    target_acceptance
        Target acceptance rate in (0, 1). Tuning adapts alpha to reach this rate; afterwards alpha is fixed. None: alpha
        is used as given. 0.574 is best for exact tests in high dimension (Roberts and Rosenthal 1998).

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient or another dimension, or `target_acceptance` is given without a test.

    Notes
    -----
    Guarantee: with :class:`ExactTest`, exact (MALA). With :class:`AlwaysAccept` this is the unadjusted Langevin
    algorithm, biased by order alpha; on a one-dimensional normal target of precision A it is stable for alpha M < 4/A
    and has the variance 1 / (A (1 - alpha M A / 4)). With another test, the guarantee of the test. Cost: N gradients a
    step, at theta' with a test, where the gradient at theta is cached, and at theta without one.

    References
    ----------
    Besag (1994); Roberts and Tweedie (1996).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0)
    >>> mala = amc.MetropolisHastings(amc.Langevin(0.1), amc.ExactTest())
    >>> trace = amc.sample(target, mala, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> trace.sample_stats["gradient_evaluations"].values[0, :3].tolist()
    [400, 200, 200]
    """

    error_untested = "untested Langevin steps are biased, by order step_size"

    step_size: float
    cov: Any = None
    preconditioner: Any = None
    target_acceptance: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges; a Laplace approximation becomes its covariance."""
        object.__setattr__(self, "step_size", checked_step_size(self.step_size))
        if self.cov is not None and self.preconditioner is not None:
            raise InvalidInputError("Langevin: give either cov or preconditioner, because both are names of one matrix")
        for name in ("cov", "preconditioner"):
            object.__setattr__(self, name, checked_preconditioner(getattr(self, name)))
        check_target_acceptance(self.target_acceptance)

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal with its density ratio."""
        make_state = self._states(target)
        records = ("gradient_evaluations",)
        if self.target_acceptance is None:
            return CompiledProposal(propose, make_state, forget=forget, couple=couple, records=records)
        learns = (adapt_step_size, *tuned_factor("step_size", self.step_size))
        return CompiledProposal(propose, make_state, *learns, forget=forget, couple=couple, records=records)

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal without a density ratio."""
        return CompiledProposal(move, self._states(target), records=("gradient_evaluations",))

    @names_itself()
    def _states(self, target: Target) -> Callable[[], LangevinState]:
        likelihood_gradient = gradient_of(target)
        dim = target.variables.size
        spread = spread_of(self.preconditioner if self.cov is None else self.cov, dim)
        kernels = (
            likelihood_gradient.add_gradient,
            likelihood_gradient.add_prior_gradient,
            likelihood_gradient.prior_rows,
        )
        gradient = PosteriorGradient(likelihood_gradient.data, likelihood_gradient.n_obs, ALL_ROWS, *kernels)
        settings = (gradient, self.step_size, *spread, self.target_acceptance or 0.0)
        return lambda: LangevinState(*settings, np.zeros(1), *(np.full(dim, math.nan) for _ in range(6)))
