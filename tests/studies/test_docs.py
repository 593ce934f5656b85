"""The study of docs/studies.md is one that runs, and so is the code of docs/bias.md and of the front page."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.pyplot import close

import approxmcmc as amc
from approxmcmc.study import Budget
from approxmcmc.study.load import load_study
from approxmcmc.study.report import write_report
from tests.models import logistic
from tests.studies.toys import quiet_probe, toy_study

pytestmark = pytest.mark.core

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "studies.md"


@pytest.mark.slow
def test_the_study_of_the_documentation_runs_and_gives_its_page(tmp_path):
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "price_of_errors.py"
    path.write_text(code, encoding="utf-8")
    study = load_study(path)
    assert study.preset_names == ["smoke", "quick", "paper"]
    small = {"budget": Budget(draws=20), "tune": 10, "replicates": 1, "gold": None}
    small_study = dataclasses.replace(study, presets={"smoke": small})
    results = small_study.run("smoke", tmp_path / "results", probe=quiet_probe)
    assert results.records["status"].tolist() == ["done"] * 4
    assert "Standard deviation of the draws" in write_report(results, tmp_path / "report").read_text(encoding="utf-8")


@pytest.mark.statistical  # a gold standard by NUTS
def test_the_notebook_of_the_documentation_runs(tmp_path, monkeypatch):
    file, _, notebook = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "price_of_errors.py"
    path.write_text(file, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    scope = {"amc": amc, "study": load_study(path)}
    exec(compile(notebook, "docs/studies.md", "exec"), scope)
    assert scope["results"].records["status"].tolist() == ["done"] * 8


def test_a_users_own_sampler_of_the_documentation_draws_from_the_posterior(tmp_path):
    (_, code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    scope = {"__name__": "users_own"}
    exec(compile(code, "docs/studies.md", "exec"), scope)
    study = toy_study(targets={"logistic": _tiny_logistic}, samplers={"walk": scope["NumPyWalk"](0.3)}, replicates=1)
    study = dataclasses.replace(study, budget=Budget(draws=4000))
    results = study.run("smoke", tmp_path, probe=quiet_probe)
    assert results.records["status"].tolist() == ["done"]
    [[trace]] = results.traces().values()
    fit, beta = amc.laplace(_tiny_logistic()), trace["posterior"]["beta"].values[0]
    assert np.abs((beta.mean(axis=0) - fit.mode) / fit.sd).max() < 0.5  # a walk of the wrong density is off by more
    assert 0.0 < trace["sample_stats"]["perf_counter_diff"].sum() < 60.0


def _tiny_logistic():
    return logistic(40, 2)


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")  # of few draws
def test_the_code_of_the_page_on_biases_runs():
    """With few draws and audits in place of seconds, all else as printed."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "bias.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    target = logistic(40, 2)
    sampler = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target)), amc.SequentialTTest(0.3, 8))
    scope = {"amc": amc, "target": target, "sampler": sampler}
    for block in blocks:
        small = block.replace("draws=5000", "draws=60, progressbar=False").replace("seconds=30", "n_audits=40")
        assert small.count("n_audits=40") == small.count("draws=60") == 1, "the numbers that this test makes small"
        exec(compile(small, "docs/bias.md", "exec"), scope)
    assert blocks and scope["biases"].sizes["audit"] == 40
    close("all")


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_the_lines_of_the_front_page_run():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    X, y = amc.datasets.synthetic_logistic(500, 2, seed=1)
    scope = {"X": X, "y": y}
    exec(compile(code, "docs/index.md", "exec"), scope)
    assert scope["trace"].posterior.attrs["chosen"]
