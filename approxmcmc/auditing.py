"""Audit the draws of any stored trace, as `sample` audits its own."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.api import with_its_warning
from approxmcmc.audits import policy as audits
from approxmcmc.audits.steps import WalkedSteps
from approxmcmc.contracts import AnySampler, Auditor, DiscreteTarget, DoublyIntractableTarget, Sampler, Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.records import AUDIT_COUNTS
from approxmcmc.diagnostics.traces import trace_of
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import as_target
from approxmcmc.output.reading import (
    adapted_by_chain,
    check_origin,
    flat_draws,
    refuse_formula,
    refuse_weights,
    shuffled_by,
)
from approxmcmc.output.schema import BY_NAME
from approxmcmc.targets.all_rows import AllRows


@naming_the_arguments
def audit(
    trace: xr.DataTree,
    target: Any,
    sampler: Any,
    seconds: float = 1.0,
    *,
    n_audits: int | None = None,
    random_seed: Any = None,
) -> xr.DataTree:
    r"""Check steps from stored draws with all data, and return the trace with the results.

    Parameters
    ----------
    trace
        A trace of `sample`, in memory or read by `load`; or draws of the target's variables in any form that
        :func:`approxmcmc.as_trace` takes, such as PyMC's, nutpie's, or those of a variational approximation.
    target
        The target that the draws should come from; with a sampler, the target it ran on, such as
        ``ControlVariate(target)``.
    sampler
        The sampler that made the trace. Its test is repeated at the audited draws. None: the draws come from elsewhere,
        or only the draws are to be checked.
    seconds
        Time for the audits, in seconds; compilation is extra. At least 20 audits are made, however long they take, and
        at most one for each draw.
    n_audits
        Number of audits, at most one for each draw. If it is given, `seconds` is not used.
    random_seed
        As in `sample`. With `n_audits`, the same seed audits the same draws. No chain reads the random streams of the
        audits.

    Returns
    -------
    xarray.DataTree
        A copy of `trace`. Its ``sample_stats`` holds the records of these audits, NaN or 0 at draws without an audit;
        records of earlier audits are removed. Its attributes ``problems`` and ``diagnosis`` are brought up to date, so
        `diagnose` tabulates the checks by audits (the gates) and all others. `trace` itself does not change.

    Raises
    ------
    InvalidInputError
        When the trace lacks a variable of the target, was made by another sampler or on another target, does not store
        the result of tuning, or a number is out of range.
    IncompatibleError
        When the target is discrete or doubly intractable, and the sampler cannot audit stored draws. Audit the
        decisions during the run, ``sample(..., audit_every=...)``, or call `bias`. When an argument is not a target or
        not a sampler.

    Warns
    -----
    SamplingWarning
        Once, as `sample` does, with a line for each problem. No warning means that all gates passed; it is not a proof.

    Notes
    -----
    From a draw theta an audit proposes theta' and evaluates all N terms at both: two passes over the data. If a pass
    takes long, audits of a test read a sixteenth of the rows, provided that this is shown to be enough (see the page on
    the engine). Under the posterior, detailed balance makes antisymmetric functions of the two states average to 0,

    .. math:: E[\alpha\, sign \Lambda] = 0, \qquad E[\alpha\, (\log \pi(\theta') - \log \pi(\theta))] = 0,

    the sign score and the energy drift; a test is checked by its acceptance probability against :math:`\alpha`. The
    sampler's own tuned proposal makes theta'. If `sampler` is None or its steps are exact, a symmetric random walk with
    the covariance of the draws proposes theta', and only the two averages are checked.

    Guarantee: for draws of the posterior a gate fails only by chance, in about one run in 200 for the two averages. The
    gates see errors where the draws are; they do not see a mode that the draws have missed.

    Examples
    --------
    >>> import numpy as np, xarray as xr, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0.3)
    >>> fit = amc.laplace(target)
    >>> far = fit.mode + 3.0 * np.random.default_rng(1).normal(size=(1, 200, 2))
    >>> trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"beta": (("chain", "draw", "coef"), far)})})
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     table = amc.diagnose(amc.audit(trace, target, None, n_audits=100, random_seed=1))
    >>> table.set_index("check")["verdict"]["energy drift"]
    'failure'
    """
    target = as_target(target)
    if not isinstance(target, Target) or not (sampler is None or isinstance(sampler, AnySampler)):
        raise IncompatibleError(
            f"audit: needs a target and the sampler of the trace, or None for draws from elsewhere; found {target!r} "
            f"and {sampler!r}"
        )
    refuse_formula(trace, "audit")
    trace = trace_of(trace, target)
    refuse_weights(trace, "audit")
    draws = flat_draws(trace, target)
    policy = _policy(seconds, n_audits)
    if not draws.shape[1]:
        raise InvalidInputError("audit: the trace has no draws to audit")
    own = [streams(sequence).audit for sequence in seed_sequences(random_seed, len(draws))[0]]
    attrs = trace["posterior"].attrs
    makers = _auditors(trace, target, sampler, draws, own)
    steps = {"tune": int(attrs.get("tuning_steps", 0)), "thin": int(attrs.get("thin", 1))}
    records, outcome = audits.audit(draws, makers, policy, own[0], **steps)
    return with_its_warning(_with_records(trace, records, outcome))


def _policy(seconds: Any, n_audits: int | None) -> audits.Policy:
    if n_audits is not None:
        return audits.exactly(checked_integer(n_audits, "n_audits"))
    if not (isinstance(seconds, numbers.Real) and float(seconds) > 0.0):
        raise InvalidInputError(f"audit: seconds must be positive, found {seconds!r}")
    return audits.within(float(seconds))


def _auditors(
    trace: xr.DataTree,
    target: Target,
    sampler: AnySampler | None,
    draws: np.ndarray,
    own: Sequence[np.random.Generator],
) -> list[Auditor]:
    """Return an auditor for each chain: the sampler's if it has one, else one that audits steps of a random walk."""
    if sampler is not None:
        check_origin(trace, target, sampler)
    if isinstance(sampler, Sampler):
        program = sampler.build(target, audit_every="auto")
        adapted = adapted_by_chain(trace)
        by_chain = [program.auditor_of(adapted[k], draws[k], rng, shuffled_by(trace)) for k, rng in enumerate(own)]
        if auditors := [auditor for auditor in by_chain if auditor is not None]:
            return auditors
    if isinstance(target, DiscreteTarget | DoublyIntractableTarget):
        why = "the states are discrete, where no random walk moves"
        if isinstance(target, DoublyIntractableTarget):
            why = "its density contains an unknown normaliser"
        raise IncompatibleError(
            f"audit: stored draws of {target!r} cannot be audited: {why}. Audit the decisions of the chain while they "
            "are made, sample(..., audit_every=100), or estimate the biases by bias(trace, target, sampler)"
        )
    rows = AllRows(target)
    return [WalkedSteps(rows, chain, rng) for chain, rng in zip(draws, own, strict=True)]


def _with_records(trace: xr.DataTree, records: Mapping[str, np.ndarray], attrs: Mapping[str, Any]) -> xr.DataTree:
    """Return a copy of the trace in which these audit records replace the old ones."""
    new = trace.copy()
    posterior = new["posterior"].to_dataset()
    stats = new["sample_stats"].to_dataset() if "sample_stats" in new.children else posterior[[]]
    stats = stats.transpose("chain", "draw", ..., missing_dims="ignore")
    for name in [name for name in map(str, stats.data_vars) if name in AUDIT_COUNTS or name.startswith("audit")]:
        stats[name] = xr.full_like(stats[name], 0 if name in AUDIT_COUNTS else np.nan)
    for name, values in records.items():
        stats[name] = (("chain", "draw"), values.astype(BY_NAME[name].dtype), BY_NAME[name].attrs)
    for group, dataset in (("posterior", posterior), ("sample_stats", stats)):
        dataset.attrs = {**dataset.attrs, **attrs}
        new[group] = xr.DataTree(dataset)
    return new
