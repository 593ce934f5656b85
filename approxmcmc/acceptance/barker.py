"""The minibatch Barker test: the noise of a minibatch stands in for the noise of the decision.

Barker accepts iff Delta + X_log > 0 with X_log standard logistic, that is with probability S(Delta) = 1 / (1 +
exp(-Delta)). Here c is the log ratio of priors and proposal densities, l_i = log p(x_i|theta') - log p(x_i|theta), K a
temperature, and Delta = c + (1/K) sum_i l_i. After b data drawn without replacement,

    Delta* = c + (N/K) lbar,    s^2 = (N/K)^2 s_l^2 / b (1 - b/N),

s_l^2 the variance of the terms read (divisor b - 1). Data are added until s^2 < sigma^2. Then Delta* = Delta + nearly
normal noise of variance s^2; normal noise X_nc of variance sigma^2 - s^2 and the correction X_corr of `correction`
make it up to a logistic variable, and the test accepts iff Delta* + X_nc + X_corr > 0. Given Delta* and s^2 that has
probability

    A = sum_j p_j Phi((Delta* + Y_j) / sqrt(sigma^2 - s^2)),

so one uniform u decides: u < A. Exact at b = N, where s = 0: there Barker's rule itself is applied.

Accepting u < A and Barker's u < S(Delta) use the same u. How often they differ measures the noise of the minibatch,
which is harmless: averaged over minibatches, A is S(Delta) up to the error of the central limit theorem. That
average is the bias, and an audit estimates it, by drawing the minibatch again and again at one pair of states.

Reference: Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI,
algorithm 1; the closed form of A is not in the paper.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.barker_error import bound_from_moments
from approxmcmc.acceptance.laws.correction import LARGEST_SIGMA, METHODS, SMALLEST_SIGMA, correction_distribution
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.acceptance.rules import BARKER, barker_probability
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.contracts.records import (
    AUDIT_ERROR,
    AUDIT_NOISE,
    DECISIONS,
    ROUNDS,
    SKEWNESS,
    SKEWNESS_RATIO,
    VARIANCE,
)
from approxmcmc.engine.batches import BATCH, CERTAIN, FINITE, IMPOSSIBLE, UNDEFINED
from approxmcmc.engine.checks import is_integer
from approxmcmc.engine.compile import allocating, compiled
from approxmcmc.engine.evidence import Evidence, merge_differences
from approxmcmc.engine.moments import M2, MEAN, merge, reset, skewness
from approxmcmc.engine.order import check_order, draw_next, read_differences
from approxmcmc.engine.term_table import read_table
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

REPLICATIONS = 64  # of the minibatch in one audit: a standard error of about 0.03, without a further evaluation
# The test under skewed terms is off by some 0.01 in acceptance probability from here on.
LARGEST_SKEWNESS_RATIO = 0.05
SHARE_OF_SKEWED_DRAWS = 0.5
LEAST_SPREAD = 1e-6  # below it the distribution of the normal part is a step for every purpose


class BarkerState(NamedTuple):
    """What the test was set to, and the atoms and weights of the correction distribution."""

    batch_size: int
    temperature: float
    target_variance: float
    max_error: float
    correction_error: float
    atoms: np.ndarray
    weights: np.ndarray


@compiled
def log_ratio_variance(moments: np.ndarray, n: int, n_obs: int, temperature: float) -> float:
    """Return s^2, the estimated variance of Delta* after n of N data; 0 at n = N."""
    if n == n_obs:
        return 0.0
    scale = n_obs / temperature
    return scale * scale * (moments[M2] / (n - 1)) / n * (1.0 - n / n_obs)


@compiled
def has_read_enough(moments: np.ndarray, n: int, n_obs: int, test: BarkerState) -> bool:
    """Return whether the estimate is precise enough, and the error bound, if one is asked for, small enough."""
    if n == n_obs:
        return True
    if log_ratio_variance(moments, n, n_obs, test.temperature) >= test.target_variance:
        return False
    return test.max_error == math.inf or bound_from_moments(moments, test.correction_error) <= test.max_error


@compiled
def acceptance_log_odds(moments: np.ndarray, n: int, n_obs: int, log_rest: float, test: BarkerState) -> float:
    """Return logit(A), the log odds of acceptance given what was read; Delta itself at n = N.

    The smaller of A and 1 - A is summed, so that no digit of it is lost.
    """
    estimate = log_rest + n_obs * moments[MEAN] / test.temperature
    if n == n_obs:
        return estimate
    variance = log_ratio_variance(moments, n, n_obs, test.temperature)
    spread = max(math.sqrt(test.target_variance - variance), LEAST_SPREAD)
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
    """Read until the estimate is precise enough, and compare its log odds of acceptance with logit(u)."""
    moments, n_obs = evidence.moments, np.int64(evidence.n_obs)
    reset(moments)
    count[DECISIONS] += 1
    n = np.int64(0)  # a literal 0 would compile the helpers twice
    while n == 0 or not has_read_enough(moments, n, n_obs, test):
        before, n = n, min(n + test.batch_size, n_obs)
        outcome = read_differences(rng, evidence, before, n, count)
        count[ROUNDS] += 1
        if outcome == UNDEFINED:
            return -1, 0.0
        if outcome == IMPOSSIBLE:
            return 0, -math.inf
        if outcome == CERTAIN:
            return 1, math.inf
    value[VARIANCE] = log_ratio_variance(moments, n, n_obs, test.temperature)
    value[SKEWNESS] = skewness(moments)
    if n < n_obs:
        value[SKEWNESS_RATIO] = max(value[SKEWNESS_RATIO], abs(value[SKEWNESS]) / math.sqrt(n))
    log_odds = acceptance_log_odds(moments, n, n_obs, log_rest, test)
    return (1 if threshold < log_odds else 0), log_odds


@compiled
def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: BarkerState) -> float:
    """Return logit(A), with which every u is compared: what is read does not depend on u."""
    moments, n_obs = table.moments, np.int64(table.n_obs)
    reset(moments)
    n = np.int64(0)  # a literal 0 would compile the helpers twice
    while n == 0 or not has_read_enough(moments, n, n_obs, test):
        before, n = n, min(n + test.batch_size, n_obs)
        outcome = read_table(rng, table, before, n)
        if outcome != FINITE:
            return math.nan if outcome == UNDEFINED else -math.inf
    return acceptance_log_odds(moments, n, n_obs, log_rest, test)


@allocating
def audit(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: BarkerState,
    value: np.ndarray,
) -> int:
    """Decide on all data, and record the mean of A - S(Delta) over fresh minibatches, drawn from the audit's stream."""
    batch, moments, n_obs = evidence.differences, evidence.moments, evidence.n_obs
    terms = np.empty(n_obs)
    reset(moments)
    for lo in range(0, n_obs, BATCH):
        hi = min(lo + BATCH, n_obs)
        outcome = merge_differences(evidence, evidence.as_they_lie, lo, hi)
        if outcome != FINITE:
            return -1 if outcome == UNDEFINED else (1 if outcome == CERTAIN else 0)
        terms[lo:hi] = batch[: hi - lo]  # merge_differences leaves the differences there
    log_ratio = log_rest + n_obs * moments[MEAN] / test.temperature

    places = np.arange(n_obs)
    total = total_of_squares = 0.0
    for _ in range(REPLICATIONS):
        reset(moments)
        n = 0
        while n == 0 or not has_read_enough(moments, n, n_obs, test):
            before, n = n, min(n + test.batch_size, n_obs)
            draw_next(rng, places, before, n)
            for lo in range(before, n, BATCH):
                hi = min(lo + BATCH, n)
                for place in range(lo, hi):
                    batch[place - lo] = terms[places[place]]
                merge(moments, batch, hi - lo)
        log_odds = acceptance_log_odds(moments, n, n_obs, log_rest, test)
        error = barker_probability(log_odds) - barker_probability(log_ratio)
        total += error
        total_of_squares += error * error
    mean = total / REPLICATIONS
    value[AUDIT_ERROR] = mean
    variance = max(total_of_squares / REPLICATIONS - mean * mean, 0.0)
    value[AUDIT_NOISE] = math.sqrt(variance / (REPLICATIONS - 1))
    return 1 if threshold < log_ratio else 0


@dataclasses.dataclass(frozen=True, eq=False)
class MinibatchBarker(AcceptanceTest):
    """Accept with nearly Barker's probability, from a minibatch that grows until its noise is small enough.

    Parameters
    ----------
    target_variance
        sigma^2: data are added until the estimated variance of the log ratio's estimate falls below it; 0.01 to 2.25.
        Smaller values read more and err less where the terms are skewed.
    batch_size
        Data of the first look and of every further one, at least 2; 50 or more for skewed terms.
    temperature
        K > 0: the log-likelihood is divided by K, and the chain aims at the tempered posterior.
    correction
        How the correction distribution is made: ``"minimax"``, ``"ridge"`` or ``"nnls"``; see
        :func:`correction_distribution`.
    max_error
        Read on until :func:`minibatch_barker_error_bound`, estimated from the terms read, is at most this, too. None:
        no such rule. The bound is loose: 0.1 takes some 17 000 data, and the test then saves little.
    order
        How subsets are drawn: ``"rows"``, ``"blocks"`` or ``"auto"``, as in :class:`SequentialTTest`.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    IncompatibleError
        With a temperature, when the target's terms are not its whole likelihood (:class:`ControlVariate`).

    Notes
    -----
    Guarantee: biased; the bias vanishes in the Gaussian regime, up to 5e-8 of the correction, and once all data are
    read. Skewed terms bias it, because a minibatch that misses the heavy tail looks both low and precise: see
    ``skewness_ratio`` in the trace; a run warns when it is large. The exact partner is ``ExactTest("barker")``.
    Cost: 2 evaluations for each datum read; about N^2 Var(l) / (K sigma)^2 data, so the test pays for small steps or
    K > 1.

    In an audited trace, ``wrong_decisions`` counts differences from the exact decision with the same uniform. That is
    the minibatch's noise and no bias: do not compare it with a sequential test's. The bias is
    ``audit_acceptance_error``.

    References
    ----------
    Seita, Pan, Chen and Canny (2017), algorithm 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MinibatchBarker(batch_size=200).target_variance
    1.0
    """

    target_variance: float = 1.0
    batch_size: int = 100
    temperature: float = 1.0
    correction: str = "minimax"
    max_error: float | None = None
    order: str = "auto"

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, value, fits, needed in (
            (
                "target_variance",
                self.target_variance,
                self.target_variance > 0.0 and SMALLEST_SIGMA <= math.sqrt(self.target_variance) <= LARGEST_SIGMA,
                f"lie between {SMALLEST_SIGMA**2:.2f} and {LARGEST_SIGMA**2}",
            ),
            ("batch_size", self.batch_size, is_integer(self.batch_size) and self.batch_size >= 2, "be an integer >= 2"),
            ("temperature", self.temperature, 0.0 < self.temperature < math.inf, "be positive and finite"),
            ("correction", self.correction, self.correction in METHODS, f"be one of {METHODS}"),
            ("max_error", self.max_error, self.max_error is None or self.max_error > 0.0, "be positive, or None"),
        ):
            if not fits:
                raise InvalidInputError(f"MinibatchBarker: {name} must {needed}, found {value!r}")
        check_order(self.order, who="MinibatchBarker")

    @property
    def rule(self) -> str:
        """Barker's."""
        return "barker"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look."""
        return look_sizes(n_obs, self.batch_size)

    def law_unknown(self, method: str) -> str:
        """Say which setting a method does not describe; "" for none."""
        if method == "enumerate":
            return "" if self.max_error is None else f"enumeration knows no max_error, found {self!r}; leave it out"
        if self.temperature == 1.0 and self.max_error is None:
            return ""
        return (
            "the Gaussian regime describes MinibatchBarker without temperature and max_error, found "
            f"{self!r}; use method='enumerate' on tiny data"
        )

    def gaussian_probability(self, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
        """Return the smoothed correction distribution at Lambda, or Barker's rule where tau makes it read all data."""
        from approxmcmc.acceptance.laws import barker_law

        return barker_law.gaussian_probability(log_ratio, tau, self.looks(n_obs), rule=rule, **self._noise())

    def enumerated_probability(self, differences: np.ndarray, log_rest: np.ndarray, rule: str) -> np.ndarray:
        """Return the mean of A over all ways to draw the looks."""
        from approxmcmc.acceptance.laws import barker_law

        looks = self.looks(differences.shape[1])
        return barker_law.enumerated_probability(differences, log_rest, looks, rule=rule, **self._noise())

    def _noise(self) -> dict[str, Any]:
        correction = correction_distribution(math.sqrt(self.target_variance), self.correction)
        return {"target_variance": self.target_variance, "correction": correction}

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Warn of skewed terms: ``abs(skewness) / sqrt(n)`` over its limit in most draws; 4 % of normal ones."""
        if "skewness_ratio" not in stats or not stats.sizes["draw"]:
            return []
        share = float((stats["skewness_ratio"] > LARGEST_SKEWNESS_RATIO).mean())
        if share < SHARE_OF_SKEWED_DRAWS:
            return []
        sentence = (
            f"in {share:.0%} of the draws |skewness| / sqrt(n) of the terms read exceeded {LARGEST_SKEWNESS_RATIO}: "
            "the noise of the minibatch is not normal, and the Barker test is biased"
        )
        advice = "use a larger batch_size, a smaller target_variance, shorter steps, or ExactTest('barker')"
        return [Finding("skewed terms", "warning", sentence, advice, share, SHARE_OF_SKEWED_DRAWS)]

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile what reads, estimates and decides; a population smaller than one batch is read whole."""
        if self.temperature != 1.0 and not target.terms_are_likelihood:
            raise IncompatibleError(
                f"MinibatchBarker(temperature={self.temperature:g}) divides a target's terms; those of {target!r} are "
                "what an expansion leaves of the likelihood, whose rest stands beside the prior; use the plain target"
            )
        correction = correction_distribution(math.sqrt(self.target_variance), self.correction)
        state = BarkerState(
            min(int(self.batch_size), target.n_obs),
            float(self.temperature),
            float(self.target_variance),
            math.inf if self.max_error is None else float(self.max_error),
            correction.sup_error,
            correction.atoms.copy(),
            correction.weights.copy(),
        )
        records = ("log_ratio_variance", "term_skewness", "skewness_ratio")
        audits = ("audit_acceptance_error", "audit_acceptance_noise")
        return CompiledTest(
            decide, lambda: state, *BARKER, audit=audit, records=records + audits, threshold_form=threshold_form
        )
