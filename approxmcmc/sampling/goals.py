"""How long chains run: so many draws, as they are or thinned until they say enough, or so many effective ones.

With a target E the smallest ESS is looked at after n_1 < n_2 < ... draws of each chain,

    n_1 = max(E / chains, 100),    n_{k+1} = n_k min(4, max(1.25, E / ESS_k)),

and the chains end at the first n_k with ESS_k >= E. Every n_k follows from the draws alone, so a run is a function of
its seed: no clock and no thread moves its end. A check takes as long after 10^5 draws as after 10^4, since it judges a
bounded number of them, and their number grows like log n: what they cost goes to 0 beside the chains.

Records are bounded: where they would outgrow 32 MB a chain, every second draw is dropped and the chain thins by twice
as much from there on. All chains do so at the same checks, so the thinning is uniform over the run.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES

FEWEST_DRAWS = 100  # per chain; with fewer an ESS is mostly its own noise
LEAST_GROWTH, MOST_GROWTH = 1.25, 4.0  # an early ESS is a rough guess, and no jump follows it all the way
HALVED = 4  # divides the draws kept at a goal: the next one has at most four times as many draws
BYTES = 2**25  # of draws and records of a chain
FEWEST_KEPT = 1000  # draws, whatever their size
ENOUGH = 400  # effective draws where nothing else is asked for: standard errors of .05 posterior standard deviations
# Of draws that say too little: by 16, and further as long as all steps together take a minute of counted work. Chains
# that still do not mix are told of, not run for ever.
MOST_THINNING, LONGEST_THINNING, MOST_SECONDS = 16, 1024, 60.0
KEPT_PER_EFFECTIVE = 4  # after a halving, twice as many draws are kept as effective ones are asked for


class Goal(NamedTuple):
    """Draws per chain at which chains halt, and the number of which one is kept."""

    draws: int
    every: int = 1


class Goals(Protocol):
    """The goals of a run, one after the other."""

    @property
    def most(self) -> float:
        """Draws per chain that no goal exceeds; may be infinite."""

    def first(self) -> Goal:
        """Return where the chains halt first."""

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Return the next goal, None where `goal` was the last; ``draws()`` has shape (chains, goal's draws, dim)."""

    @property
    def expected(self) -> tuple[float, str]:
        """Draws per chain that the whole run is expected to take, and what is known of its target, in words."""

    @property
    def seconds(self) -> float:
        """Seconds that were spent in `after`."""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return what the trace says of the goals, given the draws that the run kept in the end."""

    @property
    def memory(self) -> Mapping[str, float]:
        """What the looks have found so far; numbers by name."""

    def take_up(self, memory: Mapping[str, float]) -> None:
        """Go on from what another one remembered."""


class FixedDraws:
    """So many draws per chain are kept, one in `every` that is made."""

    seconds = 0.0
    memory: Mapping[str, float] = {}

    def __init__(self, draws: int, every: int = 1) -> None:
        self.draws, self.every = draws, every

    @property
    def most(self) -> float:
        """The draws of the one goal."""
        return self.draws * self.every

    def first(self) -> Goal:
        """Return the one goal."""
        return Goal(self.draws * self.every, self.every)

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> None:
        """Return None: there is no other."""

    @property
    def expected(self) -> tuple[float, str]:
        """The number of draws, and nothing to add."""
        return self.draws * self.every, ""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return nothing: the draws speak for themselves."""
        return {}

    def take_up(self, memory: Mapping[str, float]) -> None:
        """Remember nothing: there are no looks."""


class _Looks:
    """What looks at the draws leave behind, by which a run that was killed goes on: the attributes `_REMEMBERED`."""

    _REMEMBERED: tuple[str, ...]

    @property
    def memory(self) -> Mapping[str, float]:
        """What the looks so far left behind."""
        return {name: getattr(self, name) for name in self._REMEMBERED}

    def take_up(self, memory: Mapping[str, float]) -> None:
        """Go on from what another one remembered."""
        for name in self._REMEMBERED:
            setattr(self, name, memory[name])


class ThinnedDraws(_Looks):
    """So many draws per chain, an even number, thinned by 1, 2, 4, ... until they say enough.

    Enough are so many effective draws, of chains that agree. Each look keeps every second draw and runs the chains to
    twice their length, until they are thinned by `most`. Chains in which no parameter moves end at once.
    """

    _REMEMBERED = ("every", "ess", "seconds")

    def __init__(
        self,
        draws: int,
        wanted: float,
        smallest_ess: Callable[[np.ndarray, float], float],
        agree: Callable[[np.ndarray], bool] = lambda draws: True,
        most: int = MOST_THINNING,
    ) -> None:
        self.draws, self.wanted, self.smallest_ess = draws, wanted, smallest_ess
        self.agree, self.most_thinning = agree, most
        self.every, self.ess, self.seconds = 1, 0.0, 0.0

    @property
    def most(self) -> float:
        """The draws that are thinned the most."""
        return self.draws * self.most_thinning

    def first(self) -> Goal:
        """Return the draws as they are."""
        return Goal(self.draws)

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Look at the draws, and return where they are thinned by twice as much; None where they say enough."""
        began, found = time.perf_counter(), draws()
        self.ess = self.smallest_ess(found, self.wanted)
        enough = self.ess >= self.wanted and self.agree(found)
        self.seconds += time.perf_counter() - began
        if enough or self.ess == 0.0 or self.every >= self.most_thinning:
            return None
        self.every *= 2
        return Goal(self.draws * self.every, self.every)

    @property
    def expected(self) -> tuple[float, str]:
        """The next goal, and what the last look found."""
        return self.draws * self.every, f"ESS {self.ess:.0f} of {self.wanted:.0f}" if self.ess else ""

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return what this made of the thinning."""
        return {"thinned_by": self.every}


class EffectiveDraws(_Looks):
    """Draws until the smallest ESS reaches a target, and at most so many per chain.

    `smallest_ess` takes draws, shape (chains, draws, dim), and an ESS below which a bound from above will do;
    `most_draws` may be infinite. `ess` is what the last of `checks` found; together they took `seconds`. One draw in
    `every` is kept.
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
        self.target, self.most_draws, self.smallest_ess = target, most_draws, smallest_ess
        self.chains, self.capacity = chains, capacity(dim, target / chains)
        self.ess, self.checks, self.seconds, self.every = 0.0, 0, 0.0, 1
        self._expected = most_draws

    @property
    def most(self) -> float:
        """The cap."""
        return self.most_draws

    def first(self) -> Goal:
        """Return n_1: fewer draws than E hold no E effective ones, or hardly ever."""
        return self._goal(max(self.target / self.chains, FEWEST_DRAWS))

    def after(self, goal: Goal, draws: Callable[[], np.ndarray]) -> Goal | None:
        """Look at the draws, and return where to look next; None at the target, or where no more draws are allowed."""
        began = time.perf_counter()
        self.ess, self.checks = self.smallest_ess(draws(), self.target), self.checks + 1
        self.seconds += time.perf_counter() - began
        missing = self.target / self.ess if self.ess > 0.0 else math.inf
        self._expected = min(goal.draws * max(missing, 1.0), self.most_draws)
        if missing <= 1.0 or goal.draws + goal.every > self.most_draws:
            return None
        return self._goal(goal.draws * min(MOST_GROWTH, max(LEAST_GROWTH, missing)))

    def _goal(self, wanted: float) -> Goal:
        """Return a goal of so many draws or a few more, which can be halved as often as the next goal may ask for."""
        draws, every = min(math.ceil(wanted), self.most_draws), 1
        while draws > every * self.capacity:
            every *= 2
        self.every = every
        even = -(-draws // (HALVED * every)) * HALVED * every
        return Goal(int(min(even, self.most_draws // every * every)), every)

    @property
    def expected(self) -> tuple[float, str]:
        """What the last check foretells."""
        return self._expected, f"ESS {self.ess:.0f} of {self.target:.0f}"

    def found(self, draws: np.ndarray) -> Mapping[str, float]:
        """Return the target and what the draws hold of it, judged anew where the last check did not reach it."""
        ess = self.ess if self.ess >= self.target else self.smallest_ess(draws, 0.0)
        return {
            "target_ess": self.target,
            "smallest_ess": ess,
            "ess_checks": self.checks,
            "ess_seconds": self.seconds,
            "thinned_by": self.every,
        }


def most_thinning(seconds_per_step: float, steps: int) -> int:
    """Return by how much draws may be thinned that take so many steps, all chains together, of so many seconds.

    The seconds are those of counted work, see `approxmcmc.design.work`: no clock has a say.

    Examples
    --------
    >>> most_thinning(1e-3, 4000), most_thinning(1e-4, 4000), most_thinning(1.0, 4000)
    (16, 128, 16)
    """
    affordable, most = MOST_SECONDS / max(seconds_per_step * steps, 1e-300), MOST_THINNING
    while 2 * most <= min(affordable, LONGEST_THINNING):
        most *= 2
    return most


def capacity(dim: int, effective: float) -> int:
    """Return how many draws a chain keeps at the most."""
    row = 8 * (dim + len(COUNT_NAMES) + len(VALUE_NAMES))
    return HALVED * math.ceil(max(BYTES // row, FEWEST_KEPT, KEPT_PER_EFFECTIVE * effective) / HALVED)
