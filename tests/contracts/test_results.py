"""Numbers of studies on pages: each is read from the table that ships, and what ships is small and complete."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from approxmcmc.errors import StudyError
from approxmcmc.study import published
from approxmcmc.study.load import load_study
from approxmcmc.study.report.drawn_page import columns_of, scores_of
from approxmcmc.study.report.intervals import mean_interval
from approxmcmc.study.report.machine_time import machine_time, machine_time_block
from approxmcmc.study.report.markdown import picture
from approxmcmc.study.report.published_files import in_words, unpacked
from approxmcmc.study.report.tables import risk_table
from approxmcmc.study.report.verdicts import AGREES, DIFFERS, OPEN, all_compared, verdict, verdicts_block

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SHIPPED = ROOT / "approxmcmc" / "study" / published.FOLDER
LARGEST_BYTES = 3_000_000
PAGES = sorted({*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), ROOT / "README.md"} - {*DOCS.glob("_*/*")})
NUMBER = re.compile(r"\{(result|estimate)\}`([^`]*)`", re.DOTALL)
TO_A_RESULT = re.compile(r"\]\((\.\./)*(docs/)?results/\w|\{doc\}`[^`]*results/\w|\{(result|estimate)\}`")
OVER_CHAINS = re.compile("(Student|bootstrap) intervals? over (chains|replicates)|Student over|published number")
AUDITED = "wrong|predicted"
# Roles, code, addresses; settings as equations; numbers of figures, names such as ijcnn1.
NOT_TYPED = re.compile(
    r"\{\w+\}`[^`]*`|`[^`]*`|(?<=\])\([^)]*\)|\$[^$]*\$"
    r"|\b(?:[Ff]igure|[Tt]able|[Tt]heorem|[Ll]emma|section|algorithm)s? \d+(?: (?:and|to) \d+)*|\b[A-Za-z]\w*\d\w*"
)
COUNTS = "two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|fifty|a hundred|hundreds of|a thousand"
# A factor in words is a measured number, too; a chain four times as long is a setting.
FACTOR = re.compile(rf"\b(?:\w+fold|twice|thrice|(?:{COUNTS}) times(?! as long))\b", re.IGNORECASE)
# On the page of a study every sentence is about its result.
STUDY_PAGES = {DOCS / "results" / f"{name}.md" for name in published.published_studies()}


@pytest.fixture(scope="module")
def extension():
    """Return the module of the documentation that reads the tables."""
    sys.path.insert(0, str(DOCS / "_extensions"))
    import looked_up

    yield looked_up
    sys.path.remove(str(DOCS / "_extensions"))


def sentences(page):
    """Return the sentences of a page outside of blocks of code."""
    prose = NUMBER.sub(r"{\1}``", re.sub(r"^(`{3,}).*?^\1$", "", page, flags=re.DOTALL | re.MULTILINE))
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|#*])", prose):
        yield from re.split(r"(?<=[.:!?])\s+(?=[A-Z*(`{$[])", " ".join(paragraph.split()))


def typed(sentence, *, linked=False):
    """Return whether a sentence that links to a result (always if `linked`) has a typed digit or factor."""
    words = NOT_TYPED.sub("", sentence)
    return bool((linked or TO_A_RESULT.search(sentence)) and (re.search(r"\d", words) or FACTOR.search(words)))


def test_a_digit_beside_a_result_is_found():
    assert typed("It is 3 times as fast ({doc}`results/firefly`).")
    assert typed("[The page](../results/firefly.md) says 0.1.")
    assert typed("It is twice as fast ({doc}`results/firefly`).")
    assert typed("[Influential rows](results/tall_covertype.md) gain a hundredfold.")
    assert typed("It reads ten times fewer rows.", linked=True) and typed("The risk is 0.3.", linked=True)
    assert not typed("Figure 1 used chains four times as long, on ijcnn1 ({doc}`results/firefly`).")
    assert not typed(
        "At $\\epsilon = 0.1$ it makes {result}`firefly; risk; N = 2; risk` steps ({doc}`results/firefly`)."
    )
    assert not typed("A chain of 3 steps.")


def test_no_number_of_a_result_is_typed():
    assert not [
        (page.name, one)
        for page in PAGES
        for one in sentences(page.read_text(encoding="utf-8"))
        if typed(one, linked=page in STUDY_PAGES or (page.name == "papers.md" and "](" in one))
    ]


@pytest.mark.thorough
def test_every_number_on_a_page_is_in_its_table(extension):
    named = [found for page in PAGES for found in NUMBER.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 20
    for kind, reference in named:
        if not reference.startswith("NAME;"):  # the page that explains it
            assert re.search(r"\d", extension.looked_up(" ".join(reference.split()), interval=kind == "estimate")), (
                reference
            )
    blocks = [line for page in PAGES for line in re.findall(r"^```\{columns\} (.+)$", page.read_text(), re.MULTILINE)]
    for name, title, *columns in ([part.strip() for part in line.split(";")] for line in blocks):
        assert "<td" in columns_of(*published.read_published(name), title, columns)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("tall_dat; risk; risk", "tall_data"),
        ("bounds_gibbs; Contractoin; target = six; sites", "Contraction"),
        ("bounds_gibbs; Contraction; target = sixty; sites", "0 rows fit target = sixty"),
        ("bounds_gibbs; Contraction; target = six; site", "sites"),
        ("bounds_gibbs; Contraction; target = six; label", "not a number"),
    ],
)
def test_a_number_that_is_not_there_is_an_error(extension, reference, told):
    with pytest.raises(StudyError, match=told):
        extension.looked_up(reference, interval=False)


def test_what_ships_is_small_and_every_study_has_its_page():
    names = published.published_studies()
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < LARGEST_BYTES
    assert {path.name for path in SHIPPED.iterdir()} == {
        f"{name}.{end}" for name in names for end in ("json", "csv.gz", "pictures.gz")
    }
    index = (DOCS / "results" / "index.md").read_text(encoding="utf-8")
    for name in names:
        page = (DOCS / "results" / f"{name}.md").read_text(encoding="utf-8")
        assert re.search(rf"^```\{{study\}} {name}(; .+)?\n```$", page, re.MULTILINE)
        assert f"({name}.md)" in index and f"\n{name}\n" in index
        assert load_study(ROOT / "studies" / f"{name}.py").name == name


@pytest.mark.thorough
def test_a_result_names_suite_machine_and_clock():
    for name in published.published_studies():
        words, table = published.read_published(name)
        assert words["version"] == published.VERSION and words["provenance"]["libraries"]
        clock = (
            "Times are those of the wall clock" if words["clock"] == "wall" else "Times? (is that of the|are) processor"
        )
        assert re.search(rf"{clock}.+the median cell had (\d+ ?%|nearly a whole core)", " ".join(words["notes"])), name
        assert "--store" not in words["command"]  # it would name a folder of one machine
        for one in scores_of(words, table):
            few = one.at_budgets[one.at_budgets.replicates < 5]
            assert few[[column for column in few if column.endswith(("_lower", "_upper"))]].isna().all(axis=None)


@pytest.mark.thorough
def test_the_risks_of_every_shipped_study_can_be_tabulated():
    for name in published.published_studies():
        for one in scores_of(*published.read_published(name)):
            if one.settings and not one.at_budgets.empty:
                assert "risk" in risk_table(one).data, name


@pytest.mark.thorough
def test_fewer_than_five_chains_have_no_interval():
    for name in published.published_studies():
        words, table = published.read_published(name)
        chains = re.search(r"'Replicates', '(\d+) chain", str([section["terms"] for section in words["sections"]]))
        if int(chains[1]) >= 5 or "intervals over lattices" in str(words["sections"]):
            continue
        for piece in (piece for section in words["sections"] for piece in section["pieces"]):
            if OVER_CHAINS.search(piece["caption"]):
                rows = table[table["piece"] == piece["title"]]
                ends = [one for one in piece["columns"] if re.fullmatch(f"(?!{AUDITED}).*_(lower|upper)", one)]
                assert (rows[ends] == "").all(axis=None), f"{name}, {piece['title']}"


def test_no_picture_or_page_is_kept_that_is_drawn():
    assert {path.name for path in (DOCS / "_static").iterdir()} == {
        "austerity_mnist_risk.svg", "cold.csv", "pages.css", "race.csv", "race_answers.csv", "race_fits.csv",
        "race_regret.csv",
        "scale.jsonl", "street.csv", "street_alarms.csv",
    }  # fmt: skip


def test_the_picture_of_the_readme_is_drawn_from_its_table():
    words, table = published.read_published("austerity_mnist")
    pieces = [piece for section in unpacked(words["sections"], table, words["pictures"]) for piece in section.pieces]
    [risk] = [piece for piece in pieces if piece.title == "Risk against time, mnist_7v9"]
    assert shape(in_words(words, table)(picture(risk, "p0"))) == shape(
        (DOCS / "_static" / "austerity_mnist_risk.svg").read_text(encoding="utf-8")
    )


def shape(document):
    """Return the words of a picture and the beginnings of its paths, which no version of matplotlib moves."""
    starts = [tuple(map(round, map(float, start))) for start in re.findall(r'd="M(-?[\d.]+) (-?[\d.]+)l', document)]
    return re.findall(r"<text[^>]*>([^<]+)</text>", document), starts


def test_only_an_interval_within_the_margin_agrees():
    assert verdict(0.60, 0.62, 0.59, 0.65, 0.06) == (AGREES, "")
    assert verdict(0.60, 0.62, 0.61, 0.63, 0.06) == (AGREES, "+3%, within the margin")
    assert verdict(0.60, 0.62, 0.55, 0.69, 0.06) == (OPEN, "our interval is wider than the margin")
    assert verdict(0.60, 0.60, 0.60, 0.60, 0.0) == (AGREES, "") and verdict(0.60, 0.61, 0.5, 0.7, 0.0)[0] == OPEN
    assert verdict(1.0, 1.0, math.nan, math.nan, 1.0)[0] == OPEN
    assert verdict(2.0, 3.0, 2.5, 3.5, 0.1, "other data") == (DIFFERS, "+50%; other data")
    # More verdicts widen an interval, which takes an agreement away and never makes one.
    assert verdict(0.60, 0.62, 0.59, 0.65, 0.06, together=100)[0] == OPEN
    assert verdict(0.128, 0.1445, 0.14, 0.149, 0.0128, together=129)[0] == OPEN


@pytest.mark.thorough
def test_the_verdicts_on_printed_numbers_err_together_in_at_most_one_page_of_twenty():
    """Numbers that are right, beside means of five chains: on 95 % of pages and more none is said to differ.

    Numbers that are off by a little more than the margin: on 95 % none is said to agree. Planted: a rule by which they
    agree if the interval contains the printed number.
    """
    rng = np.random.default_rng(4)
    differs, agrees, cheap = dict.fromkeys((1, 20), 0), 0, 0
    for _ in range(400):
        means = [mean_interval(chains) for chains in rng.normal(1.0, 0.1, (20, 5))]
        for together in differs:
            differs[together] += all(verdict(1.0, *one, 0.1, together=together)[0] != DIFFERS for one in means)
        agrees += all(verdict(0.89, *one, 0.1, together=20)[0] != AGREES for one in means)
        cheap += all(not one.lower <= 0.89 <= one.upper for one in means)
    assert differs[20] >= 368 > differs[1]  # a true 95 % misses 368 of 400 with probability 3e-3
    assert agrees >= 368 > cheap


@pytest.mark.thorough
def test_each_comparable_number_of_a_paper_has_its_verdict():
    named = re.findall(r"^```\{verdicts\} (\w+)\n```$", (DOCS / "results" / "papers.md").read_text(), re.MULTILINE)
    assert len(named) == len(set(named)) >= 6
    total = 0
    for name in named:
        first, *lines = verdicts_block(*published.read_published(name)).splitlines()
        counts = [int(number) for number in re.findall(r"\d+", first)]
        assert counts[0] == sum(counts[1:]) == sum(line.count("*: ") + line.count("* |") for line in lines)
        total += counts[0]
    assert total == all_compared()  # the verdicts of the page share one error rate


@pytest.mark.thorough
def test_the_machine_time_of_all_studies_is_summed():
    lines = machine_time_block().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    longest_first = sorted(published.published_studies(), key=lambda name: -machine_time(name)[1])
    assert [row[0] for row in rows[:-1]] == longest_first
    assert rows[-1][0] == "all" and float(rows[-1][2].replace(",", "")) > 60.0
    frame = published.load_results("tall_logistic", "Seconds per cell, logistic_1e5")
    assert machine_time("tall_logistic")[1] == pytest.approx((frame["cells"] * frame["whole cell, CPU"]).sum())
