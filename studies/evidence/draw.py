"""Draw a piece: run its commands in a folder of their own, then put the files in place, and its stamp last.

The files of the repository are the old ones until all commands have ended. If the process is killed while it copies,
each file is whole, and the checksums of the stamp do not fit, so that the piece counts as stale.
"""

import contextlib
import datetime
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from approxmcmc.engine.compiler.code_version import code_version
from approxmcmc.engine.extras import THREAD_VARIABLES
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.study.machine import processor, speed_probe
from studies.evidence.closure import ROOT, code_of, read_again
from studies.evidence.pieces import Piece, Step
from studies.evidence.stamps import write_stamp

WORK = "results/evidence"
SPENT = "spent.json"  # in the folder of a piece: seconds of all its runs, of which all but the last were interrupted
STILL = 0.1  # cores; a machine on which other programs use more is called busy


class CodeChangedError(RuntimeError):
    """The code of a piece is not that with which the piece began."""


def argv_of(step: Step, folder: Path) -> list[str]:
    """Return the command of a step: programs of this environment, and nox of the one that started it."""
    program, *options = (part.format(out=folder) for part in step.command)
    if program == "python":
        return [sys.executable, *options]
    if program == "nox":
        return [os.environ.get("PYTHON_OF_NOX", sys.executable), "-m", "nox", *options]
    return [str(Path(sys.executable).parent / program), *options]


def run_step(step: Step, folder: Path, root: Path) -> None:
    """Run a step unless its file exists; raise `CalledProcessError` if it fails."""
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
    if not step.output:
        subprocess.run(argv_of(step, folder), cwd=root, env=environment, check=True)
    elif not (folder / step.output).exists():
        with whole_file(folder / step.output) as whole, whole.open("wb") as file:
            subprocess.run(argv_of(step, folder), cwd=root, env=environment, check=True, stdout=file)


def busy_seconds() -> float:
    """Return the processor seconds of all programs since the machine started; NaN where the system does not say."""
    try:
        user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    except (OSError, ValueError):
        return float("nan")
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Return the processor seconds of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


@contextlib.contextmanager
def measured(path: Path) -> Iterator[dict[str, float]]:
    """Add the seconds of this context to those in a file; yield the sums, which are complete at the end.

    `wall`, `cpu` of these commands, `others` of other programs, and two times of a fixed piece of work, `probe_before`
    the first run and `probe_after` the last.
    """
    spent = json.loads(path.read_text()) if path.exists() else {"wall": 0.0, "cpu": 0.0, "others": 0.0}
    spent.setdefault("probe_before", speed_probe())
    began, own, busy = time.perf_counter(), own_seconds(), busy_seconds()
    try:
        yield spent
    finally:
        cpu = own_seconds() - own
        spent["wall"] += time.perf_counter() - began
        spent["cpu"] += cpu
        spent["others"] += max(0.0, busy_seconds() - busy - cpu)
        spent["probe_after"] = speed_probe()
        with whole_file(path) as whole:
            whole.write_text(json.dumps(spent))


def machine(spent: dict[str, float]) -> str:
    """Return the processor, its cores, and how still it was."""
    others = spent["others"] / spent["wall"] if spent["wall"] else float("nan")
    how = "still" if others <= STILL else f"other programs used {others:.1f} cores"
    return f"{processor()}, {os.cpu_count()} cores, {how}"


def draw(piece: Piece, root: Path = ROOT) -> None:
    """Draw a piece, or what an interrupted run of it has left to do.

    Raises
    ------
    CalledProcessError
        If a command fails; the files of the repository are the old ones.
    CodeChangedError
        If the code of the piece changed meanwhile; so are the files then.
    """
    read_again()
    code = code_of(piece.entries)
    folder = root / WORK / (piece.name if piece.keeps_cells else f"{piece.name}-{code}")
    folder.mkdir(parents=True, exist_ok=True)
    with measured(folder / SPENT) as spent:
        for step in piece.steps:
            run_step(step, folder, root)
    read_again()
    if code_of(piece.entries) != code:
        raise CodeChangedError(f"{piece.name}: the code changed while it ran, so its tables have no version; run again")
    for path, parts in piece.files.items():
        if parts:
            with whole_file(root / path) as whole:
                whole.write_bytes(b"".join((folder / part).read_bytes() for part in parts))
    facts: dict[str, Any] = {
        "version": code_version(),
        "code": code,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(spent),
        "wall_minutes": round(spent["wall"] / 60.0, 1),
        "cpu_minutes": round(spent["cpu"] / 60.0, 1),
        "probes": [round(spent["probe_before"], 4), round(spent["probe_after"], 4)],
    }
    write_stamp(piece, facts, root)
    (folder / SPENT).unlink()


@contextlib.contextmanager
def alone(root: Path = ROOT) -> Iterator[None]:
    """Raise `BlockingIOError` if another process draws evidence in this tree: times of two would disturb each other."""
    (root / WORK).mkdir(parents=True, exist_ok=True)
    with (root / WORK / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
