"""Decisions along a chain: the cost of each draw, and which audited decisions were wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots import visuals as draw

from approxmcmc.diagnostics.records import group as group_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, names_of, stack

DRAWN = 2000  # draws shown of a chain; longer chains are thinned to this number


def plot_decisions(
    data: xr.DataTree,
    *,
    var_names: str | Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: Mapping[str, Sequence[str]] | None = None,
    visuals: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the cost of each draw of a trace, and mark the draws whose audited decision was wrong.

    Parameters
    ----------
    data
        A trace.
    var_names
        Records of ``sample_stats`` with counts or times, such as ``"datapoints_touched"``, ``"decision_rounds"``: one
        panel each. None: the data touched.
    coords
        Chains and draws to show, such as ``{"chain": 0, "draw": slice(0, 500)}``.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``. With
        ``group="sample_stats"`` and its `var_names` it combines with other plots (``az.combine_plots``).
    visuals
        Keyword arguments, or False, for ``draws`` (a point each), ``wrong`` (a cross each), ``title``, ``xlabel``,
        ``ylabel``.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``cols``, ``aes``, ``figure_kwargs``, ... Others that ``az.combine_plots`` passes
        have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When the trace lacks a record, or `coords` selects no draw.

    Notes
    -----
    Only audited decisions can be marked, and only a share of all is audited. If there is no cross, check how many were
    audited (:func:`cost_summary`). In chains of more than 2000 draws the points are thinned, the crosses never. For
    `MinibatchBarker` a cross is a coupled flip, which is noise, not bias.

    Examples
    --------
    >>> amc.plot_decisions(trace, coords={"draw": slice(0, 500)})  # doctest: +SKIP
    """
    names = names_of(var_names, ("datapoints_touched",))
    records = _records(data, names, coords or {})
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    panels = records[names].isel(draw=0, drop=True)
    plot.on(panels, (7.0 * len(names), 3.4), pc_kwargs, aes={"color": ["chain"]})
    thinned = records.isel(draw=slice(None, None, -(-records.sizes["draw"] // DRAWN)))
    wrong = records.get("wrong_decisions", xr.zeros_like(records[names[0]])) > 0
    marked = {name: _marked(records[name], wrong) for name in names}
    plot.add("draws", draw.scatter_xy, {name: _points(thinned[name]) for name in names}, ["color"], alpha=0.5)
    plot.add("wrong", draw.scatter_xy, marked, color="black", marker="x")
    plot.name_axes(labeller, x="draw", y="per draw")
    return plot.collection


def _records(data: Any, names: Sequence[str], coords: Mapping[str, Any]) -> xr.Dataset:
    """Return the wanted records and the wrong decisions, at the wanted chains and draws."""
    if not isinstance(data, xr.DataTree):
        raise InvalidInputError(f"`plot_decisions` needs a trace; found a {type(data).__name__}.")
    stats = group_of(data, "sample_stats")
    if missing := [name for name in names if name not in stats]:
        raise InvalidInputError(
            f"`plot_decisions`: the trace has no records {missing}; it holds {sorted(map(str, stats.data_vars))}."
        )
    kept = [name for name in dict.fromkeys([*names, "wrong_decisions"]) if name in stats]
    chosen = {dim: [label] if np.ndim(label) == 0 and not isinstance(label, slice) else label
              for dim, label in coords.items() if dim in ("chain", "draw")}  # fmt: skip
    records = stats[kept].sel(chosen)
    if not records.sizes["draw"] or not records.sizes["chain"]:
        raise InvalidInputError(f"`plot_decisions`: the coords {dict(coords)} select no draw of {dict(stats.sizes)}.")
    return records


def _points(record: xr.DataArray) -> xr.DataArray:
    """Return draw numbers and values side by side, as ArviZ's visuals expect them."""
    places = xr.DataArray(record["draw"].values, dims="draw")
    return stack("plot_axis", x=places, y=record.drop_vars("draw"))


def _marked(record: xr.DataArray, wrong: xr.DataArray) -> xr.DataArray:
    """Return the points of wrong decisions, all chains in one list."""
    chain, at = np.nonzero(wrong.transpose("chain", "draw").values)
    values = record.transpose("chain", "draw").values[chain, at]
    points = np.stack([record["draw"].values[at], values])
    return xr.DataArray(points, {"plot_axis": ["x", "y"]}, ("plot_axis", "mark"))
