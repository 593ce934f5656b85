"""CPU seconds of a whole process to 400 effective draws: on an empty cache, on a full one, and by nutpie.

``python -m tests.bench.cold [MODEL ...] [--states STATE ...]`` measures and writes ``docs/_static/cold.csv``, a row for
each model, from which the page on the engine draws its table; a state that is not measured keeps its figure. A process
imports, makes the model, samples by default until bulk and tail ESS of the worst parameter are 400, and exits; its CPU
time is what the system charges for it, so that other work on the machine counts little.

- *cold*: neither a kernel of ours nor anything of PyTensor's on disk; *warm*: the second process on the same folders.
- *shipped*: as cold, with the kernels in the folder that ``APPROXMCMC_KERNELS`` names (``tests/package/kernels.py``).
- *nutpie new*, *nutpie again*: for PyMC models, with PyTensor's folder empty and full. A process draws 100 times in
  each of four chains; if that gave fewer than 400 effective draws, a longer one starts, and the last process counts.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ENOUGH = 400.0
LONGEST = 900  # limit of wall-clock seconds for one process
AT_MOST = 2000  # draws of one chain of nutpie
TABLE = Path(__file__).parents[2] / "docs" / "_static" / "cold.csv"
STATES = ("cold", "shipped", "nutpie")
COLUMNS = ("model", "kernels", "cold", "warm", "shipped", "nutpie new", "nutpie again")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
SETTINGS = {**ONE_THREAD, "PYTHONDONTWRITEBYTECODE": ""}  # bytecode is kept, as an installer does
ROWS, GROUPS = 10_000, 400  # of the PyMC models


def hierarchy() -> Any:
    """Return a normal PyMC hierarchy of 12 000 rows, not centred."""
    import numpy as np
    import pymc as pm

    rng = np.random.default_rng(1)
    group, x = rng.integers(0, GROUPS, size=12_000), rng.normal(size=12_000)
    y = rng.normal(size=GROUPS)[group] + 0.5 * x + rng.normal(size=12_000)
    with pm.Model() as model:
        mean, slope = pm.Normal("mean", 0.0, 5.0), pm.Normal("slope", 0.0, 2.0)
        sd, noise = pm.HalfNormal("sd", 2.0), pm.HalfNormal("noise", 2.0)
        effect = pm.Normal("effect", 0.0, 1.0, shape=GROUPS)
        pm.Normal("y", mean + sd * effect[group] + slope * x, noise, observed=y)
    return model


def models() -> dict[str, Callable[[], Any]]:
    """Return functions that make the models, by their names in the table."""
    from approxmcmc.cli.warm import KINDS, MANY, examples, logistic
    from studies.race import models as race

    small = examples()
    return {
        "logistic 1000 x 10": lambda: logistic(1000),
        "logistic 1e5, rare categories": lambda: logistic(MANY, KINDS),
        "Student regression": small["RobustRegression"],
        "softmax regression": small["SoftmaxRegression"],
        "normal groups": small["NormalGroups"],
        "binary groups": small["GroupedTarget, binary"],
        "PyMC Bernoulli": lambda: race.regression(race.bernoulli, ROWS),
        "PyMC Poisson": lambda: race.regression(race.poisson_with_offset, ROWS),
        "PyMC negative binomial": lambda: race.regression(race.negative_binomial, ROWS),
        "PyMC Student": lambda: race.regression(race.student_t, ROWS),
        "PyMC logistic hierarchy": lambda: race.varying_intercepts(ROWS),
        "PyMC normal hierarchy": hierarchy,
    }


def use_shipped_kernels() -> None:
    """Read the kernels of a wheel from the folder in the environment: before a model is made, which may compile."""
    from approxmcmc.engine.compiler import shipped

    if brought := os.environ.get("KERNELS_OF_THE_WHEEL"):
        shipped.FOLDER = Path(brought)


def ours(model: Any) -> int:
    """Sample by default; return the number of kernels compiled."""
    import approxmcmc as amc
    from approxmcmc.engine.compiler.compilations import compiled_so_far

    amc.sample(model, target_ess=ENOUGH, cores=1, random_seed=1, progressbar=False)
    return compiled_so_far().kernels


def nutpies(model: Any, draws: int) -> float:
    """Sample by nutpie; return the smallest bulk or tail ESS."""
    import arviz_stats as az
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    trace = nutpie.sample(compiled, draws=draws, chains=4, cores=1, seed=1, progress_bar=False)
    posterior = trace.posterior.to_dataset()
    return min(float(az.ess(posterior, method=how).to_array().min()) for how in ("bulk", "tail"))


def seconds_of(model: str, draws: int, environment: Mapping[str, str]) -> tuple[float, float]:
    """Run this file in a separate process; return its CPU seconds and the number that it printed last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.cold", model, "--draws", str(draws)]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=LONGEST, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, float(json.loads(run.stdout.split()[-1]))


def measured(model: str, states: list[str]) -> Iterator[tuple[str, float]]:
    """Yield the figures of one model by column."""
    with tempfile.TemporaryDirectory() as folder:
        place = {"APPROXMCMC_CACHE_DIR": f"{folder}/ours", "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor"}
        if "cold" in states:  # and warm, which needs it
            seconds, kernels = seconds_of(model, 0, SETTINGS | place)
            yield from (("cold", seconds), ("kernels", kernels), ("warm", seconds_of(model, 0, SETTINGS | place)[0]))
        if "shipped" in states and (kernels := os.environ.get("APPROXMCMC_KERNELS")):
            empty = {"APPROXMCMC_CACHE_DIR": f"{folder}/none", "PYTENSOR_FLAGS": f"base_compiledir={folder}/empty"}
            brought = {"APPROXMCMC_SHIPPED": "1", "KERNELS_OF_THE_WHEEL": kernels}
            yield "shipped", seconds_of(model, 0, SETTINGS | empty | brought)[0]
        if "nutpie" in states and model.startswith("PyMC"):
            place["PYTENSOR_FLAGS"] = f"base_compiledir={folder}/nutpies"
            draws, (first, reached) = 100, seconds_of(model, 100, SETTINGS | place)
            again, reached = seconds_of(model, draws, SETTINGS | place)
            while reached < ENOUGH and draws < AT_MOST:
                draws = min(AT_MOST, math.ceil(1.1 * draws * ENOUGH / reached))
                longer, reached = seconds_of(model, draws, SETTINGS | place)
                first, again = first + longer - again, longer
            yield from (("nutpie new", first), ("nutpie again", again))


def main() -> None:
    """Measure models one after another, and write each figure as soon as it exists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names in the table; all by default")
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--table", type=Path, default=TABLE, help="the file that is written")
    parser.add_argument("--draws", type=int, help="run one model in this process: 0 is ours, else nutpie's draws")
    args = parser.parse_args()
    if args.draws is not None:
        use_shipped_kernels()
        model = models()[args.models[0]]()
        print(json.dumps(nutpies(model, args.draws) if args.draws else ours(model)))
        return
    import pandas as pd  # not in the processes that are measured

    table = pd.read_csv(args.table) if args.table.exists() else pd.DataFrame(columns=COLUMNS)
    table = table.set_index("model").reindex(index=list(models()), columns=list(COLUMNS[1:])).astype(float)
    for model in args.models or models():
        for column, value in measured(model, args.states):
            table.loc[model, column] = round(value, 1)
            table.to_csv(args.table)
            print(model, column, round(value, 1), flush=True)


if __name__ == "__main__":
    main()
