"""Headings and cells of a table as a reader sees them: the page, the documentation and LaTeX print these."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from approxmcmc.study.record import cause
from approxmcmc.study.report.families import family
from approxmcmc.study.report.pieces import Table
from approxmcmc.study.report.wording import estimate, number


def table_view(piece: Table, worded: Callable[[str], str] = str) -> dict[str, Any]:
    """Return headings and cells of a table as they are shown: an estimate and its interval share one cell.

    `worded` replaces labels by names. A column without any entry is left out. A column of settings, such as 0.05 and
    0.1, has no trailing zeros.
    """
    present = list(piece.data.columns)
    ends = {f"{base}{end}" for base in present for end in ("_lower", "_upper")}
    records = piece.data.to_dict("records")
    names = [name for name in present if name not in ends and any(_has_entry(record[name]) for record in records)]
    formats = {name: "g" for name in names if f"{name}_lower" not in present and _are_settings(piece.data[name])}
    formats |= piece.formats
    columns = [
        {
            "heading": piece.headings.get(name, str(name).replace("_", " ")),
            "numeric": any(_is_number(record[name]) for record in records) and formats.get(name) != "code",
        }
        for name in names
    ]
    rows = [[_cell(record, name, formats, worded) for name in names] for record in records]
    return {"columns": columns, "rows": rows, "families": _families(records)}


def _families(records: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Return a text for each row, equal for rows that the page folds together; "" if no rows are folded."""
    settings = [str(record.get("setting", "")) for record in records]
    if len(set(map(family, settings))) == len(set(settings)):
        return [""] * len(records)
    return [
        "|".join([family(setting), *(str(record.get(name, "")) for name in ("target", "estimand", "time"))])
        for setting, record in zip(settings, records, strict=True)
    ]


def _cell(
    record: Mapping[Any, Any], name: str, formats: Mapping[str, str], worded: Callable[[str], str]
) -> dict[str, Any]:
    value = record[name]
    spec = formats.get(name, "")
    cell: dict[str, Any] = {
        "text": "",
        "interval": "",
        "sort": None,
        "numeric": False,
        "code": spec == "code",
        "long": "",
    }
    if _is_number(value):
        missing = math.isnan(float(value))
        cell.update(numeric=True, sort="" if missing else repr(float(value)))
        if f"{name}_lower" in record:
            lower = float(record[f"{name}_lower"])
            upper = float(record[f"{name}_upper"])
            cell["text"], cell["interval"] = estimate(float(value), lower, upper, spec)
        else:
            cell["text"] = number(value, spec)
    elif value is not None:
        text = str(value)
        if "\n" in text.strip():
            cell.update(text=cause(text), long=text)
        else:
            cell["text"] = text if cell["code"] else worded(text)
    return cell


def _has_entry(value: Any) -> bool:
    return value not in ("", None) and not (isinstance(value, float) and math.isnan(value))


def _are_settings(column: Any) -> bool:
    """Return whether all entries are numbers of at most two digits, small enough to be written without a power."""
    return all(_is_number(x) and (x == 0 or 1e-4 <= abs(x) < 100) and float(f"{x:.2g}") == x for x in column)


def _is_number(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
