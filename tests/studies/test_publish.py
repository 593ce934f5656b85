"""Published results: a table and the words around it, and the page that is drawn from the two."""

import json
import re
import xml.etree.ElementTree

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.errors import StudyError
from approxmcmc.study import published
from approxmcmc.study.report.drawn_page import page_body
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.markdown import NAMESPACE, picture, plain_text, section_block, slim
from approxmcmc.study.report.marks import drawn, marks_of
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.publish import publish
from approxmcmc.study.report.shipped import from_bytes, packed, to_bytes, unpacked
from approxmcmc.study.report.svg import subplots, svg_document
from tests.studies.test_report import make_results

pytestmark = pytest.mark.core

ESTIMATES = ("risk", "bias_sq", "variance", "ratio")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Publish three settings of six replicates, one of which failed."""
    folder, results = tmp_path_factory.mktemp("published"), make_results()
    table, words, page = publish(results, folder / published.FOLDER, folder / "pages")
    assert page.read_text(encoding="utf-8").endswith("```{study} toy\n```\n")
    assert publish(results, folder / published.FOLDER, folder / "pages") == [table, words]  # the page is kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "files", lambda package: folder)
        yield results, page_body(*published.shipped("toy"))


@pytest.mark.thorough
def test_the_numbers_that_ship_are_those_of_the_store_with_what_they_came_from(made):
    results, _ = made
    frame = amc.study.load_results("toy")
    [contest] = gather(results)
    assert len(frame) == len(contest.at_budgets) == 3 * 3
    for name in ESTIMATES:
        for end in ("", "_lower", "_upper"):
            assert np.allclose(frame[name + end], contest.at_budgets[name + end], rtol=1e-6, equal_nan=True)
    assert (frame["replicates"] < frame["planned"]).sum() == 3  # of the setting that lost a cell
    assert (frame.attrs["preset"], frame.attrs["version"]) == ("quick", published.VERSION)
    assert frame.attrs["provenance"]["libraries"] == {"numpy": "2.4"}
    with pytest.raises(StudyError, match=r"'tyo'.*toy"):
        amc.study.load_results("tyo")


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


def test_the_page_opens_with_its_picture_and_its_answer_in_words(made):
    _, page = made
    opening, rest = page.split("\n## ", 1)
    [document] = re.findall(r"<svg.*?</svg>", opening, flags=re.DOTALL)
    assert xml.etree.ElementTree.fromstring(document).tag == f"{{{NAMESPACE}}}svg" and "currentColor" in document
    assert "the least risk in probability was measured for" in opening
    assert "[epsilon=" not in opening and r"\[epsilon=" not in opening.split("Census")[0]
    assert "<svg" not in rest  # no foreign sampler, hence one picture of the risk


@pytest.mark.thorough
def test_without_a_gold_standard_a_study_publishes_no_risks(tmp_path):
    results = make_results()
    results.gold = None
    gather.cache_clear()
    table, words = publish(results, tmp_path)
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
    words, table = packed([section], None)
    [back] = unpacked(words, from_bytes(to_bytes(table)))
    assert (back.text, back.terms, back.commands) == (section.text, section.terms, section.commands)
    one, two = (piece.data for piece in back.pieces)
    assert list(one["name"]) == ["a", None, "c"] and one["gap"].isna().all()
    np.testing.assert_array_equal(one["risk"], data["risk"])
    assert list(two["risk"]) == ["no bound", 0.25, 3.0]


@pytest.mark.thorough
def test_a_picture_comes_back_from_its_marks():
    """Lines, markers, error bars, bands, bars, levels and words, on linear and log axes, drawn twice from the table."""
    figure, (left, right) = subplots(1, 2)
    left.plot([1.0, 10.0], [0.5, 2.0], "o--", color="#3a86c8", label="a line")
    left.fill_between([1.0, 10.0], [0.4, 1.0], [0.6, 3.0], color="#e07b39", alpha=0.2, label="a band")
    left.errorbar([2.0, 5.0], [1.0, 1.5], yerr=[0.1, 0.2], fmt="s", color="#2a9d76", label="measured")
    left.axhline(1.0, color="#24292f")
    left.set(xscale="log", xlabel="seconds", title="times")
    left.legend()
    right.bar([0, 1], [3.0, 4.0], color="#b5629e")
    right.set_xticks([0, 1], ["few", "many"])
    right.text(0.5, 2.0, "a word")
    words, table = marks_of(figure)
    again, table_again = marks_of(drawn(words, table))
    assert table_again.drop(columns="mark").equals(table.drop(columns="mark"))
    assert [mark["kind"] for mark in again["marks"]] == [mark["kind"] for mark in words["marks"]]
    assert {mark["kind"] for mark in words["marks"]} == {"line", "points", "segments", "area", "text"}
    assert words["panels"][0]["x"]["scale"] == "log" and words["panels"][1]["x"]["ticks"] == [
        [0.0, "few"],
        [1.0, "many"],
    ]
    document = svg_document(drawn(words, table))
    assert all(word in document for word in ("a line", "a band", "measured", "seconds", "times", "many", "a word"))
    right.imshow(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="image"):
        marks_of(figure)


def test_a_legend_has_room_for_names_in_words():
    """Names in words are longer than those of the code; none reaches the next sample, nor the edge of the picture."""
    figure, axes = subplots(figsize=(6.0, 3.0))
    for name in ("a", "b", "c"):
        axes.plot([0.0, 1.0], label=name)
    figure.legend(loc="outside lower center", ncols=3)
    again = drawn(*marks_of(figure), {"a": "influential rows, " * 4, "b": "exact", "c": "t-test"}.get)
    again.draw_without_rendering()
    [legend] = again.legends
    texts = [text.get_window_extent() for text in legend.get_texts()]
    assert [text.get_text() for text in legend.get_texts()] == ["influential rows, " * 4, "exact", "t-test"]
    samples = [handle.get_window_extent() for handle in legend.legend_handles]
    assert not any(text.overlaps(other) for text in texts for other in samples)
    assert legend._ncols < 3 and max(text.x1 for text in texts) <= again.bbox.x1
    document = svg_document(again)  # cut at what is drawn, so that a legend of more lines is below the former edge
    height = float(re.search(r'viewBox="0 0 \S+ (\S+)"', document)[1])
    assert max(float(y) for y in re.findall(r'<text[^>]* y="(\S+)"', document)) < height


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
