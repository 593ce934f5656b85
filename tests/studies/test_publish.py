"""Published results: a table and the words around it, and the page that is drawn from the two."""

import html
import json
import re
import xml.etree.ElementTree

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.errors import StudyError
from approxmcmc.study import published
from approxmcmc.study.report.drawn_page import opening_picture, page_body
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.markdown import NAMESPACE, picture, plain_text, section_block, slim
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.publish import publish
from approxmcmc.study.report.published_files import (
    from_bytes,
    packed,
    pictures_from_bytes,
    pictures_to_bytes,
    to_bytes,
    unpacked,
)
from approxmcmc.study.report.svg import subplots, svg_document
from tests.studies.test_report import make_results

pytestmark = pytest.mark.core

ESTIMATES = ("risk", "bias_sq", "variance", "ratio")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Publish three settings of six replicates, one of which failed."""
    folder, results = tmp_path_factory.mktemp("published"), make_results(names={"austerity": "t-test"})
    table, pictures, words, page = publish(results, folder / published.FOLDER, folder / "pages")
    assert page.read_text(encoding="utf-8").endswith("```{study} toy\n```\n")
    assert publish(results, folder / published.FOLDER, folder / "pages") == [table, pictures, words]  # the page is kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "files", lambda package: folder)
        yield results, page_body(*published.read_published("toy"))


@pytest.mark.thorough
def test_the_numbers_that_ship_are_those_of_the_store_with_what_they_came_from(made):
    results, _ = made
    frame = amc.study.load_results("toy")
    [contest] = gather(results)
    assert len(frame) == len(contest.at_budgets) == 2 * 3 * 3
    for name in ESTIMATES:
        for end in ("", "_lower", "_upper"):
            assert np.allclose(frame[name + end], contest.at_budgets[name + end], rtol=1e-6, equal_nan=True)
    assert (frame["replicates"] < frame["planned"]).sum() == 2 * 3  # of the setting that lost a cell
    assert (frame.attrs["preset"], frame.attrs["version"]) == ("quick", published.VERSION)
    assert frame.attrs["provenance"]["libraries"] == {"numpy": "2.4"}
    with pytest.raises(StudyError, match=r"'tyo'.*toy"):
        amc.study.load_results("tyo")


@pytest.mark.thorough
def test_the_page_has_an_interval_with_every_estimate(made):
    _, page = made
    [risks] = re.findall(r"### Risk at each budget.*?</table>", page, flags=re.DOTALL)
    cells = re.findall(r'<td class="number">(.*?)</td>', risks)
    floors_and_times, rows = 2, risks.count("<tr><td")
    with_interval = [cell for cell in cells if 'class="interval"' in cell]
    assert len(with_interval) + floors_and_times * rows + sum(not cell for cell in cells) == len(cells)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "ValueError" in page and "<script>" not in page  # the failed cell, escaped
    for block in re.findall(r"```\{raw\} html\n(.*?)\n?```", page, flags=re.DOTALL):
        assert "\n\n" not in block  # a blank line would end it


@pytest.mark.thorough
def test_the_page_opens_with_its_picture_and_its_answer_in_words(made):
    _, page = made
    opening, rest = page.split("\n## ", 1)
    [document] = re.findall(r"<svg.*?</svg>", opening, flags=re.DOTALL)
    assert xml.etree.ElementTree.fromstring(document).tag == f"{{{NAMESPACE}}}svg" and "currentColor" in document
    assert re.search(r"the typical error of .+ over all coordinates of all estimands is", opening)
    assert "[epsilon=" not in opening and r"\[epsilon=" not in opening.split("Census")[0]
    assert rest.count("<svg") == 3  # against data; bias and variance; speed of the machine
    [sheet] = re.findall(r"<style[^>]*>(.*?)</style>", document, flags=re.DOTALL)
    rules = re.findall(r"\{([^}]*)\}", html.unescape(sheet))
    assert any(rule.endswith("font-family: sans-serif") or "font-family: sans-serif;" in rule for rule in rules)
    assert all(":" in declaration for rule in rules for declaration in rule.split(";") if declaration.strip())


def test_the_opening_picture_alone_is_that_of_the_page(made):
    _, page = made
    alone = opening_picture(*published.read_published("toy"))
    [of_page] = re.findall(r"<svg.*?</svg>", page.split("\n## ", 1)[0], flags=re.DOTALL)
    assert alone.count("<path") == of_page.count("<path") > 0
    assert xml.etree.ElementTree.fromstring(alone).get("aria-label") in of_page


@pytest.mark.thorough
def test_without_a_gold_standard_a_study_publishes_no_risks(tmp_path):
    results = make_results()
    results.gold = None
    gather.cache_clear()
    table, _, words = publish(results, tmp_path)
    assert "risk" not in set(from_bytes(table.read_bytes())["piece"])
    assert any("so this page states no risk" in text for text in json.loads(words.read_text(encoding="utf-8"))["told"])


def test_a_store_without_a_finished_cell_publishes_nothing(tmp_path):
    results = make_results()
    results.records = results.records.assign(status="missing")
    results.store = type("Store", (), {"folder": "results/toy-quick"})()
    with pytest.raises(StudyError, match="toy can be published: no cell is done"):
        publish(results, tmp_path / "data", tmp_path / "pages")
    assert not list(tmp_path.iterdir())


def test_pieces_come_back_from_the_table():
    """Gaps, infinities, words and numbers in one column, and a column of nothing but gaps."""
    data = pd.DataFrame({"name": ["a", None, "c"], "risk": [0.1, np.inf, np.nan], "gap": [np.nan] * 3})
    mixed = pd.DataFrame({"risk": ["no bound", 0.25, 3]})
    section = Section(
        "S", ("text",), (("term", "meaning"),), (Table("one", "", data), Table("two", "", mixed)), ("do",)
    )
    words, table, pictures = packed([section], {})
    [back] = unpacked(words, from_bytes(to_bytes(table)), pictures)
    assert (back.text, back.terms, back.commands) == (section.text, section.terms, section.commands)
    one, two = (piece.data for piece in back.pieces)
    assert list(one["name"]) == ["a", None, "c"] and one["gap"].isna().all()
    np.testing.assert_array_equal(one["risk"], data["risk"])
    assert list(two["risk"]) == ["no bound", 0.25, 3.0]


def test_a_picture_of_a_store_comes_back_as_it_is():
    figure, axes = subplots(1, 1)
    axes.plot([1.0, 10.0], [0.5, 2.0], "o--", label="a line")
    axes.legend()
    data = pd.DataFrame({"seconds": [1.0, 10.0], "risk": [0.5, 2.0]})
    words, table, pictures = packed([Section("S", pieces=(Figure("own", "drawn", figure, data),))], {})
    [back] = unpacked(words, from_bytes(to_bytes(table)), pictures_from_bytes(pictures_to_bytes(pictures)))
    [own] = back.pieces
    assert "a line" in own.figure and svg_document(own.figure) == svg_document(pictures["own"])
    assert own.data["risk"].tolist() == [0.5, 2.0]


def test_a_slim_picture_keeps_its_words_styles_and_references():
    figure, axes = subplots()
    axes.plot([0.123456, 1.0], [0.1, 0.7], "o-", label="test[epsilon=0.00125]")
    axes.legend()
    document = svg_document(figure)
    thin = slim(document)
    assert "test[epsilon=0.00125]" in thin
    assert len(thin) < 0.7 * len(document)
    assert not re.search(r'\bd="[^"]*\.\d{3}', thin)
    classes = set(re.findall(r'class="(.*?)"', thin))
    assert classes == set(re.findall(r"^\.(\w+)\{", thin, flags=re.MULTILINE))
    assert len(classes) == len(set(re.findall(r'style="(.*?)"', document)))
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', thin))
    assert referred == set(re.findall(r' id="(.*?)"', thin))
    told = picture(Figure("a <title>", "", figure, pd.DataFrame()), "p3")
    assert 'aria-label="a &lt;title&gt;"' in told and 'id="p3-' in told


def test_text_of_a_page_is_text():
    assert plain_text("a_b *c* <d>\n[e]") == r"a\_b \*c\* &lt;d&gt; \[e\]"


HOSTILE = ["\n```\n\n<script>alert(1)</script>\n\n```text", "\n::::\n<script>alert(1)</script>", "````````", "~~~\n<b>"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_store_ends_its_block_of_markdown(text):
    """Commands and cells stay inside their fences, captions and titles stay text."""
    markdown_it = pytest.importorskip("markdown_it")
    rows = Table(text, text, pd.DataFrame({"a": [text, "**bold** [x](http://evil)"]}), headings={"a": text})
    section = Section(text, text=(text,), terms=((text, text),), pieces=(rows,), commands=(f"approxmcmc run x{text}",))
    page, _ = section_block(section, section.pieces, 1)
    tokens = markdown_it.MarkdownIt("commonmark").parse(page)
    assert [token.type for token in tokens].count("fence") == 2
    assert not any(token.type == "html_block" for token in tokens)
    assert not any(child.type == "html_inline" for token in tokens for child in token.children or ())
    [table, command] = [token.content for token in tokens if token.type == "fence"]
    assert table.startswith("<div") and table.endswith("</div>\n") and "<script" not in table and "<b>" not in table
    assert command.strip() == f"approxmcmc run x{text}".strip()


@pytest.mark.parametrize(
    "start", ["- a", "+ a", "1. a", "12) a", "% a", ":::{raw} html", "(a)=", "= a", "---", "...", "# a"]
)
def test_no_text_begins_a_list_a_comment_or_a_directive(start):
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").parse(plain_text(start))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert plain_text(start)[0] == "\\" or start[0].isdigit()
