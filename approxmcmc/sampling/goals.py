"""Decide how long chains run: for a fixed number of draws, until thinned draws suffice, or until a target ESS.

With a target E the smallest ESS is computed after n_1 < n_2 < ... draws of each chain,

    n_1 = max(E / chains, 100),    n_{k+1} = n_k min(4, max(1.25, E / ESS_k)),

and the chains end at the first n_k with ESS_k >= E. Every n_k depends only on the draws, so a run is a function of its
seed, independent of clock and threads. A check takes as long after 10^5 draws as after 10^4, because it uses a bounded
number of draws. The number of checks grows like log n, so their share of the time goes to 0.

Records are bounded: if they would exceed 32 MB a chain, every second draw is dropped and the chain thins by twice as
much from then on. All chains do so at the same checks, so the thinning is uniform over the run.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES

FEWEST_DRAWS = 100  # per chain; with fewer an ESS is mostly its own noise
# an early ESS is a rough guess, so jumps are limited
LEAST_GROWTH = 1.25
MOST_GROWTH = 4.0
HALVED = 4  # divides the number of draws kept at a goal, because the next goal has at most four times as many
BYTES = 2**25  # largest size of the draws and records of a chain
FEWEST_KEPT = 1000  # a chain may keep this many draws, however large each is, before it drops every second one
ENOUGH = 400  # effective draws by default: standard errors of .05 posterior standard deviations
# If draws do not suffice they are thinned by up to 16, further as long as all steps together take less than a minute of
# counted work, and less where they take more than ten minutes. If chains still do not mix, the run warns instead of
# continuing for ever: a user waits ten minutes for more effective draws, but not for a day.
MOST_THINNING = 16
LONGEST_THINNING = 1024
MOST_SECONDS = 60.0
LONG_SECONDS = 600.0
MOST_UNCOUNTED = 4  # if the work is not counted: NUTS on a model that is not read row by row, however large
FEW_EFFECTIVE = 5.0  # effective draws for each chain: chains that each stay in a mode have one or two
HARDLY = 1.5  # growth of the ESS of chains of four times the length; it is about four if chains mix
FAR_MORE = 4.0  # cost of steps over the expected one, above which the thinning is limited by the cost
KEPT_PER_EFFECTIVE = 4  # after a halving, twice as many draws are kept as effective ones are wanted


class Goal(NamedTuple):
    """A number of draws per chain at which chains stop for a check; it counts all draws, one in `every` is kept."""

    draws: int
    every: int = 1


class Goals(Protocol):
    """The goals of a run, one after the other."""

    @property
    def most(self) -> float:
        """Largest number of draws per chain of any goal; may be infinite."""

    def first(self) -> Goal:
        """Return the first goal."""

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Return the goal that follows `goal`, or None after the last.

        ``draws()`` returns the draws kept so far, shape (chains, goal.draws / goal.every, dim).
        """

    @property
    def expected(self) -> tuple[float, str]:
        """Return the expected draws per chain of the whole run, and a note on the progress towards the goal."""

    @property
    def seconds(self) -> float:
        """Seconds spent in `after`."""

    def steps_cost(self, factor: float) -> None:
        """Take notice that steps have cost `factor` times as much counted work as was expected."""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return the attributes about the goals for the trace, from the draws kept at the end."""

    @property
    def memory(self) -> Mapping[str, float]:
        """Return the results of the checks so far; numbers by name."""

    def restore(self, memory: Mapping[str, float]) -> None:
        """Continue from saved results of checks."""


class FixedDraws:
    """A fixed number of kept draws per chain; one of `every` draws is kept."""

    seconds = 0.0
    memory: Mapping[str, float] = {}

    def __init__(self, draws: int, every: int = 1) -> None:
        self.draws = draws
        self.every = every

    @property
    def most(self) -> float:
        """Largest number of draws per chain: those of the single goal."""
        return self.draws * self.every

    def first(self) -> Goal:
        """Return the single goal."""
        return Goal(self.draws * self.every, self.every)

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> None:
        """Return None: there is no other goal."""

    @property
    def expected(self) -> tuple[float, str]:
        """Return the number of draws, and an empty note."""
        return self.draws * self.every, ""

    def steps_cost(self, factor: float) -> None:
        """Do nothing: the number of draws is fixed."""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return an empty mapping: there is nothing to report."""
        return {}

    def restore(self, memory: Mapping[str, float]) -> None:
        """Do nothing: there are no checks."""


class _Looks:
    """The results of checks that a killed run needs to resume: the attributes `_REMEMBERED`."""

    _REMEMBERED: tuple[str, ...]

    @property
    def memory(self) -> Mapping[str, float]:
        """The results of the checks so far."""
        return {name: getattr(self, name) for name in self._REMEMBERED}

    def restore(self, memory: Mapping[str, float]) -> None:
        """Continue from saved results of checks."""
        for name in self._REMEMBERED:
            setattr(self, name, memory[name])


class ThinnedDraws(_Looks):
    """A fixed, even number of draws per chain, thinned by 1, 2, 4, ... until they suffice.

    Draws suffice if they contain enough effective draws and the chains agree. If not, every second draw is kept and the
    chains run to twice their length, until they are thinned by `most`. Chains in which no parameter moves end at once,
    and so do chains that disagree, and have few effective draws and hardly more than with a quarter of their length:
    they are in different modes, which longer chains would not leave. `most` is a power of two; `affordable` is the
    thinning that takes `MOST_SECONDS`, 0 if the work is not counted.
    """

    _REMEMBERED = ("every", "ess", "seconds", "ess_of_half", "ess_of_quarter", "most_thinning")

    def __init__(
        self,
        draws: int,
        goal: float,
        smallest_ess: Callable[[np.ndarray, float], float],
        agree: Callable[[np.ndarray], bool] = lambda draws: True,
        most: int = MOST_THINNING,
        affordable: float = math.inf,
    ) -> None:
        self.draws = draws
        self.wanted = goal
        self.smallest_ess = smallest_ess
        self.agree = agree
        self.most_thinning = most
        self.affordable = affordable
        self.every = 1
        self.ess = 0.0
        self.seconds = 0.0
        self.ess_of_half = self.ess_of_quarter = 0.0

    @property
    def most(self) -> float:
        """The draws at the largest thinning."""
        return self.draws * self.most_thinning

    def first(self) -> Goal:
        """Return the goal without thinning."""
        return Goal(self.draws)

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Check the draws, and return the goal with twice the thinning; None if they suffice."""
        began = time.perf_counter()
        kept = draws()
        self.ess_of_quarter = self.ess_of_half
        self.ess_of_half = self.ess
        self.ess = self.smallest_ess(kept, self.wanted)
        agrees = self.agree(kept)
        is_stuck = not agrees and self.ess < min(FEW_EFFECTIVE * len(kept), HARDLY * self.ess_of_quarter)
        self.seconds += time.perf_counter() - began
        is_enough = self.ess >= self.wanted and agrees
        if is_enough or is_stuck or self.ess == 0.0 or self.every >= self.most_thinning:
            return None
        self.every *= 2
        return Goal(self.draws * self.every, self.every)

    def steps_cost(self, factor: float) -> None:
        """Lower the largest thinning if steps cost far more than expected, so that it takes at most `MOST_SECONDS`.

        It stays a power of two, because the thinning is doubled as long as it is smaller, and does not fall below the
        present one.
        """
        if factor > FAR_MORE:
            while self.most_thinning > max(self.every, self.affordable / factor):
                self.most_thinning //= 2

    @property
    def expected(self) -> tuple[float, str]:
        """Return the draws of the next goal, and the result of the last check."""
        return self.draws * self.every, f"ESS {self.ess:.0f} of {self.wanted:.0f}" if self.ess else ""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return the resulting thinning."""
        return {"thinned_by": self.every}


class EffectiveDraws(_Looks):
    """Draws until the smallest ESS reaches a target, with an upper limit per chain.

    `smallest_ess` takes draws, shape (chains, draws, dim), and an ESS below which an upper bound suffices; `most_draws`
    may be infinite. `ess` is the result of the last check, `checks` their number, `seconds` the time of all checks. One
    draw in `every` is kept.
    """

    _REMEMBERED = ("ess", "checks", "seconds", "every", "_expected")

    def __init__(
        self,
        target: float,
        most_draws: float,
        *,
        chains: int,
        dim: int,
        smallest_ess: Callable[[np.ndarray, float], float],
    ) -> None:
        self.target = target
        self.most_draws = most_draws
        self.smallest_ess = smallest_ess
        self.chains = chains
        self.capacity = capacity(dim, target / chains)
        self.ess = 0.0
        self.checks = 0
        self.seconds = 0.0
        self.every = 1
        self._expected = most_draws

    @property
    def most(self) -> float:
        """The upper limit."""
        return self.most_draws

    def first(self) -> Goal:
        """Return the first goal n_1: at least E draws in all, if allowed, since fewer hardly ever have an ESS of E."""
        return self._goal(max(self.target / self.chains, FEWEST_DRAWS))

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Check the draws, and return the next goal; None at the target, or at the upper limit."""
        began = time.perf_counter()
        self.ess = self.smallest_ess(draws(), self.target)
        self.checks = self.checks + 1
        self.seconds += time.perf_counter() - began
        missing = self.target / self.ess if self.ess > 0.0 else math.inf
        self._expected = min(goal.draws * max(missing, 1.0), self.most_draws)
        if missing <= 1.0 or goal.draws + goal.every > self.most_draws:
            return None
        return self._goal(goal.draws * min(MOST_GROWTH, max(LEAST_GROWTH, missing)))

    def _goal(self, draws_wanted: float) -> Goal:
        """Return a goal of about `draws_wanted` draws that can be halved as often as the next goal may need."""
        draws = min(math.ceil(draws_wanted), self.most_draws)
        every = 1
        while draws > every * self.capacity:
            every *= 2
        self.every = every
        unit = HALVED * every
        even = math.ceil(draws / unit) * unit
        if math.isfinite(self.most_draws):
            even = min(even, int(self.most_draws) // every * every)
        return Goal(even, every)

    def steps_cost(self, factor: float) -> None:
        """Do nothing: the user asks for effective draws, whatever they cost."""

    @property
    def expected(self) -> tuple[float, str]:
        """Return the number of draws predicted by the last check, and its ESS."""
        return self._expected, f"ESS {self.ess:.0f} of {self.target:.0f}"

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return the target ESS and that of the draws, computed again if the last check did not reach the target."""
        ess = self.ess if self.ess >= self.target else self.smallest_ess(draws, 0.0)
        return {
            "target_ess": self.target,
            "smallest_ess": ess,
            "ess_checks": self.checks,
            "ess_seconds": self.seconds,
            "thinned_by": self.every,
        }


def most_thinning(seconds_per_step: float, steps: int) -> int:
    """Return the largest thinning for draws that take `steps` steps of all chains, at `seconds_per_step`.

    The seconds are computed from counted work, see `approxmcmc.design.work`; no clock is read. They are infinite if
    they are unknown, as for NUTS on a model that is not read row by row.

    Examples
    --------
    >>> [most_thinning(seconds, 4000) for seconds in (1e-4, 1e-3, 0.02, 1.0, math.inf)]
    [128, 16, 4, 1, 4]
    """
    if math.isinf(seconds_per_step):
        return MOST_UNCOUNTED
    affordable = affordable_thinning(seconds_per_step, steps)
    longest = affordable * LONG_SECONDS / MOST_SECONDS
    most = 1
    while 2 * most <= min(longest, MOST_THINNING) or 2 * most <= min(affordable, LONGEST_THINNING):
        most *= 2
    return most


def affordable_thinning(seconds_per_step: float, steps: int) -> float:
    """Return the thinning for which draws that take `steps` steps without thinning take `MOST_SECONDS` of counted work.

    Examples
    --------
    >>> affordable_thinning(1e-3, 4000)
    15.0
    """
    return MOST_SECONDS / max(seconds_per_step * steps, 1e-300)


def capacity(dim: int, effective: float) -> int:
    """Return the largest number of draws of `dim` parameters that a chain keeps if `effective` of them are wanted."""
    row = 8 * (dim + len(COUNT_NAMES) + len(VALUE_NAMES))
    return HALVED * math.ceil(max(BYTES // row, FEWEST_KEPT, KEPT_PER_EFFECTIVE * effective) / HALVED)
