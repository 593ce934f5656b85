"""The command line: ``python -m studies.street --help``."""

import argparse
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import studies.street
from approxmcmc.engine.files.whole_files import whole_file
from studies.street.models import BEFORE, WRITTEN
from studies.street.table import table

STATES = ("new", "again", "nutpie", "long")
WHO = {"new": "ours", "again": "ours", "nutpie": "nutpie", "long": "long"}
MOST_SECONDS = 300  # limit of CPU seconds for a cell


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a cell: one thread for each chain, and separate caches."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    flags = f"base_compiledir={cache.resolve() / 'pytensor'}"
    return {**os.environ, **threads, "APPROXMCMC_CACHE_DIR": str(cache.resolve()), "PYTENSOR_FLAGS": flags}


def carry_out(name: str, who: str, seed: int, cache: Path) -> dict[str, Any]:
    """Run a cell in a separate process; if it fails, the reason is the signal or the last line of standard error."""
    command = [sys.executable, "-m", "studies.street.cell", name, who, str(seed)]
    done = subprocess.run(
        command,
        env=environment(cache),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS)),
    )
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    reason = f"killed by signal {-done.returncode}" if done.returncode < 0 else (done.stderr.splitlines() or ["?"])[-1]
    return {"model": name, "who": who, "seed": seed, "error": reason}


def fresh_cache(folder: Path, name: str, state: str) -> Path:
    """Return the folder of a cell's caches: a copy of those of a machine where the library and nutpie have run.

    For `again`, return the caches that `new` has left; if they are gone, run the model once for them.
    """
    base = folder / "base"
    mine = folder / f"cache_{name}_{WHO[state]}"
    if not base.exists():
        making = folder / "base_in_the_making"
        subprocess.run([Path(sys.executable).parent / "approxmcmc", "warm"], env=environment(making), check=True)
        for before, who in itertools.product(BEFORE, ("ours", "nutpie")):
            carry_out(before, who, 0, making)
        making.rename(base)
    if state != "again" or not mine.exists():
        shutil.rmtree(mine, ignore_errors=True)
        shutil.copytree(base, mine)
    if state == "again" and not (folder / f"{name}-new.json").exists():
        carry_out(name, "ours", 0, mine)
    return mine


def main() -> None:
    """Read the command line, run missing cells, and write the table."""
    parser = argparse.ArgumentParser(
        description=studies.street.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", default=[], choices=WRITTEN, help="only this model; repeatable")
    parser.add_argument("--state", action="append", default=[], choices=STATES, help="only this state; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/street"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, state in itertools.product(arguments.model or WRITTEN, arguments.state or STATES):
        file = arguments.out / f"{name}-{state}.json"
        if file.exists():
            continue
        cache = fresh_cache(arguments.out, name, state)
        result = {**carry_out(name, WHO[state], arguments.seed, cache), "state": state}
        if state != "new":
            shutil.rmtree(cache)
        with whole_file(file) as path:
            path.write_text(json.dumps(result))
        short = {
            key: result.get(key)
            for key in ("error", "cpu", "wall", "ess_bulk", "ess_tail", "rhat", "sampler", "problems")
        }
        sys.stderr.write(f"{name} {state} {short}\n")
        table(arguments.out).to_csv(arguments.out / "street.csv", index=False)
    sys.stdout.write(table(arguments.out).to_string(index=False) + "\n")


if __name__ == "__main__":
    main()
