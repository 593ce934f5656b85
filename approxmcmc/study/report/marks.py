"""Convert a picture to a table of what it draws, and draw it again from that table.

The package ships a picture as its marks. A mark is a line, points, segments, the outline of an area, or a text. Its
positions are rows of a table: ``x`` and ``y`` in data units, and the name of the series. Panels, scales and styles are
stored as text.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report.svg import INK, styled, subplots

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

MOST_POINTS = 500  # most points stored of a line; a screen shows fewer
DIGITS = 4  # digits stored, relative to the length of an axis; on a log scale significant digits
DRAWN_ABOVE = 2.0  # zorder


# --- from a picture to its table ---


def marks_of(figure: Any) -> "tuple[dict[str, Any], pd.DataFrame]":
    """Return a picture as a dict, and a table of the positions of its marks.

    The dict holds size, panels and legends, and under ``"marks"`` the kind and style of each mark. The columns of the
    table are ``mark`` (index into that list), ``series``, and ``x`` and ``y`` in data units.

    Parameters
    ----------
    figure
        It may hold lines, error bars, filled curves, bars, scattered points, contours and texts, but no image.

    Raises
    ------
    TypeError
        If an axes holds an image.
    """
    import pandas as pd

    figure.draw_without_rendering()  # type: ignore[no-untyped-call]
    width, height = figure.get_size_inches()
    words: dict[str, Any] = {"size": [round(float(width), 2), round(float(height), 2)]}
    words |= {"panels": [_panel(axes) for axes in figure.axes], "marks": [], "legends": list(_legends(figure))}
    frames = []
    for number, axes in enumerate(figure.axes):
        scales = [words["panels"][number][name] for name in "xy"]
        for style, places in _marks(axes):
            label = style.pop("series")
            x, y = (_rounded(column, scale) for column, scale in zip(_thin(places).T, scales, strict=True))
            frames.append(pd.DataFrame({"mark": len(words["marks"]), "series": label, "x": x, "y": y}))
            words["marks"].append({"panel": number, **style})
    return words, pd.concat(frames, ignore_index=True)


def _panel(axes: "Axes") -> dict[str, Any]:
    shown = axes.axison
    return {
        "box": [round(float(end), 4) for end in axes.get_position().bounds],
        "title": axes.get_title() or axes.get_title(loc="left"),
        "bare": not shown,
        "grid": [bool(axis.get_gridlines()[0].get_visible()) if shown else False for axis in (axes.xaxis, axes.yaxis)],
        "x": _scale(axes.xaxis, axes.get_xlim()),
        "y": _scale(axes.yaxis, axes.get_ylim()),
    }


def _scale(axis: Any, limits: tuple[float, float]) -> dict[str, Any]:
    labels = [tick.get_text() for tick in axis.get_majorticklabels() if tick.get_visible()]
    places = [float(place) for place in axis.get_majorticklocs()]
    worded = any(_number(label) is None for label in labels if label)
    return {
        "label": axis.get_label().get_text(),
        "scale": axis.get_scale(),
        "limits": [float(f"{end:.6g}") for end in limits],
        "ticks": [[place, label] for place, label in zip(places, labels, strict=False)] if worded else None,
        "labelled": any(labels),
    }


def _number(label: str) -> float | None:
    plain = label.replace("\N{MINUS SIGN}", "-").replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return 0.0 if "10" in plain and ("mathdefault" in plain or plain[-1] in "⁰¹²³⁴⁵⁶⁷⁸⁹") else None


def _legends(figure: "MatplotlibFigure") -> Iterator[dict[str, Any]]:
    held: list[Any] = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    for legend in filter(None, held):
        box = legend.get_window_extent().transformed(figure.transFigure.inverted())
        texts = legend.get_texts()
        look = {"columns": legend._ncols, "size": texts[0].get_fontsize() if texts else 0}
        yield {"at": [round(box.x0, 4), round(box.y1, 4)], "entries": [text.get_text() for text in texts], **look}


def _marks(axes: Any) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield style and positions of each mark of an axes, in the order in which they are drawn."""
    from matplotlib import collections, image, lines, patches, text

    held: list[Any] = [*axes.collections, *axes.patches, *axes.lines, *axes.texts]
    if axes.images:
        raise TypeError(f"{image.__name__}: an image has no marks; draw its cells as areas")
    boxes = {part: str(box.get_label()) for box in axes.containers for part in box.get_children()}  # bars, error bars
    for artist in sorted((one for one in held if one.get_visible()), key=lambda one: one.get_zorder()):
        label = boxes.get(artist, str(artist.get_label()))
        style = {"series": "" if label.startswith("_") else label, "order": artist.get_zorder()}
        style |= {} if artist.get_alpha() is None else {"alpha": artist.get_alpha()}
        if isinstance(artist, lines.Line2D):
            yield from _line(axes, artist, style)
        elif isinstance(artist, text.Text):
            where = artist.get_transform().transform(artist.get_unitless_position())
            words: dict[str, Any] = {"text": artist.get_text(), "colour": _colour(artist.get_color())}
            words |= {"align": artist.get_horizontalalignment(), "valign": artist.get_verticalalignment()}
            words |= {"size": artist.get_fontsize(), "weight": artist.get_fontweight()}
            if artist.get_text():
                yield style | {"kind": "text"} | words, axes.transData.inverted().transform([where])
        elif isinstance(artist, patches.Patch):
            path = artist.get_transform().transform_path(artist.get_path())
            yield style | {"kind": "area"} | _filling(artist), _in_units(axes, path)
        elif isinstance(artist, collections.PathCollection):
            size = float(np.sqrt(np.mean(artist.get_sizes())))
            face = _colour(artist.get_facecolor()[0]) if len(artist.get_facecolor()) else None
            places = np.asarray(artist.get_offsets())
            yield style | {"kind": "points", "marker": "o", "size": size, "colour": face}, places
        elif isinstance(artist, collections.Collection):
            yield from _collection(axes, artist, style)


def _line(axes: "Axes", line: Any, style: dict[str, Any]) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    path = line.get_transform().transform_path(line.get_path())
    places = _in_units(axes, path)
    colour = _colour(line.get_color())
    if line.get_linestyle() not in ("None", "", " ") and line.get_linewidth() > 0.0:
        dashes = line._unscaled_dash_pattern[1]
        dash = {} if dashes is None else {"dash": [float(part) for part in dashes]}
        yield style | {"kind": "line", "colour": colour, "width": line.get_linewidth()} | dash, places
    if line.get_marker() not in ("None", "", " ", None):
        chosen = line.get_markevery()
        shown = places if not isinstance(chosen, list) else places[chosen]
        hollow = {} if line.get_markerfacecolor() != "none" else {"hollow": True}
        words = {"kind": "points", "marker": line.get_marker(), "size": line.get_markersize(), "colour": colour}
        yield style | words | hollow, shown


def _collection(axes: "Axes", drawn: Any, style: dict[str, Any]) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield the marks of a collection: outlines of filled curves, all segments as one mark, or single lines."""
    paths = [_in_units(axes, drawn.get_transform().transform_path(path)) for path in drawn.get_paths()]
    paths = [path for path in paths if len(path)]
    if len(drawn.get_facecolor()):
        for path in paths:
            yield style | {"kind": "area"} | _filling(drawn), path
        return
    words = {"colour": _colour(drawn.get_edgecolor()[0]), "width": float(drawn.get_linewidth()[0])}
    if paths and all(len(path) == 2 for path in paths):
        yield style | {"kind": "segments"} | words, np.concatenate(paths)
        return
    for path in paths:
        yield style | {"kind": "line"} | words, path


def _filling(artist: Any) -> dict[str, Any]:
    faces, edges = (np.atleast_2d(colours) for colours in (artist.get_facecolor(), artist.get_edgecolor()))
    face = _colour(faces[0]) if faces.size and faces[0][3] > 0.0 else None
    edge = _colour(edges[0]) if edges.size and edges[0][3] > 0.0 else None
    alpha = {"alpha": round(float(faces[0][3]), 3)} if face and faces[0][3] < 1.0 else {}
    width = float(np.atleast_1d(artist.get_linewidth())[0])
    hatch = {"hatch": artist.get_hatch()} if artist.get_hatch() else {}
    return {"colour": face, "edge": edge if width else None, "width": width} | alpha | hatch


def _colour(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(colour)


def _in_units(axes: "Axes", path: Any) -> np.ndarray:
    """Return the corners of a path, given in screen units, in data units of the axes; a curve becomes a polyline."""
    vertices = path.to_polygons(closed_only=False)
    corners = np.concatenate(vertices) if vertices else np.empty((0, 2))
    return np.asarray(axes.transData.inverted().transform(corners))


def _thin(places: np.ndarray) -> np.ndarray:
    return places if len(places) <= MOST_POINTS else places[:: -(-len(places) // MOST_POINTS)]


def _rounded(column: np.ndarray, scale: dict[str, Any]) -> np.ndarray:
    if scale["scale"] == "log":
        return np.array([float(f"{value:.{DIGITS}g}") for value in column])
    length = abs(scale["limits"][1] - scale["limits"][0]) or 1.0
    return np.round(column, DIGITS - int(np.floor(np.log10(length))) - 1) + 0.0  # adding 0.0 removes the sign of a zero


# --- from a table to its picture ---


def drawn(words: dict[str, Any], data: "pd.DataFrame", worded: Callable[[str], str] = str) -> Any:
    """Return the figure drawn from what :func:`marks_of` returned; its legends have the names that `worded` returns."""
    with styled():
        return _drawn(words, data, worded)


def _drawn(words: dict[str, Any], data: "pd.DataFrame", worded: Callable[[str], str]) -> Any:
    from approxmcmc.study.report.figures import log_axes

    figure, spare = subplots(figsize=tuple(words["size"]))
    spare.remove()
    figure.set_layout_engine("none")
    panels = [figure.add_axes(tuple(panel["box"])) for panel in words["panels"]]
    handles: dict[str, list[Artist]] = {}
    for number, rows in data.groupby("mark"):
        mark = words["marks"][int(number)]
        label = str(rows["series"].iloc[0] or "")
        artist = KINDS[mark["kind"]](panels[mark["panel"]], rows[["x", "y"]].to_numpy(dtype=float), mark)
        artist.set_label(label or "_")
        handles.setdefault(label, []).append(artist)
    for axes, panel in zip(panels, words["panels"], strict=True):
        log_axes(axes, x=panel["x"]["scale"] == "log", y=panel["y"]["scale"] == "log")
        _furnish(axes, panel)
    for legend in words["legends"]:
        known = [name for name in legend["entries"] if name in handles]
        _add_legend(figure, {worded(name): tuple(handles[name][:2]) for name in known}, legend)
    return figure


def _add_legend(figure: Any, samples: dict[str, Any], legend: dict[str, Any]) -> None:
    """Add a legend at its place; if it is wider than the picture, in fewer columns."""
    look = {"loc": "upper left", "borderaxespad": 0.0, "fontsize": legend["size"]}
    for columns in range(legend["columns"], 0, -1):
        added = figure.legend(samples.values(), samples, ncols=columns, **look)
        room = 1.0 - added.get_window_extent().width / figure.bbox.width
        if room >= 0.0 or columns == 1:
            place = max(0.0, min(legend["at"][0], room)), legend["at"][1]
            added.set_bbox_to_anchor(place, figure.transSubfigure)
            return
        added.remove()


def _furnish(axes: Any, panel: dict[str, Any]) -> None:
    axes.set_title(panel["title"])
    axes.set(xlim=panel["x"]["limits"], ylim=panel["y"]["limits"])
    for name, axis, own in (("x", axes.xaxis, panel["grid"][0]), ("y", axes.yaxis, panel["grid"][1])):
        scale = panel[name]
        axis.set_label_text(scale["label"])
        if scale["ticks"] is not None:
            axis.set_ticks([place for place, _ in scale["ticks"]], [label for _, label in scale["ticks"]])
            axis.set_ticks([], minor=True)
        axes.tick_params(axis=name, which="both", labelleft=scale["labelled"], labelbottom=scale["labelled"])
        axis.grid(visible=own)
    if panel["bare"]:
        axes.set_axis_off()


def _style(mark: dict[str, Any]) -> dict[str, Any]:
    return {"alpha": mark.get("alpha"), "zorder": mark.get("order", DRAWN_ABOVE)}


def _draw_line(axes: "Axes", places: np.ndarray, mark: dict[str, Any]) -> "Artist":
    dash = (0, mark["dash"]) if mark.get("dash") else "-"
    style = {"color": mark["colour"], "linewidth": mark["width"], "linestyle": dash}
    return axes.plot(*places.T, **style, **_style(mark))[0]


def _draw_points(axes: "Axes", places: np.ndarray, mark: dict[str, Any]) -> "Artist":
    face = "none" if mark.get("hollow") else mark["colour"]
    style = {"marker": mark["marker"], "markersize": mark["size"], "color": mark["colour"], "markerfacecolor": face}
    return axes.plot(*places.T, linestyle="none", **style, **_style(mark))[0]


def _draw_segments(axes: "Axes", places: np.ndarray, mark: dict[str, Any]) -> "Artist":
    from matplotlib.collections import LineCollection

    look = {"colors": mark["colour"], "linewidths": mark["width"], **_style(mark)}
    return axes.add_collection(LineCollection(list(places.reshape(-1, 2, 2)), **look))


def _draw_area(axes: "Axes", places: np.ndarray, mark: dict[str, Any]) -> "Artist":
    from matplotlib.patches import Polygon

    look = {"facecolor": mark.get("colour") or "none", "edgecolor": mark.get("edge") or "none"}
    patch = Polygon(places, closed=True, linewidth=mark["width"], hatch=mark.get("hatch"), **look, **_style(mark))
    return axes.add_patch(patch)


def _draw_text(axes: Any, places: np.ndarray, mark: dict[str, Any]) -> "Artist":
    look = {"ha": mark["align"], "va": mark["valign"], "fontsize": mark["size"], "color": mark.get("colour", INK)}
    look |= {"rotation": mark.get("angle", 0.0)}
    return axes.text(*places[0], mark["text"], fontweight=mark.get("weight", "normal"), **look, **_style(mark))


KINDS = {
    "line": _draw_line,
    "points": _draw_points,
    "segments": _draw_segments,
    "area": _draw_area,
    "text": _draw_text,
}
