"""The same seed under other loads: runs of a model in separate processes, and whether their draws are equal.

``python -m studies.street.repeats MODEL --runs 20`` keeps 0, 2, ..., 8 other processes busy while it runs, and prints
how many runs had each hash of the draws and chosen sampler: one line if all are equal.
"""

import argparse
import collections
import hashlib
import subprocess
import sys
from pathlib import Path

from studies.street.__main__ import environment
from studies.street.models import WRITTEN, model

LOADS = (0, 2, 4, 6, 8)
BUSY = [sys.executable, "-c", "while True: pass"]


def draws_of(name: str) -> str:
    """Return a hash of the draws of a run, and the chosen sampler."""
    import approxmcmc as amc

    trace = amc.sample(model(name), random_seed=1, progressbar=False)
    digest = hashlib.blake2b(digest_size=8)
    for variable in sorted(map(str, trace["posterior"].data_vars)):
        digest.update(trace["posterior"][variable].to_numpy().tobytes())
    return f"{digest.hexdigest()} {trace['sample_stats'].attrs['chosen']}"


def main() -> None:
    """Read the command line, and repeat a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=WRITTEN)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/street"))
    parser.add_argument("--one", action="store_true", help="run once, and print the hash of the draws")
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.write(f"{draws_of(arguments.model)}\n")
        return
    times_of_line = collections.Counter[str]()
    command = [sys.executable, "-m", "studies.street.repeats", arguments.model, "--one"]
    for k in range(arguments.runs):
        busy = [subprocess.Popen(BUSY) for _ in range(LOADS[k % len(LOADS)])]
        try:
            done = subprocess.run(
                command, env=environment(arguments.out / "base"), capture_output=True, text=True, check=True
            )
        finally:
            for process in busy:
                process.kill()
        times_of_line[done.stdout.splitlines()[-1]] += 1
    for line, times in times_of_line.items():
        sys.stdout.write(f"{times} of {arguments.runs}: {line}\n")


if __name__ == "__main__":
    main()
