"""Assemble a run: bind a sampler to a target, find starting points, and start chains with random streams."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import (
    COUNT_NAMES,
    VALUE_NAMES,
    AnySampler,
    Chain,
    Program,
    Proposal,
    Streams,
    Target,
    Variables,
)
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import InvalidInputError, NotFiniteError

TRIES = 100  # random starts of a chain


def random_start(target: Target, rng: np.random.Generator, mover: Proposal | AnySampler) -> np.ndarray:
    """Return a random theta at which to start, shape (dim,): a draw that the target, or the mover, offers for this.

    Discrete targets offer a start, because their states cannot be shifted. So do components built on a Laplace
    approximation, such as `ControlVariate` and `PreconditionedCrankNicolson`. Otherwise return the target's initial
    point plus U(-1, 1).
    """
    for role in (target, mover):
        theta = role.draw_start(rng)
        if theta is not None:
            return np.asarray(theta, dtype=np.float64)
    centre = np.asarray(target.initial_point(), dtype=np.float64)
    return centre + rng.uniform(-1.0, 1.0, size=centre.shape)


def start_law(target: Target, sampler: AnySampler) -> Callable[[np.random.Generator], np.ndarray]:
    """Return the function that draws a start for chains of this sampler, ``draw(rng) -> theta``; see `random_start`."""
    return functools.partial(random_start, target, mover=sampler)


def starting_points(
    program: Program,
    variables: Variables,
    draw_start: Callable[[np.random.Generator], np.ndarray],
    initvals: Any,
    streams: Sequence[Streams],
) -> tuple[np.ndarray, int]:
    """Return one starting theta for each chain, shape (chains, dim), and the number of log densities evaluated.

    Parameters
    ----------
    program
        Evaluates the log density.
    variables
        Names and shapes, to read dicts.
    draw_start
        Returns a random theta, shape (dim,); see :func:`start_law`.
    initvals
        None: call `draw_start` with the chain's random stream, up to 100 times until the log density is finite. A
        Laplace approximation: draw from it, in the same way. Otherwise a dict by variable name, an array (dim,) or
        (chains, dim), or a list of dicts.
    streams
        The random streams of each chain.

    Raises
    ------
    InvalidInputError
        When initvals have the wrong names or shapes, or a point has no finite log density.
    NotFiniteError
        When 100 random starts found no finite log density.
    """
    if isinstance(initvals, ProvenStarts):
        return as_points(initvals.points, variables, len(streams)), 0
    if initvals is None or callable(getattr(initvals, "draw", None)):  # an xarray object may have a coordinate draw
        draw_start = draw_start if initvals is None else initvals.draw
        return _search(program, draw_start, [own.start for own in streams])
    points = as_points(initvals, variables, len(streams))
    for k, (theta, density) in enumerate(zip(points, program.log_densities(points), strict=True)):
        if not np.isfinite(density):
            raise InvalidInputError(
                f"initvals of chain {k} have log density {density} at {theta}; "
                "start where prior and likelihood are positive"
            )
    return points, len(points)


def _search(
    program: Program, draw_start: Callable[[np.random.Generator], np.ndarray], rngs: Sequence[np.random.Generator]
) -> tuple[np.ndarray, int]:
    """Return a start for each chain with a finite log density, and the number of log densities evaluated.

    Starts are drawn again where it is not finite, at most `TRIES` times; one pass over the data checks all.
    """
    points = np.array([draw_start(rng) for rng in rngs])
    evaluated = 0
    pending = np.arange(len(rngs))
    for _ in range(TRIES):
        densities = program.log_densities(points[pending])
        evaluated += len(pending)
        is_finite = np.isfinite(densities)
        if is_finite.all():
            return points, evaluated
        worst = points[pending][~is_finite][-1]
        last = densities[~is_finite][-1]
        pending = pending[~is_finite]
        for k in pending:
            points[k] = draw_start(rngs[int(k)])
    raise NotFiniteError(
        f"no starting point: {TRIES} random starts all had a log density that is not finite "
        f"(the last: {last} at {worst}); give initvals, or an initial_point inside the support"
    )


def as_points(initvals: Any, variables: Variables, chains: int) -> np.ndarray:
    """Return given starting values (arrays, a dict by variable, or a list of dicts) as points (chains, dim).

    Raises InvalidInputError if names or shapes do not fit.
    """
    if isinstance(initvals, Mapping):
        initvals = [initvals] * chains
    if isinstance(initvals, (list, tuple)) and initvals and isinstance(initvals[0], Mapping):
        initvals = np.array([_from_mapping(values, variables) for values in initvals])
    points = _numbers(initvals, "initvals")
    if points.shape == (variables.size,):
        points = np.tile(points, (chains, 1))
    if points.shape != (chains, variables.size):
        raise InvalidInputError(
            f"initvals must have shape ({variables.size},) or ({chains}, {variables.size}), or be a dict, or a list of "
            f"{chains} dicts, with the keys {list(variables.shapes)}; found shape {points.shape}"
        )
    return np.ascontiguousarray(points)


def _from_mapping(values: Mapping[str, Any], variables: Variables) -> np.ndarray:
    values = {**variables.defaults, **values}  # a model has an initial point for every variable
    unknown = set(values) - set(variables.shapes)
    missing = set(variables.shapes) - set(values)
    if unknown or missing:
        wrong = f"{sorted(unknown)} are unknown" if unknown else f"{sorted(missing)} are missing"
        raise InvalidInputError(f"initvals need the variables {sorted(variables.shapes)}; {wrong}")
    for name, shape in variables.shapes.items():
        shape_given = _numbers(values[name], f"initvals of {name}").shape
        if shape_given != shape:
            raise InvalidInputError(
                f"initvals of {name} need shape {shape}, found {shape_given}; to start each chain elsewhere, give a "
                "list of dicts"
            )
    return variables.pack(values)


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be numbers, found {values!r:.200}") from error


class ProvenStarts(NamedTuple):
    """Starting points (chains, dim) where the log density is known to be finite, so that no pass has to check it."""

    points: np.ndarray


class Settings(NamedTuple):
    """The settings of a run, apart from its target and its sampler; see `sample`.

    One draw in `every` is kept, in addition to `thin`; `enough` is the number of effective draws at which draws are not
    thinned further, None if they are not thinned by this rule.
    """

    draws: int | None
    tune: int | None
    chains: int
    thin: int
    seed: Any
    target_ess: float | None = None
    time_limit: float | None = None
    max_bias: float = 0.0
    audit_every: int | str | None = "auto"
    discard_tuned_samples: bool = True
    every: int = 1
    enough: float | None = None


class Assembly(NamedTuple):
    """A program and its chains, ready for a first step, and the cost of making them.

    `points`, shape (chains, dim), are the starting points, `streams` the generators of the chains. `evaluations` counts
    the log densities evaluated to find the points; the seconds are the time for building and for starting.
    """

    program: Program
    chains: list[Chain]
    streams: list[Streams]
    points: np.ndarray
    evaluations: int
    compile_seconds: float
    start_seconds: float


class Steps(NamedTuple):
    """Recorded states, shape (n, dim), and the counts and values of the steps up to each, one row for each state."""

    draws: np.ndarray
    counts: np.ndarray
    values: np.ndarray


def make_steps(chain: Chain, n: int, dim: int, *, thin: int = 1, message: str) -> Steps:
    """Advance a chain ``n * thin`` steps and return every `thin`-th state with its records.

    Raises NotFiniteError, which begins with `message`, if the chain fails.
    """
    counts = np.empty((n, len(COUNT_NAMES)), np.int64)
    values = np.empty((n, len(VALUE_NAMES)))
    recorded = Steps(np.empty((n, dim)), counts, values)
    if chain.advance(n * thin, thin, *recorded) < n * thin:
        raise NotFiniteError(f"{message}: {chain.explain_failure()}")
    return recorded


def assemble(
    target: Target,
    sampler: Any,
    *,
    seed: Any,
    chains: int,
    tune: int,
    audit_every: int | str | None = None,
    initvals: Any = None,
    draw_start: Callable[[np.random.Generator], np.ndarray] | None = None,
) -> Assembly:
    """Build a sampler on a target, and start its chains.

    Parameters
    ----------
    seed
        As `random_seed` of `sample`; chain k depends only on the seed and on k. Or a list of the chains' `Streams`.
    audit_every
        As in `sample`.
    initvals, draw_start
        As in :func:`~approxmcmc.sampling.assembly.starting_points`; the default of `draw_start` is `start_law`.

    Raises
    ------
    InvalidInputError
        When the seed, or the given starting points, are invalid.
    NotFiniteError
        When no starting point with a finite log density is found.
    """
    began = time.perf_counter()
    program = sampler.build(target, audit_every=audit_every)
    built = time.perf_counter()
    own = seed if _are_streams(seed) else [streams(sequence) for sequence in seed_sequences(seed, chains)[0]]
    law = start_law(target, sampler) if draw_start is None else draw_start
    points, evaluations = starting_points(program, target.variables, law, initvals, own)
    started = [program.start(theta, each, tune) for theta, each in zip(points, own, strict=True)]
    return Assembly(program, started, own, points, evaluations, built - began, time.perf_counter() - built)


def _are_streams(seed: Any) -> bool:
    return isinstance(seed, list) and all(isinstance(each, Streams) for each in seed)
