"""``approxmcmc warm``: compile the kernels of the default sampler of each built-in target in advance.

A kernel depends on types and code, not on the sizes of the data, so a small example of each target compiles the kernels
that large data need. Each kernel is kept once it is compiled: a repeated command continues after an interruption.
"""
# ruff: noqa: T201 (the command line is the one place that prints)

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.work import compiled_so_far
from approxmcmc.engine.files.paths import size_of, user_cache

ROWS = 2000
SECONDS = 5.0  # of sampling per target, at most


def examples() -> dict[str, Callable[[], Any]]:
    """Return factories of a small example of each built-in target that has a default sampler."""
    import approxmcmc as amc

    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(ROWS, 3)), rng.integers(20, size=ROWS)
    eta, noise, targets = X[:, 0], rng.logistic(size=ROWS), amc.targets
    return {
        "LogisticRegression": lambda: targets.LogisticRegression(X, eta + noise > 0.0),
        "RobustRegression": lambda: targets.RobustRegression(X, eta + rng.standard_t(4, size=ROWS)),
        "SoftmaxRegression": lambda: targets.SoftmaxRegression(X, np.digitize(eta + noise, [-1.0, 1.0])),
        "GaussianMixture": lambda: targets.GaussianMixture.simulated(ROWS, random_seed=1),
        "NormalGroups": lambda: targets.NormalGroups(X, eta + rng.normal(size=ROWS), group),
        "GroupedTarget, binary": lambda: targets.GroupedTarget(X, 1 * (eta + noise > 0.0), group),
        "GroupedTarget, counts": lambda: targets.GroupedTarget(
            X, rng.poisson(np.exp(0.3 * eta)), group, family="poisson"
        ),
    }


def warm(args: argparse.Namespace) -> int:
    """Sample each example with its default, and print the compiled kernels, their time and their size."""
    from approxmcmc.api import sample

    folder = user_cache("kernels")
    print(f"compiling into {folder}; Ctrl-C keeps what is done", flush=True)
    began, before = time.perf_counter(), compiled_so_far()
    for name, make in examples().items():
        here = compiled_so_far()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from short runs
            sample(make(), target_ess=100, time_limit=SECONDS, random_seed=1, progressbar=False)
        print(f"{name:30} {_told(here.kernels, here.seconds)}", flush=True)
    print(
        f"{_told(before.kernels, before.seconds)}, {time.perf_counter() - began:.0f} s in all; "
        f"the folder holds {size_of(folder) / 1e6:.1f} MB"
    )
    return 0


def _told(kernels: int, seconds: float) -> str:
    now = compiled_so_far()
    made = now.kernels - kernels
    return f"{made} kernel{'' if made == 1 else 's'} compiled, {now.seconds - seconds:.1f} s"
