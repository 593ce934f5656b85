r"""Bounds on an approximate stationary distribution that exist on R^d: audits of draws, and coupled exact chains.

P is the exact kernel, with stationary distribution S_0, P^ the approximate one, with S_e. The identity behind the
bounds B3 and B4 of `bounds.statements`, S_e - S_0 = sum_k S_e (P^ - P) P^k, holds for every distance of Wasserstein
type; B4 is its case d(x, y) = 1 if x != y, total variation. With x ~ S_e, and X_0 ~ P^(x, .), Y_0 ~ P(x, .) drawn
together, then k steps of coupled exact chains, and D_k = E d(X_k, Y_k),

    W4   sum_{k >= 0} D_k                              average-case, as B4: each wrong decision is followed until the
                                                       coupled chains meet
    W2   min over m of sum_{k < m} D_k / (1 - tau_m)    multi-step, as B2; tau_m from `bounds.wasserstein`

bound W(S_e, S_0) (Rudolf and Schweizer 2018, theorem 3.1, with the mean of the error in place of its supremum). D_0 is
the one-step error. A decision that the test accepts with probability alpha^ and all data with alpha, at the proposal
x', has

    D_0 = E |alpha^ - alpha| d(x', x),

and D_k follows the two states from x' and x. Premises, each of which a result names with how it was checked:

stationary   the draws have the distribution S_e. W4 has no other premise but finite means and that all chains meet.
moments      S_0 and S_e have finite means.
contraction  tau_m bounds the contraction of *all* pairs of states. Only W2 needs it, and it is estimated from pairs.

References: Rudolf and Schweizer (2018), Perturbation theory for Markov chains via Wasserstein distance, Bernoulli 24;
Medina-Aguayo, Rudolf and Schweizer (2020), Perturbation bounds for Monte Carlo within Metropolis via restricted
approximations, Stoch. Process. Appl. 130; Biswas and Mackey (2024), Bounding Wasserstein distance with couplings, JASA.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from approxmcmc.bounds.finite import GIVEN_PREMISES, HEURISTIC, NOT_APPLICABLE
from approxmcmc.bounds.wasserstein import STEPS, Norm, norm_of
from approxmcmc.contracts import Finding
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import speaker
from approxmcmc.couplings.estimate import own_streams
from approxmcmc.couplings.forms import AuditForm, AuditRecord, AuditStreams, audit_form
from approxmcmc.couplings.measure import Draws, draws_of
from approxmcmc.couplings.meeting import Meeting
from approxmcmc.couplings.summands import average, shares
from approxmcmc.couplings.verdict import LARGEST_SHARE, failed_checks
from approxmcmc.diagnostics.records import check_confidence, group
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.output.reading import check_origin

if TYPE_CHECKING:
    import xarray as xr

PILOT = 20  # audits of each trace that set the roulette's constant; they start no couplings


@naming_the_arguments
def perturbation(
    trace: Any,
    target: Any,
    sampler: Any,
    *,
    contracted: "xr.Dataset | None" = None,
    metric: Any = None,
    n_audits: int = 400,
    replications: int = 64,
    max_steps: int = 2000,
    confidence: float = 0.95,
    random_seed: Any = None,
) -> "xr.Dataset":
    r"""Bound the Wasserstein distance of an approximate stationary distribution from the posterior, on any space.

    .. math:: W(\hat\pi, \pi) \le \sum_{k \ge 0} D_k, \qquad
              W(\hat\pi, \pi) \le \frac{\sum_{k < m} D_k}{1 - \tau_m}, \qquad
              D_0 = \mathrm{E}_{\hat\pi} |\hat\alpha - \alpha|\, d(\theta', \theta),

    :math:`D_k` the mean distance of coupled exact chains k steps after a decision, :math:`\tau_m` the contraction of m
    exact steps, and d the norm of a covariance matrix.

    Parameters
    ----------
    trace
        Draws of `sampler` after its start-up; or a list of traces.
    target, sampler
        As in :func:`approxmcmc.bias`; decisions of the sampler must be auditable.
    contracted
        Output of :func:`contraction` in the same metric, for W2; None leaves W2 out.
    metric
        Covariance matrix of the norm d, shape (dim, dim). None: the Laplace approximation's; for discrete states, 1.
    n_audits
        Audited draws, of all traces together.
    replications
        Orders of the data over which the test's acceptance probability is averaged.
    max_steps
        Steps after which coupled chains count as unmet.
    confidence
        Level of the limits. For W2 the errors of all m hold together at the level 1 - (1 - confidence) / 2;
        `contracted` has a level of its own.
    random_seed
        As in `sample`.

    Returns
    -------
    xarray.Dataset
        Scalars: `w4`, the upper limit of the sum of D_k, with `w4_estimate`; `w2`, the smallest of the bounds with
        tau_m; `b4`, the same as `w4` for total variation, with `b4_estimate`; `label_w4`, ``label_w2``, ``label_b4``,
        and `premises_w4` and so on, which say in words what each bound rests on; `one_step_error`, D_0 in the norm d,
        with `one_step_error_lower` and `one_step_error_upper`; `n_audits`, `n_couplings`, `unmet`, `largest_share`.
        With dim ``step``: `error`, the sum of D_k over k < m, with `error_upper`; `separation`, D_m; `tau`,
        `tau_lower`, `tau_estimate`; `w2_at`, the bound with this m.

    Raises
    ------
    IncompatibleError
        When decisions of the sampler cannot be audited and followed by couplings.
    InvalidInputError
        When an argument is out of range, or a trace is not one of this target and sampler.
    NotFiniteError
        When a log density is NaN at all audited draws or along a coupled chain.

    Notes
    -----
    Labels. *given premises*: a theorem whose premises were checked and not found wrong. *heuristic*: a premise is known
    only from a sample of pairs (W2), a check of the draws failed, or one coupling contributes over a tenth of the sum.
    *not applicable*: a coupling is unmet, or no tau is below 1. Limits are normal, for means over the audits, as in
    :func:`approxmcmc.bias`. An acceptance probability that is estimated from few orders of the data makes the error too
    large, which is on the safe side.

    A function of slope at most 1 in the norm d, such as a coordinate in units of its standard deviation under the
    metric, has means that differ by at most W.

    References
    ----------
    Rudolf and Schweizer (2018), theorem 3.1; Medina-Aguayo, Rudolf and Schweizer (2020); Biswas and Mackey (2024).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> target = amc.LogisticRegression(X, (X[:, 0] + rng.logistic(size=1000) > 0).astype(int))
    >>> proposal = amc.proposals.Independence(amc.laplace(target))
    >>> sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(epsilon=0.2, batch_size=50))
    >>> trace = amc.sample(target, sampler, draws=1000, chains=4, random_seed=1, progressbar=False)
    >>> found = amc.bounds.perturbation(trace, target, sampler, n_audits=200, random_seed=1)
    >>> str(found["label_w4"].values), bool(found["w4"] < 0.5)
    ('given premises', True)
    """
    check_confidence(confidence)
    counts = {"n_audits": n_audits, "replications": replications, "max_steps": max_steps}
    n_audits, replications, max_steps = (checked_integer(value, name) for name, value in counts.items())
    lengths = np.asarray(STEPS) if contracted is None else contracted["step"].to_numpy()
    traces = list(trace) if isinstance(trace, (list, tuple)) else [trace]
    norm = norm_of(target, metric)
    [sequence], seed = seed_sequences(random_seed, 1)
    places, *rngs = own_streams(sequence)
    draws = []
    for each in traces:
        check_origin(each, target, sampler)
        draws.append(draws_of(each, target))
        why = sampler.why_no_audits(target, draws[-1].adapted)
        if why:
            raise IncompatibleError(f"{speaker()}: decisions of {sampler!r} cannot be audited: {why}")
    followed = Followed(lengths, norm)
    each_count = math.ceil(n_audits / len(draws))
    for part in draws:
        form = audit_form(target, sampler, part, rngs[0], replications, max_steps)
        for record, meeting in _audits(form, AuditStreams(*rngs), part, min(each_count, len(part.flat)), places):
            followed.add(record, meeting)
    failed = [finding for each in traces for finding in failed_checks(group(each, "posterior")[_names(target)])]
    bounds = as_bounds(followed, contracted, failed, confidence)
    bounds.attrs |= {"seed": str(seed), "confidence": confidence, "sampler": repr(sampler), "max_steps": max_steps}
    return bounds


def _names(target: Any) -> list[str]:
    return list(target.variables.shapes)


def _audits(
    form: AuditForm, streams: AuditStreams, draws: Draws, n_audits: int, places: np.random.Generator
) -> Iterator[tuple[AuditRecord, Meeting | None]]:
    """Audit evenly spaced draws; decisions with a large error are followed more often, see `AuditForm`.

    Draws at which a log density is NaN, or NaN at their proposal, are left out.
    """
    n = len(draws.flat)
    pilot = [form(streams, draws.flat[k], *draws.place(int(k))) for k in places.integers(n, size=PILOT)]
    form.learn([audit[0] for audit in pilot if audit is not None])
    for k in ((np.arange(n_audits) + places.random()) * n / n_audits).astype(np.int64):
        audit = form(streams, draws.flat[k], *draws.place(int(k)))
        if audit is not None:
            yield audit


class Followed:
    """What became of audited decisions: distances of the coupled chains that started from them, one row an audit.

    `apart` (n_audits, n_steps) holds weight * d(X_m, Y_m), `summed` the sums over k < m, `total` the sums until the
    chains met, `counted` the same with 1 for d, and `at_once` |alpha^ - alpha| d(x', x) as far as couplings were
    started.
    """

    def __init__(self, lengths: np.ndarray, norm: Norm) -> None:
        self.lengths = lengths
        self.norm = norm
        self.apart: list[np.ndarray] = []
        self.summed: list[np.ndarray] = []
        self.total: list[float] = []
        self.counted: list[float] = []
        self.at_once: list[float] = []
        self.launched = 0
        self.unmet = 0

    def add(self, record: AuditRecord, meeting: Meeting | None) -> None:
        """Add one audit."""
        distances = np.zeros(0)
        if meeting is not None and record.weight:
            distances = abs(record.weight) * self.norm(meeting.paths[0] - meeting.paths[1])
            self.launched += 1
            self.unmet += not record.met
        until = np.append(0.0, np.cumsum(distances))
        n = len(distances)
        self.apart.append(np.array([distances[m] if m < n else 0.0 for m in self.lengths]))
        self.summed.append(until[np.minimum(self.lengths, n)])
        self.total.append(float(until[-1]))
        self.counted.append(abs(record.weight) * n)
        self.at_once.append(float(distances[0]) if n else 0.0)


class Limited(NamedTuple):
    """An estimate with its limits; arrays by step, or numbers."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def _limited(rows: Sequence[Any], confidence: float) -> Limited:
    """Return the mean of the rows of audits, which are not negative, with normal limits."""
    averages = average(np.asarray(rows, dtype=np.float64))
    lower, upper = averages.interval(confidence)
    return Limited(averages.mean, np.maximum(lower, 0.0), upper)


def as_bounds(
    followed: Followed, contracted: "xr.Dataset | None", failed: Sequence[Finding], confidence: float
) -> "xr.Dataset":
    """Return the bounds of followed audits and a contraction, with their labels and premises."""
    import xarray as xr

    n = len(followed.total)
    if n == 0:
        raise NotFiniteError("perturbation: the log density is NaN at all audited draws or their proposals")
    total = _limited(followed.total, confidence)
    counted = _limited(followed.counted, confidence)
    at_once = _limited(followed.at_once, confidence)
    n_steps = len(followed.lengths)
    # Half of the level for the errors of all m together, half for tau: then the smallest bound holds at the level.
    summed = _limited(followed.summed, 1.0 - 0.5 * (1.0 - confidence) / n_steps)
    apart = _limited(followed.apart, confidence)
    largest_share = float(shares(np.asarray(followed.total)))
    stationary = _stationary(failed)
    followed_all = _met(followed, largest_share)
    label = _label(followed, failed, largest_share)
    data: dict[str, Any] = {
        "w4": float(total.upper),
        "w4_estimate": float(total.estimate),
        "b4": float(counted.upper),
        "b4_estimate": float(counted.estimate),
        "label_w4": label,
        "label_b4": label,
        "premises_w4": f"{stationary}; finite means; {followed_all}",
        "premises_b4": f"{stationary}; {followed_all}",
        "one_step_error": float(at_once.estimate),
        "one_step_error_lower": float(at_once.lower),
        "one_step_error_upper": float(at_once.upper),
        "error": ("step", summed.estimate),
        "error_upper": ("step", summed.upper),
        "separation": ("step", apart.estimate),
        "n_audits": n,
        "n_couplings": followed.launched,
        "unmet": followed.unmet,
        "largest_share": largest_share,
    }
    data |= _with_contraction(summed.upper, contracted, stationary)
    return xr.Dataset(data, coords={"step": ("step", followed.lengths, {"units": "exact steps"})})


def _with_contraction(error: np.ndarray, contracted: "xr.Dataset | None", stationary: str) -> dict[str, Any]:
    """Return W2 and what it needs; `error` (n_steps,) holds upper limits of the sums of D_k over k < m."""
    nothing = np.full(len(error), math.nan)
    if contracted is None:
        taus = dict.fromkeys(("tau", "tau_lower", "tau_estimate"), nothing)
        why = "no contraction was given"
    else:
        taus = {name: contracted[name].to_numpy() for name in ("tau", "tau_lower", "tau_estimate")}
        smallest = taus["tau"].min()
        why = f"no tau is below 1: the smallest upper limit over {contracted.sizes['pair']} pairs is {smallest:.3g}"
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(taus["tau"] < 1.0, error / (1.0 - taus["tau"]), math.nan)
    exists = bool(np.isfinite(at).any())
    if exists and contracted is not None:
        best = int(np.nanargmin(at))
        why = (
            f"{stationary}; finite means; contraction of all pairs by tau = {taus['tau'][best]:.3g} in "
            f"{int(contracted['step'][best])} steps: estimated from {contracted.sizes['pair']} pairs, not proven"
        )
    return {
        "w2": float(np.nanmin(at)) if exists else math.nan,
        "label_w2": HEURISTIC if exists else NOT_APPLICABLE,
        "premises_w2": why,
        "w2_at": ("step", at),
        **{name: ("step", values) for name, values in taus.items()},
    }


def _label(followed: Followed, failed: Sequence[Finding], largest_share: float) -> str:
    if followed.unmet:
        return NOT_APPLICABLE
    return HEURISTIC if failed or largest_share > LARGEST_SHARE else GIVEN_PREMISES


def _stationary(failed: Sequence[Finding]) -> str:
    names = ", ".join(dict.fromkeys(finding.check for finding in failed))
    return f"stationary draws: checks failed ({names})" if failed else "stationary draws: checked, not proven"


def _met(followed: Followed, largest_share: float) -> str:
    if not followed.launched:
        return f"no error of a decision was seen in {len(followed.total)} audits"
    if followed.unmet:
        return f"{followed.unmet} of {followed.launched} couplings unmet"
    share = f", but one has {largest_share:.0%} of the sum" if largest_share > LARGEST_SHARE else ""
    return f"all {followed.launched} couplings met{share}"
