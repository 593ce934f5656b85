"""The role of an acceptance test: how it decides, and the law of its decisions.

A test answers Lambda > T(u). Lambda = c + sum_i l_i is the log Metropolis-Hastings ratio, with the terms
l_i = log p(x_i|theta') - log p(x_i|theta); T(u) is the random threshold of the test's rule. A test that reads a part of
the data gives wrong answers at times. How often, and after how much data, is its law: whoever needs it asks the test.

In the Gaussian regime of many terms a pair of states counts through two numbers, Lambda and tau = sqrt(N) S_l, with S_l
the standard deviation of the terms, and a decision at a given u through one, mu_std = (Lambda - T(u)) / tau.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from approxmcmc.contracts.compiled import CompiledTest
from approxmcmc.contracts.component import Component
from approxmcmc.contracts.finding import Finding
from approxmcmc.contracts.target import Target

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Population:
    """What a test needs to know of the terms that it samples. A `Target` offers the same, and stands for its own terms.

    Parameters
    ----------
    n_obs
        Number of terms N.
    terms_are_likelihood
        Whether the terms add up to the whole log-likelihood, so that a temperature may divide them.
    same_terms
        Whether every decision is about the same terms, so that their sum at the current state may be kept for the next
        one. The conditionals of a Gibbs sampler have terms of their own.
    """

    n_obs: int
    terms_are_likelihood: bool = True
    same_terms: bool = True


class DecisionLaw(NamedTuple):
    """What decisions are expected to do: probability of a wrong answer and share of the data read, of equal shape."""

    error: np.ndarray
    data_fraction: np.ndarray


class AcceptanceTest(Component, abc.ABC):
    """Is the sum of the log-ratio terms above the threshold, and how few terms answer it? This role decides.

    A member is a frozen dataclass of settings, made with ``eq=False``, that derives from this class. It must have
    `build_test`. The rest has a default, which a member replaces where it knows better: a test that gives no law runs,
    and only what needs the law refuses it.
    """

    @abc.abstractmethod
    def build_test(self, target: Target | Population) -> CompiledTest:
        """Check that the target has what this test needs, and compile it; once per `sample`."""

    # --- what it is ---

    @property
    def rule(self) -> str:
        """Its threshold: "metropolis", log u, or "barker", logit u. Gibbs always takes Barker's."""
        return "metropolis"

    @property
    def uses_ratio(self) -> bool:
        """Whether it looks at the log ratio at all; one that does not accepts everything."""
        return True

    @property
    def compares(self) -> bool:
        """Whether it asks how an estimate of the log ratio compares with the threshold, and no more.

        Slice sampling asks that. A test whose acceptance probability is right only on average over its own randomness,
        such as a Poisson count, does more.
        """
        return False

    @property
    def is_homogeneous(self) -> bool:
        """Whether one and the same test decides all steps of a chain."""
        return True

    @property
    def temperature(self) -> float:
        """What the log-likelihood is divided by before it is judged."""
        return 1.0

    @property
    def order(self) -> str:
        """How subsets are drawn: "rows", independently for every decision, "blocks" of a shuffled copy, or "auto".

        "memory" is for a test that reads its data as they lie, all of them or rows that it draws itself.
        """
        return "rows"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many of `n_obs` terms have been read at each look, increasing; default one look at all."""
        return np.array([n_obs], dtype=np.int64)

    def reads_all(self, n_obs: int) -> bool:
        """Return whether every decision about `n_obs` terms is that of all of them."""
        return self.looks(n_obs).tolist() == [n_obs]

    def why_not_invariant(self, n_obs: int) -> str:
        """Say why decisions on `n_obs` terms do not leave the target's law invariant, and how far off; "" if they do.

        They do where acceptance probabilities balance the terms, a(theta, theta') / a(theta', theta) = exp(Lambda),
        whether the test reads all of them or not.
        """
        if self.temperature != 1.0:
            return f"{self!r} follows the posterior with its log-likelihood divided by {self.temperature:g}"
        return "" if self.reads_all(n_obs) else f"{self!r} reads a part of the data and does not tell how it errs"

    def leaves_invariant(self, n_obs: int) -> bool:
        """Return whether decisions about `n_obs` terms leave the target's law invariant."""
        return not self.why_not_invariant(n_obs)

    def with_independent_subsets(self) -> Self:
        """Return the same test with subsets that are drawn afresh for every decision."""
        return self if self.order in ("rows", "memory") else dataclasses.replace(self, order="rows")  # type: ignore[type-var]  # see Component

    def with_epsilon(self, epsilon: float) -> Self | None:
        """Return the same test at another epsilon; None for a test that has no epsilon to set."""
        return None

    # --- its law ---

    def law_unknown(self, method: str) -> str:
        """Say why the acceptance probability is not known by a method, "gaussian" or "enumerate"; "" where it is.

        Nobody asks where the test reads all data, or does not use the ratio.
        """
        return (
            f"the acceptance probability of {self!r} is not known in closed form; use a test that gives its law, such "
            "as ExactTest or SequentialTTest, or estimate_delta, which replicates decisions"
        )

    def gaussian_probability(self, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
        """Return the probability to accept in the Gaussian regime; shape of `log_ratio`, `tau`, both finite."""
        raise NotImplementedError(self.law_unknown("gaussian"))

    def enumerated_probability(self, differences: np.ndarray, log_rest: np.ndarray, rule: str) -> np.ndarray:
        """Return the probability to accept over all ways to draw the looks, each equally likely; shape (pairs,).

        `differences` holds the terms l_i of every pair, shape (pairs, N), divided by the temperature; `log_rest` holds
        c, shape (pairs,).
        """
        raise NotImplementedError(self.law_unknown("enumerate"))

    def decision_law(self, mu_std: np.ndarray, n_obs: int) -> DecisionLaw | None:
        """Return error and data fraction of decisions at `mu_std`, in the Gaussian regime; None where not known.

        An error is an answer that differs from the one that all data give with the same u.
        """
        if not (self.uses_ratio and self.reads_all(n_obs)):
            return None
        return DecisionLaw(np.zeros(np.shape(mu_std)), np.ones(np.shape(mu_std)))

    # --- a finished run ---

    def expected_errors(self, stats: "xr.Dataset") -> np.ndarray | None:
        """Return with what probability each draw's audited decision should be wrong; None where not known.

        `stats` is the group ``sample_stats`` of a trace that this test decided; NaN where none was audited.
        """
        return None

    def expected_wrong_rate(self, stats: "xr.Dataset") -> float | None:
        """Return the share of the audited decisions that should be wrong; None where not known, or none was audited."""
        errors = self.expected_errors(stats)
        return None if errors is None else float(errors[np.isfinite(errors)].mean())

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return one finding for each thing in `stats` that a user of this test should be warned about."""
        return []
