"""Surrogate transitions on influential rows against exact Langevin steps, on data of `tall_target` and on dense data.

Random walks and independent draws of the Laplace approximation, the other rivals, hardly move on rare categories.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import approxmcmc as amc
from approxmcmc.datasets import TALL_DATA, synthetic_logistic, tall_target
from studies.race.problems import Lap, chain_of
from studies.race.rivals import Rival

MALA = "exact MALA"
DENSE = {"dense_1e5": 100_000}
COMPILING = 2  # repetitions of a set-up: the first compiles, the last is timed


class TallProblem:
    """One posterior, its Laplace approximation and its influential rows, and the CPU seconds to make each."""

    def __init__(self, name: str, target: Any) -> None:
        self.name, self.target = f"{name}, N = {target.n_obs}, d = {target.variables.size}", target
        self.X, self.y, self.dim = target.X, target.y, target.variables.size
        self.fit, self.mode_seconds = timed(functools.partial(amc.laplace, target))
        self.split, self.split_seconds = timed(functools.partial(amc.ControlVariate, target, always_read="auto"))
        self.setup_seconds = self.split_seconds

    def chain(self, sampler: Any, form: Any = None, *, seed: int = 1) -> Callable[[int], Lap]:
        """Start a chain at a draw of the pilot, as in `chain_of`, on a form of the target; None: on the target."""
        return chain_of(sampler, form or self.target, self.split.pilot.draws[-seed % 16], seed=seed)


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function, and its CPU seconds when all code is compiled."""
    for _ in range(COMPILING):
        began = time.process_time()
        result = make()
        seconds = time.process_time() - began
    return result, seconds


def tall_problem(name: str) -> TallProblem:
    """Return one of the data sets of `tall_target`, or dense normal data."""
    if name in TALL_DATA:
        return TallProblem(name, tall_target(name))
    n_obs, dim = (DENSE[name], 50) if name in DENSE else (2000, 5)
    return TallProblem(name, amc.targets.LogisticRegression(*synthetic_logistic(n_obs, dim, seed=0)))


def tall_rivals(problem: TallProblem) -> list[Rival]:
    """Return exact Langevin steps, and surrogate transitions with exact tests and with a t-test."""

    def mala() -> Callable[[int], Lap]:
        return problem.chain(
            amc.MetropolisHastings(
                amc.Langevin(1.65**2 / math.cbrt(problem.dim), preconditioner=problem.fit), amc.ExactTest()
            )
        )

    def surrogate(test: Any, steps: int = 1) -> Callable[[], Callable[[int], Lap]]:
        sampler = amc.MetropolisHastings(amc.SurrogateTransition(steps=steps), test)
        return lambda: problem.chain(sampler, problem.split)

    small = amc.SequentialTTest(0.01, 64, growth=2.0, tol=0.2)
    return [
        Rival(MALA, "Langevin", "gradients on all data", mala, MALA, setup_seconds=problem.mode_seconds),
        *(
            Rival(name, "surrogate", lever, surrogate(*settings), MALA, setup_seconds=problem.split_seconds)
            for name, lever, *settings in (
                ("influential rows, exact", "influential rows, few reads where that is exact", None),
                ("influential rows, exact, 3 steps", "the same, three transitions a decision", None, 3),
                ("influential rows, t-test .01, tol .2", "influential rows, subsampling", small),
            )
        ),
    ]


def tall_reference(problem: TallProblem) -> Callable[[int], Lap]:
    """Return a long exact chain, whose seed no rival uses."""
    return problem.chain(amc.MetropolisHastings(amc.SurrogateTransition()), problem.split, seed=99)
