"""What NUTS of nutpie or PyMC is asked for, the raw draws that it returns, and the same draws as the library has them.

The raw draws are all draws in order, with one record for each. In the library's form they are thinned and named, and
terms are counted by leapfrog steps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import NamedDraws, Target, Variables, WholeRun

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
GRADIENTS = "gradient_evaluations"
COUNTS = (GRADIENTS, "likelihood_evaluations", "datapoints_touched")
# How `thinned` combines the records of a kept draw and of the dropped draws before it: sum, logical or, mean.
SUMMED = (*COUNTS, "n_steps", "perf_counter_diff")
ANY = ("diverging", "reached_max_treedepth")
MEANT = ("acceptance_rate",)


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


def named_draws(
    raw: RawDraws, target: Target, asked: WholeRun, every: int, flat: np.ndarray, attrs: Mapping[str, Any]
) -> NamedDraws:
    """Return every `every`-th draw with its records, the totals of tuning, and attributes.

    `flat` holds the same draws as vectors. Counts and seconds of dropped draws are added to the next kept draw.
    """
    stats = _counted({**raw.stats, "perf_counter_diff": raw.seconds}, target.n_obs, only_nuts=raw.only_nuts)
    warmup = {**raw.warmup_stats, "perf_counter_diff": raw.warmup_seconds}
    warmup = _counted(warmup, target.n_obs, only_nuts=raw.only_nuts)
    kept = raw.posterior.isel(draw=slice(every - 1, None, every))
    return NamedDraws(
        _described(kept, target),
        _arrays(kept),
        {name: thinned(name, values, every) for name, values in stats.items()},
        _arrays(raw.warmup_posterior),
        warmup,
        {name: warmup[name].sum(axis=1) for name in SUMMED if name in warmup},
        flat,
        {
            "clock": raw.clock,
            "setup_compile_seconds": raw.compile_seconds,
            "sampling_time": raw.wall_seconds,
            "tuning_steps": asked.tune,
            "thin": every,
            "stopped": raw.stopped,
            **attrs,
        },
    )


def thinned(name: str, values: np.ndarray, every: int) -> np.ndarray:
    """Return the record `name` of every `every`-th draw, combined with those of the dropped draws before it.

    Counts and seconds are summed, flags are true if any is, acceptance rates are averaged, others are the last value.
    """
    if every == 1:
        return values
    n_draws = values.shape[1] // every
    grouped = values[:, : n_draws * every].reshape(len(values), n_draws, every)
    if name in SUMMED:
        return grouped.sum(axis=2)
    if name in ANY:
        return grouped.any(axis=2)
    return grouped.mean(axis=2) if name in MEANT else grouped[:, :, -1]


def _counted(stats: dict[str, np.ndarray], n_obs: int, *, only_nuts: bool) -> dict[str, np.ndarray]:
    """Return `stats` with counts of gradients, terms and data, `n_obs` for each leapfrog step, if steps are recorded.

    With other step methods (`only_nuts` False) only gradients are counted, because their reads are unknown.
    """
    if "n_steps" not in stats:
        return stats
    rows = np.rint(stats["n_steps"].astype(np.float64) * n_obs).astype(np.int64)
    return {**stats, **dict.fromkeys(COUNTS if only_nuts else (GRADIENTS,), rows)}


def _described(posterior: xr.Dataset, target: Target) -> Variables:
    """Return the names and shapes of the variables, with the axes and labels of the target."""
    shapes = {str(name): variable.shape[2:] for name, variable in posterior.data_vars.items()}
    return Variables(shapes, target.variables.dims, target.variables.coords)


def _arrays(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    return {
        str(name): variable.transpose("chain", "draw", ...).to_numpy() for name, variable in posterior.data_vars.items()
    }
