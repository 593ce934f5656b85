"""What the samplers of doubly intractable posteriors share: auxiliary draws, and the ratio of normalisers.

The posterior is p(theta) exp(theta's(y)) / Z(theta). Draws y'_1 ... y'_N at theta' replace the normalisers:

    Z(theta) / Z(theta') = E exp((theta - theta')'s(y'))        and        grad log Z(theta) = E s(y) at theta.

A chain's memory is (state of the proposal, simulator's state, draws for the ratio), one row of statistics per draw;
Langevin kinds add (simulator's state, G, G', work), the draws behind the drift at theta and at theta'. Two states, so
that draws for the ratio never continue a Markov chain of draws for the drift.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, DoublyIntractableTarget
from approxmcmc.engine.compile import compiled
from approxmcmc.errors import IncompatibleError

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
RECORDS = ("auxiliary_updates", "statistic_evaluations")


@compiled
def log_normalizer_ratio(theta, proposed, statistics):  # type: ignore[no-untyped-def]
    """Estimate log Z(theta) - log Z(theta') by log (1/N) sum_k exp((theta - theta')'s_k), s_k drawn at theta'."""
    largest, total = -math.inf, 0.0
    for k in range(statistics.shape[0]):
        exponent = 0.0
        for j in range(theta.shape[0]):
            exponent += (theta[j] - proposed[j]) * statistics[k, j]
        if exponent > largest:
            total = total * math.exp(largest - exponent) + 1.0
            largest = exponent
        else:
            total += math.exp(exponent - largest)
    return largest + math.log(total / statistics.shape[0])


@compiled
def log_ratio_of_observed(theta, proposed, observed):  # type: ignore[no-untyped-def]
    """Return (theta' - theta)'s(y)."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += (proposed[j] - theta[j]) * observed[j]
    return total


def check_target(target: Any, who: str) -> None:
    """Refuse a target that is not doubly intractable."""
    if not isinstance(target, DoublyIntractableTarget):
        raise IncompatibleError(
            f"{who} needs a doubly intractable target such as targets.Ising or targets.ERGM, which can simulate data; "
            f"found {target!r}; sample it with MetropolisHastings"
        )


def log_likelihood_of(target: DoublyIntractableTarget) -> Any:
    """Return theta's(y) - log Z(theta), or None where the normaliser is unknown."""

    def log_likelihood(theta: np.ndarray) -> float | None:
        normalizer = target.log_normalizer(theta)
        return None if normalizer is None else float(theta @ target.observed_statistics) - normalizer

    return log_likelihood
