"""The sequential t-test ("austerity"): read a few terms, stop when the answer is clear.

Metropolis-Hastings accepts iff the mean mu of the N terms l_i = log p(x_i|theta') - log p(x_i|theta) exceeds mu_0 =
(log u - c) / N, u uniform, c the log ratio of prior and proposal. After n terms without replacement, of mean lbar,

    s = s_l / sqrt(n) * sqrt(1 - n / N),    t = (lbar - mu_0) / s,    delta = 1 - F_{n-1}(|t|),

s_l their standard deviation (divisor n - 1) and F the Student cdf. If delta < epsilon, decide by the sign of t;
otherwise draw more. At n = N the answer is exact.

With ``tol > 0`` the test also stops if N s <= tol: the standard error of the log ratio is then at most tol, so only
near ties are likely to be decided wrongly. ``boundary_shape`` a < 1/2 requires more evidence at early looks, G_j =
G (n_j/N)^(a - 1/2), G the critical value of epsilon and n_j the number of terms read at look j.

Conventions. delta is one-sided: one look at mu = mu_0 errs with probability epsilon; a *sequence* of J looks errs more
often (see `sequential_test_error`). Comparing delta with epsilon is the same as comparing abs(t) with a critical value
tabulated per look, so no cdf is evaluated while sampling.

Reference: Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 4 and algorithm 1; Pocock (1977) for
constant boundaries; Wang and Tsiatis (1987) for the family of shapes, a = 0 being that of O'Brien and Fleming (1979).
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from approxmcmc.acceptance.laws import recursion
from approxmcmc.acceptance.laws.audits import (
    SHARE_OF_HEAVY_DRAWS,
    expected_errors,
    share_of_heavy_draws,
    wrong_decisions,
)
from approxmcmc.acceptance.laws.early_stops import epsilon_for_type_one_error
from approxmcmc.acceptance.laws.looks import critical_values, look_sizes
from approxmcmc.acceptance.laws.recursion import sequential_test_error
from approxmcmc.acceptance.look_by_look import make_decide, make_threshold_form
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.contracts import AcceptanceTest, CompiledTest, DecisionLaw, Finding, Population, Target
from approxmcmc.contracts.records import MAX_TERM_RATIO, TOLERANCE_STOPS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.moments import largest_deviation, standard_deviation, standard_error
from approxmcmc.engine.terms.order import check_order
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


class SequentialTState(NamedTuple):
    """Sizes of the looks, their critical values, shape (J,) each, and the tolerance."""

    looks: np.ndarray
    critical: np.ndarray
    tol: float


@compiled
def half_width(evidence: Evidence, test: SequentialTState, look: int, n: int) -> float:
    """Return G_j s_j, the distance from mu_0 at which a look decides; 0 if the look stops the test by tolerance."""
    if test.critical[look] == math.inf:  # inf * s would be NaN for s = 0
        return math.inf
    s = standard_error(evidence.moments, n, evidence.n_obs)
    if test.tol > 0.0 and evidence.n_obs * s <= test.tol:
        return 0.0
    return test.critical[look] * s


@compiled
def conclude(
    evidence: Evidence,
    test: SequentialTState,
    look: int,
    n: int,
    distance: float,
    count: np.ndarray,
    value: np.ndarray,
) -> None:
    """Record how far the largest term lies from the mean, and whether the tolerance alone ended the test.

    `distance` is lbar - mu_0 at the last look.
    """
    if n == evidence.n_obs:  # the answer is exact, whatever the tails
        return
    moments = evidence.moments
    s = standard_error(moments, n, evidence.n_obs)
    within_tolerance = test.tol > 0.0 and evidence.n_obs * s <= test.tol
    # Not <=, because the critical value may be infinite and s 0: the product is then NaN, and the test did not decide.
    decided_by_t = abs(distance) > test.critical[look] * s
    if within_tolerance and not decided_by_t:
        count[TOLERANCE_STOPS] += 1
    s_l = standard_deviation(moments)
    if s_l > 0.0:
        value[MAX_TERM_RATIO] = largest_deviation(moments) / (s_l * math.sqrt(n))


decide = make_decide(half_width, conclude)
t_test_threshold_form = make_threshold_form(half_width)


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialTTest(AcceptanceTest):
    """Accept or reject by a sequence of t-tests on growing subsets of the data ("austerity" MCMC).

    Parameters
    ----------
    epsilon
        Stop when the one-sided p-value falls below epsilon; 0 <= epsilon <= 0.5. With 0 the test never stops early and
        makes the same decisions as :class:`ExactTest`; with 0.5 it stops at the first look.
    batch_size
        Number of data that the first look reads, at least 2. With about 500 the central limit theorem holds well
        enough; skewed terms need more.
    growth
        Look j adds ``round(batch_size * growth**(j - 1))`` data; 1 = equal looks.
    tol
        Also stop once the standard error of the log ratio's estimate is at most `tol`; 0 = never. This limits the error
        of the log ratio, not the probability of a wrong decision. Use 0.05 with control variates; no effect if epsilon
        is 0.
    boundary_shape
        Shape of the boundary over the looks, 0 to 1/2. ``0.5`` is Pocock's boundary, with one critical value for all
        looks; smaller values require more evidence early and reach the critical value of `epsilon` at the end.
    order
        How subsets are drawn: ``"rows"``, new random rows for every decision; ``"blocks"``, blocks of a shuffled
        copy, several times faster per datum; ``"auto"``, blocks from 10 000 data on. See the page on the data order.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    Notes
    -----
    Guarantee: biased unless epsilon = 0; in the Gaussian regime the bias vanishes with epsilon. Heavy-tailed terms
    void this; a run then warns, and :class:`BernsteinTest` is the alternative. Cost: at most 2 evaluations
    for each datum read. With ``tol > 0`` the trace counts the stops by tolerance in ``tolerance_stops``.

    References
    ----------
    Korattikara, Chen and Welling (2014), algorithm 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.SequentialTTest(epsilon=0.05, batch_size=500)
    SequentialTTest(epsilon=0.05, batch_size=500, growth=1.0, tol=0.0, boundary_shape=0.5, order='auto')
    """

    epsilon: float = 0.01
    batch_size: int = 500
    growth: float = 1.0
    tol: float = 0.0
    boundary_shape: float = 0.5
    order: str = "auto"

    def __post_init__(self) -> None:
        """Check the ranges."""
        # These functions check the other settings; the number of data, 2, does not matter.
        looks = look_sizes(2, self.batch_size, self.growth)
        critical_values(looks, self.epsilon, shape=self.boundary_shape)
        check_order(self.order)
        if not 0.0 <= self.tol < math.inf:
            raise InvalidInputError(f"SequentialTTest: tol must be finite and at least 0 (off), found {self.tol!r}")

    @classmethod
    def from_type_one_error(
        cls,
        type_one_error: float,
        *,
        n_obs: int,
        batch_size: int = 500,
        growth: float = 1.0,
        boundary_shape: float = 0.5,
    ) -> "SequentialTTest":
        """Return the test that stops before its last look with probability `type_one_error` at a tie, mu = mu_0.

        Parameters
        ----------
        type_one_error
            P(some look before the last stops | mean of all terms = threshold), from 0 to 1: Pocock's Type-I error.
        n_obs
            Number of data N.
        batch_size, growth, boundary_shape
            As for the class.

        Examples
        --------
        >>> import approxmcmc as amc
        >>> test = amc.SequentialTTest.from_type_one_error(0.1, n_obs=10_000, batch_size=500)
        >>> round(test.epsilon, 4)
        0.0055
        """
        settings: dict[str, Any] = {"batch_size": batch_size, "growth": growth, "boundary_shape": boundary_shape}
        epsilon = epsilon_for_type_one_error(type_one_error, n_obs=n_obs, **settings)
        return cls(epsilon=epsilon, **settings)

    def reads_all(self, n_obs: int) -> bool:
        """Return whether the test never stops early, or has one look."""
        return self.epsilon == 0.0 or super().reads_all(n_obs)

    def why_not_invariant(self, n_obs: int) -> str:
        """Return why the test is biased: it stops early; "" if it reads all data."""
        if self.reads_all(n_obs):
            return ""
        return (
            f"{self!r} stops early; the bias vanishes with epsilon, audits count the wrong decisions, and `bias` "
            "estimates their effect on averages"
        )

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look."""
        return look_sizes(n_obs, self.batch_size, self.growth)

    def with_epsilon(self, epsilon: float) -> Self:
        """Return the same test at another epsilon."""
        return dataclasses.replace(self, epsilon=epsilon)

    def why_law_unknown(self, method: str) -> str:
        """Return why the acceptance probability is unknown: "gaussian" does not cover stops by tolerance; else ""."""
        if method == "enumerate" or self.tol == 0.0:
            return ""
        return (
            f"the recursion does not cover stops by tolerance, found {self!r}; use tol=0, or method='enumerate' on "
            "tiny data"
        )

    def gaussian_probability(self, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
        """Return the acceptance probability by the recursion; arguments as for `acceptance_probability_error`."""
        return recursion.gaussian_probability(log_ratio, tau, n_obs=n_obs, rule=rule, **self._boundary)

    def enumerated_probability(self, differences: np.ndarray, log_rest: np.ndarray, rule: str) -> np.ndarray:
        """Return the acceptance probability of each pair: the mean over all ways to draw the looks."""
        looks = self.looks(differences.shape[1])
        settings = {"epsilon": self.epsilon, "tol": self.tol, "boundary_shape": self.boundary_shape}
        return recursion.enumerated_probability(differences, log_rest, looks, rule=rule, **settings)

    def decision_law(self, mu_std: np.ndarray, n_obs: int) -> DecisionLaw | None:
        """Return error probability and data fraction of a decision; None with ``tol > 0`` and early stops."""
        if self.reads_all(n_obs) or self.tol > 0.0:
            return super().decision_law(mu_std, n_obs)  # None unless all data are read
        law = sequential_test_error(mu_std, n_obs=n_obs, **self._boundary)
        return DecisionLaw(law["error"].values, law["data_fraction"].values)

    @property
    def _boundary(self) -> dict[str, Any]:
        """The settings that fix the looks and their critical values."""
        return {
            "epsilon": self.epsilon,
            "batch_size": self.batch_size,
            "growth": self.growth,
            "boundary_shape": self.boundary_shape,
        }

    def expected_errors(self, stats: "xr.Dataset") -> np.ndarray | None:
        """Return the error that the recursion predicts for each audited decision; None if it is unknown."""
        return expected_errors(stats, tol=self.tol, **self._boundary)

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return warnings about heavy tails, and about more wrong decisions in audits than the recursion predicts."""
        problems = []
        if (share := share_of_heavy_draws(stats)) >= SHARE_OF_HEAVY_DRAWS:
            sentence = (
                f"in {share:.0%} of the draws one log-likelihood term made up over half of the spread of the terms "
                "read: these are heavy-tailed, and the t-test may err more often than its epsilon says"
            )
            advice = "use ExactTest(), a larger batch_size, or BernsteinTest"
            problems.append(Finding("heavy terms", "warning", sentence, advice, share, SHARE_OF_HEAVY_DRAWS))
        wrong = wrong_decisions(stats)
        expected = self.expected_wrong_rate(stats) if wrong.lower > 0.0 else None
        if expected is not None and wrong.lower > expected:
            sentence = (
                f"{wrong}, where the test's settings predict {expected:.3f}: the log-likelihood terms are not in the "
                "Gaussian regime"
            )
            advice = "use a smaller epsilon, a larger batch_size, or ExactTest()"
            problems.append(Finding("wrong decisions", "warning", sentence, advice, wrong.lower, expected))
        return problems

    @property
    def only_compares(self) -> bool:
        """True: it compares an estimate with the threshold."""
        return True

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test; a population smaller than one look is read as a whole."""
        state = self.state_for(target.n_obs)
        records = ("max_term_ratio", "audited_mu_std", *(("tolerance_stops",) if self.tol > 0.0 else ()))
        return CompiledTest(
            decide,
            lambda: state,
            METROPOLIS.threshold,
            METROPOLIS.probability,
            records=records,
            threshold_form=t_test_threshold_form,
        )

    def state_for(self, n_obs: int) -> SequentialTState:
        """Return looks and critical values for `n_obs` terms; the last look needs no critical value."""
        looks = look_sizes(n_obs, self.batch_size, self.growth)
        early = critical_values(looks, self.epsilon, shape=self.boundary_shape)
        return SequentialTState(looks, np.append(early, 0.0), float(self.tol))
