"""The pieces of evidence: what draws each table of the documentation, from which code, and where it is shown."""

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from approxmcmc.study.published import FOLDER, published_studies
from approxmcmc.study.report.machine_time import machine_time

PUBLISHED = f"approxmcmc/study/{FOLDER}"
DATA_OF_A_STUDY = ("csv.gz", "json", "pictures.gz")
# What makes, draws and publishes the cells of every study; its own file names its targets and samplers.
OF_EVERY_STUDY = ("approxmcmc.api", "approxmcmc.study.run", "approxmcmc.study.report.publish")
REPEATS = "5"  # runs where a time is compared


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of a piece; ``{out}`` is the folder of its work.

    If `output` is the name of a file in that folder, the file gets what the command prints, and a step with such a file
    is not run again. Other commands resume by themselves.
    """

    command: tuple[str, ...]
    output: str = ""


@dataclasses.dataclass(frozen=True)
class Piece:
    """One or more tables that are drawn together.

    Parameters
    ----------
    name
        What the piece is called on the command line.
    steps
        The commands, in turn.
    files
        The files of the repository that they make: path -> the files in the folder of the work that follow one another
        in it; none if the command writes this file itself, at its end.
    entries
        The modules that make the numbers. What they import, at any depth, is the code of the piece.
    minutes
        Expected minutes of one core; of a study those of its published cells, see `expected_minutes`.
    shown
        A regular expression: a page of the documentation that contains it shows the piece.
    keeps_cells
        Whether the commands know which of their cells are stale. Else each version of the code has its own folder.
    """

    name: str
    steps: tuple[Step, ...]
    files: Mapping[str, tuple[str, ...]]
    entries: tuple[str, ...]
    shown: str
    minutes: float | None = None
    keeps_cells: bool = False

    def expected_minutes(self) -> float:
        """Return the expected minutes of one core."""
        return machine_time(self.name)[1] / 60.0 if self.minutes is None else self.minutes

    def is_shown_on(self, page: str) -> bool:
        """Return whether a page, given as its source, shows the piece."""
        return re.search(self.shown, page, re.MULTILINE) is not None


def _of_study(name: str) -> Piece:
    """Return the piece that is the published table of a study."""
    store = ("--preset", "published", "--store", "{out}/store")
    publish = ("approxmcmc", "publish", f"studies/{name}", *store, "--data", "{out}/data", "--pages", "{out}/pages")
    return Piece(
        name=name,
        steps=(Step(("approxmcmc", "run", f"studies/{name}", *store)), Step(publish)),
        files={f"{PUBLISHED}/{name}.{end}": (f"data/{name}.{end}",) for end in DATA_OF_A_STUDY},
        entries=(f"studies.{name}", *OF_EVERY_STUDY),
        shown=rf"^```\{{(study|picture|columns|verdicts)\}} {name}\b|^```\{{spent\}} all",
        keeps_cells=True,
    )


def _module(name: str, *options: str, output: str = "") -> Step:
    return Step(("python", "-m", name, *options), output)


STREET = Piece(
    name="street",
    steps=(_module("studies.street", "--out", "{out}"), _module("studies.street.alarms", "--out", "{out}")),
    files={"docs/_static/street.csv": ("street.csv",), "docs/_static/street_alarms.csv": ("alarms.csv",)},
    entries=("studies.street.__main__", "studies.street.cell", "studies.street.alarms"),
    minutes=240.0,
    shown=r"_generated/street|_static/street",
)
RACE = Piece(
    name="race",
    steps=(
        _module("studies.race", "--preset", "quick", "--peers", "--out", "{out}/quick"),
        _module("studies.race", "--preset", "tall", "--out", "{out}/tall"),
        _module("studies.race.table", "{out}/quick/race.csv", "{out}/tall/race.csv", output="race.csv"),
    ),
    files={"docs/_static/race.csv": ("race.csv",)},
    entries=("studies.race.__main__", "studies.race.table"),
    minutes=60.0,
    shown=r"_generated/race_(rare|levers|\d)|_static/race\.csv",
)
OURS_AND_NUTPIE = ("--rival", "approxmcmc", "--rival", "nutpie")
THE_OTHERS = ("--rival", "PyMC NUTS", "--rival", "numpyro NUTS", "--rival", "blackjax NUTS", "--rival", "PyMC ADVI")
FOUR = ("dense_1e3", "dense_1e4", "pymc_bernoulli", "pymc_few_rows")  # models on which every rival ends in a minute
FOUR_MODELS = tuple(option for model in FOUR for option in ("--model", model))
ANSWERS = Piece(
    name="race_answers",
    steps=(
        _module("studies.race.answer", "--preset", "paper", *OURS_AND_NUTPIE, "--rounds", REPEATS, "--out", "{out}"),
        _module("studies.race.answer", *FOUR_MODELS, *THE_OTHERS, "--rounds", REPEATS, "--out", "{out}/others"),
        _module("studies.race.table", "{out}/answers.csv", "{out}/others/answers.csv", output="race_answers.csv"),
    ),
    files={"docs/_static/race_answers.csv": ("race_answers.csv",)},
    entries=("studies.race.answer", "studies.race.table"),
    minutes=300.0,
    shown=r"_generated/race_answers|_static/race_answers\.csv",
)
FITS = Piece(
    name="race_fits",
    steps=(_module("studies.race.fits", "--repeats", REPEATS, "--out", "{out}"),),
    files={"docs/_static/race_fits.csv": ("fits.csv",)},
    entries=("studies.race.fits",),
    minutes=10.0,
    shown=r"_generated/race_fits|_static/race_fits\.csv",
)
REGRET = Piece(
    name="race_regret",
    steps=(_module("studies.race.regret", "--rounds", REPEATS, "--out", "{out}"),),
    files={"docs/_static/race_regret.csv": ("regret.csv",)},
    entries=("studies.race.regret",),
    minutes=120.0,
    shown=r"_generated/race_regret|_static/race_regret\.csv",
)
COLD = Piece(
    name="cold",
    steps=(_module("tests.bench.cold", "--table", "{out}/cold.csv"),),
    files={"docs/_static/cold.csv": ("cold.csv",)},
    entries=("tests.bench.cold", "approxmcmc.api"),
    minutes=30.0,
    shown=r"_static/cold\.csv",
)
# Rows, columns and workers of the runs of the page on large data.
RUNS = (
    *[("1e6", "10", "0")] * 5,
    *[("1e7", "10", "0")] * 5,
    *[("1e8", "10", "0")] * 2,
    *[("1e7", "10", "2")] * 2,
    *[("1e6", "100", "0")] * 2,
)


def _run_of(k: int, rows: str, columns: str, workers: str) -> Step:
    size = (rows, "--columns", columns, "--workers", workers)
    return _module("tests.bench.scale", *size, "--folder", "{out}/data", "--simulate", output=f"run_{k:02d}.json")


SCALE = Piece(
    name="scale",
    steps=tuple(_run_of(k, *run) for k, run in enumerate(RUNS)),
    files={"docs/_static/scale.jsonl": tuple(f"run_{k:02d}.json" for k in range(len(RUNS)))},
    entries=("tests.bench.scale",),
    minutes=45.0,
    shown=r"_generated/scale|_static/scale",
)
MINUTES = Piece(
    name="minutes",
    steps=(Step(("nox", "-s", "minutes")),),
    files={"docs/minutes.toml": ()},
    entries=("noxfile",),
    minutes=25.0,
    shown=r"minutes\.toml",
)
OTHERS = (STREET, RACE, ANSWERS, FITS, REGRET, COLD, SCALE, MINUTES)

# Pages with tables of several versions, and why. A page that has become uniform is taken out, see
# tests/contracts/test_evidence.py.
MIXED = {
    "race_levers": "its tables were measured one after another, before versions were recorded",
    "results/index": "machine time of all studies",
    "results/papers": "verdicts on the printed results of many papers",
    "results/tall_nuts": "some of its cells are of an earlier version of the code",
}


@cache
def pieces() -> dict[str, Piece]:
    """Return all pieces by name, studies first."""
    return {piece.name: piece for piece in (*map(_of_study, published_studies()), *OTHERS)}


def shown_on(page: str) -> list[Piece]:
    """Return the pieces that a page, given as its source, shows."""
    return [piece for piece in pieces().values() if piece.is_shown_on(page)]


def pages(docs: Path) -> dict[str, list[Piece]]:
    """Return the pieces on each page of a folder that shows one, by the name of the page."""
    found = {
        path.relative_to(docs).with_suffix("").as_posix(): shown_on(path.read_text(encoding="utf-8"))
        for path in sorted(docs.rglob("*.md"))
        if not path.relative_to(docs).parts[0].startswith("_")
    }
    return {name: shown for name, shown in found.items() if shown}
