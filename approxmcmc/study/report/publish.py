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
from approxmcmc.study.report.content import compose_published
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.shipped import packed, to_bytes, words_to_text

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
        Folder of ``NAME.csv.gz`` and ``NAME.json``; both are replaced atomically.
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
    content = compose_published(results)
    words, rows = packed(content.pop("sections"), risks_of(results))
    table = to_bytes(rows)
    written = [folder / f"{name}.csv.gz", folder / f"{name}.json"]
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(written[0], table)
    told = {**_facts(results), **content, "sections": words, "table": checksum_of(table)}
    write_bytes(written[1], with_checksum(words_to_text(plain(told))))
    if pages is not None and not (page := Path(pages) / f"{name}.md").exists():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(STUB.format(title=_title(results), name=name), encoding="utf-8")
        written.append(page)
    return written


def _title(results: "StudyResults") -> str:
    lines = Path(results.source).read_text(encoding="utf-8").splitlines() if results.source else []
    return lines[0].strip('"').rstrip(".") if lines and lines[0].startswith('"""') else results.study.name


def risks_of(results: "StudyResults") -> "pd.DataFrame | None":
    """Return the risks at each budget of all targets that have a gold standard; None if no target has one."""
    import pandas as pd

    judged = [contest for contest in gather(results) if contest.reference is not None]
    if not judged:
        return None
    frame = pd.concat([contest.at_budgets.assign(target=contest.target) for contest in judged], ignore_index=True)
    frame.insert(0, "target", frame.pop("target"))
    return frame


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
