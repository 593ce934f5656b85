"""The minibatch Barker test: the noise of a minibatch replaces the noise of the decision.

Barker accepts iff Delta + X_log > 0, Delta the log Metropolis-Hastings ratio of two states and X_log standard logistic,
that is with probability S(Delta) = 1 / (1 + exp(-Delta)). From a minibatch the test computes an acceptance probability
A, and accepts iff u < A for a uniform u; see `barker_decision`.

The decision u < A and Barker's decision u < S(Delta) use the same u. How often the two differ measures the noise of the
minibatch. This noise is harmless, because the mean of A over minibatches is S(Delta) up to the error of the central
limit theorem. The bias is the mean of A - S(Delta); an audit estimates it from many minibatches at one pair of states.

Reference: Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for Metropolis-Hastings, UAI,
algorithm 1.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance.barker_decision import BarkerState, audit, decide, threshold_form
from approxmcmc.acceptance.laws import barker_law
from approxmcmc.acceptance.laws.correction import LARGEST_SIGMA, METHODS, SMALLEST_SIGMA, correction_distribution
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.acceptance.rules import BARKER
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.engine.checks import is_integer
from approxmcmc.engine.terms.order import check_order
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

# |skewness| / sqrt(n) of the n terms read at which their skewness changes the acceptance probability by about 0.01.
LARGEST_SKEWNESS_RATIO = 0.05
SHARE_OF_SKEWED_DRAWS = 0.5


@dataclasses.dataclass(frozen=True, eq=False)
class MinibatchBarker(AcceptanceTest):
    """Accept with nearly Barker's probability, from a minibatch that grows until its noise is small enough.

    Parameters
    ----------
    target_variance
        sigma^2, 0.01 to 2.25: the test reads data until the estimated variance of the log ratio's estimate is below it.
        With a smaller value the test reads more, and errs less if the terms are skewed.
    batch_size
        Number of data that each look adds, at least 2; use 50 or more for skewed terms.
    temperature
        K > 0: the log-likelihood is divided by K, and the chain samples the tempered posterior.
    correction
        How the correction distribution is computed: ``"minimax"``, ``"ridge"`` or ``"nnls"``; see
        :func:`correction_distribution`.
    max_error
        The test also reads on until :func:`minibatch_barker_error_bound`, estimated from the terms read, is at most
        `max_error`. None: no such rule. The bound is loose: with normal terms, 0.1 takes at least 17 000 data.
    order
        How subsets are drawn: ``"rows"``, ``"blocks"`` or ``"auto"``, as in :class:`SequentialTTest`.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.
    IncompatibleError
        When `temperature` is not 1 and the target's terms are not its whole likelihood (:class:`ControlVariate`).

    Notes
    -----
    Guarantee: biased. In the Gaussian regime only the error of the correction is left, 5e-8 at the default
    `target_variance`; if all data are read, there is no bias. Skewed terms bias the test, because a minibatch that
    misses the heavy tail gives an estimate that is wrong but looks precise. A run warns if ``skewness_ratio`` in the
    trace is large. The exact counterpart is ``ExactTest("barker")``.
    Cost: at most 2 evaluations for each datum read. With Var(l) the variance of the N terms l_i = log p(x_i|theta') -
    log p(x_i|theta), a decision reads about N^2 Var(l) / (K sigma)^2 data if that is far below N, so the test saves
    reads only if steps are small or K > 1.

    In an audited trace, ``wrong_decisions`` counts differences from the exact decision with the same uniform. They
    measure the minibatch's noise, not bias: do not compare the count with the count of a sequential test. The bias is
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
        check_order(self.order)

    @property
    def rule(self) -> str:
        """Barker's rule."""
        return "barker"

    def why_not_invariant(self, n_obs: int) -> str:
        """Return why the test is biased."""
        if self.temperature != 1.0 or self.reads_all(n_obs):
            return super().why_not_invariant(n_obs)
        return (
            f"{self!r} assumes normal minibatch noise; the bias vanishes in the Gaussian regime, and audits estimate "
            "the error of the acceptance probability"
        )

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look."""
        return look_sizes(n_obs, self.batch_size)

    def why_law_unknown(self, method: str) -> str:
        """Return a message that names the setting which `method` does not support; "" if it supports all of them."""
        if method == "enumerate":
            return "" if self.max_error is None else f"enumeration excludes max_error, found {self!r}; leave it out"
        if self.temperature == 1.0 and self.max_error is None:
            return ""
        return (
            "the Gaussian regime describes MinibatchBarker without temperature and max_error, found "
            f"{self!r}; use method='enumerate' on tiny data"
        )

    def gaussian_probability(self, log_ratio: np.ndarray, tau: np.ndarray, n_obs: int, rule: str) -> np.ndarray:
        """Return the acceptance probability in the Gaussian regime; Barker's rule where the test reads all data.

        `log_ratio` and `tau`, the scale of the terms, are those of `laws.probability`.
        """
        return barker_law.gaussian_probability(log_ratio, tau, self.looks(n_obs), rule=rule, **self._noise())

    def enumerated_probability(self, differences: np.ndarray, log_rest: np.ndarray, rule: str) -> np.ndarray:
        """Return the acceptance probability of each pair: the mean of A over all ways to draw the looks.

        `differences` (pairs, N) holds the terms log p(x_i|theta') - log p(x_i|theta), `log_rest` (pairs,) the log
        ratios of prior and proposal.
        """
        looks = self.looks(differences.shape[1])
        return barker_law.enumerated_probability(differences, log_rest, looks, rule=rule, **self._noise())

    def _noise(self) -> dict[str, Any]:
        correction = correction_distribution(math.sqrt(self.target_variance), self.correction)
        return {"target_variance": self.target_variance, "correction": correction}

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return a warning if ``abs(skewness) / sqrt(n)`` exceeds .05 in at least half of the draws, else no finding.

        If every decision reads n = 100 normal terms, the ratio exceeds .05 in 4 % of the draws.
        """
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
        """Compile the test; a population smaller than one batch is read as a whole."""
        if self.temperature != 1.0 and not target.terms_are_likelihood:
            raise IncompatibleError(
                f"MinibatchBarker(temperature={self.temperature:g}) divides a target's terms; those of {target!r} are "
                "residuals of an expansion, and the rest of the likelihood is part of the prior; use the plain target"
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
            decide,
            lambda: state,
            BARKER.threshold,
            BARKER.probability,
            audit=audit,
            records=records + audits,
            threshold_form=threshold_form,
        )
