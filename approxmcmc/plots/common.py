"""Code shared by the plots: panels, optional visuals, axes with names and scales."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import arviz as az
import xarray as xr
from arviz_base.labels import BaseLabeller
from arviz_plots import PlotCollection, visuals

PASSED_TO_ALL = ("var_names", "filter_vars", "group", "coords", "sample_dims", "stats")
"""Arguments that `az.combine_plots` passes to every plot, whether it uses them or not."""


class Drawing:
    """State of a plot: its visuals and aesthetics, overridden by the caller's, and the collection of its panels.

    Parameters
    ----------
    visuals
        Keyword arguments by visual, False to leave a visual out; as in every ArviZ plot.
    aes_by_visuals
        Aesthetics by visual, which override those of the plot.
    backend
        None: the backend of the collection, or ArviZ's default.
    """

    def __init__(
        self,
        collection: PlotCollection | None,
        backend: str | None,
        visuals: Mapping[str, Any] | None,
        aes_by_visuals: Mapping[str, Sequence[str]] | None,
    ) -> None:
        self._given = collection
        self._visuals = dict(visuals or {})
        self._aes = dict(aes_by_visuals or {})
        own = az.rcParams["plot.backend"] if collection is None else collection.backend
        self.backend = str(own if backend is None else backend)

    def on(
        self,
        panels: xr.Dataset,
        size: tuple[float, float],
        pc_kwargs: Mapping[str, Any],
        *,
        cols: Sequence[str] = ("__variable__",),
        aes: Mapping[str, Sequence[str]] | None = None,
        **figure: Any,
    ) -> None:
        """Draw on the caller's collection, or on new panels; the caller's arguments override the defaults."""
        if self._given is not None:
            self.collection = self._given
            return
        arguments = {name: value for name, value in pc_kwargs.items() if name not in PASSED_TO_ALL}
        arguments.setdefault("cols", list(cols))
        if aes:
            arguments["aes"] = {**aes, **arguments.get("aes", {})}
        # Other backends lay out and size their texts themselves.
        matplotlib = self.backend == "matplotlib"
        inches = {"figsize": size, "figsize_units": "inches", "layout": "constrained"} if matplotlib else {}
        arguments["figure_kwargs"] = {**figure, **inches, **arguments.get("figure_kwargs", {})}
        # A collection leaves out the texts of panels whose first value is NaN.
        self.collection = PlotCollection.wrap(xr.zeros_like(panels), backend=self.backend, **arguments)

    def wants(self, visual: str) -> bool:
        """Return whether to draw the visual."""
        return self._visuals.get(visual, True) is not False

    def arguments(self, visual: str, **defaults: Any) -> dict[str, Any]:
        """Return the visual's keyword arguments: the plot's defaults, overridden by the caller's."""
        chosen = self._visuals.get(visual)
        return {**defaults, **(chosen if isinstance(chosen, Mapping) else {})}

    def add(
        self, visual: str, function: Any, panels: Mapping[str, xr.DataArray], aes: Iterable[str] = (), **style: Any
    ) -> None:
        """Draw a visual with its aesthetics in each panel, unless the caller leaves it out."""
        if self.wants(visual):
            ignored = self.collection.aes_set.difference(self._aes.get(visual, aes))
            arguments = self.arguments(visual, **style)
            self.collection.map(function, visual, data=xr.Dataset(panels), ignore_aes=ignored, **arguments)

    def set(self, visual: str, function: Any, panels: Mapping[str, float] | None = None, **settings: Any) -> None:
        """Apply a visual without data, such as a scale, to these panels (None: all), if the caller wants it."""
        if self.wants(visual):
            data = {} if panels is None else {"data": xr.Dataset(panels)}
            arguments = {"ignore_aes": self.collection.aes_set, **self.arguments(visual, **settings)}
            self.collection.map(function, visual, store_artist=False, **data, **arguments)

    def name_axes(self, labeller: Any, *, x: str | None, y: str) -> None:
        """Write the title of each panel and the names of its axes; None leaves the horizontal axis without one."""
        shared: dict[str, Any] = {"ignore_aes": self.collection.aes_set, "subset_info": True}
        for name, visual, default in (
            ("title", visuals.labelled_title, {"labeller": labeller or BaseLabeller()}),
            ("xlabel", visuals.labelled_x, {"text": x}),
            ("ylabel", visuals.labelled_y, {"text": y}),
        ):
            if self.wants(name) and (name != "xlabel" or x is not None):
                self.collection.map(visual, name, **shared, **self.arguments(name, **default))

    def add_legend(self, dim: str) -> None:
        """Add the legend of the dim that colours show, if the caller wants it and the backend can draw it."""
        if self.wants("legend") and self.backend != "none" and "color" in self.collection.aes_set:
            self.collection.add_legend(dim, **self.arguments("legend"))


def names_of(var_names: str | Sequence[str] | None, default: Sequence[str]) -> list[str]:
    """Return the argument `var_names` of a plot as a list; it may be one name, several, or None for the default."""
    return [var_names] if isinstance(var_names, str) else list(default if var_names is None else var_names)


def stack(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Put arrays side by side along a new dim with their names as labels, as ArviZ's visuals expect them."""
    aligned = [part.rename(None) for part in xr.broadcast(*parts.values())]
    return xr.concat(aligned, dim=xr.Variable(dim, list(parts)), coords="minimal")


def logarithmic(collection: PlotCollection) -> None:
    """Give both axes a logarithmic scale."""
    for name, setter in (("xscale", visuals.set_xscale), ("yscale", visuals.set_yscale)):
        collection.map(setter, name, ignore_aes=collection.aes_set, scale="log", store_artist=False)
    if collection.backend == "matplotlib":
        for panel in collection.viz["plot"].data_vars.values():
            for axes in panel.to_numpy().ravel():
                _thin_tick_labels(axes.xaxis)


def _thin_tick_labels(axis: Any) -> None:
    """Remove minor tick labels, which overlap; on an axis that spans less than a factor of 30, label 1, 2, 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 30.0 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
