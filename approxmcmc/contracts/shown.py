"""How objects show themselves in a notebook: a small table of plain HTML, in the notebook's own colours."""

import reprlib
from collections.abc import Mapping
from html import escape
from typing import Any

_SHORT = reprlib.Repr(maxstring=60, maxother=120, maxlist=8, maxtuple=8)


class Plain(str):
    """Text shown in a table without quotes, in full."""

    __slots__ = ()


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """Return a table with a caption; a value with its own HTML is inserted as HTML, all others as text.

    Examples
    --------
    >>> html_table("RandomWalk", {"scale": 0.1}).count("<tr>")
    1
    """
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{_cell(value)}</td></tr>'
        for name, value in rows.items()
    )
    caption = f'<caption style="text-align: left; font-weight: bold">{escape(title)}</caption>'
    return f"<table>{caption}<tbody>{cells}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, Plain):
        return escape(value)
    shows_itself = getattr(value, "_repr_html_", None)
    return str(shows_itself()) if shows_itself is not None else escape(_SHORT.repr(value))
