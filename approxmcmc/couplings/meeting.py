r"""Run two coupled chains of one kernel until they are first equal; X starts `lag` steps before Y.

Each chain alone makes the kernel's steps. The two share random input: coupled proposals, or a site, and one threshold
for both decisions. Once equal they stay equal. A sampler's `CompiledCoupling` becomes a loop here; a transition matrix
is coupled by the maximal coupling of two rows.

How fast chains forget their start determines how many audits contribute to the estimated bias of the draws. An audit
estimates a difference :math:`g(x) - g(y)`, see `forms`: at most :math:`\tau` times the range of the estimand, if
:math:`\tau` is the mean time until chains from x and y meet. So if the bias is c times this range, at least a share
:math:`c / \tau` of the audits contributes to it: those with chains that stay apart for long. An audit starts its chains
close to each other: if regions are separated, all couplings may meet at once, and the interval is too narrow. Chains
from distant draws detect this: on two modes they meet only after one chain has crossed to the other mode.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import config, types as nb

from approxmcmc.contracts import CompiledCoupling
from approxmcmc.contracts.records import EVALUATIONS, GRADIENTS
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import compiled, entry_point, kernel, type_of
from approxmcmc.engine.compiler.generators import ADDRESSES, addresses, generator_at
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.python_call import raise_kept
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.compiler.words import AddressOf, Words, value_at
from approxmcmc.errors import NotFiniteError
from approxmcmc.sampling.chain import FAILED

NOT_MET = -1
BROKE_OFF = -2
PATHS = nb.Array(nb.float64, 3, "C")
DENSITIES = nb.Array(nb.float64, 2, "C")


class Meeting(NamedTuple):
    """Two chains from the step at which Y starts until they meet, or are cut off.

    `time` is tau, the number of steps of X until the meeting, or NOT_MET if the chains were cut off. `paths` (2, n,
    dim) holds the n pairs of states before the meeting, X first; `densities` (2, n) their log densities, NaN if
    unknown. Both have n = 0 if they were not recorded. `passes` counts evaluations of all terms, or gradients; `first`
    describes the last step that X made alone, NaN without such a step.
    """

    time: int
    paths: np.ndarray
    densities: np.ndarray
    passes: float
    first: "LastRatios"

    @property
    def met(self) -> bool:
        """True if the chains met."""
        return self.time != NOT_MET


class LastRatios(NamedTuple):
    """The log acceptance ratio of a proposal, and the change of the log density; NaN if unknown."""

    log_ratio: float
    energy_change: float


@compiled
def unknown_density(chain: Any) -> float:
    """Return NaN: the kernel does not compute the log density."""
    return math.nan


@cached_by_content(maxsize=64)
def make_meeting(move: Callable[..., int], density: Callable[..., float]) -> Callable[..., int]:
    """Return the loop that moves X alone for `lag` steps, then both chains, until they meet.

    It returns the number of steps of X, NOT_MET after `max_steps`, or BROKE_OFF if a log density was NaN.
    """

    def meeting_time(
        rng: Any, chains: Any, shared: Any, lag: int, max_steps: int, paths: np.ndarray, densities: np.ndarray
    ) -> int:
        x, y = chains
        for t in range(max_steps + 1):
            if t >= lag:
                if equal(x.theta, y.theta):
                    return t
                if t - lag < paths.shape[1]:
                    assign(paths[0, t - lag], x.theta)
                    assign(paths[1, t - lag], y.theta)
                    densities[0, t - lag] = density(x)
                    densities[1, t - lag] = density(y)
            if t < max_steps and move(rng, chains, shared, 2 if t >= lag else 1) == FAILED:
                return BROKE_OFF
        return NOT_MET

    return meeting_time


@cached_by_content(maxsize=64)
def make_entry(meeting_time: Callable[..., int]) -> Callable[..., int]:
    """Return the loop as a function that gets addresses in place of its generator and of `shared`."""
    meeting_time = compiled(inline="always")(meeting_time)

    def enter(
        places: Any, chains: Any, shared: Any, lag: int, max_steps: int, paths: np.ndarray, densities: np.ndarray
    ) -> int:
        return meeting_time(generator_at(places), chains, value_at(shared), lag, max_steps, paths, densities)

    return enter


@cached_by_content(maxsize=64)
def make_synchronous(move: Callable[..., int]) -> Callable[..., int]:
    """Return the loop that moves X and Y in turn, each alone, with the generators `first` and `second`.

    It writes the states after each step to `paths` (2, steps, dim), and returns how many steps were made.
    """

    def synchronous_steps(first: Any, second: Any, chains: Any, shared: Any, paths: np.ndarray) -> int:
        x, y = chains
        for t in range(paths.shape[1]):
            if move(first, (x, y), shared, 1) == FAILED or move(second, (y, x), shared, 1) == FAILED:
                return t
            assign(paths[0, t], x.theta)
            assign(paths[1, t], y.theta)
        return paths.shape[1]

    return synchronous_steps


@cached_by_content(maxsize=64)
def make_synchronous_entry(synchronous_steps: Callable[..., int]) -> Callable[..., int]:
    """Return the loop as a function that gets addresses in place of both generators and of `shared`."""
    synchronous_steps = compiled(inline="always")(synchronous_steps)

    def enter(first: Any, second: Any, chains: Any, shared: Any, paths: np.ndarray) -> int:
        return synchronous_steps(generator_at(first), generator_at(second), chains, value_at(shared), paths)

    return enter


class Coupling:
    """Two coupled chains of one kernel on one target, compiled into a loop; `chains` is the sampler's coupling."""

    def __init__(self, chains: CompiledCoupling) -> None:
        self.name = chains.name
        self.start = chains.start
        self.shared = chains.shared()
        self.shared_at: Any = self.shared  # what the loop gets
        self.rule = chains.rule
        self.cost_per_pass = chains.cost_per_pass
        self.knows_density = chains.density is not None
        self.move = chains.move
        point = chains.point
        self.room = (np.empty((2, 0, point.size)), np.empty((2, 0)))
        loop: Any = make_meeting(chains.move, chains.density or unknown_density)
        if not config.DISABLE_JIT:
            both = self.start(point.copy(), 0.0), self.start(point.copy(), 0.0)
            ends = (nb.int64, nb.int64, PATHS, DENSITIES)
            self.words = Words(type_of(self.shared), self.shared)
            self.shared_at = self.words.address
            signature = nb.int64(ADDRESSES, type_of(both), AddressOf(type_of(self.shared)), *ends)
            loop = entry_point(kernel(make_entry(loop), signature, allocates=False), signature)
        self.loop = loop

    def meet(
        self,
        rng: np.random.Generator,
        x: np.ndarray,
        y: np.ndarray,
        lag: int,
        max_steps: int,
        *,
        record: bool = True,
        log_likelihoods: tuple[float, float] = (np.nan, np.nan),
    ) -> Meeting:
        """Run two coupled chains from `x` and `y` until they meet, X `lag` steps ahead, for at most `max_steps` of X.

        With `record`, the result holds the paths. `log_likelihoods` are those at x and y, NaN if unknown.

        Raises
        ------
        NotFiniteError
            When a log density is NaN.
        """
        chains = tuple(
            self.start(np.array(theta, dtype=np.float64), log_likelihood)
            for theta, log_likelihood in zip((x, y), log_likelihoods, strict=True)
        )
        shared = self.shared
        shared.counts[:] = 0
        shared.last_ratios[:] = np.nan
        paths, densities = self._room(max_steps - lag + 1 if record else 0)
        places = rng if config.DISABLE_JIT else addresses(rng)
        time = int(self.loop(places, chains, self.shared_at, lag, max_steps, paths, densities))
        raise_kept()
        if time == BROKE_OFF:
            steps = " or ".join(f"from {show(chain.theta)} to {show(chain.proposed)}" for chain in chains)
            raise NotFiniteError(f"couplings: a log density is NaN {steps}")
        pairs_made = max_steps - lag if time == NOT_MET else time - lag
        kept = pairs_made if record else 0
        return Meeting(
            time,
            paths[:, :kept].copy(),
            densities[:, :kept].copy(),
            float(shared.counts[EVALUATIONS] + shared.counts[GRADIENTS]) / self.cost_per_pass,
            LastRatios(*shared.last_ratios.tolist()),
        )

    def side_by_side(self, seed: np.random.SeedSequence, x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
        """Run two chains from `x` and `y` with equal random numbers, each as if it were alone; return both paths.

        The result (2, steps, dim) holds the states after each step. The chains approach each other if the kernel
        contracts, and need never meet.

        Raises
        ------
        NotFiniteError
            When a log density is NaN.
        """
        chains = tuple(self.start(np.array(theta, dtype=np.float64), math.nan) for theta in (x, y))
        paths = np.empty((2, steps, len(x)))
        loop: Any = make_synchronous(self.move)
        generators = tuple(np.random.default_rng(seed) for _ in chains)
        if not config.DISABLE_JIT:
            signature = nb.int64(ADDRESSES, ADDRESSES, type_of(chains), AddressOf(type_of(self.shared)), PATHS)
            loop = entry_point(kernel(make_synchronous_entry(loop), signature, allocates=False), signature)
        places = generators if config.DISABLE_JIT else tuple(map(addresses, generators))
        n_made = int(loop(*places, chains, self.shared_at, paths))
        raise_kept()
        if n_made < steps:
            raise NotFiniteError(f"couplings: a log density is NaN near {show(chains[0].theta)}")
        return paths

    def _room(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return scratch arrays for at least `steps` pairs of states: paths and log densities."""
        if self.room[0].shape[1] < steps:
            self.room = np.empty((2, steps, self.room[0].shape[2])), np.empty((2, steps))
        paths, densities = self.room
        return (paths, densities) if steps else (paths[:, :0].copy(), densities[:, :0].copy())


def maximal_coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the matrix of P(X = i, Y = j), with X ~ p, Y ~ q and the largest P(X = Y).

    Examples
    --------
    >>> joint = maximal_coupling(np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    >>> joint.round(12).tolist()
    [[0.2, 0.7], [0.0, 0.1]]
    """
    both = np.minimum(p, q)
    left = 1.0 - both.sum()
    joint = np.diag(both)
    return joint + np.outer(p - both, q - both) / left if left > 1e-15 else joint


class CoupledStates:
    """Coupled chains of a transition matrix; a state is the index of its row."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.n = len(matrix)
        self.rows = matrix.cumsum(axis=1)
        self.joint = {
            (i, j): maximal_coupling(matrix[i], matrix[j]).ravel().cumsum()
            for i in range(self.n)
            for j in range(self.n)
            if i != j
        }

    def meeting_time(self, rng: np.random.Generator, x: np.ndarray, y: np.ndarray, lag: int, max_steps: int) -> int:
        """Return the steps of X until the chains from states x[0] and y[0] meet, X `lag` steps ahead; or NOT_MET."""
        i = int(x[0])
        j = int(y[0])
        for _ in range(lag):
            i = _draw(rng, self.rows[i])
        for t in range(lag, max_steps + 1):
            if i == j:
                return t
            i, j = divmod(_draw(rng, self.joint[i, j]), self.n)
        return NOT_MET


def _draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
    return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"), len(cumulative) - 1))


PAIRS = 20  # largest number of pairs of draws from which chains start
SIGHTINGS = 20  # audits wanted for each step of the time that `forgetting_time` returns


class Forgetting(NamedTuple):
    """Mean steps until exact chains from distant draws meet, and the passes over the data that the estimate took."""

    steps: float
    passes: float


def forgetting_time(
    coupling: Coupling, draws: np.ndarray, n_audits: int, rng: np.random.Generator, chains: np.random.Generator
) -> Forgetting:
    """Couple exact chains from pairs of `draws` (n, dim) until they meet; about `n_audits` steps are made in total.

    `rng` chooses pairs, `chains` is the random stream of the chains. With k meetings in S steps in total, the mean time
    is estimated by S / k. This is the maximum-likelihood estimate for exponential times, whether the last pair was cut
    off or not. Without a meeting, S is returned.
    """
    allowed = PAIRS * n_audits // SIGHTINGS
    steps = 0
    met = 0
    passes = 0.0
    for a, b in far_pairs(draws, rng):
        left = allowed + 1 - steps
        if left <= 0:
            break
        meeting = coupling.meet(chains, draws[a], draws[b], 0, left, record=False)
        steps += meeting.time if meeting.met else left
        met += meeting.met
        passes += meeting.passes
    return Forgetting(steps / max(met, 1), passes)


def far_pairs(draws: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield 20 pairs of indices of `draws` (n, dim).

    They are alternately the draws with the smallest and the largest value of a random coordinate, and two random draws.
    """
    n, dim = draws.shape
    for k in rng.permutation(max(dim, PAIRS // 2))[: PAIRS // 2] % dim:
        yield int(draws[:, k].argmin()), int(draws[:, k].argmax())
        a, b = rng.integers(n, size=2)
        yield int(a), int(b)
