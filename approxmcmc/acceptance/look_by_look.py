"""Read look by look until the answer is clear; and reduce such a test, on data in a fixed order, to one number.

The test stops at the first look j where mu_0 = (log u - c) / N, u the uniform number of the decision and c the log
ratio of prior and proposal, lies outside lbar_j -+ h_j, with lbar_j the mean of the terms read; it accepts iff mu_0
lies below this interval. It stops after all N terms, and with h_j = 0 for every u but a tie. A test gives h_j, and what
it records after the last look; the loop is the same for all.

The half-width h_j does not depend on u. So the values of mu_0 that are undecided after a look form an interval; values
below it have been accepted and values above it rejected. A final stop, at all data or by tolerance, cuts the interval
at the mean. So there is a mu^ with

    accept  <=>  mu_0 < mu^  <=>  log u < Lambda^ = c + N mu^    for every u.

The form reads a table of the terms, see `approxmcmc.engine.terms.term_table`. If a term read is infinite or undefined,
the test answers at once.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on
from approxmcmc.contracts.records import DECISIONS, ROUNDS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import CERTAIN, FINITE, IMPOSSIBLE, UNDEFINED
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.moments import MEAN, reset
from approxmcmc.engine.terms.order import read_differences
from approxmcmc.engine.terms.term_table import read_table


@compiled
def answer_to(outcome: int) -> tuple[int, float]:
    """Return the decision and the log ratio where terms are infinite or undefined; see `merge_differences`."""
    if outcome == IMPOSSIBLE:
        return REJECT, -math.inf
    if outcome == CERTAIN:
        return ACCEPT, math.inf
    return UNDECIDED, math.nan


@cached_by_content(maxsize=16)
def make_decide(half_width: Callable[..., float], conclude: Callable[..., None]) -> Callable[..., tuple[int, float]]:
    """Return the compiled decision of a test with looks, see `CompiledTest.decide`.

    ``half_width(evidence, test, look, n)`` returns h at a look (an index) after n terms. ``conclude(evidence, test,
    look, n, distance, count, value)`` records the last look, at which the mean was `distance` above mu_0.
    ``test.looks``, shape (J,), holds the numbers of terms read at the looks; the last is N.
    """

    def decide(
        rng: np.random.Generator,
        evidence: Evidence,
        threshold: float,
        log_rest: float,
        test: Any,
        count: np.ndarray,
        value: np.ndarray,
    ) -> tuple[int, float]:
        looks = test.looks
        moments = evidence.moments
        n_obs = evidence.n_obs
        mu_0 = (threshold - log_rest) / n_obs
        reset(moments)
        count[DECISIONS] += 1
        distance = 0.0
        look = 0
        n = np.int64(0)  # a literal 0 would compile the helpers twice
        for look in range(looks.shape[0]):
            before = n
            n = looks[look]
            outcome = read_differences(rng, evidence, before, n, count)
            count[ROUNDS] += 1
            if outcome != FINITE:
                return answer_to(outcome)
            distance = moments[MEAN] - mu_0
            if n == n_obs:
                break
            if abs(distance) > half_width(evidence, test, look, n):
                break
        conclude(evidence, test, look, n, distance, count, value)
        return decision_on(0.0, distance), log_rest + n_obs * moments[MEAN]

    return compiled(decide)


@cached_by_content(maxsize=16)
def make_threshold_form(half_width: Callable[..., float]) -> Callable[..., float]:
    """Return the compiled function ``(rng, table, log_rest, test) -> Lambda^`` of a test with looks.

    ``half_width(table, test, look, n)`` is as for `make_decide`. Lambda^ is NaN if a term read is NaN or +inf.
    """

    def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: Any) -> float:
        looks = test.looks
        moments = table.moments
        n_obs = table.n_obs
        reset(moments)
        lower = -math.inf
        upper = math.inf
        cut = 0.0
        n = np.int64(0)  # a literal 0 would compile the helpers twice
        for look in range(looks.shape[0]):
            before = n
            n = looks[look]
            outcome = read_table(rng, table, before, n)
            if outcome == UNDEFINED:
                return math.nan
            # A datum of probability 0 at theta' rejects for every u that no earlier look has decided.
            mean = moments[MEAN] if outcome == FINITE else -math.inf
            cut = min(max(mean, lower), upper)
            if n == n_obs or outcome != FINITE:
                break
            h = half_width(table, test, look, n)
            if h < math.inf:
                lower = max(lower, mean - h)
                upper = min(upper, mean + h)
            if lower >= upper:
                break
        return log_rest + n_obs * cut

    return compiled(threshold_form)
