"""False alarms: models of the street whose NUTS run is clean, five seeds each, and the warnings of our runs.

``python -m studies.street.alarms`` writes ``MODEL-alarms.json`` for each model that has none, and ``alarms.csv``. A
model is clean when its cell ``long``, or else ``nutpie``, has R-hat below 1.01, 400 effective draws or more, bulk and
tail, and no divergence. Seeds of a model share a process, so that it compiles once.
"""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from approxmcmc.engine.files.whole_files import whole_file
from studies.street.__main__ import environment
from studies.street.cell import ours
from studies.street.models import WRITTEN, model
from studies.street.table import ENOUGH

SEEDS = range(11, 16)
MOST_RHAT = 1.01


def is_clean(folder: Path, name: str) -> bool:
    """Return whether there is a NUTS run of a model and it passes its checks."""
    files = [folder / f"{name}-{state}.json" for state in ("long", "nutpie")]
    result = next((json.loads(file.read_text()) for file in files if file.exists()), {})
    enough = min(result.get("ess_bulk", 0.0), result.get("ess_tail", 0.0)) >= ENOUGH
    return enough and result["rhat"] < MOST_RHAT and not result["problems"]


def told(name: str) -> list[dict[str, Any]]:
    """Return the warnings of a model's runs, one run for each seed."""
    drawn_model = model(name)
    runs = {seed: ours(drawn_model, seed) for seed in SEEDS}
    return [{"model": name, "seed": k, "chosen": run.sampler, "problems": run.problems} for k, run in runs.items()]


def main() -> None:
    """Read the command line, run missing models, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/street"))
    parser.add_argument("--model", action="append", default=[], choices=WRITTEN, help="only this model; repeatable")
    parser.add_argument("--one", choices=WRITTEN, help="run a model here, and print the warnings")
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.write(json.dumps(told(arguments.one)) + "\n")
        return
    clean = [name for name in arguments.model or WRITTEN if is_clean(arguments.out, name)]
    files = {name: arguments.out / f"{name}-alarms.json" for name in clean}
    for name, file in files.items():
        if file.exists():
            continue
        command = [sys.executable, "-m", "studies.street.alarms", "--one", name]
        done = subprocess.run(
            command, env=environment(arguments.out / "base"), capture_output=True, text=True, check=True
        )
        with whole_file(file) as path:
            path.write_text(done.stdout.splitlines()[-1])
        sys.stderr.write(f"{name} {done.stdout.splitlines()[-1][:300]}\n")
    rows = itertools.chain.from_iterable(json.loads(file.read_text()) for file in files.values() if file.exists())
    table = pd.DataFrame([{**row, "problems": " | ".join(row["problems"])} for row in rows])
    table.to_csv(arguments.out / "alarms.csv", index=False)
    warned = int((table["problems"] != "").sum())
    sys.stdout.write(f"{len(table)} runs of {len(files)} clean models, {warned} warned\n")


if __name__ == "__main__":
    main()
