"""Samplers of this library, with and without each lever, and the same exact step in plain NumPy."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

import approxmcmc as amc
from studies.race.problems import MIXED, PCN, PRIOR_SCALE, WALK, Lap, Problem, cpu_seconds

BASE = "exact, walk"


@dataclasses.dataclass(frozen=True)
class Rival:
    """A sampler in the race; `make` returns its runner, ``run(steps) -> Lap``.

    `lever` names what makes it faster than the baseline. `mixes_as` is the rival whose mixing is used if rounds are too
    short to measure this one's. `setup_seconds` is the time of set-up without compilation; NaN if unknown.
    """

    name: str
    proposal: str
    lever: str
    make: Callable[[], Callable[[int], Lap]]
    same: str = ""  # the exact sampler that it is compared with, if possible one with the same proposal
    mixes_as: str = ""
    steps: int = 0  # steps in a round; 0: as many as take the seconds of a round
    setup_seconds: float = math.nan


def numpy_walk(problem: Problem) -> Callable[[int], Lap]:
    """Return the exact random walk in plain NumPy; BLAS on one thread."""
    X = problem.X
    y = np.asarray(problem.y, float)
    rng = np.random.default_rng(1)
    L = 2.38 / math.sqrt(problem.dim) * problem.fit.cholesky

    def log_density(theta: np.ndarray) -> float:
        eta = X @ theta
        return float(y @ eta - np.logaddexp(0.0, eta).sum() - 0.5 * theta @ theta / PRIOR_SCALE**2)

    state = [problem.fit.draw(rng)]
    current = [log_density(state[0])]

    def run(steps: int) -> Lap:
        draws = np.empty((steps, problem.dim))

        def walk() -> None:
            for k in range(steps):
                proposed = state[0] + L @ rng.standard_normal(problem.dim)
                there = log_density(proposed)
                if math.log(1.0 - rng.random()) < there - current[0]:
                    state[0], current[0] = proposed, there
                draws[k] = state[0]

        return Lap(draws, len(y), cpu_seconds(walk))

    return run


def our_rivals(problem: Problem, first_look: int = 500) -> list[Rival]:
    """Return the rivals of this library; `first_look` is the batch size of t-tests without control variates."""
    n_obs = problem.target.n_obs

    def t_test(proposal: str, epsilon: float, order: str) -> Callable[[], Callable[[int], Lap]]:
        return lambda: problem.chain(proposal, amc.SequentialTTest(epsilon, first_look, order=order))

    def residual_test(proposal: str, epsilon: float) -> Callable[[], Callable[[int], Lap]]:
        looks = amc.SequentialTTest(epsilon, 64 if n_obs < 300_000 else 32, growth=2.0, tol=0.05)
        return lambda: problem.chain(proposal, looks, residuals=True)

    def barker() -> Callable[[int], Lap]:
        return problem.chain(WALK, amc.acceptance.MinibatchBarker())

    def exact(proposal: str) -> Callable[[], Callable[[int], Lap]]:
        return lambda: problem.chain(proposal, amc.ExactTest())

    pcn = f"exact, {PCN}"
    mixed = "exact, mixture"
    like = {name: f"control variates, {name}, .01" for name in (WALK, PCN)} | {MIXED: "control variates, mixture, .01"}
    both = "control variates, proposal"
    return [
        Rival(BASE, WALK, "none: the weak baseline", exact(WALK), BASE, like[WALK]),
        Rival(pcn, PCN, "proposal", exact(PCN), pcn, like[PCN]),
        Rival(mixed, MIXED, "proposal", exact(MIXED), mixed, like[MIXED]),
        Rival("NumPy exact, walk", WALK, "no compilation", lambda: numpy_walk(problem), BASE, like[WALK]),
        Rival("t-test .05, rows, walk", WALK, "subsampling", t_test(WALK, 0.05, "rows"), BASE, like[WALK]),
        Rival("t-test .05, walk", WALK, "subsampling, blocks", t_test(WALK, 0.05, "auto"), BASE, like[WALK]),
        Rival("t-test .05, pCN(0)", PCN, "subsampling, blocks, proposal", t_test(PCN, 0.05, "auto"), pcn, like[PCN]),
        Rival("minibatch Barker, walk", WALK, "subsampling, blocks", barker, BASE, like[WALK]),
        Rival(like[WALK], WALK, "control variates", residual_test(WALK, 0.01), BASE),
        *(
            Rival(f"control variates, {name}, {label}", proposal, both, residual_test(proposal, float(label)), same)
            for name, proposal, same in ((PCN, PCN, pcn), ("mixture", MIXED, mixed))
            for label in (".01", ".05")
        ),
    ]
