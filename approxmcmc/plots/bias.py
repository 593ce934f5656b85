"""Biases of a run: how exact steps move its means, and how far off the means are, each with an interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base.labels import BaseLabeller
from arviz_plots import PlotCollection
from arviz_plots import visuals as draw

from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Options, chosen_backend, label_axes, names_of, new_panels, stack

PANELS = ("drift", "bias")
NEEDED = ("bias", "bias_lower", "bias_upper", "posterior_sd", "drift", "drift_lower", "drift_upper")
DRAWN = 5  # estimands whose drift is drawn by default
TICKS = 12  # labels that fit below a panel
NOTICED = 0.05  # posterior sd, as in the verdicts
FAINT: dict[str, Any] = {"color": "gray", "alpha": 0.4}
LEVELS: tuple[tuple[float, str, dict[str, Any]], ...] = (
    (0.0, "zero", {"color": "gray"}),
    (NOTICED, "noticed", FAINT),
    (-NOTICED, "noticed", FAINT),
)


def plot_bias(
    data: xr.Dataset,
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
    """Plot the drift of a run against exact steps, and the bias of each estimand, in posterior standard deviations.

    Parameters
    ----------
    data
        A result of :func:`bias`.
    var_names
        Which panels to draw: ``"drift"``, ``"bias"``, or both. None: both.
    coords
        Labels to show, such as ``{"estimand": ["beta[x1]", "beta[x2]"]}``. By default the panel of biases shows all
        estimands, and that of the drift the five with the largest bias.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``.
    visuals
        Keyword arguments, or False, for ``band`` and ``line`` (the drift with its interval), ``interval`` and ``point``
        (the biases), ``zero``, ``noticed`` (.05 posterior standard deviations to either side), ``xticks``, ``title``,
        ``xlabel``, ``ylabel``, ``legend``.
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
        When `data` is not a result of `bias`, or lacks an estimand.

    Notes
    -----
    A drift that has levelled off is the bias. If it still moves at the end of its couplings, the exact chain needs
    longer than they lasted, and the verdict is "not applicable". An estimand with the same value in all draws has no
    unit and is left out.

    Examples
    --------
    >>> amc.plot_bias(amc.bias(trace, target, sampler))  # doctest: +SKIP
    """
    table = _table(data)
    names = names_of(var_names, PANELS)
    shown, drifting = _chosen(table, coords or {})
    options, labeller = Options(visuals), labeller or BaseLabeller()
    backend = chosen_backend(backend, plot_collection)
    if plot_collection is None:
        zeros = xr.DataArray(np.zeros(len(drifting)), {"estimand": drifting}, "estimand")
        panels = xr.Dataset(dict.fromkeys(names, zeros if "drift" in names else xr.DataArray(0.0)))
        colours = {"color": ["estimand"]} if "drift" in names else None
        size = (5.0 * len(names) + 1.0, 3.6)
        plot_collection = new_panels(panels, backend, size, pc_kwargs, aes=colours, sharey=True)
    every_aes = plot_collection.aes_set
    by_visual = {"band": ["color"], "line": ["color"], **(aes_by_visuals or {})}
    drift, bias = _in_sds(table.sel(estimand=drifting), "drift"), _in_sds(table.sel(estimand=shown), "bias")
    steps = xr.DataArray(drift["step"].values, dims="step")
    drift, place = drift.drop_vars("step"), xr.DataArray(np.arange(float(len(shown))), dims="estimand")
    layers: list[tuple[str, str, Any, xr.DataArray, dict[str, Any]]] = [
        ("drift", "band", draw.fill_between_y, stack("kwarg", x=steps, **_limits(drift)), {"alpha": 0.15}),
        ("drift", "line", draw.line_xy, stack("plot_axis", x=steps, y=drift["value"]), {}),
        ("bias", "interval", draw.ci_line_y, stack("plot_axis", x=place, **_limits(bias)), {"color": "C0"}),
        ("bias", "point", draw.scatter_xy, stack("plot_axis", x=place, y=bias["value"]), {"color": "C0"}),
    ]
    for panel in names:
        for value, visual, look in LEVELS:
            if options.wanted(visual):
                level = xr.Dataset({panel: xr.DataArray(value)})
                plot_collection.map(
                    draw.hline, visual, data=level, ignore_aes=every_aes, store_artist=False,
                    **options.arguments(visual, **look),
                )  # fmt: skip
        for visual, function, values, look in (layer[1:] for layer in layers if layer[0] == panel):
            if options.wanted(visual):
                ignored = every_aes.difference(by_visual.get(visual, ()))
                arguments = options.arguments(visual, **look)
                plot_collection.map(function, visual, data=xr.Dataset({panel: values}), ignore_aes=ignored, **arguments)
    _axes(plot_collection, options, names, shown, backend, last=float(table["step"].max()))
    unnamed = Options({**(visuals or {}), "xlabel": False})
    label_axes(plot_collection, unnamed, labeller=labeller, x_text="", y_text="posterior standard deviations")
    if "drift" in names and len(drifting) > 1 and options.wanted("legend") and backend != "none":
        plot_collection.add_legend("estimand", **options.arguments("legend"))
    return plot_collection


def _table(data: Any) -> xr.Dataset:
    missing = [name for name in NEEDED if not isinstance(data, xr.Dataset) or name not in data]
    if missing:
        raise InvalidInputError(f"`plot_bias` needs a result of bias; found a {type(data).__name__} without {missing}")
    kept = data.isel(estimand=np.flatnonzero(data["posterior_sd"].values > 0.0))
    return kept.isel(step=np.flatnonzero(kept["step"].values >= 1))  # after 0 steps nothing has moved


def _chosen(table: xr.Dataset, coords: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the estimands of the panel of biases, and those with a drift to draw, the most biased first."""
    known = [str(name) for name in table["estimand"].values]
    if "estimand" in coords:
        wanted = [coords["estimand"]] if isinstance(coords["estimand"], str) else [str(x) for x in coords["estimand"]]
        if unknown := [name for name in wanted if name not in known]:
            raise InvalidInputError(f"`plot_bias` knows the estimands {known}; found {unknown} in coords")
        return wanted, wanted
    order = np.argsort(-np.abs((table["bias"] / table["posterior_sd"]).values), kind="stable")
    return known, [known[k] for k in order[:DRAWN]]


def _in_sds(table: xr.Dataset, name: str) -> xr.Dataset:
    """Return value, lower and upper limit in posterior standard deviations; NaN if unknown."""
    found = table[[name, f"{name}_lower", f"{name}_upper"]] / table["posterior_sd"]
    known = np.isfinite(found[f"{name}_upper"])
    return found.where(known).rename({name: "value", f"{name}_lower": "lower", f"{name}_upper": "upper"})


def _limits(figure: xr.Dataset) -> dict[str, xr.DataArray]:
    return {"y_bottom": figure["lower"], "y_top": figure["upper"]}


def _axes(
    collection: PlotCollection, options: Options, names: Sequence[str], shown: Sequence[str], backend: str, last: float
) -> None:
    """Name both axes; use a log axis for steps that span a decade, and label the biases by estimand."""
    shared: dict[str, Any] = {"ignore_aes": collection.aes_set, "store_artist": False}
    for name in names if options.wanted("xlabel") else ():
        arguments = {"text": "exact steps" if name == "drift" else "estimand", **options.arguments("xlabel")}
        panel = xr.Dataset({name: xr.DataArray(0.0)})
        collection.map(draw.labelled_x, "xlabel", data=panel, **shared, subset_info=True, **arguments)
    if "drift" in names and last > 10.0:
        collection.map(draw.set_xscale, "xscale", data=xr.Dataset({"drift": xr.DataArray(0.0)}), scale="log", **shared)
    if "bias" in names and options.wanted("xticks"):
        places = np.unique(np.linspace(0, len(shown) - 1, min(TICKS, len(shown))).round().astype(int))
        turned = {"rotation": 45, "ha": "right"} if backend == "matplotlib" else {}
        arguments = options.arguments("xticks", values=places, labels=[shown[k] for k in places], **turned)
        collection.map(draw.set_xticks, "xticks", data=xr.Dataset({"bias": xr.DataArray(0.0)}), **shared, **arguments)
