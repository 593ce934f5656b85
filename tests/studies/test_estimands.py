"""Estimands in the gold standard's units, and gold standards of a study's own making."""

import io
import json

import numpy as np
import pytest
import xarray as xr

from approxmcmc.errors import GoldStandardError, StudyError
from approxmcmc.reference.gates import Gates
from approxmcmc.study import Gold, standard_estimands
from approxmcmc.study.gold import gold_request, make_gold, stored_gold
from approxmcmc.study.measures import ALL_STANDARD
from approxmcmc.study.progress import Lines
from approxmcmc.study.run import run_study
from approxmcmc.study.store import Store
from tests.fakes import fake_trace
from tests.studies.toys import ToyTarget, quiet_probe, toy_sample, toy_study

pytestmark = pytest.mark.core


def normal(draws, shift=0.0, scale=1.0):
    """Two variables on scales that differ by 1000, moved and spread in units of their sds."""
    z = np.random.default_rng(1).normal(size=(2, draws, 3)) * scale + shift
    return xr.Dataset(
        {"alpha": (("chain", "draw"), 5.0 + 1000.0 * z[..., 0]), "beta": (("chain", "draw", "coef"), z[..., 1:])}
    )


def test_standard_estimands_measure_every_coordinate_in_its_own_sd():
    """20 000 draws; exact up to the reference's own mean and sd, which are taken off."""
    found = {name: of(normal(10_000, 0.5, 2.0)) for name, of in standard_estimands(normal(10_000)).items()}
    assert tuple(found) == ALL_STANDARD
    means, variances, tails = (values.mean(("chain", "draw")).values for values in found.values())
    assert means == pytest.approx(0.5, abs=0.02)  # shift; the same normals, so that only rounding of moments is left
    assert variances == pytest.approx(4.25, abs=0.05)
    assert tails == pytest.approx(0.3322, abs=0.02)  # P(|N(.5, 4)| > 2), its standard error .0033


def fake_reference(passes):
    def make(target, *, draws, tune, chains, random_seed, estimands, enforce=True, gates=None):
        if enforce and not passes:
            raise GoldStandardError("a gate failed")
        tree = fake_trace(np.random.default_rng(random_seed).normal(size=(chains, draws, 2)))
        gate = {"gate": "mine", "value": 1.0, "where": "", "limit": "<= 2", "passed": passes}
        tree["posterior"].attrs.update(gates_passed=passes, gates=json.dumps([gate]))
        return tree

    return make


@pytest.mark.parametrize("passes", [True, False])
def test_a_study_may_bring_what_makes_its_gold_standards(tmp_path, passes):
    study = toy_study(gold=Gold(chains=2, draws=50, by=fake_reference(passes)), estimands=standard_estimands)
    store = Store.of(tmp_path, "toy", "paper")
    report = make_gold(study, "paper", "plain", store)
    assert report["status"] == ("accepted" if passes else "refused")
    stored = stored_gold(study, "paper", "plain", store)
    assert (stored is not None) == passes
    if stored is not None:
        assert stored["posterior"].sizes["draw"] == 50


def test_another_maker_is_another_gold_standard():
    requests = {
        gold_request(toy_study(gold=Gold(by=by)), "paper", "plain")["request"]
        for by in (None, fake_reference(True), lambda target, **how: None)
    }
    assert len(requests) == 3
    assert gold_request(toy_study(gold=Gold(gates=Gates())), "paper", "plain")["settings"]["by"] is None


@pytest.mark.thorough
def test_a_run_of_some_targets_makes_their_gold_standards_alone(tmp_path):
    study = toy_study(
        targets={"one": ToyTarget, "two": lambda: ToyTarget(3)}, gold=Gold(2, 50, by=fake_reference(True))
    )
    how = {"sample": toy_sample, "probe": quiet_probe, "listener": Lines(io.StringIO())}
    outcome = run_study(study, "paper", tmp_path, only="target=two,replicate=0", **how)
    assert [report["target"] for report in outcome.gold] == ["two"]
    assert outcome.statuses == {"done": 3, "missing": 9} and outcome.exit_code == 0
    assert [report["target"] for report in run_study(study, "paper", tmp_path, **how).gold] == ["one", "two"]


MOMENTS = {"beta": {"mean": [0.0, 0.0], "sd": [1.0, 2.0], "mcse_mean": 0.0}}


def test_a_study_takes_references_that_exist(tmp_path):
    store = Store.of(tmp_path, "toy", "paper")
    study = toy_study(gold=MOMENTS)
    report = make_gold(study, "paper", "plain", store)
    assert (report["status"], report["gates"]) == ("accepted", [])
    assert stored_gold(study, "paper", "plain", store)["reference_moments"]["beta"].sel(
        moment="sd"
    ).values.tolist() == [1, 2]
    draws = fake_trace(np.random.default_rng(1).normal(size=(4, 50, 2)))
    other = toy_study(gold={"plain": draws})
    assert stored_gold(other, "paper", "plain", store) is draws
    requests = {gold_request(each, "paper", "plain")["request"] for each in (study, other, toy_study(gold=Gold()))}
    assert len(requests) == 3


def test_each_target_needs_a_reference_of_its_own():
    targets = {"one": ToyTarget, "two": lambda: ToyTarget(3)}
    with pytest.raises(StudyError, match="one reference cannot be that of several targets"):
        toy_study(targets=targets, gold=MOMENTS)
    with pytest.raises(StudyError, match=r"and none of \['two'\]"):
        toy_study(targets=targets, gold={"one": MOMENTS})
    with pytest.raises(StudyError, match="continues chains of NUTS"):
        Gold(total_draws=10, by=fake_reference(True))
