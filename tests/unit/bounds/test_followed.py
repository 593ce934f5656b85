"""Labels, premises and refusals of the bounds that follow wrong decisions, and how `check_bound` uses them."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import check as check_bounds, followed as audits
from approxmcmc.bounds.wasserstein import Norm, best_of, norm_of, pairs_of, ratios
from approxmcmc.couplings.forms import AuditRecord
from approxmcmc.couplings.meeting import LastRatios, Meeting
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.models import logistic

TARGET = logistic(60, dim=2)
WALK = amc.RandomWalk(0.4)
TESTED = amc.MetropolisHastings(WALK, amc.SequentialTTest(0.3, 10))
EXACT = amc.MetropolisHastings(WALK, amc.ExactTest())
NOTHING = AuditRecord(0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0)


def followed(*paths, met=True, weight=-0.5):
    """Return audits of which each starts a coupling along one of the paths, distances on the line."""
    found = audits.Followed(np.array([1, 2, 4]), Norm(np.array([[4.0]])))
    for path in paths:
        away = np.array(path, dtype=float)[:, None]
        meeting = Meeting(len(path), np.stack([away, 0.0 * away]), np.zeros((2, len(path))), 0.0, LastRatios(0.0, 0.0))
        found.add(NOTHING._replace(weight=weight, meeting_time=len(path), met=met), meeting)
    return found


def test_distances_are_summed_until_the_chains_meet():
    """In the norm of a variance of 4, with weight 1/2: distances 2, 4, 6 are 0.5, 1, 1.5."""
    found = followed([2.0, 4.0, 6.0], [2.0])
    assert found.total == [3.0, 0.5] and found.counted == [1.5, 0.5] and found.at_once == [0.5, 0.5]
    np.testing.assert_array_equal(found.summed, [[0.5, 1.5, 3.0], [0.5, 0.5, 0.5]])
    np.testing.assert_array_equal(found.apart, [[1.0, 1.5, 0.0], [0.0, 0.0, 0.0]])
    found.add(NOTHING, None)
    assert found.total[-1] == 0.0 and found.launched == 2


def as_bounds(found, tau=None, failed=()):
    contracted = None
    if tau is not None:
        one = np.array([tau])
        contracted = bounds.contraction(
            TARGET, EXACT, np.array([[[0.0, 0.0], [1.0, 0.0]]]), steps=[1, 2, 4], replications=2, random_seed=1
        )
        contracted["tau"] = ("step", np.broadcast_to(one, 3).copy())
    return audits.as_bounds(found, contracted, failed, 0.95)


def test_labels_and_premises_follow_from_what_was_seen():
    many = followed(*[[2.0, 1.0]] * 40)
    found = as_bounds(many, 0.5)
    assert found["label_w4"].item() == found["label_b4"].item() == "given premises"
    assert "all 40 couplings met" in found["premises_w4"].item() and "finite means" in found["premises_w4"].item()
    assert found["label_w2"].item() == "heuristic" and "from 1 pairs, not proven" in found["premises_w2"].item()
    # Without noise every limit is the mean: 0.5 after one step, 0.75 until the meeting.
    assert found["w4"].item() == 0.75 and found["b4"].item() == 1.0
    np.testing.assert_allclose(found["w2_at"], [1.0, 1.5, 1.5])
    assert found["w2"].item() == 1.0

    no_contraction = as_bounds(many, 1.0)
    assert math.isnan(no_contraction["w2"].item()) and no_contraction["label_w2"].item() == "not applicable"
    assert "no tau is below 1" in no_contraction["premises_w2"].item()
    assert "no contraction was given" in as_bounds(many)["premises_w2"].item()

    one_rules = as_bounds(followed(*[[2.0]] * 5, [200.0]))
    assert one_rules["label_w4"].item() == "heuristic" and "has 95% of the sum" in one_rules["premises_w4"].item()

    unmet = as_bounds(followed(*[[2.0]] * 40, met=False))
    assert unmet["label_w4"].item() == "not applicable" and "40 of 40 couplings unmet" in unmet["premises_w4"].item()


def test_failed_checks_of_the_draws_make_the_bounds_heuristic():
    finding = amc.contracts.Finding("R-hat", "failure", "too large", "run longer", 1.2, 1.01)
    found = as_bounds(followed(*[[2.0, 1.0]] * 40), failed=[finding])
    assert found["label_w4"].item() == "heuristic"
    assert found["premises_w4"].item().startswith("stationary draws: checks failed (R-hat)")


def test_a_share_of_zero_among_few_chains_has_a_limit():
    """After the second step none of twenty is apart: up to 20 % may be (98.75 %), at the mean ratio of the first."""
    apart = np.full((1, 20, 2, 1), 3.0)
    apart[0, :, 1] = 0.0
    found = ratios(apart, np.array([[2.0]]), Norm(np.eye(1)), 0.9)
    share = 1.0 - 0.0125 ** (1 / 20)
    np.testing.assert_allclose(found["ratio"], [[1.5, 0.0]])
    np.testing.assert_allclose(found["ratio_upper"], [[1.5, 1.5 * share]], rtol=1e-9)
    apart[0, :, 0] = 0.0
    assert np.isinf(ratios(apart, np.array([[2.0]]), Norm(np.eye(1)), 0.9)["ratio_upper"]).all()


def test_the_best_coupling_of_each_pair_counts():
    names = ("ratio", "ratio_upper", "ratio_lower")
    rows = ((0.5, 0.9, 0.1), (0.6, 0.7, 0.2))
    one, two = ({name: np.array([[value]]) for name, value in zip(names, row, strict=True)} for row in rows)
    assert {name: value.item() for name, value in best_of([one, two]).items()} == {
        "ratio": 0.6, "ratio_upper": 0.7, "ratio_lower": 0.2,
    }  # fmt: skip


def test_every_second_pair_is_near(rng):
    draws = rng.normal(size=(50, 3))
    norm = Norm(np.diag([1.0, 4.0, 9.0]))
    pairs = pairs_of(draws, 9, norm, rng, near=True)
    separation = norm(pairs[:, 0] - pairs[:, 1])
    np.testing.assert_allclose(separation[1::2], 0.5)
    assert len(pairs) == 9 and separation[0] > 1.0


def test_what_cannot_be_measured_is_refused():
    pairs = np.array([[[0.0, 0.0], [1.0, 0.0]]])
    for settings, message in (
        ({"pairs": np.zeros((1, 2, 2))}, "pair 0 is equal"),
        ({"pairs": np.zeros((3, 2))}, r"shape \(n_pairs, 2, 2\), found \(3, 2\)"),
        ({"coupling": "maximal"}, "coupling must be one of"),
        ({"metric": np.eye(3)}, r"shape \(2, 2\), symmetric"),
        ({"metric": -np.eye(2)}, "found eigenvalues from -1"),
        ({"steps": [0]}, "steps"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            bounds.contraction(TARGET, EXACT, **{"pairs": pairs, **settings})
    assert norm_of(amc.targets.BinaryMRF.random_triples(4, 0.6, 0), None).covariance.tolist() == np.eye(4).tolist()


@pytest.fixture(scope="module")
def traces():
    length = {"draws": 150, "tune": 20, "chains": 4, "random_seed": 1, "progressbar": False, "audit_every": None}
    return {value: amc.sample(TARGET, TESTED.with_epsilon(value), **length) for value in (0.0, 0.3)}


@pytest.mark.thorough
def test_a_list_of_chains_is_audited_as_one_run_is(traces):
    found = bounds.perturbation([traces[0.3]] * 2, TARGET, TESTED, n_audits=40, replications=4, random_seed=1)
    assert found["n_audits"].item() == 40 and found["w4"].item() > found["w4_estimate"].item() > 0.0
    with pytest.raises(IncompatibleError, match="the sampler's test is exact"):
        bounds.perturbation(traces[0.0], TARGET, TESTED.with_epsilon(0.0))


@pytest.mark.thorough
def test_a_check_on_continuous_parameters_has_bounds_beside_the_distance(traces, monkeypatch):
    """B4, W2 and W4 by audits; 0 and rigorous for the exact setting; distances in the metric of each bound."""
    monkeypatch.setattr(check_bounds, "STEPS_OF_CONTRACTION", (1, 8))
    monkeypatch.setattr(check_bounds, "CHAINS_PER_PAIR", 4)
    check = amc.check_bound(
        TARGET, TESTED, epsilons=[0.0, 0.3], traces=traces, reference=traces[0.0], n_pairs=0, n_audits=30,
        random_seed=1, progressbar=False,
    )  # fmt: skip
    table = bounds.check_table(check).set_index(["epsilon", "bound"])
    assert (table.loc[0.0].loc[["b4", "w2", "w4"], "value"] == 0.0).all()
    assert (table.loc[0.0].loc[["b4", "w2", "w4"], "label"] == "rigorous").all()
    assert table.loc[0.3].loc["w4", "value"] > 0.0 and table.loc[0.3].loc["w4", "verdict"] in ("PASS", "INCONCLUSIVE")
    assert table.loc[0.3].loc["b1", "verdict"] == "no bound"
    assert table.loc[0.3].loc["w4", "distance"] == float(check["wasserstein"].sel(epsilon=0.3))
    assert table.loc[0.3].loc["b4", "distance"] == float(check["distance"].sel(epsilon=0.3))
    assert (check["premises"].sel(bound="w4") != "").all()
    drawn = amc.plot_bound(check, backend="none")
    assert "bound" in drawn.viz.children


def test_a_check_says_why_there_is_no_bound():
    untested = amc.check_bound(TARGET, TESTED, epsilons=[0.3], draws=0, n_pairs=0, progressbar=False, random_seed=1)
    assert "no draws to audit" in str(untested["premises"].sel(bound="w4").item())
