"""One figure whose reader chooses posterior, estimand, quantity, axis and samplers; the pointer shows the interval.

Bokeh draws it inside the page, so the page needs no network. The curves are a tidy table, as those of any other figure.
They reach the page as numbers and texts in JSON, and the page shows the texts as texts: a name is never read as HTML.
Without Bokeh the page has its pictures alone.
"""

import importlib.resources
import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report.figures import style_of
from approxmcmc.study.report.pieces import Explorer
from approxmcmc.study.report.scores import Scores, unit_of
from approxmcmc.study.report.svg import INK

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Explore the curves"
MOST_CURVES = 600  # of 30 points with nine numbers each: about a megabyte of the page
DIGITS = 4  # of a number on the page; its picture shows fewer
LINE_WIDTH = 2.0
LEAST_POWER = 4  # a tick of 10 to the third is 1000
ENDS = ("", "_lower", "_upper")
HEIGHT = 440  # of the drawing, in pixels
QUANTITIES = (  # heading, column, whether its root is drawn
    ("typical error (root of the risk)", "risk", True),
    ("risk", "risk", False),
    ("bias²", "bias_sq", False),
    ("variance", "variance", False),
)
CAPTION = (
    "Choose what is drawn; point at a curve to read its value and 95 % interval. Bands: the intervals, from five "
    "replicates on. Dashed: the error of the gold standard. Values that are not positive are left out. The figures "
    "below draw the same curves; the tables also hold times before a curve begins."
)


def explorer(scores: Sequence[Scores]) -> Explorer | None:
    """Return the figure of all curves over time and data; None if there are no curves, or no Bokeh."""
    drawn = [score for score in scores if score.over_time is not None and len(score.over_time)]
    if not drawn or importlib.util.find_spec("bokeh") is None:
        return None
    shown = max(1, MOST_CURVES // sum(2 * len(score.settings) for score in drawn))
    caption = CAPTION
    most = max(len(score.estimands) for score in drawn)
    if most > shown:
        caption += f" The first {shown} of {most} estimands."
    settings = dict.fromkeys(name for score in drawn for name in score.settings)
    exact = next((score.exact for score in drawn if score.exact is not None), None)
    styles = style_of(list(settings), exact)
    return Explorer(TITLE, caption, _table(drawn, shown), {name: styles[name] for name in settings})


def _table(scores: Sequence[Scores], shown: int) -> "pd.DataFrame":
    """Return a row for each point: target, axis, estimand, setting, ``at``, and the quantities with their ends."""
    import pandas as pd

    parts = []
    for score in scores:
        estimands = score.estimands[:shown]
        for axis, curves, column, waits in _axes(score):
            kept = curves[curves.estimand.isin(estimands)]
            at = kept[column] + (kept.setting.map(waits).fillna(0.0) if waits else 0.0)
            parts.append(kept.drop(columns=column).assign(target=score.target, axis=axis, at=at))
    table = pd.concat(parts, ignore_index=True)
    first = ["target", "axis", "estimand", "setting", "at"]
    return table[[*first, *(name for name in table if name not in first)]]


def _axes(score: Scores) -> list[tuple[str, "pd.DataFrame", str, dict[str, float]]]:
    """Return the axes of a target: label, curves, their column, and seconds to add by setting."""
    assert score.over_time is not None
    clock = f"{score.clock_name} time per chain (s)"
    axes: list[tuple[str, pd.DataFrame, str, dict[str, float]]] = [(clock, score.over_time, "time", {})]
    if score.waits:
        axes.append((f"compilation, and {clock}", score.over_time, "time", dict(score.waits)))
    if score.over_data is not None and len(score.over_data):
        axes.append(("data points touched per chain", score.over_data, "datapoints_touched", {}))
    return axes


# --- on the page ---


def library() -> str:
    """Return the script of Bokeh that draws, in the version that made the models."""
    from bokeh.resources import Resources

    return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)


def script() -> str:
    """Return the script that fills the drawing with the curves that the reader chooses."""
    return (importlib.resources.files("approxmcmc.study.report") / "explorer.js").read_text(encoding="utf-8")


def content(piece: Explorer) -> str:
    """Return the drawing and its curves as JSON that is safe inside a ``script`` element."""
    from bokeh.embed import json_item

    quantities = [{"heading": heading, "column": column, "root": root} for heading, column, root in QUANTITIES]
    parts = {
        "drawing": json_item(_drawing(piece)),
        "settings": [{"name": name, "colour": style["color"]} for name, style in piece.styles.items()],
        "quantities": quantities,
        "targets": _targets(piece),
    }
    text = json.dumps(parts, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":  # no text can end the element, or begin a comment
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _targets(piece: Explorer) -> list[dict[str, Any]]:
    """Return the curves of each target by axis and estimand, in lists: a name is never the key of an object."""
    numbers = {name: index for index, name in enumerate(piece.styles)}
    columns = list(dict.fromkeys(column for _, column, _ in QUANTITIES))
    targets = []
    for target, rows in piece.data.groupby("target", sort=False):
        axes = []
        for axis, on_axis in rows.groupby("axis", sort=False):
            estimands = []
            for estimand, curves in on_axis.groupby("estimand", sort=False):
                listed = [
                    {"setting": numbers[str(setting)], "at": _numbers(curve["at"])}
                    | {f"{column}{end}": _numbers(curve[f"{column}{end}"]) for column in columns for end in ENDS}
                    for setting, curve in curves.groupby("setting", sort=False)
                ]
                [floor] = _numbers([curves["floor"].max()])
                unit = unit_of(str(estimand))
                estimands.append({"name": str(estimand), "unit": unit, "floor": floor, "curves": listed})
            axes.append({"name": str(axis), "estimands": estimands})
        targets.append({"name": str(target), "axes": axes})
    return targets


def _numbers(column: Any) -> list[float | None]:
    """Return numbers with few digits; None, which JSON has, for those that are not finite."""
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in map(float, column)]


def _drawing(piece: Explorer) -> Any:
    """Return a drawing of Bokeh without data: a band, a line and points for each setting, and a level for the floor.

    Its texts are those of this file: Bokeh reads a title or label between dollar signs as mathematics.
    """
    from bokeh.models import BoxZoomTool, HoverTool, ResetTool, SaveTool
    from bokeh.models.annotations.geometry import Span
    from bokeh.plotting import figure

    drawing: Any = figure(
        x_axis_type="log",
        y_axis_type="log",
        height=HEIGHT,
        sizing_mode="stretch_width",
        tools=[BoxZoomTool(), ResetTool(), SaveTool()],
        toolbar_location="above",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        name="drawing",
    )
    drawing.toolbar.logo = None
    drawing.toolbar.active_drag = None  # a finger on the drawing scrolls the page
    for axis in (*drawing.xaxis, *drawing.yaxis):
        axis.update(axis_label_text_font_style="normal", axis_label_text_color=INK, major_label_text_color=INK)
        axis.update(axis_line_color=INK, major_tick_line_color=INK, minor_tick_line_color=INK)
        axis.update(axis_label_text_font_size="13px", major_label_text_font_size="12px")
        axis.formatter.min_exponent = LEAST_POWER
    for grid in drawing.grid:
        grid.update(grid_line_color=INK, grid_line_alpha=0.13)
    pointed = [
        glyph for index, style in enumerate(piece.styles.values()) for glyph in _empty_curve(drawing, index, style)
    ]
    tooltips = [("", "@name"), ("", "@value"), ("", "at @where")]  # Bokeh escapes what it puts for a column
    drawing.add_tools(HoverTool(tooltips=tooltips, mode="mouse", renderers=pointed))
    level = Span(location=0.0, dimension="width", line_color=INK, line_dash="dashed", line_alpha=0.6, name="floor")
    drawing.add_layout(level)
    return drawing


def _empty_curve(drawing: Any, index: int, style: Mapping[str, Any]) -> list[Any]:
    """Add band, line and points of a setting, which the script fills; return those that the pointer finds."""
    from bokeh.models import ColumnDataSource

    empty: dict[str, list[Any]] = {name: [] for name in ("at", "y", "lower", "upper", "name", "value", "where")}
    source = ColumnDataSource(empty, name=f"curve {index}")
    colour = style["color"]
    dash = [] if style["linestyle"] == "-" else [round(2 * length) for length in style["linestyle"][1]]
    width = style.get("linewidth", LINE_WIDTH)
    drawing.varea("at", "lower", "upper", source=source, fill_color=colour, fill_alpha=0.13, name=f"band {index}")
    line = drawing.line("at", "y", source=source, color=colour, line_width=width, line_dash=dash, name=f"line {index}")
    points = drawing.scatter("at", "y", source=source, color=colour, size=4, name=f"points {index}")
    return [line, points]
