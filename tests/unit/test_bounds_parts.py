"""Parts of the bounds, number by number."""

import math
import types

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.acceptance.laws.probability import acceptance_probability, scales
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.bounds import check, delta
from approxmcmc.bounds.chains import measured_distance
from approxmcmc.bounds.coupling import coupling_bound, geometric_majorant
from approxmcmc.bounds.delta import _judged
from approxmcmc.bounds.distance import Distance, marginal_distances, total_variation_interval
from approxmcmc.bounds.finite import checked_matrix
from approxmcmc.bounds.statements import _ratio
from approxmcmc.contracts import Decision
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.metropolis_hastings import replication
from approxmcmc.samplers.metropolis_hastings.matrix import _scales
from approxmcmc.samplers.noisy.matrix import _pairs
from tests.models import normal_mean

FREE = types.SimpleNamespace(n_states=np.full(5, 2), n_obs=10_000)  # all that is asked of a target here


def test_the_scale_of_a_pair_is_that_of_its_terms():
    differences = np.array([[1.0, 2.0, 3.0, 6.0, 8.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
    expected = [math.sqrt(5.0 * 34.0 / 4.0), math.sqrt(5.0 * 20.0 / 4.0)]
    np.testing.assert_allclose(scales(differences), expected, rtol=1e-14)


def test_the_ratio_of_a_pair_is_that_of_prior_terms_and_proposal():
    """Terms at a temperature of 2, under the prior N(1, 1/4)."""
    target, here, there = normal_mean(30), 0.3, -0.1
    terms = (0.5 * (target.data[0] - here) ** 2 - 0.5 * (target.data[0] - there) ** 2) / 2.0
    test = amc.MinibatchBarker(1.0, 5, temperature=2.0)
    found = replication._pair(target.compile(), test, np.array([here]), np.array([there]), 0.7)
    prior = 2.0 * (here - 1.0) ** 2 - 2.0 * (there - 1.0) ** 2
    assert found == pytest.approx((prior + 0.7 + terms.sum(), math.sqrt(30.0) * terms.std(ddof=1)), rel=1e-12)


def test_without_draws_or_without_a_reference_the_matrices_say_the_distance():
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (("chain", "draw"), np.zeros((2, 9)))})})
    for given, reference in ((trace, None), (None, trace), (None, None)):
        found = measured_distance(FREE, given, reference, {"tv": 0.3}, False, 0.95)
        assert found["source"] == "stationary laws of the matrices" and found["distance"].estimate == 0.3
        assert "none" in measured_distance(FREE, given, reference, {"tv": math.nan}, False, 0.95)["source"]


def test_the_scales_of_all_pairs_are_those_of_each():
    terms = np.random.default_rng(1).normal(size=(5, 7)) + 3.0 * np.arange(5)[:, None]
    expected = [scales(terms - here) for here in terms]
    np.testing.assert_allclose(_scales(terms), expected, rtol=1e-12)


def test_visited_states_are_every_so_many_steps_apart(monkeypatch):
    """A chain whose state is the number of its steps, advanced by at most four at a time."""
    chain = types.SimpleNamespace(steps=0.0)

    def advance(n, thin, draws, counts, values):
        assert n * thin <= 4
        draws[:, 0] = chain.steps + thin * np.arange(1, n + 1)
        chain.steps = draws[-1, 0]
        return n

    chain.advance = advance
    monkeypatch.setattr(delta, "MOST_STEPS", 4)
    visited = delta.visited_states(chain, tune=7, n_draws=5, thin=2, dim=1)
    assert visited.tolist() == [[9.0], [11.0], [13.0], [15.0], [17.0]]


def test_decisions_are_those_that_begin_at_the_pair(monkeypatch):
    """Accepted, back again, rejected, accepted, in calls of two steps: three decisions, which read 1 + 3 + 4 data."""
    here, steps = np.zeros(1), iter([(1.0, 1), (0.0, 2), (0.0, 3), (1.0, 4)])

    def advance(n, thin, draws, counts, values):
        for k in range(n):
            draws[k, 0], counts[k, TOUCHED] = next(steps)
        return n

    monkeypatch.setattr(replication, "MOST_STEPS", 2)
    assert replication._decide(types.SimpleNamespace(advance=advance), here, 3) == (2, 8)


def test_always_accepting_errs_by_what_is_rejected_and_a_t_test_as_the_recursion_says():
    found = delta._probabilities(amc.AlwaysAccept(), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, 1.0 - math.exp(-1.0)))
    by_recursion = acceptance_probability_error(-1.0, 2.0, epsilon=0.1, batch_size=5, n_obs=30)["error"]
    found = delta._probabilities(amc.SequentialTTest(0.1, 5), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, float(by_recursion)))


def test_at_a_temperature_of_two_the_terms_are_halves(rng):
    terms, rest = rng.normal(size=(5, 8)), rng.normal(size=5)
    warm, cold = (amc.MinibatchBarker(1.0, 4, temperature=temperature) for temperature in (2.0, 1.0))
    found = [acceptance_probability(test, each, rest) for test, each in ((warm, terms), (cold, 0.5 * terms))]
    np.testing.assert_array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize(
    ("sampler", "n_pairs", "delta_max", "bound"),
    [
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest()), 7, 0.2, 0.6),
        (amc.Gibbs(amc.SequentialTTest(0.1, 5)), 7, 0.2, 3.0),  # five decisions in a sweep
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest()), 0, math.nan, math.nan),
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), 7, 0.0, 0.0),
    ],
    ids=["test", "Gibbs", "no pairs", "exact"],
)
def test_a_bound_from_decisions_is_a_factor_for_each_of_them(sampler, n_pairs, delta_max, bound, monkeypatch):
    monkeypatch.setattr(check, "estimate_delta", lambda *_, n_pairs, **__: {"delta_max": 0.2})
    found = check._from_decisions(FREE, sampler, {"b5_factor": 3.0}, n_pairs, 10, 0, False)
    assert found["delta_max"] == pytest.approx(delta_max, nan_ok=True)
    assert found["values"]["b5_delta_max"] == pytest.approx(bound, nan_ok=True)
    without = check._from_decisions(FREE, sampler, None, n_pairs, 10, 0, False)
    assert math.isnan(without["values"]["b5_delta_max"])


def test_a_bound_is_held_against_the_truth_or_a_distance_that_is_no_noise():
    """0.6 is twice the 0.3 of matrices, three times the 0.2 of draws; an interval from 0 on is nothing to divide by."""
    nothing = dict.fromkeys(("wasserstein", "wasserstein_floor", "delta", "delta_max"), math.nan)
    nothing |= {"label_tv": "", "label_delta_max": "", "labels": {}, "values": {"b1": 0.6}}
    rows = [
        nothing | {"tv": tv, "distance": Distance(0.2, lower, 0.3, 0.05)}
        for tv, lower in ((0.3, 0.1), (math.nan, 0.1), (math.nan, 0.0))
    ]
    found = check._root(rows, [1, 2, 3], "knob")
    np.testing.assert_allclose(found["looseness"].sel(bound="b1"), [2.0, 3.0, math.nan])


def test_the_errors_of_pairs_have_the_mean_that_they_have():
    """Errors 0.1, 0.3 and 0.2: mean 0.2 with standard deviation 0.1, 1.96 standard errors on either side."""
    table = {"log_ratio": [0.0] * 3, "tau": [1.0] * 3, "exact": [0.4, 0.2, 0.7], "accepted": [50, 50, 50]}
    found = _judged(table | {"error_model": [math.nan] * 3}, 100, 0.95, 0.1, independent=True)
    assert float(found["mean_error"]) == pytest.approx(0.2)
    spread = 0.1 * 1.96 / math.sqrt(3.0)
    np.testing.assert_allclose(found["mean_error_interval"], [0.2 - spread, 0.2 + spread])
    assert found["label_delta_max_model"].item() == "not applicable"
    known = _judged(table | {"error_model": [0.1, math.nan, -0.2]}, 100, 0.95, 0.1, independent=True)
    assert (float(known["delta_max_model"]), known["label_delta_max_model"].item()) == (0.2, "heuristic")
    hoeffding = math.sqrt(math.log(1.0 / 0.05) / (2.0 * 3.0))
    assert float(found["mean_error_upper"]) == pytest.approx(0.2 + hoeffding)


def test_limits_of_two_coordinates_share_the_level():
    rng = np.random.default_rng(1)
    draws, reference = rng.normal(0.5, size=(4, 400, 1)), rng.normal(size=(4, 400, 1))
    one = marginal_distances(draws, reference, 0.95)
    assert 0.0 < one[0].lower < one[0].estimate < one[0].upper < 1.0
    assert marginal_distances(np.tile(draws, 2), np.tile(reference, 2), 0.9) == one


@pytest.mark.parametrize(("times", "last"), [([4, 4], 1), ([3, 3], 1), ([4, 9], 6)])
def test_a_bound_by_couplings_is_followed_until_it_is_zero(times, last):
    found = coupling_bound(times, 3)
    assert found["time"].values[-1] == last and found["tv_bound"].values[-1] == 0.0
    assert found.attrs["label"] == "upper bound in expectation"


@pytest.mark.parametrize(
    ("bound", "truth", "looseness"),
    [(0.3, 0.1, 3.0), (0.3, 0.0, math.inf), (0.0, 0.0, math.nan), (math.nan, 0.0, math.nan)],
)
def test_the_looseness_of_a_bound(bound, truth, looseness):
    assert _ratio(bound, truth) == pytest.approx(looseness, nan_ok=True)


def test_couplings_that_have_all_met_give_constants():
    found = coupling_bound(np.arange(4, 40), 3)
    assert found["label_constants"].item() == "heuristic"
    assert float(found["b5_factor"]) == pytest.approx(
        amc.bounds.mitrophanov_factor(float(found["C"]), float(found["rho"]))
    )
    assert math.isnan(coupling_bound(np.arange(4, 40), 3, max_steps=38)["b5_factor"])


def test_an_interval_of_total_variation_needs_four_batches_and_ends_at_one():
    law, batches = np.array([1.0, 0.0]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]] * 2)
    found = total_variation_interval(batches, law)
    assert found.estimate == 0.5 and found.upper == 1.0
    with pytest.raises(InvalidInputError, match="at least 4 batches"):
        total_variation_interval(batches[:3].reshape(1, 3, 2), law)


def test_only_a_bound_that_falls_has_a_geometric_majorant():
    times = np.arange(5)
    C, rho = geometric_majorant(times, 0.3 * 0.5**times)
    assert (C, rho) == pytest.approx((0.6, 0.5))  # of the norm, twice the distance
    for bound in (np.full(5, 0.3), 0.1 * 1.2**times, np.array([0.5, 0.1, 0.0, 0.0, 0.0])):
        assert np.isnan(geometric_majorant(times, bound)).all()


def test_the_worst_row_is_named():
    with pytest.raises(InvalidInputError, match="row 2"):
        checked_matrix([[0.5, 0.5, 0.0], [0.5, 0.5, 0.3], [0.2, 0.1, 0.1]], "P")


def test_pairs_are_those_that_are_wanted_and_possible_and_differ():
    model = types.SimpleNamespace(points=range(3), log_prior=np.array([0.0, -math.inf, -1.0]))
    assert [each.tolist() for each in _pairs(model, None)] == [[0, 2], [2, 0]]
    wanted = np.array([[True, True, True], [True, True, True], [False, False, True]])
    assert [each.tolist() for each in _pairs(model, wanted)] == [[0], [2]]


def test_a_constant_of_total_variation_is_half_that_of_the_norm():
    factor = amc.bounds.mitrophanov_factor
    for C, rho in ((0.7, 0.9), (3.0, 0.4)):
        assert factor(C, rho, distance="tv") == factor(2.0 * C, rho) > factor(C, rho)
