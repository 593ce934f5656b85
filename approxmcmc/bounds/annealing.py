"""From a pilot to an annealed epsilon: what each epsilon costs, varies and is biased by, estimated in a few passes.

Bias is dear to measure where it is small, and cheap where it is large. So short pilot chains run at large epsilons
only, and the rest is carried down by the mean error D(epsilon) = mean_b |Delta_b| of the acceptance probability, which
the recursion knows for every epsilon from the pilot pairs (Lambda_b, tau_b):

    b(epsilon) = beta D(epsilon),    V(epsilon) = V(0) (1 + gamma D(epsilon)),

beta for each functional by weighted regression of f_bar(epsilon_i) - f_bar(0) on D(epsilon_i), and then its upper 84 %
point (conservative); gamma common to all functionals. On the canonical case both are nearly linear, and the slope grows
with D: extrapolation from large epsilons overstates the bias of small ones, which errs on the exact side.

Nothing here is rigorous: a bad pilot costs efficiency, never consistency, as every schedule ends at epsilon = 0.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance import AnnealedEpsilon, ExactTest, SequentialTTest
from approxmcmc.acceptance.annealed import Ingredients, annealing_schedule
from approxmcmc.acceptance.recursion import acceptance_probability_error
from approxmcmc.bounds.pairs import Pairs, collect_pairs
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.samplers import MetropolisHastings

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0)
PILOT_EPSILONS = (0.2, 0.05)
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
COSTS = ("time", "data")


@dataclasses.dataclass(frozen=True)
class AnnealingPlan:
    """The annealed test that was planned, what it rests on, and what the pilot cost.

    Parameters
    ----------
    test
        The `AnnealedEpsilon` to use.
    ingredients
        Estimated bias, variance and cost of each epsilon.
    table
        A row for each epsilon: mean error D of the acceptance probability, relative bias and variance (averages over
        functionals, in units of the exact chain's), cost of a step.
    setup_likelihood_evaluations, setup_seconds
        What the pilot cost.
    """

    test: AnnealedEpsilon
    ingredients: Ingredients = dataclasses.field(repr=False, compare=False)
    table: "pd.DataFrame" = dataclasses.field(repr=False, compare=False)
    setup_likelihood_evaluations: int = 0
    setup_seconds: float = 0.0


def moments(states: np.ndarray) -> np.ndarray:
    """Return every coordinate and its square, shape (n, 2 dim): the functionals that are watched by default.

    Sequential tests widen the posterior: odd functionals hardly see it, squares do.
    """
    return np.concatenate([states, states**2], axis=1)


def plan_annealing(
    target: Any,
    *,
    proposal: Any,
    test: SequentialTTest | None = None,
    epsilons: Sequence[float] = EPSILONS,
    functional: Callable[[np.ndarray], np.ndarray] = moments,
    cost: str = "time",
    n_pairs: int = 100,
    thin: int = 2,
    tune: int = 200,
    pilot_passes: float = 100.0,
    initvals: Any = None,
    random_seed: Any = None,
) -> AnnealingPlan:
    """Plan an annealed epsilon from a pilot run.

    Parameters
    ----------
    target, proposal
        What the chain will sample, and with which proposal.
    test
        Batch size, growth and order of the tests; default `SequentialTTest`.
    epsilons
        The arms, 0 among them.
    functional
        ``functional(states (n, dim)) -> (n, n_functionals)``: the means that matter, each in units of its own variance
        under the exact chain. States are shifted to the pilot's mean first, which makes squares central.
    cost
        ``"time"``: seconds per step, measured for the pilot's epsilons and linear in the data used for the others.
        ``"data"``: share of the data read.
    n_pairs, thin, tune
        The exact pilot chain has ``n_pairs * thin`` steps after `tune`, and a pair at every `thin`-th.
    pilot_passes
        Passes over the data that each of the pilot chains at epsilon 0.2 and 0.05 takes, about.
    initvals, random_seed
        As in :func:`sample`, of the pilot chains.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    Notes
    -----
    Heuristic. The pilot costs about ``tune + n_pairs (thin + 2) + 2 pilot_passes`` passes, booked as set-up: keep it at
    a few per cent of what the run may spend.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> target = amc.targets.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    >>> plan = amc.plan_annealing(target, proposal=amc.RandomWalk(0.05), cost="data", random_seed=1)
    >>> plan.test.epsilons[-1]
    0.0
    """
    epsilons = tuple(float(epsilon) for epsilon in epsilons)
    if 0.0 not in epsilons or not all(0.0 <= epsilon <= 0.5 for epsilon in epsilons) or len(epsilons) < 2:
        raise InvalidInputError(f"plan_annealing: epsilons must hold 0 and more, up to 0.5, found {epsilons}")
    if cost not in COSTS:
        raise InvalidInputError(f"plan_annealing: cost must be one of {COSTS}, found {cost!r}")
    test = test or SequentialTTest()
    began = time.perf_counter()
    sequence = seed_sequences(random_seed, 1)[0][0]
    seeds = [int(seed) for seed in sequence.generate_state(4)]
    pairs = collect_pairs(
        target, proposal, n_pairs=n_pairs, tune=tune, thin=thin, initvals=initvals, random_seed=seeds[0]
    )
    centre = pairs.states.mean(axis=0)
    error, fraction = _mean_errors(pairs, test, epsilons, target.n_obs)
    pilots, seconds, evaluations = {}, {}, 0
    for epsilon, seed in zip(_pilot_epsilons(epsilons), seeds[1:], strict=False):
        n_steps = max(20, round(pilot_passes / fraction[epsilons.index(epsilon)]))
        part = dataclasses.replace(test, epsilon=epsilon)
        states, seconds[epsilon], used = _pilot(target, proposal, part, pairs.states[-1], n_steps, seed)
        pilots[epsilon] = functional(states - centre)
        evaluations += used
    if cost == "time":
        _, seconds[0.0], used = _pilot(target, proposal, ExactTest(), pairs.states[-1], 30, seeds[3])
        evaluations += used
    price = fraction if cost == "data" else _seconds_per_step(fraction, epsilons, seconds)
    ingredients = estimate_ingredients(epsilons, error, price, functional(pairs.states - centre), pilots)
    planned = annealing_schedule(ingredients, test=test)
    return AnnealingPlan(
        planned,
        ingredients,
        _table(ingredients, error),
        pairs.likelihood_evaluations + evaluations,
        time.perf_counter() - began,
    )


def estimate_ingredients(
    epsilons: Sequence[float],
    error: Any,
    cost: Any,
    exact: np.ndarray,
    pilots: Mapping[float, np.ndarray],
) -> Ingredients:
    """Return bias, variance and cost of each epsilon from pilot chains.

    Parameters
    ----------
    epsilons
        The arms, 0 among them.
    error
        D(epsilon), mean ``|Delta|`` of each; shape (n_epsilons,).
    cost
        Of a step of each; shape (n_epsilons,).
    exact
        Functionals along the exact pilot chain, shape (n, n_functionals).
    pilots
        The same along pilot chains, by epsilon.
    """
    D, places = np.asarray(error, dtype=np.float64), {e: list(epsilons).index(e) for e in pilots}
    mean_0, variance_0 = exact.mean(axis=0), batch_variance(exact)
    at = np.array([D[places[e]] for e in pilots])[:, None]
    means = np.array([chain.mean(axis=0) - mean_0 for chain in pilots.values()])
    variances = np.array([batch_variance(chain) for chain in pilots.values()])
    noise = np.array([v / len(chain) for v, chain in zip(variances, pilots.values(), strict=True)])
    noise = noise + variance_0 / len(exact)
    precision = np.maximum((at**2 / noise).sum(axis=0), 1e-300)
    beta = np.abs((at * means / noise).sum(axis=0) / precision) + 1.0 / np.sqrt(precision)  # upper 84 % point
    excess = np.median(variances / variance_0, axis=1) - 1.0
    gamma = float((at[:, 0] * excess).sum() / max((at**2).sum(), 1e-300))
    growth = np.maximum(1.0 + gamma * D, 0.5)[:, None]
    return Ingredients(
        np.asarray(epsilons, dtype=np.float64), D[:, None] * beta, growth * variance_0, np.asarray(cost, dtype=float)
    )


def batch_variance(values: np.ndarray) -> np.ndarray:
    """Return the asymptotic variance of a step by means of about sqrt(n) batches; shape (n_functionals,)."""
    n_batches = max(2, math.isqrt(len(values)))
    length = len(values) // n_batches
    means = values[: n_batches * length].reshape(n_batches, length, -1).mean(axis=1)
    variance: np.ndarray = length * means.var(axis=0, ddof=1)
    return np.maximum(variance, 1e-300)


def _mean_errors(
    pairs: Pairs, test: SequentialTTest, epsilons: Sequence[float], n_obs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return D(epsilon) and the share of the data used, for each epsilon."""
    looks: dict[str, Any] = {"batch_size": min(test.batch_size, n_obs), "growth": test.growth}
    found = [
        acceptance_probability_error(
            pairs.log_ratio, pairs.tau, epsilon=epsilon, n_obs=n_obs, boundary_shape=test.boundary_shape, **looks
        )
        for epsilon in epsilons
    ]
    error = np.array([float(np.abs(one["error"]).mean()) for one in found])
    return error, np.array([float(one["data_fraction"].mean()) for one in found])


def _pilot_epsilons(epsilons: Sequence[float]) -> list[float]:
    """Return two positive arms: those nearest, on a log scale, to 0.2 and 0.05."""
    positive = [epsilon for epsilon in epsilons if epsilon > 0.0]
    nearest = [min(positive, key=lambda e: abs(math.log(e / wanted))) for wanted in PILOT_EPSILONS]
    return list(dict.fromkeys(nearest))


def _pilot(
    target: Any, proposal: Any, test: Any, theta: np.ndarray, n_steps: int, seed: int
) -> tuple[np.ndarray, float, int]:
    """Run a chain from theta; return its states, its seconds per step and its evaluations."""
    program = MetropolisHastings(proposal, test).build(target, audit_every=None)
    chain = program.start(theta, streams(seed_sequences(seed, 1)[0][0]), 0)
    states = np.empty((n_steps, len(theta)))
    counts, values = np.empty((n_steps, len(COUNT_NAMES)), np.int64), np.empty((n_steps, len(VALUE_NAMES)))
    if chain.advance(n_steps, 1, states, counts, values) < n_steps:
        raise NotFiniteError(f"plan_annealing: {chain.explain_failure()}. Look at the model there")
    return states, float(values[:, SECONDS].mean()), int(counts[:, EVALUATIONS].sum())


def _seconds_per_step(fraction: np.ndarray, epsilons: Sequence[float], seconds: Mapping[float, float]) -> np.ndarray:
    """Return the seconds of a step for each epsilon: as measured at 0, linear in the data used between the pilots."""
    places = [list(epsilons).index(epsilon) for epsilon in seconds if epsilon > 0.0]
    measured = np.array([seconds[epsilons[place]] for place in places])
    if len(places) > 1 and measured.max() > measured.min():
        slope = np.ptp(measured) / np.ptp(fraction[places])
        price = np.maximum(measured.mean() + slope * (fraction - fraction[places].mean()), 0.5 * measured.min())
    else:
        price = measured[0] * fraction / fraction[places[0]]
    return np.where(np.asarray(epsilons) == 0.0, seconds[0.0], price)


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
