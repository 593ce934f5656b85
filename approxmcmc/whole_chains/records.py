"""Draws and records of NUTS in the library's form: thinned, named, counted by leapfrog steps; why no chain starts."""

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import NamedDraws, Target, Variables, WholeRun
from approxmcmc.whole_chains.raw import RawDraws

GRADIENTS = "gradient_evaluations"
COUNTS = (GRADIENTS, "likelihood_evaluations", "datapoints_touched")
# How `thinned` combines the records of a kept draw and of the dropped draws before it: sum, logical or, mean.
SUMMED = (*COUNTS, "n_steps", "perf_counter_diff")
ANY = ("diverging", "reached_max_treedepth")
MEANT = ("acceptance_rate",)


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


SHOWN = 1500  # most characters of the output of `model.debug` in a message


def why_no_start(model: Any, error: Exception) -> str:
    """Return PyMC's diagnosis of a model from which no chain could start, and what to do.

    The log density of each variable at the model's initial point comes from ``model.point_logps``; where one of them is
    not finite, ``model.debug`` shows its parameters there.
    """
    said = str(error).strip().partition("\n")[0]
    try:
        point = model.initial_point()
        logps = model.point_logps(point)
    except Exception as problem:  # of any kind, from the user's operations
        return f"NUTS cannot start: {said}. The model's initial point cannot be evaluated: {problem}"
    wrong = [name for name, value in logps.items() if not np.isfinite(value)]
    table = ", ".join(f"{name} {value}" for name, value in logps.items())
    if not wrong:
        return (
            f"NUTS cannot start: {said}. At the model's initial point all log densities are finite ({table}), so look "
            "at its gradient and at points near it: model.debug(fn='dlogp'); or give initvals inside the support"
        )
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(Exception):  # optional, and may fail too
        model.debug(point)
    return (
        f"NUTS cannot start: {said}. The log density of {', '.join(wrong)} is not finite at the model's initial point: "
        f"{table}. Correct the data or the prior of {wrong[0]}, or give initvals inside the support. PyMC's "
        f"model.debug() says:\n{text.getvalue().strip()[:SHOWN]}"
    )
