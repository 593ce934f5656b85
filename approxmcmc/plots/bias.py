"""Biases of a run: how exact steps move its means, and how far off the means are, each with an interval."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, names_of, stack

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


@naming_the_arguments
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
        estimands, and the panel of the drift the five with the largest bias.
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
        When `data` is not a result of `bias`, or `coords` names an estimand that it lacks.

    Notes
    -----
    The level of a drift that has levelled off is the bias. If the drift still moves at the end of the couplings, the
    exact chain needs more steps than they had, and the verdict is "not applicable". An estimand with the same value in
    all draws has no unit and is left out.

    Examples
    --------
    >>> amc.plot_bias(amc.bias(trace, target, sampler))  # doctest: +SKIP
    """
    table = _table(data)
    names = names_of(var_names, PANELS)
    shown, drifting = _chosen(table, coords or {})
    drifts = "drift" in names
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    zeros = xr.DataArray(np.zeros(len(drifting)), {"estimand": drifting}, "estimand") if drifts else xr.DataArray(0.0)
    colours = {"color": ["estimand"]} if drifts else None
    plot.on(xr.Dataset(dict.fromkeys(names, zeros)), (5.0 * len(names) + 1.0, 3.6), pc_kwargs, aes=colours, sharey=True)
    for panel in names:
        for value, visual, style in LEVELS:
            plot.set(visual, draw.hline, {panel: value}, **style)
    if drifts:
        drift = _in_sds(table.sel(estimand=drifting), "drift")
        steps = xr.DataArray(drift["step"].values, dims="step")
        drift = drift.drop_vars("step")
        band = stack("kwarg", x=steps, **_limits(drift))
        line = stack("plot_axis", x=steps, y=drift["value"])
        plot.add("band", draw.fill_between_y, {"drift": band}, ["color"], alpha=0.15)
        plot.add("line", draw.line_xy, {"drift": line}, ["color"])
    if "bias" in names:
        bias = _in_sds(table.sel(estimand=shown), "bias")
        positions = xr.DataArray(np.arange(float(len(shown))), dims="estimand")
        plot.add("interval", draw.ci_line_y, {"bias": stack("plot_axis", x=positions, **_limits(bias))}, color="C0")
        plot.add("point", draw.scatter_xy, {"bias": stack("plot_axis", x=positions, y=bias["value"])}, color="C0")
    _axes(plot, names, shown, last=float(table["step"].max()))
    plot.name_axes(labeller, x=None, y="posterior standard deviations")
    if drifts and len(drifting) > 1:
        plot.add_legend("estimand")
    return plot.collection


def _table(data: Any) -> xr.Dataset:
    missing = [name for name in NEEDED if not isinstance(data, xr.Dataset) or name not in data]
    if missing:
        raise InvalidInputError(f"`plot_bias` needs a result of bias; found a {type(data).__name__} without {missing}")
    kept = data.isel(estimand=np.flatnonzero(data["posterior_sd"].values > 0.0))
    return kept.isel(step=np.flatnonzero(kept["step"].values >= 1))  # after 0 steps nothing has moved


def _chosen(table: xr.Dataset, coords: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the estimands to show in the panel of biases, and in that of drifts; those named in `coords` in both."""
    names = [str(name) for name in table["estimand"].values]
    if "estimand" in coords:
        chosen = [coords["estimand"]] if isinstance(coords["estimand"], str) else [str(x) for x in coords["estimand"]]
        if unknown := [name for name in chosen if name not in names]:
            raise InvalidInputError(f"`plot_bias` knows the estimands {names}; found {unknown} in coords")
        return chosen, chosen
    order = np.argsort(-np.abs((table["bias"] / table["posterior_sd"]).values), kind="stable")
    return names, [names[k] for k in order[:DRAWN]]


def _in_sds(table: xr.Dataset, name: str) -> xr.Dataset:
    """Return the variables value, lower and upper of a result, in posterior standard deviations; NaN if unknown."""
    in_sds = table[[name, f"{name}_lower", f"{name}_upper"]] / table["posterior_sd"]
    is_bounded = np.isfinite(in_sds[f"{name}_upper"])
    return in_sds.where(is_bounded).rename({name: "value", f"{name}_lower": "lower", f"{name}_upper": "upper"})


def _limits(figure: xr.Dataset) -> dict[str, xr.DataArray]:
    return {"y_bottom": figure["lower"], "y_top": figure["upper"]}


def _axes(plot: Drawing, names: Sequence[str], shown: Sequence[str], last: float) -> None:
    """Write the names of both axes; use a log axis for steps that span a decade, and label the biases by estimand."""
    for name in names:
        text = "exact steps" if name == "drift" else "estimand"
        plot.set("xlabel", draw.labelled_x, {name: 0.0}, subset_info=True, text=text)
    if "drift" in names and last > 10.0:
        plot.set("xscale", draw.set_xscale, {"drift": 0.0}, scale="log")
    if "bias" in names:
        places = np.unique(np.linspace(0, len(shown) - 1, min(TICKS, len(shown))).round().astype(int))
        turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if plot.backend == "matplotlib" else {}
        plot.set("xticks", draw.set_xticks, {"bias": 0.0}, values=places, labels=[shown[k] for k in places], **turned)
