"""Reduce a sequential test on data in a fixed order to one number that decides for every u.

The test stops at the first look j where mu_0 = (log u - c) / N, u the uniform number of the decision and c the log
ratio of prior and proposal, lies outside lbar_j -+ h_j, with lbar_j the mean of the terms read; it accepts iff mu_0
lies below this interval. The half-width h_j
does not depend on u. So the values of mu_0 that are undecided after a look form an interval; values below it have been
accepted and values above it rejected. A final stop, at all data or by tolerance, cuts the interval at the mean. So
there is a mu^ with

    accept  <=>  mu_0 < mu^  <=>  log u < Lambda^ = c + N mu^    for every u.

The form reads a table of the terms, see `approxmcmc.engine.terms.term_table`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import FINITE, UNDEFINED
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.moments import MEAN, reset
from approxmcmc.engine.terms.term_table import read_table


@cached_by_content(maxsize=16)
def make_threshold_form(half_width: Callable[..., float]) -> Callable[..., float]:
    """Return the compiled function ``(rng, table, log_rest, test) -> Lambda^`` of a test with looks.

    ``half_width(table, test, look, n)`` returns h at a look (an index) after n terms: with h = 0 the test stops there
    for every u, with h = inf for no u. Lambda^ is NaN if a term read is NaN or +inf.
    """

    def threshold_form(rng: np.random.Generator, table: Evidence, log_rest: float, test: Any) -> float:
        looks = test.looks
        moments = table.moments
        n_obs = table.n_obs
        reset(moments)
        lower = -math.inf
        upper = math.inf
        cut = 0.0
        n = np.int64(0)  # a literal 0 would compile the helpers twice
        for look in range(looks.shape[0]):
            before = n
            n = looks[look]
            outcome = read_table(rng, table, before, n)
            if outcome == UNDEFINED:
                return math.nan
            # A datum of probability 0 at theta' rejects for every u that no earlier look has decided.
            mean = moments[MEAN] if outcome == FINITE else -math.inf
            cut = min(max(mean, lower), upper)
            if n == n_obs or outcome != FINITE:
                break
            h = half_width(table, test, look, n)
            if h < math.inf:
                lower = max(lower, mean - h)
                upper = min(upper, mean + h)
            if lower >= upper:
                break
        return log_rest + n_obs * cut

    return compiled(threshold_form)
