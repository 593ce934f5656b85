"""What the minibatch Barker test reads, and what its audit says of given minibatches, against NumPy."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtr

from approxmcmc.acceptance import MinibatchBarker
from approxmcmc.acceptance.barker_decision import REPLICATIONS, acceptance_log_odds
from approxmcmc.acceptance.laws.barker_law import bound_from_moments, minibatch_barker_error_bound
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.contracts.records import AUDIT_ERROR, AUDIT_NOISE, BLANK_VALUES
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.batches import BATCH
from approxmcmc.engine.terms.order import draw_next
from tests.decisions import Population, decide_once, evidence_of
from tests.planting import plain
from tests.textbook import minibatch_barker_probability


class Likelihood(Population):
    """Terms that a temperature may divide."""

    terms_are_likelihood = True


def audit_of(test, terms, orders, log_rest):
    """Return error and noise that an audit finds over minibatches which begin these orders of the terms."""
    part, value, left = test.build_test(Likelihood(terms)), BLANK_VALUES.copy(), iter(orders)

    def take_the_next(rng, places, start, stop):
        if start == 0:
            places[:] = next(left)

    audit = plain(part.audit, {draw_next: take_the_next})
    audit(None, evidence_of(terms), 0.0, log_rest, part.make_state(), value)
    assert next(left, None) is None
    return value[AUDIT_ERROR], value[AUDIT_NOISE]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_obs", "batch_size", "settings"),
    [
        (12, 3, {}),
        (12, 4, {"target_variance": 0.5, "temperature": 2.0}),
        (12, 5, {"target_variance": 0.25}),
        (BATCH + 90, 2 * BATCH, {}),  # all data at once, in two batches
        (3 * BATCH, BATCH + 88, {"temperature": 20.0}),  # a look is more than one batch
    ],
)
def test_an_audit_is_the_mean_error_of_its_minibatches(n_obs, batch_size, settings, rng):
    terms = 0.3 * rng.normal(size=n_obs) + 0.5 * rng.exponential(size=n_obs) / n_obs
    orders = rng.permuted(np.tile(np.arange(n_obs), (REPLICATIONS, 1)), axis=1)

    def acceptance_probability(order):
        for n in (*range(batch_size, n_obs, batch_size), n_obs):
            found = minibatch_barker_probability(terms[order[:n]], n_obs, -0.4, **settings)
            if found is not None:
                return found

    log_ratio = -0.4 + terms.sum() / settings.get("temperature", 1.0)
    errors = np.array([acceptance_probability(order) for order in orders]) - expit(log_ratio)
    expected = errors.mean(), errors.std(ddof=1) / math.sqrt(64.0)
    assert audit_of(MinibatchBarker(batch_size=batch_size, **settings), terms, orders, -0.4) == pytest.approx(
        expected, rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize("log_rest", np.linspace(-3.0, 3.0, 13))
def test_one_minibatch_again_and_again_has_no_noise(log_rest):
    """The mean of squares less the square of the mean may come out below 0, by rounding."""
    terms = np.array([0.1, -0.2, 0.05, 0.15, -0.1, 0.3])
    _, noise = audit_of(MinibatchBarker(batch_size=3), terms, np.tile(np.arange(6), (REPLICATIONS, 1)), log_rest)
    assert noise == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("estimate", [-3.0, -0.4, 0.0, 1.0, 2.5])
def test_the_correction_is_added_to_the_estimate(estimate):
    """A = sum_j p_j Phi((Delta* + Y_j) / sqrt(sigma^2 - s^2)); here of a Y that is not symmetric, and s^2 = 0.18."""
    atoms, weights = np.array([-1.0, 0.5, 2.0]), np.array([0.2, 0.5, 0.3])
    state = MinibatchBarker(batch_size=3).build_test(Population(np.zeros(6))).make_state()
    seen = np.zeros(moments.SIZE)
    seen[moments.MEAN], seen[moments.M2] = (estimate - 0.4) / 6.0, 0.06
    found = plain(acceptance_log_odds)(seen, 3, 6, 0.4, state._replace(atoms=atoms, weights=weights))
    known = [weights @ ndtr(sign * (estimate + atoms) / math.sqrt(0.82)) for sign in (1.0, -1.0)]
    assert found == pytest.approx(math.log(known[0] / known[1]), rel=1e-12)


def test_an_audit_decides_for_what_lies_below_the_log_ratio():
    terms = np.array([0.25, 0.5, -0.5, 1.0])
    part = MinibatchBarker(batch_size=4).build_test(Population(terms))
    for threshold, answer in ((1.5, 1), (np.nextafter(1.75, 0.0), 1), (1.75, 0), (2.0, 0)):
        value = BLANK_VALUES.copy()
        evidence = evidence_of(terms)
        rng = np.random.default_rng(0)
        assert plain(part.audit)(rng, evidence, threshold, 0.5, part.make_state(), value) == answer


def read_of(terms, **settings):
    """Return how many terms a decision reads in the order in which they lie."""
    return decide_once(MinibatchBarker(**settings), terms, 0.0, 0.0)[2]["datapoints_touched"]


def test_a_variance_equal_to_its_target_is_not_below_it():
    """S^2 = 16 d^2 / 2 / 2 (1 - 2 / 4) = 2 d^2 after 0 and d of four terms."""
    for d, read in ((0.5, 4), (0.5 - 1e-9, 2)):
        assert read_of(np.array([0.0, d, 0.5, 0.0]), batch_size=2, target_variance=0.5) == read


def bound_after(n, terms):
    """Return 6.4 sqrt(kurtosis) + 2 over sqrt(n), and the error of the correction, for the first n terms."""
    tails = math.sqrt(stats.kurtosis(terms[:n], fisher=False))
    return (6.4 * tails + 2.0) / math.sqrt(n) + correction_distribution().sup_error


def test_reading_goes_on_until_the_error_bound_is_small_enough(rng):
    """The variance is small at once: the bound alone decides."""
    terms = 1e-3 * rng.normal(size=400)
    bounds = [bound_after(n, terms) for n in range(25, 400, 25)]
    for k, attained in enumerate(bounds[:6]):
        assert read_of(terms, batch_size=25, max_error=attained * (1.0 + 1e-9)) <= 25 * (k + 1)
        below = next((n for n, bound in enumerate(bounds, 1) if bound <= attained * (1.0 - 1e-9)), 16)
        assert read_of(terms, batch_size=25, max_error=attained * (1.0 - 1e-9)) == 25 * below
    assert read_of(terms, batch_size=25) == 25  # no bound is asked for


def test_a_bound_that_is_just_attained_is_small_enough():
    terms = np.array([0.0, 1e-3, 3e-3, 2e-3, 0.0, 1e-3])
    seen = np.zeros(moments.SIZE)
    plain(moments.reset)(seen)
    plain(moments.merge)(seen, terms[:3].copy(), 3)
    attained = plain(bound_from_moments)(seen, correction_distribution().sup_error)
    assert read_of(terms, batch_size=3, max_error=attained) == 3
    assert read_of(terms, batch_size=3, max_error=np.nextafter(attained, 0.0)) == 6


def test_the_error_of_the_correction_is_added_to_the_bound():
    terms = np.array([0.0, 1.0, 3.0, 2.0])
    seen = np.zeros(moments.SIZE)
    plain(moments.reset)(seen)
    plain(moments.merge)(seen, terms, 4)
    added = plain(bound_from_moments)(seen, 0.25) - plain(bound_from_moments)(seen, 0.0)
    assert added == pytest.approx(0.25, rel=1e-14)
    without = minibatch_barker_error_bound(terms, [10, 20])
    np.testing.assert_allclose(minibatch_barker_error_bound(terms, [10, 20], correction_error=0.25), 0.25 + without)
