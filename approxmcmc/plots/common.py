"""Code shared by the plots: choice of the backend, optional visuals, axes with names and scales."""

from collections.abc import Mapping, Sequence
from typing import Any

import arviz as az
import xarray as xr
from arviz_plots import PlotCollection, visuals

PASSED_TO_ALL = ("var_names", "filter_vars", "group", "coords", "sample_dims", "stats")
"""Arguments that `az.combine_plots` passes to every plot, whether it uses them or not."""


class Options:
    """The `visuals` argument of an ArviZ plot: keyword arguments per visual, False to leave a visual out."""

    def __init__(self, visuals: Mapping[str, Any] | None) -> None:
        self._by_name = dict(visuals or {})

    def wanted(self, name: str) -> bool:
        """Return whether to draw the visual."""
        return self._by_name.get(name, True) is not False

    def arguments(self, name: str, **defaults: Any) -> dict[str, Any]:
        """Return the visual's keyword arguments: the caller's over the plot's defaults."""
        chosen = self._by_name.get(name)
        return {**defaults, **(chosen if isinstance(chosen, Mapping) else {})}


def names_of(var_names: str | Sequence[str] | None, default: Sequence[str]) -> list[str]:
    """Return the `var_names` of an ArviZ plot as a list: one name, several, or None for the default."""
    return [var_names] if isinstance(var_names, str) else list(default if var_names is None else var_names)


def chosen_backend(backend: str | None, plot_collection: PlotCollection | None) -> str:
    """Return the plotting backend: the caller's, the collection's, or ArviZ's default."""
    if backend is not None:
        return backend
    return str(az.rcParams["plot.backend"]) if plot_collection is None else str(plot_collection.backend)


def new_panels(
    panels: xr.Dataset,
    backend: str,
    size: tuple[float, float],
    pc_kwargs: Mapping[str, Any],
    *,
    cols: Sequence[str] = ("__variable__",),
    aes: Mapping[str, Sequence[str]] | None = None,
    **figure: Any,
) -> PlotCollection:
    """Return the collection of a plot: the caller's arguments over the plot's own facets, aesthetics and figure."""
    arguments = {name: value for name, value in pc_kwargs.items() if name not in PASSED_TO_ALL}
    arguments.setdefault("cols", list(cols))
    if aes:
        arguments["aes"] = {**aes, **arguments.get("aes", {})}
    # Other backends lay out and size their texts themselves.
    inches = {"figsize": size, "figsize_units": "inches", "layout": "constrained"} if backend == "matplotlib" else {}
    arguments["figure_kwargs"] = {**figure, **inches, **arguments.get("figure_kwargs", {})}
    return PlotCollection.wrap(panels, backend=backend, **arguments)


def without_gaps(panels: xr.Dataset) -> xr.Dataset:
    """Replace values by zero: a PlotCollection leaves out the texts of panels whose first value is NaN."""
    return xr.zeros_like(panels)


def stack(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Put arrays side by side along a new dim with their names as labels, as ArviZ's visuals expect them."""
    aligned = [part.rename(None) for part in xr.broadcast(*parts.values())]
    return xr.concat(aligned, dim=xr.Variable(dim, list(parts)), coords="minimal")


def label_axes(collection: PlotCollection, options: Options, *, labeller: Any, x_text: str, y_text: str) -> None:
    """Write the title of each panel and the names of its axes."""
    shared: dict[str, Any] = {"ignore_aes": collection.aes_set, "subset_info": True}
    for name, visual, default in (
        ("title", visuals.labelled_title, {"labeller": labeller}),
        ("xlabel", visuals.labelled_x, {"text": x_text}),
        ("ylabel", visuals.labelled_y, {"text": y_text}),
    ):
        if options.wanted(name):
            collection.map(visual, name, **shared, **options.arguments(name, **default))


def logarithmic(collection: PlotCollection) -> None:
    """Give both axes a logarithmic scale."""
    for name, setter in (("xscale", visuals.set_xscale), ("yscale", visuals.set_yscale)):
        collection.map(setter, name, ignore_aes=collection.aes_set, scale="log", store_artist=False)
    if collection.backend == "matplotlib":
        for panel in collection.viz["plot"].data_vars.values():
            for axes in panel.to_numpy().ravel():
                _thin_tick_labels(axes.xaxis)


def _thin_tick_labels(axis: Any) -> None:
    """Label 1, 2 and 5 of each decade if few decades are shown, else decades: Matplotlib's own labels overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 30.0 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
