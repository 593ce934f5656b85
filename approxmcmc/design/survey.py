"""What is known of a target before anything is tried: its mode and the curvature there, and what a pass takes."""

import dataclasses
import functools
import math
import time
import timeit
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledTarget, DiscreteTarget, DoublyIntractableTarget, Target
from approxmcmc.design.normal_by_pilot import normal_by_pilot
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.surrogate import CoreRows
from approxmcmc.surrogate.pilot import run_pilot
from approxmcmc.targets import Laplace, laplace
from approxmcmc.targets.expansion.general import GeneralExpansion
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.predictors.base import PredictorsTarget

TIMED_ROWS = 1 << 17  # at a time, to price a pass over all
FEW_ROWS = 256  # likewise for gradients row by row
EXPANSION_PASSES = 10  # where terms have linear predictors: a survey, which is dearer, and bounds


@dataclasses.dataclass(frozen=True, eq=False)
class Situation:
    """What is known of a target before anything is tried.

    Parameters
    ----------
    target
        The posterior.
    fit
        The normal law at the mode or, with a `decrement` of NaN, of a pilot; None where theta has none.
    pass_seconds
        Seconds in which all terms are evaluated once.
    seed
        Of pilot chains.
    """

    target: Target
    fit: Laplace | None
    pass_seconds: float
    seed: int = 0

    @property
    def dim(self) -> int:
        """Length of theta."""
        return int(self.target.variables.size)

    @property
    def law(self) -> Laplace:
        """The normal law, for candidates that need one."""
        if self.fit is None:
            raise IncompatibleError(f"{self.target!r} has no normal approximation")
        return self.fit

    @property
    def has_mode(self) -> bool:
        """Whether the normal law is that at a mode."""
        return not math.isnan(self.law.decrement)

    @functools.cached_property
    def pilot(self) -> Laplace:
        """The normal law of a pilot chain, whether there is a mode or not."""
        return normal_by_pilot(self.target, random_seed=self.seed) if self.has_mode else self.law

    @functools.cached_property
    def expansion_seconds(self) -> float:
        """Seconds in which every row is expanded, at best: by closed forms, differences of gradients, or of terms.

        Gradients row by row are measured: one of PyTensor's code takes as long as 20 rows of a pass.
        """
        if isinstance(self.target, LinearTarget | PredictorsTarget):
            return EXPANSION_PASSES * self.pass_seconds
        expansion, theta = GeneralExpansion(self.target, 2), self.law.mode
        if expansion.gradients is None:
            return self.dim**2 * self.pass_seconds
        rows = min(expansion.n_rows, FEW_ROWS)
        runs = timeit.repeat(lambda: expansion.slopes(theta, 0, rows), timer=time.thread_time, number=1, repeat=3)
        return 2.0 * self.dim * min(runs) * expansion.n_rows / rows

    @functools.cached_property
    def core_rows(self) -> CoreRows:
        """The posterior with its core rows, shared by the candidates that differ in the test alone."""
        return CoreRows(self.target, at=run_pilot(self.target, fit=self.law))

    @property
    def has_core_rows(self) -> bool:
        """Whether somebody has asked for them."""
        return "core_rows" in self.__dict__


def survey(target: Any, seed: int) -> Situation:
    """Find the mode, or what stands in for it, and time a pass over the data."""
    if not isinstance(target, Target):
        raise IncompatibleError(
            f"choose_sampler needs a target, found {type(target).__name__}; give a pm.Model to from_pymc first"
        )
    if isinstance(target, (DiscreteTarget, DoublyIntractableTarget)):
        return Situation(target, None, 0.0)
    fit = _normal_law(target, seed)
    compiled = target.compile()
    return Situation(target, fit, _pass_seconds(compiled, fit.mode), seed)


def _pass_seconds(compiled: CompiledTarget, theta: np.ndarray) -> float:
    """Return the seconds in which one thread evaluates all terms, from some rows at a time."""
    rows = min(compiled.n_obs, TIMED_ROWS)
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < 5 and sum(seconds) < 0.01):
        lo = len(seconds) * rows % (compiled.n_obs - rows + 1)
        out, began = np.empty(rows), time.thread_time()
        compiled.log_terms(theta, compiled.data, ALL_ROWS, lo, lo + rows, out)
        seconds.append(time.thread_time() - began)
    return min(seconds) * compiled.n_obs / rows


def _normal_law(target: Any, seed: int) -> Laplace:
    try:
        return laplace(target)
    except InvalidInputError:
        return normal_by_pilot(target, random_seed=seed)
