"""The gold standards of a study: made once per content, checked by their gates, stored with the cells.

Preset ``smoke`` reports its gates and does not enforce them. In other presets a gold standard that fails a gate is
refused: its report is kept, its draws are not, and the command line ends with exit code 3.
"""

import dataclasses
import json
import time
import traceback
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.errors import ApproxMCMCError, GoldStandardError, SamplingWarning
from approxmcmc.study.declare import Declaration, Gold
from approxmcmc.study.json_files import is_intact
from approxmcmc.study.plan import digest, function_id, twin_of
from approxmcmc.study.record import GoldReport, cause
from approxmcmc.study.store import Store, hash_of_draws

if TYPE_CHECKING:
    import xarray as xr

LENIENT_PRESET = "smoke"


def gold_request(study: Declaration, preset: str, target_name: str) -> GoldReport | None:
    """Return the inputs of a gold standard (target, settings, seed, estimands) with their hash; None if not wanted."""
    if study.gold is None:
        return None
    target = study.target(target_name)
    report: GoldReport = {
        "target": target_name,
        "target_hash": target.content_hash(),
        "twin": twin_of(target),
        "settings": _settings(study.gold, target_name),
        "random_seed": int(digest("gold", study.seed, target_name)[:8], 16) >> 1,
        "estimands": {name: function_id(function) for name, function in _named(study).items()},
        "enforced": preset != LENIENT_PRESET,
    }
    return {**report, "request": digest("gold", report)}


def _settings(gold: Gold, target_name: str) -> dict[str, Any]:
    """Return what a gold standard is made with; of a given one, the hash of its content."""
    reference = gold.given_for(target_name)
    if reference is not None:
        return {"given": hash_of_draws(reference)}
    gates = None if gold.gates is None else dataclasses.asdict(gold.gates)
    settings = {"chains": gold.chains, "draws": gold.draws, "tune": gold.tune, "gates": gates}
    more = {} if gold.total_draws is None else {"total_draws": gold.total_draws}
    return {**settings, "by": function_id(gold.by), **more}


def stored_gold(study: Declaration, preset: str, target_name: str, store: Store) -> "xr.DataTree | None":
    """Return the stored gold standard if it was made with the current settings of the study, else None.

    A reference that the study gives is returned as it is.
    """
    if study.gold is not None and study.gold.given is not None:
        reference: xr.DataTree = study.gold.given_for(target_name)
        return reference
    report = store.gold_report(target_name)
    request = gold_request(study, preset, target_name)
    fits = report is not None and request is not None and report["request"] == request["request"]
    return store.gold(target_name) if fits else None


def make_gold(study: Declaration, preset: str, target_name: str, store: Store) -> GoldReport | None:
    """Make the gold standard of a target unless it is stored, and return its report; None if the study wants none.

    The report's ``status`` is ``accepted``, ``refused`` (a gate failed and gates are enforced) or ``failed`` (an error
    was raised). ``gates`` holds every gate with its worst value and limit, ``seconds`` what the draws took when they
    were made, also if they come from the cache. The next run tries a failed one again, and makes accepted draws again
    if they are lost or damaged.
    """
    request = gold_request(study, preset, target_name)
    stored = store.gold_report(target_name)
    if request is None:
        return None
    if "given" in request["settings"]:
        return _report_given(request, target_name, store)
    fits = stored is not None and stored["request"] == request["request"]
    if stored is not None and fits and (stored["status"] == "refused" or is_intact(lambda: store.gold(target_name))):
        return stored
    start = time.perf_counter()
    when_made = 0.0
    try:
        reference, error = _reference(study, request)
        attrs = reference["posterior"].attrs
        passed = bool(attrs.get("gates_passed", True))
        when_made = float(attrs.get("seconds_to_make", 0.0))
        report: GoldReport = {
            **request,
            "status": "accepted" if passed or not request["enforced"] else "refused",
            "gates_passed": passed,
            "gates": json.loads(str(attrs.get("gates", "[]"))),
            "command": str(attrs.get("command", "")),
            "draws_hash": hash_of_draws(reference),
            "error": error,
        }
    except (
        ApproxMCMCError,
        ImportError,
        RuntimeError,
        ValueError,
        TypeError,
        ArithmeticError,
        AttributeError,
    ) as problem:
        text = traceback.format_exc() if not isinstance(problem, ApproxMCMCError) else str(problem)
        report = {**request, "status": "failed", "gates_passed": False, "gates": [], "command": "", "error": text}
    report["seconds"] = max(time.perf_counter() - start, when_made)
    store.write_gold(target_name, report, reference if report["status"] == "accepted" else None)
    return report


def _report_given(request: GoldReport, target_name: str, store: Store) -> GoldReport:
    """Write and return the report on a reference that the study gives; its draws stay with the study."""
    report: GoldReport = {
        **request,
        "status": "accepted",
        "gates_passed": True,
        "gates": [],
        "command": "",
        "draws_hash": request["settings"]["given"],
        "error": None,
        "seconds": 0.0,
    }
    store.write_gold(target_name, report, None)
    return report


def _reference(study: Declaration, request: GoldReport) -> "tuple[xr.DataTree, str | None]":
    """Return the draws, and the reason if they are refused, else None; refused draws carry their gate report."""
    from approxmcmc.reference import reference_posterior

    gold = study.gold or Gold()
    make = gold.by or reference_posterior
    settings: dict[str, Any] = {
        "draws": gold.draws,
        "tune": gold.tune,
        "chains": gold.chains,
        "random_seed": request["random_seed"],
        "estimands": _named(study) or None,
    }
    if gold.gates is not None:
        settings["gates"] = gold.gates
    if gold.total_draws is not None:
        settings["total_draws"] = gold.total_draws
    target = study.target(request["target"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # the report lists the same problems, gate by gate
        if not request["enforced"]:
            return make(target, enforce=False, **settings), None
        try:
            return make(target, **settings), None
        except GoldStandardError as refusal:
            return make(target, enforce=False, **settings), str(refusal)


def _named(study: Declaration) -> Mapping[str, Any]:
    """Return the estimands; empty if they need the gold standard, which then checks only parameters by its gates."""
    return {} if callable(study.estimands) else study.estimands or {}


def summary_line(report: GoldReport) -> str:
    """Return one line about a gold standard: its status, and the gates that failed."""
    failed = [
        f"{gate['gate']} {gate['value']:.4g} at {gate['where']}, needs {gate['limit']}" for gate in _failed(report)
    ]
    if "given" in report.get("settings", {}):
        return f"gold {report['target']}: given by the study"
    gates = "; ".join(failed) or "all gates passed"
    if failed and report["status"] == "accepted":
        gates = f"its gates are reported, not enforced: {gates}"
    if report["status"] == "failed":
        gates = cause(report["error"])
    return f"gold {report['target']}: {report['status']} in {report['seconds']:.1f} s ({gates})"


def _failed(report: GoldReport) -> list[dict[str, Any]]:
    return [
        {**gate, "value": float("nan") if gate["value"] is None else gate["value"]}
        for gate in report["gates"]
        if not gate["passed"]
    ]
