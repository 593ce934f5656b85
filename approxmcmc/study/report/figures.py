"""The figures of every study: risk against time and data, bias and variance apart, speed of the machine.

Each is a function of tables (:class:`~approxmcmc.study.report.scores.Scores`), so that results in a store and results
that ship with the package are drawn by the same code.
"""

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report.families import FEW, drawn_in_full, family
from approxmcmc.study.report.pieces import Figure
from approxmcmc.study.report.scores import Scores
from approxmcmc.study.report.svg import COLOURS, DASHES, INK, MARKERS, literal, subplots
from approxmcmc.study.report.wording import enumeration, number, power_of_ten

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

LARGEST_PANELS = 4
FOLDED = " Thin lines: the other members of a family, without bands."
SHORT_AXIS = 20.0  # ratio of the ends; on a shorter axis labels only at decades could be missing altogether
FARTHEST_FLOOR = 1e-2  # share of the least value drawn: a floor below it is only stated in the caption
BANDS = "Bands: 95 % intervals over replicates, from five replicates on."


def style_of(labels: Sequence[str], exact: str | None) -> dict[str, dict[str, Any]]:
    """Return colour, dash and marker of every setting; the exact one is drawn in ink, thick and solid.

    With many settings those of one family share a colour.
    """
    styles: dict[str, dict[str, Any]] = {}
    others = [label for label in labels if label != exact]
    kinds = list(dict.fromkeys(others if len(labels) <= FEW else map(family, others)))
    for i, label in enumerate(others):
        kind = kinds.index(label if len(labels) <= FEW else family(label))
        styles[label] = {
            "color": COLOURS[kind % len(COLOURS)],
            "linestyle": DASHES[(i + i // len(COLOURS)) % len(DASHES)],
            "marker": MARKERS[(i + i // len(MARKERS)) % len(MARKERS)],
        }
    if exact is not None:
        styles[exact] = {"color": INK, "linestyle": "-", "marker": "o", "linewidth": 2.4}
    return styles


def risk_against_time(scores: Scores) -> Figure:
    """Draw risk against sampling time, both on log scales."""
    assert scores.over_time is not None
    return _curves(
        scores,
        scores.over_time,
        "time",
        title=f"Risk against time, {scores.target}",
        x_label=f"{scores.clock_name} time per chain (s)",
        caption="Risk = bias² + variance of the running mean against seconds of sampling (compilation and set-up out, "
        "tuning and warm-up in). A straight line of slope −1 is error dominated by variance; a line that levels off "
        "has met its bias; a steeper line is still losing the bias of its start. A fitted distribution is a level line "
        "from the end of its fit. Each curve ends with its setting's shortest chain.",
    )


def risk_with_setup(scores: Scores) -> Figure | None:
    """Draw risk against sampling time plus compilation; None if no setting is a sampler of another library."""
    if not scores.waits or scores.over_time is None:
        return None
    waits = scores.over_time.setting.map(scores.waits).fillna(0.0)
    shifted = scores.over_time.assign(time=scores.over_time.time + waits)
    seconds_by_setting = enumeration(
        [f"{label} {number(seconds)} s" for label, seconds in scores.waits.items() if seconds] or ["none"]
    )
    unstated = [label for label in scores.settings if label not in scores.waits]
    missing = f" Not moved, because its compilation is not known: {enumeration(unstated)}." if unstated else ""
    return _curves(
        scores,
        shifted,
        "time",
        title=f"Risk against time with compilation, {scores.target}",
        x_label=f"compilation, and {scores.clock_name} time per chain (s)",
        caption="The same risk, each curve moved right by the compilation that a user of the setting waits for in a "
        f"fresh process before the first step: {seconds_by_setting}. It is the longest of any cell of the setting, in "
        f"{scores.clock_name} seconds, as the times are.{missing}",
    )


def risk_against_data(scores: Scores) -> Figure | None:
    """Draw risk against data points read, the axis that does not depend on the machine; None if no setting counts."""
    if scores.over_data is None or scores.over_data.empty:
        return None
    return _curves(
        scores,
        scores.over_data,
        "datapoints_touched",
        title=f"Risk against data read, {scores.target}",
        x_label="data points touched per chain",
        caption="The same risk against the number of data points read, which is the same on every machine. "
        "A sampler that does not count them has no curve.",
    )


def _curves(scores: Scores, curves: "pd.DataFrame", axis: str, *, title: str, x_label: str, caption: str) -> Figure:
    estimands = scores.estimands[:LARGEST_PANELS]
    figure, axes = _panels(len(estimands))
    for panel, estimand in zip(axes, estimands, strict=True):
        log_axes(panel)
        drawn = curves[curves.estimand == estimand]
        lowest = _lowest(drawn, ("risk",))
        _bands(panel, drawn, "risk", axis, scores, lowest, estimand)
        _hatch_floor(panel, drawn, lowest)
        panel.set_title(literal(estimand))
        panel.set_xlabel(x_label)
    axes[0].set_ylabel("risk")
    legend_below(figure, axes)
    labels = scores.settings
    if len(drawn_in_full(labels, scores.exact, scores.at_last_budget(estimands[0]))) < len(labels):
        caption += FOLDED
    if len(scores.estimands) > len(estimands):
        caption += f" The first {len(estimands)} of {len(scores.estimands)} estimands."
    caption += f" {BANDS} Hatched, unless far below: the squared standard error of the gold standard."
    return Figure(title, caption, figure, curves.drop(columns=[c for c in curves if c.startswith(("bias", "var"))]))


def bias_and_variance(scores: Scores) -> Figure:
    """Draw the two parts of the risk of the first estimand against time, side by side on one scale."""
    assert scores.over_time is not None
    estimand = scores.estimands[0]
    curves = scores.over_time[scores.over_time.estimand == estimand]
    lowest = _lowest(curves, ("bias_sq", "variance"))
    figure, axes = subplots(1, 2, figsize=(9.6, 4.4), sharex=True, sharey=True)
    for panel, name, heading in zip(axes, ("bias_sq", "variance"), ("bias²", "variance"), strict=True):
        log_axes(panel)
        _bands(panel, curves, name, "time", scores, lowest, estimand)
        panel.set_title(literal(f"{heading} of {estimand}"))
        panel.set_xlabel(f"{scores.clock_name} time per chain (s)")
    _hatch_floor(axes[0], curves, lowest)
    legend_below(figure, axes)
    caption = (
        "Bias² is an unbiased estimate: the squared mean error, less variance / replicates, less the squared standard "
        "error of the gold standard. It may come out negative, where a log scale cannot show it: such points are left "
        f"out, and the table and the CSV keep them. Bands that reach the lower edge contain zero. {BANDS}"
    )
    return Figure(f"Bias² and variance, {scores.target}", caption, figure, scores.over_time)


def machine_health(records: "pd.DataFrame") -> Figure | None:
    """Draw the speed probes before and after each cell, noisy cells marked, and its CPU / wall-clock seconds.

    Cells are in the order of the plan. None without probes.
    """
    import pandas as pd

    done = records[records.status == "done"].sort_values(["block", "order_in_block"])
    probes = pd.to_numeric(done.probe_before, errors="coerce")
    if not probes.notna().any():
        return None
    after = pd.to_numeric(done.probe_after, errors="coerce")
    noisy = done.noisy.fillna(False).astype(bool).to_numpy()
    ratio = pd.to_numeric(done.cpu_seconds, errors="coerce") / pd.to_numeric(done.wall_seconds, errors="coerce")
    figure, axes = subplots(2, 1, figsize=(9.6, 4.2), sharex=True)
    order = np.arange(len(done))
    axes[0].plot(order, probes, "o", color=COLOURS[0], markersize=4, label="before the cell")
    axes[0].plot(order, after, "x", color=COLOURS[1], markersize=5, label="after the cell")
    axes[0].plot(order[noisy], probes[noisy], "o", mfc="none", color=INK, markersize=9, label="marked noisy")
    axes[0].set_ylabel("speed probe (s)")
    axes[0].set_ylim(0.0, 1.15 * float(np.nanmax([probes.max(), after.max()])))
    axes[0].legend(ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    axes[1].plot(order, ratio, "o", color=COLOURS[2], markersize=4)
    axes[1].axhline(1.0, color=INK, linewidth=0.8, linestyle=":")
    axes[1].set_ylim(0.0, max(1.1, float(np.nanmax(ratio)) * 1.05))
    axes[1].set_ylabel("CPU / wall")
    axes[1].set_xlabel("cell, in the order of the run")
    data = pd.DataFrame(
        {
            "cell": done.key.to_numpy(),
            "block": done.block.to_numpy(),
            "probe_before": probes.to_numpy(),
            "probe_after": after.to_numpy(),
            "cpu_per_wall": ratio.to_numpy(),
            "noisy": noisy,
        }
    )
    caption = (
        "Seconds that a fixed piece of work took just before and after each cell, and the share of the wall-clock "
        "time in which the process had a processor. A level line means that the machine was equally fast for early "
        "and late cells."
    )
    return Figure("Speed of the machine during the run", caption, figure, data)


# --- building blocks, also for a study's own figures ---


def _bands(
    panel: "Axes", curves: "pd.DataFrame", name: str, axis: str, scores: Scores, lowest: float, estimand: str
) -> None:
    """Draw one quantity of every setting on log axes, with bands for those of `drawn_in_full`, else a thin line.

    Values that are not positive are left out.
    """
    labels = scores.settings
    in_full = drawn_in_full(labels, scores.exact, scores.at_last_budget(estimand))
    for label, style in style_of(labels, scores.exact).items():
        rows = curves[curves.setting == label]
        if rows.empty:  # this setting does not count data
            continue
        y, lower, upper = (rows[f"{name}{end}"].to_numpy() for end in ("", "_lower", "_upper"))
        if label not in in_full:
            panel.plot(rows[axis], np.where(y > 0.0, y, np.nan), color=style["color"], linewidth=0.7, alpha=0.55)
            continue
        panel.plot(
            rows[axis],
            np.where(y > 0.0, y, np.nan),
            markevery=_marked(y > 0.0),
            markersize=4,
            label=literal(in_full[label]),
            **style,
        )
        bottom = np.maximum(lower, lowest)
        top = np.where(upper > lowest, upper, np.nan)
        panel.fill_between(rows[axis], bottom, top, color=style["color"], alpha=0.13, linewidth=0)
    panel.set_ylim(bottom=lowest)


def _marked(drawn: np.ndarray) -> list[int]:
    """Return the indices of points that get a marker: every fourth that is drawn, and points without a neighbour."""
    alone = drawn & ~np.append(drawn[1:], False) & ~np.append(False, drawn[:-1])
    return [int(index) for index in np.flatnonzero(alone | (drawn & (np.cumsum(drawn) % 4 == 1)))]


def _hatch_floor(panel: "Axes", curves: "pd.DataFrame", lowest: float) -> None:
    floor = float(curves.floor.max())
    if floor > lowest:
        panel.axhspan(lowest, floor, facecolor="none", edgecolor=INK, hatch="////", alpha=0.3, linewidth=0)
        panel.axhline(floor, color=INK, linewidth=0.8, alpha=0.6)


def _lowest(curves: "pd.DataFrame", names: Sequence[str]) -> float:
    """Return the lower end of a log axis: below all positive values, and below a floor that is near."""
    values = np.concatenate([curves[name].to_numpy() for name in names])
    values = values[np.isfinite(values) & (values > 0.0)]
    least = float(10.0 ** np.floor(np.log10(values.min()))) if values.size else 1e-12
    floor = float(curves.floor.max())
    return min(least, floor / 3.0) if floor > FARTHEST_FLOOR * least else least


def log_axes(panel: "Axes", *, x: bool = True, y: bool = True) -> None:
    """Put axes on a log scale, with powers of ten in plain characters; a short axis also shows 2 and 5 times them."""
    from matplotlib.ticker import FuncFormatter

    for is_log, axis, set_scale in ((x, panel.xaxis, panel.set_xscale), (y, panel.yaxis, panel.set_yscale)):
        if is_log:
            set_scale("log")
            axis.set_major_formatter(FuncFormatter(_tick))
            axis.set_minor_formatter(FuncFormatter(functools.partial(_minor_tick, axis)))


def _minor_tick(axis: "Axis", value: float, position: int) -> str:
    low, high = axis.get_view_interval()
    digits = f"{value:.5e}".split("e")[0].rstrip("0").rstrip(".")
    # If fewer than two of 2, 3, ..., 9 are in view, matplotlib sets ticks in even steps, and there is room for all
    # labels.
    return _tick(value, position) if high < SHORT_AXIS * low and (digits in "25" or len(digits) > 1) else ""


def _tick(value: float, _: int) -> str:
    if not (np.isfinite(value) and value > 0):
        return ""
    digits, exponent = f"{value:.5e}".split("e")
    if -2 <= int(exponent) <= 3:
        return f"{value:g}"
    digits = digits.rstrip("0").rstrip(".")
    return ("" if digits == "1" else f"{digits}×") + power_of_ten(int(exponent))


def _panels(count: int) -> tuple[Any, list["Axes"]]:
    columns = min(count, 2)
    rows = math.ceil(count / columns)
    figure, grid = subplots(rows, columns, figsize=(9.6, 0.7 + 4.3 * rows), squeeze=False)
    axes = list(grid.ravel())
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def legend_below(figure: Any, axes: Sequence["Axes"]) -> None:
    """Put one legend for all panels below the figure."""
    handles, labels = axes[0].get_legend_handles_labels()
    columns = max(1, min(len(labels), 100 // max(map(len, labels), default=1)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
