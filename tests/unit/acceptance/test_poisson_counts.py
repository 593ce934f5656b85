"""One decision by Poisson counts, whose waiting times, rows and uniforms are given."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import poisson
from approxmcmc.acceptance.thinning import ROUNDING, ThinningState, arrivals, make_decide
from approxmcmc.contracts import COUNT_NAMES, CompiledDifferenceBound
from approxmcmc.contracts.records import BLANK_VALUES, EXPECTED_READS
from approxmcmc.engine.terms.row_classes import draw_rows_by_class
from tests.decisions import WithBound, evidence_of
from tests.planting import plain


def scripted(waits=(), uniforms=()):
    """Return a generator of these numbers; it raises where more are drawn."""
    return types.SimpleNamespace(standard_exponential=iter(waits).__next__, random=iter(uniforms).__next__)


def decide(differences, *, threshold=0.0, log_rest=0.25, events=1, uniforms=(), bound=0.5, kept=0.0, most_reads=2.0):
    """Return decision, log ratio, what was counted, the reads expected, and the log-likelihood that is kept.

    The process has so many events up to C M = 4 * 0.5; they read the first rows, whose differences are at most `bound`.
    """

    def read_the_first(rng, classes, n, rows, rates):
        rows[:n], rates[:n] = np.arange(n), bound / 0.5

    unread, size = dict.fromkeys(("numbers", "classes")), len(differences)
    scratch = {"rows": np.zeros(size, np.int64), "rates": np.zeros(size), "terms": np.zeros(size)}
    known = np.array([kept])
    state = ThinningState(
        lambda *_: 0.5, total=4.0, chi=0.0, most_reads=most_reads, log_likelihood=known, **unread, **scratch
    )
    rng = scripted([1.0 / events] * events + [9.0], uniforms)
    count, value = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy()
    by_counts = plain(make_decide(poisson.poisson_rate), {draw_rows_by_class: read_the_first})
    found = by_counts(rng, evidence_of(differences), threshold, log_rest, state, count, value)
    counted = {name: int(number) for name, number in zip(COUNT_NAMES, count, strict=True) if number}
    return *found, counted, value[EXPECTED_READS], known[0]


def booked(read, **more):
    """Return what a decision on so many rows counts."""
    counts = {"decisions_made": 1, "decision_rounds": 1, "datapoints_touched": read, "likelihood_evaluations": 2 * read}
    return counts | more


TERMS = np.array([0.25, -0.5, 0.5, 0.25])


def test_rows_that_are_kept_multiply_the_ratio():
    """Poisson's rate: of D = 1/4 with the bound 1/2 half is thinned out, and the ratio is 1/2 over 1/4."""
    for uniform, log_ratio in ((0.5 - 1e-9, 0.25 + math.log(2.0)), (0.5, 0.25)):
        found = decide(TERMS, uniforms=[uniform])
        assert found == (1, pytest.approx(log_ratio), booked(1), 2.0, pytest.approx(math.nan, nan_ok=True))


def test_a_threshold_must_lie_below_the_log_ratio():
    """Nothing is kept of the first row; the log-likelihood is not known where a move was made on few rows."""
    for threshold, decision, left in ((0.25, 0, 7.0), (0.25 - 1e-9, 1, math.nan)):
        found = decide(TERMS, threshold=threshold, uniforms=[0.9], kept=7.0)
        assert found == (decision, 0.25, booked(1), 2.0, pytest.approx(left, nan_ok=True))


def test_a_count_that_is_impossible_there_refuses():
    """D = -1/2 is at its bound: the rate back is 0. The row before was not kept."""
    assert decide(TERMS, events=2, uniforms=[0.9, 0.9]) == (0, -math.inf, booked(2), 2.0, 0.0)


def test_a_row_of_rate_zero_is_never_kept():
    """D = 1/2 is at its bound: not even by a uniform of 0."""
    assert decide(TERMS[2:], uniforms=[0.0])[:3] == (1, 0.25, booked(1))


@pytest.mark.parametrize(("beyond", "violations"), [(0.0, 0), (ROUNDING, 0), (2.0 * ROUNDING, 1), (math.nan, 1)])
def test_a_term_beyond_its_bound_by_more_than_rounding_is_a_violation(beyond, violations):
    """Then all four terms are added up: those at theta are known."""
    _, _, counted, *_ = decide(np.append(0.5 + beyond, TERMS[1:]), uniforms=[0.9])
    read = {"range_violations": 1, "likelihood_evaluations": 2 + 4, "datapoints_touched": 4}
    assert counted == (booked(1) | read if violations else booked(1))


def test_more_reads_than_a_share_of_the_rows_are_all_of_them():
    """As many as the share are still read one by one: C M = 2."""
    assert decide(TERMS, uniforms=[0.9], most_reads=2.0)[2:4] == (booked(1), 2.0)
    assert decide(TERMS, most_reads=2.0 - 1e-9)[2:4] == (booked(4) | {"likelihood_evaluations": 4}, 4.0)
    bound = CompiledDifferenceBound(None, np.empty(0), np.full(20, 0.5), np.array([6.0]))
    assert amc.acceptance.PoissonTest().expected_reads(WithBound(bound, 300)) == 60.0
    assert amc.acceptance.PoissonTest().expected_reads(WithBound(bound, 299)) == 299.0


@pytest.mark.parametrize(("threshold", "decision", "left"), [(0.75 - 1e-9, 1, 0.5), (0.75, 0, 0.0)])
def test_all_terms_decide_as_in_the_exact_test(threshold, decision, left):
    assert decide(TERMS, threshold=threshold, most_reads=0.0)[:2] == (decision, 0.75)
    assert decide(TERMS, threshold=threshold, most_reads=0.0)[-1] == left


def test_events_are_those_before_the_end_64_at_a_time():
    """Waiting times of 1: of 99 events before 100 the first 64 are one batch. An event at the end does not count."""
    rng = scripted([1.0] * 100)
    assert plain(arrivals)(rng, 0.0, 100.0) == (64, 64.0)
    assert plain(arrivals)(rng, 64.0, 100.0) == (35, 100.0)
