"""Published results: a page without a number that was typed in, and the same numbers as a table that ships."""

import re
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.errors import StudyError
from approxmcmc.study import published
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.markdown import NAMESPACE, picture, plain_text, slim
from approxmcmc.study.report.pieces import Figure
from approxmcmc.study.report.publish import publish
from approxmcmc.study.report.svg import subplots, svg_document
from tests.studies.test_report import make_results

RESULTS = Path(__file__).parents[2] / "docs" / "results"
LARGEST_BYTES = 4_000_000  # of all pages and pictures: they are kept in the repository
ESTIMATES = ("risk", "bias_sq", "variance", "ratio")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Publish three settings of four replicates, one of which failed."""
    folder, results = tmp_path_factory.mktemp("published"), make_results()
    page, first, numbers = publish(results, folder / "pages", folder / "pictures", folder / "published_results")
    assert first == folder / "pictures" / "toy.svg"
    return results, page.read_text(encoding="utf-8"), numbers


def test_the_numbers_that_ship_are_those_of_the_store_with_what_they_came_from(made, monkeypatch):
    results, _, numbers = made
    monkeypatch.setattr(published, "files", lambda package: numbers.parents[1])
    frame = amc.study.load_results("toy")
    [contest] = gather(results)
    assert len(frame) == len(contest.at_budgets) == 3 * 3
    for name in ESTIMATES:
        for end in ("", "_lower", "_upper"):
            assert np.allclose(frame[name + end], contest.at_budgets[name + end], rtol=1e-6, equal_nan=True)
    assert (frame["replicates"] < frame["planned"]).sum() == 3  # of the setting that lost a cell
    assert frame.attrs["preset"] == "quick"
    assert frame.attrs["provenance"]["libraries"] == {"numpy": "2.4"}
    with pytest.raises(StudyError, match=r"'tyo'.*toy"):
        amc.study.load_results("tyo")


def test_what_ships_with_the_package_can_be_read():
    for path in sorted((published.files("approxmcmc.study") / published.FOLDER).iterdir()):
        frame = amc.study.load_results(path.name.removesuffix(".csv"))
        assert isinstance(frame, pd.DataFrame) and len(frame)
        assert frame.attrs["provenance"]["processor"] and frame.attrs["provenance"]["libraries"]["numba"]
        known = frame[frame["risk"].notna() & (frame["replicates"] > 1)]
        assert known[["risk_lower", "risk_upper"]].notna().all(axis=None)


def test_the_page_has_an_interval_with_every_estimate(made):
    _, page, _ = made
    [risks] = re.findall(r"### Risk at three budgets.*?</table>", page, flags=re.DOTALL)
    cells = re.findall(r'<td class="number">(.*?)</td>', risks)
    floors_and_times = 2
    with_interval = [cell for cell in cells if 'class="interval"' in cell]
    assert len(with_interval) + floors_and_times * 9 + sum(not cell for cell in cells) == len(cells)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "ValueError" in page and "<script>" not in page  # the failed cell, escaped
    for block in re.findall(r"```\{raw\} html\n(.*?)\n```", page, flags=re.DOTALL):
        assert "\n\n" not in block  # a blank line would end it


def test_the_page_names_its_pictures_which_need_no_other_file(made):
    _, page, numbers = made
    named = re.findall(r":file: (.*)", page)
    assert named == ["../pictures/toy.svg"]  # no foreign sampler, hence one figure of the risk
    text = (numbers.parents[1] / "pages" / named[0]).read_text(encoding="utf-8")
    drawn = xml.etree.ElementTree.fromstring(text)
    assert drawn.tag == f"{{{NAMESPACE}}}svg" and "currentColor" in text
    assert "http" not in text.replace(NAMESPACE, "")


def test_without_a_gold_standard_a_study_publishes_a_page_and_no_numbers(tmp_path):
    results = make_results()
    results.gold = None
    (tmp_path / "pictures" / "toy").mkdir(parents=True)
    (tmp_path / "pictures" / "toy" / "earlier.svg").touch()
    (tmp_path / "toy.csv").touch()
    [page] = publish(results, tmp_path, tmp_path / "pictures", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [page]
    text = page.read_text(encoding="utf-8")
    assert "## Cost" in text and "## Risk and clocks" not in text


def test_a_store_without_a_finished_cell_publishes_nothing(tmp_path):
    results = make_results()
    results.records = results.records.assign(status="missing")
    results.store = type("Store", (), {"folder": "results/toy-quick"})()
    with pytest.raises(StudyError, match="toy can be published: no cell is done"):
        publish(results, tmp_path / "pages", tmp_path / "pictures", tmp_path / "data")
    assert not list(tmp_path.iterdir())


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


def test_every_page_that_ships_is_listed_and_has_its_pictures():
    listed = (RESULTS / "index.md").read_text(encoding="utf-8")
    pages = [path for path in RESULTS.glob("*.md") if path.name != "index.md"]
    assert pages
    shown = []
    for page in pages:
        named = re.findall(r":file: (.*)", page.read_text(encoding="utf-8"))
        assert named[0] == f"../_static/results/{page.stem}.svg"
        shown += [(RESULTS / name).resolve() for name in named]
        assert f"({page.name})" in listed and f"\n{page.stem}\n" in listed
        assert "--store" not in page.read_text(encoding="utf-8")  # it would name a folder of one machine
    assert set(shown) == set((RESULTS.parent / "_static" / "results").rglob("*.svg"))
    assert sum(path.stat().st_size for path in [*shown, *pages]) < LARGEST_BYTES
