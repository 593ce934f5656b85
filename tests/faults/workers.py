"""Kill -9 the workers of a Dask cluster in the middle of a search for a mode, again and again.

    python -m tests.faults.workers --kills 25 --seed 1

Two workers hold the rows in eight parts. In each try one of them is killed at a random moment, once the search has
begun; the other worker continues. The mode is compared with that of one process. Every reading of
a block of rows is noted in a file: an undisturbed search reads each part once, and one that lost a worker may
read again what that worker held, and not more.

Prints one line of JSON: kills, modes compared, how many differ by more than 1e-8, which must be 0, and the parts that
were read more than once.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.sources import Arrays

ROWS, PARTS = 4000, 8
PER_PART = ROWS // PARTS


class Noted(Arrays):
    """Arrays that note each reading of a block."""

    log: str = ""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.offsets = np.linspace(0, len(array), PARTS + 1).astype(np.int64)

    def _read(self, block: int) -> np.ndarray:
        if self.log:
            with Path(self.log).open("a", encoding="ascii") as file:
                file.write(f"{block}\n")
        return super()._read(block)


def simulated(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y of a logistic regression, the same in every call."""
    rng = np.random.default_rng(22)
    X = rng.normal(size=(rows, 3))
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(float)


@contextlib.contextmanager
def two_workers() -> Iterator[Any]:
    """Start two worker processes with a thread each, and their client."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def kill_workers(kills: int, rng: np.random.Generator, folder: Path) -> dict:
    """Search for the mode with a worker killed each time, `kills` times in all; return the counts."""
    import approxmcmc as amc
    from approxmcmc.engine.terms import partitions

    os.environ["APPROXMCMC_CACHE_DIR"] = str(folder / "cache")
    partitions.spans.__defaults__ = (PER_PART,)
    X, y = simulated(ROWS)
    alone = amc.numerics.find_mode(amc.targets.LogisticRegression(X, y))
    found = {"kills": 0, "ends": 0, "different": 0, "read again": 0, "most read again": 0}
    seconds = 0.0
    while found["kills"] < kills:
        with two_workers() as client:  # new ones for each try: a nanny does not bring back every worker that was killed
            warm = amc.targets.LogisticRegression(Noted(X), Arrays(y))
            began = time.monotonic()
            assert amc.numerics.find_mode(warm).passes == alone.passes  # workers import what they need
            seconds = seconds or 0.5 * (time.monotonic() - began)
            log, rows = folder / f"read-{found['ends']}.log", Noted(X)
            target = amc.targets.LogisticRegression(rows, Arrays(y))  # a new one: no worker holds parts of it yet
            rows.log = str(log)
            victim, delay = int(rng.integers(2)), float(rng.uniform(0.0, seconds))
            pids, done = list(client.run(os.getpid).values()), threading.Event()
            killer = threading.Thread(target=_kill, args=(pids[victim], delay, done, found))
            killer.start()
            began = time.monotonic()
            mode = amc.numerics.find_mode(target)
            seconds = min(seconds, time.monotonic() - began)
            done.set()
            killer.join()
        off = np.abs(mode.theta - alone.theta).max() / np.abs(alone.theta).max()
        found["different"] += bool(off > 1e-8)
        again = len(log.read_text().split()) - PARTS
        found["read again"] += again
        found["most read again"] = max(found["most read again"], again)
        found["ends"] += 1
        print(found, file=sys.stderr, flush=True)
    return found


def _kill(pid: int, delay: float, done: threading.Event, found: dict) -> None:
    """Kill a process after a time, unless the search has ended by then."""
    if not done.wait(delay):
        os.kill(pid, signal.SIGKILL)
        found["kills"] += 1


def main() -> int:
    """Read the command line, kill workers, print the counts; return 1 if a mode differed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = kill_workers(options.kills, np.random.default_rng(seed), Path(folder))
    print(json.dumps({"what": "mode", "seed": seed, **found, "seconds": round(time.monotonic() - began)}))
    return int(found["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
