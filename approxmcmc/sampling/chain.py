"""The loop over draws that all samplers share: a sampler defines a step, and this loop repeats the step.

    repeat for each draw:  repeat `thin` times:  step;  then record theta, counts, values, seconds.

The loop makes a given number of steps, so it may end between two draws: what the unfinished draw has recorded is part
of the chain (:class:`UnfinishedDraw`), and the next call completes it. Draws and records do not depend on where the
loop ends. The records are not part of the state, because a step passes its state from function to function, and each
array in it costs time at each call.

A step is ``step(streams, state, count, value) -> status``: it moves ``state.theta`` in place, adds what it read,
evaluated and decided to `count`, writes its values to `value`, and returns 1 if it moved, 0 if it stayed, and FAILED if
a log density was NaN; a failure ends the chain after the last complete draw.

The state of a chain is a named tuple that the sampler defines. This module uses four of its fields: `theta`;
`proposed`, the last proposal; `log_density`, one number, the log posterior density at theta if the step computes it;
and `clock`, a :class:`Clock`.
"""

import functools
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import config, types as nb

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
from approxmcmc.engine.compiler.python_call import raise_kept
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.compiler.words import AddressOf, Words, value_at
from approxmcmc.sampling.memory import leaves

STAYED = 0
MOVED = 1
FAILED = -1


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


class UnfinishedDraw(NamedTuple):
    """The records of the draw that a chain is making.

    `steps` (1,): steps made of it. `acceptance` (1,): the sum of their acceptance rates, divided by the steps of a
    draw. `counts`, `values`: what they counted and recorded.
    """

    steps: np.ndarray
    acceptance: np.ndarray
    counts: np.ndarray
    values: np.ndarray


def new_draw() -> UnfinishedDraw:
    """Return the records of a draw before its first step."""
    return UnfinishedDraw(
        steps=np.zeros(1, dtype=np.int64),
        acceptance=np.zeros(1),
        counts=np.zeros(len(COUNT_NAMES), dtype=np.int64),
        values=np.zeros(len(VALUE_NAMES)),
    )


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
    """Return the loop around a step.

    It is ``advance(streams, state, unfinished, steps, thin, draws, counts, values) -> steps made``.
    """

    def advance(
        streams: Streams,
        state: Any,
        unfinished: UnfinishedDraw,
        steps: int,
        thin: int,
        draws: np.ndarray,
        counts: np.ndarray,
        values: np.ndarray,
    ) -> int:
        count = unfinished.counts
        value = unfinished.values
        made = 0
        draw = 0
        while made < steps:
            started = nanoseconds()
            if unfinished.steps[0] == 0:
                count[:] = 0
                assign(value, BLANK_VALUES)
                unfinished.acceptance[0] = 0.0
            steps_now = min(thin - unfinished.steps[0], steps - made)
            for _ in range(steps_now):
                status = step(streams, state, count, value)
                if status == FAILED:
                    return made
                unfinished.acceptance[0] += value[ACCEPTANCE_RATE] / thin
                unfinished.steps[0] += 1
                state.clock.steps[0] += 1
                made += 1
            value[SECONDS] += 1e-9 * (nanoseconds() - started)  # audits have subtracted their time
            if unfinished.steps[0] == thin:
                assign(draws[draw], state.theta)
                count[ACCEPTED] = status
                value[ACCEPTANCE_RATE] = unfinished.acceptance[0]
                value[LP] = state.log_density[0]
                assign(counts[draw], count)
                assign(values[draw], value)
                unfinished.steps[0] = 0
                draw += 1
        return made

    return advance


@cached_by_content(maxsize=64)
def make_entry(advance: Callable[..., int]) -> Callable[..., int]:
    """Return the loop as a function that gets one address in place of generators, state and unfinished draw.

    Numba's code that reads a state from Python, array by array, would be a fifth of what is compiled.
    """
    advance = compiled(inline="always")(advance)  # two functions would be optimised twice

    def enter(chain: Any, steps: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        generators, state, unfinished = value_at(chain)
        streams = Streams(
            generator_at(generators.proposal),
            generator_at(generators.uniform),
            generator_at(generators.order),
            generator_at(generators.audit),
            generator_at(generators.start),
        )
        return advance(streams, state, unfinished, steps, thin, draws, counts, values)

    return enter


class Loop:
    """The loop around a step, for chains whose states have the type of a template `state`.

    `advance` is the function of `make_chain`, or, if `kind` is given, its compiled form, which takes an address of that
    type in place of its first three arguments. Arrays that the template shares with a chain, such as data and tables,
    are used by many chains on many threads, so no step writes to them.
    """

    def __init__(self, advance: Callable[..., int], state: Any, kind: Any = None) -> None:
        self.advance = advance
        self.kind = kind
        # Only weak references are stored, so that the template's arrays, some as long as the data, can be released.
        self.shared = [weakref.ref(leaf) for _, leaf in leaves(state) if isinstance(leaf, np.ndarray)]

    def of_chain(self, streams: Streams, state: Any, unfinished: UnfinishedDraw) -> Callable[..., int]:
        """Return the loop of one chain, ``advance(steps, thin, draws, counts, values) -> steps made``.

        Steps change the arrays of `state`, and the numbers in it are read once, here.
        """
        if self.kind is None:
            return functools.partial(self.advance, streams, state, unfinished)
        chain = Words(self.kind, (Streams._make(map(addresses, streams)), state, unfinished))
        return lambda *arguments: self.advance(chain.address, *arguments)

    def memory(self, state: Any, fixed: Sequence[np.ndarray]) -> dict[str, Any]:
        """Return the numbers and arrays of a chain's `state` by name, each array once.

        Arrays that are shared between chains, in `fixed`, or read-only are left out.
        """
        others = {id(array) for array in (*fixed, *(note() for note in self.shared))}
        memory: dict[str, Any] = {}
        met = set()
        for name, leaf in leaves(state):
            if isinstance(leaf, np.ndarray):
                address = (leaf.__array_interface__["data"][0], leaf.nbytes)
                if id(leaf) in others or not leaf.flags.writeable or (leaf.size and address in met):
                    continue
                met.add(address)
            memory[name] = leaf
        return memory


def compile_chain(step: Callable[..., int], state: Any) -> Loop:
    """Return the loop around a step, as machine code for chains whose states have the type of `state`."""
    if config.DISABLE_JIT:
        return Loop(make_chain(step), state)
    generators = nb.BaseTuple.from_types([ADDRESSES] * len(Streams._fields), Streams)
    kind = nb.Tuple([generators, type_of(state), type_of(new_draw())])
    signature = nb.int64(AddressOf(kind), nb.int64, nb.int64, MATRIX, COUNTS, MATRIX)
    return Loop(entry_point(kernel(make_entry(make_chain(step)), signature, allocates=False), signature), state, kind)


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
        self.loop = loop
        self.streams = streams
        self.unfinished = new_draw()
        self.state = state
        self.auditor = auditor
        self.fixed = fixed
        self.explain_failure = explain
        self.adapted = describe
        self.start_evaluations = start_evaluations

    @property
    def state(self) -> Any:
        """The state, a named tuple; another one in its place must have the same type."""
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state
        self._advance: Callable[..., int] | None = None  # the loop of this chain, made by its first call

    @property
    def proposed(self) -> np.ndarray:
        """The last proposal; shape (dim,)."""
        return np.asarray(self.state.proposed)

    @property
    def memory(self) -> dict[str, Any]:
        """Return the arrays that change during the run, by name, and the numbers of the set-up."""
        return self.loop.memory(self.state, self.fixed) | dict(leaves(self.unfinished, "unfinished"))

    def advance(self, steps: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make `steps` steps and record every `thin`-th state; return the steps made."""
        if self._advance is None:
            self._advance = self.loop.of_chain(self.streams, self.state, self.unfinished)
        n_made = int(self._advance(steps, thin, draws, counts, values))
        raise_kept()  # an exception in a Python function that the kernels called
        return n_made


class WatchedChain(CompiledChain):
    """A chain that calls ``watch(start, theta, count)`` at the draws that follow 1, 2, 4, 8, ... steps.

    `watch` checks with many data what steps do not see, and adds what it evaluated to the counts of the draw. If it
    returns False, the chain stops before this draw.
    """

    def __init__(self, watch: Callable[..., bool], *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.watch = watch
        self.begun_at = self.state.theta.copy()

    def advance(self, steps: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make `steps` steps, from check to check; return the steps made, without those of a draw that fails it."""
        clock = self.state.clock
        n_made = 0
        rows = 0
        while n_made < steps:
            begun = int(self.unfinished.steps[0])
            checks = int(clock.steps[0] - begun).bit_length()  # at the last draw
            draws_until_check = math.ceil(((1 << checks) - (clock.steps[0] - begun)) / thin)
            until_check = min(steps - n_made, draws_until_check * thin - begun)
            done = super().advance(until_check, thin, draws[rows:], counts[rows:], values[rows:])
            n_made += done
            rows += (begun + done) // thin
            if done < until_check:
                return n_made
            is_due = self.unfinished.steps[0] == 0 and int(clock.steps[0]).bit_length() > checks
            if is_due and not self.watch(self.begun_at, self.state.theta, counts[rows - 1]):
                assign(self.state.proposed, self.state.theta)  # reported as the place where the check failed
                return n_made - 1
        return n_made
