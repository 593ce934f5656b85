"""The record of a cell and the report of a gold standard: every key, with its type.

A record starts with the values known from the plan (:func:`planned_record`), and gets the rest when the cell ends. A
key that was never reached is missing; a value that could not be measured is None.
"""

import dataclasses
import re
from typing import Any, TypedDict

from approxmcmc.study.plan import Cell, Plan, describe

FAILED = ("failed", "invalid", "crashed")  # the statuses of a cell that ended without a result


class Record(TypedDict, total=False):
    """The record of a cell. Times are in seconds; counts are totals, tuning included."""

    key: str
    identity: str
    study: str
    preset: str
    target: str
    sampler_name: str
    label: str
    knobs: dict[str, Any]
    sampler: dict[str, Any]
    replicate: int
    block: int
    order_in_block: int
    seed: int
    start_seed: int
    budget: dict[str, Any]
    status: str
    error: str | None
    warnings: list[str]
    command: str
    wall_seconds: float | None
    cpu_seconds: float | None
    sampling_seconds: float | None
    setup_seconds: float | None
    compile_seconds: float | None
    stopped: str
    draws: int
    steps: int
    datapoints_touched: int
    likelihood_evaluations: int
    decisions_made: int
    decisions_audited: int
    wrong_decisions: int
    wrong_accepts: int
    acceptance_rate: float | None
    draws_hash: str
    probe_before: float
    probe_after: float
    noisy: bool
    provenance: str | None
    code_version: str
    drawn_by: str
    run: str


# `run` identifies the run that wrote a record, for workers; it is not part of tables.
COLUMNS = tuple(name for name in Record.__annotations__ if name != "run")


class GoldReport(TypedDict, total=False):
    """Everything that a gold standard depends on, with a hash of it as `request`; then its result."""

    target: str
    target_hash: str
    twin: str | None
    settings: dict[str, Any]
    random_seed: int
    estimands: dict[str, str | None]
    enforced: bool
    request: str
    status: str
    gates_passed: bool
    gates: list[dict[str, Any]]
    command: str
    draws_hash: str
    error: str | None
    seconds: float


class BiasReport(TypedDict, total=False):
    """Everything that the biases of a setting depend on, with a hash of it as `request`; then their result."""

    target: str
    label: str
    target_hash: str
    sampler: dict[str, Any]
    draws: list[str]
    settings: dict[str, Any]
    request: str
    random_seed: int
    status: str
    error: str | None
    seconds: float
    values_hash: str


def planned_record(cell: Cell, plan: Plan) -> Record:
    """Return the values of a cell's record that are known before it runs."""
    return {
        "key": cell.key,
        "identity": cell.identity,
        "study": plan.study.name,
        "preset": plan.preset,
        "target": cell.target,
        "sampler_name": cell.sampler_name,
        "label": cell.label,
        "knobs": dict(cell.knobs),
        "sampler": describe(cell.sampler),
        "replicate": cell.replicate,
        "block": cell.replicate,
        "order_in_block": cell.order_in_block,
        "seed": cell.seed,
        "start_seed": cell.start_seed,
        "budget": dataclasses.asdict(plan.study.budget_of(cell.target)),
        "code_version": plan.code_version,
    }


def lost_record(cell: Cell, plan: Plan, status: str, error: str) -> Record:
    """Return the record, with this status and error, of a cell that lost its process or could not start."""
    return {
        **planned_record(cell, plan),
        "wall_seconds": None,
        "cpu_seconds": None,
        "noisy": False,
        "warnings": [],
        "provenance": None,
        "status": status,
        "error": error,
    }


def cause(error: str | None) -> str:
    r"""Return the line of an error or traceback that gives the cause: the last that names an exception.

    A message of several lines may end in advice.

    Examples
    --------
    >>> cause("Traceback ...\n  File ...\nFloatingPointError: NaN occurred.\nTry other settings.")
    'FloatingPointError: NaN occurred.'
    >>> cause("killed")
    'killed'
    """
    lines = (error or "").strip().splitlines() or ["no message"]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit|Warning)\b", line)]
    return (named or lines)[-1].strip()
