"""The parts of a run: its settings, a sampler bound to a target, and chains with streams and starting points."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Chain, Program, Streams, Target
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.sampling.initial import start_law, starting_points


class Settings(NamedTuple):
    """The settings of a run, apart from its target and its sampler; see `sample`.

    `every` thins the kept draws, `enough` is the number of effective draws that thinning should reach.
    """

    draws: int | None
    tune: int | None
    chains: int
    thin: int
    seed: Any
    target_ess: float | None = None
    time_limit: float | None = None
    bias: float | str | None = None
    audit_every: int | str | None = "auto"
    discard_tuned_samples: bool = True
    every: int = 1
    enough: float | None = None


class Assembly(NamedTuple):
    """A program and its chains, ready for a first step, and the cost of making them.

    `points`, shape (chains, dim), are the starting points, `streams` the generators of the chains. `evaluations` counts
    the log densities evaluated to find the points; the seconds are those of building and of starting.
    """

    program: Program
    chains: list[Chain]
    streams: list[Streams]
    points: np.ndarray
    evaluations: int
    compile_seconds: float
    start_seconds: float


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
        As `random_seed` of `sample`; chain k depends only on it and on k.
    audit_every
        As in `sample`.
    initvals, draw_start
        As in :func:`~approxmcmc.sampling.initial.starting_points`; without `draw_start`, that of `start_law`.

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
    own = [streams(sequence) for sequence in seed_sequences(seed, chains)[0]]
    law = start_law(target, sampler) if draw_start is None else draw_start
    points, evaluations = starting_points(program, target.variables, law, initvals, own)
    started = [program.start(theta, each, tune) for theta, each in zip(points, own, strict=True)]
    return Assembly(program, started, own, points, evaluations, built - began, time.perf_counter() - built)
