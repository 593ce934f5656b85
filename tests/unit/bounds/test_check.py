"""How `check_bound` finds an error where no matrix is known, and what it says of the way it took."""

import math
import types

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds import check
from approxmcmc.bounds.chains import UNKNOWN, measured_distance
from approxmcmc.bounds.check import BOUNDS, verdict_of
from approxmcmc.bounds.distance import Distance
from approxmcmc.bounds.finite import LABELS
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.models import logistic, normal_mean

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


T = np.array([[0.9, 0.1], [0.2, 0.8]])


field = amc.targets.BinaryMRF.random_triples


LATTICE = amc.targets.Ising(np.array([[1, 1, 1], [1, -1, 1], [1, 1, 1]]), prior_bounds=(-0.4, 0.8))


GRID = np.linspace(-0.4, 0.8, 13)


@pytest.mark.thorough
def test_a_check_of_noisy_exchange_calls_the_truth_of_a_lattice_heuristic():
    walk = amc.RandomWalk(0.3)
    check = amc.check_bound(
        LATTICE, {n: amc.Exchange(walk, n) for n in (1, 2, 5, 400)}, knob="n_auxiliary", grid=GRID, progressbar=False
    )
    labels = check["label"].to_dataframe()["label"].unstack()
    assert check["label_tv"].values.tolist() == ["rigorous", "rigorous", "heuristic", "heuristic"]
    assert labels.loc[400, "b4"] == "heuristic" and labels.loc[400, "b3"] == "rigorous"
    assert set(labels.loc[2].drop(["w2", "w4"])) <= {"rigorous", "vacuous"}
    assert check["label_delta_max"].values.tolist() == ["rigorous"] * 4
    assert "FAIL" not in check["verdict"].values
    assert bounds.check_table(check).columns[0] == "n_auxiliary"
    drawn = amc.plot_bound(check, backend="none")
    assert {"bound", "distance", "interval"} <= set(drawn.viz.children)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("knob", "sampler"),
    [
        ("batch_size", lambda n: amc.Gibbs(amc.SequentialTTest(0.2, n))),
        ("batch_size", lambda n: amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.2, n))),
        ("target_variance", lambda n: amc.Gibbs(amc.acceptance.MinibatchBarker(0.2 * n, batch_size=2))),
        (
            "target_variance",
            lambda n: amc.MetropolisHastings(amc.proposals.SingleSite(), amc.acceptance.MinibatchBarker(0.2 * n, 2)),
        ),
    ],
    ids=["batch, gibbs", "batch, metropolis", "variance, gibbs", "variance, metropolis"],
)
def test_any_knob_can_be_checked(knob, sampler):
    """The check says of each sampler what `exact` says of its matrix and of its exact limit."""
    target, rule = field(4, 0.6, 0), "barker" if knob == "target_variance" else "metropolis"
    settings = {n: sampler(n) for n in (2, 3, 4)}
    check = amc.check_bound(target, settings, knob=knob, draws=0, progressbar=False)
    one = settings[2]
    exact = amc.Gibbs() if isinstance(one, amc.Gibbs) else amc.MetropolisHastings(one.proposal, amc.ExactTest(rule))
    T = bounds.transition_matrix(target, exact)
    for value, each in settings.items():
        found = bounds.exact(T, bounds.transition_matrix(target, each))
        for name in ("tv", "delta", "delta_max"):
            assert float(check[name].sel({knob: value})) == float(found[name])
        assert float(check["value"].sel({knob: value, "bound": "b3"})) == float(found["b3"])
        np.testing.assert_array_equal(check["eta"], found["eta"])
    assert float(check["tv"].max()) > 1e-4
    assert check.attrs["knob"] == knob


def test_one_sampler_at_epsilons_is_a_dict_of_samplers():
    target, sampler = field(4, 0.6, 0), amc.Gibbs(amc.SequentialTTest(0.1, 2))
    settings = {e: amc.Gibbs(amc.SequentialTTest(e, 2)) for e in (0.0, 0.2)}
    one, many = (
        amc.check_bound(target, *given, draws=0, progressbar=False, random_seed=1, **more).dataset.drop_attrs()
        for given, more in (((sampler,), {"epsilons": [0.0, 0.2]}), ((settings,), {}))
    )
    assert one.identical(many)


def test_settings_that_do_not_belong_together_are_refused():
    target = field(4, 0.6, 0)
    with pytest.raises(IncompatibleError, match=r"the same exact chain, found .*'systematic'.* and .*'random'"):
        amc.check_bound(target, {1: amc.Gibbs(), 2: amc.Gibbs(scan="random")}, knob="scan")
    with pytest.raises(IncompatibleError, match="temperature"):
        amc.check_bound(target, {1: amc.Gibbs(amc.acceptance.MinibatchBarker(1.0, 2, temperature=2.0))}, knob="x")
    with pytest.raises(IncompatibleError, match="no exact twin of NoisyLangevin"):
        amc.check_bound(target, {1: amc.samplers.NoisyLangevin(0.1)}, knob="x")
    with pytest.raises(InvalidInputError, match="leave `epsilons` out"):
        amc.check_bound(target, {1: amc.Gibbs()}, epsilons=[0.1])
    with pytest.raises(InvalidInputError, match="finite numbers"):
        amc.check_bound(target, {"a": amc.Gibbs()}, knob="x")
    with pytest.raises(InvalidInputError, match="at least one sampler"):
        amc.check_bound(target, {}, knob="x")


def test_verdicts_follow_from_limits():
    distance = Distance(0.2, 0.1, 0.3, 0.05)
    assert verdict_of(distance, 0.3) == "PASS"
    assert verdict_of(distance, 0.25) == verdict_of(distance, 0.1) == "INCONCLUSIVE"
    assert verdict_of(distance, 0.09) == "FAIL"
    assert verdict_of(distance, math.nan) == "no bound"
    assert verdict_of(Distance(*[math.nan] * 4), 0.1) == "INCONCLUSIVE"


@pytest.mark.thorough
def test_a_random_walk_on_the_reals_has_no_bound_without_audits():
    check = amc.check_bound(
        normal_mean(200), amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.1, 20)),
        epsilons=[0.0, 0.1], n_pairs=5, replications=50, n_audits=0, random_seed=1, progressbar=False,
    )  # fmt: skip
    for name in ("b1", "b2", "b3", "b4"):
        assert (check["verdict"].sel(bound=name) == "no bound").all()
        assert (check["label"].sel(bound=name) == "not applicable").all()
        assert check["value"].sel(bound=name).isnull().all()
    assert "posterior" not in check.children  # reference=None: no chain to compare is run, and no NUTS
    assert check["label_delta_max"].values.tolist() == ["rigorous", "heuristic"]
    table = bounds.check_table(check)
    assert len(table) == 2 * len(BOUNDS)
    assert table["label"].isin(LABELS).all()


@pytest.mark.recompiles
@pytest.mark.needs_jit
def test_heuristic_constants_give_a_heuristic_bound():
    target, sampler = normal_mean(200), amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.1, 20))
    coupled = bounds.couplings(target, sampler, lag=20, n_couplings=30, random_seed=1, progressbar=False)
    check = amc.check_bound(
        target, sampler, epsilons=[0.1], coupled=coupled, n_pairs=5, replications=400, random_seed=1,
        progressbar=False,
    )  # fmt: skip
    bound, label = (check[name].sel(bound="b5_delta_max").item() for name in ("value", "label"))
    assert bound == pytest.approx(float(coupled["b5_factor"]) * float(check["delta_max"][0]))
    assert label in ("heuristic", "vacuous")
    assert (check["verdict"].sel(bound=["b1", "b4"]) == "no bound").all()


@pytest.mark.needs_jit
def test_a_small_field_is_checked_against_its_enumerated_law():
    sampler = amc.Gibbs(amc.SequentialTTest(0.1, 2))
    check = amc.check_bound(
        field(5, 0.3, 0), sampler, epsilons=[0.0, 0.2], draws=4000, chains=2, random_seed=1, progressbar=False
    )
    assert check["posterior"].sizes["epsilon"] == 2
    assert (check["distance_lower"] <= check["distance_upper"]).all()
    assert "FAIL" not in check["verdict"].values
    assert check["verdict"].sel(epsilon=0.2, bound="b1").item() == "PASS"
    assert float(check["tv"].sel(epsilon=0.0)) == 0.0


def test_checks_refuse_samplers_without_epsilon():
    with pytest.raises(IncompatibleError, match="varies the epsilon"):
        amc.check_bound(normal_mean(), amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), epsilons=[0.1])
    with pytest.raises(InvalidInputError, match="at least one epsilon"):
        amc.check_bound(field(5, 0.1, 0), amc.Gibbs(amc.SequentialTTest(0.1, 3)), epsilons=[])


FREE = types.SimpleNamespace(n_states=np.full(5, 2), n_obs=10_000)  # all that is asked of a target here


def test_without_draws_or_without_a_reference_the_matrices_say_the_distance():
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (("chain", "draw"), np.zeros((2, 9)))})})
    for given, reference in ((trace, None), (None, trace), (None, None)):
        found = measured_distance(FREE, given, reference, {"tv": 0.3}, False, 0.95)
        assert found["source"] == "stationary distributions of the matrices" and found["distance"].estimate == 0.3
        assert "none" in measured_distance(FREE, given, reference, {"tv": math.nan}, False, 0.95)["source"]


def test_a_bound_is_held_against_the_truth_or_a_distance_that_is_no_noise():
    """0.6 is twice the 0.3 of matrices, three times the 0.2 of draws; an interval from 0 on is nothing to divide by.

    Matrices of a heuristic regime give way to the draws whose interval excludes what they say.
    """
    nothing = {"delta": math.nan, "delta_max": math.nan, "moved": UNKNOWN}
    nothing |= {"label_tv": "", "label_delta_max": "", "labels": {}, "values": {"b1": 0.6}}
    rows = [
        nothing | {"tv": tv, "distance": Distance(0.2, lower, 0.3, 0.05)}
        for tv, lower in ((0.3, 0.1), (math.nan, 0.1), (math.nan, 0.0))
    ]
    rows += [rows[0] | {"tv": tv, "label_tv": "heuristic"} for tv in (0.06, 0.15)]
    found = check._root(rows, [1, 2, 3, 4, 5], "knob")
    np.testing.assert_allclose(found["looseness"].sel(bound="b1"), [2.0, 3.0, math.nan, 3.0, 4.0])
