"""Write the results of a study that ship with the package, from its store."""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.files.checksums import checksum_of, with_checksum
from approxmcmc.errors import StudyError
from approxmcmc.study.json_files import plain, write_bytes
from approxmcmc.study.published import VERSION
from approxmcmc.study.report.clocks import clock_of
from approxmcmc.study.report.content import publishable
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.published_files import CURVES, RISK, packed, pictures_to_bytes, to_bytes, words_to_text
from approxmcmc.study.report.scores import DEPARTURES

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.results import StudyResults

STUB = """# {title}

```{{study}} {name}
```
"""


def publish(
    results: "StudyResults", data: str | os.PathLike[str], pages: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Write the files of a study that ship with the package, and return their paths.

    The documentation draws page and pictures from them. No number is typed by hand: all come from the store.

    Parameters
    ----------
    results
        Records, traces and gold standards of a study at one preset.
    data
        Folder of ``NAME.csv.gz``, ``NAME.pictures.gz`` and ``NAME.json``; each is replaced atomically.
    pages
        Folder of the documentation's pages. If it has no page of this study, ``NAME.md`` is written there: a title,
        from the first line of the study's file, and the directive that draws the rest. Write the answer between them.

    Raises
    ------
    StudyError
        If no cell is done.
    """
    if not (results.records["status"] == "done").any():
        raise StudyError(
            f"Nothing of {results.study.name} can be published: no cell is done in {results.store.folder}. Run the "
            "study first; `approxmcmc status` shows what is missing."
        )
    name = results.study.name
    folder = Path(data)
    content = publishable(results)
    words, rows, pictures = packed(content.pop("sections"), tables_of(results))
    table = to_bytes(rows)
    drawn = pictures_to_bytes(pictures)
    written = [folder / f"{name}.csv.gz", folder / f"{name}.pictures.gz", folder / f"{name}.json"]
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(written[0], table)
    write_bytes(written[1], drawn)
    checksums = {"table": checksum_of(table), "pictures": checksum_of(drawn)}
    write_bytes(
        written[2], with_checksum(words_to_text(plain({**_facts(results), **content, "sections": words} | checksums)))
    )
    if pages is not None and not (page := Path(pages) / f"{name}.md").exists():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(STUB.format(title=_title(results), name=name), encoding="utf-8")
        written.append(page)
    return written


def _title(results: "StudyResults") -> str:
    lines = Path(results.source).read_text(encoding="utf-8").splitlines() if results.source else []
    return lines[0].strip('"').rstrip(".") if lines and lines[0].startswith('"""') else results.study.name


def tables_of(results: "StudyResults") -> "dict[str, pd.DataFrame]":
    """Return the tables behind the risks of all targets that have a gold standard, by title; {} if no target has one.

    They are the risks at each budget, the curves, and how wrong each setting is at the last budget.
    """
    import pandas as pd

    judged = [contest for contest in gather(results) if contest.reference is not None]
    tables = {}
    for title, field in {RISK: "at_budgets", **{title: field for field, title in CURVES.items()}}.items():
        frames = [getattr(contest, field).assign(target=contest.target) for contest in judged]
        if frames:
            tables[title] = pd.concat(frames, ignore_index=True)
            tables[title].insert(0, "target", tables[title].pop("target"))
    return tables | {f"{DEPARTURES}, {contest.target}": contest.departures for contest in judged}


def _facts(results: "StudyResults") -> dict[str, Any]:
    study = results.study
    return {
        "version": VERSION,
        "study": study.name,
        "preset": results.preset,
        "reference": study.reference,
        "budget": dataclasses.asdict(study.budget),
        **study.own_budgets,
        "command": results.command,
        "clock": clock_of(results).name,
        "provenance": results.provenance,
    }
