"""The race itself: presets, rounds in turn, and the exact chain from which biases are measured."""

import dataclasses
import functools
import importlib.metadata
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import approxmcmc as amc
from studies.race.peers import peers
from studies.race.problems import MIXED, Lap, problem_named
from studies.race.rivals import Rival, our_rivals
from studies.race.scores import Reference, Results, Score, effective_samples
from studies.race.table import write
from studies.race.tall import tall_problem, tall_reference, tall_rivals

MOST = 40_000  # largest number of steps in a round


@dataclasses.dataclass(frozen=True)
class Setting:
    """How long to race on a problem."""

    rounds: int
    seconds: float  # CPU seconds of a rival in a round
    reference: float  # CPU seconds of the exact chain
    accuracy: float  # least CPU seconds in all of rivals with control variates and pCN, for a bias measured well
    tune: int  # of NUTS
    draws: int  # of NUTS in a round
    every_peer: bool = True  # False: only nutpie and blackjax's SGLD, because the others would take long
    tall: bool = False  # True: the rivals and problems of `studies.race.tall`


LONG = Setting(rounds=11, seconds=5.0, reference=300.0, accuracy=60.0, tune=1000, draws=1000)
BRIEF = Setting(rounds=3, seconds=0.4, reference=12.0, accuracy=3.0, tune=150, draws=80, every_peer=False)
TALL = Setting(rounds=5, seconds=1.5, reference=5.0, accuracy=0.0, tune=300, draws=100, every_peer=False, tall=True)
PRESETS = {
    "smoke": {"smoke": Setting(rounds=3, seconds=0.05, reference=0.5, accuracy=0.1, tune=50, draws=50)},
    "quick": {
        "mnist": Setting(rounds=5, seconds=0.6, reference=25.0, accuracy=8.0, tune=300, draws=200),
        "1e5_50": BRIEF,
        "1e5_10": BRIEF,
        "1e6_50": BRIEF,
    },
    "paper": dict.fromkeys(("mnist", "1e5_10", "1e5_50", "1e6_50"), LONG),
    "tall": dict.fromkeys(("covertype", "a9a", "mnist_7v9", "ijcnn1", "kdd99", "dense_1e5"), TALL),
    "tall_smoke": {"smoke": dataclasses.replace(TALL, rounds=2, seconds=0.05, reference=0.5)},
}


def exact_reference(run: Callable[[int], Lap], seconds: float) -> Reference:
    """Return the moments of a long exact chain of about `seconds`, at least 400 steps, after 20 of burn-in."""
    per_step = run(20).seconds / 20
    draws = run(max(400, int(seconds / per_step))).draws
    return Reference(draws.mean(axis=0), draws.std(axis=0, ddof=1), effective_samples(draws))


def steps_in(run: Callable[[int], Lap], seconds: float) -> int:
    """Return how many steps take about `seconds`, at most `MOST`; the steps that measure the speed are burn-in."""
    steps = 10
    lap = run(10)
    while lap.seconds < 0.1 * seconds and steps < MOST:
        steps *= 3
        lap = run(steps)
    return int(np.clip(seconds * len(lap.draws) / lap.seconds, 10, MOST))


def log(text: str) -> None:
    """Print the progress of the race on the standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def race(rivals: Iterable[Rival], setting: Setting, exact: Callable[[], Callable[[int], Lap]]) -> Results:
    """Let the rivals take turns; `exact` makes the exact chain that biases are measured from."""
    named = {rival.name: rival for rival in rivals}
    runners = {}
    steps = {}
    setup = {}
    for name, rival in named.items():
        log(f"set up {name}")
        began = time.process_time()
        runners[name] = rival.make()
        setup[name] = time.process_time() - began
        steps[name] = rival.steps or steps_in(runners[name], setting.seconds)
    scores: dict[str, list[Score]] = {name: [] for name in named}
    for turn in range(setting.rounds):
        log(f"round {turn + 1} of {setting.rounds}")
        for name, run in runners.items():
            scores[name].append(Score.of(run(steps[name])))
    for name in (name for name, rival in named.items() if rival.lever.startswith("control variates, proposal")):
        while sum(score.seconds for score in scores[name]) < setting.accuracy:
            scores[name].append(Score.of(runners[name](steps[name])))
    log("reference")
    return Results(named, scores, setup, exact_reference(exact(), setting.reference), setting.rounds)


def versions() -> dict[str, str]:
    """Return the versions of all libraries in the race."""
    by_name = {}
    for name in ("numpy", "numba", "arviz", "pymc", "nutpie", "jax", "jaxlib", "blackjax", "numpyro"):
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            by_name[name] = "not installed"
    return by_name


def contest(name: str, *, tall: bool) -> tuple[Any, list[Rival], Callable[[], Callable[[int], Lap]]]:
    """Return a problem, its rivals of this library, and a function for the long exact chain."""
    if tall:
        rare = tall_problem(name)
        return rare, tall_rivals(rare), functools.partial(tall_reference, rare)
    problem = problem_named(name)
    rivals = our_rivals(problem, first_look=min(500, len(problem.y) // 10))
    return problem, rivals, lambda: problem.chain(MIXED, amc.ExactTest(), seed=99)


def run(preset: str, folder: Path, *, with_peers: bool = False, only: Iterable[str] = ()) -> dict[str, Any]:
    """Race on every problem of a preset, or on those in `only`; `with_peers` adds samplers of other libraries.

    Write race.json, race.csv and race.md; return the contents of race.json.
    """
    results_of_race: dict[str, Any] = {"preset": preset, "versions": versions(), "results": []}
    folder.mkdir(parents=True, exist_ok=True)
    for name in tuple(only) or PRESETS[preset]:
        setting = PRESETS[preset][name]
        problem, rivals, exact = contest(name, tall=setting.tall)
        log(f"{problem.name}: set up in {problem.setup_seconds:.2f} s")
        if with_peers:
            rivals += peers(problem, tune=setting.tune, draws=setting.draws, every=setting.every_peer)
        with threadpool_limits(1):
            results = race(rivals, setting, exact)
        results_of_race["results"].append(
            {
                "problem": problem.name,
                "setting": dataclasses.asdict(setting),
                "expansion_seconds": problem.setup_seconds,
                "reference_effective_draws": float(results.reference.effective.min()),
                "rows": [results.row(rival) for rival in results.rivals],
            }
        )
        write(results_of_race, folder)
    return results_of_race
