"""The normal law of a posterior that has no mode, as a hierarchy whose scale may go to 0: measured by an exact chain.

Rounds of a random walk, each with the covariance that the round before measured (Haario, Saksman and Tamminen 2001).
"""

import math
import time
import warnings
from typing import Any

import numpy as np

from approxmcmc.design.pairs import collect_pairs
from approxmcmc.errors import SamplingWarning
from approxmcmc.proposals import RandomWalk
from approxmcmc.targets import Laplace

# Steps of each round, half of them to adapt the scale. On a hierarchy of 12 parameters the standard deviations come out
# within a third of the right ones, which is all that a random walk asks of them.
ROUNDS = (300, 600, 1200, 2400)
RUNAWAY = 5.0  # growth in the last round: up to 3.7 on a hierarchy of 10 parameters, 1e11 on separable classes


def normal_by_pilot(target: Any, *, random_seed: Any = None) -> Laplace:
    """Return the normal law with mean and covariance of an exact random walk, for a posterior without a mode.

    Each round walks by the covariance that the round before measured, shrunk to its diagonal; the scale adapts to an
    acceptance rate of 1/4. The last half of the last round counts.

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
    theta, cov, scale = np.array(target.initial_point(), dtype=np.float64), np.eye(dim), 0.1
    for steps in ROUNDS:
        walk = RandomWalk(scale, target_acceptance=0.25, preconditioner=cov)
        half = steps // 2
        pairs = collect_pairs(target, walk, n_pairs=half, tune=half, initvals=theta, random_seed=random_seed)
        theta, evaluations = pairs.states[-1], evaluations + pairs.likelihood_evaluations
        found, before = np.cov(pairs.states, rowvar=False).reshape(dim, dim), np.diag(cov)
        weight = half / (half + 10.0 * dim)
        cov = weight * found + (1.0 - weight) * np.diag(np.diag(found)) + 1e-12 * np.eye(dim)
        scale = 2.38 / math.sqrt(dim)
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
    return Laplace(pairs.states.mean(axis=0), cov, decrement=math.nan, passes=passes, seconds=seconds)
