"""The empirical Bernstein test: stop when a concentration bound, valid for any terms, settles the decision.

Metropolis-Hastings accepts iff the mean mu of the N terms l_i = log p(x_i|theta') - log p(x_i|theta) exceeds
mu_0 = (log u - c) / N, u uniform on (0, 1) and c the log ratio of prior and proposal. After n terms without
replacement, of mean lbar and standard deviation s, the test stops at look j if abs(lbar - mu_0) > c_n,

    c_n = s sqrt(2 log(3 / delta_j) / n) + 3 C log(3 / delta_j) / n,    delta_j = (p - 1) / (p j^p) delta,

C >= max l - min l. Each look errs with probability at most delta_j, whatever the terms are, and the delta_j add up to
delta at most. So a decision is wrong with probability at most delta: heavy tails cost data, not correctness.

The inequality (Audibert, Munos and Szepesvari 2009) is stated for draws with replacement. It rests on exponential
moments, which are no larger without replacement (Hoeffding 1963, theorem 4), and so holds here. Bardenet and Maillard
(2015), theorem 4.3, add a finite-population factor rho_n, but need larger constants,

    c_n = s sqrt(2 rho_n log(5 / delta_j) / n) + (7/3 + 3/sqrt(2)) C log(5 / delta_j) / n,

rho_n = 1 - (n - 1)/N for n <= N/2 and (1 - n/N)(1 + 1/n) beyond. This bound is smaller if the term with s dominates the
term with C and n is a large part of N. It is one-sided, which is enough because a decision can be wrong on one side
only.

Reference: Bardenet, Doucet and Holmes (2014), Towards Scaling up Markov Chain Monte Carlo, ICML, algorithm 2 (with
C >= max abs(l) and 6 in place of 3); Bardenet, Doucet and Holmes (2017), On Markov Chain Monte Carlo Methods for Tall
Data, JMLR, sections 5 and 7 (control variates).
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.audits import wrong_decisions
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.acceptance.look_by_look import make_decide, make_threshold_form
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.acceptance.true_bounds import checked_range
from approxmcmc.contracts import (
    AcceptanceTest,
    BoundedTermsTarget,
    CompiledTermRange,
    CompiledTest,
    Finding,
    Population,
    Target,
)
from approxmcmc.contracts.records import VIOLATIONS
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.moments import LARGEST, SMALLEST, standard_deviation
from approxmcmc.engine.terms.order import check_order
from approxmcmc.engine.terms.term_range import constant_range
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

BOUNDS = ("bernstein", "serfling")
ROUNDING = 1e-9  # relative tolerance, so that terms which differ by exactly the range are no violation


class BernsteinState(NamedTuple):
    """Sizes of the looks, and the factors a_j of s and b_j of C.

    C is ``term_range(theta, theta', numbers)``, or the range of the terms read if `observed`.
    """

    looks: np.ndarray
    spread_factor: np.ndarray
    range_factor: np.ndarray
    term_range: Any
    numbers: np.ndarray
    observed: bool


@compiled
def range_of_terms(evidence: Evidence, test: BernsteinState) -> float:
    """Return C: the range observed, or the stated one; inf if that is no number or the terms read contradict it."""
    seen = evidence.moments[LARGEST] - evidence.moments[SMALLEST]
    if test.observed:
        return seen
    stated = test.term_range(evidence.theta, evidence.proposed, test.numbers)
    return stated if stated >= 0.0 and seen <= stated * (1.0 + ROUNDING) else math.inf


@compiled
def half_width(evidence: Evidence, test: BernsteinState, look: int, n: int) -> float:
    """Return c_n, the distance from mu_0 at which a look decides; infinite if the range C is."""
    limit = range_of_terms(evidence, test)
    if limit == math.inf:
        return math.inf
    return test.spread_factor[look] * standard_deviation(evidence.moments) + test.range_factor[look] * limit


@compiled
def conclude(
    evidence: Evidence,
    test: BernsteinState,
    look: int,
    n: int,
    distance: float,
    count: np.ndarray,
    value: np.ndarray,
) -> None:
    """Count a stated range that the terms read contradict; all terms have then been read."""
    if n == evidence.n_obs and range_of_terms(evidence, test) == math.inf:
        stated = test.term_range(evidence.theta, evidence.proposed, test.numbers)
        count[VIOLATIONS] += 0.0 <= stated < math.inf


decide = make_decide(half_width, conclude)
bernstein_threshold_form = make_threshold_form(half_width)


@dataclasses.dataclass(frozen=True, eq=False)
class BernsteinTest(AcceptanceTest):
    """Accept or reject by empirical Bernstein bounds on growing subsets of the data.

    Parameters
    ----------
    delta
        Largest probability of a wrong decision, 0 <= delta < 1; with 0 the test never stops early.
    batch_size
        Number of data in the first look, at least 2.
    growth
        Look j adds ``round(batch_size * growth**(j - 1))`` data. Every further look makes the bounds wider, so by
        default looks double.
    range
        Source of C, which bounds ``max l - min l`` over all data, l the change of a term between two states.
        ``"target"``: from the target, as a function of both states (for example `LogisticRegression`, `GLMTarget` with
        ``slope_bound``, `FunctionTarget` with ``term_range``). A number: a bound for every pair of states.
        ``"observed"``: the range of the terms read so far, a guess, so the guarantee does not hold.
    p
        Exponent of j in delta_j = (p - 1) / (p j^p) delta; greater than 1, by default 2 as in the paper.
    bound
        ``"bernstein"`` or ``"serfling"``, see the module. The first is tighter if the term with the range C dominates,
        the second if the term with the standard deviation s dominates and many data are read.
    order
        How subsets are drawn, as for :class:`SequentialTTest`. With blocks the bound delta holds on average over the
        chain's shuffles of the data, not for each shuffle.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    IncompatibleError
        When the target cannot bound its terms and `range` is ``"target"``; raised before anything runs.

    Notes
    -----
    Guarantee: each decision is wrong with probability at most delta, whatever the distribution of the terms; so the
    error of the acceptance probability is at most delta, and the bias vanishes with delta. No guarantee with
    ``range="observed"``. If two of the terms read differ by more than C, the decision is made on all data and counted
    in ``range_violations``, and a run warns.

    Cost: at most 2 evaluations for each datum read. The test is conservative: without control variates it reads nearly
    all data near a mode, because C is many times the terms' standard deviation.

    References
    ----------
    Bardenet, Doucet and Holmes (2014), algorithm 2; (2017), sections 5 and 7.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.acceptance.BernsteinTest(0.05, batch_size=100).range
    'target'
    """

    delta: float = 0.01
    batch_size: int = 500
    growth: float = 2.0
    range: Any = "target"
    p: float = 2.0
    bound: str = "bernstein"
    order: str = "auto"

    def __post_init__(self) -> None:
        """Check delta, p, range and bound; `look_sizes` checks the looks."""
        look_sizes(2, self.batch_size, self.growth)
        check_order(self.order)
        number = isinstance(self.range, (int, float, np.number)) and not isinstance(self.range, bool)
        range_fits = self.range > 0.0 if number else self.range in ("target", "observed")
        for name, fits, needed in (
            ("delta", 0.0 <= self.delta < 1.0, "be at least 0 (exact) and below 1"),
            ("p", 1.0 < self.p < math.inf, "be finite and over 1"),
            ("bound", self.bound in BOUNDS, f"be one of {BOUNDS}"),
            ("range", range_fits, "be 'target', 'observed' or a positive number"),
        ):
            if not fits:
                raise InvalidInputError(f"BernsteinTest: {name} must {needed}, found {getattr(self, name)!r}")

    def reads_all(self, n_obs: int) -> bool:
        """Return whether the test never stops early, or has one look."""
        return self.delta == 0.0 or super().reads_all(n_obs)

    def why_not_invariant(self, n_obs: int) -> str:
        """Return a clause on the error of acceptance probabilities; "" if the test reads all data."""
        if self.reads_all(n_obs):
            return ""
        error = "unknown, as the range is a guess" if self.range == "observed" else f"at most {self.delta:g}"
        return f"{self!r} stops early; the error of its acceptance probabilities is {error}"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look."""
        return look_sizes(n_obs, self.batch_size, self.growth)

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return warnings about a range that is too small: more wrong decisions than delta, or terms outside it."""
        problems = []
        wrong = wrong_decisions(stats)
        if wrong.lower > self.delta:
            test = f"BernsteinTest(range={self.range!r})"
            sentence = f"{wrong}, more than delta = {self.delta:g} of {test}: the range is too small"
            advice = "give a larger range, one by which the changes of two terms never differ"
            problems.append(Finding("wrong decisions", "warning", sentence, advice, wrong.lower, self.delta))
        violations = int(stats["range_violations"].sum()) if "range_violations" in stats else 0
        if violations:
            sentence = (
                f"in {violations} of {int(stats['decisions_made'].sum())} decisions the terms read lay further apart "
                "than the range given to BernsteinTest. These were decided on all data; other decisions may have been "
                "decided wrongly"
            )
            advice = "give a larger range, one by which the changes of two terms never differ"
            problems.append(Finding("range of the terms", "warning", sentence, advice, violations, 0.0))
        return problems

    @property
    def only_compares(self) -> bool:
        """True: it compares an estimate with the threshold."""
        return True

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test; raise if the terms have no bound."""
        looks = look_sizes(target.n_obs, self.batch_size, self.growth)
        observed = self.range == "observed"
        factors = bound_factors(looks, self.delta, self.p, self.bound)
        state = BernsteinState(looks, *factors, *self._term_range(target), observed)
        records = ("audited_mu_std", *(() if observed else ("range_violations",)))
        return CompiledTest(
            decide,
            lambda: state,
            METROPOLIS.threshold,
            METROPOLIS.probability,
            records=records,
            threshold_form=bernstein_threshold_form,
        )

    @names_itself()
    def _term_range(self, target: Target | Population) -> CompiledTermRange:
        if not isinstance(self.range, str):
            return CompiledTermRange(constant_range(), np.array([float(self.range)]))
        if self.range == "observed":
            return CompiledTermRange(constant_range(), np.zeros(1))
        if not isinstance(target, BoundedTermsTarget):
            raise IncompatibleError(
                f"BernsteinTest(range='target') needs a target that bounds its terms, found {target!r}; give "
                "range=<number>, the most by which changes of two terms differ, or 'observed', which guarantees nothing"
            )
        return checked_range(target)


def bound_factors(looks: np.ndarray, delta: float, p: float = 2.0, bound: str = "bernstein") -> tuple[Any, Any]:
    """Return the factors a_j and b_j in c_n = a_j s + b_j C, see the module; shape (J,), infinite for ``delta=0``.

    Parameters
    ----------
    looks
        Cumulative numbers of terms from `look_sizes`; shape (J,). The last look reads all terms and needs no bound, so
        the last entries of the results are unused.
    delta, p, bound
        As for `BernsteinTest`.

    Examples
    --------
    >>> spread, reach = bound_factors(look_sizes(10_000, 500, 2.0), 0.05)
    >>> spread.round(3)[:2].tolist(), reach.round(4)[:2].tolist()
    ([0.138, 0.091], [0.0287, 0.0123])
    """
    n = np.asarray(looks, dtype=np.float64)
    n_obs = float(looks[-1])
    if delta == 0.0:
        return np.full_like(n, np.inf), np.full_like(n, np.inf)
    # delta_j; they add up to at most delta, because the sum of j^-p over j >= 1 is at most p / (p - 1).
    spent = (p - 1.0) / (p * np.arange(1.0, len(n) + 1.0) ** p) * delta
    if bound == "bernstein":
        log_factor = np.log(3.0 / spent)
        return np.sqrt(2.0 * log_factor / n), 3.0 * log_factor / n
    log_factor = np.log(5.0 / spent)
    rho = np.where(n <= n_obs / 2.0, 1.0 - (n - 1.0) / n_obs, (1.0 - n / n_obs) * (1.0 + 1.0 / n))
    return np.sqrt(2.0 * rho * log_factor / n), (7.0 / 3.0 + 3.0 / math.sqrt(2.0)) * log_factor / n
