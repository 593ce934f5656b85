"""Risk against time or data, a line per sampler: an unbiased one falls with slope -1, a biased one levels off."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, logarithmic, names_of, stack

_AXES = ("time", "processor_time", "datapoints_touched")


@naming_the_arguments
def plot_risk(
    risks: xr.Dataset | Mapping[str, xr.Dataset],
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
    """Plot risk, squared bias or variance against time or data on logarithmic axes.

    Parameters
    ----------
    risks
        A result of :func:`approxmcmc.risk`, or a dict of sampler name -> result. Grids may differ.
    var_names
        Any of ``"risk"``, ``"bias_sq"``, ``"variance"``: one column of panels each. None: the risk.
    coords
        Labels to show, such as ``{"estimand": ["beta[x1]", "beta[x2]"]}``; one panel each.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``.
    visuals
        Keyword arguments, or False, for ``band`` (the interval), ``line``, ``point`` and ``interval`` (of a fitted
        distribution), ``title``, ``xlabel``, ``ylabel``, ``legend``.
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
        When `risks` is not a result of `risk` or a dict of them, or these lack a named variable or have different axes.

    Notes
    -----
    Unbiased estimates may be zero or negative, which a logarithmic axis cannot show: the line has a gap there. Bands
    end at a tenth of the panel's smallest upper limit, so that one estimate close to zero does not stretch the axis. A
    fitted distribution has only one point, drawn as a marker with its interval.

    Examples
    --------
    >>> curves = {name: amc.risk(traces, reference) for name, traces in runs.items()}  # doctest: +SKIP
    >>> amc.plot_risk(curves, var_names=["bias_sq", "variance"], backend="matplotlib")  # doctest: +SKIP
    """
    names = names_of(var_names, ("risk",))
    table, axis = _table(risks, names, coords or {})
    facets = plot_collection.facet_dims if plot_collection is not None else pc_kwargs.get("cols", ())
    if table.sizes.get("estimand") == 1 and "estimand" not in facets:
        table = table.squeeze("estimand", drop=True)  # one panel needs no label
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    _open(plot, table, names, pc_kwargs)
    x = table["x"]
    positive = {name: table[name].where(table[name] > 0) for name in names}
    plot.add("band", draw.fill_between_y, {name: _band(table, name, x) for name in names}, ["color"], alpha=0.2)
    lines = {name: stack("plot_axis", x=x, y=values) for name, values in positive.items()}
    plot.add("line", draw.line_xy, lines, ["color"])
    single = {name: values.notnull().sum("point") == 1 for name, values in positive.items()}
    if any(bool(alone.any()) for alone in single.values()):
        _points(plot, table, single)
    plot.name_axes(labeller, x=axis, y="squared error")
    logarithmic(plot.collection)
    if table.sizes["sampler"] > 1:
        plot.add_legend("sampler")
    return plot.collection


def _points(plot: Drawing, table: xr.Dataset, single: Mapping[str, xr.DataArray]) -> None:
    """Draw curves that have only one point as a marker with a line over its interval."""
    first = table.isel(point=[0])
    ends = {
        name: stack("plot_axis", x=xr.concat([first["x"].rename(None)] * 2, "point"), y=_ends(first, name))
        for name in single
    }
    marks = {name: stack("plot_axis", x=first["x"], y=first[name]) for name in single}
    for visual, function, data in (("interval", draw.line_xy, ends), ("point", draw.scatter_xy, marks)):
        plot.add(visual, function, {name: values.where(single[name]) for name, values in data.items()}, ["color"])


def _ends(first: xr.Dataset, name: str) -> xr.DataArray:
    band = _band(first, name, first["x"])
    parts = [band.sel(kwarg=end, drop=True).rename(None) for end in ("y_bottom", "y_top")]
    return xr.concat(parts, "point")


def _table(
    risks: xr.Dataset | Mapping[str, xr.Dataset], names: Sequence[str], coords: Mapping[str, Any]
) -> tuple[xr.Dataset, str]:
    """Join the curves along a dim ``sampler``; each keeps its own grid as the variable ``x`` along the dim ``point``.

    Returns the table and the name of the horizontal axis.
    """
    by_sampler = {"": risks} if isinstance(risks, xr.Dataset) else risks
    if not isinstance(by_sampler, Mapping) or not all(isinstance(curves, xr.Dataset) for curves in by_sampler.values()):
        raise InvalidInputError(
            f"`plot_risk` needs a result of `risk`, or a dict of sampler -> result; found a {type(risks).__name__}."
        )
    axes = {axis for curves in by_sampler.values() for axis in _AXES if axis in curves.dims}
    missing = {name for curves in by_sampler.values() for name in names if name not in curves}
    if not by_sampler or len(axes) != 1 or missing:
        raise InvalidInputError(
            f"`plot_risk` needs results of `risk` over one axis that hold {list(names)}; found the axes {sorted(axes)}"
            f"{f' and no {sorted(missing)}' if missing else ''} in {len(by_sampler)} curves."
        )
    (axis,) = axes
    columns = [name + suffix for name in names for suffix in ("", "_lower", "_upper")]
    pieces = []
    for curves in by_sampler.values():
        points = np.arange(curves.sizes[axis])
        piece = curves[columns].rename({axis: "point"}).drop_vars("point").assign_coords(point=points)
        pieces.append(piece.assign(x=("point", np.asarray(curves[axis]))))
    # Estimands keep their order in the first curve; a shorter grid is filled with NaN.
    table = xr.concat(pieces, dim=xr.Variable("sampler", list(by_sampler)), join="outer", coords="minimal")
    table = table.sel(estimand=list(pieces[0]["estimand"].values)).sel(coords)
    attrs = next(iter(by_sampler.values()))[axis].attrs
    units = f" ({attrs['units']})" if attrs.get("units", "1") != "1" else ""
    return table, f"{attrs.get('long_name', axis)}{units}"


def _open(plot: Drawing, table: xr.Dataset, names: Sequence[str], pc_kwargs: Mapping[str, Any]) -> None:
    facets = [dim for dim in ("estimand",) if table.sizes.get(dim, 1) > 1]
    n_panels = len(names) * int(np.prod([table.sizes[dim] for dim in facets], dtype=int))
    columns = min(n_panels, int(pc_kwargs.get("col_wrap", 4)))
    # The legend is to the right of the panels, and needs extra width.
    size = (3.6 * columns + 1.6, 3.2 * math.ceil(n_panels / columns))
    panels = table[list(names)].isel(point=0, drop=True)
    plot.on(panels, size, pc_kwargs, cols=("__variable__", *facets), aes={"color": ["sampler"]})


def _band(table: xr.Dataset, name: str, x: xr.DataArray) -> xr.DataArray:
    lower = table[f"{name}_lower"]
    upper = table[f"{name}_upper"]
    dims = [dim for dim in ("sampler", "point") if dim in lower.dims]
    floor = 0.1 * upper.where(upper > 0).min(dims)
    return stack("kwarg", x=x, y_bottom=lower.where(lower > floor, floor), y_top=upper.where(upper > 0))
