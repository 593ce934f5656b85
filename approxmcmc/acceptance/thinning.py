r"""Exact decisions on few rows: Poisson counts as auxiliary variables.

Let D_i = log p(x_i | theta') - log p(x_i | theta), and give every datum a count s_i ~ Poisson(lambda_i(theta, theta')).
If the rates satisfy

    lambda_i(theta', theta) - lambda_i(theta, theta') = D_i(theta, theta'),                                       (1)

then accepting with probability min(1, e^c prod_i [lambda_i(theta', theta) / lambda_i(theta, theta')]^{s_i}), c the log
ratio of priors and proposals, is exact.

*Proof.* With the counts the flow from theta to theta' is p(theta) prod_i p(x_i | theta) q(theta' | theta) prod_i
e^{-lambda_i} lambda_i^{s_i} / s_i!. Divide the flow back, with the same counts, by this flow. The likelihoods give
e^{sum D_i}, the exponents of the Poisson distributions e^{-sum (lambda_i(theta', theta) - lambda_i(theta, theta'))} =
e^{-sum D_i}. The two cancel, and the rest is the ratio above. So detailed balance holds for every value of the counts,
hence for the sum over all values.

A datum with s_i = 0 need not be read. With abs(D_i) <= b_i = c_i M, M symmetric in the two states, and rates of at most
v b_i for one number v, the counts are found by thinning: draw B ~ Poisson(v sum b_i) rows with probabilities
c_i / sum c, and keep each with probability lambda_i / (v b_i). The tests differ only in the rate:

==================  =========================================  =====================================================
`PoissonTest`       b_i - max(0, D_i)                          Prado, Nemeth and Sherlock (2024), gamma = 0
`TunaTest`          (w b_i - D_i) / 2, w = 1 + 2 chi C M       Zhang, Cooper and De Sa (2020), algorithm 2; C = sum c
`FactorizedTest`    max(0, -D_i)                               Cornish et al. (2019): any row that is kept rejects
==================  =========================================  =====================================================

Each rate satisfies (1), because max(0, D) - max(0, -D) = D. If drawing rows is more expensive than summing all terms,
the test sums all terms and uses Metropolis's rule. This choice depends only on M, which is symmetric: the same rule is
used for a pair of states in both directions, so detailed balance holds.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, decision_on, log_ratio_of
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.acceptance.true_bounds import checked_differences, watch_differences
from approxmcmc.contracts import (
    AcceptanceTest,
    BoundedDifferencesTarget,
    CompiledDifferenceBound,
    CompiledTest,
    Finding,
    Population,
    Target,
)
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, EXPECTED_READS, ROUNDS, TOUCHED, VIOLATIONS
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.evidence import Evidence, log_likelihood_at
from approxmcmc.engine.terms.row_classes import RowClasses, draw_rows_by_class, row_classes
from approxmcmc.errors import IncompatibleError

if TYPE_CHECKING:
    import xarray as xr

# Largest expected share of rows that a decision reads, else all are read: a random row at two states costs 150 ns, a
# row of a full sum 25 ns (Covertype).
LARGEST_SHARE = 0.2
ROWS = 64  # rows in a batch: with 50 columns they stay in the first-level cache between the two states
ROUNDING = 1e-12  # rounding error of a difference of two terms, which must not count as a violation


class ThinningState(NamedTuple):
    """The bounds of the differences, rows drawn by them, and the log-likelihood at theta (NaN if unknown).

    `reach` and `numbers` compute M, `classes` groups the rows by their c_i, rounded up, `total` is the sum of the
    rounded c_i, `chi` the setting of `TunaTest`. If more than `most_reads` rows are expected, all terms are summed.
    `rows`, `rates` and `terms` are scratch arrays for one batch.
    """

    reach: Any
    numbers: np.ndarray
    classes: RowClasses
    total: float
    chi: float
    most_reads: float
    rows: np.ndarray
    rates: np.ndarray
    terms: np.ndarray
    log_likelihood: np.ndarray


@compiled
def add_up(
    evidence: Evidence, threshold: float, log_rest: float, test: ThinningState, count: np.ndarray
) -> tuple[int, float]:
    """Decide on all terms; those at theta are summed only if their sum is unknown.

    Return ACCEPT, REJECT or UNDECIDED, see `metropolis`, and the log ratio.
    """
    kept = test.log_likelihood
    if math.isnan(kept[0]):
        kept[0] = log_likelihood_at(evidence, evidence.theta, evidence.memory_order)
        count[EVALUATIONS] += evidence.n_obs
    total = log_likelihood_at(evidence, evidence.proposed, evidence.memory_order)
    count[EVALUATIONS] += evidence.n_obs
    count[TOUCHED] += evidence.n_obs
    log_ratio = log_ratio_of(log_rest, kept[0], total)
    decision = decision_on(threshold, log_ratio)
    if decision == ACCEPT:
        kept[0] = total
    return decision, log_ratio


@compiled
def arrivals(rng: np.random.Generator, now: float, end: float) -> tuple[int, float]:
    """Return how many events of a rate-1 Poisson process fall between `now` and `end`, and the time reached.

    After a batch of events the function stops: the time reached is then that of the last event, otherwise `end`.
    Drawing a waiting time takes 8 ns, far less than reading a random row; numba's Poisson numbers would allocate lists.
    """
    n = 0
    while n < ROWS:
        now += rng.standard_exponential()
        if now >= end:
            return n, end
        n += 1
    return n, now


@cached_by_content(maxsize=16)
def make_decide(rate: Callable[[float, float, float], float]) -> Callable[..., tuple[int, float]]:
    """Return the decision of a test with Poisson counts.

    ``rate(bound, difference, w)`` is the rate of a row's count, at most (1 + w) bound / 2, with w as in the module.
    """

    def decide(
        rng: np.random.Generator,
        evidence: Evidence,
        threshold: float,
        log_rest: float,
        test: ThinningState,
        count: np.ndarray,
        value: np.ndarray,
    ) -> tuple[int, float]:
        count[DECISIONS] += 1
        count[ROUNDS] += 1
        reach = test.reach(evidence.theta, evidence.proposed, test.numbers)
        w = 1.0 + 2.0 * test.chi * test.total * reach
        expected = 0.5 * (1.0 + w) * test.total * reach
        if not expected <= test.most_reads:  # also if NaN: an infinite reach, and chi = 0
            value[EXPECTED_READS] += evidence.n_obs
            return add_up(evidence, threshold, log_rest, test, count)
        value[EXPECTED_READS] += expected
        log_ratio = log_rest
        now = 0.0
        read = 0
        while now < expected:
            n, now = arrivals(rng, now, expected)
            draw_rows_by_class(rng, test.classes, n, test.rows, test.rates)
            evidence.log_terms(evidence.theta, evidence.data, test.rows, 0, n, evidence.current)
            evidence.log_terms(evidence.proposed, evidence.data, test.rows, 0, n, test.terms)
            count[EVALUATIONS] += 2 * n
            read += n
            for k in range(n):
                bound = test.rates[k] * reach
                difference = test.terms[k] - evidence.current[k]
                if not abs(difference) <= bound + ROUNDING:  # the bound is false, or a term NaN: read them all
                    count[VIOLATIONS] += 1
                    return add_up(evidence, threshold, log_rest, test, count)
                difference = min(max(difference, -bound), bound)
                here = rate(bound, difference, w)
                if 0.5 * (1.0 + w) * bound * rng.random() < here:
                    back = rate(bound, -difference, w)
                    if not back > 0.0:
                        count[TOUCHED] += read
                        return REJECT, -math.inf
                    log_ratio += math.log(back / here)
        count[TOUCHED] += read
        decision = decision_on(threshold, log_ratio)
        if decision == ACCEPT:
            test.log_likelihood[0] = math.nan
        return decision, log_ratio

    return compiled(decide)


class ThinnedTest(AcceptanceTest):
    """Base class of the tests with Poisson counts; each subclass defines a rate, see the module."""

    chi: float = 0.0

    @property
    def order(self) -> str:
        """Return "memory": the test draws random rows itself and needs no order of the data."""
        return "memory"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return an empty array: the number of terms read is random."""
        return np.empty(0, dtype=np.int64)

    def why_not_invariant(self, n_obs: int) -> str:
        """Return "": the test leaves the target invariant if the bounds hold; a run counts violations."""
        return ""

    def difference_bound(self, target: Target | Population) -> CompiledDifferenceBound:
        """Return the target's bound on each of its terms; raise with advice if it has none."""
        return self._bounding(target).compile_difference_bound()

    def _bounding(self, target: Target | Population) -> BoundedDifferencesTarget:
        if isinstance(target, BoundedDifferencesTarget):
            return target
        raise IncompatibleError(
            f"{type(self).__name__} needs a target that bounds each of its terms, found {target!r}; give a generalised "
            "linear model to ControlVariate, or use ExactTest"
        )

    def expected_reads(self, target: Target | Population) -> float:
        """Return the mean number of data that a decision reads between typical states of the target's pilot.

        A pilot is a short run, or the Laplace approximation, made with the target. NaN if the target has no pilot.

        Examples
        --------
        >>> import approxmcmc as amc
        >>> X, y = amc.datasets.synthetic_logistic(20_000, 3)
        >>> amc.PoissonTest().expected_reads(
        ...     amc.ControlVariate(amc.LogisticRegression(X, y), always_read="auto")
        ... ) < 1000
        True
        """
        return self._expected_reads(self.difference_bound(target), target.n_obs)

    def _expected_reads(self, bound: CompiledDifferenceBound, n_obs: int) -> float:
        if not bound.reaches.size:
            return math.nan
        per_pair = bound.reaches * bound.rates.sum(dtype=np.float64)
        per_pair = per_pair * (1.0 + self.chi * per_pair)
        return float(np.where(per_pair <= LARGEST_SHARE * n_obs, per_pair, n_obs).mean())

    @names_itself()
    def compile_with(self, rate: Callable[..., float], target: Target | Population) -> CompiledTest:
        """Compile the test with Poisson counts of `rate`; raise if some terms exceed their bounds."""
        bound = checked_differences(self._bounding(target))
        has_pilot = bound.reaches.size > 0  # then the bound was checked at pairs of its draws
        classes = row_classes(bound.rates) if bound.classes is None else bound.classes
        expected = self._expected_reads(bound, target.n_obs)

        def make_state() -> ThinningState:
            return ThinningState(
                reach=bound.reach,
                numbers=bound.numbers,
                classes=classes,
                total=classes.total,
                chi=float(self.chi),
                most_reads=LARGEST_SHARE * target.n_obs,
                rows=np.empty(ROWS, dtype=np.int64),
                rates=np.empty(ROWS),
                terms=np.empty(ROWS),
                log_likelihood=np.full(1, math.nan),
            )

        return CompiledTest(
            make_decide(rate),
            make_state,
            METROPOLIS.threshold,
            METROPOLIS.probability,
            is_audited=False,
            records=("expected_reads", "range_violations"),
            attrs={} if math.isnan(expected) else {"setup_expected_reads": expected},
            watch=None if has_pilot else watch_differences(target, bound),
        )

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return a warning if a bound of the terms proved false during the run."""
        violations = int(stats["range_violations"].sum()) if "range_violations" in stats else 0
        if not violations:
            return []
        sentence = (
            f"in {violations} of {int(stats['decisions_made'].sum())} decisions a term changed by more than the bound "
            f"given to {type(self).__name__}: the chain is not exact"
        )
        advice = "give the target a larger difference_bound, slope_bound or third_derivative_bound, or use ExactTest"
        return [Finding("bounds of the terms", "warning", sentence, advice, violations, 0.0)]
