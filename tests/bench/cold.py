"""CPU seconds of a whole process to 400 effective draws: on an empty cache, on a full one, and by nutpie.

``python -m tests.bench.cold [MODEL ...] [--write FILE]``. A process imports, makes the model, samples by default until
bulk and tail ESS of the worst parameter are 400, and exits; its CPU time is what the system charges for it, so that
other work on the machine counts little. *Cold*: no kernel of ours and nothing of PyTensor's on disk; *warm*: the
second process on the same folders. nutpie has a process of its own for PyMC models, with its caches full; it draws 100
more per chain, from 100 on, until it has 400, too, and only its last run counts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ENOUGH = 400.0
BUILT_IN = ("LogisticRegression", "RobustRegression", "SoftmaxRegression", "GaussianMixture", "NormalGroups")
OF_PYMC = (
    "pymc_bernoulli", "pymc_poisson_with_offset", "pymc_negative_binomial", "pymc_student_t", "pymc_varying_intercepts",
    "pymc_few_rows",
)  # fmt: skip
MODELS = (*BUILT_IN, "dense_1e5", *OF_PYMC)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
HEADER = "| model | cold | warm | nutpie |\n|---|---|---|---|\n"
LONGEST = 900  # seconds on the wall for one process


def ours(model: str) -> None:
    """Sample by default."""
    import approxmcmc as amc

    amc.sample(_made(model), target_ess=ENOUGH, cores=1, random_seed=1, progressbar=False)


def nutpies(model: str, draws: int) -> float:
    """Sample by nutpie; return the smallest bulk or tail ESS."""
    import arviz_stats as az
    import nutpie

    compiled = nutpie.compile_pymc_model(_made(model))
    trace = nutpie.sample(compiled, draws=draws, chains=4, cores=1, seed=1, progress_bar=False)
    return min(float(az.ess(trace.posterior, method=how).to_array().min()) for how in ("bulk", "tail"))


def _made(model: str) -> object:
    from approxmcmc.cli.warm import examples
    from studies.race.models import MODELS as RACE

    return RACE[model]() if model in RACE else examples()[model]()


def seconds_of(*arguments: str, environment: Mapping[str, str]) -> tuple[float, str]:
    """Run this file in a process of its own; return its CPU seconds and its last line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.cold", "--only", *arguments]
    settings = {"env": {**os.environ, **environment}, "timeout": LONGEST, "check": False}
    run = subprocess.run(command, capture_output=True, text=True, **settings)  # noqa: PLW1510 (among the settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, (run.stdout.split() or [""])[-1]


def row(model: str) -> str:
    """Measure one model, and return its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = {"APPROXMCMC_CACHE_DIR": f"{folder}/ours", "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor"}
        environment = {**dict.fromkeys(THREADS, "1"), **place}
        cold, warm = (seconds_of(model, "0", environment=environment)[0] for _ in range(2))
        rival, draws, reached = float("nan"), 0, 0.0
        while model.startswith("pymc_") and reached < ENOUGH and draws < 2000:
            draws += 100
            rival, told = seconds_of(model, str(draws), environment=environment)
            reached = float(told)
    return f"| {model} | {cold:.1f} | {warm:.1f} | {'' if draws == 0 else f'{rival:.1f}'} |\n"


def main() -> None:
    """Print the table, row by row, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--only", nargs=2, metavar=("MODEL", "DRAWS"), help="in a process of its own; 0 draws are ours")
    parser.add_argument("--write", type=Path, help="where the table goes")
    args = parser.parse_args()
    if args.only:
        model, draws = args.only[0], int(args.only[1])
        print(json.dumps(nutpies(model, draws)) if draws else ours(model) or "")
        return
    table = HEADER
    for model in args.models or MODELS:
        table += row(model)
        print(table.splitlines()[-1], flush=True)
    if args.write:
        args.write.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
