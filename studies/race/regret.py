"""How good the default choice is in hindsight: the chosen sampler, compared with every other candidate.

Each model has a separate process. `choose_sampler` chooses; then every candidate that fits the target runs for 400
effective draws of the worst parameter, or until a limit of seconds, and its time is then scaled:

    seconds to an answer = compilation + set-up + 400 x seconds of sampling / ESS,
    regret = seconds of the chosen / least seconds.

Compilation is counted, as in the choice: that of a model that is new to the machine, so that choice and hindsight are
of the same state. Set-up is the candidate's form of the target with its mode or pilot; tuning is left out for all.
Both, and sampling, are CPU seconds; a candidate's time is their median over rounds. A biased candidate competes if its
predicted error was allowed. A candidate whose least possible time is above the smallest time so far is not run, and
neither is a model that has an answer in the folder.
"""

import argparse
import functools
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import approxmcmc as amc
from approxmcmc.design import nuts
from approxmcmc.design.candidates import Candidate, Pairing, candidates
from approxmcmc.design.prices import TOO_BIASED
from approxmcmc.design.target_profile import TargetProfile, profile_target
from approxmcmc.engine.files.whole_files import whole_file
from studies.race.answer import ENOUGH, one_thread, target_of
from studies.race.models import MODELS
from studies.race.table import two_digits

MOST_DRAWS = 200_000  # limit of each chain, which hardly any candidate reaches
TUNE = 300
CHAINS = 4


# --- one model, in a separate process ---


def in_hindsight(model: str, *, limit: float, rounds: int, seed: int) -> dict[str, Any]:
    """Return the chosen candidate, and for every candidate its seconds in each round, or why it has none.

    The chosen candidate runs first; one whose least possible time is above the smallest time so far is not run.
    """
    target = target_of(model)
    choice = amc.choose_sampler(target, random_seed=seed)
    profile = profile_target(target, seed)
    fresh = functools.partial(profile_target, target, seed)
    verdicts = dict(zip(choice.table["candidate"], choice.table["verdict"], strict=True))
    # A fresh survey has no form of the target yet, so each candidate's set-up includes its form.
    compiled = {candidate.name: _compilation(candidate, profile) for candidate in candidates(target)}
    lower_bounds = {candidate.name: _seconds_at_best(candidate, profile) for candidate in candidates(target)}
    seconds: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for candidate in sorted(
        candidates(target), key=lambda candidate: (candidate.name != choice.name, lower_bounds[candidate.name])
    ):
        reason = (
            verdicts[candidate.name] if verdicts[candidate.name].startswith(TOO_BIASED) else candidate.why_not(profile)
        )
        least = min(map(np.median, seconds.values()), default=math.inf)
        if not reason and lower_bounds[candidate.name] > least:
            reason = f"it cannot be the best: no run of it takes less than {lower_bounds[candidate.name]:.2g} s"
        try:
            if not reason:
                candidate.make(fresh())  # compiles
                setting, set_up = _timed(candidate.make, fresh())
                runs = (seconds_of_draws(setting, limit, seed + k) for k in range(rounds))
                seconds[candidate.name] = [compiled[candidate.name] + set_up + run for run in runs]
        except amc.errors.ApproxMCMCError as error:
            reason = str(error)
        if reason:
            failed[candidate.name] = reason
    size = {"n_obs": int(target.n_obs), "dim": int(target.variables.size)}
    times = {"chosen": choice.name, "seconds": seconds, "compilation": compiled, "failed": failed}
    return {"model": model, **size, **times}


def _compilation(candidate: Candidate, profile: TargetProfile) -> float:
    return (
        nuts.compilation(profile) if candidate.is_counted else profile.seconds_to_compile(candidate.compiles(profile))
    )


def _seconds_at_best(candidate: Candidate, profile: TargetProfile) -> float:
    lower_bound = candidate.lower_bound(profile)
    parts = candidate.compiles(profile)
    return profile.seconds_to_compile(parts) + lower_bound.set_up + ENOUGH * lower_bound.per_draw


def _timed(make: Callable[[TargetProfile], Pairing], profile: TargetProfile) -> tuple[Pairing, float]:
    began = time.process_time()
    return make(profile), time.process_time() - began


def seconds_of_draws(setting: Pairing, limit: float, seed: int) -> float:
    """Return 400 times the CPU seconds of an effective draw; infinity if tuning took the whole time limit."""
    wall = time.perf_counter()
    cpu = time.process_time()
    trace = amc.sample(
        setting.target,
        setting.sampler,
        draws=MOST_DRAWS,
        tune=TUNE,
        chains=CHAINS,
        cores=1,
        target_ess=ENOUGH,
        time_limit=limit,
        audit_every=None,
        initvals=setting.fit,
        random_seed=seed,
        progressbar=False,
    )
    if not trace["posterior"].sizes["draw"]:
        return math.inf
    # CPU seconds, because other processes may run too.
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    ess = float(trace["posterior"].attrs["smallest_ess"])
    return ENOUGH * share * float(trace["sample_stats"]["perf_counter_diff"].sum()) / max(ess, 1.0)


# --- all models ---


def table(results: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each model: the chosen candidate, the best in hindsight, their seconds and the regret."""
    rows = []
    for result in results:
        row = {"model": result["model"], "n_obs": result.get("n_obs"), "dim": result.get("dim")}
        if "error" in result:
            rows.append({**row, "failed": result["error"]})
            continue
        seconds = {name: float(np.median(values)) for name, values in result["seconds"].items()}
        best = min(seconds, key=seconds.__getitem__)
        row |= {"chosen": result["chosen"], "best": best, "seconds": seconds[result["chosen"]], "least": seconds[best]}
        rows.append({**row, "regret": row["seconds"] / row["least"]})
    return pd.DataFrame(rows)


def markdown(rows: pd.DataFrame) -> str:
    """Return the regrets as a Markdown table, with their median and largest below."""
    with_regret = rows.dropna(subset=["regret"])
    lines = [
        "| model | data | parameters | chosen | s | best in hindsight | s | regret |",
        "|---|--:|--:|---|--:|---|--:|--:|",
    ]
    for row in with_regret.to_dict("records"):
        best = "the same" if row["best"] == row["chosen"] else row["best"]
        size = f"{row['n_obs']:.0f} | {row['dim']:.0f}"
        lines.append(
            f"| {row['model']} | {size} | {row['chosen']} | {two_digits(row['seconds'])} | {best} "
            f"| {two_digits(row['least'])} | {row['regret']:.2f} |"
        )
    regret = with_regret["regret"]
    summary = f"Regret over {len(with_regret)} models: median {regret.median():.2f}, largest {regret.max():.2f}."
    return "\n".join([*lines, "", summary, ""])


def in_a_process(model: str, limit: float, rounds: int, seed: int) -> dict[str, Any]:
    """Return the result of a separate process."""
    command = [sys.executable, "-m", "studies.race.regret", "--one", model, str(limit), str(rounds), str(seed)]
    done = subprocess.run(command, env=one_thread(), capture_output=True, text=True, check=False)
    if done.returncode:
        return {"model": model, "error": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(models: Iterable[str], folder: Path, *, limit: float, rounds: int, seed: int) -> pd.DataFrame:
    """Compute the regret of each model that has no answer in the folder; rewrite the table after each."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        stored = folder / f"{model}.json"
        if not stored.exists():
            result = in_a_process(model, limit, rounds, seed)
            sys.stderr.write(json.dumps(result) + "\n")
            if "error" not in result:  # a model with an error is tried again in the next call
                with whole_file(stored) as path:
                    path.write_text(json.dumps(result, indent=1))
        answers = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
        with whole_file(folder / "regret.csv") as path:
            table(answers).to_csv(path, index=False)
    return table(answers)


def main() -> None:
    """Read the command line, and compute the regrets or the result of one model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m studies.race.regret"
    )
    parser.add_argument("--model", action="append", default=[], choices=MODELS, help="only this model; repeatable")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of sampling of a candidate")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/regret"))
    parser.add_argument(
        "--one",
        nargs=4,
        metavar=("MODEL", "LIMIT", "ROUNDS", "SEED"),
        help="run one here, and print it",
    )
    arguments = parser.parse_args()
    if arguments.one:
        warnings.simplefilter("ignore", amc.errors.SamplingWarning)  # too many influential rows, run cut off
        model, limit, rounds, seed = arguments.one
        result = in_hindsight(model, limit=float(limit), rounds=int(rounds), seed=int(seed))
        sys.stdout.write(json.dumps(result) + "\n")
        return
    result = run(
        arguments.model or MODELS, arguments.out, limit=arguments.limit, rounds=arguments.rounds, seed=arguments.seed
    )
    sys.stdout.write(markdown(result))


if __name__ == "__main__":
    main()
