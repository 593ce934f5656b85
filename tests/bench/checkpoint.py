"""The cost of checkpoints: a run with them and the same run, saved only at the end, take turns in one process.

    python -m tests.bench.checkpoint --pairs 4 --draws 60000

Two chains on one thread, logistic regression, N = 12 214, 50 coefficients, a test that reads 500 rows at a time;
`--thin N` keeps one draw of N. Prints a line of JSON: the seconds of the run without checkpoints and of `save`; the
share of the seconds that chains waited for checkpoints, as the trace reports; and the ratios of the run with
checkpoints to that without, and to that without plus `save`, in wall-clock and CPU seconds. Each is a list of median,
smallest and largest value.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic


def seconds_of(act: Callable[[], object]) -> np.ndarray:
    """Return the wall-clock seconds and the CPU seconds of a call."""
    began = np.array([time.perf_counter(), time.process_time()])
    act()
    return np.array([time.perf_counter(), time.process_time()]) - began


def overhead(pairs: int, draws: int, thin: int) -> dict:
    """Return the results of `pairs` pairs of runs; a first run, which compiles and imports, is left out."""
    target = amc.targets.LogisticRegression(*synthetic_logistic(12_214, 50, seed=0))
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(0.05, batch_size=500))
    options = {"tune": 0, "chains": 2, "cores": 1, "random_seed": 1, "audit_every": None, "progressbar": False}
    options["thin"] = thin
    found: dict[str, list] = {name: [] for name in ("alone", "save", "share", "with", "checkpoints")}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)  # how well the chains mix is not the question
        kept, saved = Path(folder) / "run.nc", Path(folder) / "trace.nc"
        traces: dict[str, xr.DataTree] = {}

        def sample(checkpoint: Path | None, draws: int = draws) -> None:
            traces["last"] = amc.sample(target, sampler, draws=draws, checkpoint=checkpoint, **options)

        def with_checkpoints() -> None:
            kept.unlink(missing_ok=True)
            found["with"].append(seconds_of(lambda: sample(kept)))
            told = traces["last"]["sample_stats"].attrs
            found["share"].append(told["checkpoint_seconds"] / found["with"][-1][0])
            found["checkpoints"].append(told["checkpoints"])

        def without() -> None:
            found["alone"].append(seconds_of(lambda: sample(None)))
            found["save"].append(seconds_of(lambda: amc.save(traces["last"], saved)))

        sample(kept, 100)
        amc.save(traces["last"], saved)
        for pair in range(pairs):
            for act in (with_checkpoints, without)[:: 1 if pair % 2 else -1]:
                act()
        size = kept.stat().st_size
    alone, save, together = (np.array(found[name]).T for name in ("alone", "save", "with"))
    ratios = {"ratio to alone": together / alone, "ratio to alone and save": together / (alone + save)}
    return {
        "seconds alone": _three(alone[0]),
        "seconds of save": _three(save[0]),
        "share of standing still": _three(np.array(found["share"])),
        **{name: _three(of_clock) for name, (of_clock, _) in ratios.items()},
        **{f"{name}, processors": _three(of_processors) for name, (_, of_processors) in ratios.items()},
        "checkpoints": found["checkpoints"],
        "megabytes": round(size / 1e6),
    }


def _three(values: np.ndarray) -> list[float]:
    return [round(float(f(values)), 4) for f in (np.median, np.min, np.max)]


def main() -> None:
    """Read the command line, measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--draws", type=int, default=60_000)
    parser.add_argument("--thin", type=int, default=1)
    options = vars(parser.parse_args())
    print(json.dumps(options | overhead(**options)))


if __name__ == "__main__":
    main()
