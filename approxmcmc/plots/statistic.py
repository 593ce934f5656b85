"""The distribution of a sequential test's t-statistic by the share of data read, and the values at which it decides."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection, visuals as draw
from scipy.special import ndtri

from approxmcmc.acceptance import SequentialTTest
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.records import group as group_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.plots.common import Drawing, names_of, stack

if TYPE_CHECKING:
    from approxmcmc.contracts import AcceptanceTest

VARIABLE = "t-statistic"
RECORD = "audited_mu_std"
QUANTILES = (0.1, 0.5, 0.9)
PROBABILITY = 0.9
SHOWN = 1.5  # times the largest critical value: once the lower limit is above it, nearly every path has stopped
POINTS = 200


@naming_the_arguments
def plot_statistic(
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
    r"""Plot the distribution of the t-statistic against the share of data read, with the critical values.

    Parameters
    ----------
    data
        A trace with audits.
    test
        The `SequentialTTest` that decided, with its settings.
    var_names
        The name of the panel; None: ``"t-statistic"``.
    plot_collection, backend, labeller, aes_by_visuals
        As in every ArviZ plot; backends ``"matplotlib"``, ``"bokeh"``, ``"plotly"``, ``"none"``. ``az.combine_plots``
        combines it with other plots of one panel that have no colours by chain; give it `test` by name.
    visuals
        Keyword arguments, or False, for ``band`` and ``line`` (the distribution and its mean), ``critical`` and
        ``look`` (the values at which a look decides), ``title``, ``xlabel``, ``ylabel``, ``legend``.
    stats
        ``{"quantiles": (0.1, 0.5, 0.9), "probability": 0.9}``: the audited decisions to show, from hard to easy, and
        the probability that a band covers.
    **pc_kwargs
        For ``PlotCollection.wrap``: ``figure_kwargs``, ... Others that ``az.combine_plots`` passes have no effect.

    Returns
    -------
    arviz_plots.PlotCollection
        Artists under ``viz``; ``savefig(path)`` writes the figure.

    Raises
    ------
    InvalidInputError
        When `data` is not a trace with audited decisions, or `test` is not a `SequentialTTest` that stops early.

    Notes
    -----
    Each audit records :math:`\mu_{std} = (\Lambda - \log u) / \tau`, how far the mean of all terms is from the
    threshold. In the Gaussian regime the statistic after a share :math:`\pi` of the data is

    .. math:: t \sim N\bigl(\mu_{std} \sqrt{\pi / (1 - \pi)}, \; 1\bigr),

    drawn for :math:`\lvert \mu_{std} \rvert`, as if the test did not stop. The test decides at the first look at which
    t is beyond a critical value, rightly above and wrongly below. The legend gives the distance, the probability of a
    wrong decision and the share of the data read (`sequential_test_error`); with ``tol > 0`` only the distance.

    References
    ----------
    Korattikara, Chen and Welling (2014), section 5.1 and figure 1.

    Examples
    --------
    >>> amc.plot_statistic(trace, sampler.test)  # doctest: +SKIP
    """
    (name,) = names_of(var_names, (VARIABLE,))
    chosen = {"quantiles": QUANTILES, "probability": PROBABILITY, **(stats or {})}
    n_obs, distances = _audited(data, chosen["quantiles"])
    boundary = _boundary(test, n_obs)
    law = _law(distances, boundary, test, n_obs, chosen["probability"])
    plot = Drawing(plot_collection, backend, visuals, aes_by_visuals)
    panel = xr.Dataset({name: law["mean"].isel(point=0, drop=True)})
    plot.on(panel, (9.5, 3.8), pc_kwargs, aes={"color": ["decision"]})
    band = stack("kwarg", x=law["share"], y_bottom=law["low"], y_top=law["high"])
    edge = stack("plot_axis", x=boundary["share"], y=boundary["critical"])
    plot.add("band", draw.fill_between_y, {name: band}, ["color"], alpha=0.2)
    plot.add("line", draw.line_xy, {name: stack("plot_axis", x=law["share"], y=law["mean"])}, ["color"])
    plot.add("critical", draw.line_xy, {name: edge}, color="black")
    plot.add("look", draw.scatter_xy, {name: edge}, color="black")
    plot.name_axes(labeller, x="share of the data read", y="t-statistic")
    plot.add_legend("decision")
    return plot.collection


def _audited(data: Any, quantiles: Sequence[float]) -> tuple[int, np.ndarray]:
    """Return the number of data, and quantiles over the audited decisions of the distance from the threshold."""
    if not isinstance(data, xr.DataTree):
        raise InvalidInputError(f"`plot_statistic` needs a trace; found a {type(data).__name__}.")
    records = group_of(data, "sample_stats")
    distances = np.abs(np.asarray(records.get(RECORD, np.nan)))
    if not np.isfinite(distances).any():
        raise InvalidInputError(
            "`plot_statistic` needs the audited decisions of a sequential t-test; this trace has none. Sample with "
            "`audit_every=`, or leave it at its default."
        )
    return int(records.attrs["n_obs"]), np.unique(np.quantile(distances[np.isfinite(distances)], quantiles))


def _boundary(test: Any, n_obs: int) -> xr.Dataset:
    """Return critical values by the share of data read at each look but the last: upper values, a gap, lower values."""
    if not isinstance(test, SequentialTTest) or test.reads_all(n_obs):
        raise InvalidInputError(
            f"`plot_statistic` needs the SequentialTTest of the run, and it must stop before all {n_obs} data are "
            f"read: pass sampler.test; found {test!r}."
        )
    looks = test.looks(n_obs)
    critical = test.state_for(n_obs).critical[: looks.size - 1]
    shares = looks[:-1] / n_obs
    gap = [np.nan]
    both = {"share": [*shares, *gap, *shares], "critical": [*critical, *gap, *-critical]}
    return xr.Dataset({name: ("look", np.asarray(values)) for name, values in both.items()})


def _law(distances: np.ndarray, boundary: xr.Dataset, test: Any, n_obs: int, probability: float) -> xr.Dataset:
    """Return mean and limits of t by decision and share of the data, until nearly every path has stopped."""
    last = float(boundary["share"].max())
    highest = float(boundary["critical"].max())
    share = xr.DataArray(np.linspace(0.0, last, POINTS), dims="point")
    labels = xr.DataArray(distances, {"decision": _labels(distances, test, n_obs)}, "decision")
    mean = labels * np.sqrt(share / (1.0 - share))
    half = float(ndtri(0.5 + 0.5 * probability))
    mean = mean.where(mean - half <= SHOWN * highest)
    return xr.Dataset({"share": share, "mean": mean, "low": mean - half, "high": mean + half})


def _labels(distances: np.ndarray, test: SequentialTTest, n_obs: int) -> list[str]:
    law = test.decision_law(distances, n_obs)
    if law is None:
        return [f"{distance:.2g}" for distance in distances]
    return [
        f"{distance:.2g}: wrong {error:.1%}, reads {fraction:.0%}"
        for distance, error, fraction in zip(distances, law.error, law.data_fraction, strict=True)
    ]
