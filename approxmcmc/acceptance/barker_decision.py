"""Decisions of the minibatch Barker test: how many terms to read, the log odds of acceptance, and the audit.

Here c is the log ratio of priors and proposal densities, l_i = log p(x_i|theta') - log p(x_i|theta), K a temperature,
and Delta = c + (1/K) sum_i l_i. After b data drawn without replacement,

    Delta* = c + (N/K) lbar,    s^2 = (N/K)^2 s_l^2 / b (1 - b/N),

s_l^2 the variance of the terms read (divisor b - 1). Data are added until s^2 < sigma^2. Then Delta* = Delta + nearly
normal noise of variance s^2; normal noise X_nc of variance sigma^2 - s^2 and the correction X_corr of `correction`
make it up to a logistic variable, and the test accepts iff Delta* + X_nc + X_corr > 0. If X_corr takes the values Y_j
with probabilities p_j, this has, given Delta* and s^2, the probability

    A = sum_j p_j Phi((Delta* + Y_j) / sqrt(sigma^2 - s^2)),

so one uniform u decides: u < A. Exact at b = N, where s = 0: there Barker's rule itself is applied.

Reference: Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI,
algorithm 1; the closed form of A is not in the paper.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.barker_law import bound_from_moments
from approxmcmc.acceptance.look_by_look import answer_to
from approxmcmc.acceptance.metropolis import decision_on
from approxmcmc.acceptance.rules import barker_probability
from approxmcmc.contracts.records import (
    AUDIT_ERROR,
    AUDIT_NOISE,
    DECISIONS,
    ROUNDS,
    SKEWNESS,
    SKEWNESS_RATIO,
    VARIANCE,
)
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import BATCH, FINITE
from approxmcmc.engine.terms.evidence import Evidence, merge_differences
from approxmcmc.engine.terms.moments import M2, MEAN, merge, reset, skewness
from approxmcmc.engine.terms.order import draw_next, read_differences
from approxmcmc.engine.terms.term_table import read_table

REPLICATIONS = 64  # minibatches drawn in one audit: a standard error of about 0.03, without further evaluations


class BarkerState(NamedTuple):
    """The settings of the test, and the correction distribution: its atoms, their weights, and its sup-error."""

    batch_size: int
    temperature: float
    target_variance: float
    max_error: float
    correction_error: float
    atoms: np.ndarray
    weights: np.ndarray


class KnownTerms(NamedTuple):
    """All differences l_i of a pair of states, and a permutation of their indices."""

    terms: np.ndarray
    places: np.ndarray


@compiled
def log_ratio_variance(moments: np.ndarray, n: int, n_obs: int, temperature: float) -> float:
    """Return s^2, the estimated variance of Delta* after n of N data; 0 at n = N."""
    if n == n_obs:
        return 0.0
    scale = n_obs / temperature
    return scale * scale * (moments[M2] / (n - 1)) / n * (1.0 - n / n_obs)


@compiled
def has_read_enough(moments: np.ndarray, n: int, n_obs: int, test: BarkerState) -> bool:
    """Return whether all data are read, or s^2 < sigma^2 and the bound on the error is at most `max_error`."""
    if n == n_obs:
        return True
    if log_ratio_variance(moments, n, n_obs, test.temperature) >= test.target_variance:
        return False
    return test.max_error == math.inf or bound_from_moments(moments, test.correction_error) <= test.max_error


@compiled
def read_data(rng: np.random.Generator, evidence: Evidence, start: int, stop: int, count: np.ndarray) -> int:
    """Read the next terms of a decision, and count them."""
    count[ROUNDS] += 1
    return read_differences(rng, evidence, start, stop, count)


@compiled
def read_look_of_table(rng: np.random.Generator, table: Evidence, start: int, stop: int, source: None) -> int:
    """Read the next terms of a table."""
    return read_table(rng, table, start, stop)


@compiled
def read_again(rng: np.random.Generator, evidence: Evidence, start: int, stop: int, known: KnownTerms) -> int:
    """Read the next of the known terms, in a new random order."""
    batch = evidence.differences
    draw_next(rng, known.places, start, stop)
    for lo in range(start, stop, BATCH):
        hi = min(lo + BATCH, stop)
        for place in range(lo, hi):
            batch[place - lo] = known.terms[known.places[place]]
        merge(evidence.moments, batch, hi - lo)
    return FINITE


@cached_by_content(maxsize=4)
def make_read_enough(read: Callable[..., int]) -> Callable[..., tuple[int, Any]]:
    """Return the loop that reads look by look until the estimate is precise enough.

    ``read_enough(rng, evidence, test, source)`` returns the outcome of the last look, see `merge_differences`, and how
    many terms are read. ``read(rng, evidence, start, stop, source)`` merges the next terms. The number of looks does
    not depend on u.
    """

    def read_enough(rng: np.random.Generator, evidence: Evidence, test: BarkerState, source: Any) -> tuple[int, Any]:
        moments = evidence.moments
        n_obs = np.int64(evidence.n_obs)
        reset(moments)
        outcome = FINITE
        n = np.int64(0)  # a literal 0 would compile the helpers twice
        while outcome == FINITE and (n == 0 or not has_read_enough(moments, n, n_obs, test)):
            before = n
            n = min(n + test.batch_size, n_obs)
            outcome = read(rng, evidence, before, n, source)
        return outcome, n

    return compiled(read_enough)


read_enough_data = make_read_enough(read_data)
read_enough_of_table = make_read_enough(read_look_of_table)
read_enough_again = make_read_enough(read_again)


@compiled
def acceptance_log_odds(moments: np.ndarray, n: int, n_obs: int, log_rest: float, test: BarkerState) -> float:
    """Return logit(A), the log odds of acceptance given the terms read; Delta itself at n = N.

    The smaller of A and 1 - A is summed, so that no digits are lost.
    """
    estimate = log_rest + n_obs * moments[MEAN] / test.temperature
    if n == n_obs:
        return estimate
    variance = log_ratio_variance(moments, n, n_obs, test.temperature)
    spread = math.sqrt(test.target_variance - variance)
    # The smaller of the two is 1 - A for Delta* > 0, else A: a mean of Phi(-(abs(Delta*) +- Y_j) / spread).
    sign = 1.0 if estimate > 0.0 else -1.0
    tail = 0.0
    for j in range(test.atoms.shape[0]):
        tail += test.weights[j] * 0.5 * math.erfc((abs(estimate) + sign * test.atoms[j]) / (spread * math.sqrt(2.0)))
    if tail <= 0.0:
        return sign * math.inf
    return sign * (math.log1p(-tail) - math.log(tail))


@compiled
def decide(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: BarkerState,
    count: np.ndarray,
    value: np.ndarray,
) -> tuple[int, float]:
    """Read until the estimate is precise enough, and accept if logit(u), the `threshold`, is below logit(A).

    Return ACCEPT, REJECT, or UNDECIDED if a term is NaN or +inf, and logit(A).
    """
    moments = evidence.moments
    n_obs = np.int64(evidence.n_obs)
    count[DECISIONS] += 1
    outcome, n = read_enough_data(rng, evidence, test, count)
    if outcome != FINITE:
        return answer_to(outcome)
    value[VARIANCE] = log_ratio_variance(moments, n, n_obs, test.temperature)
    value[SKEWNESS] = skewness(moments)
    if n < n_obs:
        value[SKEWNESS_RATIO] = max(value[SKEWNESS_RATIO], abs(value[SKEWNESS]) / math.sqrt(n))
    log_odds = acceptance_log_odds(moments, n, n_obs, log_rest, test)
    return decision_on(threshold, log_odds), log_odds


@compiled
def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: BarkerState) -> float:
    """Return Lambda^ = logit(A), from the terms in `table`; NaN if a term is NaN or +inf.

    The terms that the test reads do not depend on u, so it accepts iff logit(u) < Lambda^.
    """
    outcome, n = read_enough_of_table(rng, table, test, None)
    if outcome != FINITE:
        return answer_to(outcome)[1]
    return acceptance_log_odds(table.moments, n, table.n_obs, log_rest, test)


@allocating
def audit(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: BarkerState,
    value: np.ndarray,
) -> int:
    """Decide on all data: return ACCEPT, REJECT, or UNDECIDED if a term is NaN or +inf.

    Record the mean of A - S(Delta) over 64 new minibatches, drawn from the random stream of the audits, in
    ``value[AUDIT_ERROR]``, and its standard error in ``value[AUDIT_NOISE]``.
    """
    batch = evidence.differences
    moments = evidence.moments
    n_obs = evidence.n_obs
    terms = np.empty(n_obs)
    reset(moments)
    for lo in range(0, n_obs, BATCH):
        hi = min(lo + BATCH, n_obs)
        outcome = merge_differences(evidence, evidence.memory_order, lo, hi)
        if outcome != FINITE:
            return answer_to(outcome)[0]
        terms[lo:hi] = batch[: hi - lo]  # merge_differences writes the differences to `batch`
    log_ratio = log_rest + n_obs * moments[MEAN] / test.temperature

    known = KnownTerms(terms, np.arange(n_obs))
    total = total_of_squares = 0.0
    for _ in range(REPLICATIONS):
        _, n = read_enough_again(rng, evidence, test, known)
        log_odds = acceptance_log_odds(moments, n, n_obs, log_rest, test)
        error = barker_probability(log_odds) - barker_probability(log_ratio)
        total += error
        total_of_squares += error * error
    mean = total / REPLICATIONS
    value[AUDIT_ERROR] = mean
    variance = max(total_of_squares / REPLICATIONS - mean * mean, 0.0)
    value[AUDIT_NOISE] = math.sqrt(variance / (REPLICATIONS - 1))
    return decision_on(threshold, log_ratio)
