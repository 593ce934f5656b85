"""Search for a mode on the Dask cluster of an address, as a client on a separate host; log each reading of rows.

    python -m tests.faults.search tcp://10.77.0.1:8786 read.log [FOLDER]

The rows are simulated, or those of the Parquet files x0, x1, ... and y in a folder. Prints one line of JSON: the mode,
how many passes it took and how many seconds.
"""

import json
import sys
import time
from pathlib import Path

import distributed
import numpy as np

import approxmcmc as amc
from approxmcmc.engine.terms import partitions
from approxmcmc.sources import Arrays, DataSource, ParquetFolder
from tests.faults.workers import PARTS, Noted, simulated

ROWS = 16_000


class NotedFiles(ParquetFolder):
    """Parquet files that note each reading of a block."""

    log: str = ""

    def _read(self, block: int) -> np.ndarray:
        if self.log:
            with Path(self.log).open("a", encoding="ascii") as file:
                file.write(f"{block}\n")
        return super()._read(block)


def data(folder: str = "") -> tuple[DataSource, DataSource]:
    """Return X and y."""
    if not folder:
        X, y = simulated(ROWS)
        return Noted(X), Arrays(y)
    columns = [name for name in ParquetFolder(folder).columns if name != "y"]
    return NotedFiles(folder)[columns], ParquetFolder(folder)["y"]


def main(address: str, log: str, folder: str = "") -> None:
    """Search for the mode, and print it."""
    X, y = data(folder)
    target = amc.targets.LogisticRegression(X, y)
    X.log = log  # from here on: those of the workers
    if not folder:
        partitions.spans.__defaults__ = (ROWS // PARTS,)
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=600)
        began = time.monotonic()
        mode = amc.numerics.find_mode(target)
        seconds = time.monotonic() - began
    print(json.dumps({"mode": mode.theta.tolist(), "passes": mode.passes, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
