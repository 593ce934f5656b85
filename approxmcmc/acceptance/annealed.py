"""Annealed epsilon: begin with a fast, biased test, or without a test, and end with an exact one.

The run is divided into epochs, each with its own epsilon, the level of the t-tests of `SequentialTTest`. Some steps
before the first epoch may be accepted without a test. The number of decisions in each epoch is fixed before the chain
starts.
Within an epoch the chain is homogeneous; over the run it is not. `annealing_rule.py` computes schedules.

Reference: Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 7 (a falling epsilon) and the
end of section 6.2 (SGLD without a test, then tests, then a falling epsilon).
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from approxmcmc.acceptance import sequential_t
from approxmcmc.acceptance.metropolis import ACCEPT, decision_on, log_ratio_of
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.acceptance.sequential_t import SequentialTState, SequentialTTest, t_test_threshold_form
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.contracts.records import DECISIONS, EPSILON, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import Evidence, log_likelihood_at
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


class AnnealedState(NamedTuple):
    """The epochs, the number of untested steps left, and the number of decisions made.

    `ends` holds the number of decisions after which each epoch but the last ends; `epsilons` the epsilon of each epoch,
    `critical`, shape (epochs, looks), its critical values. All epochs share `looks` and `tol`, see `SequentialTState`.
    `untested` is the number of steps left before the first epoch, `decisions` the number of decisions made.
    `log_likelihood` at the current theta is NaN until the exact epoch begins.
    """

    ends: np.ndarray
    epsilons: np.ndarray
    looks: np.ndarray
    critical: np.ndarray
    tol: float
    untested: np.ndarray
    decisions: np.ndarray
    log_likelihood: np.ndarray


@compiled
def is_tested(test: AnnealedState) -> bool:
    """Return whether the next step is tested; if it is not, decrease ``test.untested`` by 1."""
    if test.untested[0] == 0:
        return True
    test.untested[0] -= 1
    return False


@compiled
def decide(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: AnnealedState,
    count: np.ndarray,
    value: np.ndarray,
) -> tuple[int, float]:
    """Decide by the t-test with the epsilon of the current epoch; at epsilon = 0, decide on all data.

    Return ACCEPT, REJECT or UNDECIDED, see `metropolis`, and the log ratio or its estimate.
    """
    epoch = np.searchsorted(test.ends, test.decisions[0], side="right")
    test.decisions[0] += 1.0
    value[EPSILON] = test.epsilons[epoch]
    if test.epsilons[epoch] > 0.0:
        sequential = SequentialTState(test.looks, test.critical[epoch], test.tol)
        return sequential_t.decide(rng, evidence, threshold, log_rest, sequential, count, value)
    n_obs = evidence.n_obs
    places = evidence.memory_order
    if math.isnan(test.log_likelihood[0]):  # epsilon = 0 is final: cache the current log-likelihood from here on
        test.log_likelihood[0] = log_likelihood_at(evidence, evidence.theta, places)
        count[EVALUATIONS] += n_obs
    total = log_likelihood_at(evidence, evidence.proposed, places)
    count[TOUCHED] += n_obs
    count[EVALUATIONS] += n_obs
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    log_ratio = log_ratio_of(log_rest, test.log_likelihood[0], total)
    decision = decision_on(threshold, log_ratio)
    if decision == ACCEPT:
        test.log_likelihood[0] = total
    return decision, log_ratio


@compiled
def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: AnnealedState) -> float:
    """Return Lambda^, see `CompiledTest`, of the current epoch's t-test; inf if the step is untested.

    At epsilon = 0 it is Lambda, the log ratio on all data.
    """
    if test.untested[0] > 0:
        return math.inf
    epoch = np.searchsorted(test.ends, test.decisions[0], side="right")
    sequential = SequentialTState(test.looks, test.critical[epoch], test.tol)
    return t_test_threshold_form(rng, table, log_rest, sequential)


@dataclasses.dataclass(frozen=True, eq=False)
class AnnealedEpsilon(AcceptanceTest):
    """Sequential t-tests with an epsilon that falls, epoch by epoch, to 0.

    Parameters
    ----------
    epsilons
        Epsilon of each epoch, not increasing; the last must be 0.
    steps
        Number of decisions in each epoch but the last, which has no end; one number fewer than `epsilons`. A step to
        prior density 0 is rejected without reading data: it does not count here, and its ``epsilon`` is NaN in the
        trace.
    test
        A `SequentialTTest` with the other settings of the tests. Leave its epsilon out: `epsilons` gives it.
    untested
        Number of steps before the first epoch that always accept, as with :class:`AlwaysAccept`: no data are read for a
        decision, and SGLD computes no gradient for a density ratio. Only a step to prior density 0 is rejected. The
        ``epsilon`` of these steps is NaN in the trace.

    Raises
    ------
    InvalidInputError
        When an epsilon is above 1/2 or larger than the one before, the last is not 0, `steps` are not positive or do
        not match the number of `epsilons`, or `test` has an epsilon of its own.
    IncompatibleError
        When the proposal is tuned to its acceptance rate and `untested` is positive, or the sampler is :class:`Gibbs`.

    Notes
    -----
    Guarantee: biased at any finite time, but consistent: the last epoch is exact and does not end, so the share of the
    biased epochs in the pooled mean vanishes. The chain is inhomogeneous, so R-hat and ESS over several epochs mean
    little. Decisions during tuning count towards `steps`. The trace records the ``epsilon`` of each draw. At epsilon =
    0 a step costs N evaluations, as with :class:`ExactTest`.

    ``untested=k`` starts with SGLD, then tests with a falling epsilon (end of section 6.2 of the reference), with
    :class:`StochasticGradientLangevin`. Audits of untested draws report the error of a step that accepts with
    probability 1.

    :func:`annealing_schedule` makes epochs from known ingredients, and :func:`~approxmcmc.design.plan_annealing` from a
    pilot run.

    References
    ----------
    Korattikara, Chen and Welling (2014), sections 6.2 and 7.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> test = amc.acceptance.AnnealedEpsilon(
    ...     (0.1, 0.01, 0.0), steps=(1000, 5000), test=amc.SequentialTTest(batch_size=200)
    ... )
    >>> test.epsilon_at(1500)
    0.01
    >>> amc.acceptance.AnnealedEpsilon((0.1, 0.0), steps=(1000,), untested=500).epsilon_at(499)
    nan
    """

    epsilons: Sequence[float] = (0.05, 0.01, 0.0)
    steps: Sequence[int] = (1000, 4000)
    test: SequentialTTest = dataclasses.field(default_factory=SequentialTTest)
    untested: int = 0

    def __post_init__(self) -> None:
        """Check that epsilon falls to 0, and that `steps` and `epsilons` match."""
        untested = checked_integer(self.untested, "untested", 0, needed="0 or a positive integer", whole_floats=True)
        object.__setattr__(self, "untested", untested)
        epsilons = tuple(float(e) for e in self.epsilons)
        steps = tuple(int(n) for n in self.steps)
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "steps", steps)
        if not isinstance(self.test, SequentialTTest):
            raise InvalidInputError(f"AnnealedEpsilon: test must be a SequentialTTest, found {self.test!r}")
        if self.test.epsilon != SequentialTTest.epsilon:
            raise InvalidInputError(
                f"AnnealedEpsilon: epsilon={self.test.epsilon!r} of test has no effect, because epsilons={epsilons} "
                "gives one for each epoch; leave it out of the test"
            )
        falling = all(later <= earlier <= 0.5 for earlier, later in itertools.pairwise(epsilons))
        if not epsilons or epsilons[-1] != 0.0 or not falling:
            raise InvalidInputError(
                "AnnealedEpsilon: epsilons must fall from at most 0.5 to 0, so that the last epoch is exact; found "
                f"{epsilons}"
            )
        if len(steps) != len(epsilons) - 1 or any(n < 1 for n in steps):
            raise InvalidInputError(
                "AnnealedEpsilon: steps must be one positive number for each epsilon but the last, found "
                f"{len(epsilons)} epsilons and steps {steps}"
            )

    @property
    def batch_size(self) -> int:
        """Number of data that the first look of each test reads."""
        return int(self.test.batch_size)

    @property
    def order(self) -> str:
        """How subsets are drawn."""
        return str(self.test.order)

    @property
    def is_homogeneous(self) -> bool:
        """False: each epoch uses another test."""
        return False

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look; all epochs share them."""
        return self.test.looks(n_obs)

    def reads_all(self, n_obs: int) -> bool:
        """Return whether the tests of all epochs read all terms, and no step goes untested."""
        return not self.untested and (self.epsilons[0] == 0.0 or self.test.reads_all(n_obs))

    def why_not_invariant(self, n_obs: int) -> str:
        """Return a clause that says after how many steps the chain is exact; "" if every decision reads all data."""
        if self.reads_all(n_obs):
            return ""
        return (
            f"{self!r} leaves the posterior invariant only after {self.untested} untested steps and {sum(self.steps)} "
            "decisions, when epsilon is 0; the bias of earlier draws vanishes with the length of the run"
        )

    def with_independent_subsets(self) -> "AnnealedEpsilon":
        """Return the same schedule, but every decision draws its own subset (``order="rows"``); none share blocks."""
        return dataclasses.replace(self, test=self.test.with_independent_subsets())

    def expected_errors(self, stats: "xr.Dataset") -> np.ndarray | None:
        """Return the predicted error probability of each audited decision at the epsilon of its draw; None if unknown.

        NaN for draws without an audited decision.
        """
        return self.test.expected_errors(stats)

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Return the t-tests' warnings about the decisions of the run, without its untested steps."""
        decided = np.isfinite(stats["epsilon"].values).any(axis=0) if self.untested else np.ones(1, dtype=bool)
        return self.test.problems(stats.isel(draw=slice(int(decided.argmax()), None))) if decided.any() else []

    def epsilon_at(self, step: int) -> float:
        """Return the epsilon of step number `step`, counted from 0; NaN for an untested step.

        This assumes that every tested step before it made a decision that counts towards `steps`.
        """
        if step < self.untested:
            return math.nan
        return float(self.epsilons[int(np.searchsorted(np.cumsum(self.steps), step - self.untested, side="right"))])

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test with an epsilon that depends on the step."""
        if not target.same_terms:  # Gibbs: there is no single likelihood to cache in the exact epoch
            raise IncompatibleError("AnnealedEpsilon works with MetropolisHastings; give Gibbs a SequentialTTest")
        states = [dataclasses.replace(self.test, epsilon=e).state_for(target.n_obs) for e in self.epsilons]

        def state_at(step: int) -> AnnealedState:
            return AnnealedState(
                ends=np.cumsum(np.asarray(self.steps, dtype=np.float64)),
                epsilons=np.asarray(self.epsilons),
                looks=states[0].looks,
                critical=np.stack([state.critical for state in states]),
                tol=states[0].tol,
                untested=np.array([max(0, self.untested - step)]),
                decisions=np.array([float(max(0, step - self.untested))]),
                log_likelihood=np.full(1, math.nan),
            )

        return CompiledTest(
            decide,
            lambda: state_at(0),
            METROPOLIS.threshold,
            METROPOLIS.probability,
            records=("epsilon", *self.test.build_test(target).records),
            threshold_form=threshold_form,
            state_at=state_at,
            is_tested=is_tested if self.untested else None,
        )
