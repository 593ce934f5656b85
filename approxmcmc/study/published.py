"""Results that ship with the package: for each study a table, and the text around it with its provenance."""

import numbers
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypedDict

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.checks import nearest
from approxmcmc.engine.files.checksums import checksum_of
from approxmcmc.errors import StudyError
from approxmcmc.study.json_files import json_object

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "published_results"
# Of the data sets, estimands and gold standards together. A number of one version is not compared with one of another.
VERSION = 1


class PublishedText(TypedDict):
    """The text of a study's results; `table` and `pictures` are the checksums of the other two files."""

    version: int
    study: str
    preset: str
    command: str
    sections: list[Any]
    table: str
    pictures: str


def published_studies() -> list[str]:
    """Return the names of the studies whose results ship."""
    folder = files("approxmcmc.study") / FOLDER
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def read_published(name: str) -> "tuple[dict[str, Any], pd.DataFrame]":
    """Return the text of a study's results with its pictures, and their table with all cells as text.

    The entry ``pictures`` of the text holds the pictures of the study's own analyses as SVG, by title.

    Raises
    ------
    StudyError
        If no results of that name ship, then the message names the nearest; or if their files are damaged.
    """
    from approxmcmc.study.report.published_files import from_bytes, pictures_from_bytes

    names = published_studies()
    if name not in names:
        raise StudyError(f"There are no published results of {nearest(name, names)}")
    folder = files("approxmcmc.study") / FOLDER
    try:
        table = (folder / f"{name}.csv.gz").read_bytes()
        pictures = (folder / f"{name}.pictures.gz").read_bytes()
        stored = (folder / f"{name}.json").read_bytes()
        words = json_object(stored, "study", "table", "pictures", "sections", fields=PublishedText)
        if words["study"] != name:
            raise ValueError(f"they are those of {words['study']}")
        for what, content in (("table", table), ("pictures", pictures)):
            if words.pop(what) != checksum_of(content):
                raise ValueError(f"their {what} are not those that were written with their text")
        return {**words, "pictures": pictures_from_bytes(pictures)}, from_bytes(table)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise StudyError(
            f"The published results of {name} in {folder} are not read: {error}. Install the package again"
        ) from error


@naming_the_arguments
def load_results(name: str, piece: str = "risk") -> "pd.DataFrame":
    """Return published results of a study of this library, as they ship with the package.

    Parameters
    ----------
    name
        Name of the study, such as ``"tall_data"``.
    piece
        Title of a table or picture of its page; ``"risk"`` for the risks at each budget.

    Returns
    -------
    DataFrame
        The rows of the piece. Of the risks, a row for each target, setting, estimand and time (seconds of one chain):
        `risk`, `bias_sq`, `variance`, and the `ratio` of the risk to that of an exact setting, each with the ends of
        its 95 % interval, ``_lower`` and ``_upper``; `floor`, the squared standard error of the gold standard, which is
        subtracted; `replicates` that delivered, of `planned`. A picture has the numbers that it draws. An
        undefined value is NaN. ``frame.attrs`` holds `version` of the suite, `preset`, `command`, `budget`, `reference`
        and `provenance`: code, machine, versions.

    Raises
    ------
    StudyError
        If no results of that name ship, or the page has no such piece; the message names the nearest.

    Examples
    --------
    >>> frame = load_results("tall_data")
    >>> sorted(frame.attrs)
    ['budget', 'command', 'preset', 'provenance', 'reference', 'study', 'version']
    """
    from approxmcmc.study.report.published_files import rows_of

    words, table = read_published(name)
    titles = list(dict.fromkeys(table["piece"]))
    if piece not in titles:
        raise StudyError(f"The results of {name} have no table or picture {nearest(piece, titles)}")
    pieces = [entry for section in words["sections"] for entry in section["pieces"]]
    frame = rows_of(table, piece, next((entry["columns"] for entry in pieces if entry["title"] == piece), None))
    frame.attrs.update({key: words[key] for key in ATTRIBUTES})
    return frame


ATTRIBUTES = ("study", "version", "preset", "reference", "budget", "command", "provenance")


def number_of(name: str, piece: str, where: Sequence[tuple[str, str]], column: str) -> tuple[float, float, float, str]:
    """Return one number of the results of a study, the ends of its interval (NaN for none), and its format.

    Parameters
    ----------
    name, piece
        As in :func:`load_results`.
    where
        Pairs (column, value) that identify the row; the value ``last`` is the largest of its column.
    column
        The column of the number.

    Raises
    ------
    StudyError
        If not exactly one row fits, the column is unknown, or the value is not a number.

    Examples
    --------
    >>> number_of("bounds_gibbs", "Contraction", [("target", "six")], "eta of a sweep")
    (0.898, nan, nan, '')
    """
    frame = load_results(name, piece)
    for key in (*(key for key, _ in where), column):
        if key not in frame:
            raise StudyError(f"{name}, {piece}: there is no column {nearest(key, list(frame))}")
    rows = frame
    for key, value in where:
        entry = f"{rows[key].max():g}" if value == "last" else value
        rows = rows[[_same(cell, entry) for cell in rows[key]]]
    conditions = ", ".join(f"{key} = {value}" for key, value in where)
    if len(rows) != 1:
        matches = (
            f"{len(rows)} rows fit {conditions}" if conditions else f"{len(rows)} rows, and no condition was given"
        )
        raise StudyError(f"{name}, {piece}: {matches}; give conditions that fit exactly one.")
    row = rows.iloc[0]
    if not isinstance(row[column], numbers.Real) or row[column] != row[column]:
        raise StudyError(f"{name}, {piece}, {conditions}: {column} holds {row[column]!r}, which is not a number.")
    lower, upper = (float(row.get(f"{column}_{end}", float("nan"))) for end in ("lower", "upper"))
    words, _ = read_published(name)
    pieces = [description for section in words["sections"] for description in section["pieces"]]
    formats: dict[str, str] = next(
        (description.get("formats", {}) for description in pieces if description["title"] == piece), {}
    )
    return float(row[column]), lower, upper, formats.get(column, "")


def _same(cell: object, value: str) -> bool:
    return f"{cell:g}" == value if isinstance(cell, float) else str(cell) == value
