"""The role of an acceptance test: how it decides, and the distribution of its decisions.

A test answers Lambda > T(u). Lambda = c + sum_i l_i is the log Metropolis-Hastings ratio, with the terms
l_i = log p(x_i|theta') - log p(x_i|theta) and c the log ratio of prior and proposal; T(u) is the random threshold of
the test's rule. A test that reads part of the data may decide wrongly. The *law* of a test says how often it decides
wrongly, and how much data it reads; a test may have methods that compute it.

In the Gaussian regime of many terms a pair of states matters only through two numbers, Lambda and tau = sqrt(N) S_l,
with S_l the standard deviation of the terms, and a decision at a given u through one, mu_std = (Lambda - T(u)) / tau.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts.component import Component
from approxmcmc.contracts.finding import Finding
from approxmcmc.contracts.target import Target

if TYPE_CHECKING:
    import xarray as xr


class CompiledTest(NamedTuple):
    """An acceptance test compiled for the terms of one target.

    ``decide(rng, evidence, threshold, log_rest, state, count, value) -> (decision, log_ratio)`` decides whether
    log_rest + sum_i l_i exceeds the threshold: 1, 0, or -1 if a term was NaN or +inf, with the log ratio or its
    estimate. It reads terms only through `evidence`, and counts what it read in `count`. ``threshold(rng) -> float``
    draws the threshold of the test's rule, and ``probability(log_ratio) -> float`` is the rule's probability to accept.
    ``audit(rng, evidence, threshold, log_rest, state, value)`` repeats a decision on all data; None: the sampler
    compares the log ratio of all data with the threshold, which suits a test that is random only in u and its subsets.
    ``log_likelihood(state) -> float`` returns the exact log-likelihood at the current theta, for a test that caches it;
    ``keep_log_likelihood(state, total)`` stores the one at a chain's start. `is_audited` says whether audits compare
    the test's decisions with those on all data; False, for example, for a test that never errs. `uses_ratio` is False
    for a test that accepts everything: the sampler then computes no ratio. `records` names the members of
    `OPTIONAL_COUNTS` and `VALUE_NAMES` that the test fills, `attrs` holds the results of set-up, as ``setup_*``.

    ``threshold_form(rng, table, log_rest, state) -> float`` reads a table of the terms (`engine.terms.term_table`) and
    returns the log ratio Lambda^ that decides for *every* u: with this order of the data the test accepts iff threshold
    < Lambda^; NaN if a term was NaN or +inf. None if there is no such number: an audit then repeats decisions.
    ``state_at(step)`` makes the state before step number `step`, for a test that changes along the chain; None if
    `make_state` serves for every step. ``is_tested(state) -> bool``, called once at the beginning of each step, says
    whether the step is tested; an untested step accepts. None if all steps are tested.

    ``watch(start, theta, count) -> bool`` is called at a few draws of a running chain, with the chain's start and its
    theta: it checks on many rows an assumption of the test, such as a bound, and adds to `count` the terms that it
    evaluated and the violations that it found; False stops the chain. None if there is nothing to check.
    """

    decide: Callable[..., tuple[int, float]]
    make_state: Callable[[], Any]
    threshold: Callable[[np.random.Generator], float]
    probability: Callable[[float], float]
    audit: Callable[..., int] | None = None
    log_likelihood: Callable[..., float] | None = None
    keep_log_likelihood: Callable[..., None] | None = None
    threshold_form: Callable[..., float] | None = None
    state_at: Callable[[int], Any] | None = None
    is_tested: Callable[[Any], bool] | None = None
    uses_ratio: bool = True
    is_audited: bool = True
    records: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = {}
    watch: Callable[..., bool] | None = None


@dataclasses.dataclass(frozen=True)
class Population:
    """The properties of the terms that a test samples. A `Target` has the same attributes, for its own terms.

    Parameters
    ----------
    n_obs
        Number of terms N.
    terms_are_likelihood
        Whether the terms add up to the whole log-likelihood, so that a temperature may divide them.
    same_terms
        Whether every decision is about the same terms, so that their sum at the current state can be cached for the
        next one. The conditionals of a Gibbs sampler have different terms for each site.
    """

    n_obs: int
    terms_are_likelihood: bool = True
    same_terms: bool = True


class DecisionLaw(NamedTuple):
    """The probability that a decision is wrong (`error`), and the expected share of the data that it reads.

    Both arrays have one entry for each value of mu_std.
    """

    error: np.ndarray
    data_fraction: np.ndarray


class AcceptanceTest(Component, abc.ABC):
    """Decide whether the sum of the log-ratio terms exceeds the threshold, from as few terms as possible.

    A member is a frozen dataclass of settings, made with ``eq=False``, that derives from this class. It must have
    `build_test`. Everything else has a default, which a member may override: a test with an unknown law (see the
    module) runs, and only callers that need the law raise.
    """

    @abc.abstractmethod
    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test, after a check that the target has what it needs; called at set-up, not in steps."""

    # --- what it is ---

    @property
    def rule(self) -> str:
        """The rule, which gives the threshold: "metropolis" log u, "barker" logit u."""
        return "metropolis"

    @property
    def sums_all_terms(self) -> bool:
        """Whether each decision sums all terms, so that a sampler may compute the same decision in another form."""
        return False

    @property
    def uses_ratio(self) -> bool:
        """Whether the test uses the log ratio at all; a test that does not accepts everything."""
        return True

    @property
    def only_compares(self) -> bool:
        """Whether the test only compares an estimate of the log ratio with the threshold.

        Slice sampling requires this. False, for example, for a test that accepts with the right probability only on
        average over random numbers of its own, such as Poisson counts.
        """
        return False

    @property
    def is_homogeneous(self) -> bool:
        """Whether all steps of a chain use the same test."""
        return True

    @property
    def temperature(self) -> float:
        """The number that divides the log-likelihood before the decision."""
        return 1.0

    @property
    def order(self) -> str:
        """How subsets are drawn: "rows", independently for every decision, "blocks" of a shuffled copy, or "auto".

        "memory" is for a test that reads its data in memory order, either all rows or rows that it draws itself.
        """
        return "rows"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many of `n_obs` terms have been read after each look, increasing; by default one look at all."""
        return np.array([n_obs], dtype=np.int64)

    def reads_all(self, n_obs: int) -> bool:
        """Return whether every decision about `n_obs` terms uses all of them."""
        return self.looks(n_obs).tolist() == [n_obs]

    def why_not_invariant(self, n_obs: int) -> str:
        """Return why decisions on `n_obs` terms do not leave the target invariant, and by how much; "" if they do.

        They do if acceptance probabilities balance the terms, a(theta, theta') / a(theta', theta) = exp(Lambda),
        whether the test reads all of them or not.
        """
        if self.temperature != 1.0:
            return f"{self!r} follows the posterior with its log-likelihood divided by {self.temperature:g}"
        return "" if self.reads_all(n_obs) else f"{self!r} decides from part of the data, with unknown error"

    def leaves_invariant(self, n_obs: int) -> bool:
        """Return whether decisions about `n_obs` terms leave the target's distribution invariant."""
        return not self.why_not_invariant(n_obs)

    def with_independent_subsets(self) -> Self:
        """Return the same test, but every decision draws its own subset (``order="rows"``); none share blocks."""
        return self if self.order in ("rows", "memory") else dataclasses.replace(self, order="rows")  # type: ignore[type-var]  # see Component

    def with_epsilon(self, epsilon: float) -> Self | None:
        """Return the same test at another epsilon; None for a test without epsilon."""
        return None

    # --- its law ---

    def why_law_unknown(self, method: str) -> str:
        """Return why the acceptance probability is unknown by a method, "gaussian" or "enumerate"; "" if it is known.

        Not called if the test reads all data, or does not use the ratio.
        """
        return (
            f"the acceptance probability of {self!r} is not known in closed form; use a test that gives its law, or "
            "estimate_delta, which replicates decisions"
        )

    def gaussian_probability(self, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
        """Return the probability to accept in the Gaussian regime, in the shape of `log_ratio` and `tau`.

        Both must be finite; `rule` is the rule of the threshold, "metropolis" or "barker".
        """
        raise NotImplementedError(self.why_law_unknown("gaussian"))

    def enumerated_probability(self, differences: np.ndarray, log_rest: np.ndarray, rule: str) -> np.ndarray:
        """Return the acceptance probability, averaged over all equally likely orders of the terms; shape (pairs,).

        A pair is (theta, theta'). `differences` holds its terms l_i = log p(x_i|theta') - log p(x_i|theta), divided by
        the temperature, shape (pairs, N); `log_rest` the rest of the log ratio, shape (pairs,).
        """
        raise NotImplementedError(self.why_law_unknown("enumerate"))

    def decision_law(self, mu_std: np.ndarray, n_obs: int) -> DecisionLaw | None:
        """Return error and data fraction of decisions at `mu_std`, in the Gaussian regime; None if unknown.

        An error is a decision that differs from the one on all data with the same u.
        """
        if not (self.uses_ratio and self.reads_all(n_obs)):
            return None
        return DecisionLaw(np.zeros(np.shape(mu_std)), np.ones(np.shape(mu_std)))

    # --- a finished run ---

    def expected_errors(self, stats: "xr.Dataset") -> np.ndarray | None:
        """Return the predicted probability that each draw's audited decision is wrong; None if unknown.

        It is NaN for draws without an audit. `stats` is the group ``sample_stats`` of a trace of this test.
        """
        return None

    def expected_wrong_rate(self, stats: "xr.Dataset") -> float | None:
        """Return the predicted share of wrong decisions among audited ones; None if unknown, or without audits."""
        errors = self.expected_errors(stats)
        return None if errors is None else float(errors[np.isfinite(errors)].mean())

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return one finding for each problem in `stats` that a user of this test should know."""
        return []
