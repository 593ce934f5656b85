"""The study of docs/studies.md is one that runs."""

import dataclasses
import re
from pathlib import Path

import pytest

from approxmcmc.study import Budget
from approxmcmc.study.load import load_study
from approxmcmc.study.report import write_report
from tests.studies.toys import quiet_probe

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


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
