"""Complete a trace: the deterministics of its model, and labels of all axes, as `pm.sample` returns them."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import ReturnedVariables, as_labels
from approxmcmc.errors import LeftOutWarning, warn

MOST_NUMBERS = 10**8  # most numbers of all deterministics of a trace together: 0.8 GB
ABSENT = "absent"  # attribute of a variable without draws: it says why
# attributes of a completed posterior
DETERMINISTICS = "deterministics"
NOT_STORED = "not_stored"


class LeftOut(NamedTuple):
    """Why a deterministic is not stored. `is_news`: neither the user's choice nor said by another warning."""

    reason: str
    is_news: bool


def with_deterministics(trace: xr.DataTree, returned: ReturnedVariables | None) -> xr.DataTree:
    """Add the deterministics of a model to a finished trace, and labels of axes; the trace is changed in place.

    The smallest deterministics come first, as long as all together hold at most 10^8 numbers; those that the user named
    (`ReturnedVariables.wanted`) are stored whatever their size. ``warmup_posterior`` gets the same variables. The
    attribute ``deterministics`` of ``posterior`` is a JSON list of those that are stored; the attribute ``not_stored``
    names the others with the reason, unless the user did not want them.

    Warns
    -----
    LeftOutWarning
        When a deterministic is too large, or cannot be computed. The draws are never lost.
    """
    if returned is None:
        return trace
    left_out: Mapping[str, LeftOut] = {}
    for group in ("warmup_posterior", "posterior"):
        if group in trace.children:
            posterior = trace[group].to_dataset()
            try:
                trace[group], left_out = _completed(posterior, returned)
            except Exception as error:  # of any kind, from the graph of the user's model: the draws must not be lost
                left_out = dict.fromkeys(returned.names, LeftOut(_first_line(error), is_news=True))
                trace[group] = posterior.assign_attrs({NOT_STORED: _text(left_out)})
    news = {name: why for name, why in left_out.items() if why.is_news}
    if news:
        message = f"the trace lacks deterministics of the model: {_text(news)}; {returned.advice(list(news))}"
        warn(message, LeftOutWarning)
    return trace


def _completed(posterior: xr.Dataset, returned: ReturnedVariables) -> tuple[xr.Dataset, Mapping[str, LeftOut]]:
    """Return a group of draws with the model's deterministics and labels, and what is left out."""
    n_chains = posterior.sizes["chain"]
    n_draws = posterior.sizes["draw"]
    draws = {
        name: posterior[name].transpose("chain", "draw", ...).to_numpy()
        for name in returned.free
        if name in posterior and ABSENT not in posterior[name].attrs
    }
    flat = {name: values.reshape(n_chains * n_draws, *values.shape[2:]) for name, values in draws.items()}
    names = returned.names if returned.wanted is None else returned.wanted
    missing = [name for name in returned.names if name in names and name not in posterior]
    left_out = _impossible(missing, returned, list(draws))
    chosen = [name for name in missing if name not in left_out]
    if returned.wanted is None:
        sizes = {name: math.prod(returned.shapes[name]) for name in chosen}
        too_large = {name: LeftOut(why, is_news=True) for name, why in beyond(sizes, n_chains * n_draws).items()}
        left_out |= too_large
        chosen = [name for name in chosen if name not in too_large]
    computed, failed = _computed(returned, flat, chosen)
    left_out |= failed
    completed = with_labels(
        posterior.assign(
            {
                name: (
                    ("chain", "draw", *returned.axes(name)),
                    values.reshape(n_chains, n_draws, *values.shape[1:]),
                )
                for name, values in computed.items()
            }
        ),
        returned.coords,
    )
    if computed:
        completed.attrs[DETERMINISTICS] = json.dumps(list(computed))  # netCDF turns a list of one text into the text
    if left_out:
        completed.attrs[NOT_STORED] = _text(left_out)
    return completed, left_out


def _impossible(names: Sequence[str], returned: ReturnedVariables, drawn: Sequence[str]) -> dict[str, LeftOut]:
    """Return which of `names` cannot be computed from draws of the free variables `drawn`, and why."""
    left_out = {}
    for name in names:
        absent = [parent for parent in returned.parents(name) if parent not in drawn]
        if name in returned.why_not_computed:
            left_out[name] = LeftOut(returned.why_not_computed[name], is_news=True)
        elif absent:
            left_out[name] = LeftOut(f"it depends on {', '.join(absent)}, not drawn", is_news=False)
    return left_out


def beyond(sizes: Mapping[str, int], n_draws: int) -> dict[str, str]:
    """Return the largest of the deterministics, without which the others fit into a trace together; and the reason.

    `sizes` are the numbers of each in a draw.
    """
    reasons = {}
    total = 0
    for name in sorted(sizes, key=lambda name: sizes[name]):
        total += sizes[name] * n_draws
        if total > MOST_NUMBERS:
            reasons[name] = (
                f"{n_draws} draws of {sizes[name]} numbers are {n_draws * sizes[name]:.2g}, and a trace holds at most "
                f"{MOST_NUMBERS:.0e} of all deterministics"
            )
    return reasons


def _computed(
    returned: ReturnedVariables, draws: Mapping[str, np.ndarray], names: Sequence[str]
) -> tuple[Mapping[str, np.ndarray], dict[str, LeftOut]]:
    """Return the values of `names`, and those that could not be computed: all at once, if that fails one by one."""
    if not names:
        return {}, {}
    try:
        return returned.compute(draws, names), {}
    except KeyboardInterrupt:
        return {}, dict.fromkeys(names, LeftOut("interrupted", is_news=True))
    except Exception as error:  # of any kind, from the user's operations: the draws must not be lost
        if len(names) == 1:
            return {}, {names[0]: LeftOut(_first_line(error), is_news=True)}
    computed: dict[str, np.ndarray] = {}
    left_out: dict[str, LeftOut] = {}
    for name in names:
        value, failed = _computed(returned, draws, [name])
        computed |= value
        left_out |= failed
    return computed, left_out


def with_labels(posterior: xr.Dataset, coords: Mapping[str, Sequence[Any]]) -> xr.Dataset:
    """Return a group of draws in which each axis has the labels in `coords`, or else numbers, as from `pm.sample`."""
    axes = [axis for axis in posterior.sizes if axis not in ("chain", "draw")]
    labels = {}
    for axis in axes:
        tick_labels = as_labels(coords[str(axis)]) if axis in coords else None
        fits = tick_labels is not None and len(tick_labels) == posterior.sizes[axis]
        labels[axis] = (axis, tick_labels if fits else np.arange(posterior.sizes[axis]))
    return posterior.drop_vars(axes, errors="ignore").assign_coords(labels)


def _first_line(error: Exception) -> str:
    said = str(error).strip().partition("\n")[0]
    return f"computing it raised {type(error).__name__}: {said}"


def _text(left_out: Mapping[str, LeftOut]) -> str:
    return "; ".join(f"{name}: {why.reason}" for name, why in left_out.items())
