"""What is wrong with a run: all checks in one table, and the few lines that a user has to read."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

import approxmcmc.acceptance  # noqa: F401 (a trace names the class of its test, and classes are known once imported)
from approxmcmc.contracts import VERDICTS, AcceptanceTest, Finding, Verdict
from approxmcmc.diagnostics.convergence import FEWEST_DRAWS, convergence
from approxmcmc.diagnostics.expansion_gates import expansion_gates
from approxmcmc.diagnostics.gates import Gate, accumulated_error, gates
from approxmcmc.diagnostics.health import movement, stopped, undefined
from approxmcmc.diagnostics.importance import pareto_finding
from approxmcmc.diagnostics.records import group
from approxmcmc.diagnostics.target_ess import effective
from approxmcmc.diagnostics.trajectories import trajectories

if TYPE_CHECKING:
    import pandas as pd

GATES_OF_THE_DRAWS = ("sign_score", "energy_drift")  # the others judge the test: its error may be small, and wanted


def diagnose(trace: xr.DataTree) -> "pd.DataFrame":
    """Tabulate every check of a finished run, most serious first.

    Parameters
    ----------
    trace
        What `sample` or `importance_sampling` returned, or `load` read.

    Returns
    -------
    pandas.DataFrame
        One row per check. ``check``: its name. ``verdict``: ``"failure"`` (take these draws for no sample of the
        posterior), ``"warning"``, ``"not checked"`` (the run cannot tell), ``"ok"``. ``value``, ``limit``: what was
        measured, and where the check fires; NaN for a check that is no number. ``where``: the worst parameters, or the
        chains. ``finding``: a sentence. ``advice``: the next thing to do.

    Raises
    ------
    InvalidInputError
        If `trace` is none, or lacks ``posterior`` or ``sample_stats``.

    Notes
    -----
    The checks: how the run ended, and whether with the ESS that it was asked for; whether every chain moved; at how
    many proposals the log density was undefined; how many trajectories of NUTS diverged or were cut short; what the
    acceptance test says of its own decisions; the gates that audits answer, and whether the errors of decisions add
    up; rank-normalised split R-hat (limit 1.01, or what chance gives where that is more), bulk and tail ESS (limit
    100 per chain), from 100 draws per chain on [1]_; the gates of an expansion. `sample` warns of what fires in one
    `SamplingWarning`, and stores their names, joined by commas, in the posterior's attribute ``problems``, their rows
    as JSON in ``diagnosis``.

    A run that passes all of them may still be wrong: R-hat cannot see a bias, and no check sees a mode that no chain
    visits. `risk` against a gold standard can.

    References
    ----------
    .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Buerkner (2021). Rank-normalization, folding, and
       localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2).

    Examples
    --------
    >>> table = amc.diagnose(trace)  # doctest: +SKIP
    >>> table[["check", "verdict", "value", "limit"]]  # doctest: +SKIP
    """
    import pandas as pd

    return pd.DataFrame(findings(trace), columns=Finding._fields)[
        ["check", "verdict", "value", "limit", "where", "finding", "advice"]
    ]


def findings(trace: xr.DataTree) -> list[Finding]:
    """Return what every check says of a trace, most serious first."""
    posterior, stats = group(trace, "posterior"), group(trace, "sample_stats")
    settings = json.loads(posterior.attrs.get("inference_library_settings", "{}"))
    end = stopped(posterior)
    if "log_weight" in stats:
        found = [end, pareto_finding(stats)]
    elif not posterior.sizes["draw"]:
        found = [end, *effective(posterior)]
    else:
        audited, mixing = gates(stats), convergence(posterior, weighted="weight" in stats)
        steps = posterior.sizes["chain"] * posterior.sizes["draw"] * int(posterior.attrs.get("thin", 1))
        found = [
            end,
            *effective(posterior),
            *movement(posterior),
            *undefined(stats),
            *trajectories(stats, settings),
            *decisions(audited, stats, settings),
            *accumulated_error(audited, mixing, steps),
            *mixing,
            *expansion_gates(posterior.attrs, settings),
        ]
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))


def decisions(audited: Iterable[Gate], stats: xr.Dataset, settings: Mapping[str, Any]) -> list[Finding]:
    """Return what the audits say of a run's decisions and draws, and what its acceptance test says of itself."""
    test = AcceptanceTest.found_in(settings)
    short = stats.sizes["draw"] < FEWEST_DRAWS
    return [*(_of_gate(gate, short) for gate in audited), *([] if test is None else test.problems(stats))]


def _of_gate(gate: Gate, short: bool) -> Finding:
    """Return a gate as a finding; a run too short for R-hat is not blamed for too few audits."""
    verdict: Verdict = "ok"
    if gate.fires:
        verdict = "failure" if gate.name in GATES_OF_THE_DRAWS else "warning"
        verdict = "not checked" if short and gate.name == "audits" else verdict
    advice = gate.advice if gate.fires else ""
    return Finding(gate.name.replace("_", " "), verdict, gate.sentence, advice, gate.value, gate.limit)


def report(found: Iterable[Finding]) -> str:
    """Return the findings that fire as a block of lines, most serious first; empty for a clean run.

    Findings with the same advice share it.

    Examples
    --------
    >>> print(
    ...     report([Finding("R-hat", "warning", "R-hat is above 1.01 for mu", "draw more"), Finding("ESS", "ok", "")])
    ... )
    1 problem with this run, see amc.diagnose(trace):
      warning: R-hat is above 1.01 for mu.
        Next: draw more.
    """
    fired = [finding for finding in found if finding.fires]
    if not fired:
        return ""
    plural = "1 problem" if len(fired) == 1 else f"{len(fired)} problems"
    lines = [f"{plural} with this run, see amc.diagnose(trace):"]
    for advice in dict.fromkeys(finding.advice for finding in fired):
        lines += [f"  {finding.verdict}: {finding.finding}." for finding in fired if finding.advice == advice]
        lines += [f"    Next: {advice}."] if advice else []
    return "\n".join(lines)


def attributes(found: Sequence[Finding]) -> dict[str, str]:
    """Return what a trace keeps: the names of the checks that fired, joined by commas, and their rows as JSON."""
    fired = [finding for finding in found if finding.fires]
    rows = [{name: value for name, value in one._asdict().items() if not _is_nothing(value)} for one in fired]
    return {"problems": ", ".join(finding.check for finding in fired), "diagnosis": json.dumps(rows)}


def _is_nothing(value: str | float) -> bool:
    return value == "" or (isinstance(value, float) and math.isnan(value))
