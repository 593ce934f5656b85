"""The sequential t-test ("austerity"): read a few terms, stop when the answer is clear.

Metropolis-Hastings accepts iff the mean mu of the N terms l_i = log p(x_i|theta') - log p(x_i|theta) exceeds
mu_0 = (log u - c) / N. After n terms drawn without replacement, with mean lbar and standard deviation s_l (divisor n
- 1),

    s = s_l / sqrt(n) * sqrt(1 - n / N),    t = (lbar - mu_0) / s,    delta = 1 - F_{n-1}(|t|),

F the Student cdf. If delta < epsilon, decide by the sign of t; otherwise draw more. At n = N the answer is exact.

Conventions. delta is one-sided: one look at mu = mu_0 errs with probability epsilon; a *sequence* of J looks errs
more often (see `sequential_test_error`). ``1 - n/N`` is the unbiased finite-population correction for the (n -
1)-divisor. Comparing delta with epsilon is the same as comparing abs(t) with a critical value tabulated per look, so
no cdf is evaluated while sampling.

Reference: Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 4 and algorithm 1; Pocock (1977) for
constant boundaries.
"""

import dataclasses
import math

import numpy as np

from approxmcmc.acceptance.looks import critical_values, look_sizes
from approxmcmc.acceptance.rules import RULES
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Component, Part, Target
from approxmcmc.engine.batches import CERTAIN, IMPOSSIBLE, UNDEFINED, merge_differences
from approxmcmc.engine.moments import MEAN, largest_deviation, reset, standard_deviation
from approxmcmc.engine.order import draw_next

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")
MAX_TERM_RATIO = VALUE_NAMES.index("max_term_ratio")


def _decide(  # type: ignore[no-untyped-def]  # bound into a chain template, which fixes the types
    rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, state, count, value
):
    looks, critical = params
    moments = work[2]
    mu_0 = (threshold - log_rest) / n_obs
    reset(moments)
    count[DECISIONS] += 1
    n = 0
    for look in range(looks.shape[0]):
        before, n = n, looks[look]
        draw_next(rng, order, before, n)
        outcome = merge_differences(log_terms, theta, proposed, data, order, before, n, work)
        count[TOUCHED] += n - before
        count[EVALUATIONS] += 2 * (n - before)
        count[ROUNDS] += 1
        if outcome == UNDEFINED:
            return -1, 0.0
        if outcome == IMPOSSIBLE:
            return 0, -math.inf
        if outcome == CERTAIN:
            return 1, math.inf
        distance = moments[MEAN] - mu_0
        s_l = standard_deviation(moments)
        s = s_l / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)
        if n == n_obs or (critical[look] < math.inf and abs(distance) > critical[look] * s):
            break
    if s_l > 0.0:
        value[MAX_TERM_RATIO] = largest_deviation(moments) / (s_l * math.sqrt(n))
    return (1 if distance > 0.0 else 0), log_rest + n_obs * moments[MEAN]


@dataclasses.dataclass(frozen=True, eq=False)
class SequentialTTest(Component):
    """Accept or reject by a sequence of t-tests on growing subsets of the data.

    Parameters
    ----------
    epsilon
        Stop when the one-sided p-value falls below epsilon; 0 <= epsilon <= 0.5. 0 never stops early and decides as
        :class:`ExactTest` does; 0.5 stops at the first look.
    batch_size
        Data of the first look, at least 2. About 500 lets the central limit theorem hold; skewed terms need more.
    growth
        Look j adds ``round(batch_size * growth**(j - 1))`` data; 1 = equal looks.

    Raises
    ------
    InvalidInputError
        When a setting is out of range.

    Notes
    -----
    Guarantee: biased unless epsilon = 0; the bias vanishes with epsilon. It holds in the Gaussian regime:
    heavy-tailed terms break it, and a run warns when they do. Cost: 2 evaluations for each datum read.

    References
    ----------
    Korattikara, Chen and Welling (2014), algorithm 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.SequentialTTest(epsilon=0.05, batch_size=500)
    SequentialTTest(epsilon=0.05, batch_size=500, growth=1.0)
    """

    epsilon: float = 0.01
    batch_size: int = 500
    growth: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges; `look_sizes` and `critical_values` know them."""
        critical_values(look_sizes(2, self.batch_size, self.growth), self.epsilon)

    @classmethod
    def from_type_one_error(
        cls, type_one_error: float, *, n_obs: int, batch_size: int = 500, growth: float = 1.0
    ) -> "SequentialTTest":
        """Return the test whose whole sequence of looks, not one look, stops early with this probability at mu = mu_0.

        Parameters
        ----------
        type_one_error
            P(some look before the last stops | mu = mu_0), in (0, 1): Pocock's Type-I error.
        n_obs
            Number of data N that the looks will run through.
        batch_size, growth
            As for the class.

        Examples
        --------
        >>> import approxmcmc as amc
        >>> test = amc.SequentialTTest.from_type_one_error(0.1, n_obs=10_000, batch_size=500)
        >>> round(test.epsilon, 4)
        0.0055
        """
        from approxmcmc.acceptance.recursion import epsilon_for_type_one_error

        epsilon = epsilon_for_type_one_error(type_one_error, batch_size=batch_size, n_obs=n_obs, growth=growth)
        return cls(epsilon=epsilon, batch_size=batch_size, growth=growth)

    def build_test(self, target: Target) -> Part:
        """Return the part that decides look by look; a population smaller than one look is read whole."""
        looks = look_sizes(target.n_obs, min(self.batch_size, target.n_obs), self.growth)
        critical = np.append(critical_values(looks, self.epsilon), 0.0)  # the last look needs none
        constants = {"USES_RATIO": True, "CACHES_LIKELIHOOD": False, "AUDITED": True}
        rules = {"TEST": _decide, **RULES["metropolis"]}
        records = ("max_term_ratio", "audited_mu_std")
        return Part({**rules, **constants}, (looks, critical), lambda: np.full(1, np.nan), records=records)
