"""Plot how far the terms of influential rows and of light rows depart from their quadratics over the posterior."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.reading import flat_draws
from approxmcmc.plots.common import Drawing, logarithmic, names_of, stack
from approxmcmc.surrogate import ControlVariate

VARIABLE = "influential rows"
DRAWS = 32
POINTS = 200


@naming_the_arguments
def plot_influential_rows(
    data: xr.DataTree,
    target: Target | None = None,
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
    r"""Plot the spread of each row's log-likelihood term around its quadratic, influential rows and light rows apart.

    Parameters
    ----------
    data
        A trace of the target, by any sampler.
    target
        The `ControlVariate` with ``always_read=``.
    var_names
        The name of the panel; None: ``"influential rows"``.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``. ``az.combine_plots``
        combines it with other plots of one panel that have no colours by chain; give it `target` by name.
    visuals
        Keyword arguments, or False, for ``rows`` (a point each), ``title``, ``xlabel``, ``ylabel``, ``legend``.
    stats
        ``{"draws": 32}``: number of draws, evenly spaced, from which spreads are computed; each costs a pass over the
        data.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``figure_kwargs``, ... Others that ``az.combine_plots`` passes have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When `target` is not a `ControlVariate` with ``always_read=``, or `data` is not a trace of it with two draws or
        more.

    Notes
    -----
    The spread is the standard deviation over draws of the residual :math:`r_i = \log p(x_i \mid \theta) - w_i(\theta)`,
    in nats. A test samples the residuals of light rows, and would have to sample those of influential rows if they were
    light. With ``order=0`` it is the standard deviation of :math:`\log p(x_i \mid \theta)`. Rows are sorted by spread,
    widest first; of more than 200 rows, only those at even distances on a logarithmic axis are drawn. A row that does
    not vary is left out. The plot expands all rows again, with the cost of making the target.

    An influential row with a small spread is one that you named, or belongs to a wall: its term forbids a half-space
    that no draw enters.

    Examples
    --------
    >>> amc.plot_influential_rows(trace, amc.ControlVariate(plain, always_read="auto"))  # doctest: +SKIP
    """
    (name,) = names_of(var_names, (VARIABLE,))
    ranked = _ranked(_spreads(data, target, **{"draws": DRAWS, **(stats or {})}))
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    panel = xr.Dataset({name: ranked["spread"].isel(place=0, drop=True)})
    plot.on(panel, (7.0, 3.8), pc_kwargs, aes={"color": ["rows"]})
    points = {name: stack("plot_axis", x=ranked["rank"], y=ranked["spread"])}
    plot.add("rows", draw.scatter_xy, points, ("color", "marker"))
    plot.name_axes(labeller, x="rows, widest first", y="spread (nats)")
    logarithmic(plot.collection)
    plot.add_legend("rows")
    return plot.collection


def _spreads(data: Any, target: Any, *, draws: int) -> dict[str, np.ndarray]:
    """Return the standard deviation over some draws of each row's residual, for the rows "influential" and "light"."""
    if not isinstance(target, ControlVariate) or target.pilot is None or target.order == 1:
        raise InvalidInputError(
            f"`plot_influential_rows` needs the ControlVariate of the trace, made with always_read=; found {target!r}."
        )
    thetas = flat_draws(data, target).reshape(-1, target.variables.size)
    thetas = thetas[np.unique(np.linspace(0, len(thetas) - 1, draws).round().astype(int))]
    if len(thetas) < 2:
        raise InvalidInputError(f"`plot_influential_rows` needs two draws or more; found {len(thetas)}.")
    all_light = target.target
    if target.order == 2:
        all_light = ControlVariate(target.target, target.pilot, always_read=[], averaged=target.averaged)
    spread = _spread(all_light, thetas)
    return {"influential": spread[target.always_read], "light": np.delete(spread, target.always_read)}


def _spread(target: Target, thetas: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each term over the thetas, by running means and sums of squares."""
    compiled = target.compile()
    mean = np.zeros(compiled.n_obs)
    squares = np.zeros(compiled.n_obs)
    for count, theta in enumerate(thetas, start=1):
        terms = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
        off = terms - mean
        mean += off / count
        squares += off * (terms - mean)
    return np.sqrt(squares / (len(thetas) - 1))


def _ranked(spreads: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return ranks and spreads, widest first, thinned evenly on a logarithmic axis; dims (rows, place)."""
    table = xr.Dataset(
        {name: (("rows", "place"), np.full((len(spreads), POINTS), np.nan)) for name in ("rank", "spread")}
    )
    for kind, spread in enumerate(spreads.values()):
        ordered = np.sort(spread[spread > 0.0])[::-1]
        shown = np.arange(1, ordered.size + 1)
        if ordered.size > POINTS:
            shown = np.unique(np.geomspace(1, ordered.size, POINTS).round().astype(int))
        table["rank"][kind, : shown.size] = shown
        table["spread"][kind, : shown.size] = ordered[shown - 1]
    return table.assign_coords(rows=list(spreads))
