"""Pack the results of a study into two files that ship with the package: one of numbers, one of text.

``NAME.csv.gz`` is one table with the rows of all tables and pictures: the first column names the piece that a row
belongs to, and a row has the columns of that piece; the rows ``risk`` are the risks at each budget. ``NAME.json`` holds
sections, captions, headings, styles of pictures, and the provenance of the numbers. Pages are drawn from the two files,
see :mod:`approxmcmc.study.report.drawn_page`.
"""

import gzip
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from approxmcmc.study.report.marks import drawn, marks_of
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.wording import setting_in_words

if TYPE_CHECKING:
    import pandas as pd

RISK = "risk"  # the piece with the risks at each budget
DIGITS = "%.7g"
LARGEST = 100_000_000  # bytes of a table: a small compressed file can claim any number
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan")
CODE = re.compile(r"[a-z]\w*(\[.+=.+\])?")
NAMING = (
    "series",
    "setting",
    "sampler",
    "winner",
    "no less",
    "label",
    "target",
    "data",
    "estimand",
    "statistic",
    "gate",
)


def packed(sections: Sequence[Section], risks: "pd.DataFrame | None") -> "tuple[list[dict[str, Any]], pd.DataFrame]":
    """Return the text of the sections as dicts, and one table with the rows of all pieces and of the risks."""
    import pandas as pd

    frames = [] if risks is None else [risks.assign(piece=RISK)]
    words = []
    for section in sections:
        told = []
        for piece in section.pieces:
            common = {"kind": type(piece).__name__, "title": piece.title, "caption": piece.caption}
            if isinstance(piece, Figure):
                picture, data = piece.marks or marks_of(piece.figure)
                told.append({**common, "picture": picture})
            else:
                data = piece.data
                told.append({**common, "headings": dict(piece.headings), "formats": dict(piece.formats)})
            told[-1]["columns"] = list(map(str, data.columns))
            frames.append(data.set_axis(told[-1]["columns"], axis=1).assign(piece=piece.title))
        kept = {"title": section.title, "text": section.text, "terms": section.terms, "commands": section.commands}
        words.append({**kept, "pieces": told})
    table = pd.concat([frame.astype(object) for frame in frames if len(frame)], ignore_index=True)
    return words, table[["piece", *(name for name in table if name != "piece")]]


def unpacked(words: Sequence[Mapping[str, Any]], table: "pd.DataFrame") -> list[Section]:
    """Rebuild the sections from the text and the table that :func:`packed` returned; pictures are drawn again."""
    return [
        Section(
            section["title"],
            tuple(section["text"]),
            tuple((str(term), str(meaning)) for term, meaning in section["terms"]),
            tuple(_piece(piece, table) for piece in section["pieces"]),
            tuple(section["commands"]),
        )
        for section in words
    ]


def _piece(words: Mapping[str, Any], table: "pd.DataFrame") -> Figure | Table:
    data = rows_of(table, words["title"], words["columns"])
    if words["kind"] == "Figure":
        return Figure(words["title"], words["caption"], drawn(words["picture"], data, in_words(table)), data)
    return Table(words["title"], words["caption"], data, words["headings"], words["formats"])


def rows_of(table: "pd.DataFrame", piece: str, columns: Sequence[str] | None = None) -> "pd.DataFrame":
    """Return the rows of one piece with these columns (None: those with an entry), text converted back to numbers."""
    rows = table[table["piece"] == piece].drop(columns="piece")
    kept = [name for name in rows if (rows[name] != "").any()] if columns is None else list(columns)
    return rows.reindex(columns=kept, fill_value="").apply(_values).reset_index(drop=True)


def _values(column: "pd.Series[str]") -> Any:
    """Return a column of text as numbers: as a whole if all cells are numbers, otherwise cell by cell."""
    import pandas as pd

    numeric = column.str.fullmatch(NUMBER)
    if (numeric | (column == "")).all():
        return pd.to_numeric(column)
    cells = zip(column, numeric, strict=True)
    return pd.Series([float(text) if number else text or None for text, number in cells], column.index, dtype=object)


def in_words(table: "pd.DataFrame") -> Callable[[str], str]:
    """Return a function of a text that replaces code names of settings and data sets by words."""
    columns = [name for name in NAMING if name in table]
    names = {part for name in columns for cell in set(table[name]) for part in re.split(r", (?![^\[]*\])", cell)}
    words = {name: setting_in_words(name) for name in sorted(names, key=len, reverse=True) if CODE.fullmatch(name)}
    spelled: dict[str, str] = {}
    for name in (name for name, told in words.items() if told != name):
        spelled |= dict.fromkeys((re.sub(r"([_\[\]])", r"\\\1", name), escape(name), name), words[name])
    pattern = re.compile(r"(?<![\w/])(" + "|".join(map(re.escape, spelled)) + r")(?![\w\[]|\.\w)") if spelled else None
    return lambda text: pattern.sub(lambda found: spelled[found[1]], text) if pattern else text


def to_bytes(table: "pd.DataFrame") -> bytes:
    """Return a table as compressed CSV, the same bytes for the same table."""
    text = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        file.write(text.encode())
    return buffer.getvalue()


def from_bytes(content: bytes) -> "pd.DataFrame":
    """Return the table in these bytes, with all cells as text."""
    import pandas as pd

    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"its table has more than {LARGEST / 1e6:.0f} MB")
    return pd.read_csv(io.BytesIO(text), dtype=str, keep_default_na=False)


def words_to_text(words: Mapping[str, Any]) -> str:
    """Return the text of a page as JSON, with each piece of a section on one line."""
    held: list[str] = []

    def aside(piece: Mapping[str, Any]) -> str:
        held.append(json.dumps(piece, ensure_ascii=False, allow_nan=False))
        return f"piece {len(held) - 1}"

    sections = [{**section, "pieces": list(map(aside, section["pieces"]))} for section in words["sections"]]
    text = json.dumps({**words, "sections": sections}, ensure_ascii=False, indent=1, allow_nan=False)
    return re.sub(r'"piece (\d+)"', lambda found: held[int(found[1])], text) + "\n"
