"""Laws of acceptance tests: bounds, ends of ranges, ties, ways to draw the looks, what audits and heavy tails say."""

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, strategies as st
from scipy.special import expit, ndtr

from approxmcmc.acceptance import BernsteinTest, MinibatchBarker, SequentialTTest
from approxmcmc.acceptance.laws.audits import expected_errors, share_of_heavy_draws, wrong_decisions
from approxmcmc.acceptance.laws.barker_law import bound_from_moments, minibatch_barker_error_bound
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.acceptance.laws.early_stops import epsilon_for_type_one_error, tolerance_stop_error, type_one_error
from approxmcmc.acceptance.laws.looks import critical_values, look_sizes
from approxmcmc.acceptance.laws.probability import mean_over_orders, number_of_orders, orders
from approxmcmc.acceptance.laws.recursion import sequential_test_error
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.moments import merge, reset
from approxmcmc.engine.terms.term_table import table_of_terms, write_pair
from approxmcmc.errors import InvalidInputError
from tests.decisions import Population, decide_once, evidence_of
from tests.planting import plain

TERMS = np.random.default_rng(0).normal(size=50)


def test_the_error_of_the_correction_is_added_to_the_bound():
    """6.4 E|X|^3 + 2 E|X| of the standardised terms, over sqrt(b)."""
    X = np.abs(TERMS - TERMS.mean()) / TERMS.std()
    bare = (6.4 * (X**3).mean() + 2.0 * X.mean()) / 10.0
    assert minibatch_barker_error_bound(TERMS, 100, correction_error=0.25) == pytest.approx(bare + 0.25)


def test_the_bound_of_running_moments_adds_it_as_well():
    """6.4 sqrt(kurtosis) + 2, over sqrt(n)."""
    moments = np.zeros(16)
    plain(reset)(moments)
    plain(merge)(moments, TERMS, len(TERMS))
    kurtosis = ((TERMS - TERMS.mean()) ** 4).mean() / TERMS.var() ** 2
    expected = (6.4 * math.sqrt(kurtosis) + 2.0) / math.sqrt(50.0) + 0.25
    assert plain(bound_from_moments)(moments, 0.25) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("terms", [[], [1.0], [[1.0, 2.0]], [1.0, math.inf], [1.0, math.nan], [2.0, 2.0]], ids=str)
def test_terms_that_have_no_spread_are_refused(terms):
    with pytest.raises(InvalidInputError, match="two or more finite numbers"):
        minibatch_barker_error_bound(terms, 100)


@pytest.mark.parametrize("rate", [-0.5, -1e-9, 1.5, math.nan])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        epsilon_for_type_one_error(rate, batch_size=50, n_obs=500)


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_the_epsilon_of_a_rate_has_that_rate(rate):
    settings = {"batch_size": 50, "n_obs": 500}
    epsilon = epsilon_for_type_one_error(rate, **settings)
    assert type_one_error(epsilon=epsilon, **settings) == pytest.approx(rate, abs=1e-7)


def test_the_error_is_the_same_on_both_sides_of_a_tie():
    error = np.asarray(sequential_test_error(np.array([-1.0, 1.0]), epsilon=0.05, batch_size=50, n_obs=500)["error"])
    assert error[0] == pytest.approx(error[1])


@pytest.mark.parametrize("points", [2, 1])
def test_a_ridge_of_fewer_than_three_points_is_refused(points):
    with pytest.raises(InvalidInputError, match="points at least 3"):
        correction_distribution(1.0, method="ridge", points=points)


@pytest.mark.thorough
def test_the_narrowest_noise_and_three_points_are_taken():
    assert correction_distribution(0.1, method="nnls").sigma == 0.1
    assert len(correction_distribution(1.0, method="ridge", points=3).atoms) <= 3


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.3])
def test_the_ridge_by_its_equation(sigma):
    """(M'M + lambda I)^-1 M'v on 101 points of [-20, 20]; negative weights are 0, and the others add up to 1."""
    found = correction_distribution(sigma, method="ridge", regularisation=10.0, points=101)
    grid = np.linspace(-20.0, 20.0, 101)
    M = ndtr((grid[:, None] - grid) / sigma)
    weights = np.maximum(np.linalg.solve(M.T @ M + 10.0 * np.eye(101), M.T @ expit(grid)), 0.0)
    keep = weights > 1e-12
    np.testing.assert_allclose(found.atoms, grid[keep], atol=1e-12)
    np.testing.assert_allclose(found.weights, weights[keep] / weights[keep].sum(), rtol=1e-9)


@pytest.mark.parametrize(("looks", "ways"), [([4], 1), ([2, 4], 6), ([1, 3, 6], 60), ([1, 2, 3, 4], 24)])
def test_every_way_to_draw_the_looks_comes_once(looks, ways):
    """Those of all orders of the data, each look sorted."""
    found = list(orders(np.array(looks)))
    assert len(found) == len(set(found)) == ways == round(number_of_orders(np.array(looks)))
    cuts = list(itertools.pairwise([0, *looks]))
    expected = {tuple(tuple(sorted(p[a:b])) for a, b in cuts) for p in itertools.permutations(range(looks[-1]))}
    assert set(found) == expected


def test_the_mean_over_them():
    first = mean_over_orders(np.array([2, 4]), lambda order: np.array([order[0][0], 1.0]))
    assert first.tolist() == [pytest.approx(4 / 6), 1.0]  # the smaller of two of 0 to 3: 0, 0, 0, 1, 1, 2


def test_too_many_to_count_are_infinitely_many():
    assert number_of_orders(np.arange(1, 1001)) == math.inf
    assert number_of_orders(np.array([500, 1000])) == pytest.approx(math.comb(1000, 500))


def stats(ratios=((0.4, 0.5), (0.3, 0.9)), **attrs):
    """Return the records of two chains of two draws with these ratios; one of 0.5 is not heavy."""
    return xr.Dataset({"max_term_ratio": (("chain", "draw"), np.array(ratios))}, attrs=attrs)


@pytest.mark.parametrize("ratio", [1.0, 0.06])
def test_draws_are_counted(ratio):
    assert share_of_heavy_draws(stats(setup_variance_ratio=ratio)) == share_of_heavy_draws(stats()) == 0.25


def test_small_residuals_say_nothing():
    assert share_of_heavy_draws(stats(setup_variance_ratio=0.05)) == 0.0


def test_nor_do_draws_that_were_audited():
    assert share_of_heavy_draws(stats().assign(audited_kurtosis=3.0)) == 0.0


def test_nor_none_at_all():
    assert share_of_heavy_draws(stats(ratios=((), ()))) == 0.0
    assert share_of_heavy_draws(stats().drop_vars("max_term_ratio")) == 0.0


@pytest.mark.parametrize(("heavy", "warns"), [(1, False), (2, True), (20, True)])
def test_the_t_test_warns_from_a_tenth_of_the_draws_on(heavy, warns):
    records = stats(ratios=[[0.9] * heavy + [0.1] * (20 - heavy)])
    counts = dict.fromkeys(("decisions_audited", "wrong_decisions"), xr.zeros_like(records["max_term_ratio"], int))
    assert bool(SequentialTTest().problems(records.assign(counts))) == warns


LOOKS = {"batch_size": 20, "growth": 2.0, "boundary_shape": 0.4}
LAW = LOOKS | {"epsilon": 0.05, "n_obs": 100}


def stats_of(attrs=None, **columns):
    """Return a group of one chain."""
    values = {name: (("chain", "draw"), np.atleast_2d(value)) for name, value in columns.items()}
    return xr.Dataset(values, attrs={"n_obs": 100} | (attrs or {}))


def expected(stats, tol=0.0):
    """Return the errors of the chain's draws."""
    return expected_errors(stats, epsilon=0.05, tol=tol, **LOOKS)[0]


def test_the_error_is_that_of_the_recursion():
    """At either sign, interpolated; from 6 on that of 6."""
    mu_std = np.array([0.0, -0.3, 1.21, 2.77, -4.4, 5.49, 5.97, 7.0])
    exact = sequential_test_error(np.minimum(np.abs(mu_std), 6.0), **LAW)["error"]
    np.testing.assert_allclose(expected(stats_of(audited_mu_std=mu_std)), exact, rtol=0.02)


def test_draws_are_judged_by_an_epsilon_of_their_own():
    stats = stats_of(audited_mu_std=[1.0, 1.0, 1.0, np.nan], epsilon=[0.05, 0.2, np.nan, 0.2])
    exact = [float(sequential_test_error(1.0, **LAW | {"epsilon": each})["error"]) for each in (0.05, 0.2)]
    np.testing.assert_allclose(expected(stats), [*exact, np.nan, np.nan], rtol=0.02)


def test_nothing_is_expected_where_nothing_was_audited():
    assert expected_errors(stats_of(x=[0.0]), epsilon=0.05, tol=0.0, **LOOKS) is None
    assert expected_errors(stats_of(audited_mu_std=[np.nan]), epsilon=0.05, tol=0.0, **LOOKS) is None
    kept = stats_of({"audit_policy": "auto"}, audited_mu_std=[1.0])
    assert expected_errors(kept, epsilon=0.05, tol=0.1, **LOOKS) is None
    assert expected_errors(kept, epsilon=0.05, tol=0.0, **LOOKS) is not None


@pytest.mark.parametrize("n_influential", [0, 7])
def test_a_stop_by_tolerance_adds_the_error_of_its_look(n_influential):
    """Looks at 20 and 60 terms beside influential rows; a draw of no decision, and one of two that adds a quarter."""
    stats = stats_of(
        {"setup_influential_rows": n_influential} if n_influential else {},
        audited_mu_std=[1.0, 1.0, 1.0, 1.0, 1.0],
        decisions_made=[1, 1, 1, 0, 2],
        tolerance_stops=[0, 1, 1, 0, 1],
        datapoints_touched=np.array([100, 20, 60, 0, 80]) + n_influential,
    )
    added = expected(stats, tol=0.1) - expected(stats)
    looks = [float(tolerance_stop_error(1.0, look, **LAW)) for look in (0, 1)]
    np.testing.assert_allclose(added, [0.0, *looks, 0.0, 0.25], rtol=1e-2)
    assert 0.01 < looks[1] < looks[0] - 0.01


@pytest.mark.parametrize(
    ("wrong", "audited", "lower"),
    [(0, 1000, 0.0), (1, 49, 0.0), (1, 50, 1.0 - 0.999 ** (1 / 50)), (50, 50, 0.001**0.02)],
)
def test_the_lower_limit_of_a_rate(wrong, audited, lower):
    """The root of P(at least so many) = 0.001; 0 without a wrong one, and below 50 audits."""
    found = wrong_decisions(stats_of(wrong_decisions=[wrong], decisions_audited=[audited]))
    assert found == (wrong, audited, pytest.approx(lower, rel=1e-9))


def test_the_last_equal_look_reads_what_is_left():
    assert look_sizes(12_214, 500)[[0, 1, -2, -1]].tolist() == [500, 1000, 12_000, 12_214]


def test_no_look_is_empty_when_the_batch_divides_the_data():
    assert look_sizes(2000, 500).tolist() == [500, 1000, 1500, 2000]


def test_growth_multiplies_what_each_look_adds():
    # 10, 15, round(22.5) = 22 and round(33.75) = 34 are read; the last look takes the 19 that are left.
    assert look_sizes(100, 10, growth=1.5).tolist() == [10, 25, 47, 81, 100]


@pytest.mark.parametrize("batch_size", [7, 8, 1000])
def test_a_batch_of_all_data_leaves_one_look(batch_size):
    assert look_sizes(7, batch_size, growth=2.0).tolist() == [7]


@pytest.mark.thorough
@given(n_obs=st.integers(1, 5000), batch_size=st.integers(2, 600), growth=st.floats(1.0, 1e6))
def test_looks_increase_strictly_to_all_data(n_obs, batch_size, growth):
    looks = look_sizes(n_obs, batch_size, growth)
    assert looks.dtype == np.int64
    assert looks[-1] == n_obs
    assert np.all(np.diff(looks) > 0)
    added = np.diff(looks, prepend=0)
    assert added[:-1].tolist() == [round(batch_size * growth**j) for j in range(len(looks) - 1)]
    assert added[-1] <= round(batch_size * growth ** (len(looks) - 1))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 10), "n_obs"),
        ((100, 1), "batch_size"),
        ((100, 2.5), "batch_size"),
        ((100, True), "batch_size"),
        ((100, 10, 0.9), "growth"),
        ((100, 10, math.nan), "growth"),
        ((100, 10, math.inf), "growth"),
    ],
)
def test_looks_refuse_what_makes_no_schedule(arguments, name):
    with pytest.raises(InvalidInputError, match=name):
        look_sizes(*arguments)


@pytest.mark.parametrize("epsilon", [1e-12, 0.001, 0.05, 0.3, 0.499])
def test_critical_values_invert_the_student_law(epsilon):
    from scipy.stats import t

    looks = np.array([2, 3, 50, 500, 10_000, 10_001])
    values = critical_values(looks, epsilon)
    np.testing.assert_allclose(t.sf(values, looks[:-1] - 1), epsilon, rtol=1e-9)


def test_critical_values_have_a_closed_form_with_two_terms():
    # One degree of freedom is the Cauchy law: F^{-1}(p) = tan(pi (p - 1/2)).
    assert critical_values(np.array([2, 4]), 0.2)[0] == pytest.approx(math.tan(math.pi * 0.3), rel=1e-12)


def test_normal_thresholds_are_the_same_at_every_look():
    values = critical_values(np.array([2, 100, 1000]), 0.05, thresholds="normal")
    np.testing.assert_allclose(values, 1.6448536269514722, rtol=1e-12)


def test_the_ends_of_epsilon_are_exact():
    looks = look_sizes(10, 2)
    assert np.all(critical_values(looks, 0.0) == np.inf)
    assert np.all(critical_values(looks, 0.5) == 0.0)
    assert critical_values(np.array([10]), 0.01).shape == (0,)


@pytest.mark.parametrize("epsilon", [-0.01, 0.51, math.nan])
def test_epsilon_outside_its_range_is_refused(epsilon):
    with pytest.raises(InvalidInputError, match="epsilon"):
        critical_values(look_sizes(100, 10), epsilon)


def test_unknown_thresholds_are_refused():
    with pytest.raises(InvalidInputError, match="cauchy"):
        critical_values(look_sizes(100, 10), 0.1, thresholds="cauchy")


@pytest.mark.parametrize("shape", [-0.01, 0.51, math.nan])
def test_a_boundary_shape_outside_its_range_is_refused(shape):
    with pytest.raises(InvalidInputError, match="boundary_shape"):
        critical_values(look_sizes(100, 10), 0.1, shape=shape)


@pytest.mark.parametrize(("growth", "looks"), [(1.0, [500, 1000, 1500, 2000]), (2.0, [500, 1500, 2000])])
def test_growth_is_the_factor_between_looks(growth, looks):
    assert look_sizes(2000, 500, growth).tolist() == looks


EQUAL = np.full(6, 0.5)


BY_BOUNDS = [SequentialTTest(0.2, 2), BernsteinTest(0.5, 2, 1.0), BernsteinTest(0.5, 2, 1.0, range="observed")]


@pytest.mark.parametrize("test", BY_BOUNDS, ids=repr)
@pytest.mark.parametrize(("threshold", "answer", "read"), [(2.75, 1, 2), (3.0, 0, 6), (3.25, 0, 2)])
def test_terms_without_spread_decide_at_once_but_for_a_tie(test, threshold, answer, read):
    """Also where their range is known to be 0: the bound is 0 there, and nothing lies further apart."""
    found = decide_once(test, EQUAL, threshold, 0.0)
    booked = {"decisions_made": 1, "decision_rounds": read // 2, "datapoints_touched": read}
    assert found == (answer, 3.0, booked | {"likelihood_evaluations": 2 * read}, {})


def threshold_form(test, terms, seed=0):
    """Return the number with which log u, or logit u, is compared, over the terms in the order of this seed."""
    part, table = test.build_test(Population(EQUAL)), table_of_terms(len(terms), 1)
    write_pair(table, np.zeros(1), np.ones(1), terms)
    return plain(part.threshold_form)(np.random.default_rng(seed), table, 0.25, part.make_state())


@pytest.mark.parametrize("test", [*BY_BOUNDS, MinibatchBarker(batch_size=2)], ids=repr)
class TestTheThresholdForm:
    def test_terms_without_spread_are_known_at_once(self, test):
        tells_all = 0.25 + 3.0 if test.rule == "metropolis" else 3.25
        assert threshold_form(test, EQUAL) == pytest.approx(tells_all, abs=0.1 * (test.rule == "barker"))

    @pytest.mark.parametrize(("term", "expected"), [(-math.inf, -math.inf), (math.nan, math.nan)])
    def test_terms_that_are_no_numbers(self, test, term, expected):
        """Data of probability 0 are refused by every u; else there is no answer."""
        np.testing.assert_equal(threshold_form(test, np.full(6, term)), expected)


class TestRanges:
    def test_terms_may_lie_as_far_apart_as_they_are_said_to(self):
        """Up to rounding, which is between 1e-16 and 1e-6."""
        terms = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
        for largest, violations in ((1.0, 0), (1.0 - 1e-10, 0), (1.0 - 1e-8, 1), (0.5, 1)):
            *_, counts, _ = decide_once(BernsteinTest(0.9, 2, 1.0, range=largest), terms, 0.0, 0.0)
            assert (counts.get("range_violations", 0), counts["datapoints_touched"]) == (violations, 6)


def test_a_tolerance_that_is_just_attained_is_enough():
    """N s after two of six terms: by the tolerance it stops, however little is known of the sign."""
    terms = np.array([-0.1, 0.2, 5.0, -5.0, 0.3, -0.2])
    seen = evidence_of(terms).moments
    plain(moments.reset)(seen)
    plain(moments.merge)(seen, terms[:2].copy(), 2)
    attained = 6 * plain(moments.standard_error)(seen, 2, 6)
    for tol, stops, read in ((attained, 1, 2), (np.nextafter(attained, 0.0), 0, 6)):
        *_, counts, _ = decide_once(SequentialTTest(1e-4, 2, tol=tol), terms, 0.0, 0.0)
        assert (counts.get("tolerance_stops", 0), counts["datapoints_touched"]) == (stops, read)


def test_by_its_tolerance_the_threshold_form_knows_the_mean_of_what_was_read():
    """The first two of six terms that lie close together: N s is at most 0.13, and no sign is clear at 1e-4."""
    terms = 0.1 + 0.01 * np.arange(6.0)
    pairs = {round(0.25 + 3.0 * (a + b), 9) for a, b in itertools.combinations(terms, 2)}
    found = {round(threshold_form(SequentialTTest(1e-4, 2, tol=0.5), terms, seed), 9) for seed in range(20)}
    assert found <= pairs and len(found) > 3


def test_the_heaviest_term_is_measured_in_units_of_the_spread():
    """Of 0, 0 and 0.3 the last lies 0.2 from the mean; s_l sqrt(3) is 0.3."""
    *_, values = decide_once(SequentialTTest(0.5, 3), np.array([0.0, 0.0, 0.3, 0.5, 0.2, -0.1]), 0.0, 0.0)
    assert values == {"max_term_ratio": pytest.approx(2.0 / 3.0)}
