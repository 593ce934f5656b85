"""Kill -9 at random moments, repeatedly, and compare the results with those of an undisturbed run.

    python -m tests.faults.kills {serial,processes,run} --kills 25 --seed 1

Each try is a separate process, forked from this one, which has imported everything. A kill of a study comes a random
moment after a random number of further results has been recorded, a kill of a run at a random time. A study is killed
as a whole, or, if it runs in several processes, its main process alone, or one worker; a checkpointed run as a whole.
When a study or a run has finished in spite of the kills, its results are compared and the next one begins.

Prints one line of JSON: kills by victim, the number of studies or runs that finished, and the numbers of results that
were lost, written twice, or different, which must be 0. `extra` counts chains that were started again, at most those in
progress at each kill.
"""

import argparse
import collections
import contextlib
import functools
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

SECONDS_OF_A_CELL = 0.03  # of the order of a write, so that kills meet both
PATIENCE = 400.0


def attempt(act: Callable[[], None], until: Callable[[], bool], delay: float, victim: str) -> bool:
    """Run `act` in a process, kill it `delay` seconds after `until()` holds; return whether it ended by itself."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.setpgid(pid, pid)  # both do, since either may be first: a kill may come before the child has run at all
    deadline = time.monotonic() + PATIENCE
    due = None
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert status == 0, f"a try ended with {status}"
            return True
        now = time.monotonic()
        due = now + delay if due is None and until() else due
        if (due is not None and now >= due) or now > deadline:
            break
        time.sleep(0.002)
    assert now <= deadline, "no progress"
    kill(pid, victim)
    if victim == "worker":  # the study continues by itself
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"a try that lost a worker ended with {status}"
        return True
    os.waitpid(pid, 0)
    return False


def kill(pid: int, victim: str) -> None:
    """Kill a process with its children (`victim` "all"), alone ("main"), or one of its workers ("worker")."""
    if victim == "all":
        os.killpg(pid, signal.SIGKILL)
    elif victim == "main":
        os.kill(pid, signal.SIGKILL)
    else:
        import psutil

        children = psutil.Process(pid).children(recursive=True)
        workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        if workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                workers[-1].kill()


def kill_studies(kills: int, rng: np.random.Generator, folder: Path, engine: str) -> dict:
    """Run studies of 24 cells and kill them, `kills` times in all; return the counts of faults."""
    from approxmcmc.study.progress import Listener
    from approxmcmc.study.results import StudyResults
    from approxmcmc.study.run import run_study
    from approxmcmc.study.store import Store
    from tests.studies.toys import quiet_probe, toy_sample, toy_study

    study = toy_study(replicates=8)
    columns = ["key", "target", "label", "replicate", "status", "seed", "draws", "steps", "draws_hash"]
    jobs = {} if engine == "serial" else {"jobs": 2}

    def run(place: Path, **options) -> None:
        run_study(study, "paper", place, sample=toy_sample, probe=quiet_probe, listener=Listener(), **options)

    def table(place: Path):
        return StudyResults.open(study, "paper", place).records[columns]

    run(folder / "undisturbed")
    undisturbed = table(folder / "undisturbed")
    os.environ |= {"TOY_SECONDS": str(SECONDS_OF_A_CELL), "TOY_LOG": str(folder / "calls.log")}
    found, ends, by_victim = collections.Counter(), 0, collections.Counter()
    while sum(by_victim.values()) < kills:
        place = folder / f"killed-{ends}"
        store, known = Store.of(place, "toy", "paper"), {}
        ended = False

        def recorded(store=store) -> dict[str, int]:
            paths = (store.folder / "cells").glob("??/*/record.json")
            with contextlib.suppress(FileNotFoundError):
                return {str(path): path.stat().st_mtime_ns for path in paths}
            return {}

        while not ended:
            wanted = len(known) + int(rng.integers(1, 9))
            victims = ("all",) if engine == "serial" else ("all", "all", "main", "worker")
            victim = str(rng.choice(victims)) if sum(by_victim.values()) < kills else "nobody"
            until = (lambda: False) if victim == "nobody" else (lambda n=wanted: len(recorded()) >= n)
            delay = float(rng.uniform(0, 2 * SECONDS_OF_A_CELL))
            ended = attempt(functools.partial(run, place, **jobs), until, delay, victim)
            if victim == "worker" or not ended:
                by_victim[victim] += 1
            if victim == "main" and not ended:
                time.sleep(0.5)  # workers end when their parent has ended
            now = recorded()
            found["lost"] += len(known.keys() - now.keys())
            found["written twice"] += sum(known[path] != now[path] for path in known.keys() & now.keys())
            known = now
        found["different"] += int(not table(place).equals(undisturbed))
        found["left over"] += sum(path.suffix == ".tmp" for path in store.folder.rglob("*"))
        ends += 1
        print({"kills": dict(by_victim), "ends": ends, **found}, file=sys.stderr, flush=True)
    calls = (folder / "calls.log").read_text().split()
    extra = len(calls) - 24 * ends
    return {"kills": dict(by_victim), "ends": ends, **found, "extra": extra}


def kill_runs(kills: int, rng: np.random.Generator, folder: Path) -> dict:
    """Run checkpointed runs of two chains and kill them, `kills` times in all; return the counts of faults."""
    import approxmcmc as amc
    from approxmcmc.checkpoints import when as checkpoints
    from approxmcmc.checkpoints.tables import read_checkpoint
    from tests.models import logistic

    checkpoints.SECONDS_BETWEEN, checkpoints.SHARE = 0.5, np.inf
    target = logistic(500, 3)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1, target_acceptance=0.3), amc.SequentialTTest(0.1, 50))
    settings = {"draws": 1000, "tune": 200, "chains": 2, "random_seed": 1, "audit_every": 20, "progressbar": False}
    began = time.monotonic()
    whole = amc.sample(target, sampler, **settings)
    seconds = max(time.monotonic() - began, 0.5)
    found, ends, killed = collections.Counter(), 0, 0
    while killed < kills:
        path, steps, ended = folder / f"run-{ends}.nc", 0, False

        def made(path=path) -> int:
            """Return the steps that the file holds, 0 without a file; a damaged file raises."""
            if not path.exists():
                return 0
            return sum(sum(chain["done"]) for chain in read_checkpoint(path).snapshot.chains)

        while not ended:
            due = time.monotonic() + float(rng.uniform(0.0, seconds)) if killed < kills else np.inf
            act = functools.partial(amc.sample, target, sampler, checkpoint=path, **settings)
            ended = attempt(act, lambda due=due: time.monotonic() >= due, 0.0, "all")
            killed += not ended
            now = made()
            found["lost"] += now < steps
            steps = now
        trace = amc.load(path)
        same = all(
            np.array_equal(whole[group][name], trace[group][name], equal_nan=True)
            for group in ("posterior", "sample_stats")
            for name in whole[group].data_vars
            if name not in ("perf_counter_diff", "thread_time_diff")  # clocks
        )
        found["different"] += not same
        ends += 1
        print({"kills": killed, "ends": ends, **found}, file=sys.stderr, flush=True)
    found["left over"] = sum(path.suffix == ".tmp" for path in folder.iterdir())
    return {"kills": {"all": killed}, "ends": ends, **found}


def main() -> int:
    """Read the command line, kill, print the counts; return 1 if there was a fault, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["serial", "processes", "run"])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "run":
            found = kill_runs(options.kills, rng, Path(folder))
        else:
            found = kill_studies(options.kills, rng, Path(folder), options.what)
    print(json.dumps({"what": options.what, "seed": seed, **found, "seconds": round(time.monotonic() - began)}))
    return int(any(found.get(fault, 0) for fault in ("lost", "written twice", "different", "left over")))


if __name__ == "__main__":
    sys.exit(main())
