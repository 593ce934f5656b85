"""The annealing rule: choose the epsilon of each epoch.

At a budget t the risk of a posterior mean is R(epsilon, t) = b(epsilon)^2 + V(epsilon) k(epsilon) / t, with the bias b,
the asymptotic variance V per step and the cost k of a step. The risk of a small budget is least at a large epsilon,
that of a large budget at 0. So the run is divided into epochs that double the budget, and every epoch uses the epsilon
with the least predicted risk of the *pooled* mean at its end,

    ( (n b_old + m b) / (n + m) )^2 + ( n V_old + m V ) / (n + m)^2,    m = (t_{j+1} - t_j) / k(epsilon),

after n steps with mean bias b_old and mean variance V_old; m is the number of steps of the epoch between the budgets
t_j and t_{j+1}. Epsilon never rises again, and ends at 0, so the pooled mean is consistent.

Reference: Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 7, propose to lower epsilon
as the chain runs; the rule is this project's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.acceptance.annealed import AnnealedEpsilon
from approxmcmc.acceptance.sequential_t import SequentialTTest
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

LONGEST = 2**62  # largest number of steps of an epoch


class Ingredients(NamedTuple):
    """The input of the rule for each epsilon; the first axis runs over `epsilons`, which include 0.

    `bias` (its square has the unit of `variance`) and `variance`, the asymptotic variance per step, have shape
    (n_epsilons,) or (n_epsilons, n_functionals); `cost`, the cost of a step in any unit, has shape (n_epsilons,).
    """

    epsilons: np.ndarray
    bias: np.ndarray
    variance: np.ndarray
    cost: np.ndarray


def pooled_risk(ingredients: Ingredients, arms: Sequence[int], steps: Sequence[float]) -> float:
    """Return the predicted risk of the pooled mean after epochs with ``epsilons[arms[k]]`` for ``steps[k]`` steps.

    The risks of several functionals are averaged, each in units of its variance at epsilon = 0.
    """
    bias, variance = _standardised(ingredients)
    n = np.asarray(steps, dtype=np.float64)[:, None]
    places = np.asarray(arms, dtype=np.int64)
    total = n.sum()
    squared_bias = ((n * bias[places]).sum(axis=0) / total) ** 2
    return float((squared_bias + (n * variance[places]).sum(axis=0) / total**2).mean())


@naming_the_arguments
def annealing_schedule(
    ingredients: Ingredients,
    *,
    test: SequentialTTest | None = None,
    first_budget: float | None = None,
    max_doublings: int = 60,
) -> AnnealedEpsilon:
    """Return the annealed test with epochs that double the budget, each with the least predicted pooled risk.

    Parameters
    ----------
    ingredients
        An `Ingredients` of `approxmcmc.acceptance.annealing_rule`: bias, variance and cost of a step at each epsilon; 0
        must be among the epsilons.
    test
        A `SequentialTTest` with the other settings of the tests, without an epsilon.
    first_budget
        Cost of the first epoch, in the unit of ``ingredients.cost``; by default that of ten steps at epsilon = 0.
    max_doublings
        Number of epochs after which epsilon is 0 whatever the prediction, so that the run is consistent even if an
        ingredient claims a bias of 0.

    Raises
    ------
    InvalidInputError
        When 0 is not among the epsilons, shapes do not match, a number is NaN or infinite, or a variance or cost is
        not positive.

    Examples
    --------
    >>> known = Ingredients(np.array([0.0, 0.01]), np.array([0.0, 0.1]), np.array([9.0, 12.6]), np.array([1.0, 0.64]))
    >>> annealing_schedule(known).epsilons[0], annealing_schedule(known).steps
    (0.01, (125,))
    """
    epsilons, cost = _checked(ingredients)
    exact = int(np.flatnonzero(epsilons == 0.0)[0])
    budget = 10.0 * cost[exact] if first_budget is None else float(first_budget)
    spent = 0.0
    arms: list[int] = []
    steps: list[float] = []
    for _ in range(max_doublings):
        allowed = [k for k in range(len(epsilons)) if not arms or epsilons[k] <= epsilons[arms[-1]]]
        lengths = {k: (budget - spent) / cost[k] for k in allowed}
        arm = min(allowed, key=lambda k: pooled_risk(ingredients, [*arms, k], [*steps, lengths[k]]))
        if arm == exact:
            break
        arms.append(arm)
        steps.append(max(1.0, round(lengths[arm])))
        spent = budget
        budget = 2.0 * budget
    merged: list[list[float]] = []
    for arm, n in zip(arms, steps, strict=True):  # merge neighbouring epochs with the same epsilon
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
    """Return epsilons and costs; raise on invalid input, because comparisons with NaN would give arbitrary results."""
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
    """Return bias and variance, (n_epsilons, n_functionals), so scaled that the variance is 1 at epsilon = 0."""
    shape = (len(ingredients.epsilons), -1)
    bias, variance = (np.asarray(part, dtype=np.float64).reshape(shape) for part in ingredients[1:3])
    unit = variance[np.asarray(ingredients.epsilons) == 0.0][0]
    return bias / np.sqrt(unit), variance / unit
