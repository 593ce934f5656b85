"""Annealed epsilon: begin with a test that is fast and biased, end with one that is exact.

At a budget t the risk of a posterior mean is R(epsilon, t) = b(epsilon)^2 + V(epsilon) k(epsilon) / t, with the bias b,
the asymptotic variance V of a step and its cost k. Small budgets want a large epsilon, large ones want 0. So the run is
divided into epochs that double the budget, and every epoch takes the epsilon that promises the least risk of the
*pooled* mean at its end,

    ( (n b_old + m b) / (n + m) )^2 + ( n V_old + m V ) / (n + m)^2,    m = (t_{k+1} - t_k) / k(epsilon),

n steps having been made with mean bias b_old and mean variance V_old. Epsilon never rises again, and ends at 0: the
pooled mean is consistent. The schedule is fixed before the chain starts, in steps; nothing in it depends on what the
chain does. Within an epoch the chain is homogeneous; over the run it is not.

Reference: Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 7, propose to lower epsilon as the
chain runs; the rule is this project's.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from approxmcmc.acceptance import sequential_t
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.acceptance.sequential_t import T_TEST_FORM, SequentialTState, SequentialTTest
from approxmcmc.contracts import AcceptanceTest, CompiledTest, Finding, Population, Target
from approxmcmc.contracts.records import DECISIONS, EPSILON, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.evidence import Evidence, log_likelihood_at
from approxmcmc.errors import IncompatibleError, InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

LONGEST = 2**62  # steps of an epoch without end


class AnnealedState(NamedTuple):
    """When each epoch ends, in decisions, and its epsilon and critical values; decisions made, and what is kept.

    `log_likelihood` at the current theta is NaN until the exact epoch begins.
    """

    ends: np.ndarray
    epsilons: np.ndarray
    looks: np.ndarray
    critical: np.ndarray
    tol: float
    decisions: np.ndarray
    log_likelihood: np.ndarray


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
    """Decide with the epsilon of this decision; at epsilon = 0 on all data."""
    epoch = np.searchsorted(test.ends, test.decisions[0], side="right")
    test.decisions[0] += 1.0
    value[EPSILON] = test.epsilons[epoch]
    if test.epsilons[epoch] > 0.0:
        sequential = SequentialTState(test.looks, test.critical[epoch], test.tol)
        return sequential_t.decide(rng, evidence, threshold, log_rest, sequential, count, value)
    n_obs, places = evidence.n_obs, evidence.as_they_lie
    if math.isnan(test.log_likelihood[0]):  # epsilon = 0 is final: from here on the current log-likelihood is kept
        test.log_likelihood[0] = log_likelihood_at(evidence, evidence.theta, places)
        count[EVALUATIONS] += n_obs
    total = log_likelihood_at(evidence, evidence.proposed, places)
    count[TOUCHED] += n_obs
    count[EVALUATIONS] += n_obs
    count[DECISIONS] += 1
    count[ROUNDS] += 1
    if not total < math.inf:
        return -1, 0.0
    if total == -math.inf:  # as is the current one where a biased epoch ended at data of probability 0
        return 0, total
    log_ratio = log_rest + (total - test.log_likelihood[0])
    if threshold < log_ratio:
        test.log_likelihood[0] = total
        return 1, log_ratio
    return 0, log_ratio


@compiled
def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: AnnealedState) -> float:
    """Return Lambda^ of the epoch's t-test; Lambda itself at epsilon = 0, for which no critical value is finite."""
    epoch = np.searchsorted(test.ends, test.decisions[0], side="right")
    sequential = SequentialTState(test.looks, test.critical[epoch], test.tol)
    return T_TEST_FORM(rng, table, log_rest, sequential)


class Ingredients(NamedTuple):
    """What the rule needs to know of each epsilon; the first axis runs over `epsilons`, which hold 0.

    `bias` (squared units of `variance`) and `variance`, the asymptotic variance of a step, have shape (n_epsilons,) or
    (n_epsilons, n_functionals); `cost` is that of a step, in any unit, shape (n_epsilons,).
    """

    epsilons: np.ndarray
    bias: np.ndarray
    variance: np.ndarray
    cost: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class AnnealedEpsilon(AcceptanceTest):
    """Sequential t-tests whose epsilon falls, epoch by epoch, to 0.

    Parameters
    ----------
    epsilons
        Epsilon of each epoch, not increasing; the last must be 0.
    steps
        Decisions of each epoch but the last, which has no end; one number less than `epsilons`. A step to where the
        prior is 0 is refused unread: it makes no decision, and its ``epsilon`` is NaN in the trace.
    test
        Everything else of the tests: a `SequentialTTest`, whose own epsilon does not matter.

    Raises
    ------
    InvalidInputError
        When the epsilons rise, do not end at 0, or the numbers do not fit.

    Notes
    -----
    Guarantee: biased at any finite time, consistent: the last epoch is exact and lasts, and the pooled mean forgets the
    rest. The chain is inhomogeneous: R-hat and ESS over several epochs mean little. Decisions of tuning count. The
    trace records ``epsilon`` for every draw. At epsilon = 0 a step costs N evaluations, as with :class:`ExactTest`.

    :func:`annealing_schedule` makes epochs from known ingredients, :func:`approxmcmc.plan_annealing` from a pilot.

    References
    ----------
    Korattikara, Chen and Welling (2014), section 7.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> test = amc.AnnealedEpsilon((0.1, 0.01, 0.0), steps=(1000, 5000), test=amc.SequentialTTest(batch_size=200))
    >>> test.epsilon_at(1500)
    0.01
    """

    epsilons: Sequence[float] = (0.05, 0.01, 0.0)
    steps: Sequence[int] = (1000, 4000)
    test: SequentialTTest = dataclasses.field(default_factory=SequentialTTest)

    def __post_init__(self) -> None:
        """Check that epsilon falls to 0, and that the numbers fit."""
        epsilons, steps = tuple(float(e) for e in self.epsilons), tuple(int(n) for n in self.steps)
        object.__setattr__(self, "epsilons", epsilons)
        object.__setattr__(self, "steps", steps)
        if not isinstance(self.test, SequentialTTest):
            raise InvalidInputError(f"AnnealedEpsilon: test must be a SequentialTTest, found {self.test!r}")
        falling = all(0.0 <= later <= earlier <= 0.5 for earlier, later in itertools.pairwise(epsilons))
        if not epsilons or epsilons[-1] != 0.0 or not falling:
            raise InvalidInputError(
                "AnnealedEpsilon: epsilons must fall from at most 0.5 to 0, which makes the end exact; found "
                f"{epsilons}"
            )
        if len(steps) != len(epsilons) - 1 or any(n < 1 for n in steps):
            raise InvalidInputError(
                "AnnealedEpsilon: steps must be one positive number for each epsilon but the last, found "
                f"{len(epsilons)} epsilons and steps {steps}"
            )

    @property
    def batch_size(self) -> int:
        """Data of the first look."""
        return int(self.test.batch_size)

    @property
    def order(self) -> str:
        """How subsets are drawn."""
        return str(self.test.order)

    @property
    def is_homogeneous(self) -> bool:
        """Epoch by epoch another test decides."""
        return False

    def looks(self, n_obs: int) -> np.ndarray:
        """Return how many terms have been read at each look; all epochs share them."""
        return self.test.looks(n_obs)

    def with_independent_subsets(self) -> "AnnealedEpsilon":
        """Return the same epochs with subsets that are drawn afresh for every decision."""
        return dataclasses.replace(self, test=self.test.with_independent_subsets())

    def expected_wrong_rate(self, stats: "xr.Dataset") -> float | None:
        """Return the mean error of the recursion over the audited decisions, each at the epsilon of its draw."""
        return self.test.expected_wrong_rate(stats)

    def problems(self, stats: "xr.Dataset") -> list[Finding]:
        """Warn as the tests of the epochs do."""
        return self.test.problems(stats)

    def epsilon_at(self, step: int) -> float:
        """Return the epsilon of a decision, counted from 0."""
        return float(self.epsilons[int(np.searchsorted(np.cumsum(self.steps), step, side="right"))])

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile what decides with the epsilon of its step."""
        if not target.same_terms:  # Gibbs: there is no one likelihood to keep in the exact epoch
            raise IncompatibleError("AnnealedEpsilon works with MetropolisHastings; give Gibbs a SequentialTTest")
        states = [dataclasses.replace(self.test, epsilon=e).state_for(target.n_obs) for e in self.epsilons]

        def state_at(decision: int) -> AnnealedState:
            return AnnealedState(
                ends=np.cumsum(np.asarray(self.steps, dtype=np.float64)),
                epsilons=np.asarray(self.epsilons),
                looks=states[0].looks,
                critical=np.stack([state.critical for state in states]),
                tol=states[0].tol,
                decisions=np.array([float(decision)]),
                log_likelihood=np.full(1, math.nan),
            )

        return CompiledTest(
            decide,
            lambda: state_at(0),
            *METROPOLIS,
            records=("epsilon", *self.test.build_test(target).records),
            threshold_form=threshold_form,
            state_at=state_at,
        )


def pooled_risk(ingredients: Ingredients, arms: Sequence[int], steps: Sequence[float]) -> float:
    """Return the predicted risk of the mean over epochs: `arms` says which epsilon, `steps` how many steps.

    Several functionals are averaged, each in units of its variance at epsilon = 0.
    """
    bias, variance = _standardised(ingredients)
    n = np.asarray(steps, dtype=np.float64)[:, None]
    places = np.asarray(arms, dtype=np.int64)
    total = n.sum()
    squared_bias = ((n * bias[places]).sum(axis=0) / total) ** 2
    return float((squared_bias + (n * variance[places]).sum(axis=0) / total**2).mean())


def annealing_schedule(
    ingredients: Ingredients,
    *,
    test: SequentialTTest | None = None,
    first_budget: float | None = None,
    max_doublings: int = 60,
) -> AnnealedEpsilon:
    """Return the annealed test whose epochs double the budget and take the arm of least predicted pooled risk.

    Parameters
    ----------
    ingredients
        Bias, variance and cost of each epsilon, 0 among them.
    test
        Everything else of the tests.
    first_budget
        Cost at the end of the first epoch; default that of ten steps at epsilon = 0.
    max_doublings
        Epochs after which epsilon is 0 whatever is predicted, so that the run is consistent even where an ingredient
        says that a bias is 0.

    Raises
    ------
    InvalidInputError
        When 0 is not among the epsilons, shapes do not fit, or a number is NaN or infinite, a variance or cost not
        positive.

    Examples
    --------
    >>> known = Ingredients(np.array([0.0, 0.01]), np.array([0.0, 0.1]), np.array([9.0, 12.6]), np.array([1.0, 0.64]))
    >>> annealing_schedule(known).epsilons[0], annealing_schedule(known).steps
    (0.01, (125,))
    """
    epsilons, cost = _checked(ingredients)
    exact = int(np.flatnonzero(epsilons == 0.0)[0])
    budget = 10.0 * cost[exact] if first_budget is None else float(first_budget)
    spent, arms, steps = 0.0, [], []  # type: ignore[var-annotated]
    for _ in range(max_doublings):
        allowed = [k for k in range(len(epsilons)) if not arms or epsilons[k] <= epsilons[arms[-1]]]
        lengths = {k: (budget - spent) / cost[k] for k in allowed}
        arm = min(allowed, key=lambda k: pooled_risk(ingredients, [*arms, k], [*steps, lengths[k]]))
        if arm == exact:
            break
        arms.append(arm)
        steps.append(max(1.0, round(lengths[arm])))
        spent, budget = budget, 2.0 * budget
    merged: list[list[float]] = []
    for arm, n in zip(arms, steps, strict=True):  # epochs of one epsilon are one
        if merged and merged[-1][0] == epsilons[arm]:
            merged[-1][1] += n
        else:
            merged.append([float(epsilons[arm]), n])
    return AnnealedEpsilon(
        (*(epsilon for epsilon, _ in merged), 0.0),
        tuple(int(min(n, LONGEST)) for _, n in merged),
        test or SequentialTTest(),
    )


def _checked(ingredients: Ingredients) -> tuple[np.ndarray, np.ndarray]:
    """Return epsilons and costs; what makes no schedule is refused, as comparisons with NaN would answer anything."""
    epsilons, bias, variance, cost = (np.asarray(part, dtype=np.float64) for part in ingredients)
    if not (epsilons == 0.0).any():
        raise InvalidInputError(
            f"annealing_schedule: epsilon = 0 must be among the epsilons, found {epsilons.tolist()}"
        )
    for name, part, fits, needed in (
        ("bias", bias, bias.shape == variance.shape and np.isfinite(bias).all(), "be finite, in the shape of variance"),
        ("variance", variance, (variance > 0.0).all() and np.isfinite(variance).all(), "be positive and finite"),
        ("cost", cost, cost.shape == epsilons.shape and (cost > 0.0).all() and np.isfinite(cost).all(), "be positive"),
    ):
        if not fits or part.shape[:1] != epsilons.shape:
            raise InvalidInputError(
                f"annealing_schedule: {name} must {needed}, one for each of {len(epsilons)} epsilons, found "
                f"{part.tolist()}"
            )
    return epsilons, cost


def _standardised(ingredients: Ingredients) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance, shape (n_epsilons, n_functionals), in units of the variance at epsilon = 0."""
    shape = (len(ingredients.epsilons), -1)
    bias, variance = (np.asarray(part, dtype=np.float64).reshape(shape) for part in ingredients[1:3])
    unit = variance[np.asarray(ingredients.epsilons) == 0.0][0]
    return bias / np.sqrt(unit), variance / unit
