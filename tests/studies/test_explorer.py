"""The figure that a reader explores: its table, its texts on the page, and what a real browser shows."""

import html.parser
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from approxmcmc.study.report import explorer as explorer_room
from approxmcmc.study.report.cells import table_view
from approxmcmc.study.report.content import explorer_sections, risk_sections
from approxmcmc.study.report.document import Report
from approxmcmc.study.report.explorer import content, explorer
from approxmcmc.study.report.figures import risk_against_time
from approxmcmc.study.report.intervals import Interval
from approxmcmc.study.report.latex import latex, latex_table
from approxmcmc.study.report.page import page_text
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.scores import STANDARD, Scores
from approxmcmc.study.report.svg import svg_document
from tests.studies.browser import dumped, needs_browser

SCRIPT = "</script><script>document.title = 'hacked'</script>"
IMAGE = "<img src=x onerror=\"document.title='hacked'\">"
MATHS = "$$x^2$$"  # Bokeh would ask the network for a library that draws it
TIMES = (1.0, 2.0, 4.0)


def scores_of(target="toy", settings=("exact", "fast"), estimands=(STANDARD, "slope"), *, data=True, waits=False):
    """Return scores whose risk is 0.04 / time for the first setting, four times as much for the next."""
    over_time = pd.DataFrame(
        [
            {"setting": setting, "estimand": estimand, "time": time, "floor": 1e-4}
            | Interval(*(factor * 0.04 * 4.0**k / time for factor in (1.0, 0.25, 4.0))).columns("risk")
            | Interval(*(factor * 0.01 * 4.0**k for factor in (1.0, -1.0, 4.0))).columns("bias_sq")
            | Interval(*(factor * 0.03 * 4.0**k / time for factor in (1.0, 0.25, 4.0))).columns("variance")
            for k, setting in enumerate(settings)
            for estimand in estimands
            for time in TIMES
        ]
    )
    at_budgets = over_time.assign(replicates=8, planned=8, **Interval(1.0, 1.0, 1.0).columns("ratio"))
    touched = over_time.rename(columns={"time": "datapoints_touched"})
    return Scores(
        target,
        settings[0],
        at_budgets,
        over_time=over_time,
        over_data=touched if data else None,
        waits={settings[0]: 0.0, settings[1]: 10.0} if waits else {},
    )


def page_of(*scores, pictures=False):
    """Return the text of a page that has the figure and, if asked for, the pictures of the first scores."""
    own = risk_sections(scores[0], several=True)[:1] if pictures else []
    return page_text(Report("T", "S", (), ("Answer.",), (*explorer_sections(scores), *own)))


class Elements(html.parser.HTMLParser):
    """Collect the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_every_curve_is_in_one_tidy_table():
    piece = explorer([scores_of(waits=True), scores_of("other", data=False)])
    counts = piece.data.groupby(["target", "axis"], sort=False).size()
    clock = "wall time per chain (s)"
    assert list(counts.index) == [
        ("toy", clock),
        ("toy", f"compilation, and {clock}"),
        ("toy", "data points touched per chain"),
        ("other", clock),
    ]
    assert (counts == 2 * 2 * len(TIMES)).all()
    shifted = piece.data[piece.data["axis"].str.startswith("compilation") & (piece.data.setting == "fast")]
    assert sorted(set(shifted["at"])) == [10.0 + time for time in TIMES]
    assert list(piece.styles) == ["exact", "fast"]


def test_numbers_reach_the_page_as_they_are_and_what_is_not_finite_as_null():
    scores = scores_of()
    scores.over_time.loc[0, "risk_upper"] = math.inf
    scores.over_time.loc[1, "risk"] = math.nan
    parts = json.loads(content(explorer([scores])))
    [target] = parts["targets"]
    first = target["axes"][0]["estimands"][0]
    assert first["name"] == STANDARD and first["unit"] == " of the error of one draw" and first["floor"] == 1e-4
    exact = first["curves"][0]
    assert exact["at"] == list(TIMES)
    assert exact["risk"] == [0.04, None, 0.01] and exact["risk_upper"] == [None, 0.08, 0.04]
    assert exact["bias_sq_lower"] == [-0.01] * 3


def test_a_study_with_very_many_estimands_shows_the_first_ones():
    piece = explorer([scores_of(estimands=tuple(f"theta[{k}]" for k in range(400)))])
    assert piece.data.estimand.nunique() == explorer_room.MOST_CURVES // 4
    assert piece.caption.endswith("The first 150 of 400 estimands.")


@pytest.mark.thorough
def test_names_cannot_put_scripts_into_a_page():
    hostile = scores_of(SCRIPT, (IMAGE, SCRIPT), (STANDARD, MATHS))
    tags = Elements(page_of(hostile, pictures=True)).tags
    assert not set("<>&") & set(content(explorer([hostile])))
    assert tags.count("script") == 4 and "img" not in tags  # curves, tables, Bokeh, choices
    parts = json.loads(content(explorer([hostile])))
    assert [setting["name"] for setting in parts["settings"]] == [IMAGE, SCRIPT]
    drawn = json.dumps(parts["drawing"])  # the texts that Bokeh itself holds
    assert SCRIPT not in drawn and "onerror" not in drawn and MATHS not in drawn


@pytest.mark.thorough
def test_without_bokeh_a_page_has_its_pictures(monkeypatch):
    with_it = page_of(scores_of())
    monkeypatch.setattr(explorer_room.importlib.util, "find_spec", lambda name: None)
    page = page_of(scores_of(), pictures=True)
    assert "Bokeh" not in page and "Explore" not in page and "<svg" in page
    assert len(page) < 300_000
    assert 1_000_000 < len(with_it) < 2_500_000


def test_many_settings_have_every_dash_and_colour():
    names = tuple(f"setting {k}" for k in range(12))
    parts = json.loads(content(explorer([scores_of(settings=names)])))
    assert len(parts["settings"]) == 12 and len({setting["colour"] for setting in parts["settings"]}) > 1


def test_what_is_not_judged_is_not_explored():
    assert explorer([]) is None and explorer_sections([Scores("toy", None, pd.DataFrame())]) == []


@pytest.mark.thorough
def test_each_figure_and_table_is_also_a_file_for_a_paper(tmp_path):
    table = Table("Rows", "", pd.DataFrame({"setting": ["t_test"], **{f"risk{end}": [0.04] for end in ("", "_lower")}}))
    table.data["risk_upper"] = 0.08
    figure = risk_against_time(scores_of())
    stored = Figure("Stored", "", svg_document(figure.figure), figure.data)
    section = Section("S", pieces=(figure, stored, table, *explorer_sections([scores_of()])[0].pieces))
    report = Report("T", "", (), (), (section,), worded=lambda text: text.replace("t_test", "50 % test"))
    page = report.write(tmp_path).read_text("utf-8")
    listed = {path.name for path in tmp_path.rglob("*.*")} - {"index.html"}
    assert listed == set(re.findall(r'href="(?:figures|tables)/([^"]+)"', page))
    assert {"rows.csv", "rows.tex", "risk-against-time-toy.pdf", "stored.svg", "explore-the-curves.csv"} <= listed
    assert "stored.pdf" not in listed
    assert (tmp_path / "figures" / "risk-against-time-toy.pdf").read_bytes().startswith(b"%PDF")
    assert report.latex("Rows") == (tmp_path / "tables" / "rows.tex").read_text("utf-8")
    assert r"50 \% test & 0.040 [0.040, 0.080] \\" in report.latex("Rows")
    assert len(report.table("Explore the curves")) == 24


def test_latex_escapes_what_it_would_read_as_a_command():
    text = latex(r"\input{a}_b & 5 % #1 ~ ^ $x$ −2.5×10⁻¹²")
    assert text == (
        r"\textbackslash{}input\{a\}\_b \& 5 \% \#1 \textasciitilde{} \textasciicircum{} \$x\$ "
        r"\ensuremath{-}2.5\ensuremath{\times}10\ensuremath{^{-12}}"
    )
    rows = Table("T", "", pd.DataFrame({"a_b": [1, 2], "c": ["x", ""]}), headings={"c": "100 %"})
    assert latex_table(rows).splitlines() == [
        r"\begin{tabular}{rl}", r"\toprule", r"a b & 100 \% \\", r"\midrule", r"1 & x \\", r"2 &  \\", r"\bottomrule",
        r"\end{tabular}",
    ]  # fmt: skip
    assert len(table_view(rows)["rows"]) == 2


# The pointer moves over the second point of the second setting; the script writes into the title what the page shows.
DRIVER = """
<script>
function waited(ms) { return new Promise(function (resolve) { setTimeout(resolve, ms); }); }
function texts(root, into) {
  root.querySelectorAll("*").forEach(function (each) { if (each.shadowRoot) { texts(each.shadowRoot, into); } });
  root.querySelectorAll(".bk-tooltip-row-value").forEach(function (each) { into.push(each.innerText); });
  return into;
}
function pick(key, index) {
  var select = document.querySelector("select[data-choice=" + key + "]");
  select.value = index;
  select.dispatchEvent(new Event("change"));
}
function rows() {
  var shown = Array.from(document.querySelectorAll(".samplers label")).filter(function (row) { return !row.hidden; });
  return shown.map(function (row) { return row.innerText.trim(); });
}
function source(index) { return Bokeh.documents[0].get_model_by_name("curve " + index); }
async function pointed(at, y) {
  var plot = Bokeh.index.roots[0], frame = plot.frame, area = plot.canvas.el.getBoundingClientRect();
  var x = area.left + frame.x_scale.compute(at), top = area.top + frame.y_scale.compute(y);
  var over = plot.canvas.events_el;
  ["pointerenter", "pointermove"].forEach(function (kind) {
    over.dispatchEvent(new PointerEvent(kind, { clientX: x, clientY: top, bubbles: true, composed: true,
      pointerId: 1, pointerType: "mouse", isPrimary: true }));
  });
  await waited(400);
  return texts(document, []).join(" | ").replace(/\\s+/g, " ");
}
(async function () {
  var told = {};
  await waited(1500);
  told.axes = [Bokeh.documents[0].get_model_by_name("drawing").below[0].axis_label,
    Bokeh.documents[0].get_model_by_name("drawing").left[0].axis_label];
  told.error = source(1).data.y;
  told.hover = await pointed(2, Math.sqrt(0.08));
  pick("quantity", 1);
  told.risk = source(1).data.y;
  pick("quantity", 2);
  told.band = source(1).data.lower;
  pick("target", 1);
  told.others = rows();
  var axes = document.querySelectorAll("select[data-choice=axis] option");
  told.targets = Array.from(axes).map(function (option) { return option.text; });
  pick("target", 0);
  pick("axis", 1);
  told.second = Bokeh.documents[0].get_model_by_name("drawing").below[0].axis_label;
  document.querySelectorAll(".samplers input")[0].click();
  told.visible = [0, 1].map(function (k) { return Bokeh.documents[0].get_model_by_name("line " + k).visible; });
  told.names = rows();
  told.loaded = performance.getEntriesByType("resource").length;
  told.title = document.title;
  told.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.title = JSON.stringify(told);
})();
</script></body>"""


@pytest.mark.slow
@pytest.mark.thorough
@needs_browser
@pytest.mark.parametrize("width", [500, 1400])
def test_a_browser_shows_the_interval_under_the_pointer_and_runs_no_name(tmp_path, width):
    page = tmp_path / "index.html"
    drawn = page_of(scores_of(SCRIPT, ("exact", IMAGE), (STANDARD, MATHS)), scores_of("other", data=False))
    page.write_text(drawn.replace("</body>", DRIVER), encoding="utf-8")
    document = dumped(page, f"--window-size={width},2000", "--virtual-time-budget=10000")
    title = re.search(r"<title>(\{.*?\})</title>", document)
    assert title is not None, document[:300]
    told = json.loads(html.unescape(title[1]))
    assert told["title"] == "T" and told["loaded"] == 0  # no name became a script, nothing was asked of a network
    assert told["axes"] == ["wall time per chain (s)", "typical error (root of the risk)"]
    np.testing.assert_allclose(told["error"], np.sqrt([0.16, 0.08, 0.04]), rtol=1e-4)
    np.testing.assert_allclose(told["risk"], [0.16, 0.08, 0.04])
    np.testing.assert_allclose(told["band"], [0.01 / 3.0] * 3, rtol=1e-4)  # its lower end is negative
    assert f"{IMAGE}" in told["hover"] and "0.283 [0.141, 0.566] of the error of one draw" in told["hover"]
    assert "at 2.00 s" in told["hover"]
    assert told["targets"] == ["wall time per chain (s)"] and told["second"] == "data points touched per chain"
    assert told["names"] == ["exact", IMAGE] and told["others"] == ["exact", "fast"]
    assert told["visible"] == [False, True]
    assert told["wide"] <= 0  # the page does not scroll sideways
