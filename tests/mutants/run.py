"""Judge the mutants of the modules in `modules.toml`: ``python -m tests.mutants.run [MODULE ...] [--hours 2]``.

Ten mutants of each module are judged, ``--sample 30`` thirty, ``--sample 0`` all. They are drawn by a hash of their
changes: the same ones at every run, the ten among the thirty.

A mutant is a module with one change, made by cosmic-ray: another operator, a number one larger or smaller, a condition
negated, a loop left out. One of its tests must fail. Mutants that behave as the module does are listed in
`equivalent.toml`, each with the reason.

Results are kept in a database of cosmic-ray's, named by a hash of the module and its test files: a run resumes where
the last one stopped, and a module is judged anew when it or one of these files has changed.
"""

import argparse
import ast
import hashlib
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult
from scipy.stats import binomtest

from tests.mutants.forks import PASSED, SHORT, UNMARKED, outcomes
from tests.mutants.reach import function_at, reaching
from tests.mutants.tables import ROOT, STORE, equivalents, files_of, listed_modules, mapped_tests, modules, shared_tests

NAMES = ("mutants", "judged", "killed", "same", "survive", "left", "seconds")
SAMPLE = 10  # of each module: what two hours are enough for
# Of the replacements of an operator those that a slip of the pen makes; the others fail at once.
OPERATORS = frozenset(
    f"core/{name}"
    for name in (
        *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul",
          "FloorDiv_Div", "Mod_FloorDiv", "BitAnd_BitOr")),
        *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE",
          "GtE_Gt", "GtE_Lt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
        *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert"),
        *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot"),
        *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer"),
        "NumberReplacer",
    )
)  # fmt: skip


def store_of(module, tests, marks):
    """Return the file of a module's results; its name has a hash of module, test files, marks and operators."""
    files = [f"approxmcmc/{module}", *files_of(tests)]
    content = b"\0".join((ROOT / file).read_bytes() for file in files)
    key = hashlib.blake2b(content + repr((tests, marks, sorted(OPERATORS))).encode(), digest_size=6).hexdigest()
    return STORE / f"{module.replace('/', '.').removesuffix('.py')}.{key}.sqlite"


def change(path, mutation):
    """Return a mutant's text, and its change as (function, line, line of the mutant)."""
    before = (ROOT / path).read_text(encoding="utf-8")
    after = mutate_code(before, get_operator(mutation.operator_name)(), mutation.occurrence)
    row = mutation.start_pos[0] - 1
    lines = [text.splitlines()[row].strip() for text in (before, after)]
    return after, (mutation.definition_name or "", *lines)


def place(module, mutation):
    """Return the function that a mutation changes, as the records of the tests call it; ``None`` outside all."""
    tree = ast.parse((ROOT / f"approxmcmc/{module}").read_text(encoding="utf-8"))
    function = function_at(tree, mutation.start_pos[0])
    return function and f"{module}:{function}"


class Judged(NamedTuple):
    """How many mutants a module has, how many are judged, how many of the sample are left, and which survived."""

    total: int
    judged: int
    left: int
    survivors: Counter


def is_told(mutation, lines):
    """Return whether a change alters the code, and a test could detect it.

    An index 0 becomes 1, not -1: in an array of one number, and among the axes of a vector, both are the same. The size
    of a cache changes no answer. The star in a signature is no operator.
    """
    (row, start), (_, stop) = mutation.start_pos, mutation.end_pos
    around = lines[row - 1][max(start - 1, 0) : stop + 1]
    if mutation.operator_name == "core/NumberReplacer":
        return not (around == "[0]" and mutation.occurrence % 2) and "maxsize=" not in lines[row - 1]
    return not around.endswith("*,")


def in_order(items, lines):
    """Return the mutants whose change a test could detect, in an order that depends only on the changes."""

    def key(item):
        [change] = item.mutations
        return hashlib.blake2b(f"{change.operator_name} {change.occurrence}".encode()).digest()

    mine = [item for item in items if item.mutations[0].operator_name in OPERATORS]
    return sorted((item for item in mine if is_told(item.mutations[0], lines)), key=key)


def judge(module, tests, deadline, workers, most, marks):
    """Judge the first `most` mutants of a module (None: all) that are not judged yet, until the deadline."""
    path, store = f"approxmcmc/{module}", store_of(module, tests, marks)
    new = not store.exists()
    with use_db(store, WorkDB.Mode.create) as results:
        if new:
            init([Path(path)], results, {})
        mine = in_order(results.work_items, (ROOT / path).read_text(encoding="utf-8").splitlines())
        pending = {item.job_id for item in results.pending_work_items}
        waiting = [item for item in mine[:most] if item.job_id in pending]
        n_left = len(waiting)
        if waiting and time.monotonic() < deadline:
            seconds = reaching([*tests, *shared_tests()], marks)
            jobs = (
                (item.job_id, path, change(path, item.mutations[0])[0], seconds(place(module, item.mutations[0])))
                for item in waiting
            )
            for job, outcome in outcomes(jobs, workers, marks):
                seen = TestOutcome.SURVIVED if outcome == PASSED else TestOutcome.KILLED
                results.set_result(job, WorkResult(WorkerOutcome.NORMAL, outcome, seen))
                n_left -= 1
                if time.monotonic() > deadline:
                    break
        told = {item.job_id for item in mine}
        judged = [(item, result) for item, result in results.completed_work_items if item.job_id in told]
    survivors = Counter(change(path, item.mutations[0])[1] for item, result in judged if not result.is_killed)
    return Judged(len(mine), len(judged), n_left, survivors)


def faults_of(module, judged, listed):
    """Return a line for each unlisted survivor, each listed mutant that is missing, and the number not judged yet."""
    stale = Counter() if judged.judged < judged.total else listed - judged.survivors
    for what, mutants in (("survived", judged.survivors - listed), ("listed, and killed or gone", stale)):
        for where, line, mutant in mutants.elements():
            yield f"{module}: {what}: {where or 'module'}: {line}  ->  {mutant}"
    if judged.left:
        yield f"{module}: {judged.left} mutants are not judged yet; run again to continue"


def print_rooms(rooms):
    """Print the sums of each folder, and the share killed of the mutants that change behaviour."""
    print()
    for room, sums in (*rooms.items(), ("all", sum(rooms.values(), Counter()))):
        print(f"{room:48}", *(f"{sums[name]:7}" for name in NAMES))
    n_killed, n = sums["killed"], sums["killed"] + sums["survive"]
    if n:
        low, high = binomtest(n_killed, n).proportion_ci(method="wilson")
        print(f"killed of those that change behaviour: {n_killed / n:.1%} (95 %: {low:.1%} to {high:.1%})")


def main():
    """Judge, show the table, and fail where a survivor is not listed, or a listed mutant is killed or gone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="as in modules.toml; all by default")
    parser.add_argument("--hours", type=float, default=2.0, help="stop then; the next run continues")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="mutants of each module; 0 for all")
    parser.add_argument("--short", action="store_true", help="by the tests of the session `tests` alone")
    given = parser.parse_args()
    marks = SHORT if given.short else UNMARKED
    table = mapped_tests()
    if unknown := set(given.modules) - set(table):
        raise SystemExit(f"not in modules.toml: {sorted(unknown)}")
    faults = [f"{module}: no tests in modules.toml" for module in sorted(set(modules()) - set(table))]
    faults += [f"{module}: in equivalent.toml, and gone" for module in sorted(listed_modules() - set(modules()))]
    deadline, workers = time.monotonic() + 3600.0 * given.hours, len(os.sched_getaffinity(0))
    STORE.mkdir(parents=True, exist_ok=True)
    rooms = defaultdict(Counter)
    print(f"{'module':48}", *(f"{name:>7}" for name in NAMES))
    for module in given.modules or table:
        started = time.monotonic()
        judged = judge(module, table[module], deadline, workers, given.sample or None, marks)
        listed = equivalents(module, judged.survivors)
        faults += faults_of(module, judged, listed)
        same, survived = (judged.survivors & listed).total(), (judged.survivors - listed).total()
        killed, seconds = judged.judged - same - survived, time.monotonic() - started
        row = (judged.total, judged.judged, killed, same, survived, judged.left, round(seconds))
        rooms[str(Path(module).parent)].update(dict(zip(NAMES, row, strict=True)))
        print(f"{module:48}", *(f"{n:7}" for n in row), flush=True)
    print_rooms(rooms)
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
