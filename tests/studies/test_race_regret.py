"""The default choice in hindsight: its arithmetic on made-up times, and one model from end to end."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from studies.race import regret as module
from studies.race.regret import in_hindsight, markdown, run, seconds_of_draws, table


def made_up(model, chosen, **seconds):
    return {"model": model, "n_obs": 1000, "dim": 3, "chosen": chosen, "seconds": seconds, "failed": {}}


def test_regret_is_the_time_of_the_chosen_to_the_least_of_the_medians():
    best = made_up("a", "walk", walk=[1.0, 2.0, 30.0], mala=[3.0, 3.0, 3.0])
    worse = made_up("b", "walk", walk=[3.0], mala=[1.5])
    rows = table([best, worse, {"model": "c", "error": "IncompatibleError: no"}]).set_index("model")
    assert rows["regret"].tolist()[:2] == [1.0, 2.0]
    assert rows.loc["b", "best"] == "mala" and rows.loc["c", "failed"] == "IncompatibleError: no"
    page = markdown(rows.reset_index())
    assert "| the same | 2 | 1.00 |" in page and "| mala | 1.5 | 2.00 |" in page
    assert "Regret over 2 models: median 1.50, largest 2.00." in page


def test_a_model_with_an_answer_is_not_run_again_and_a_failure_is(tmp_path, monkeypatch):
    asked = []

    def one(model, limit, rounds, seed):
        asked.append(model)
        return (
            {"model": model, "error": "killed"}
            if asked.count("b") == 1 and model == "b"
            else made_up(model, "w", w=[1.0])
        )

    monkeypatch.setattr(module, "in_a_process", one)
    settings = {"limit": 1.0, "rounds": 1, "seed": 1}
    run(["a", "b"], tmp_path, **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "regret.csv"]
    assert run(["a", "b"], tmp_path, **settings)["model"].tolist() == ["a", "b"]
    assert asked == ["a", "b", "b"]
    assert json.loads((tmp_path / "b.json").read_text())["chosen"] == "w"


def test_a_limit_that_tuning_takes_is_no_quick_answer(monkeypatch):
    empty = xr.Dataset({"theta": (("chain", "draw"), np.empty((2, 0)))}, attrs={"smallest_ess": 0.0})
    trace = xr.DataTree.from_dict({"posterior": empty})
    monkeypatch.setattr(module.amc, "sample", lambda *given, **settings: trace)
    setting = SimpleNamespace(target=None, sampler=None, fit=None)
    assert seconds_of_draws(setting, limit=1.0, seed=1) == math.inf


@pytest.mark.needs_jit
@pytest.mark.recompiles
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")  # of runs that the limit cuts off
@pytest.mark.parametrize("floor", [0.0, math.inf])
def test_a_model_in_hindsight(floor, monkeypatch):
    """What cannot beat the least time so far is not run: of floors of 0 nothing is left out, of infinite ones all."""
    monkeypatch.setattr(module, "_seconds_at_best", lambda one, known: floor)
    found = in_hindsight("smoke", limit=2.0, rounds=1, seed=1)
    assert found["chosen"] in found["seconds"] and (len(found["seconds"]) > 2) is (floor == 0.0)
    assert all(seconds > 0.0 for values in found["seconds"].values() for seconds in values)
    assert all(("cannot be the best" in reason) is (floor > 0.0) for reason in found["failed"].values())
