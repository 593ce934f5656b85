"""Seconds of a step for each epsilon, from short timed chains."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.contracts.records import EVALUATIONS, SECONDS
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.assembly import assemble, make_steps

TIMED_EPSILONS = (0.2, 0.01)  # timed, as well as 0; for other epsilons, seconds are linear in the data read
TIMED_STEPS = 50


def seconds_per_step(
    target: Any,
    proposal: Any,
    test: SequentialTTest,
    epsilons: Sequence[float],
    fraction: np.ndarray,
    theta: np.ndarray,
) -> tuple[np.ndarray, int]:
    """Return the seconds of a step for each epsilon, and the evaluations that measuring them took.

    Chains start at `theta`. Steps are timed for 0 and one or two other epsilons; for the rest, seconds are linear in
    `fraction`, the share of the data that a decision reads, shape (n_epsilons,).
    """
    tests = {epsilon: dataclasses.replace(test, epsilon=epsilon) for epsilon in _timed(epsilons)}
    seconds = {}
    evaluations = 0
    for epsilon, acceptance_test in {**tests, 0.0: ExactTest()}.items():
        seconds[epsilon], used = _time_steps(target, proposal, acceptance_test, theta)
        evaluations += used
    places = [list(epsilons).index(epsilon) for epsilon in tests]
    measured = np.array([seconds[epsilon] for epsilon in tests])
    if len(places) > 1 and np.ptp(fraction[places]) > 0.0:
        slope = max((measured[1] - measured[0]) / (fraction[places[1]] - fraction[places[0]]), 0.0)
        price = np.maximum(measured.mean() + slope * (fraction - fraction[places].mean()), 0.5 * measured.min())
    else:
        price = measured[0] * fraction / fraction[places[0]]
    return np.where(np.asarray(epsilons) == 0.0, seconds[0.0], price), evaluations


def _timed(epsilons: Sequence[float]) -> list[float]:
    """Return the one or two positive epsilons nearest, on a log scale, to `TIMED_EPSILONS`."""
    positive = [epsilon for epsilon in epsilons if epsilon > 0.0]
    nearest = [min(positive, key=lambda e: abs(math.log(e / requested))) for requested in TIMED_EPSILONS]
    return list(dict.fromkeys(nearest))


def _time_steps(target: Any, proposal: Any, test: Any, theta: np.ndarray) -> tuple[float, int]:
    """Run a short chain from theta; return its seconds per step, and its evaluations."""
    sampler = MetropolisHastings(proposal, test)
    [chain] = assemble(target, sampler, seed=0, chains=1, tune=0, initvals=theta).chains
    run = make_steps(chain, TIMED_STEPS, len(theta), message="plan_annealing")
    return float(run.values[:, SECONDS].mean()), int(run.counts[:, EVALUATIONS].sum())
