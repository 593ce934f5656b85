"""A normal approximation of a posterior with an uninformative mode, such as a hierarchy, from an exact chain.

The pilot makes rounds of steps, each with the covariance measured in the previous round (Haario, Saksman and Tamminen
2001). If the target has a gradient, steps are Hamiltonian trajectories: in the metric of the posterior each gives
nearly an independent draw, while a walk needs about d steps.

With more than 600 parameters, as in crossed effects, no round is long enough to measure a covariance. Then the inverse
of minus the Hessian takes its place, at the mean of a round's states, if terms are functions of linear predictors:
effects have a nearly normal fit given the scales.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import DifferentiableTarget, Proposal, Target
from approxmcmc.contracts.records import EVALUATIONS, GRADIENTS
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, NotFiniteError, SamplingWarning, warn
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import is_positive_definite
from approxmcmc.numerics import Laplace
from approxmcmc.numerics.sparse_normal import NormalFit, SparseNormal, normal_by_precision
from approxmcmc.proposals import Hamiltonian, RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.assembly import assemble, make_steps
from approxmcmc.targets.regression import Regression

# Variance of each coordinate in the metric of the first round; its step size adapts within about ten steps.
FIRST = 0.01
# Growth of a standard deviation in the last round: at most 3.7 on a hierarchy of 10 parameters, 1e11 on separable
# classes.
RUNAWAY = 5.0
LEAPFROGS = 8  # gradients of a trajectory, about; only for estimates of cost
# Parameters for each state of a round, above which states say less of a covariance than the Hessian does.
TOO_MANY = 3.0


class PilotSettings(NamedTuple):
    """Steps of each round (half of them adapt) and the proposal for a covariance.

    `memory` is the number of steps for an independent draw, divided by the dimension.
    """

    rounds: tuple[int, ...]
    proposal: Callable[[Any], Proposal]
    memory: float


def trajectories(cov: Any) -> Hamiltonian:
    """Return trajectories of 2.2 standard deviations for the covariance `cov`, or the `Laplace` with it.

    On a normal distribution their draws are independent or negatively correlated.
    """
    dim = len(getattr(cov, "mode", cov))
    return Hamiltonian(dim**-0.25, length=2.2, preconditioner=cov, target_acceptance=0.8)


def _walk(cov: Any) -> RandomWalk:
    return RandomWalk(2.38 / math.sqrt(len(cov)), target_acceptance=0.25, preconditioner=cov)


# On a hierarchy of 54 parameters, 50 groups of 40 rows, trajectories take 6000 passes over the data, and a kernel with
# their covariance then needs 3 steps for an effective draw. Langevin steps took 9000 passes, and the kernel needed 20
# steps.
BY_TRAJECTORIES = PilotSettings((50, 100, 200, 400), trajectories, 1.0)
BY_WALK = PilotSettings((300, 600, 1200, 2400), _walk, 10.0)


def why_no_gradient(target: Target) -> str:
    """Return why the target has no gradient steps, or ""."""
    if not isinstance(target, DifferentiableTarget):
        return "the target has no gradient"
    try:
        target.compile_gradient()
    except IncompatibleError as error:
        return f"the target has no gradient: {error}"
    return ""


def normal_by_pilot(target: Any, *, random_seed: Any = None) -> NormalFit:
    """Return a normal distribution with mean and covariance of an exact chain, for a posterior without a useful mode.

    Each round proposes with the covariance that the round before measured, shrunk towards its diagonal; the step size
    adapts to an acceptance rate of 0.8 for trajectories and 0.25 for a random walk. The result is from the second
    half of the last round; its covariance is shrunk, too. With more than 600 parameters in linear predictors the
    covariances are inverse Hessians where these exist, and the second round is the last.

    Warns
    -----
    SamplingWarning
        If a standard deviation still grew more than fivefold in the last round, as under an improper posterior.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> target = amc.LogisticRegression(np.ones((100, 1)), np.arange(100) % 2)
    >>> bool(0.1 < normal_by_pilot(target, random_seed=1).sd[0] < 0.4)  # 2 / sqrt(100)
    True
    """
    began = time.perf_counter()
    dim = target.variables.size
    evaluations = 0
    theta = np.array(target.initial_point(), dtype=np.float64)
    bent = None
    spread: np.ndarray | NormalFit = np.full(dim, math.sqrt(FIRST))
    rounds, proposal, memory = BY_WALK if why_no_gradient(target) else BY_TRAJECTORIES
    has_many = is_by_curvature(target)
    for steps, sequence in zip(rounds, seed_sequences(random_seed, len(rounds))[0], strict=True):
        half = steps // 2
        is_last = bent is not None
        sampler = MetropolisHastings(proposal(spread), ExactTest())
        pilot_run = assemble(target, sampler, seed=[streams(sequence)], chains=1, tune=half, initvals=theta)
        run = make_steps(pilot_run.chains[0], steps, dim, message="a pilot run stopped")
        states = run.draws[half:]
        evaluations += pilot_run.evaluations * target.n_obs + int(run.counts[:, [EVALUATIONS, GRADIENTS]].sum())
        theta = states[-1].copy()
        before = _sd(spread)
        bent = _by_curvature(target, states.mean(axis=0)) if has_many else None
        spread = _measured(states, half / (half + memory * dim)) if bent is None else bent
        if is_last and bent is not None:
            break
    growth = _sd(spread) / before
    if growth.max() > RUNAWAY:
        warn(
            f"normal_by_pilot: the standard deviation of {target.variables.labels()[growth.argmax()]} still grew by a "
            f"factor of {growth.max():.3g} in the last round of steps: the posterior may be improper, as under a flat "
            "prior with separable classes or collinear predictors; give it a proper prior",
            SamplingWarning,
        )
    passes = evaluations // target.n_obs
    seconds = time.perf_counter() - began
    fit = Laplace(states.mean(axis=0), spread, decrement=math.nan) if bent is None else bent
    return dataclasses.replace(fit, passes=passes, seconds=seconds)


def is_by_curvature(target: Target) -> bool:
    """Return whether a pilot takes covariances from Hessians, which are in closed form, since it has too few states."""
    last = BY_TRAJECTORIES.rounds[-1] // 2
    return isinstance(target, Regression) and target.variables.size > TOO_MANY * last


def gradients_of_pilot(target: Target) -> int:
    """Return about how many gradients on all data a pilot with trajectories takes."""
    rounds = BY_TRAJECTORIES.rounds
    return LEAPFROGS * sum(rounds[:2] if is_by_curvature(target) else rounds)


def numbers_of_metric(target: Target, fit: Any) -> float:
    """Return how many numbers a product with the metric of a pilot's `fit` reads: dim^2, or fewer if it is sparse.

    Before the pilot (`fit` is None) the answer is dim, a lower bound, if the metric may be sparse; else dim^2.
    """
    if isinstance(fit, SparseNormal):
        return fit.factor.numbers
    has_effects = isinstance(target, Regression) and target.design.codes.size > 0
    dim = target.variables.size
    return float(dim if fit is None and has_effects and is_by_curvature(target) else dim**2)


def _measured(states: np.ndarray, weight: float) -> np.ndarray:
    """Return the covariance of states (n, dim), shrunk towards its diagonal; the covariance has the share `weight`."""
    covariance = np.cov(states, rowvar=False).reshape(2 * states.shape[1:])
    return weight * covariance + (1.0 - weight) * np.diag(np.diag(covariance)) + 1e-12 * np.eye(len(covariance))


def _by_curvature(target: Target, theta: np.ndarray) -> NormalFit | None:
    """Return the normal fit at theta with the precision minus the Hessian; None if it is not positive definite."""
    try:
        precision = -Posterior(target).at(theta).hessian
    except NotFiniteError:
        return None
    return normal_by_precision(theta, precision) if is_positive_definite(precision) else None


def _sd(spread: Any) -> np.ndarray:
    """Return the standard deviations of a fit or a covariance, or `spread` itself if it holds them."""
    if isinstance(spread, NormalFit):
        return spread.sd
    return np.sqrt(np.diag(spread)) if spread.ndim > 1 else spread
