"""The public `bias`: audits of stored draws, couplings from them, and their sums."""

import math
import numbers
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import AnySampler, Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.couplings.findings import FinishedAudits, as_dataset
from approxmcmc.couplings.forms import AuditForm, AuditRecord, AuditStreams, DriftForm, audit_form, drift_form
from approxmcmc.couplings.kernels import chosen_kernel
from approxmcmc.couplings.measure import FEWEST, Draws, Quantities, draws_of, measure_of
from approxmcmc.couplings.meeting import forgetting_time
from approxmcmc.couplings.summands import Summands, average
from approxmcmc.couplings.verdict import failed_checks
from approxmcmc.diagnostics.estimands import Estimand
from approxmcmc.diagnostics.records import check_confidence, group
from approxmcmc.diagnostics.traces import trace_of
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.interop.any_model import as_target
from approxmcmc.output.reading import check_origin, refuse_formula

SECONDS = 10.0
# audits; share of the time
PILOT = 50
FEWEST_OF_PILOT = 10
SHARE_OF_PILOT = 0.1
STREAM = 0x62696173  # "bias": a key that no chain uses, so that a run and its audits may have the same seed
FORMS = ("auto", "audit", "drift")


@naming_the_arguments
def bias(
    trace: xr.DataTree,
    target: Any,
    sampler: Any,
    estimands: Mapping[str, Estimand] | None = None,
    *,
    seconds: float | None = None,
    n_audits: int | None = None,
    form: str = "auto",
    kernel: Any = None,
    max_steps: int = 2000,
    replications: int = 16,
    confidence: float = 0.95,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Estimate the bias of a run's averages: signed, with intervals, without a gold standard.

    With :math:`P` an exact kernel of the posterior :math:`\pi`, :math:`\hat\pi` the distribution of the draws,
    :math:`h` an estimand and :math:`g = \sum_t (P^t h - \pi(h))`,

    .. math:: \hat\pi(h) - \pi(h) = \mathrm{E}_{\hat\pi}[(\hat\alpha - \alpha)(g(\theta') - g(\theta))]
              = \mathrm{E}_{\hat\pi}[g(\theta) - g(\theta_1)],

    :math:`\theta'` proposed as the sampler does, accepted with probability :math:`\hat\alpha` by its test and
    :math:`\alpha` on all data; :math:`\theta_1 \sim P(\theta, \cdot)`. Differences of :math:`g` are sums over two
    coupled exact chains until they meet [1]_ [2]_. The first form, "audit", computes :math:`\hat\alpha` with the
    uniform integrated out; the second, "drift", needs only the draws.

    Parameters
    ----------
    trace
        A trace of `sample` or `load`, or other draws in any form that :func:`approxmcmc.as_trace` takes.
    target
        The posterior itself.
    sampler
        The sampler of the trace; None for draws from elsewhere.
    estimands
        Dict of name -> function of the posterior Dataset (dims chain, draw, ...), as in `risk`. None: all parameters;
        their squares about the mean, except for discrete targets; and the log density ``lp``, if the kernel has it.
    seconds
        Time for the audits; default 10. The number of audits follows from a pilot, and so depends on the clock.
    n_audits
        Number of audits, in place of a time; at most one for each draw.
    form
        ``"audit"``, ``"drift"``, or ``"auto"``: the one that needs fewer passes for the same error in a pilot; "drift"
        if the sampler's decisions cannot be audited, or `kernel` is given.
    kernel
        An exact sampler for `target`, or a pair (target, exact sampler) of the same posterior, such as
        ``(ControlVariate(...), MetropolisHastings(SurrogateTransition()))``, for the form "drift". None: independent
        draws of the Laplace approximation, and one step in ten of a random walk; `Gibbs` on binary sites, `SingleSite`
        by Barker's rule on others; `Exchange` with one exact draw for a doubly intractable target.
    max_steps
        Number of steps after which a coupling is cut off, and counts as unmet.
    replications
        Orders of the data over which the test's acceptance probability is averaged.
    confidence
        Level of the intervals.
    random_seed
        As in `sample`. The trace's own seed may be reused: audits have separate random streams.

    Returns
    -------
    xarray.Dataset
        By ``estimand``, in its units: ``bias`` with ``bias_lower`` and ``bias_upper``; ``bias_sd``, in posterior
        standard deviations; ``debiased`` with its limits, the mean of the draws minus the bias; ``mean``;
        ``posterior_sd``; ``variance_per_audit``; ``largest_share``, the largest share of one audit in the sum of
        absolute values over all audits. ``drift`` (estimand, step) with its limits: the part of the bias that this many
        exact steps remove. By ``audit``: ``delta``, ``alpha``, ``alpha_hat``, ``weight``, ``meeting_time`` (-1: no
        coupling), ``met``. Scalars: ``n_audits``, ``n_couplings``, ``unmet``, ``wrong_decision_rate``,
        ``mean_abs_delta`` and ``tv_bound``, an estimate of a bound on the total variation distance of the draws'
        distribution from the posterior, with limits; ``sign_score`` and ``energy_drift``, 0 for exact draws, with
        limits; ``forgetting_time``, mean steps until exact chains from distant draws meet, estimated with as many steps
        as there are audits; ``passes``; ``seconds``; ``optimal_audit_share``, see `debias`; ``verdict`` and
        ``reasons``. With the form "drift" all values about the test are NaN.

    Raises
    ------
    IncompatibleError
        When target, sampler and kernel do not match, the exact kernel has no coupling, or the draws carry weights.
    InvalidInputError
        When an argument is out of range, or the trace is not one of this target, was made by another sampler or on
        another target, or has fewer than 20 draws, draws that are NaN or infinite, or only one distinct point.
    NotFiniteError
        When a log density is NaN along a coupled chain, or at all audited draws or their proposals.

    Notes
    -----
    Guarantee: unbiased, with asymptotic intervals, if the draws have the chain's stationary distribution (a start-up
    transient counts as bias) and meeting times have moments of order above 2. Couplings that did not meet are counted
    and never dropped. If the exact kernel mixes badly, all couplings may meet and the interval may still be wrong;
    ``tv_bound`` detects this, and the verdict is then "not applicable". The form "drift" has no such bound; there the
    verdict is never "small" if ``forgetting_time`` is long. If the run read blocks of one fixed partition of the rows
    (150 blocks or more), the bias depends on this partition; the form "audit" draws its orders from the same partition,
    which it rebuilds from the ``seed`` of the trace.

    Verdicts, in this order. *cannot be judged*: the run failed its checks, so that there is no stationary distribution
    whose bias could be estimated: it ended in an error, a chain hardly moved, R-hat is above its limit, or the draws
    hold fewer than 100 effective ones; ``reasons`` and the attribute ``problems`` name the checks. *not applicable*: a
    coupling is unmet, or ``tv_bound_upper`` is 1 or more. *inconclusive*:
    one coupling contributes over a tenth of the sum. *biased*: some bias is not 0 (Bonferroni) and above 0.05 sd.
    *small*: every upper limit is below 0.1 sd, and there are 20 audits for each step of ``forgetting_time``. Otherwise
    *inconclusive*. The estimate cannot see a mode that no chain has visited.

    Cost: two passes over the data for an audit ("drift": one pass), and one or two passes for a step of a coupling.

    References
    ----------
    .. [1] P. W. Glynn, C.-H. Rhee (2014). Exact estimation for Markov chain equilibrium expectations. J. Appl. Probab.
    .. [2] P. E. Jacob, J. O'Leary, Y. F. Atchade (2020). Unbiased Markov chain Monte Carlo with couplings. JRSS B.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=1000) > 0).astype(int))
    >>> test = amc.SequentialTTest(epsilon=0.2, batch_size=50)
    >>> sampler = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target)), test)
    >>> trace = amc.sample(target, sampler, draws=1000, chains=2, random_seed=1, progressbar=False)
    >>> found = amc.bias(trace, target, sampler, n_audits=400, random_seed=1)
    >>> bool(found.tv_bound_upper < 1.0), int(found.unmet)
    (True, 0)
    """
    target = as_target(target)
    _check(target, sampler, form, seconds, confidence)
    numbers = {"max_steps": max_steps, "replications": replications, "n_audits": 1 if n_audits is None else n_audits}
    max_steps, replications, replications_asked = (checked_integer(value, name) for name, value in numbers.items())
    started = time.perf_counter()
    [sequence], seed = seed_sequences(random_seed, 1)
    places, *rngs = own_streams(sequence)
    streams = AuditStreams(*rngs)
    refuse_formula(trace, "bias")
    trace = trace_of(trace, target)
    draws = draws_of(trace, target)
    if sampler is not None:
        check_origin(trace, target, sampler)
    forms = _forms(form, kernel, target, sampler, draws, streams, replications, max_steps)
    measure = measure_of(estimands, trace, target, draws, all(each.coupling.knows_density for each in forms))
    allowed = SECONDS if seconds is None else float(seconds)
    for_pilot = (
        math.inf if n_audits is not None else SHARE_OF_PILOT * allowed
    )  # with n_audits the pilot does not read the clock
    one_form_only = len(forms) == 1 and n_audits is not None and not forms[0].learns  # there is nothing to choose
    pilots = [] if one_form_only else [_pilot(each, streams, draws, measure, places, for_pilot) for each in forms]
    best = min(range(len(pilots)), key=lambda k: pilots[k].work) if pilots else 0
    if n_audits is None:
        left = allowed - (time.perf_counter() - started)
        replications_asked = max(FEWEST, int(left / pilots[best].seconds))
    n_draws = len(draws.flat)
    n_audits = min(replications_asked, len(draws.flat))
    chosen = ((np.arange(n_audits) + places.random()) * n_draws / n_audits).astype(np.int64)
    run = _audit(forms[best], streams, draws, measure, chosen)
    forgetting = forgetting_time(forms[best].coupling, draws.flat, len(run.records), places, streams.coupling)
    rows, drift = run.summands.finish()
    finished = FinishedAudits(
        trace=trace,
        measure=measure,
        draws=draws,
        audited=chosen[run.made],
        records=run.records,
        rows=rows,
        drift=drift,
        audit_seconds=run.seconds,
        seconds=time.perf_counter() - started,
        confidence=confidence,
        max_steps=max_steps,
        other_passes=sum(pilot.passes for pilot in pilots) + forgetting.passes,
        forgetting_time=forgetting.steps,
        failed=failed_checks(group(trace, "posterior")[list(target.variables.shapes)]),
    )
    columns = as_dataset(finished)
    columns.attrs |= {
        "form": forms[best].name,
        "kernel": forms[best].coupling.name,
        "replications": replications,
        "roulette": forms[best].roulette,
        "seed": str(seed),
        "confidence": confidence,
        "max_steps": max_steps,
    }
    return columns


def own_streams(sequence: np.random.SeedSequence) -> list[np.random.Generator]:
    """Return four random streams that no chain uses: one to choose draws, and three for `AuditStreams`."""
    keys = ((STREAM, k) for k in range(4))
    return [np.random.default_rng(np.random.SeedSequence(sequence.entropy, spawn_key=key)) for key in keys]


def _check(target: Any, sampler: Any, form: str, seconds: Any, confidence: float) -> None:
    check_confidence(confidence)
    if not isinstance(target, Target):
        raise IncompatibleError(f"bias needs a target such as targets.LogisticRegression(X, y), found {target!r:.200}")
    if sampler is not None and not isinstance(sampler, AnySampler):
        raise IncompatibleError(
            f"bias needs the sampler of the trace, or None for draws from elsewhere; found {sampler!r}"
        )
    if form not in FORMS:
        raise InvalidInputError(f"bias: form must be one of {FORMS}, found {form!r}")
    if seconds is not None and not (isinstance(seconds, numbers.Real) and float(seconds) > 0.0):
        raise InvalidInputError(f"bias: seconds must be positive, or None, found {seconds!r}")


def _forms(
    form: str,
    kernel: Any,
    target: Target,
    sampler: Any,
    draws: Draws,
    streams: AuditStreams,
    orders: int,
    max_steps: int,
) -> list[AuditForm | DriftForm]:
    """Return the forms that are possible; a pilot chooses if these are two. `orders` is `replications` of `bias`."""
    why = "the draws are from elsewhere" if sampler is None else sampler.why_no_audits(target, draws.adapted)
    if form == "audit" and (why or kernel is not None):
        raise IncompatibleError(
            f"bias: there is no form 'audit' for {sampler!r}: {why or '`kernel` only works with form drift'}; "
            "use form='drift', or 'auto'"
        )
    forms: list[AuditForm | DriftForm] = []
    if form != "drift" and not why and kernel is None:
        forms.append(audit_form(target, sampler, draws, streams.audit, orders, max_steps))
    if form != "audit":
        try:
            forms.append(drift_form(chosen_kernel(kernel, target, draws.flat), max_steps))
        except (IncompatibleError, InvalidInputError):
            if not forms:  # for example, the posterior has no mode; the other form does not need a mode
                raise
    return forms


class Run(NamedTuple):
    """Completed audits: records, their places in the argument `chosen` of `_audit`, sums over couplings, seconds."""

    records: list[AuditRecord]
    made: np.ndarray
    summands: Summands
    seconds: float


def _audit(
    form: AuditForm | DriftForm, streams: AuditStreams, draws: Draws, measure: Quantities, chosen: np.ndarray
) -> Run:
    """Audit the draws with the indices `chosen`, and couple chains that start there.

    Draws at which a log density is NaN, or NaN at their proposal, are left out.
    """
    started = time.perf_counter()
    summands = Summands(measure, form.max_steps)
    records = []
    replications = []
    for k, index in enumerate(chosen):
        replication = form(streams, draws.flat[index], *draws.place(int(index)))
        if replication is None:
            continue
        record, meeting = replication
        summands.add(record.weight, meeting)
        records.append(record)
        replications.append(k)
    if not records:
        raise NotFiniteError(f"bias: the log density is NaN at all of {len(chosen)} audited draws or their proposals")
    return Run(records, np.array(replications), summands, time.perf_counter() - started)


class AuditPilot(NamedTuple):
    """Seconds of one audit, passes of all, and `work` = variance x passes of an audit, which ranks the forms."""

    seconds: float
    passes: float
    work: float


def _pilot(
    form: AuditForm | DriftForm,
    streams: AuditStreams,
    draws: Draws,
    measure: Quantities,
    rng: np.random.Generator,
    allowed: float,
) -> AuditPilot:
    """Make 20 to 50 audits in about `allowed` seconds, set the roulette's constant; measure all but the first ten."""
    places = rng.integers(len(draws.flat), size=PILOT)
    first = _audit(form, streams, draws, measure, places[:FEWEST_OF_PILOT])
    form.learn(first.records)
    more = min(max(allowed / first.seconds - 1.0, 1.0) * FEWEST_OF_PILOT, PILOT - FEWEST_OF_PILOT)
    run = _audit(form, streams, draws, measure, places[FEWEST_OF_PILOT:][: int(more)])
    form.learn([*first.records, *run.records])
    rows, _ = run.summands.finish()
    sd = measure(draws.flat[places], np.zeros(PILOT)).std(axis=0)
    variance = average(rows).variance[sd > 0.0] / sd[sd > 0.0] ** 2
    early, later = (sum(record.passes for record in records) for records in (first.records, run.records))
    work = float(variance.mean()) * later / len(run.records) if variance.size else 0.0
    return AuditPilot(run.seconds / len(run.records), early + later, work)
