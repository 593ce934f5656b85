"""A logistic regression from Parquet files, from the first byte to a posterior: what each phase takes.

    python -m tests.bench.scale 1e7 --folder FOLDER [--columns 10] [--workers 2] [--simulate]

The files are simulated in blocks of float32 with known coefficients, in a folder 1e7x10 of FOLDER, and stay there; the
files that the run itself writes are in a separate cache there, which is removed. Prints one line of JSON: seconds and
passes of each phase, the peak of anonymous memory (RssAnon of this process and its workers, measured every 20 ms), and
the posterior compared with the truth, in posterior standard deviations.
"""

import argparse
import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FIRST = (-1.5, 1.0, -0.8, 0.6, -0.4, 0.3, -0.2, 0.1, 0.05, 0.0)  # coefficients, of the constant first; others are 0
VALUES = 10_000_000  # of a block


def truth(columns: int) -> np.ndarray:
    """Return the coefficients."""
    return np.array([*FIRST, *[0.0] * (columns - len(FIRST))])


def simulate(n: int, columns: int, folder: Path) -> None:
    """Write the files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rows = VALUES // columns
    for k in range(n // rows):
        rng = np.random.default_rng([22, k])
        X = rng.standard_normal((rows, columns), dtype=np.float32)
        X[:, 0] = 1.0
        y = rng.random(rows) < 1.0 / (1.0 + np.exp(-(X @ truth(columns))))
        table = pa.table({**{f"x{j}": X[:, j] for j in range(columns)}, "y": y.astype(np.int8)})
        pq.write_table(table, folder / f"part-{k:05d}.parquet", row_group_size=rows, use_dictionary=False)


def anonymous_bytes(pids: list[int]) -> int:
    """Return the anonymous memory (RssAnon) of some processes, in bytes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
            total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return total


class Peak:
    """The largest anonymous memory of this process (`own`), and with its workers (`all`), since they were set to 0."""

    def __init__(self) -> None:
        self.workers: list[int] = []
        self.own = self.all = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.own = max(self.own, anonymous_bytes([os.getpid()]))
            self.all = max(self.all, anonymous_bytes([os.getpid(), *self.workers]))
            time.sleep(0.02)


@contextlib.contextmanager
def cluster_of(workers: int, peak: Peak) -> Iterator[None]:
    """Start this number of worker processes with one thread each; with 0 this process makes all passes."""
    if not workers:
        yield
        return
    import distributed

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        peak.workers = list(client.run(os.getpid).values())
        yield


def measure(folder: Path, columns: int, workers: int, draws: int) -> dict:
    """Run, and return the seconds and passes of each phase, the memory, and the comparison with the truth."""
    import approxmcmc as amc
    from approxmcmc.sources import ParquetFolder

    seconds, peaks, peak = {}, {}, Peak()

    @contextlib.contextmanager
    def phase(name: str) -> Iterator[None]:
        peak.own = peak.all = 0
        began = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - began, 3)
        time.sleep(0.03)
        peaks[name] = [round(peak.own / 1e9, 3), round(peak.all / 1e9, 3)]

    with cluster_of(workers, peak):
        with phase("lay out"):
            rows = ParquetFolder(folder)
            X, y = rows[[f"x{j}" for j in range(columns)]], rows["y"]
            np.asarray(X), np.asarray(y.astype(np.float64))
        with phase("check"):
            target = amc.targets.LogisticRegression(X, y, prior_scale=10.0)
        with phase("mode"):
            fit = amc.laplace(target)
        with phase("influential rows"):
            split = amc.ControlVariate(target, always_read="auto", at=fit)
        with phase("bounds"):
            split.compile_difference_bound()
    sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.acceptance.PoissonTest())
    with phase("sample"):
        trace = amc.sample(split, sampler, draws=draws, tune=100, chains=2, random_seed=1, progressbar=False)
    beta = trace.posterior["beta"].to_numpy().reshape(-1, columns)
    sd = beta.std(axis=0)
    return {
        "rows": len(X),
        "columns": columns,
        "threads": int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1)),
        "workers": workers,
        "seconds": seconds,
        "peak_GB_own_and_all": peaks,
        "passes": {"mode": fit.passes, "influential rows": int(split.setup_attrs["setup_expansion_passes"])},
        "influential": len(split.always_read),
        "data_per_step": float(trace.sample_stats["datapoints_touched"].mean()),
        "sampling_seconds": float(trace.posterior.attrs["sampling_time"]),
        "acceptance": float(trace.sample_stats["accepted"].mean()),
        "mode": fit.mode.tolist(),
        "z": np.round((beta.mean(axis=0) - truth(columns)) / sd, 2).tolist(),
        "sd": sd.tolist(),
    }


def main() -> None:
    """Simulate where asked, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=float)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--simulate", action="store_true")
    options = parser.parse_args()
    name = f"{options.rows:.0e}".replace("+0", "")
    folder, cache = options.folder / f"{name}x{options.columns}", options.folder / "cache"
    if options.simulate and not folder.exists():
        simulate(int(options.rows), options.columns, folder)
    shutil.rmtree(cache / "laid_out_rows", ignore_errors=True)
    os.environ["APPROXMCMC_CACHE_DIR"] = str(cache)
    print(json.dumps(measure(folder, options.columns, options.workers, options.draws)))
    shutil.rmtree(cache / "laid_out_rows", ignore_errors=True)


if __name__ == "__main__":
    main()
