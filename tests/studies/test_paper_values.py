"""A study declares published numbers, and its report compares them with ours."""

import math

import numpy as np
import pytest

from approxmcmc.errors import StudyError
from approxmcmc.study import PaperValue
from approxmcmc.study.measures import MEASURES
from approxmcmc.study.report.clocks import WALL
from approxmcmc.study.report.evidence import Contest
from approxmcmc.study.report.intervals import mean_interval, rate_interval
from approxmcmc.study.report.published import measured, published_section
from approxmcmc.study.report.wording import data_order
from tests.fakes import fake_trace
from tests.studies.toys import ToyTarget, quiet_probe, toy_sample, toy_study

EXACT, LOOSE = "walk[epsilon=0.0]", "walk[epsilon=0.2]"


def largest(trace):
    """Return the largest coordinate of any draw, made positive so that ratios of it exist."""
    return float(np.abs(trace["posterior"]["beta"]).max())


def value(number=1.5, **changes):
    fields = {"measure": "largest", "setting": EXACT}
    return PaperValue(number, "1", "table 9", **{**fields, **changes})


def study(**values):
    return toy_study(replicates=5, measures={"largest": largest}, paper_values=values)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"setting": "walk[epsilon=0.3]"}, r"'first' needs `setting`, one of \['walk\[epsilon=0.0\]'.*found 'walk"),
        ({"measure": "smallest"}, r"needs `measure`, one of \['steps per second', .*'largest'\]; found 'sm"),
        ({"relative_to": "exact"}, r"needs `relative_to`, one of \['walk\[epsilon=0.0\]'"),
        ({"target": "curved"}, r"needs `target`, one of \['plain'\]; found 'curved'"),
    ],
)
def test_a_value_of_a_row_that_does_not_exist_is_an_error_that_names_those_that_do(changes, complaint):
    with pytest.raises(StudyError, match=complaint):
        study(first=value(**changes))


def test_a_preset_without_the_setting_of_a_value_is_an_error_when_it_is_asked_for():
    declared = study(first=value(setting=LOOSE))
    with pytest.raises(StudyError, match="needs `setting`"):
        toy_study(
            measures=declared.measures,
            paper_values=declared.paper_values,
            presets={"exact": {"samplers": {"exact": declared.settings()[0].sampler}}},
        ).with_preset("exact")


def test_of_several_targets_a_value_must_name_one():
    targets = {"plain": ToyTarget, "large": ToyTarget}
    with pytest.raises(StudyError, match=r"needs `target`, one of \['plain', 'large'\]; found ''"):
        toy_study(targets=targets, measures={"largest": largest}, paper_values={"first": value()})


def test_values_and_measures_are_checked_when_they_are_declared():
    with pytest.raises(StudyError, match="finite"):
        value(math.nan)
    with pytest.raises(StudyError, match="finite `margin` >= 0"):
        value(margin=-0.1)
    with pytest.raises(StudyError, match="needs `printed`"):
        PaperValue(1.0, "1", "", measure="largest", setting=EXACT)
    with pytest.raises(StudyError, match="every study has the measures"):
        toy_study(measures={"acceptance": largest})


def test_the_table_sets_ours_beside_the_papers(tmp_path):
    declared = study(
        mean=value(1.5),
        ratio=value(2.0, setting=LOOSE, relative_to=EXACT, differs="other data"),
        speed=value(100.0, measure="steps per second", machine=True),
    )
    unfinished = published_section(declared.results("paper", tmp_path))[0]
    assert unfinished.pieces[0].data["comparable?"][0] == "no finished cell"
    assert "No number can be compared" in unfinished.text[1]

    results = declared.run("paper", tmp_path, sample=toy_sample, probe=quiet_probe)
    traces = results.traces()
    ours, loose = ([largest(trace) for trace in traces["plain", label]] for label in (EXACT, LOOSE))
    [section] = published_section(results)
    table = section.pieces[0].data.set_index("what")
    expected = mean_interval(ours)
    assert tuple(table.loc["mean", ["ours", "ours_lower", "ours_upper"]]) == tuple(expected)
    assert table.loc["mean", "difference"] == pytest.approx(expected.value - 1.5)
    assert table.loc["mean", "difference_upper"] == pytest.approx(expected.upper - 1.5)
    assert table.loc["mean", "comparable?"] == "yes"
    paired = rate_interval([b / a for a, b in zip(ours, loose, strict=True)])
    assert measured(results, declared.paper_values["ratio"]) == paired
    assert table.loc["ratio", "comparable?"] == "other data"
    assert table.loc["speed", "comparable?"] == "no: it depends on machine and code"
    assert math.isnan(table.loc["speed", "difference"])
    assert table.loc["speed", "ours"] > 0.0
    inside = sum(
        table.loc[name, "difference_lower"] <= 0 <= table.loc[name, "difference_upper"] for name in ("mean", "ratio")
    )
    assert f"contains {inside} of 2 comparable numbers" in section.text[1]
    assert published_section(toy_study().results("paper", tmp_path / "none")) == []


def test_the_measures_that_every_study_has():
    stats = {
        "perf_counter_diff": np.full((1, 4), 0.5),
        "acceptance_rate": np.array([[0.0, 0.5, 1.0, 0.5]]),
        "datapoints_touched": np.full((1, 4), 30),
        "decisions_made": np.full((1, 4), 2),
        "decisions_audited": np.array([[1, 0, 1, 2]]),
        "wrong_decisions": np.array([[1, 0, 0, 0]]),
    }
    trace = fake_trace(np.zeros((1, 4, 2)), stats=stats, n_obs=60, attrs={"thin": 3})
    found = {name: measure(trace) for name, measure in MEASURES.items()}
    assert found == {
        "steps per second": 6.0,
        "acceptance": 0.5,
        "data per decision": 0.25,
        "wrong decisions": 0.25,
    }


def test_the_design_says_in_which_order_the_data_are_read():
    def contest(name, **attrs):
        traces = {label: [fake_trace(np.zeros((1, 4, 2)))] for label in attrs}
        for label, found in traces.items():
            found[0]["posterior"].attrs.update(attrs[label])
        return Contest(name, None, None, traces, None, WALL, np.ones(3))

    rows, blocks = {"data_order": "rows"}, {"data_order": "blocks", "block_size": 512}
    said = data_order([contest("digits", a=rows, b=blocks, c={}, d=rows)], {})
    assert said.startswith("fresh random rows for every decision: a, d; blocks of 512 rows of a shuffled copy")
    assert said.endswith("rows that the sampler draws by itself, or there are no decisions: c")
    assert data_order([contest("digits", a=rows)], {}) == "fresh random rows for every decision (all settings)"
    assert "a on digits, a on letters" in data_order([contest(n, a=rows, b=blocks) for n in ("digits", "letters")], {})
    assert data_order([], {}) == ""
