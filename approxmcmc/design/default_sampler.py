"""The sampler for a user who named none: mode, curvature, pilot, and one sentence that says what was chosen.

1. the mode of the posterior and the curvature there, N(mode, H^-1); where there is no mode, as in a hierarchy whose
   scale may go to 0, mean and covariance of an adaptive exact chain (Haario, Saksman and Tamminen 2001, in rounds);
2. a random walk of 2.38 / sqrt(d) of its standard deviations (Roberts, Gelman and Gilks 1997);
3. pilot pairs of an exact chain, and the sequential test that reads least at a mean acceptance error of 0.02;
4. where that test reads too much of the data to pay, the exact one: with the walk, or with Langevin steps (MALA) where
   the target has a gradient and a mode.
"""

import dataclasses
import math
import time
import warnings
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import DifferentiableTarget
from approxmcmc.design.pairs import collect_pairs
from approxmcmc.design.sequential_test import design_test
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.proposals import Langevin, RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import Laplace, laplace

ALLOWED_ERROR = 0.02
# A pilot that starts at the mode, with steps of the posterior's size, needs no long burn-in: 350 passes over the data.
SHORT_PILOT: dict[str, Any] = {"n_pairs": 300, "tune": 50}
# A datum read for a test costs up to twice one read in an exact pass: two values of theta, and only the current one is
# sometimes cached. Below this share of the data the test pays against the exact walk.
WORTHWHILE_FRACTION = 0.6
# Against exact Langevin steps it must be cheaper: on models of 8 and 12 parameters these gave 7 and 13 times the
# effective draws of the walk, in 1.4 and 1.7 times its CPU time.
WORTHWHILE_WITH_GRADIENT = 0.1
# Steps of each round without a mode, half of them to adapt the scale. On a hierarchy of 12 parameters the standard
# deviations come out within a third of the right ones, which is all that a random walk asks of them.
ROUNDS = (300, 600, 1200, 2400)
RUNAWAY = 5.0  # growth in the last round: up to 3.7 on a hierarchy of 10 parameters, 1e11 on separable classes


@dataclasses.dataclass(frozen=True)
class DefaultSampler:
    """A sampler that was chosen for a target, and why.

    Parameters
    ----------
    sampler
        What to run.
    laplace
        The normal approximation, at the mode or by the pilot (`decrement` is then NaN); chains start in draws of it.
    sentence
        One line for the user.
    attrs
        What the choice cost, and the predicted error: for the trace.
    """

    sampler: MetropolisHastings
    laplace: Laplace
    sentence: str
    attrs: dict[str, Any]


def default_sampler(target: Any, *, random_seed: Any = None) -> DefaultSampler:
    """Choose a sampler for a tall-data target, by its mode, its curvature and a pilot run.

    Parameters
    ----------
    target
        A target with continuous parameters and terms.
    random_seed
        Of the pilot.

    Raises
    ------
    InvalidInputError
        When the target's initial point has no finite log density.
    NotFiniteError
        When a term or the prior is NaN or infinite on the way to the mode, or in the pilot.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = amc.targets.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> chosen = amc.bounds.default_sampler(target, random_seed=1)
    >>> chosen.sampler.proposal, chosen.sampler.test  # doctest: +ELLIPSIS
    (Langevin(step_size=2.1..., target_acceptance=0.574), ExactTest(rule='metropolis'))
    """
    began = time.perf_counter()
    try:
        fit, origin = laplace(target), "at the mode"
    except InvalidInputError:
        fit, origin = normal_by_pilot(target, random_seed=random_seed), "of a pilot run, as there is no mode"
    dim = target.variables.size
    walk = RandomWalk(2.38 / math.sqrt(dim), preconditioner=fit)
    designed = design_test(
        target, proposal=walk, error=ALLOWED_ERROR, initvals=fit.mode, random_seed=random_seed, **SHORT_PILOT
    )
    guided = math.isfinite(fit.decrement) and _has_gradient(target)
    steps = f"a random walk of {walk.scale:.2g} posterior standard deviations {origin}"
    cost = f"{designed.data_fraction:.0%} of {target.n_obs} data per decision"
    if designed.data_fraction < (WORTHWHILE_WITH_GRADIENT if guided else WORTHWHILE_FRACTION):
        sampler = MetropolisHastings(walk, designed.test)
        says = f"{steps}, {designed.test!r}: expect {cost}, a mean acceptance error of {designed.error:.2g}"
    elif guided:
        # 1.65^2 d^(-1/3) and .574 are best in high dimension (Roberts and Rosenthal 1998).
        langevin = Langevin(1.65**2 / dim ** (1 / 3), preconditioner=fit, target_acceptance=0.574)
        sampler = MetropolisHastings(langevin, ExactTest())
        says = (
            f"Langevin steps (MALA) scaled by the curvature {origin}, ExactTest(): with a random walk an approximate "
            f"test would read {cost} at an error of {ALLOWED_ERROR}"
        )
    else:
        sampler = MetropolisHastings(walk, ExactTest())
        says = f"{steps}, ExactTest(): an approximate test would read {cost} at an error of {ALLOWED_ERROR}"
    attrs = {
        "setup_mode_seconds": fit.seconds,
        "setup_mode_passes": fit.passes,
        "setup_design_seconds": time.perf_counter() - began - fit.seconds,
        "setup_design_likelihood_evaluations": designed.setup_likelihood_evaluations,
        "chosen": says,
    }
    return DefaultSampler(sampler, fit, says, attrs)


def _has_gradient(target: Any) -> bool:
    if not isinstance(target, DifferentiableTarget):
        return False
    try:
        target.compile_gradient()
    except IncompatibleError:
        return False
    return True


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
