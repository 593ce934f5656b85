r"""Is a run biased? Gates computed from its audits, without a reference or a second run.

An audit takes a kept draw theta and a proposal theta' of the sampler, and evaluates all N terms at both. That gives the
log ratio Lambda, the probability alpha to accept on all data, and the test's own probability alpha^ over its subsets.
If the draws come from the posterior pi, detailed balance makes pi(theta) q(theta'|theta) alpha, q the proposal's
density, symmetric in the two states, so antisymmetric functions of them average to 0:

    sign score  E[alpha sign(Lambda)] = 0,    energy drift  E[alpha (log pi(theta') - log pi(theta))] = 0.

Neither needs a test, so both can check draws of any origin. The test is checked by E|alpha^ - alpha| and by the
difference of E alpha^ and E alpha, and the sampled terms by their kurtosis. A mode that no chain visits is invisible to
all gates.

Audits of one chain are correlated through its draws: a standard error is the larger of the independent one and that of
batch means (Flegal, Haran and Jones 2008).

Small errors of decisions add up. If the acceptance probability is off by delta in each step, the chain drifts away from
the posterior until it forgets. With tau the number of steps per effective draw, E|alpha^ - alpha| tau is of the order
of the distance in total variation: it is the bound by meeting times, with the autocorrelation time in place of the
meeting time. With 50 steps per effective draw and a t-test that errs by 0.02, a random walk is far from the posterior,
although each decision is nearly right.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import erf

from approxmcmc.contracts import Finding
from approxmcmc.contracts.records import ENOUGH_AUDITS
from approxmcmc.diagnostics.decisions import clopper_pearson

FEWEST_AUDITS = 20  # needed for a standard error
LARGEST_ERROR = 0.05  # largest error of an acceptance probability
LARGEST_DRIFT = 1.0  # nat
STANDARD_ERRORS = 3.0  # largest mean, in standard errors, of scores whose posterior mean is 0
QUANTILE = 1.96  # normal quantile of 95 % intervals
BATCHES = 20  # fewest batches of audits for a standard error by batch means
SMOOTHING = 0.5  # width over which `distance` smooths the sign, in standard errors of the noise
SPREAD_THAT_MATTERS = 0.3  # standard deviation of an estimated log ratio at which decisions begin to flip
LEAST_TRUST = 0.5  # relative standard error above which an estimated variance is not trusted
SHARE_OF_AUDITS = 0.1  # largest share of audits with terms too heavy for the test
# Largest sum of the errors over the steps of an effective draw. On a logistic regression with SequentialTTest(0.05)
# spreads are 12 % too wide at 0.26.
LARGEST_SUM = 0.1

DECIDE_BETTER = "use a smaller epsilon, a larger batch_size, or ExactTest()"
SAMPLE_BETTER = "tune longer, use ExactTest() or a smaller epsilon; without a test, smaller steps"


class Gate(NamedTuple):
    """One gate: its value with an interval, the limit, whether the run fails it, and the text of the warning.

    `sentence` states the number and, if the gate fails, what it means; `advice` says what to do then.
    """

    name: str
    value: float
    lower: float
    upper: float
    limit: float
    fires: bool
    sentence: str
    advice: str


class Mean(NamedTuple):
    """An average over `n` audits, and the standard error of this average."""

    value: float
    error: float
    n: int

    def interval(self, quantile: float) -> tuple[float, float]:
        """Return the value minus and plus that many standard errors."""
        return self.value - quantile * self.error, self.value + quantile * self.error


def gates(stats: xr.Dataset) -> list[Gate]:
    """Return the gates that the audits of a run allow: those of the test, of the draws, of the terms, of their number.

    Parameters
    ----------
    stats
        The group ``sample_stats`` of a trace.

    Returns
    -------
    list of Gate
        Those with records in the trace, of ``acceptance_error``, ``acceptance_difference``, ``sign_score``,
        ``energy_drift``, ``heavy_terms`` and ``audits`` (too few of them to decide). Empty for an exact sampler and for
        a run without audits.

    Notes
    -----
    All gates but the last need at least 20 audits to fail. The distance E|alpha^ - alpha| is biased downwards, because
    the noise of alpha^ over its subsets is subtracted, see `distance`. The intervals of distance and difference have
    level 95 %; the intervals of sign score and energy drift reach three standard errors to both sides; the interval of
    heavy terms is the one of Clopper and Pearson.
    """
    possible = (*_of_the_test(stats), *_of_the_draws(stats), _heavy_terms(stats), _too_few(stats))
    return [gate for gate in possible if gate is not None]


def distance(error: np.ndarray, noise: np.ndarray) -> np.ndarray:
    r"""Return estimates of abs(delta) without upward bias, from `error` = delta^ = delta + noise of sd s = `noise`.

    With z = delta^ / s, h = `SMOOTHING` and g(z) = erf(z / (h sqrt 2)), s (z g(z) - g'(z)) has the mean delta E g(z) by
    Stein's identity for normal noise: at most abs(delta), nearly abs(delta) from one or two s on, and 0 for delta = 0,
    where abs(delta^) has the mean 0.8 s.
    """
    z = np.divide(error, noise, out=np.full_like(error, np.inf), where=noise > 0.0)
    slope = math.sqrt(2.0 / math.pi) / SMOOTHING * np.exp(-0.5 * (z / SMOOTHING) ** 2)
    sign = np.where(noise > 0.0, erf(z / (SMOOTHING * math.sqrt(2.0))), np.sign(error))
    return np.asarray(error * sign - noise * slope)


def mean_of_audits(values: np.ndarray) -> Mean:
    """Return the mean of the finite `values` (chains, draws), those of audits; error inf below 20 audits."""
    chains = [row[np.isfinite(row)] for row in values]
    joined = np.concatenate(chains)
    n = joined.size
    if n < FEWEST_AUDITS:
        return Mean(float(joined.mean()) if n else math.nan, math.inf, n)
    variance = joined.var(ddof=1) / n
    size = max(min(math.isqrt(n // len(chains)), n // BATCHES), 1)  # also for more chains than audits
    batches = np.concatenate([row[: row.size // size * size].reshape(-1, size).mean(axis=1) for row in chains])
    if size > 1 and batches.size > 1:
        variance = max(variance, batches.var(ddof=1) / batches.size)
    return Mean(float(joined.mean()), math.sqrt(variance), n)


def _of_the_test(stats: xr.Dataset) -> tuple[Gate | None, ...]:
    """Return the gates of the test: how far its acceptance probabilities are off, and which way; () without audits."""
    if "audit_acceptance_error" not in stats:
        return ()
    error, noise = (_audited(stats, f"audit_acceptance_{name}") for name in ("error", "noise"))
    size = mean_of_audits(distance(error, noise))
    shift = mean_of_audits(error)
    lower, upper = size.interval(QUANTILE)
    least, most = shift.interval(QUANTILE)
    errs = lower > LARGEST_ERROR
    return (
        Gate(
            "acceptance_error",
            size.value,
            lower,
            upper,
            LARGEST_ERROR,
            errs,
            f"in {size.n} audits the test's acceptance probability was off by {size.value:.2f} on average (at least "
            f"{lower:.2f} with 97.5 % confidence; limit {LARGEST_ERROR:g})"
            + (": its subsets do not represent all data" if errs else ""),
            DECIDE_BETTER,
        ),
        Gate(
            "acceptance_difference",
            shift.value,
            least,
            most,
            LARGEST_ERROR,
            abs(shift.value) > max(LARGEST_ERROR, QUANTILE * shift.error),
            f"in {shift.n} audits the test accepted {abs(shift.value):.2f} +- {QUANTILE * shift.error:.2f} "
            f"{'more' if shift.value > 0.0 else 'less'} of the proposals than all data would (limit "
            f"{LARGEST_ERROR:g})",
            DECIDE_BETTER,
        ),
    )


def _of_the_draws(stats: xr.Dataset) -> tuple[Gate | None, ...]:
    """Return the gates of the draws: whether an exact step would move the draws on average; () without audits."""
    if "audited_acceptance" not in stats:
        return ()
    alpha, log_ratio, change = (
        _audited(stats, f"audited_{name}") for name in ("acceptance", "log_ratio", "energy_change")
    )
    score = mean_of_audits(alpha * np.sign(log_ratio))
    # A step of probability 0 may lead to a density of 0.
    drift = mean_of_audits(alpha * np.where(alpha == 0.0, 0.0, change))
    gates_of_draws = []
    for name, mean, limit, says in (
        ("sign_score", score, 0.0, "the sign score of exact steps from the draws is"),
        ("energy_drift", drift, LARGEST_DRIFT, "one exact step changes the draws' log density by"),
    ):
        margin = STANDARD_ERRORS * mean.error
        off = abs(mean.value) > max(limit, margin)
        gates_of_draws.append(
            Gate(
                name,
                mean.value,
                *mean.interval(STANDARD_ERRORS),
                limit,
                off,
                ("the draws are not those of the posterior: " if off else "")
                + f"{says} {mean.value:+.2g} +- {margin:.2g} on average, where it should be 0 ({mean.n} audits)"
                + (". The chains are biased, or have not converged" if off else ""),
                SAMPLE_BETTER,
            )
        )
    return tuple(gates_of_draws)


def _heavy_terms(stats: xr.Dataset) -> Gate | None:
    """Return the gate on whether the n terms that a decision reads suffice to estimate the error of their mean.

    The estimated log ratio has standard deviation N S_l / sqrt(n) sqrt(1 - n/N), with S_l that of the N terms. The
    variance that the test estimates for it has relative standard error sqrt((kurtosis - 1) / n). Decisions are affected
    only if both are large.
    """
    n_obs = float(stats.attrs.get("n_obs", math.nan))
    decisions = float(stats["decisions_made"].sum()) if "decisions_made" in stats else 0.0
    if "audited_kurtosis" not in stats or not decisions:
        return None
    # Influential rows are read in every decision, so they are no part of the sample whose variance is estimated.
    n = float(stats["datapoints_touched"].sum()) / decisions - stats.attrs.get("setup_influential_rows", 0)
    tau, kurtosis = (_audited(stats, f"audited_{name}") for name in ("tau", "kurtosis"))
    judged = ~np.isnan(tau)
    spread = tau * math.sqrt(max(n_obs / n - 1.0, 0.0)) if n else np.full_like(tau, np.inf)
    unsure = np.sqrt((kurtosis - 1.0) / n) if n else np.zeros_like(kurtosis)
    heavy = int(((spread > SPREAD_THAT_MATTERS) & (unsure > LEAST_TRUST) & judged).sum())
    audits = int(judged.sum())
    lower, upper = (float(limit) for limit in clopper_pearson(heavy, audits))
    share = heavy / audits if audits else math.nan
    too_many = audits >= FEWEST_AUDITS and lower > SHARE_OF_AUDITS
    return Gate(
        "heavy_terms",
        share,
        lower,
        upper,
        SHARE_OF_AUDITS,
        too_many,
        f"in {share:.0%} of {audits} audits the log-likelihood terms were too heavy-tailed: the {n:.0f} of them that a "
        f"decision reads cannot estimate their spread (limit {SHARE_OF_AUDITS:.0%})"
        + (". A few rows dominate the log ratio and are rarely read" if too_many else ""),
        "use ExactTest(), a larger batch_size, or BernsteinTest",
    )


def _too_few(stats: xr.Dataset) -> Gate | None:
    """Return the gate on the number of audits; None if none were requested, or nothing is approximate."""
    by_time = stats.attrs.get("audit_policy") == "auto"
    if not by_time and not stats.attrs.get("audit_every", 0):
        return None
    booked = int(stats["decisions_audited"].sum()) if "decisions_audited" in stats else 0
    # Audits of finished chains are not counted as decisions of the run; those of steps are.
    audits = max(booked, int((~np.isnan(_audited(stats, "audited_acceptance"))).sum()) if by_time else 0)
    return Gate(
        "audits",
        audits,
        audits,
        audits,
        ENOUGH_AUDITS,
        audits < ENOUGH_AUDITS,
        f"{audits} steps were audited (limit {ENOUGH_AUDITS})"
        + (": too few to decide whether the run is biased" if audits < ENOUGH_AUDITS else ""),
        "draw more, raise time_limit, or set audit_every to an integer",
    )


def _audited(stats: xr.Dataset, name: str) -> np.ndarray:
    """Return a record of audits, shape (chains, draws); all NaN if the trace lacks it."""
    if name not in stats:
        return np.full((stats.sizes["chain"], stats.sizes["draw"]), math.nan)
    return np.asarray(stats[name].transpose("chain", "draw"), dtype=np.float64)


def accumulated_error(gates: Iterable[Gate], convergence: Iterable[Finding], steps: int) -> list[Finding]:
    """Check the errors of a test, added up over the steps per effective draw; empty if either is unknown.

    The check fails if the product of E|alpha^ - alpha| and the steps per effective draw exceeds `LARGEST_SUM`, and
    either the lower end of its interval does too, or the error is more than three standard errors above 0.

    Parameters
    ----------
    gates, convergence
        The gates of the audits, and the findings on R-hat and ESS.
    steps
        Number of steps of all chains together.
    """
    error = next((gate for gate in gates if gate.name == "acceptance_error"), None)
    ess = next((finding.value for finding in convergence if finding.check == "bulk ESS"), math.nan)
    if error is None or not ess > 0.0 or not math.isfinite(error.lower):
        return []
    memory = steps / ess
    standard_error = (error.value - error.lower) / QUANTILE
    value = error.value * memory
    is_sure = error.lower * memory > LARGEST_SUM or error.value > STANDARD_ERRORS * standard_error
    fires = value > LARGEST_SUM and is_sure
    return [
        Finding(
            "accumulated error",
            "warning" if fires else "ok",
            f"the test's acceptance probability is off by {error.value:.2g} in each step, and the chains need "
            f"{memory:.0f} steps per effective draw: over these, errors add up to about {value:.2g} (limit "
            f"{LARGEST_SUM:g}){', which biases the draws' * fires}",
            f"{DECIDE_BETTER}; or use a proposal with a shorter autocorrelation time",
            value,
            LARGEST_SUM,
        )
    ]
