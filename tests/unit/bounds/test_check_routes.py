"""How `check_bound` finds an error where no matrix is known, and what it says of the way it took."""

import math

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.bounds import check
from tests.models import logistic

FIELD = amc.targets.BinaryMRF.random_triples(4, scale=0.3, random_seed=0)
WALK = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.2, 20))
CONSTANTS = {"b5_factor": 1.5}


@pytest.mark.parametrize(
    ("target", "finite", "said"),
    [
        (FIELD, True, "on all states"),
        (FIELD, False, "replicated decisions"),
        (logistic(30), True, "on the grid"),
        (logistic(30), False, "replicated decisions"),
    ],
)
def test_the_route_is_told(target, finite, said):
    assert said in check._route(target, finite)


@pytest.mark.parametrize(
    ("target", "sampler", "decisions"), [(logistic(30), WALK, 1), (FIELD, amc.Gibbs(amc.SequentialTTest(0.2, 3)), 4)]
)
@pytest.mark.parametrize("n_pairs", [1, 7])
def test_a_bound_by_replicated_decisions_is_heuristic(target, sampler, decisions, n_pairs, monkeypatch):
    """Delta over sampled pairs is no supremum: b5 = factor x decisions of a step x Delta inherits that."""
    asked = []

    def estimated(*given, **settings):
        asked.append(settings["n_pairs"])
        return xr.Dataset({"delta_max": 0.1})

    monkeypatch.setattr(check, "estimate_delta", estimated)
    found = check._from_decisions(target, sampler, CONSTANTS, n_pairs, 10, 1, False)
    assert asked == [n_pairs] and (found["delta_max"], found["label_delta_max"]) == (0.1, "heuristic")
    assert found["values"]["b5_delta_max"] == pytest.approx(1.5 * decisions * 0.1)
    assert found["labels"]["b5_delta_max"] == "heuristic"


def test_without_pairs_or_constants_nothing_is_claimed():
    none = check._from_decisions(logistic(30), WALK, CONSTANTS, 0, 10, 1, False)
    assert math.isnan(none["delta_max"]) and none["label_delta_max"] == "not applicable"
    exact = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    assert check._from_decisions(logistic(30), exact, None, 5, 10, 1, False)["label_delta_max"] == "rigorous"
    assert np.isnan(check._from_decisions(logistic(30), exact, None, 5, 10, 1, False)["values"]["b5_delta_max"])
