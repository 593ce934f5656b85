"""The distance of an approximate stationary distribution from the posterior, with the bounds of the theory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, stack

PANEL = "stationary distribution"
NEEDED = ("value", "label", "verdict", "distance", "distance_lower", "distance_upper")


@naming_the_arguments
def plot_bound(
    data: "xr.DataTree | xr.Dataset",
    *,
    var_names: str | Sequence[str] | None = None,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: Mapping[str, Sequence[str]] | None = None,
    visuals: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the measured distance, with its limits, and every bound against the knob that was checked.

    Parameters
    ----------
    data
        A result of :func:`check_bound`.
    var_names
        Bounds to show, such as ``["b3", "b4"]``; None: b1 to b5, and b3 and b5 with Delta_max, where they exist.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``.
    visuals
        Keyword arguments, or False, for ``bound``, ``interval``, ``distance``, ``vacuous`` (the line at 1), ``title``,
        ``xlabel``, ``ylabel``, ``legend``.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``figure_kwargs``, ... Others that ``az.combine_plots`` passes have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When `data` is not a result of `check_bound`, or lacks a named bound.

    Notes
    -----
    The legend labels each bound: rigorous, heuristic, or vacuous where it is 1 or more. A bound that does not exist has
    no line. The vertical axis is logarithmic: a distance of 0 is not drawn, and an interval that reaches 0 ends a
    decade below everything else.

    Examples
    --------
    >>> amc.plot_bound(amc.check_bound(target, sampler, epsilons=[0.01, 0.1]))  # doctest: +SKIP
    """
    table, knob = _table(data)
    lines = _lines(table, knob, [var_names] if isinstance(var_names, str) else var_names)
    bounds = bool(lines.sizes["bound"])
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    if plot_collection is None:
        pc_kwargs.setdefault("aes", {"color": ["bound"]} if bounds else {})
        pc_kwargs.setdefault("color", [f"C{k}" for k in range(1, max(2, lines.sizes["bound"] + 1))])
    panel = lines.isel({knob: 0}, drop=True).reset_coords(drop=True) if bounds else xr.DataArray(0.0)
    plot.on(xr.Dataset({PANEL: panel}), (7.0, 4.2), pc_kwargs)
    x = xr.DataArray(table[knob].values, dims=knob)
    ones = xr.DataArray(np.ones(table.sizes[knob]), dims=knob)
    lines = lines.drop_vars(knob)
    distances = table[["distance", "distance_lower", "distance_upper"]].reset_coords(drop=True).drop_vars(knob)
    distance = distances["distance"].where(distances["distance"] > 0.0)
    floor = _floor(distance, distances["distance_upper"], lines)
    ends = {
        "y_bottom": distances["distance_lower"].clip(min=floor),
        "y_top": distances["distance_upper"].clip(min=floor),
    }
    if bounds:
        plot.add("bound", draw.line_xy, {PANEL: stack("plot_axis", x=x, y=lines)}, plot.collection.aes_set, alpha=0.9)
    plot.add("interval", draw.ci_line_y, {PANEL: stack("plot_axis", x=x, **ends)}, color="C0")
    plot.add("distance", draw.scatter_xy, {PANEL: stack("plot_axis", x=x, y=distance)}, color="C0")
    plot.add("vacuous", draw.line_xy, {PANEL: stack("plot_axis", x=x, y=ones)}, color="gray", alpha=0.5)
    plot.set("yscale", draw.set_yscale, scale="log")
    if bounds:
        plot.add_legend("bound")
    plot.name_axes(labeller, x=knob, y="total variation from the posterior")
    return plot.collection


def _table(data: Any) -> tuple[xr.Dataset, str]:
    """Return the result of check_bound, sorted by its knob, and the name of the knob."""
    table = data.dataset if isinstance(data, xr.DataTree) else data
    missing = [name for name in NEEDED if not isinstance(table, xr.Dataset) or name not in table]
    if missing:
        raise InvalidInputError(
            f"`plot_bound` needs a result of check_bound; found {type(data).__name__} without {missing}."
        )
    knob = str(table.attrs["knob"])
    return table.sortby(knob), knob


def _lines(table: xr.Dataset, knob: str, names: Sequence[str] | None) -> xr.DataArray:
    """Return the wanted bounds that exist, with their labels in the names; dims (bound, knob)."""
    bounds = [str(name) for name in table["bound"].to_numpy()]
    unknown = [name for name in names or () if name not in bounds]
    if unknown:
        raise InvalidInputError(f"`plot_bound` knows the bounds {bounds}, found {unknown} in var_names.")
    shown = list(names) if names is not None else ["b1", "b2", "b3", "b4", "b5", "b3_delta_max", "b5_delta_max"]
    exists = table["value"].notnull().any(knob)
    kept = [name for name in shown if bool(exists.sel(bound=name))]
    values = table["value"].sel(bound=kept)
    titles = [f"{name} ({_worth(table['label'].sel(bound=name).to_numpy())})" for name in kept]
    values = values.where(values > 1e-9)
    return values.assign_coords(bound=np.array(titles, dtype=object)).transpose("bound", knob)


def _floor(*drawn: xr.DataArray) -> float:
    """Return where the log axis ends an interval that reaches 0: at a tenth of the smallest positive value drawn."""
    values = np.concatenate([part.to_numpy().ravel() for part in drawn])
    values = values[values > 0.0]
    return 0.1 * float(values.min()) if values.size else 1e-6


def _worth(labels: np.ndarray) -> str:
    classes = [str(label) for label in dict.fromkeys(labels.tolist()) if label != "not applicable"]
    if classes == ["vacuous"] or len(classes) == 1:
        return classes[0]
    return ", ".join(
        [word for word in classes if word != "vacuous"] + (["vacuous from 1 on"] if "vacuous" in classes else [])
    )
