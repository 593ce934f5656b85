"""The race: its arithmetic on made-up scores, and a tiny one from end to end."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from studies.race import track
from studies.race.rivals import BASE, Rival
from studies.race.scores import FEWEST, Reference, Results, Score
from studies.race.tall import MALA

DIM, ROUNDS, STEPS = 20, 3, 1000


def results(*, effective: float, shift: float = 0.0):
    """Return scores of an exact walk, and of a rival that takes half the time in each round."""
    rng = np.random.default_rng(0)
    reference = Reference(np.full(DIM, 5.0), np.full(DIM, 2.0), np.full(DIM, 1e6))

    def scores(factor, effective, shift):
        noise = rng.standard_normal((ROUNDS, DIM)) / np.sqrt(effective)
        return [
            Score(STEPS, factor * (1 + k), 10.0, 5.0 + 2.0 * (shift + noise[k]), np.full(DIM, effective))
            for k in range(ROUNDS)
        ]

    rivals = {
        BASE: Rival(BASE, "walk", "", None, BASE, "rival"),
        "rival": Rival("rival", "walk", "", None, BASE),
    }
    found = {BASE: scores(1.0, effective, 0.0), "rival": scores(0.5, 400.0, shift)}
    return Results(rivals, found, dict.fromkeys(rivals, 0.0), reference, ROUNDS)


def test_ratios_are_taken_within_a_round():
    row = results(effective=200.0).row("rival")
    assert row["steps_vs_same"] == (2.0, 2.0, 2.0)  # the second and third rounds are slower for both
    assert row["ess_vs_walk"] == pytest.approx((4.0, 4.0, 4.0))
    assert row["ess_vs_nuts"] is None
    assert row["ess_per_second"] == pytest.approx(400.0)


def test_a_rival_that_hardly_moves_borrows_its_mixing():
    own, borrowed = results(effective=200.0), results(effective=FEWEST - 1.0)
    assert not own.borrows(BASE)
    assert borrowed.borrows(BASE) and not borrowed.borrows("rival")
    assert borrowed.rate(BASE) == pytest.approx(400.0 / np.array([1.0, 2.0, 3.0]))
    assert borrowed.row("rival")["ess_vs_walk"] == pytest.approx((2.0, 2.0, 2.0))


def test_noise_is_no_bias_and_a_bias_is_found():
    sound, shifted = (results(effective=200.0, shift=shift).row("rival") for shift in (0.0, 0.2))
    assert sound["max_shift"] < sound["max_shift_if_unbiased"] < 0.15
    assert sound["bias_upper"] < 0.03
    assert shifted["max_shift"] > shifted["max_shift_if_unbiased"]
    assert shifted["bias"] == pytest.approx(0.2, abs=0.03)
    assert shifted["risk_1s"] == pytest.approx(shifted["bias"] ** 2 + 3.0 / 1200.0)
    assert shifted["risk_10s"] == pytest.approx(shifted["bias"] ** 2 + 0.3 / 1200.0)


FEW = (BASE, "exact, mixture", "NumPy exact, walk", "control variates, mixture, .01")  # three chains to compile


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("chosen", [FEW, pytest.param((), marks=pytest.mark.recompiles)], ids=["few", "all"])
def test_a_tiny_race_runs_from_end_to_end(chosen, tmp_path, monkeypatch):
    all_rivals = track.our_rivals
    monkeypatch.setattr(
        track, "our_rivals",
        lambda *args, **settings: [r for r in all_rivals(*args, **settings) if not chosen or r.name in chosen],
    )  # fmt: skip
    tiny = dataclasses.replace(track.PRESETS["smoke"]["smoke"], rounds=2, seconds=0.02, reference=0.3, accuracy=0.03)
    monkeypatch.setitem(track.PRESETS, "smoke", {"smoke": tiny})
    track.run("smoke", tmp_path)
    found = json.loads((tmp_path / "race.json").read_text())
    rows = {row["rival"]: row for row in found["results"][0]["rows"]}
    assert set(rows) >= {*FEW} and (chosen or "exact, pCN(0)" in rows)
    assert not chosen or len(rows) == len(chosen)
    for name, row in rows.items():
        assert row["us_per_step"] > 0 and row["ess_per_second"] > 0, name
        if "exact" in name:  # a limit that noise passes once in thousands of runs
            assert row["data_per_step"] == 2000, name
            assert row["max_shift"] < 2.0 * row["max_shift_if_unbiased"], name
        else:
            assert 2 <= row["data_per_step"] <= 2000, name
    assert rows["exact, mixture"]["ess_vs_same"] == [1.0, 1.0, 1.0]
    with (tmp_path / "race.csv").open(newline="") as file:
        assert [row["rival"] for row in csv.DictReader(file)] == list(rows)
    assert all(name in (tmp_path / "race.md").read_text() for name in rows)


@pytest.mark.needs_jit
@pytest.mark.recompiles
def test_a_tiny_race_of_tall_data_runs_from_end_to_end(tmp_path):
    track.run("tall_smoke", tmp_path)
    (result,) = json.loads((tmp_path / "race.json").read_text())["results"]
    rows = {row["rival"]: row for row in result["rows"]}
    assert set(rows) == {
        MALA,
        "influential rows, exact",
        "influential rows, exact, 3 steps",
        "influential rows, t-test .01, tol .2",
    }
    for name, row in rows.items():
        assert row["seconds_to_400"] > 0 and row["ess_vs_same"] is not None, name
    assert rows[MALA]["ess_vs_same"] == [1.0, 1.0, 1.0]
