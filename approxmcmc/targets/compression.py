"""Rewrite a posterior with fewer terms than rows, if that is exact."""

from approxmcmc.contracts import DoublyIntractableTarget, Target
from approxmcmc.targets.distinct_rows import distinct_rows
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows
from approxmcmc.targets.statistics.model import MOST_WORK, normal_outcomes
from approxmcmc.targets.statistics.target import NormalStatistics


def compressed(target: Target) -> Target:
    """Return the same posterior with terms that represent many rows each, or `target` if no such form is known.

    Parameters
    ----------
    target
        Any target.

    Returns
    -------
    Target
        `NormalStatistics` for normal rows with a linear predictor as mean, and one scale, known or a parameter, up to
        known weights, unless its pass over the rows would take more than about ten seconds; `DistinctRows` for a
        regression, a likelihood of one or several linear predictors, in which at most half of the rows are distinct.
        The attribute ``plain`` of each is the target of single rows.

    Notes
    -----
    Guarantee: the posterior of `target`, to rounding. `sample` and `choose_sampler` use this form if they choose the
    sampler; with a sampler that you give, the target runs unchanged.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X, y = amc.datasets.synthetic_logistic(200, 3)
    >>> target = amc.LogisticRegression(X, y)
    >>> amc.targets.compressed(target) is target
    True
    """
    outcomes = normal_outcomes(target)
    if outcomes and sum(outcome.work for outcome in outcomes) < MOST_WORK:
        return NormalStatistics(target)
    if isinstance(target, StandsForRows):
        return target
    return (distinct_rows(target) if isinstance(target, Regression) else None) or target


def explain_rows(target: Target) -> str:
    """Return a sentence on what replaces the rows if the library chooses the sampler, and what a step then reads."""
    smaller = compressed(target)
    if isinstance(smaller, StandsForRows):
        return smaller.found
    if isinstance(target, DoublyIntractableTarget):
        return "one observation with an unknown normaliser: a step simulates data"
    return f"a step with all data reads {target.n_rows or target.n_obs:,} rows"
