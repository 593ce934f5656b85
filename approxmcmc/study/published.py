"""Results that ship with the package: the risk of every setting at several times, with their provenance.

One CSV for each study, in the folder ``published_results``. Its first line is a comment with preset, command, machine
and versions as JSON, so that table and provenance stay together.
"""

import json
from importlib.resources import files
from typing import TYPE_CHECKING

from approxmcmc.errors import StudyError
from approxmcmc.study.names import nearest

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "published_results"


def load_results(name: str) -> "pd.DataFrame":
    """Return the published results of a study of this library, as they ship with the package.

    Parameters
    ----------
    name
        Name of the study, such as ``"tall_data"``.

    Returns
    -------
    DataFrame
        A row for each target, setting, estimand and time (seconds of one chain): `risk`, `bias_sq`, `variance`, and the
        `ratio` of the risk to that of an exact setting, each with the limits of its 95 % interval, ``_lower`` and
        ``_upper``; `floor`, the squared standard error of the gold standard, which is subtracted; `replicates`
        finished, out of `planned`. Undefined values are NaN. ``frame.attrs`` holds `preset`, `command`, `budget`,
        `reference` and `provenance`: code, machine, versions.

    Raises
    ------
    StudyError
        If there are no results of that name; the message names the nearest.

    Examples
    --------
    >>> frame = load_results("tall_data")
    >>> sorted(frame.attrs)
    ['budget', 'command', 'preset', 'provenance', 'reference', 'study']
    """
    import pandas as pd

    folder = files("approxmcmc.study") / FOLDER
    known = sorted(entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv"))
    if name not in known:
        raise StudyError(f"There are no published results of {nearest(name, known)}")
    with (folder / f"{name}.csv").open(encoding="utf-8") as stream:
        attrs = json.loads(stream.readline().removeprefix("#"))
        frame = pd.read_csv(stream)
    frame.attrs.update(attrs)
    return frame
