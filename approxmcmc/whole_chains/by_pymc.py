"""NUTS of PyMC, and its other step methods for discrete parameters and models without a gradient.

A longer run starts again, because PyMC cannot resume a finished run. With the same seeds it begins with the same draws.
"""

import contextlib
import logging
import math
import multiprocessing
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.whole_chains.nuts_draws import NUTSJob, RawDraws, mean_leapfrogs, records_of
from approxmcmc.whole_chains.starts import constrained, mirrored_starts

CLOCK = "each draw timed"


class StepClock:
    """Records when each step of each chain ended; the time limit counts from the first step of any chain."""

    def __init__(self, job: NUTSJob) -> None:
        self.job = job
        self.ends = [list[float]() for _ in job.seeds]
        self.began = math.nan
        self.late = False

    def __call__(self, trace: Any, draw: Any) -> None:
        """Record the time of a step; after `job.seconds`, interrupt PyMC, which then returns the draws so far."""
        now = time.perf_counter()
        self.ends[draw.chain].append(now)
        self.job.tick(sum(map(len, self.ends)))
        self.began = limit_clock() if math.isnan(self.began) else self.began
        if self.job.seconds is not None and limit_clock() - self.began >= self.job.seconds:
            self.late = True
            raise KeyboardInterrupt

    def seconds(self, chain: int, steps: int) -> np.ndarray:
        """Return the seconds of each of the first `steps` steps of a chain; the first step gets the median."""
        spent = np.diff(self.ends[chain][:steps])
        return np.concatenate([[np.median(spent) if len(spent) else 0.0], spent])[:steps]


def draw(job: NUTSJob) -> RawDraws:
    """Draw chains by PyMC.

    Raises
    ------
    Exception
        Any error of PyMC, `pymc.exceptions.SamplingError` if no chain can start.
    """
    draws = job.draws
    began = time.perf_counter()
    while True:
        clock = StepClock(job)
        tree = _sample_from_pairs(job, clock, draws) if job.starts is None else _sample(job, clock, draws, job.starts)
        stopped = "time_limit" if clock.late else ""
        if tree is None or _is_cut(tree, draws, len(job.seeds)):
            stopped = stopped or "interrupt"
            break
        longer = job.more(tree["posterior"].to_dataset(), mean_leapfrogs(tree["sample_stats"].to_dataset()))
        if not longer:
            break
        draws = longer
    return _raw(job, clock, tree, began, stopped)


def _is_cut(tree: xr.DataTree, draws: int, chains: int) -> bool:
    """Return whether PyMC was stopped early; a run that was stopped while it tuned has no posterior at all."""
    if "posterior" not in tree.children:
        return True
    sizes = tree["posterior"].sizes
    return sizes["draw"] < draws or sizes["chain"] < chains


def _sample_from_pairs(job: NUTSJob, clock: StepClock, draws: int) -> xr.DataTree | None:
    """Return PyMC's draws from mirrored starts or, if PyMC rejects one of these, from starts of its own."""
    starts = constrained(job.model, mirrored_starts(job.model, job.seeds, job.first_seeds, job.restarted))
    try:
        return _sample(job, clock, draws, starts)
    except start_error():
        if any(clock.ends):  # the chains had started
            raise
        return _sample(job, clock, draws, None)


def _sample(
    job: NUTSJob, clock: StepClock, draws: int, starts: Sequence[Mapping[str, Any]] | None
) -> xr.DataTree | None:
    """Return PyMC's draws, None if it was stopped before the first step."""
    import pymc as pm

    at_once = 1 if multiprocessing.current_process().daemon else job.cores
    try:
        with silent("pymc"), warnings.catch_warnings():
            # Where PyMC starts its chains by fork, Python warns that this is deprecated in a process with threads; the
            # user cannot change it.
            warnings.filterwarnings("ignore", r"(?s).*fork\(\)", DeprecationWarning)
            return pm.sample(
                model=job.model,
                draws=draws,
                tune=job.tune,
                chains=len(job.seeds),
                cores=at_once,
                random_seed=list(job.seeds),
                initvals=None if starts is None else [dict(start) for start in starts],
                init="auto" if starts is None else "adapt_diag",
                var_names=None if job.names is None else list(job.names),
                progressbar=False,
                compute_convergence_checks=False,
                discard_tuned_samples=False,
                callback=clock,
                nuts_sampler="pymc",
                **_settings(job),
            )
    except ValueError as error:  # PyMC raises this if the run ends before the first step
        if "Not enough samples" not in str(error):
            raise
        return None


def _settings(job: NUTSJob) -> dict[str, Any]:
    """Return `target_accept` for NUTS, unless it is PyMC's default or would be unused, at which PyMC raises."""
    continuous = len(job.model.discrete_value_vars) < len(job.model.free_RVs)
    return {"nuts": {"target_accept": job.target_accept}} if continuous and job.target_accept != 0.8 else {}


def _raw(job: NUTSJob, clock: StepClock, tree: xr.DataTree | None, began: float, stopped: str) -> RawDraws:
    """Return draws and records of all chains; the time before the first step counts as compilation."""
    first = min((ends[0] for ends in clock.ends if ends), default=time.perf_counter())
    known = {} if tree is None else {name: node.to_dataset() for name, node in tree.children.items()}
    begun = known["warmup_posterior"]["chain"].to_numpy() if "warmup_posterior" in known else np.arange(len(job.seeds))
    empty = _no_draws(job, begun)
    groups = {
        name: known.get(name, empty)
        for name in ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
    }
    stats, warmup_stats = (records_of(groups[name]) for name in ("sample_stats", "warmup_sample_stats"))
    chains = groups["posterior"]["chain"].to_numpy().tolist()
    tuned = groups["warmup_posterior"].sizes["draw"]
    kept = groups["posterior"].sizes["draw"]
    seconds = np.array([clock.seconds(k, tuned + kept) for k in chains])
    return RawDraws(
        groups["posterior"],
        stats,
        seconds[:, tuned:],
        groups["warmup_posterior"],
        warmup_stats,
        seconds[:, :tuned],
        first - began,
        time.perf_counter() - first,
        CLOCK,
        stopped,
        only_nuts=not job.model.discrete_value_vars and "nstep_out" not in groups["sample_stats"],
    )


def _no_draws(job: NUTSJob, chains: np.ndarray) -> xr.Dataset:
    """Return a posterior of the target's variables with 0 draws of each chain."""
    arrays = {
        name: (
            ("chain", "draw", *(f"{name}_dim_{k}" for k in range(len(shape)))),
            np.empty((len(chains), 0, *shape)),
        )
        for name, shape in job.shapes.items()
    }
    return xr.Dataset(arrays, {"chain": chains, "draw": np.arange(0)})


def start_error() -> type[Exception]:
    """Return the error that PyMC raises if no chain can start."""
    from pymc.exceptions import SamplingError

    return SamplingError


@contextlib.contextmanager
def silent(*names: str) -> Iterator[None]:
    """Silence loggers inside this context."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
