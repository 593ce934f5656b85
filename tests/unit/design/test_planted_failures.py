"""What goes wrong in one candidate ends in an answer by another, with the reason in the table of the trace."""

import json

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.design import memory, target_profile
from approxmcmc.errors import NotFiniteError, SamplingWarning
from tests import pymc_zoo as zoo

pytestmark = [
    pytest.mark.needs_jit,  # NUTS by nutpie needs compiled functions
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning"),  # 200 draws are few
]
SHORT = {"draws": 200, "tune": 200, "random_seed": 1, "progressbar": False}
WALK, TRAJECTORIES = "random walk, exact test", "Hamiltonian trajectories, exact test"


def answer(target):
    """Return how a target was sampled, the verdict of every candidate, and the draws."""
    trace = amc.sample(target, **SHORT)
    attrs = trace["posterior"].attrs
    rows = json.loads(attrs["choice"])
    [chosen] = [row["candidate"] for row in rows if row["verdict"] == "chosen"]
    assert attrs["chosen"].startswith(chosen) and trace["posterior"].sizes["draw"] == SHORT["draws"]
    return chosen, {row["candidate"]: row["verdict"] for row in rows}, trace["posterior"]


def logistic(prior_scale=1.0, *, separable=False):
    """Return a logistic regression of 200 rows, with classes that a line separates or not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + (0.0 if separable else 1.0) * rng.logistic(size=200) > 0
    return amc.targets.LogisticRegression(X, y.astype(int), prior_scale=prior_scale)


def test_a_pilot_that_meets_nan_is_left_for_the_next_candidate(monkeypatch):
    def fail(*arguments, **settings):
        raise NotFiniteError("the log density is NaN at theta = [2.]")

    monkeypatch.setattr(target_profile, "normal_by_pilot", fail)
    monkeypatch.setattr(target_profile, "laplace", fail)
    chosen, verdicts, draws = answer(logistic())
    assert "NUTS" in chosen and np.isfinite(draws["beta"]).all()
    assert verdicts[TRAJECTORIES] == verdicts[WALK] == "not possible: the log density is NaN at theta = [2.]"


def test_an_improper_posterior_is_sampled_by_nuts_with_a_warning():
    with pytest.warns(SamplingWarning, match="choose_sampler: .* may be improper"):
        chosen, verdicts, _ = answer(logistic(np.inf, separable=True))
    assert "NUTS" in chosen
    assert "may be improper" in verdicts[TRAJECTORIES] and "may be improper" in verdicts[WALK]


def test_what_only_nuts_samples_says_why_the_others_cannot():
    chosen, verdicts, _ = answer(zoo.build(zoo.autoregression))
    assert "NUTS" in chosen
    others = {verdict for name, verdict in verdicts.items() if name != chosen}
    assert others == {
        "not possible: PyMC cannot write the log density of some rows of the AutoRegressive variable 'y' alone"
    }


def test_a_candidate_without_memory_leaves_the_table(monkeypatch):
    best, _, _ = answer(logistic())
    assert "NUTS" not in best
    monkeypatch.setattr(memory, "all_memory", lambda: 1e2)
    chosen, verdicts, _ = answer(logistic())
    assert "NUTS" in chosen and "GB of memory, and may take" in verdicts[best]


def test_a_candidate_that_runs_out_of_memory_is_left_for_the_next(monkeypatch):
    def fail(*arguments, **settings):
        raise MemoryError("cannot allocate 8 GB")

    monkeypatch.setattr(target_profile, "laplace", fail)
    chosen, verdicts, _ = answer(logistic())
    assert chosen in (WALK, TRAJECTORIES)
    assert verdicts["independent draws and a walk, exact test"].endswith("cannot allocate 8 GB")
