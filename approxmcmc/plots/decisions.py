"""Decisions along a chain: the cost of each draw, which audited decisions were wrong, and whether theory agrees."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.diagnostics.records import group as group_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, names_of, stack

if TYPE_CHECKING:
    from approxmcmc.contracts import AcceptanceTest


DRAWN = 2000  # draws shown of a chain; longer chains are thinned to this number


@naming_the_arguments
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
        Records of ``sample_stats`` with counts or times, such as ``"decision_rounds"``: one panel each. None:
        ``"datapoints_touched"``.
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
    thinned = records.isel(draw=slice(None, None, math.ceil(records.sizes["draw"] / DRAWN)))
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
    chosen = {
        dim: [label] if np.ndim(label) == 0 and not isinstance(label, slice) else label
        for dim, label in coords.items()
        if dim in ("chain", "draw")
    }
    records = stats[kept].sel(chosen)
    if not records.sizes["draw"] or not records.sizes["chain"]:
        raise InvalidInputError(f"`plot_decisions`: the coords {dict(coords)} select no draw of {dict(stats.sizes)}.")
    return records


def _points(record: xr.DataArray) -> xr.DataArray:
    """Return x, the coordinates of the draws, and y, their values, along the dim `plot_axis`, as ArviZ expects."""
    places = xr.DataArray(record["draw"].values, dims="draw")
    return stack("plot_axis", x=places, y=record.drop_vars("draw"))


def _marked(record: xr.DataArray, wrong: xr.DataArray) -> xr.DataArray:
    """Return the points (x, y) of draws with a wrong decision, of all chains together."""
    chain, at = np.nonzero(wrong.transpose("chain", "draw").values)
    values = record.transpose("chain", "draw").values[chain, at]
    points = np.stack([record["draw"].values[at], values])
    return xr.DataArray(points, {"plot_axis": ["x", "y"]}, ("plot_axis", "mark"))


VARIABLE = "wrong_decisions"
BINS = 8
CONFIDENCE = 0.95


@naming_the_arguments
def plot_calibration(
    data: xr.DataTree,
    test: "AcceptanceTest | None" = None,
    *,
    var_names: str | Sequence[str] | None = None,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: Mapping[str, Sequence[str]] | None = None,
    visuals: Mapping[str, Any] | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    r"""Plot how often audited decisions were wrong against the probability that the theory of the test predicts.

    Parameters
    ----------
    data
        A trace with audits.
    test
        The acceptance test that decided, with its settings; a `SequentialTTest`, alone or in `AnnealedEpsilon`.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``. With
        ``group="sample_stats"`` and ``var_names="wrong_decisions"``, ``az.combine_plots`` combines it with other plots;
        give it `test` by name.
    visuals
        Keyword arguments, or False, for ``equal`` (the diagonal), ``interval``, ``point``, ``title``, ``xlabel``,
        ``ylabel``.
    stats
        ``{"bins": 8, "confidence": 0.95}``: number of groups of audits, and the level of their intervals.
    var_names
        ``"wrong_decisions"``, the one panel, or None.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``figure_kwargs``, ... Others that ``az.combine_plots`` passes have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When `data` is not a trace with audits, `test` is None, or no draw has exactly one audited decision with a
        predicted error.

    Notes
    -----
    Each audit records the standardised mean :math:`\mu_{std} = (\Lambda - \log u) / \tau` of its decision on all data.
    If the log-likelihood terms are in the Gaussian regime, the probability of a wrong decision depends on the data only
    through :math:`\mu_{std}` (`sequential_test_error`). Audits are sorted by this probability and cut into groups of
    equal size; each group is a point, its mean probability against the share that was wrong, with the interval of
    Clopper and Pearson. Points above the diagonal show that the test errs more often than this theory predicts.

    References
    ----------
    Korattikara, Chen and Welling (2014), section 5.

    Examples
    --------
    >>> amc.plot_calibration(trace, sampler.test)  # doctest: +SKIP
    """
    if names_of(var_names, (VARIABLE,)) != [VARIABLE]:
        raise InvalidInputError(f"`plot_calibration` shows only {VARIABLE!r}; found {var_names!r} in var_names.")
    table = _table(data, test, **{"bins": BINS, "confidence": CONFIDENCE, **(stats or {})})
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    plot.on(xr.Dataset({VARIABLE: xr.DataArray(0.0)}), (4.4, 4.0), pc_kwargs)
    ends = xr.DataArray([0.0, float(max(table["expected"].max(), table["found"].max()))], dims="end")
    x = table["expected"]
    bars = stack("plot_axis", x=x, y_bottom=table["lower"], y_top=table["upper"])
    plot.add("equal", draw.line_xy, {VARIABLE: stack("plot_axis", x=ends, y=ends)}, color="gray", alpha=0.6)
    plot.add("interval", draw.ci_line_y, {VARIABLE: bars}, color="C0")
    plot.add("point", draw.scatter_xy, {VARIABLE: stack("plot_axis", x=x, y=table["found"])}, color="C0")
    plot.name_axes(labeller, x="predicted", y="audited")
    return plot.collection


def _table(data: Any, test: Any, *, bins: int, confidence: float) -> xr.Dataset:
    """Return expected and observed shares of wrong decisions, with limits, for each of `bins` groups of audits."""
    if not isinstance(data, xr.DataTree):
        raise InvalidInputError(f"`plot_calibration` needs a trace; found a {type(data).__name__}.")
    records = group_of(data, "sample_stats")
    if test is None or VARIABLE not in records:
        raise InvalidInputError("`plot_calibration` needs a trace with audits and the test that decided: sampler.test.")
    errors = test.expected_errors(records)
    single = np.asarray(records["decisions_audited"]) == 1  # of several audits only the last one is recorded
    judged = single & np.isfinite(errors) if errors is not None else np.zeros_like(single)
    if errors is None or not judged.any():
        raise InvalidInputError(
            f"`plot_calibration`: {test!r} predicts no audited decision of this trace. Use a "
            "SequentialTTest, one decision a draw, and with tol > 0 audits at fixed intervals (audit_every=...)."
        )
    order = np.argsort(errors[judged], kind="stable")
    wrong = np.asarray(records[VARIABLE])[judged][order]
    groups = [part for part in np.array_split(np.arange(wrong.size), bins) if part.size]
    expected = [errors[judged][order][part].mean() for part in groups]
    counts = np.array([wrong[part].sum() for part in groups])
    sizes = np.array([part.size for part in groups])
    lower, upper = clopper_pearson(counts, sizes, confidence)
    columns = {"expected": np.array(expected), "found": counts / sizes, "lower": lower, "upper": upper}
    return xr.Dataset({name: ("bin", values) for name, values in columns.items()})
