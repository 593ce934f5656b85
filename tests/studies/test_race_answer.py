"""The race to an answer: its arithmetic on made-up answers, a process that fails, and a tiny one from end to end."""

import json

import numpy as np
import pandas as pd
import pytest

from studies.race import answer as module
from studies.race.answer import OURS, in_a_process, seconds_to_enough, shift, table
from studies.race.models import FAMILIES, MODELS, regression, varying_intercepts

DIM = 5


def made_up(who, *, spent, setup, ess, mean=0.0):
    names = [f"beta[{k}]" for k in range(DIM)]
    moments = {"names": names, "ess": [ess] * DIM, "mean": [mean] * DIM, "sd": [2.0] * DIM}
    return {"model": "one", "who": who, "sampler": who, "spent": spent, "setup": setup, **moments}


def test_only_the_time_of_draws_is_scaled():
    assert seconds_to_enough(made_up("nutpie", spent=30.0, setup=10.0, ess=800.0)) == 20.0
    assert seconds_to_enough(made_up("nutpie", spent=30.0, setup=10.0, ess=100.0)) == 90.0
    assert seconds_to_enough(made_up(OURS, spent=3.0, setup=0.0, ess=500.0)) == 3.0  # it stops by itself
    assert seconds_to_enough(made_up(OURS, spent=3.0, setup=0.0, ess=200.0)) == 6.0  # cut off by its limit
    assert seconds_to_enough(made_up("nutpie", spent=30.0, setup=10.0, ess=0.0)) == np.inf


def test_shifts_are_in_posterior_sds_beside_what_noise_would_give():
    reference = made_up("nutpie", spent=1.0, setup=0.0, ess=400.0)
    found, expected = shift(made_up(OURS, spent=1.0, setup=0.0, ess=400.0, mean=0.5), reference)
    assert found == 0.25
    # the 95 % quantile of the largest of five normal variables is 2.569; 4000 draws give it to 0.03
    assert expected == pytest.approx(2.569 * np.sqrt(2.0 / 400.0), rel=0.05)


def test_the_reference_is_exact_and_a_failure_has_its_reason():
    ours, theirs = (made_up(who, spent=1.0, setup=0.0, ess=ess) for who, ess in ((OURS, 400.0), ("nutpie", 900.0)))
    fitted = made_up("PyMC ADVI", spent=1.0, setup=0.0, ess=1000.0, mean=1.0)
    failed = {"model": "one", "who": "PyMC NUTS", "error": "MissingExtraError: no"}
    rows = table([ours, theirs, fitted, failed]).set_index("who")
    assert rows.loc["nutpie", "shift"] == 0.0 and rows.loc["PyMC ADVI", "shift"] == 0.5
    assert rows.loc["PyMC NUTS", "failed"] == "MissingExtraError: no" and np.isnan(rows.loc["PyMC NUTS", "seconds"])


def test_a_process_that_fails_says_why():
    told = in_a_process("smoke", "nobody", 1.0, 1)
    assert told["error"] == "KeyError: 'nobody'"


@pytest.mark.needs_jit
@pytest.mark.recompiles
@pytest.mark.parametrize("make", [*FAMILIES, varying_intercepts])
def test_models_are_what_their_names_say(make):
    pytest.importorskip("pymc")
    model = make(300) if make is varying_intercepts else regression(make, 300)
    density = model.compile_logp(mode="FAST_COMPILE")(model.initial_point())
    assert np.isfinite(density) and len(model.observed_RVs) == 1
    assert any("pymc" in name for name in MODELS)


@pytest.mark.needs_jit
@pytest.mark.recompiles
def test_a_tiny_race_runs_from_end_to_end(tmp_path):
    module.run("smoke", tmp_path, rivals=[OURS])
    rows = pd.read_csv(tmp_path / "answers.csv")
    assert rows["cache"].tolist() == ["cold", "warm"] and (rows["ess"] >= 400).all()
    cold, warm = json.loads((tmp_path / "answers.json").read_text())
    assert cold["mean"] == warm["mean"]  # one seed
    assert 0 < rows["seconds"][1] < rows["seconds"][0]  # compilation
