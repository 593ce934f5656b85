"""The loop over draws that all samplers share: a sampler defines a step, and this loop repeats the step.

    repeat for each draw:  repeat `thin` times:  step;  then record theta, counts, values, seconds.

A step is ``step(streams, state, count, value) -> status``: it moves ``state.theta`` in place, adds what it read,
evaluated and decided to `count`, writes its values to `value`, and returns 1 if it moved, 0 if it stayed, and FAILED if
a log density was NaN; a failure ends the chain after the last complete draw.

The state of a chain is a named tuple that the sampler defines. This module uses four of its fields: `theta`;
`proposed`, the last proposal; `log_density`, one number, the log posterior density at theta if the step computes it;
and `clock`, a :class:`Clock`.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import Auditor, Streams
from approxmcmc.contracts.records import (
    ACCEPTANCE_RATE,
    ACCEPTED,
    AUDITS,
    BLANK_VALUES,
    COUNT_NAMES,
    LP,
    SECONDS,
    VALUE_NAMES,
    WRONG,
    WRONG_ACCEPTS,
)
from approxmcmc.engine.compiler.clock import nanoseconds
from approxmcmc.engine.compiler.compile import COUNTS, MATRIX, compiled, entry_point, kernel, type_of
from approxmcmc.engine.compiler.generators import ADDRESSES, addresses, generator_at
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.sampling.memory import leaves

STAYED, MOVED, FAILED = 0, 1, -1


class Clock(NamedTuple):
    """The progress of a chain.

    `steps` (1,): steps made. `n_tune`: number of tuning steps, the first ones. `audit_probability`: the probability
    that a decision is audited.
    """

    steps: np.ndarray
    n_tune: int
    audit_probability: float


def new_clock(n_tune: int, audit_probability: float = 0.0) -> Clock:
    """Return the clock of a chain before its first step."""
    return Clock(np.zeros(1, dtype=np.int64), int(n_tune), float(audit_probability))


@compiled
def settle_nothing(proposal: Any, accepted: bool) -> None:
    """Do nothing: the next proposal depends only on theta."""


@compiled
def adapt_nothing(state: Any, acceptance: float, step: int) -> None:
    """Do nothing: a tuning step changes no setting."""


@compiled
def is_tuning(clock: Clock) -> bool:
    """Return whether the current step is a tuning step."""
    return clock.steps[0] < clock.n_tune


@compiled
def is_chosen_for_audit(streams: Streams, clock: Clock) -> bool:
    """Return whether to repeat the next decision on all data, at random; without audits no random number is drawn."""
    return clock.audit_probability > 0.0 and streams.audit.random() < clock.audit_probability


@compiled
def book_audit(decision: int, exact: int, count: np.ndarray) -> None:
    """Count an audited decision in `count`, and whether it differs from the `exact` one; 1 accepts, 0 rejects."""
    count[AUDITS] += 1
    if exact != decision:
        count[WRONG] += 1
        count[WRONG_ACCEPTS] += decision


@cached_by_content(maxsize=64)
def make_chain(step: Callable[..., int]) -> Callable[..., int]:
    """Return the loop around a step, ``advance(streams, state, thin, draws, counts, values) -> draws made``."""

    def advance(
        streams: Streams, state: Any, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray
    ) -> int:
        for draw in range(draws.shape[0]):
            started = nanoseconds()
            count, value = counts[draw], values[draw]
            count[:] = 0
            assign(value, BLANK_VALUES)
            acceptance_rate = 0.0
            for _ in range(thin):
                status = step(streams, state, count, value)
                if status == FAILED:
                    return draw
                acceptance_rate += value[ACCEPTANCE_RATE] / thin
                state.clock.steps[0] += 1
            assign(draws[draw], state.theta)
            count[ACCEPTED] = status
            value[ACCEPTANCE_RATE] = acceptance_rate
            value[LP] = state.log_density[0]
            value[SECONDS] += 1e-9 * (nanoseconds() - started)  # audits have subtracted their time
        return draws.shape[0]

    return advance


@cached_by_content(maxsize=64)
def make_entry(advance: Callable[..., int]) -> Callable[..., int]:
    """Return the loop as a function that gets the addresses of its generators in place of the generators."""
    advance = compiled(inline="always")(advance)  # two functions would be optimised twice

    def enter(generators: Any, state: Any, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        streams = Streams(
            generator_at(generators.proposal),
            generator_at(generators.uniform),
            generator_at(generators.order),
            generator_at(generators.audit),
            generator_at(generators.start),
        )
        return advance(streams, state, thin, draws, counts, values)

    return enter


class Loop:
    """The loop around a step, ``loop(streams, state, thin, draws, counts, values) -> draws made``.

    The loop was compiled for a template `state`. Arrays that the template shares with a chain, such as data and tables,
    are used by many chains on many threads, so no step writes to them.
    """

    def __init__(self, advance: Callable[..., int], state: Any) -> None:
        self.advance = advance
        # Only weak references are stored, so that the template's arrays, some as long as the data, can be released.
        self.shared = [weakref.ref(leaf) for _, leaf in leaves(state) if isinstance(leaf, np.ndarray)]

    def __call__(self, streams: Streams, *arguments: Any) -> int:
        """Advance a chain by some draws; return the number of draws made."""
        return self.advance(streams, *arguments)

    def memory(self, state: Any, fixed: Sequence[np.ndarray]) -> dict[str, Any]:
        """Return the numbers and arrays of a chain's `state` by name, each array once.

        Arrays that are shared between chains, in `fixed`, or read-only are left out.
        """
        others = {id(array) for array in (*fixed, *(note() for note in self.shared))}
        memory: dict[str, Any] = {}
        met = set()
        for name, leaf in leaves(state):
            if isinstance(leaf, np.ndarray):
                place = (leaf.__array_interface__["data"][0], leaf.nbytes)
                if id(leaf) in others or not leaf.flags.writeable or (leaf.size and place in met):
                    continue
                met.add(place)
            memory[name] = leaf
        return memory


def compile_chain(step: Callable[..., int], state: Any) -> Loop:
    """Return the loop around a step, as machine code for chains whose states have the type of `state`."""
    if config.DISABLE_JIT:
        return Loop(make_chain(step), state)
    generators = nb.BaseTuple.from_types([ADDRESSES] * len(Streams._fields), Streams)
    signature = nb.int64(generators, type_of(state), nb.int64, MATRIX, COUNTS, MATRIX)
    loop = entry_point(kernel(make_entry(make_chain(step)), signature, allocates=False), signature)

    def advance(streams: Streams, *arguments: Any) -> int:
        return loop(Streams._make(map(addresses, streams)), *arguments)

    return Loop(advance, state)


class CompiledChain:
    """One running chain, of any sampler; see the protocol `Chain`.

    `loop` is the result of :func:`compile_chain`. `describe` returns the tuned values, `explain` why a step failed;
    `start_evaluations` counts the likelihood terms evaluated to start; `auditor` makes the auditor of the finished
    chain; `fixed` are arrays that the chain made at its start and that no step changes.
    """

    def __init__(
        self,
        loop: Loop,
        streams: Streams,
        state: Any,
        *,
        explain: Callable[[], str],
        describe: Callable[[], Mapping[str, float]] = dict,
        start_evaluations: int = 0,
        auditor: Callable[[np.ndarray], Auditor] | None = None,
        fixed: Sequence[np.ndarray] = (),
    ) -> None:
        self.loop, self.streams, self.state, self.auditor, self.fixed = loop, streams, state, auditor, fixed
        self.explain_failure, self.adapted, self.start_evaluations = explain, describe, start_evaluations

    @property
    def proposed(self) -> np.ndarray:
        """The last proposal; shape (dim,)."""
        return np.asarray(self.state.proposed)

    @property
    def memory(self) -> dict[str, Any]:
        """Return the arrays that change during the run, by name, and the numbers of the set-up."""
        return self.loop.memory(self.state, self.fixed)

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps and record every `thin`-th state; return the draws made."""
        return int(self.loop(self.streams, self.state, thin, draws[:n_draws], counts[:n_draws], values[:n_draws]))


class WatchedChain(CompiledChain):
    """A chain that calls ``watch(start, theta, count)`` at the draws that follow 1, 2, 4, 8, ... steps.

    `watch` checks with many data what steps do not see, and adds what it evaluated to the counts of the draw. If it
    returns False, the chain stops before this draw.
    """

    def __init__(self, watch: Callable[..., bool], *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.watch, self.begun_at = watch, self.state.theta.copy()

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps, from check to check; return the draws made."""
        done, steps = 0, self.state.clock.steps
        while done < n_draws:
            checks = int(steps[0]).bit_length()
            rows = min(n_draws - done, math.ceil(((1 << checks) - steps[0]) / thin))
            made = super().advance(rows, thin, draws[done:], counts[done:], values[done:])
            done += made
            if made < rows:
                return done
            is_due, theta = int(steps[0]).bit_length() > checks, self.state.theta
            if is_due and not self.watch(self.begun_at, theta, counts[done - 1]):
                assign(self.state.proposed, theta)  # reported as the place where the check failed
                return done - 1
        return done


def names_recorded(counts: Iterable[str], values: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names in `counts`, and those in `values`, each in the order of the columns of the records."""
    count_names, value_names = set(counts), set(values)
    return [name for name in COUNT_NAMES if name in count_names], [name for name in VALUE_NAMES if name in value_names]
