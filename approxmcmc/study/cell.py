"""One cell: one chain, timed on both clocks between two speed probes, and the record of its result.

A foreign sampler makes its chain by itself: it gets the same budget and start, and its trace is validated.
"""

import json
import math
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target, WholeSampler
from approxmcmc.diagnostics.diagnose import findings
from approxmcmc.diagnostics.finite import not_finite
from approxmcmc.engine.limit_clock import processor_seconds
from approxmcmc.errors import SamplingError, SamplingWarning, StudyError
from approxmcmc.study.budget import Budget
from approxmcmc.study.machine import is_noisy, one_thread, speed_probe, stopwatch
from approxmcmc.study.plan import Cell, Plan
from approxmcmc.study.record import Record, planned_record
from approxmcmc.study.store import hash_of_draws
from approxmcmc.whole_chains import ChainSampler

# Counts of a trace that a record sums over tuning steps and draws.
TOTALS: Final = (
    "datapoints_touched",
    "likelihood_evaluations",
    "decisions_made",
    "decisions_audited",
    "wrong_decisions",
    "wrong_accepts",
)

# A cell is one of many replicates: they are checked together, in the report's table of R-hat and ESS.
JUDGED_TOGETHER: Final = ("bulk ESS", "tail ESS")


def run_cell(
    plan: Plan, cell: Cell, *, sample: Callable[..., xr.DataTree], probe: Callable[[], float] = speed_probe
) -> tuple[Record, xr.DataTree | None]:
    """Run one chain and return its record and, if it has draws, its trace.

    Parameters
    ----------
    plan, cell
        The cell, and its plan.
    sample
        Called like :func:`approxmcmc.sample`, with one chain on one core; not called for a foreign sampler.
    probe
        Returns the seconds of a fixed piece of work.

    Returns
    -------
    dict
        The record. Its ``status`` is ``done``; ``invalid`` when a SamplingError was raised, a draw was not finite, or
        the budget ended before the first draw; or ``failed`` when another error was raised (``error`` holds the
        traceback). Counts are totals, tuning included. ``wall_seconds`` and ``cpu_seconds`` time the whole call,
        ``sampling_seconds`` its steps, ``setup_seconds`` the rest.
    DataTree or None
        The trace of one chain.

    Raises
    ------
    KeyboardInterrupt
        If the chain was interrupted: a partial chain is not a result.
    """
    plan.study.target(cell.target)  # made before the clock starts
    record = planned_record(cell, plan)
    trace = None
    error = None
    status = "done"
    before = probe()
    with one_thread(), processor_seconds(), warnings.catch_warnings(record=True) as caught, stopwatch() as watch:
        warnings.simplefilter("always")
        try:
            trace = _chain(plan, cell, sample)
        except SamplingError as problem:
            status = "invalid"
            error = str(problem)
        except Exception as problem:  # an error is a result of the study; the other cells continue
            if _interrupted(problem):
                raise KeyboardInterrupt from problem
            status = "failed"
            error = traceback.format_exc()
    after = probe()
    record |= {"wall_seconds": watch.wall_seconds, "cpu_seconds": watch.cpu_seconds}
    record |= {"probe_before": before, "probe_after": after, "noisy": is_noisy(before, after)}
    others = [warning for warning in caught if trace is None or not issubclass(warning.category, SamplingWarning)]
    record["warnings"] = list(dict.fromkeys(str(warning.message) for warning in others))
    if trace is not None:
        trace = with_processor_time(trace, watch.cpu_seconds / max(watch.wall_seconds, 1e-9))
        record["warnings"] = problems(trace) + record["warnings"]
        if isinstance(cell.sampler, ChainSampler):
            record["warnings"] += doubtful_clock(trace, watch.wall_seconds, watch.cpu_seconds)
        record |= measurements(trace, watch.wall_seconds)
        if record["stopped"] == "interrupt":
            raise KeyboardInterrupt
        error = defect(trace)
        status = "done" if error is None else "invalid"
    return {**record, "status": status, "error": error}, trace


def _chain(plan: Plan, cell: Cell, sample: Callable[..., xr.DataTree]) -> xr.DataTree:
    study = plan.study
    target = plan.study.target(cell.target)
    budget = plan.study.budget_of(cell.target)
    initial = cell.starting_point(study, target)
    if isinstance(cell.sampler, ChainSampler):
        return foreign_chain(budget, cell.sampler, target, seed=cell.seed, initial=initial)
    if target.plain.returned is not None:
        target.plain.returned.wanted = ()  # deterministics take time and space, and follow from the stored draws
    # Of a whole sampler, `tune` and `thin` are settings of the sampler, not of the study.
    has_own_steps = isinstance(cell.sampler, WholeSampler)
    return sample(
        target,
        cell.sampler,
        draws=budget.most_draws,
        tune=None if has_own_steps else study.tune,
        chains=1,
        cores=1,
        random_seed=cell.seed,
        initvals=initial,
        thin=1 if has_own_steps else study.thin,
        time_limit=budget.seconds,
        audit_every=study.audit_every,
        progressbar=False,
    )


def with_processor_time(trace: xr.DataTree, share: float) -> xr.DataTree:
    """Return a trace with the record ``thread_time_diff``; if it is missing, wall-clock seconds multiplied by `share`.

    A trace without either record is returned unchanged.

    Parameters
    ----------
    share
        Processor seconds of the process over wall-clock seconds, of the whole cell: another library's threads count.
    """
    stats = trace["sample_stats"].to_dataset()
    if "thread_time_diff" in stats or "perf_counter_diff" not in stats:
        return trace
    stats["thread_time_diff"] = share * stats["perf_counter_diff"]
    if "tuning_perf_counter_diff" in stats.attrs:
        stats.attrs["tuning_thread_time_diff"] = (share * np.asarray(stats.attrs["tuning_perf_counter_diff"])).tolist()
    return xr.DataTree.from_dict({**trace.to_dict(), "/sample_stats": stats})


def _interrupted(problem: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error, as when a library's compiled code was interrupted."""
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__
    return problem is not None


def problems(trace: xr.DataTree) -> list[str]:
    """Return the problems of a trace, except those that the report checks over all replicates together.

    `sample` has judged its own traces; those of other samplers are judged here.
    """
    attrs = trace["posterior"].attrs
    if "diagnosis" in attrs:
        fired = [(row["check"], row["finding"]) for row in json.loads(attrs["diagnosis"])]
    else:
        fired = [(finding.check, finding.finding) for finding in findings(trace) if finding.fires]
    return [sentence for check, sentence in fired if check not in JUDGED_TOGETHER]


CLAIMS = "The sampler reports "  # beginning of a warning about its clock
UNSEEN = 0.02  # seconds; a smaller difference is that of the cell's own work
LEAST_CLAIMED = 0.5  # share of a cell's seconds; below it, the clock was not read when the work was done
MOST_CLAIMED = 1.1


def doubtful_clock(trace: xr.DataTree, wall_seconds: float, cpu_seconds: float) -> list[str]:
    """Return a sentence if the seconds that a sampler reports are not those that its cell took; else nothing.

    A library that computes in the background, as JAX does, returns before the work is done: a clock that is read then
    shows a fraction of the time, which the cell's own clocks show in full.

    Parameters
    ----------
    trace
        What the sampler returned, with the seconds of warm-up and draws, and of compilation if it states them.
    wall_seconds, cpu_seconds
        Of the whole cell.
    """
    attrs = trace["sample_stats"].attrs
    claimed = float(attrs["sampling_time"])
    stated = float(np.nan_to_num(float(attrs.get("setup_compile_seconds", np.nan))))
    if claimed > MOST_CLAIMED * wall_seconds + UNSEEN:
        return [f"{CLAIMS}{claimed:.2g} s of sampling, and its whole cell took {wall_seconds:.2g} s of the wall clock."]
    left = min(wall_seconds, cpu_seconds) - stated
    if claimed > LEAST_CLAIMED * left or left - claimed < UNSEEN:
        return []
    return [
        (
            f"{CLAIMS}{claimed:.2g} s of sampling, and its cell took {left:.2g} s besides the compilation that it "
            "states. Read the clock when the work is done (in JAX after `jax.block_until_ready`), and state other "
            "set-up as `compile_seconds` of `chain_trace`."
        )
    ]


def measurements(trace: xr.DataTree, wall_seconds: float) -> Record:
    """Return seconds and counts of a one-chain trace, tuning included; `wall_seconds` are those of the whole call."""
    stats = trace["sample_stats"]
    attrs = trace["sample_stats"].attrs
    draws = int(stats.sizes.get("draw", 0))
    sampling = float(attrs.get("sampling_time", np.nan))
    rates = stats["acceptance_rate"] if draws and "acceptance_rate" in stats else None
    measured: Record = {
        "draws": draws,
        "steps": draws * int(attrs.get("thin", 1)) + int(attrs.get("tuning_steps", 0)),
        "sampling_seconds": sampling,
        "setup_seconds": wall_seconds - sampling,
        "compile_seconds": float(attrs.get("setup_compile_seconds", np.nan)),
        "acceptance_rate": None if rates is None else float(rates.mean()),
        "stopped": str(attrs.get("stopped", "")),
        "draws_hash": hash_of_draws(trace),
    }
    for name in TOTALS:
        if name in stats:
            measured[name] = int(stats[name].sum()) + int(np.atleast_1d(attrs.get(f"tuning_{name}", 0))[0])
    return measured


def defect(trace: xr.DataTree) -> str | None:
    """Return why a trace is invalid, or None: no draws, a failed chain, a draw that is not finite."""
    attrs = trace["sample_stats"].attrs
    posterior = trace["posterior"]
    if attrs.get("stopped") == "failure":
        return f"The chain failed: {attrs.get('failure', 'cause unknown')}."
    if not posterior.sizes.get("draw", 0):
        return "The budget ended before the first draw: give more seconds, or fewer tuning steps or steps per draw."
    sentence = not_finite(posterior.to_dataset())
    return f"{sentence}." if sentence else None


def foreign_chain(
    budget: Budget, sampler: ChainSampler, target: Target, *, seed: int, initial: np.ndarray
) -> xr.DataTree:
    """Run a foreign sampler within a budget, and return its trace.

    Raises
    ------
    StudyError
        If the trace is not one chain of the target's variables with a clock.
    """
    trace = sampler.draw_chain(target, seconds=budget.seconds, draws=budget.most_draws, seed=seed, initial=initial)
    fault = _fault(trace, target)
    if fault:
        raise StudyError(
            f"{type(sampler).__name__}.draw_chain needs to return one chain as `whole_chains.chain_trace` makes it; "
            f"found {fault}."
        )
    return trace


def _fault(trace: Any, target: Target) -> str:
    children = getattr(trace, "children", None)
    if children is None:
        return f"a {type(trace).__name__}"
    missing = {"posterior", "sample_stats"} - set(children)
    if missing:
        return f"no group {sorted(missing)}"
    posterior = trace["posterior"]
    stats = trace["sample_stats"]
    if posterior.sizes.get("chain") != 1 or "draw" not in posterior.sizes:
        return f"posterior dims {dict(posterior.sizes)}"
    if lacking := set(target.variables.shapes) - set(posterior.data_vars):
        return f"no variables {sorted(lacking)}"
    if "perf_counter_diff" not in stats:
        return "no record perf_counter_diff in sample_stats, the seconds of each draw"
    spent = float(stats.attrs.get("sampling_time", math.nan))
    return "" if math.isfinite(spent) else "no attribute sampling_time of sample_stats, the seconds on the clock"
