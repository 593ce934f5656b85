"""Time to answer: from the start of a process to 400 effective draws of the worst parameter, everything included.

Each answer runs in a separate process with one thread; its time is CPU time of that process, so that other work on the
machine counts little. It includes Python, imports, set-up, compilation, tuning and draws. Ours is `amc.sample` with
``target_ess=400``, a time limit, one core, and no further settings. A rival draws a thousand times, or as often as its
limit allows; the part of its time that its draws took is scaled to 400 effective draws. The time to turn a PyMC model
into a target is not part of a rival's time.

- *cold*: no kernel of this library is compiled yet; *warm*: the third process on one cache. A rival has one time.
- *shift*: the largest difference of a posterior mean from that of the reference, in posterior standard deviations;
  the next column has the value that two unbiased samplers with these effective sizes exceed one time in 20. The
  reference is the answer with the most effective draws, those of ADVI excluded.
"""

import argparse
import functools
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import approxmcmc as amc
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import SamplingWarning
from studies.race.models import MODELS
from studies.race.table import two_digits

ENOUGH = 400.0  # effective draws
DRAWS = 1000  # draws of a rival
TUNE = 1000  # warm-up steps of a rival
WORST = 0.95  # quantile of the largest shift of unbiased samplers
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
OURS = "approxmcmc"
RIVALS: dict[str, Callable[[], Any]] = {
    "nutpie": functools.partial(amc.NUTS, tune=TUNE, backend="nutpie"),
    "PyMC NUTS": functools.partial(amc.NUTS, tune=TUNE, backend="pymc"),
    "numpyro NUTS": functools.partial(amc.whole_chains.NumPyroNUTS, tune=TUNE),
    "blackjax NUTS": functools.partial(amc.whole_chains.BlackjaxNUTS, tune=TUNE),
    "PyMC ADVI": amc.whole_chains.PyMCADVI,
}
BIASED = ("PyMC ADVI",)
PRESETS = {
    "smoke": (("smoke",), (OURS, "PyMC ADVI"), 5.0),
    "quick": (("dense_1e3", "dense_1e4", "mnist_7v9", "pymc_bernoulli"), (OURS, "nutpie"), 60.0),
    "paper": (tuple(name for name in MODELS if name != "smoke"), (OURS, *RIVALS), 1800.0),
}


# --- one answer, in a separate process ---


def answer(model: str, who: str, limit: float, seed: int) -> dict[str, Any]:
    """Draw from a model by the contender `who`, in at most `limit` seconds; return seconds, ESS, means and sds."""
    model_or_target = MODELS[model]()
    if who == OURS:
        trace = amc.sample(
            model_or_target, target_ess=ENOUGH, time_limit=limit, cores=1, random_seed=seed, progressbar=False
        )
        processor_seconds = time.process_time()
        chosen = str(trace["sample_stats"].attrs["chosen"])
        return {"setup": 0.0, **_moments(trace), "sampler": chosen, "spent": processor_seconds}
    began = time.process_time()
    target = amc.from_pymc(model_or_target) if model.startswith("pymc_") else model_or_target
    converted = time.process_time() - began
    # Start as PyMC does, at the initial point plus uniform noise: nutpie fails at a point where a derivative is exactly
    # 0, such as sigma = 1 under HalfNormal(1).
    start = target.initial_point() + np.random.default_rng(seed).uniform(-1.0, 1.0, target.variables.size)
    began = time.process_time()
    how = {"chains": 1, "cores": 1, "random_seed": seed, "initvals": start, "time_limit": limit, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)  # one chain of a rival: its moments are compared later
        trace = amc.sample(target, RIVALS[who](), draws=DRAWS, **how)
    ran = time.process_time() - began
    processor_seconds = time.process_time() - converted
    kept = float(trace["sample_stats"]["perf_counter_diff"].sum())
    attrs = trace["sample_stats"].attrs
    before = float(np.sum(attrs["tuning_perf_counter_diff"])) + float(np.nan_to_num(attrs["setup_compile_seconds"]))
    drawing = ran * kept / (kept + before) if kept > 0.0 else 0.0
    return {"setup": processor_seconds - drawing, **_moments(trace), "sampler": who, "spent": processor_seconds}


def _moments(trace: Any) -> dict[str, Any]:
    import arviz as az

    posterior = trace["posterior"].to_dataset()
    moments: dict[str, list[float]] = {"ess": [], "mean": [], "sd": []}
    names: list[str] = []
    for name in sorted(map(str, posterior.data_vars)):
        draws = posterior[name].values
        draws = draws.reshape(*draws.shape[:2], math.prod(draws.shape[2:]))
        for k in range(draws.shape[2]):
            names.append(f"{name}[{k}]")
            enough = draws.shape[1] >= 4  # for ArviZ; a rival that is stopped in its warm-up has no draws
            moments["ess"].append(float(az.ess(draws[:, :, k])) if enough else 0.0)
            moments["mean"].append(float(draws[:, :, k].mean()) if enough else 0.0)
            moments["sd"].append(float(draws[:, :, k].std()) if enough else 0.0)
    return {"names": names, **moments}


def target_of(model: str) -> Any:
    """Return a model as a target."""
    model_or_target = MODELS[model]()
    return amc.from_pymc(model_or_target) if model.startswith("pymc_") else model_or_target


# --- all answers ---


def one_thread() -> dict[str, str]:
    """Return the environment of a process that computes on one thread."""
    return {**os.environ, **THREADS}


def seconds_to_enough(answer: Mapping[str, Any]) -> float:
    """Return the CPU seconds to 400 effective draws of the worst parameter, infinity if it has none.

    Of a rival's time, the part of the draws is scaled. Our time counts as it is from 400 effective draws on, where our
    sampler stops; with fewer, all of it is scaled.
    """
    reached = min(answer["ess"], default=0.0)
    if not reached > 0.0:
        return float("inf")
    drawing = answer["spent"] - answer["setup"]
    if answer["setup"] == 0.0 and reached >= ENOUGH:  # our sampler stops at 400 effective draws
        return float(answer["spent"])
    return float(answer["setup"] + drawing * ENOUGH / reached)


def shift(answer: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[float, float]:
    """Return the largest shift of a mean from the reference's in sds, and its 95 % quantile for unbiased samplers."""
    both = [name for name in answer["names"] if name in set(reference["names"])]
    (m, _, e), (m0, s0, e0) = (
        np.array([[moments[key][moments["names"].index(name)] for name in both] for key in ("mean", "sd", "ess")])
        for moments in (answer, reference)
    )
    noise = np.sqrt(1.0 / np.maximum(e, 1.0) + 1.0 / np.maximum(e0, 1.0))
    maxima = np.abs(np.random.default_rng(0).standard_normal((4000, noise.size)) * noise).max(axis=1)
    return float(np.abs((m - m0) / s0).max()), float(np.quantile(maxima, WORST))


def table(answers: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each model and contender; a failed answer has its reason."""
    rows = []
    for model, group in itertools.groupby(answers, key=lambda answer: answer["model"]):
        those = list(group)
        exact = [answer for answer in those if "ess" in answer and answer["who"] not in BIASED]
        reference = max(exact, key=lambda answer: min(answer["ess"], default=0.0), default=None)
        for answer in those:
            row = {"model": model, "who": answer["who"], "cache": answer.get("cache", "")}
            if "error" in answer:
                rows.append({**row, "failed": answer["error"]})
                continue
            reached = min(answer["ess"], default=0.0)
            row |= {
                "seconds": seconds_to_enough(answer),
                "spent": answer["spent"],
                "ess": reached,
                "sampler": answer["sampler"],
            }
            if reference is not None and reached > 0.0:
                row["shift"], row["shift_if_unbiased"] = (0.0, 0.0) if answer is reference else shift(answer, reference)
            rows.append(row)
    return pd.DataFrame(rows)


# --- the tables of the documentation ---

LABELS = {
    "dense_1e3": "logistic regression, 1000 x 50",
    "dense_1e4": "logistic regression, 10 000 x 50",
    "dense_1e5": "logistic regression, $10^5$ x 50",
    "dense_1e6": "logistic regression, $10^6$ x 50",
    "dense_1e7": "logistic regression, $10^7$ x 20",
    "mnist_7v9": "MNIST, 12 214 x 50",
    "covertype": "Covertype, 92 962 x 54",
    "kdd99": "KDD99, 494 021 x 40",
    "a9a": "a9a, 32 561 x 124",
    "ijcnn1": "ijcnn1, 49 990 x 23",
    "pymc_bernoulli": "PyMC, logistic, $10^5$ x 20",
    "pymc_poisson_with_offset": "PyMC, Poisson with an offset, $10^5$ x 20",
    "pymc_student_t": "PyMC, Student-t, $10^5$ x 20",
    "pymc_negative_binomial": "PyMC, negative binomial, $10^5$ x 20",
    "pymc_mixture": "PyMC, a mixture, $10^5$ x 20",
    "pymc_ordered": "PyMC, ordered logistic, $10^5$ x 20",
    "pymc_varying_intercepts": "PyMC, logistic, 50 groups of 2000 rows",
    "pymc_few_rows": "PyMC, logistic, 50 groups of 40 rows",
}
FEW = "(ESS {:.0f})"


def markdown(rows: pd.DataFrame) -> str:
    """Return our seconds and nutpie's by model, and their ratio, as a Markdown table; medians of the runs of each."""
    lines = [
        "| model | ours, nothing compiled yet | ours, compiled before | nutpie | nutpie to ours, compiled |",
        "|---|---|---|---|---|",
    ]
    for model, of_model in rows.groupby("model", sort=False):
        cold, warm = (of_model[(of_model["who"] == OURS) & (of_model["cache"] == cache)] for cache in ("cold", "warm"))
        nutpie = of_model[of_model["who"] == "nutpie"]
        ratio = nutpie["seconds"].median() / warm["seconds"].median()
        cells = [_cell(cold), _cell(warm), _cell(nutpie), "–" if math.isnan(ratio) else two_digits(ratio)]
        lines.append(f"| {LABELS.get(str(model), model)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def markdown_of_others(rows: pd.DataFrame) -> str:
    """Return the seconds of all contenders as a Markdown table, on the models that others than nutpie ran."""
    others = [who for who in rows["who"].unique() if who not in (OURS, "nutpie")]
    shown = rows[rows["model"].isin(rows["model"][rows["who"].isin(others)])]
    shown = shown[shown["cache"] != "cold"]
    lines = [f"| model | ours, compiled | nutpie | {' | '.join(others)} |", f"|{'---|' * (3 + len(others))}"]
    for model, of_model in shown.groupby("model", sort=False):
        cells = [_cell(of_model[of_model["who"] == who]) for who in (OURS, "nutpie", *others)]
        lines.append(f"| {LABELS.get(str(model), model)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(runs: pd.DataFrame) -> str:
    """Return the median seconds of some runs, with the ESS if it is below 400, and the shift of a biased sampler."""
    seconds = runs["seconds"].median()
    if math.isnan(seconds):
        return str(next(iter(runs["failed"].dropna()), "–"))
    cell = f"{seconds:.0f}" if seconds >= 100.0 else two_digits(seconds)
    ess = runs["ess"].median()
    biased = runs["who"].isin(BIASED).any()
    notes = [FEW.format(ess)] if ess < ENOUGH and not biased else []
    notes += [f"(shift {runs['shift'].median():.2g} sd)"] if biased else []
    return " ".join([cell, *notes])


# --- all answers, one after another ---


def in_a_process(model: str, who: str, limit: float, seed: int, *, cache: str | None = None) -> dict[str, Any]:
    """Return the answer of a separate process, or its error; `cache` is the folder for compiled kernels, if given."""
    command = [sys.executable, "-m", "studies.race.answer", "--one", model, who, str(limit), str(seed)]
    environment = {**one_thread(), **({"APPROXMCMC_CACHE_DIR": cache} if cache else {})}
    names = {"model": model, "who": who}
    patience = 4.0 * limit + 600.0
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=patience)
    except subprocess.TimeoutExpired:
        return {**names, "error": f"no answer in {patience:.0f} s"}
    if done.returncode:
        return {**names, "error": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return {**names, **json.loads(done.stdout.splitlines()[-1])}


def ours(model: str, limit: float, seed: int) -> list[dict[str, Any]]:
    """Return our answers on an empty cache, and on one with all compiled code of an earlier answer."""
    with tempfile.TemporaryDirectory() as cache:
        cold, _, warm = (in_a_process(model, OURS, limit, seed, cache=cache) for _ in range(3))
    return [{**cold, "cache": "cold"}, {**warm, "cache": "warm"}]


def run(preset: str, folder: Path, models: Iterable[str] = (), rivals: Iterable[str] = (), *, rounds: int = 1) -> None:
    """Run all contenders in turn; rewrite answers.json and answers.csv after each."""
    names, contenders, limit = PRESETS[preset]
    answers: list[dict[str, Any]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for model in tuple(models) or names:
        for seed, who in itertools.product(range(1, rounds + 1), tuple(rivals) or contenders):
            answers += ours(model, limit, seed) if who == OURS else [in_a_process(model, who, limit, seed)]
            rows = table(answers)
            sys.stderr.write(rows.to_string(index=False, header=False) + "\n")
            with whole_file(folder / "answers.json") as path:
                path.write_text(json.dumps(answers))
            with whole_file(folder / "answers.csv") as path:
                rows.to_csv(path, index=False)


def main() -> None:
    """Read the command line and run the answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m studies.race.answer"
    )
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument("--model", action="append", default=[], choices=MODELS, help="only this model; repeatable")
    parser.add_argument("--rival", action="append", default=[], choices=[OURS, *RIVALS], help="only this; repeatable")
    parser.add_argument("--rounds", type=int, default=1, help="answers of each, with seeds 1, 2, ...")
    parser.add_argument("--out", type=Path, default=Path("results/answers"))
    parser.add_argument(
        "--one",
        nargs=4,
        metavar=("MODEL", "WHO", "LIMIT", "SEED"),
        help="run one here, and print it",
    )
    arguments = parser.parse_args()
    if arguments.one:
        model, who, limit, seed = arguments.one
        sys.stdout.write(json.dumps(answer(model, who, float(limit), int(seed))) + "\n")
        return
    run(arguments.preset, arguments.out, arguments.model, arguments.rival, rounds=arguments.rounds)
    sys.stdout.write(pd.read_csv(arguments.out / "answers.csv").to_string(index=False) + "\n")


if __name__ == "__main__":
    main()
