"""NUTS on tall data for a chosen time, compared with surrogate transitions and an exact test, in one process.

nutpie needs hours where surrogate transitions need seconds. Here nutpie has a time limit. Its effective draws per CPU
second are those of the worst coefficient over all draws, warm-up included. Below 400 effective draws this is the rate
of an unfinished chain, and the ratio of our rate to it is only a bound.
"""

import argparse
import json
import os
import sys
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import approxmcmc as amc
from studies.race.peers import in_laplace_metric
from studies.race.scores import effective_samples
from studies.race.tall import TallProblem, tall_problem
from studies.race.track import steps_in

TUNE = 300
ENOUGH = 400.0


def nutpie_within(problem: TallProblem, seconds: float, *, whitened: bool) -> dict[str, Any]:
    """Return the figures of one nutpie chain that ran for at most `seconds` of wall time, without compilation.

    With `whitened` it moves in the coordinates in which the Laplace approximation is N(0, I).
    """
    import nutpie

    compiled = nutpie.compile_pymc_model(in_laplace_metric(problem) if whitened else problem.target.to_pymc())
    settings = {"chains": 1, "cores": 1, "progress_bar": False, "save_warmup": True, "seed": 1}
    began = time.perf_counter()
    cpu = time.process_time()
    running = nutpie.sample(compiled, draws=2000, tune=TUNE, blocking=False, **settings)
    try:
        trace = running.wait(timeout=seconds)
    except TimeoutError:
        trace = running.abort()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    parts = {group: trace[group]["beta"].values[0] for group in ("warmup_posterior", "posterior") if group in trace}
    counts = {group: len(draws) for group, draws in parts.items()}
    draws = np.concatenate(list(parts.values())) if parts else np.empty((0, problem.dim))
    draws = draws[np.isfinite(draws).all(axis=1)]
    ess = float(effective_samples(draws).min()) if len(draws) >= 8 else float("nan")
    kept = parts.get("posterior", np.empty((0, problem.dim)))
    after = float(effective_samples(kept).min()) if len(kept) >= 8 else float("nan")
    return {
        "sampler": f"nutpie{', whitened' if whitened else ''}",
        "draws": counts,
        "wall": wall,
        "cpu": cpu,
        "min_ess": ess,
        "min_ess_after_warm_up": after,
        "min_ess_per_cpu_second": ess / cpu,
    }


def surrogate_for(problem: TallProblem, seconds: float) -> dict[str, Any]:
    """Return the draws, CPU seconds and min-ESS of a run of `seconds`, with the keys of `nutpie_within`.

    The sampler is `SurrogateTransition` on influential rows with an exact test, so it is exact for the posterior.
    """
    run = problem.chain(amc.MetropolisHastings(amc.SurrogateTransition()), problem.split)
    lap = run(steps_in(run, seconds))
    ess = float(effective_samples(lap.draws).min())
    return {
        "sampler": "influential rows, exact",
        "draws": len(lap.draws),
        "cpu": lap.seconds,
        "min_ess": ess,
        "min_ess_per_cpu_second": ess / lap.seconds,
    }


def main() -> None:
    """Read the command line, and print one line of JSON for each sampler."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="covertype", help="a data set of tall_target")
    parser.add_argument("--seconds", type=float, default=180.0, help="wall time of each run of nutpie")
    arguments = parser.parse_args()
    problem = tall_problem(arguments.problem)

    def tell(result: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"problem": problem.name, "load": os.getloadavg(), **result}) + "\n")
        sys.stdout.flush()

    with threadpool_limits(1):
        for whitened in (True, False):
            tell(surrogate_for(problem, 5.0))
            tell(nutpie_within(problem, arguments.seconds, whitened=whitened))
        tell(surrogate_for(problem, 5.0))


if __name__ == "__main__":
    main()
