"""Data used and wrong decisions against epsilon, which trades one for the other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.cost import cost_summary
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.diagnostics.traces import Traces, as_list
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, names_of

if TYPE_CHECKING:
    import pandas as pd

_QUANTITIES = ("data_fraction", "wrong_decision_rate")
_LIMITS = {name: (f"{name.removesuffix('_rate')}_lower", f"{name.removesuffix('_rate')}_upper") for name in _QUANTITIES}


@naming_the_arguments
def plot_cost(
    data: "pd.DataFrame | xr.Dataset | Mapping[Any, Traces]",
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
    """Plot the fraction of data used and the wrong-decision rate, with intervals, against epsilon.

    Parameters
    ----------
    data
        A mapping of epsilon, or of any label, to the traces run with it; or its :func:`cost_table`, as DataFrame or
        Dataset.
    var_names
        Which of ``"data_fraction"``, ``"wrong_decision_rate"``: one panel each. None: both.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``.
    visuals
        Keyword arguments, or False, for ``interval``, ``point``, ``line``, ``xticks``, ``title``, ``xlabel``,
        ``ylabel``.
    stats
        ``{"confidence": 0.95}``: level of the intervals, if `data` holds traces.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``figure_kwargs``, ... Others that ``az.combine_plots`` passes have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When `data` is neither traces nor a table with the columns of `cost_table`, is empty, or a name is unknown.

    Notes
    -----
    Numeric keys are points of the axis, text keys are names under equally spaced ticks. Settings without audits have no
    point in the panel of wrong decisions.

    Examples
    --------
    >>> amc.plot_cost({0.01: careful, 0.1: fast}, backend="matplotlib")  # doctest: +SKIP
    """
    names = names_of(var_names, _QUANTITIES)
    table, ticks = _axis_positions(_as_dataset(data, names, (stats or {}).get("confidence", 0.95)))
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    plot.on(table[names].isel(epsilon=0, drop=True), (4.0 * len(names), 3.2), pc_kwargs, sharex=True)
    points = {name: _points(table, name) for name in names}
    plot.add("line", draw.line_xy, points, color="C0", alpha=0.4)
    plot.add("interval", draw.ci_line_y, {name: _bars(table, name) for name in names}, color="C0")
    plot.add("point", draw.scatter_xy, points, color="C0")
    if ticks is not None:
        # Names under ticks overlap unless they are short; of the backends only matplotlib can rotate them here.
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if plot.backend == "matplotlib" else {}
        plot.set("xticks", draw.set_xticks, values=np.arange(len(ticks)), labels=ticks, **turned)
    plot.name_axes(labeller, x="epsilon" if ticks is None else "setting", y="fraction")
    return plot.collection


@naming_the_arguments
def cost_table(runs: Mapping[Any, Traces], *, confidence: float = 0.95) -> "pd.DataFrame":
    """Tabulate data use and wrong decisions of several settings, with intervals.

    Parameters
    ----------
    runs
        Traces by epsilon, or by any label.
    confidence
        Level of the intervals: Clopper-Pearson over pooled audits; Student's t over chains for the data fraction, NaN
        with one chain.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``epsilon``: ``data_fraction``, ``wrong_decision_rate``, each with limits ``data_fraction_lower``,
        ``wrong_decision_lower``, and so on, and ``decisions_audited``.
    """
    import pandas as pd
    from scipy import special

    rows = {}
    for key, traces in runs.items():
        chains = pd.concat([cost_summary(trace).drop("all") for trace in as_list(traces, what=f"data[{key!r}]")])
        mean = chains["data_fraction"].mean()
        n_chains = len(chains)
        error = chains["data_fraction"].std(ddof=1) / np.sqrt(n_chains)
        half = error * special.stdtrit(n_chains - 1, (1 + confidence) / 2) if n_chains > 1 else np.nan
        audited = chains["decisions_audited"].sum()
        wrong = chains["wrong_decisions"].sum() if audited > 0 else 0
        lower, upper = clopper_pearson(wrong, audited, confidence)
        rows[key] = {
            "data_fraction": mean,
            "data_fraction_lower": mean - half,
            "data_fraction_upper": mean + half,
            "wrong_decision_rate": wrong / audited if audited > 0 else np.nan,
            "wrong_decision_lower": float(lower),
            "wrong_decision_upper": float(upper),
            "decisions_audited": audited,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("epsilon")


def _as_dataset(data: Any, names: Sequence[str], confidence: float) -> xr.Dataset:
    if isinstance(data, xr.DataTree):
        data = {"": data}
    if isinstance(data, Mapping) and not isinstance(data, xr.Dataset):
        data = cost_table(data, confidence=confidence)
    if not hasattr(data, "rename_axis") and not isinstance(data, xr.Dataset):
        raise InvalidInputError(
            f"`plot_cost` needs a trace, a dict of epsilon -> traces, or a table; found a {type(data).__name__}."
        )
    table = data if isinstance(data, xr.Dataset) else xr.Dataset.from_dataframe(data.rename_axis("epsilon"))
    needed = [column for name in names for column in (name, *_LIMITS.get(name, ()))]
    missing = [column for column in needed if column not in table]
    unknown = [name for name in names if name not in _LIMITS]
    if missing or unknown or "epsilon" not in table.dims or not table.sizes["epsilon"]:
        raise InvalidInputError(
            f"`plot_cost` needs traces by epsilon, or a table indexed by epsilon with {needed}; missing "
            f"{missing + unknown or 'the index, or any row'}. `cost_table(runs)` makes one."
        )
    return table


def _axis_positions(table: xr.Dataset) -> tuple[xr.Dataset, list[str] | None]:
    """Return the table with positions on the axis, and tick labels; None for numbers, which are sorted."""
    keys = np.asarray(table["epsilon"])
    if np.issubdtype(keys.dtype, np.number):
        return table.sortby("epsilon"), None
    return table.assign_coords(epsilon=np.arange(float(len(keys)))), [str(key) for key in keys]


def _points(table: xr.Dataset, name: str) -> xr.DataArray:
    x = table["epsilon"].where(table[name].notnull())
    return xr.concat([x, table[name]], dim=xr.Variable("plot_axis", ["x", "y"]), coords="minimal").rename(None)


def _bars(table: xr.Dataset, name: str) -> xr.DataArray:
    lower, upper = _LIMITS[name]
    has_interval = table[lower].notnull()
    parts = [table["epsilon"].where(has_interval), table[lower], table[upper]]
    return xr.concat(parts, dim=xr.Variable("plot_axis", ["x", "y_bottom", "y_top"]), coords="minimal").rename(None)
