"""The joint marginal of two coordinates at several times, over that of the gold standard.

Figure 4 of the preprint of Korattikara, Chen and Welling (2013), for any study with a knob called epsilon.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.running import completion_clocks
from approxmcmc.study.report import Figure
from approxmcmc.study.report.evidence import Contest, gather
from approxmcmc.study.report.svg import COLOURS, subplots
from approxmcmc.study.report.wording import number

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults


def pair_marginals(
    results: "StudyResults",
    *,
    variable: str,
    coordinates: tuple[int, int] = (0, 1),
    epsilons: Sequence[float] = (0.0, 0.01),
    fractions: Sequence[float] = (0.125, 0.25, 1.0),
    runs: int = 3,
    lead: str = "",
) -> list[Figure]:
    """Draw the joint marginal of two coordinates by time and epsilon, over that of the gold standard.

    Parameters
    ----------
    variable, coordinates
        Name of the variable, and the indices of two of its coordinates.
    epsilons
        Values of the knob epsilon, one row of panels for each; if several samplers have the knob, the first is drawn.
    fractions
        Shares of the longest common time, one column of panels for each.
    runs
        Chains drawn in each panel.
    lead
        Opens the caption: the published figure that this one repeats.
    """
    import pandas as pd

    figures = []
    for contest in gather(results):
        chosen = _settings_at(results, contest, epsilons)
        if contest.reference is None or not chosen:
            continue
        truth = _pair(contest.reference, variable, coordinates)
        names = _names(contest.reference, variable, coordinates)
        window = truth.mean(axis=0) + np.outer([-6.0, 6.0], truth.std(axis=0))
        shape = (len(chosen), len(fractions))
        figure, axes = subplots(*shape, figsize=(9.6, 3.1 * len(chosen) + 0.5), squeeze=False, sharex=True, sharey=True)
        rows: list[dict[str, Any]] = []
        for i, (epsilon, label) in enumerate(chosen.items()):
            for j, fraction in enumerate(fractions):
                time = float(fraction * contest.budgets[-1])
                _contours(axes[i, j], truth, COLOURS[0], linewidth=2.0)
                outside = 0
                for run, trace in enumerate(contest.traces[label][:runs]):
                    draws = _settled(trace, variable, coordinates, time)
                    outside += not _inside(draws, window)
                    _contours(axes[i, j], draws, COLOURS[1], linewidth=0.9)
                    about = {"epsilon": epsilon, "time": time, "run": run}
                    rows += [about | dict(zip(names, pair, strict=True)) for pair in draws[:: 1 + len(draws) // 300]]
                axes[i, j].set_title(f"epsilon = {epsilon:g}, {number(time)} s", fontsize=9)
                if outside:
                    _remark(axes[i, j], f"{outside} of {runs} chains outside")
            axes[i, 0].set_ylabel(names[1])
        for panel in axes[-1]:
            panel.set_xlabel(names[0])
        axes[0, 0].set_xlim(*window[:, 0])
        axes[0, 0].set_ylim(*window[:, 1])
        caption = (
            f"{lead} Regions of highest density that hold 50 % and 90 % of the draws (kernel "
            f"estimate) of {names[0]} and {names[1]}. Thick: the gold standard; thin: {runs} chains, the "
            "second half of their draws up to the stated time. A panel states how many chains are still outside it."
        )
        title = f"Marginals of two coefficients, {contest.target}"
        figures.append(Figure(title, caption.lstrip(), figure, pd.DataFrame(rows)))
    return figures


def _settings_at(results: "StudyResults", contest: Contest, epsilons: Sequence[float]) -> dict[float, str]:
    records = results.records[results.records.target == contest.target]
    at = {row.label: (row.knobs or {}).get("epsilon") for row in records.itertuples()}
    labels: dict[float, str] = {}
    for epsilon in epsilons:
        for label in contest.traces:  # in the order declared
            if at.get(label) == epsilon:
                labels.setdefault(epsilon, label)
    return labels


def _pair(trace: "xr.DataTree", variable: str, coordinates: tuple[int, int]) -> np.ndarray:
    values = trace["posterior"][variable].transpose("chain", "draw", ...).values
    return values.reshape(values.shape[0] * values.shape[1], -1)[:, list(coordinates)]


def _names(trace: "xr.DataTree", variable: str, coordinates: tuple[int, int]) -> list[str]:
    array = trace["posterior"].to_dataset()[variable]
    dims = [dim for dim in array.dims if dim not in ("chain", "draw")]
    return [f"{variable}[{array[dims[0]].values[c]}]" for c in coordinates]


def _contours(panel: Any, draws: np.ndarray, colour: str, linewidth: float) -> None:
    from scipy import stats

    draws = draws[:: 1 + len(draws) // 2000]
    if len(draws) < 10 or np.linalg.matrix_rank(np.cov(draws.T)) < 2:
        panel.plot(*draws.T, "x", color=colour, markersize=4)
        return
    density = stats.gaussian_kde(draws.T)
    low = draws.min(axis=0)
    high = draws.max(axis=0)
    margin = 0.2 * (high - low)
    x, y = (np.linspace(low[k] - margin[k], high[k] + margin[k], 60) for k in (0, 1))
    height = density(np.array(np.meshgrid(x, y)).reshape(2, -1)).reshape(60, 60)
    levels = np.unique(np.quantile(density(draws.T), [0.1, 0.5]))  # 90 % and 50 % of the draws lie above these heights
    panel.contour(x, y, height, levels=levels, colors=[colour], linewidths=linewidth)


def _settled(trace: "xr.DataTree", variable: str, coordinates: tuple[int, int], time: float) -> np.ndarray:
    """Return the second half of the draws that a one-chain trace made up to a time, shape (draw, 2)."""
    [clock] = completion_clocks([trace], "time", True)
    done = int(np.searchsorted(clock.ends, time, side="right"))
    return _pair(trace, variable, coordinates)[done // 2 : done]


def _inside(draws: np.ndarray, window: np.ndarray) -> bool:
    """Return whether any draw lies in the window, whose two rows are its lower and upper limits."""
    return bool(((draws > window[0]) & (draws < window[1])).all(axis=1).any())


def _remark(panel: Any, text: str) -> None:
    panel.text(0.03, 0.04, text, transform=panel.transAxes, fontsize=8)
