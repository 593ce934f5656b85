"""Chains, marginal densities and autocorrelations of several samplers, one row or one colour each, by ArviZ's plots."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from approxmcmc.diagnostics import split_population
from approxmcmc.study.report import Figure
from approxmcmc.study.report.svg import COLOURS, INK
from studies.tools.members import draws_of

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.results import StudyResults

FEWEST = 60  # draws: samplers with fewer are left out, because all are cut to the shortest
SHOWN = 500  # draws of a chain in a picture, and a quarter of those of a density; a page with more is slow
Curve = tuple[np.ndarray, np.ndarray]


def grid_marginals(weight: xr.DataArray) -> dict[str, Curve]:
    """Return points and marginal density of every coordinate, given weights on a regular grid."""
    names = [str(name) for name in weight.dims]
    curves = {}
    for name in names:
        points = weight[name].values
        mass = weight.sum([other for other in names if other != name]).values
        curves[name] = (points, mass / (mass.sum() * (points[1] - points[0])))
    return curves


def draw_marginals(theta: np.ndarray, names: Sequence[str], bins: int = 30) -> dict[str, Curve]:
    """Return histograms of draws, shape (..., dim), over the middle 99.6 % of each coordinate."""
    curves = {}
    for name, draws in zip(names, theta.reshape(-1, theta.shape[-1]).T, strict=True):
        low, high = np.quantile(draws, [0.002, 0.998])
        edges = np.linspace(low, high, bins + 1)
        height = np.histogram(draws, bins=edges)[0] / draws.size / (edges[1] - edges[0])
        curves[name] = (0.5 * (edges[1:] + edges[:-1]), height)
    return curves


def chain_figures(
    results: "StudyResults",
    labels: Mapping[str, str],
    truth: Mapping[str, Curve],
    truth_name: str,
    *,
    leads: tuple[str, str, str] = ("", "", ""),
    max_lag: int = 100,
) -> list[Figure]:
    """Draw chains, densities and autocorrelations of the coordinates of ``theta``.

    Parameters
    ----------
    labels
        What to call each setting, by its label in the results; others are left out.
    truth
        Points and density of the distribution with which the marginals are compared, by the names of the coordinates in
        their order; the points set the frame.
    truth_name
        Name of this distribution in the caption.
    leads
        Open the three captions: the published figures that these repeat.
    max_lag
        Longest lag, in steps.
    """
    names = list(truth)
    chains = {labels[label]: traces for (_, label), traces in results.traces().items() if label in labels}
    if not chains:
        return []
    long = {name: chain for name, traces in chains.items() if len(chain := _first_chain(traces)) >= FEWEST}
    if not long:
        return []
    first = _dataset(long, names)
    pooled = _dataset({name: _spread(np.concatenate(draws_of(chains[name]))) for name in long}, names)
    thin = int(next(iter(chains.values()))[0]["sample_stats"].attrs.get("thin", 1))
    every = "" if thin == 1 else f", of which every {thin}th is kept"
    which_chain = (
        "one replicate of each setting, one member of a population"
        if any(_is_population(t[0]) for t in chains.values())
        else "one replicate"
    )
    lines = f"the first {min(SHOWN, first.sizes['draw'])} draws of {which_chain}{every}."
    short = "".join(f" {name} made fewer than {FEWEST} draws." for name in chains if name not in long)
    lags = max(2, max_lag // thin)
    return [
        _figure("Chains", f"{leads[0]} Chains: {lines}{short}", _grid(_shown(first), "plot_trace", names, "draw")),
        _figure(
            "Densities of all samplers",
            f"{leads[1]} Marginal densities, kernel estimates from {pooled.sizes['draw']} draws spread over all "
            f"replicates; dashed: {truth_name}. A chain that did not move for long makes a spike.{short}",
            _densities(pooled, names, truth, truth_name),
        ),
        _figure(
            "Autocorrelations",
            f"{leads[2]} Autocorrelation of one replicate of each setting, over {first.sizes['draw']} draws{every}; a "
            "lag is one draw. Lags are in steps, whatever a step of each sampler costs.",
            _grid(first, "plot_autocorr", names, "lag", max_lag=min(lags, first.sizes["draw"] - 1)),
        ),
    ]


# --- draws ---


def _members(trace: "xr.DataTree") -> np.ndarray:
    """Return the chains of a trace, the members of a population one by one; shape (chain, draw, dim)."""
    posterior = split_population(trace) if _is_population(trace) else trace["posterior"]
    return np.asarray(posterior["theta"].values)


def _is_population(trace: "xr.DataTree") -> bool:
    return "adapted_n_members" in trace["posterior"].attrs


def _first_chain(traces: Sequence["xr.DataTree"]) -> np.ndarray:
    return _members(traces[0])[0]


def _spread(theta: np.ndarray) -> np.ndarray:
    """Return 4 SHOWN draws, equally far apart; if a run is short, some draws are repeated."""
    return theta[np.linspace(0, len(theta) - 1, 4 * SHOWN).astype(np.int64)]


def _dataset(draws: Mapping[str, np.ndarray], names: Sequence[str]) -> xr.Dataset:
    """Return one variable for each coordinate, dims (sampler, chain, draw), cut to the shortest sampler."""
    n = min(len(theta) for theta in draws.values())
    values = np.stack([theta[:n] for theta in draws.values()])[:, None]
    dims = ("sampler", "chain", "draw")
    return xr.Dataset({name: (dims, values[..., k]) for k, name in enumerate(names)}, {"sampler": list(draws)})


def _shown(first: xr.Dataset) -> xr.Dataset:
    return first.isel(draw=slice(SHOWN))


# --- pictures ---


def _collection(make: Callable[..., Any], data: xr.Dataset, size: tuple[float, float], **layout: Any) -> Any:
    return make(
        data, backend="matplotlib", figure_kwargs={"figsize": size, "figsize_units": "inches", "layout": "constrained"},
        **layout,
    )  # fmt: skip


def _grid(data: xr.Dataset, plot: str, names: Sequence[str], x_name: str, **settings: Any) -> Any:
    """Return ArviZ's plot with a row for each sampler and a column for each coordinate."""
    import arviz as az
    from arviz_plots import PlotCollection

    samplers = data["sampler"].values
    collection = _collection(
        PlotCollection.grid, data, (9.6, 0.9 + 1.1 * len(samplers)), rows=["sampler"], cols=["__variable__"],
        aes={"color": ["chain"]}, color=list(COLOURS[:1]),
    )  # fmt: skip
    hidden = {"title": False, "xlabel": False, "credible_interval": False}
    if plot == "plot_trace":
        hidden.pop("credible_interval")
    tree = xr.DataTree.from_dict({"posterior": data})
    getattr(az, plot)(tree, plot_collection=collection, visuals=hidden, **settings)
    for k, name in enumerate(names):
        axes = collection.viz["plot"][name]
        for sampler in samplers:
            axis = axes.sel(sampler=sampler).item()
            axis.set_xlabel(x_name if sampler == samplers[-1] else "")
            if k == 0:
                axis.set_ylabel(textwrap.fill(str(sampler).replace("_", " "), 10), fontsize=8)
        axes.sel(sampler=samplers[0]).item().set_title(name.replace("_", " "))
    return collection.viz["figure"].item()


def _densities(pooled: xr.Dataset, names: Sequence[str], truth: Mapping[str, Curve], truth_name: str) -> Any:
    """Return ArviZ's densities with a colour for each sampler, and the truth dashed."""
    import arviz as az
    from arviz_plots import PlotCollection

    columns = min(2, len(names))
    samplers = [str(sampler) for sampler in pooled["sampler"].values]
    rows = math.ceil(len(names) / columns)
    collection = _collection(
        PlotCollection.wrap,
        pooled,
        (9.6, 3.4 * rows),
        cols=["__variable__"],
        col_wrap=columns,
        aes={"color": ["sampler"]},
        color=[COLOURS[k % len(COLOURS)] for k in range(len(samplers))],
    )
    hidden = dict.fromkeys(
        ("title", "credible_interval", "point_estimate", "point_estimate_text", "remove_axis"), False
    )
    az.plot_dist(xr.DataTree.from_dict({"posterior": pooled}), plot_collection=collection, visuals=hidden)
    for name in names:
        axis = collection.viz["plot"][name].item()
        for line, sampler in zip(axis.get_lines(), samplers, strict=True):
            line.set_label(sampler)
        (x, height) = truth[name]
        axis.plot(x, height, color=INK, linestyle="--", linewidth=2.2, label=truth_name)
        axis.set(xlabel=name, ylabel="density", xlim=(x[0], x[-1]), ylim=(0.0, 2.0 * height.max()))
    collection.viz["plot"][names[0]].item().legend(fontsize=7)
    return collection.viz["figure"].item()


def _figure(title: str, caption: str, figure: Any) -> Figure:
    from matplotlib import pyplot

    pyplot.close(figure)  # ArviZ makes its figures by pyplot, which would keep them open
    return Figure(title, caption.lstrip(), figure, _lines(figure))


def _lines(figure: Any) -> "pd.DataFrame":
    """Return the plotted numbers as a table with columns ``panel``, ``line``, ``x``, ``y``."""
    import pandas as pd

    frames = [
        pd.DataFrame({"panel": panel, "line": str(line.get_label()), "x": line.get_xdata(), "y": line.get_ydata()})
        for panel, axis in enumerate(figure.axes)
        for line in axis.get_lines()
    ]
    return pd.concat(frames, ignore_index=True)
