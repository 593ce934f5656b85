"""Input and output of both libraries: all draws in order, with one record for each."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

# Names of the records of a draw: ours, and those of nutpie and PyMC.
RECORDS: Mapping[str, Sequence[str]] = {
    "n_steps": ("n_steps", "tree_size"),
    "diverging": ("diverging",),
    "lp": ("lp", "logp"),
    "acceptance_rate": ("acceptance_rate", "mean_tree_accept"),
    "tree_depth": ("tree_depth", "depth"),
    "reached_max_treedepth": ("reached_max_treedepth", "maxdepth_reached"),
    "step_size": ("step_size",),
    "energy": ("energy",),
}


class NUTSJob(NamedTuple):
    """A run on a model. `draws` and `more` say when it ends.

    Parameters
    ----------
    model
        The ``pm.Model``.
    shapes
        Shape of each variable of the target.
    names
        Variables to return; None: all that `pm.sample` returns.
    seeds
        One for each chain.
    first_seeds, restarted
        As in `WholeRun`.
    starts
        Values of free variables for each chain; None: mirrored pairs, see `mirrored_starts`.
    draws
        Draws of each chain after tuning, before anything is thinned.
    more
        Called with the posterior, dims (chain, draw, ...), and the mean number of leapfrog steps of a draw, when all
        chains have `draws` draws. Returns the draws of a longer run, or 0 at the end.
    most
        Upper bound of the draws that `more` returns.
    tune, target_accept, cores
        Tuning steps, acceptance rate to tune to, and the number of chains that run at once.
    seconds
        Time limit in seconds of `limit_clock`, from the start of the chains; or None.
    tick
        Called with the steps made so far, tuning included.
    """

    model: Any
    shapes: Mapping[str, tuple[int, ...]]
    names: Sequence[str] | None
    seeds: Sequence[int]
    starts: Sequence[Mapping[str, Any]] | None
    draws: int
    more: Callable[[xr.Dataset, float], int]
    most: int
    tune: int
    target_accept: float
    cores: int
    seconds: float | None
    tick: Callable[[int], None]
    first_seeds: Sequence[int] = ()
    restarted: Sequence[int] = ()


class RawDraws(NamedTuple):
    """All draws of all chains, dims (chain, draw, ...), and records of shape (chain, draw), by the names of `RECORDS`.

    `seconds` (chain, draw) are those of each draw, `wall_seconds` those of the whole run, compilation excluded; `clock`
    says how draws were timed. `stopped` is "", "time_limit" or "interrupt". `only_nuts` is False if other step methods
    move some of the variables. `adaptation` is nutpie's name of what scales are taken from, "" by PyMC.
    """

    posterior: xr.Dataset
    stats: Mapping[str, np.ndarray]
    seconds: np.ndarray
    warmup_posterior: xr.Dataset
    warmup_stats: Mapping[str, np.ndarray]
    warmup_seconds: np.ndarray
    compile_seconds: float
    wall_seconds: float
    clock: str
    stopped: str = ""
    only_nuts: bool = True
    adaptation: str = ""


def records_of(stats: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the records of draws by our names, shape (chain, draw) each; missing records are left out."""
    records = {}
    for ours, theirs in RECORDS.items():
        name = next((name for name in theirs if name in stats and stats[name].dims == ("chain", "draw")), None)
        if name is not None:
            records[ours] = stats[name].to_numpy()
    return records


def mean_leapfrogs(stats: xr.Dataset) -> float:
    """Return the mean number of leapfrog steps of a draw; NaN if the library does not record it."""
    steps = next((stats[name] for name in RECORDS["n_steps"] if name in stats), None)
    return math.nan if steps is None else float(steps.mean())
