"""The clock of a trace from another library: seconds of each draw, if the trace does not record them itself."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.records import group, lengths
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.clock import spread

RECORD = "perf_counter_diff"
# Names of the record in several libraries.
GRADIENTS = ("gradient_evaluations", "n_steps", "tree_size", "num_steps", "num_integration_steps")
UNKNOWN = "unknown: pass clock="
ADVICE = (
    "Pass their time. `clock=` takes the seconds of each draw of each chain, or the total seconds of a chain's kept "
    "draws, which are then spread over the draws in proportion to the gradients that the trace counts, or evenly. "
    "`warmup_seconds=` takes the seconds of a chain before its first kept draw. A sampler of `approxmcmc.whole_chains` "
    "times itself."
)


def with_clock(trace: xr.DataTree, clock: Any = None, warmup_seconds: Any = None) -> xr.DataTree:
    """Return a trace with the given seconds of its draws, as its record ``perf_counter_diff``, and of its warm-up.

    Parameters
    ----------
    trace
        Any ArviZ trace; without ``sample_stats`` it gets that group.
    clock
        Seconds, either of each draw, shape (draw,) or (chain, draw), or of all kept draws of each chain, one number or
        shape (chain,). The latter are spread over the draws by the gradients that the trace counts (``n_steps`` of
        nutpie, ``tree_size`` of PyMC), or evenly. None: as recorded in the trace.
    warmup_seconds
        Seconds of a chain before its first kept draw: one number, or one for each chain. None: as recorded in the
        trace.

    Returns
    -------
    xarray.DataTree
        The trace itself if nothing is given and it has ``sample_stats``; otherwise a copy that shares its arrays. With
        `clock`, the attribute ``clock`` of ``sample_stats`` says how draws were timed.

    Raises
    ------
    InvalidInputError
        If the numbers are negative, not finite, or do not fit the chains and draws.
    """
    posterior = group(trace, "posterior")
    if clock is None and warmup_seconds is None and "sample_stats" in trace.children:
        return trace
    chains = posterior.sizes["chain"]
    draws = posterior.sizes["draw"]
    stats = group(trace, "sample_stats") if "sample_stats" in trace.children else _no_stats(posterior)
    stats = stats.copy()
    if clock is not None:
        is_real = np.arange(draws) < lengths(trace)[:, None]
        seconds, how = _seconds(_numbers(clock, "clock"), stats, is_real)
        stats[RECORD] = (("chain", "draw"), seconds)
        stats.attrs["clock"] = how
        stats.attrs.pop(f"tuning_{RECORD}", None)
    if warmup_seconds is not None:
        totals = _numbers(warmup_seconds, "warmup_seconds")
        if totals.shape not in ((), (chains,)):
            raise InvalidInputError(
                f"`warmup_seconds` needs one number, or one for each of {chains} chains; found shape {totals.shape}."
            )
        stats.attrs[f"tuning_{RECORD}"] = np.broadcast_to(totals, chains).tolist()
    return xr.DataTree.from_dict({**trace.to_dict(), "/sample_stats": stats})


def with_clocks(traces: Sequence[xr.DataTree], clock: Any, warmup_seconds: Any) -> list[xr.DataTree]:
    """Return `with_clock` of each trace of a sampler; lists of `clock` or `warmup_seconds` hold an entry for each."""
    clocks, warmups = (
        list(value) if _is_list_for(value, traces) else [value] * len(traces) for value in (clock, warmup_seconds)
    )
    return [with_clock(*each) for each in zip(traces, clocks, warmups, strict=True)]


def by_name(values: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return ``values[name]`` for each name of a run in `names`; None for names that `values` leaves out.

    `what` is the argument's name in messages.

    Raises
    ------
    InvalidInputError
        If `values` is not a mapping, or names an unknown run.
    """
    if values is None:
        values = {}
    if not isinstance(values, Mapping) or not set(values) <= set(names):
        keys = sorted(set(values) - set(names)) if isinstance(values, Mapping) else type(values).__name__
        raise InvalidInputError(f"`{what}` needs a dict by the names of the runs, {list(names)}; found {keys}.")
    return {name: values.get(name) for name in names}


def _is_list_for(value: Any, traces: Sequence[xr.DataTree]) -> TypeGuard[list[Any]]:
    return isinstance(value, (list, tuple)) and len(value) == len(traces) > 1


def _no_stats(posterior: xr.Dataset) -> xr.Dataset:
    """Return empty statistics with the coordinates of chains and draws."""
    places = {dim: posterior[dim] for dim in ("chain", "draw")}
    return xr.Dataset(coords={dim: (dim, np.asarray(ticks)) for dim, ticks in places.items()})


def _numbers(value: Any, what: str) -> np.ndarray:
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"`{what}` needs seconds; found {value!r:.100}.") from error
    if not (np.isfinite(values) & (values >= 0.0)).all():
        raise InvalidInputError(f"`{what}` needs seconds, finite and not negative; found {values!r:.100}.")
    return values


def _seconds(seconds: np.ndarray, stats: xr.Dataset, is_real: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the seconds of each draw, (chain, draw), and how they were found; draws that pad a chain take none."""
    chains, draws = is_real.shape
    if seconds.shape in ((chains, draws), (draws,)) and seconds.shape != (chains,):
        return np.broadcast_to(seconds, (chains, draws)).copy(), "each draw, as given"
    if seconds.shape not in ((), (chains,)):
        raise InvalidInputError(
            f"`clock` needs the seconds of each draw, shape ({draws},) or ({chains}, {draws}), or of a chain, one "
            f"number or shape ({chains},); found shape {seconds.shape}."
        )
    name = next((name for name in GRADIENTS if name in stats), None)
    weights = np.ones((chains, draws)) if name is None else np.asarray(stats[name], dtype=np.float64)
    weights = np.where(is_real, weights, 0.0)
    totals = np.broadcast_to(seconds, chains)
    how = "the total, spread over draws " + ("evenly" if name is None else f"by {name}")
    return np.stack([spread(total, weight) for total, weight in zip(totals, weights, strict=True)]), how
