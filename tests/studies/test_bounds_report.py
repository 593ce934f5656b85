"""A study declares bounds, and its report shows the verdicts with their labels."""

import pytest

import approxmcmc as amc
from approxmcmc.errors import StudyError
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.study.report.bounds import bounds_section


def small_field():
    return amc.targets.BinaryMRF.random_triples(5, 0.3, 0)


def sequential(epsilon):
    return amc.Gibbs(amc.SequentialTTest(epsilon, 2))


def start(target, rng):
    return target.draw_start(rng)


def declared(**changes):
    settings = {
        "name": "sweeps",
        "targets": {"field": small_field},
        "samplers": {"sequential": vary(sequential, epsilon=knob(0.0, 0.2))},
        "budget": Budget(draws=2000),
        "replicates": 2,
        "gold": None,
        "start": start,
        "bounds": {"theorem 2": {"target": "field", "sampler": "sequential"}},
    }
    return Study(**{**settings, **changes})


def test_bounds_must_name_members_of_the_study():
    with pytest.raises(StudyError, match="needs `sampler`"):
        declared(bounds={"theorem 2": {"target": "field", "sampler": "sequental"}})


@pytest.mark.needs_jit
def test_the_report_shows_the_verdicts(tmp_path):
    study = declared()
    assert bounds_section(study.results("paper", tmp_path))[0].pieces == ()
    results = study.run("paper", tmp_path)
    [section] = bounds_section(results)
    assert [piece.title.split(":")[0] for piece in section.pieces] == [
        "Distance and bounds", "Verdicts", "Ingredients",
    ]  # fmt: skip
    verdicts = section.pieces[1].data
    assert set(verdicts["label"]) <= {"rigorous", "vacuous"}
    assert "FAIL" not in set(verdicts["verdict"])
    assert "PASS (rigorous)" in section.text[1]
    assert bounds_section(declared(bounds={}).results("paper", tmp_path)) == []
