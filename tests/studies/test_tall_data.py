"""The tall-data benchmark: its parts, and what the time of our samplers includes."""

import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from approxmcmc.study.load import load_study
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.scores import Scores
from approxmcmc.study.report.who_wins import who_wins
from approxmcmc.study.results import StudyResults
from approxmcmc.study.run import run_study
from studies.tools import against_nuts, on_the_clock, tall_models
from studies.tools.in_laplace_metric import InLaplaceMetric, influential_rows
from studies.tools.on_the_clock import OnTheClock
from studies.tools.tall_samplers import surrogate
from tests.fakes import fake_trace
from tests.studies import test_report
from tests.studies.test_foreign_cells import ForeignWalk
from tests.studies.test_report import make_results

STUDY = Path(__file__).parents[2] / "studies" / "tall_data.py"


def test_every_setting_is_another_one_and_belongs_to_a_family():
    study = load_study(STUDY)
    described = {name: json.dumps(sampler.to_dict(), sort_keys=True) for name, sampler in study.samplers.items()}
    assert len(set(described.values())) == len(described) == 24
    for preset in study.preset_names:
        chosen = study.with_preset(preset)
        assert set(chosen.samplers) <= set(study.kinds)
        assert preset == "smoke" or set(chosen.targets) <= set(study.targets)


def test_the_published_preset_takes_at_most_three_hours_of_two_cores():
    study = load_study(STUDY).with_preset("published")
    cells = len(study.targets) * len(study.samplers) * study.replicates
    assert cells * 2 * study.budget.seconds / 2 <= 3 * 3600  # as long again for compilation and set-up


def test_customers_are_simulated_as_the_model_says():
    """Of customers who never buy again, the share is that of the law of the BG/NBD model given T; N = 20 000.

    P(x = 0 | T) = (alpha / (alpha + T))^r has mean .59 here; its standard error is .0035, and five of them are allowed.
    No purchase is after the end, and every buyer has a last purchase.
    """
    x, last, span = tall_models._purchases(20_000)
    assert np.mean(x == 0) == pytest.approx(np.mean((4.4 / (4.4 + span)) ** 0.24), abs=5 * 0.0035)
    assert ((last > 0) == (x > 0)).all() and (last <= span).all()


def test_setup_stands_on_the_clock_once_and_compilation_outside():
    made = []

    def draw(count):
        made.append(count)
        attrs = {"tuning_perf_counter_diff": [0.5], "sampling_time": 2.0, "setup_mode_seconds": 0.25}
        attrs |= {"setup_pilot_seconds": 1.0, "setup_compile_seconds": 9.0}
        trace = fake_trace(np.zeros((1, count, 2)))
        trace["sample_stats"].attrs.update(attrs)
        return trace

    attrs = on_the_clock.on_the_clock(draw, 7, "mode", "pilot", "expansion")["sample_stats"].attrs
    assert made == [1, 7]
    assert attrs["tuning_perf_counter_diff"] == [0.5 + 1.25]
    assert attrs["sampling_time"] == 2.0 + 1.25
    assert attrs["setup_compile_seconds"] == 0.0  # the first call took less than its own sampling, in this fake


@pytest.mark.parametrize("replicates", [4, 6])
def test_who_wins_names_the_least_risk_and_all_that_cannot_be_told_from_it(replicates, monkeypatch):
    """With four replicates there are no intervals, and nothing is ranked."""
    monkeypatch.setattr(test_report, "REPLICATES", replicates)
    [contest] = gather(make_results())
    families = dict.fromkeys(contest.settings, "one")
    assert who_wins([contest], {}) == []
    found = who_wins([contest], families)
    if replicates < 5:
        assert found == []
        return
    [section] = found
    table = section.pieces[1].data.query("estimand == 'probability'")
    assert list(table["data"]) == ["toy"] * 3
    last, winner = contest.at_last_budget("probability"), table.iloc[-1]
    assert winner["winner"] == last.risk.idxmin() and winner["risk"] == last.risk.min()
    near = {label for label in last.index if not last.risk_lower[label] > winner["risk_upper"]}
    assert near <= {
        winner["winner"],
        *(label for label in last.index if label in winner["no less"]),
    }  # at a family rate


def test_a_rival_enters_with_the_file_of_the_documentation(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_library", SimpleNamespace(MySampler=ForeignWalk))
    page = (STUDY.parents[1] / "docs" / "results" / "enter.md").read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "MySampler" in block]
    scope = {}
    exec(code, scope)
    rival, suite = scope["study"].with_preset("published"), load_study(STUDY).with_preset("published")
    assert set(rival.samplers) - set(load_study(STUDY).samplers) == {"mine"}
    assert (rival.targets.keys(), rival.budget, rival.gold) == (suite.targets.keys(), suite.budget, suite.gold)
    assert "mala" in rival.samplers and scope["study"].preset_names[0] == "published"


@pytest.mark.slow
def test_a_sampler_on_the_clock_draws_from_the_posterior_of_its_target():
    target = load_study(STUDY).with_preset("smoke").target("logistic")
    sampler = OnTheClock(InLaplaceMetric(surrogate(on_the_clock.amc.ExactTest()), influential_rows), tune=50)
    fit = on_the_clock.laplace_of(target)
    trace = sampler.draw_chain(target, seconds=None, draws=300, seed=1, initial=fit.draw(np.random.default_rng(1)))
    beta = trace["posterior"]["beta"].values[0]
    assert np.abs((beta.mean(axis=0) - fit.mode) / fit.sd).max() < 0.6
    attrs = trace["sample_stats"].attrs
    setup = [attrs[f"setup_{part}_seconds"] for part in ("pilot", "expansion")]
    assert min(setup) > 0.0 and attrs["tuning_perf_counter_diff"][0] >= sum(setup)
    assert attrs["target_content_hash"] != ""


@pytest.mark.slow
@pytest.mark.needs_jit
def test_the_smoke_preset_runs_to_its_page(tmp_path):
    study = load_study(STUDY)
    outcome = run_study(study, "smoke", tmp_path)
    assert outcome.statuses == {"done": 12} and outcome.exit_code == 0
    results = StudyResults.open(study, "smoke", tmp_path)
    assert {contest.target for contest in gather(results)} == {"mnist_7v9", "logistic"}


def test_the_picture_of_nuts_and_influential_rows_says_who_has_less_risk(monkeypatch):
    """Four posteriors at one time: NUTS is worse, better, not told apart, and without a draw."""
    planted = {
        "worse": (1.0, 80.0, 60.0, 110.0),
        "better": (1.0, 0.1, 0.08, 0.12),
        "open": (1.0, 2.0, 1.05, 4.0),  # above 1 alone, but not with all verdicts of the picture together
        "late": (math.nan, math.nan, math.nan, math.nan),
    }
    contests = []
    for name, (risk, *ratio) in planted.items():
        own = dict(zip(("ratio", "ratio_lower", "ratio_upper"), ratio, strict=True))
        rows = [
            {"setting": "core_exact", "risk": 1.0, "ratio": 1.0, "ratio_lower": 1.0, "ratio_upper": 1.0},
            {"setting": "nutpie", "risk": risk} | own,
        ]
        if name == "worse":  # a fit that is better than both
            rows.append({"setting": "laplace", "risk": 0.1, "ratio": 0.1, "ratio_lower": 0.05, "ratio_upper": 0.2})
        table = pd.DataFrame([row | {"estimand": "posterior means", "time": 98.0} for row in rows])
        contests.append(Scores(name, "core_exact", table))
    monkeypatch.setattr(against_nuts, "gather", lambda results: contests)
    budgets = {"worse": 1000.0}
    study = SimpleNamespace(budget_of=lambda name: SimpleNamespace(seconds=budgets.get(name, 100.0)), names={})
    results = SimpleNamespace(target=lambda name: SimpleNamespace(n_obs=1000), study=study)
    figure, table = against_nuts.against_nuts(results)
    assert table.data["less risk"].tolist() == ["influential rows", "NUTS", "not established", "influential rows"]
    assert table.data["no draw yet"].tolist() == ["", "", "", "nutpie"]
    assert figure.data.about.tolist() == ["1000 s", "100 s", "100 s", "100 s"]
    assert [tick.get_text() for tick in figure.figure.axes[0].get_xticklabels()] == [
        "after about 100 s",
        "after about 1000 s",
    ]
    told = [text.get_text() for text in figure.figure.axes[0].texts]
    assert told[:3] == ["influential rows", "80 [60, 110] times", "Laplace approximation less"]
    assert told[-1] == "NUTS: no draw yet" and sum(table.data["Laplace below both"]) == 1
