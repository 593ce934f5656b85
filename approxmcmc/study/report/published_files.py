"""Pack the results of a study into three files that ship with the package: numbers, text and pictures.

``NAME.csv.gz`` is one table with the rows of all tables and pictures: the first column names the piece that a row
belongs to, and a row has the columns of that piece; the rows ``risk`` are the risks at each budget, ``risk over time``
and ``risk over data`` the curves. ``NAME.json`` holds sections, captions, headings, and the provenance of the numbers.
``NAME.pictures.gz`` holds the pictures of the study's own analyses as SVG, by title. Figures of the risk are drawn from
their tables, see :mod:`approxmcmc.study.report.drawn_page`.
"""

import gzip
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.svg import rounded, svg_document
from approxmcmc.study.report.wording import LIST, naming

if TYPE_CHECKING:
    import pandas as pd

RISK = "risk"  # the piece with the risks at each budget
CURVES = {"over_time": "risk over time", "over_data": "risk over data"}  # the pieces with the curves
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


def packed(
    sections: Sequence[Section], tables: Mapping[str, "pd.DataFrame"]
) -> "tuple[list[dict[str, Any]], pd.DataFrame, dict[str, str]]":
    """Return the text of the sections as dicts, one table with the rows of all pieces, and the pictures by title.

    `tables` are further pieces by title, such as the risks.
    """
    import pandas as pd

    frames = [table.assign(piece=title) for title, table in tables.items()]
    pictures: dict[str, str] = {}
    words = []
    for section in sections:
        pieces: list[dict[str, Any]] = []
        for piece in section.pieces:
            common: dict[str, Any] = {"kind": type(piece).__name__, "title": piece.title, "caption": piece.caption}
            columns = list(map(str, piece.data.columns))
            if isinstance(piece, Figure):
                pictures[piece.title] = rounded(svg_document(piece.figure))
            elif isinstance(piece, Table):
                common |= {"headings": dict(piece.headings), "formats": dict(piece.formats)}
            pieces.append({**common, "columns": columns})
            frames.append(piece.data.set_axis(columns, axis=1).assign(piece=piece.title))
        head = {"title": section.title, "text": section.text, "terms": section.terms, "commands": section.commands}
        words.append({**head, "pieces": pieces})
    table = pd.concat([frame.astype(object) for frame in frames if len(frame)], ignore_index=True)
    return words, table[["piece", *(name for name in table if name != "piece")]], pictures


def unpacked(words: Sequence[Mapping[str, Any]], table: "pd.DataFrame", pictures: Mapping[str, str]) -> list[Section]:
    """Rebuild the sections from what :func:`packed` returned."""
    return [
        Section(
            section["title"],
            tuple(section["text"]),
            tuple((str(term), str(meaning)) for term, meaning in section["terms"]),
            tuple(_piece(piece, table, pictures) for piece in section["pieces"]),
            tuple(section["commands"]),
        )
        for section in words
    ]


def _piece(words: Mapping[str, Any], table: "pd.DataFrame", pictures: Mapping[str, str]) -> Figure | Table:
    data = rows_of(table, words["title"], words["columns"])
    if words["kind"] == "Figure":
        return Figure(words["title"], words["caption"], pictures[words["title"]], data)
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


def in_words(words: Mapping[str, Any], table: "pd.DataFrame") -> Callable[[str], str]:
    """Return a function of a text that replaces labels of settings and data sets by the names of the study."""
    columns = [name for name in NAMING if name in table]
    labels = {part for name in columns for cell in set(table[name]) for part in LIST.split(cell)}
    return naming(filter(CODE.fullmatch, labels), words.get("names") or {})


def to_bytes(table: "pd.DataFrame") -> bytes:
    """Return a table as compressed CSV, the same bytes for the same table."""
    return _compressed(table.to_csv(index=False, float_format=DIGITS, lineterminator="\n"))


def from_bytes(content: bytes) -> "pd.DataFrame":
    """Return the table in these bytes, with all cells as text."""
    import pandas as pd

    return pd.read_csv(io.StringIO(_uncompressed(content)), dtype=str, keep_default_na=False)


def pictures_to_bytes(pictures: Mapping[str, str]) -> bytes:
    """Return pictures by title as compressed JSON, the same bytes for the same pictures."""
    return _compressed(json.dumps(dict(pictures), ensure_ascii=False, sort_keys=True))


def pictures_from_bytes(content: bytes) -> dict[str, str]:
    """Return the pictures in these bytes."""
    pictures = json.loads(_uncompressed(content))
    if not isinstance(pictures, dict) or not all(isinstance(picture, str) for picture in pictures.values()):
        raise ValueError("its pictures are not texts by title")
    return pictures


def _compressed(text: str) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        file.write(text.encode())
    return buffer.getvalue()


def _uncompressed(content: bytes) -> str:
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST / 1e6:.0f} MB")
    return text.decode()


def words_to_text(words: Mapping[str, Any]) -> str:
    """Return the text of a page as JSON, with each piece of a section on one line."""
    held: list[str] = []

    def aside(piece: Mapping[str, Any]) -> str:
        held.append(json.dumps(piece, ensure_ascii=False, allow_nan=False))
        return f"piece {len(held) - 1}"

    sections = [{**section, "pieces": list(map(aside, section["pieces"]))} for section in words["sections"]]
    text = json.dumps({**words, "sections": sections}, ensure_ascii=False, indent=1, allow_nan=False)
    return re.sub(r'"piece (\d+)"', lambda match: held[int(match[1])], text) + "\n"
