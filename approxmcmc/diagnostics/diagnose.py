"""All checks of a run in one table, and the text of its warning."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

from approxmcmc.acceptance.stored import stored_test
from approxmcmc.contracts import VERDICTS, Finding, Verdict
from approxmcmc.diagnostics.convergence import FEWEST_DRAWS, convergence, effective
from approxmcmc.diagnostics.copies import copies
from approxmcmc.diagnostics.drift import drift
from approxmcmc.diagnostics.expansion_checks import expansion_checks
from approxmcmc.diagnostics.finite import finite
from approxmcmc.diagnostics.further_runs import further_runs
from approxmcmc.diagnostics.gates import Gate, accumulated_error, gates
from approxmcmc.diagnostics.health import chain_lengths, movement, stopped, trajectories, undefined
from approxmcmc.diagnostics.importance import pareto_finding
from approxmcmc.diagnostics.integrals import distance_to_model
from approxmcmc.diagnostics.modes import modes
from approxmcmc.diagnostics.records import group, lengths
from approxmcmc.diagnostics.traces import one_trace

if TYPE_CHECKING:
    import pandas as pd

GATES_OF_THE_DRAWS = ("sign_score", "energy_drift")  # the other gates check the test, which may be biased on purpose


def diagnose(trace: xr.DataTree) -> "pd.DataFrame":
    """Tabulate every check of a finished run, most serious first.

    Parameters
    ----------
    trace
        A trace, or draws in any form that :func:`approxmcmc.as_trace` takes.

    Returns
    -------
    pandas.DataFrame
        One row per check. ``check``: its name. ``verdict``: ``"failure"`` (do not use these draws as a sample of the
        posterior), ``"warning"``, ``"not checked"`` (the run lacks what the check needs), ``"ok"``. ``value``,
        ``limit``: the measured value and the limit beyond which the check fails; NaN for a check without a number.
        ``where``: the worst parameters or chains. ``finding``: a sentence. ``advice``: what to do next.

    Raises
    ------
    InvalidInputError
        If `trace` is not a trace, or lacks ``posterior``.

    Notes
    -----
    The checks: how the run ended, and whether it reached its target ESS; whether all draws are finite; whether chains
    are copies of each other; whether every chain moved; how often the log density was undefined; how many NUTS
    trajectories diverged or were cut short; the acceptance test's own warnings; the gates computed from audits, and
    whether the errors of decisions add up; rank-normalised split R-hat (limit 1.01, or what chance explains if that is
    more), bulk and tail ESS (limit 100 per chain), from 100 draws per chain on [1]_; where chains started, and whether
    a search from far starts found other modes; which runs were made after failed checks, and whether their chains saw
    other places; the checks of an expansion; whether rows that `update` added fit the posterior of the earlier ones.
    `sample`
    reports failed checks in one `SamplingWarning` and stores their names, joined by commas, in the posterior's
    attribute ``problems`` and their rows as JSON in ``diagnosis``.

    A run that passes all checks may still be wrong: R-hat cannot see a bias, and a mode that neither the chains nor a
    search have reached is not seen. `risk` against a gold standard can see both.

    References
    ----------
    .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Buerkner (2021). Rank-normalization, folding, and
       localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2).

    Examples
    --------
    >>> table = amc.diagnose(trace)  # doctest: +SKIP
    >>> table[["check", "verdict", "value", "limit"]]  # doctest: +SKIP
    """
    from approxmcmc.output.shown_table import ShownTable

    columns = ["check", "verdict", "value", "limit", "where", "finding", "advice"]
    rows = [finding._asdict() for finding in findings(trace)]
    return ShownTable(rows, columns=columns)


def findings(trace: xr.DataTree) -> list[Finding]:
    """Return the findings of all checks of a trace, most serious first."""
    trace = one_trace(trace)
    real = lengths(trace)
    shortest = int(real.min(initial=trace["posterior"].sizes["draw"]))
    posterior = group(trace, "posterior").isel(draw=slice(None, shortest))
    stats = group(trace, "sample_stats").isel(draw=slice(None, shortest))
    settings = json.loads(posterior.attrs.get("inference_library_settings", "{}"))
    end = stopped(posterior)
    if "log_weight" in stats:
        collected = [end, pareto_finding(stats)]
    elif not posterior.sizes["draw"]:
        collected = [end, *effective(posterior)]
    else:
        audited = gates(stats)
        everything = finite(posterior)
        mixing = convergence(posterior, weighted="weight" in stats)
        of_modes = modes(posterior, mixing)
        if more_draws_do_not_help := [finding.advice for finding in of_modes if finding.fires]:
            mixing = [one._replace(advice=more_draws_do_not_help[0]) if one.fires else one for one in mixing]
        steps = posterior.sizes["chain"] * posterior.sizes["draw"] * int(posterior.attrs.get("thin", 1))
        collected = [
            end,
            *chain_lengths(real),
            *copies(posterior),
            everything,
            *effective(posterior),
            *movement(posterior),
            *undefined(stats),
            *trajectories(stats, settings),
            *decisions(audited, stats, settings),
            *accumulated_error(audited, mixing, steps),
            *mixing,
            *of_modes,
            *expansion_checks(posterior.attrs, settings, stats),
            *distance_to_model(posterior.attrs),
        ]
    collected += drift(posterior.attrs)
    collected += further_runs(posterior, others_fail=any(finding.fires for finding in collected))
    return sorted(collected, key=lambda one: VERDICTS.index(one.verdict))


def decisions(audited: Iterable[Gate], stats: xr.Dataset, settings: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of the gates `audited`, and those of the acceptance test's own checks."""
    test = stored_test(settings)
    short = stats.sizes["draw"] < FEWEST_DRAWS
    return [*(_of_gate(gate, short) for gate in audited), *([] if test is None else test.problems(stats))]


def _of_gate(gate: Gate, short: bool) -> Finding:
    """Return a gate as a finding. Too few audits are "not checked", not a warning, if the run is `short`."""
    verdict: Verdict = "ok"
    if gate.fires:
        verdict = "failure" if gate.name in GATES_OF_THE_DRAWS else "warning"
        verdict = "not checked" if short and gate.name == "audits" else verdict
    advice = gate.advice if gate.fires else ""
    return Finding(gate.name.replace("_", " "), verdict, gate.sentence, advice, gate.value, gate.limit)


def report(findings: Iterable[Finding]) -> str:
    """Return the failed checks as a block of lines; empty for a clean run.

    They keep their order, but findings with the same advice are put together and share it.

    Examples
    --------
    >>> print(
    ...     report([Finding("R-hat", "warning", "R-hat is above 1.01 for mu", "draw more"), Finding("ESS", "ok", "")])
    ... )
    1 problem with this run, see amc.diagnose(trace):
      warning: R-hat is above 1.01 for mu.
        Next: draw more.
    """
    fired = [finding for finding in findings if finding.fires]
    if not fired:
        return ""
    plural = "1 problem" if len(fired) == 1 else f"{len(fired)} problems"
    lines = [f"{plural} with this run, see amc.diagnose(trace):"]
    for advice in dict.fromkeys(finding.advice for finding in fired):
        lines += [f"  {finding.verdict}: {finding.finding}." for finding in fired if finding.advice == advice]
        lines += [f"    Next: {advice}."] if advice else []
    return "\n".join(lines)


def attributes(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the attributes to store: names of the failed checks, joined by commas, and their rows as JSON."""
    fired = [finding for finding in findings if finding.fires]
    rows = [{name: value for name, value in one._asdict().items() if not _is_nothing(value)} for one in fired]
    return {"problems": ", ".join(finding.check for finding in fired), "diagnosis": json.dumps(rows)}


def _is_nothing(value: str | float) -> bool:
    return value == "" or (isinstance(value, float) and math.isnan(value))
