"""Plan an annealed epsilon from a pilot: bias, variance and cost of every epsilon, from the steps of one exact chain.

A step of the pilot gives its log ratio Lambda and the scale tau of its terms (see `design.pairs`), and so, for every
epsilon, the error Delta of its acceptance probability. Let g solve (1 - T) g = f - E f for a functional f and the exact
kernel T. To first order the bias of E f is

    b(epsilon) = E[ Delta(theta, theta') (g(theta') - g(theta)) ]        over theta ~ posterior, theta' ~ proposal.

If the autocorrelation of f decays at one rate, g = c (f - E f) with c = var f / D(f). Here D(f) = E[ P_a (f(theta') -
f(theta))^2 ] / 2 is the Dirichlet form, with P_a the exact acceptance probability, and the asymptotic variance is V =
var f (2 c - 1). For the mean of z^2 under N(0, 1) this is right within 4 % for b at every epsilon up to .2, and within
1 % for V at epsilon 0. If the autocorrelation decays at several rates, the Dirichlet form gives too small a c. Batch
means of the chain do not, so the larger of the two values of c is used. A c that is too large shortens the biased
epochs, which is the safe side.

This is heuristic, but a bad pilot costs only efficiency, never consistency, because every schedule ends at epsilon = 0.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance import AnnealedEpsilon, SequentialTTest
from approxmcmc.acceptance.annealing_rule import Ingredients, annealing_schedule
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.design.pairs import collect_pairs
from approxmcmc.design.step_times import seconds_per_step
from approxmcmc.errors import InvalidInputError, SamplingWarning, warn

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0)
COSTS = ("time", "data")
LONGEST_TIME_SCALE = 0.6  # unit: batch lengths; batch means do not show longer correlations


@dataclasses.dataclass(frozen=True)
class AnnealingPlan:
    """The planned annealed test, the estimates behind it, and what the pilot cost.

    Parameters
    ----------
    test
        The `AnnealedEpsilon` to use.
    ingredients
        Estimated bias, variance and cost of each epsilon.
    table
        A `pandas.DataFrame` with a row for each epsilon: mean of abs(Delta) over the steps of the pilot, bias and
        variance relative to the exact chain (averages over functionals), cost of a step.
    setup_likelihood_evaluations, setup_seconds
        Evaluations and seconds of the pilot.
    """

    test: AnnealedEpsilon
    ingredients: Ingredients = dataclasses.field(repr=False, compare=False)
    table: "pd.DataFrame" = dataclasses.field(repr=False, compare=False)
    setup_likelihood_evaluations: int = 0
    setup_seconds: float = 0.0


def moments(states: np.ndarray) -> np.ndarray:
    """Return every coordinate of `states` (n, dim) and its square, shape (n, 2 dim): the default functionals.

    Sequential tests widen the posterior, which changes means of squares much more than means of odd functionals.
    """
    return np.concatenate([states, states**2], axis=1)


@naming_the_arguments
def plan_annealing(
    target: Any,
    *,
    proposal: Any,
    test: SequentialTTest | None = None,
    epsilons: Sequence[float] = EPSILONS,
    functional: Callable[[np.ndarray], np.ndarray] = moments,
    cost: str = "time",
    n_pairs: int = 500,
    tune: int = 200,
    initvals: Any = None,
    random_seed: Any = None,
) -> AnnealingPlan:
    """Plan an annealed epsilon from a pilot run.

    Parameters
    ----------
    target, proposal
        Target and proposal of the chain that will use the plan.
    test
        Gives all settings of the tests but epsilon; default ``SequentialTTest()``.
    epsilons
        Candidate values of epsilon, from 0 to 0.5; 0 must be among them. Each epoch uses the one with the least
        predicted risk.
    functional
        ``functional(states (n, dim)) -> (n, n_functionals)``: functions with means that should be right; the error of
        each counts in units of its standard deviation. States are first shifted by the pilot's mean, so squares are
        central.
    cost
        ``"time"``: seconds per step, measured for epsilon 0 and those nearest to .01 and .2, and linear in the data
        read for the others. ``"data"``: share of the data read.
    n_pairs, tune
        Steps of the exact pilot chain: `n_pairs` after `tune`.
    initvals
        Where the pilot starts, shape (dim,); default as in :func:`sample`.
    random_seed
        As in :func:`sample`.

    Returns
    -------
    AnnealingPlan
        `test` goes into `MetropolisHastings`; the other attributes are the estimates behind it and its cost.

    Raises
    ------
    InvalidInputError
        When a setting is out of range, or a datum has probability 0 at a proposal of the pilot.
    NotFiniteError
        When no proposal of the pilot has a finite log ratio.

    Warns
    -----
    SamplingWarning
        If the pilot is too short for the chain's autocorrelation.

    Notes
    -----
    Guarantee: heuristic. The pilot costs at most ``4 + tune + n_pairs`` passes, and about 150 more steps with
    ``cost="time"``; all count as set-up. Keep it at one or two per cent of the run's budget.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> plan = amc.design.plan_annealing(target, proposal=amc.RandomWalk(0.05), cost="data", random_seed=1)
    >>> plan.test.epsilons[-1]
    0.0
    """
    epsilons = tuple(float(epsilon) for epsilon in epsilons)
    if 0.0 not in epsilons or not all(0.0 <= epsilon <= 0.5 for epsilon in epsilons) or len(epsilons) < 2:
        raise InvalidInputError(
            f"plan_annealing: epsilons must hold 0 and at least one value above 0 and up to 0.5, found {epsilons}"
        )
    if cost not in COSTS:
        raise InvalidInputError(f"plan_annealing: cost must be one of {COSTS}, found {cost!r}")
    test = test or SequentialTTest()
    began = time.perf_counter()
    pairs = collect_pairs(target, proposal, n_pairs=n_pairs, tune=tune, initvals=initvals, random_seed=random_seed)
    if np.isinf(pairs.tau).any():
        raise InvalidInputError(
            "plan_annealing: at a proposal of the pilot a row has probability 0; a subset may miss this row, so a test "
            "errs by more than any epsilon; use ExactTest"
        )
    centre = pairs.states.mean(axis=0)
    looks = {"batch_size": test.batch_size, "n_obs": target.n_obs, "growth": test.growth}
    errors, price = errors_of_pairs(pairs, epsilons, boundary_shape=test.boundary_shape, **looks)
    evaluations = pairs.likelihood_evaluations
    if cost == "time":
        price, more = seconds_per_step(target, proposal, test, epsilons, price, pairs.states[-1])
        evaluations += more
    at = functional(pairs.states - centre)
    to = functional(pairs.proposed - centre)
    _warn_of_a_short_pilot(at)
    acceptance = np.exp(np.minimum(pairs.log_ratio, 0.0))
    ingredients = estimate_ingredients(epsilons, errors, price, acceptance, at, to)
    return AnnealingPlan(
        annealing_schedule(ingredients, test=test),
        ingredients,
        _table(ingredients, np.abs(errors).mean(axis=1)),
        evaluations,
        time.perf_counter() - began,
    )


def errors_of_pairs(pairs: Any, epsilons: Sequence[float], **test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the error Delta, shape (n_epsilons, n_pairs), and the share of the data read, shape (n_epsilons,).

    Delta is the error of the acceptance probability for each epsilon and pair. `pairs` begins with log ratios and
    scales; `test` holds settings of `acceptance_probability_error`. Where the log ratio is -inf, outside the support,
    no test errs or reads data; the share is the mean over the other pairs.
    """
    log_ratio, tau = pairs[:2]
    inside = np.isfinite(log_ratio)
    errors = np.zeros((len(epsilons), len(log_ratio)))
    used = []
    for row, epsilon in zip(errors, epsilons, strict=True):
        errors_inside = acceptance_probability_error(log_ratio[inside], tau[inside], epsilon=epsilon, **test)
        row[inside] = errors_inside["error"].values
        used.append(float(errors_inside["data_fraction"].mean()))
    return errors, np.array(used)


def estimate_ingredients(
    epsilons: Sequence[float],
    errors: np.ndarray,
    cost: Any,
    acceptance: np.ndarray,
    at: np.ndarray,
    to: np.ndarray,
) -> Ingredients:
    """Return bias, variance and cost of each epsilon from the steps of an exact chain.

    Parameters
    ----------
    epsilons
        Values of epsilon; 0 must be among them.
    errors
        Error Delta of the acceptance probability for every epsilon and step, shape (n_epsilons, n_steps).
    cost
        Cost of a step with each epsilon; shape (n_epsilons,).
    acceptance
        Exact acceptance probability of every step, shape (n_steps,).
    at, to
        Functionals at the states and at the proposals, shape (n_steps, n_functionals).
    """
    n = len(at)
    centred = at - at.mean(axis=0)
    change = to - at
    variance = np.maximum((centred**2).mean(axis=0), 1e-300)
    dirichlet = np.maximum(0.5 * (acceptance[:, None] * change**2).mean(axis=0), 1e-300)
    solution = np.maximum(variance / dirichlet, 0.5 * (batch_variance(at) / variance + 1.0))  # c in g = c (f - E f)
    shift = errors @ change / n
    # The risk contains b^2, whose mean, given the pilot, is the squared estimate of b plus its variance.
    noise = np.maximum((errors**2) @ (change**2) / n - shift**2, 0.0) * (2.0 * solution - 1.0) / n
    bias = solution * np.sqrt(shift**2 + noise)
    # The same for f^2 shows how the variance widens, and with it V = var (2 var / D - 1).
    wider = np.maximum(variance + solution * (errors @ ((to - at.mean(axis=0)) ** 2 - centred**2)) / n, 0.5 * variance)
    forms = np.maximum(dirichlet + 0.5 * (errors @ change**2) / n, 0.1 * dirichlet)
    growth = (wider * (2.0 * wider / forms - 1.0)) / (variance * (2.0 * variance / dirichlet - 1.0))
    asymptotic = np.maximum(growth, 0.5) * variance * (2.0 * solution - 1.0)
    return Ingredients(np.asarray(epsilons, dtype=np.float64), bias, asymptotic, np.asarray(cost, dtype=np.float64))


def batch_variance(values: np.ndarray) -> np.ndarray:
    """Return n times the variance of the mean of n `values`, by overlapping batches of sqrt(n); shape (n_functionals,).

    Flegal and Jones (2010): the estimate varies a third less than one of batches that do not overlap.
    """
    n = len(values)
    length = max(1, math.isqrt(len(values)))
    sums = np.cumsum(np.concatenate([np.zeros((1, values.shape[1])), values - values.mean(axis=0)]), axis=0)
    means = (sums[length:] - sums[:-length]) / length
    variance: np.ndarray = n * length * (means**2).sum(axis=0) / ((n - length) * (n - length + 1))
    return np.maximum(variance, 1e-300)


def _warn_of_a_short_pilot(at: np.ndarray) -> None:
    """Warn if the pilot is too short for a chain that mixes so slowly; batches have sqrt(n) steps."""
    longest = math.isqrt(len(at))
    time_scale = float(np.median(batch_variance(at) / np.maximum(at.var(axis=0), 1e-300)))
    if time_scale > LONGEST_TIME_SCALE * longest:
        warn(
            f"plan_annealing: within {len(at)} pilot steps the chain hardly forgets its start (autocorrelation time "
            f"{time_scale:.0f} or more, batches of {longest}): bias and variance are understated and epsilon may stay "
            "too large for too long; use more n_pairs, or longer steps",
            SamplingWarning,
        )


def _table(ingredients: Ingredients, error: np.ndarray) -> "pd.DataFrame":
    import pandas as pd

    unit = ingredients.variance[ingredients.epsilons == 0.0][0]
    return pd.DataFrame(
        {
            "epsilon": ingredients.epsilons,
            "mean_error": error,
            "relative_bias": np.abs(ingredients.bias / np.sqrt(unit)).mean(axis=1),
            "relative_variance": (ingredients.variance / unit).mean(axis=1),
            "cost": ingredients.cost,
        }
    )
