"""A scheduler, two workers and a client of Dask on four hosts, and what becomes of their work when one of them fails.

    unshare --net --mount --pid --fork --kill-child --mount-proc python -m tests.faults.hosts {study,search} FAULT ...

The work is a study of 12 cells by the command line, or the search for a mode in eight parts of the rows, anew for each
fault. The fault comes once some of it is done. `tests.faults.network` says what a host is. Dask's timeout for
connections that do not answer is 12 s here, in place of 30.

Prints a line of JSON for each fault: exit codes and last messages of the client, and for a study what was lost, written
twice, or differs from an undisturbed run; for a search the distance of the mode, and how many parts were read
again.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.faults.network import Network, small_disk

if TYPE_CHECKING:
    import pandas as pd

FAULTS = (
    "two runners",
    "disk full",
    "slow link",
    "client unplugged",
    "worker killed",
    "worker unplugged",
    "scheduler killed",
)
HOSTS = ("scheduler", "worker-1", "worker-2", "client")
UNPLUGGED = {"client unplugged": "client", "worker unplugged": "worker-1"}
PORT = 8786
PATIENCE = 1200.0  # for any one thing that is waited for
ROOT = Path(__file__).parents[2]
STUDY = str(ROOT / "tests" / "faults" / "small_study.py")
CLI = ("-c", "import sys; from approxmcmc.cli import main; sys.exit(main())")
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "20s",
}


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(0.02)


class Cluster:
    """The hosts and the processes on them; logs are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.network = folder, Network(*HOSTS)
        self.address = f"tcp://{self.network.addresses['scheduler']}:{PORT}"
        self.disk = small_disk("2m")
        self.workers: dict[str, subprocess.Popen] = {}
        self.start_scheduler()
        self.start_workers()

    def start(self, host: str, *command: str, log: str = "", **environment: str) -> subprocess.Popen:
        """Start Python on a host."""
        path = self.folder / f"{log or host}.log"
        environment = {**ENVIRONMENT, "TMPDIR": str(self.folder), **environment}
        return self.network.start(host, sys.executable, "-W", "ignore", *command, log=path, environment=environment)

    def start_scheduler(self) -> None:
        """Start a scheduler at the address; it knows nothing of an earlier one."""
        host, log = self.network.addresses["scheduler"], self.folder / "scheduler.log"
        log.unlink(missing_ok=True)
        options = ("--host", host, "--port", str(PORT), "--no-dashboard", "--no-show")
        self.scheduler = self.start("scheduler", "-m", "dask", "scheduler", *options)
        wait_until(lambda: "Scheduler at" in log.read_text(), "the scheduler")

    def start_workers(self) -> None:
        """Start a worker with one thread on each host that has none; that of the second writes to the small disk."""
        for host, place in (("worker-1", self.folder), ("worker-2", self.disk)):
            if host not in self.workers or self.workers[host].poll() is not None:
                options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(place))
                own = {"TMPDIR": str(place), "APPROXMCMC_CACHE_DIR": str(place / "cache")}
                self.workers[host] = self.start(host, "-m", "dask", "worker", self.address, *options, **own)

    def fill_disk(self) -> None:
        """Leave no room on the small disk."""
        with contextlib.suppress(OSError), (self.disk / "rubbish").open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))

    def make(self, fault: str) -> None:
        """Cause a fault now; faults that are there from the beginning are caused in `study` or `search`."""
        if fault == "worker killed":
            self.workers["worker-1"].kill()
        elif fault == "scheduler killed":
            self.scheduler.kill()
        elif fault == "disk full":
            self.fill_disk()
        elif fault in UNPLUGGED:
            self.network.unplug(UNPLUGGED[fault])

    def mend(self, fault: str) -> None:
        """Undo a fault: restart, reconnect or clean up what it affected."""
        if fault == "scheduler killed":
            self.scheduler.wait()
            self.start_scheduler()
        ends = {
            "scheduler killed": tuple(self.workers),
            "worker unplugged": ("worker-1",),
            "worker killed": ("worker-1",),
        }
        for host in ends.get(fault, ()):  # a worker that has lost its scheduler ends by itself, in a while
            self.workers[host].kill()
            self.workers[host].wait()
        if fault in UNPLUGGED:
            self.network.plug(UNPLUGGED[fault])
        if fault == "slow link":
            self.network.speed_up("worker-1")
        (self.disk / "rubbish").unlink(missing_ok=True)
        self.start_workers()

    def said(self, log: str) -> str:
        """Return the last line that a program has written."""
        return (self.folder / f"{log}.log").read_text().strip().splitlines()[-1]


def ended(process: subprocess.Popen) -> int:
    """Return the exit code of a process."""
    return process.wait(timeout=PATIENCE)


def study(faults: list[str], rng: np.random.Generator, folder: Path, files: str) -> Iterator[dict]:
    """Run a study for each fault until it is whole: by the same command again where it ended with an error."""
    from approxmcmc.study.load import load_study
    from approxmcmc.study.run import run_study

    cluster = Cluster(folder)
    command = (*CLI, "run", STUDY, "--no-report", "--store")
    assert run_study(load_study(Path(STUDY)), "paper", folder / "alone", path=Path(STUDY)).exit_code == 0
    for k, fault in enumerate(faults):
        started = time.monotonic()
        base, log = folder / f"hosts-{k}", f"client-{k}"
        cells = base / "small-paper" / "cells"

        def recorded(cells: Path = cells) -> dict[str, int]:
            return {str(path): path.stat().st_mtime_ns for path in cells.glob("??/*/record.json")}

        def finish(base: Path = base, log: str = log) -> subprocess.Popen:
            return cluster.start("client", *command, str(base), "--scheduler", cluster.address, log=log)

        if fault == "slow link":
            cluster.network.slow_down("worker-1")
        found: dict = {"fault": fault}
        first, wanted = finish(), int(rng.integers(2, 7))
        wait_until(lambda n=wanted, run=first: len(recorded()) >= n or run.poll() is not None, "the first cells")
        if fault == "two runners":
            first.send_signal(signal.SIGSTOP)  # else it may be done before the second has imported what it needs
            second = cluster.start("client", *command, str(base), log="second")
            found |= {"second": ended(second), "second says": cluster.said("second")}
            first.send_signal(signal.SIGCONT)
        cluster.make(fault)
        began, known = time.monotonic(), recorded()
        found |= {"exit codes": [ended(first)], "message": cluster.said(log)}
        found["seconds to the end"] = round(time.monotonic() - began, 1)
        if fault == "slow link":
            found["dropped"], found["waits"] = cluster.network.held_up("worker-1")
        before = recorded()
        cluster.mend(fault)
        if found["exit codes"] != [0]:
            found["exit codes"].append(ended(finish()))
        after = recorded()
        found["lost"] = len(known.keys() - before.keys()) + len(before.keys() - after.keys())
        found["written twice"] = sum(before[path] != after[path] for path in before.keys() & after.keys())
        found["different"] = int(not table(base).equals(table(folder / "alone")))
        found |= {"recorded before": len(known), "at the end of the first": len(before)}
        yield {**found, "seconds": round(time.monotonic() - started)}


def table(base: Path) -> "pd.DataFrame":
    """Return what is known of the cells, without their clocks."""
    from approxmcmc.study.load import load_study
    from approxmcmc.study.results import StudyResults

    columns = ["key", "target", "label", "replicate", "status", "seed", "draws", "steps", "draws_hash"]
    return StudyResults.open(load_study(Path(STUDY)), "paper", base).records[columns]


def search(faults: list[str], rng: np.random.Generator, folder: Path, files: str) -> Iterator[dict]:
    """Search for the mode for each fault, again where it ended with an error; in `files`, or among simulated rows."""
    import approxmcmc as amc
    from tests.faults.search import data

    cluster = Cluster(folder)
    X, y = data(files)
    began = time.monotonic()
    alone, blocks = amc.numerics.find_mode(amc.targets.LogisticRegression(X, y)), len(X.offsets) - 1
    seconds = round(time.monotonic() - began, 1)
    for k, fault in enumerate(faults):
        started = time.monotonic()
        log, notes = f"client-{k}", folder / f"read-{k}.log"
        notes.touch()
        command = ("-m", "tests.faults.search", cluster.address, str(notes), *([files] if files else []))
        if fault == "slow link":
            cluster.network.slow_down("worker-1")
        found: dict = {"fault": fault, "rows": len(X), "blocks": blocks, "seconds alone": seconds}
        first, wanted = cluster.start("client", *command, log=log), int(rng.integers(2, blocks + 1))
        wait_until(
            lambda n=wanted, run=first, notes=notes: len(notes.read_text().split()) >= n or run.poll() is not None,
            "the first parts",
        )
        cluster.make(fault)
        began = time.monotonic()
        found |= {"exit codes": [ended(first)], "message": cluster.said(log)}
        found["seconds to the end"] = round(time.monotonic() - began, 1)
        read = notes.read_text().split()
        found |= {"read before": wanted, "read again": len(read) - len(set(read))}
        if fault == "slow link":
            found["dropped"], found["waits"] = cluster.network.held_up("worker-1")
        cluster.mend(fault)
        if found["exit codes"] != [0]:
            found["exit codes"].append(ended(cluster.start("client", *command, log=log)))
        mode = np.array(json.loads(cluster.said(log))["mode"])
        found["distance"] = float(np.abs(mode - alone.theta).max() / np.abs(alone.theta).max())
        yield {**found, "seconds": round(time.monotonic() - started)}


def main() -> None:
    """Make faults as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["study", "search"])
    parser.add_argument("faults", nargs="+", metavar="FAULT", choices=FAULTS)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--files", default="", help="for a search: Parquet files with columns x0, x1, ... and y")
    options = parser.parse_args()
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    work = {"study": study, "search": search}[options.work]
    with tempfile.TemporaryDirectory() as folder:
        try:
            for found in work(options.faults, np.random.default_rng(seed), Path(folder), options.files):
                print(json.dumps({"work": options.work, "seed": seed, **found}), flush=True)
        except BaseException:
            for path in sorted(Path(folder).glob("*.log")):
                print(f"--- {path.name}\n{path.read_text()[-2000:]}", file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
