"""The normal law of a posterior that has no mode, as a hierarchy whose scale may go to 0: measured by an exact chain.

Rounds of steps, each with the covariance that the round before measured (Haario, Saksman and Tamminen 2001). Langevin
steps where the target has a gradient: they forget in some d^(1/3) steps, a walk in some d.
"""

import math
import time
import warnings
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Proposal, Streams, Target
from approxmcmc.contracts.records import EVALUATIONS, GRADIENTS
from approxmcmc.design.candidates import why_no_gradient
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import NotFiniteError, SamplingWarning
from approxmcmc.proposals import Langevin, RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import Laplace

# Steps of each round, half of them to adapt the scale. On a hierarchy of 12 parameters the standard deviations come out
# within a third of the right ones, which is all that a proposal asks of them.
ROUNDS = (300, 600, 1200, 2400)
FIRST = 0.01  # variance of each coordinate to begin with; it adapts within some ten steps
RUNAWAY = 5.0  # growth in the last round: up to 3.7 on a hierarchy of 10 parameters, 1e11 on separable classes


def normal_by_pilot(target: Any, *, random_seed: Any = None) -> Laplace:
    """Return the normal law with mean and covariance of an exact chain, for a posterior without a mode.

    Each round moves by the covariance that the round before measured, shrunk to its diagonal; the step adapts to the
    acceptance rate that is best for its kind. The last half of the last round counts.

    Warns
    -----
    SamplingWarning
        Where a standard deviation still grew manifold in the last round, as under an improper posterior.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> target = amc.targets.LogisticRegression(np.ones((100, 1)), np.arange(100) % 2)
    >>> bool(0.1 < normal_by_pilot(target, random_seed=1).sd[0] < 0.4)  # 2 / sqrt(100)
    True
    """
    began = time.perf_counter()
    dim, evaluations = target.variables.size, 0
    theta, cov = np.array(target.initial_point(), dtype=np.float64), FIRST * np.eye(dim)
    proposal = _walk if why_no_gradient(target) else _langevin
    for steps, sequence in zip(ROUNDS, seed_sequences(random_seed, len(ROUNDS))[0], strict=True):
        half = steps // 2
        states, used = _exact_steps(target, proposal(cov), theta, steps, half, streams(sequence))
        states, evaluations = states[half:], evaluations + used
        theta, found, before = states[-1], np.cov(states, rowvar=False).reshape(dim, dim), np.diag(cov)
        weight = half / (half + 10.0 * dim)
        cov = weight * found + (1.0 - weight) * np.diag(np.diag(found)) + 1e-12 * np.eye(dim)
    growth = np.sqrt(np.diag(cov) / before)
    if growth.max() > RUNAWAY:
        warnings.warn(
            f"no mode was found, and the standard deviation of {target.variables.labels()[growth.argmax()]} still grew "
            f"by a factor of {growth.max():.3g} in the last of {len(ROUNDS)} pilot runs: the posterior may be "
            "improper, as under a flat prior with separable classes or collinear predictors; give it a proper prior",
            SamplingWarning,
            stacklevel=3,
        )
    passes, seconds = evaluations // target.n_obs, time.perf_counter() - began
    return Laplace(states.mean(axis=0), cov, decrement=math.nan, passes=passes, seconds=seconds)


def _walk(cov: np.ndarray) -> RandomWalk:
    return RandomWalk(2.38 / math.sqrt(len(cov)), target_acceptance=0.25, preconditioner=cov)


def _langevin(cov: np.ndarray) -> Langevin:
    return Langevin(1.65**2 / len(cov) ** (1 / 3), target_acceptance=0.574, preconditioner=cov)


def _exact_steps(
    target: Target, proposal: Proposal, theta: np.ndarray, steps: int, tune: int, own: Streams
) -> tuple[np.ndarray, int]:
    """Return the states of an exact chain, shape (steps, dim), and the terms that it evaluated."""
    chain = MetropolisHastings(proposal, ExactTest()).build(target, audit_every=None).start(theta, own, tune)
    states, values = np.empty((steps, theta.size)), np.empty((steps, len(VALUE_NAMES)))
    counts = np.empty((steps, len(COUNT_NAMES)), np.int64)
    if chain.advance(steps, 1, states, counts, values) < steps:
        raise NotFiniteError(f"a pilot run stopped: {chain.explain_failure()}")
    return states, int(counts[:, [EVALUATIONS, GRADIENTS]].sum())
