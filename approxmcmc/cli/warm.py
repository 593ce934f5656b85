"""``approxmcmc warm``: compile the kernels of the default sampler of built-in targets and PyMC hierarchies in advance.

A kernel depends on types and code, not on the sizes of the data, so small examples compile most of the kernels that
large data need. The default sampler for many rows or for rare categories needs further kernels. Hierarchies share their
kernels, and PyTensor keeps the functions that it compiles for them: after this command, the first run of another
hierarchy takes 8 CPU seconds instead of 20. Each kernel is kept once it is compiled: a repeated command continues after
an interruption.
"""
# ruff: noqa: T201 (the command line is the one place that prints)

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compilations import Compilations, compiled_so_far
from approxmcmc.engine.files.paths import size_of, user_cache

# rows of most examples and of the large ones; columns of the one-hot code
ROWS = 2000
MANY = 100_000
KINDS = 11
SECONDS = 5.0  # most seconds of sampling for each target


def examples() -> dict[str, Callable[[], Any]]:
    """Return functions that make examples of built-in regressions, the mixture and group models, by name.

    Logistic regression has three examples, because many rows and rare categories need other kernels.
    """
    import approxmcmc as amc

    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, 3))
    group = rng.integers(20, size=ROWS)
    eta = X[:, 0]
    noise = rng.logistic(size=ROWS)
    targets = amc.targets
    return {
        "LogisticRegression": lambda: targets.LogisticRegression(X, eta + noise > 0.0),
        "LogisticRegression, many rows": lambda: logistic(MANY),
        "LogisticRegression, rare categories": lambda: logistic(MANY, KINDS),
        "RobustRegression": lambda: targets.RobustRegression(X, eta + rng.standard_t(4, size=ROWS)),
        "SoftmaxRegression": lambda: targets.SoftmaxRegression(X, np.digitize(eta + noise, [-1.0, 1.0])),
        "GaussianMixture": lambda: targets.GaussianMixture.simulated(ROWS, random_seed=1),
        "NormalGroups": lambda: targets.NormalGroups(X, eta + rng.normal(size=ROWS), group),
        "GroupedTarget, binary": lambda: targets.GroupedTarget(X, 1 * (eta + noise > 0.0), group),
        "GroupedTarget, counts": lambda: targets.GroupedTarget(
            X, rng.poisson(np.exp(0.3 * eta)), group, family="poisson"
        ),
    }


def logistic(n_obs: int, kinds: int = 0) -> Any:
    """Return a logistic regression on 10 normal columns and a one-hot code of `kinds` categories of decreasing size."""
    import approxmcmc as amc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_obs, 10))
    eta = X @ rng.normal(scale=0.3, size=10)
    if kinds:
        shares = 0.5 ** np.arange(kinds)
        X = np.hstack([X, np.eye(kinds)[rng.choice(kinds, size=n_obs, p=shares / shares.sum())]])
    return amc.LogisticRegression(X, eta + rng.logistic(size=n_obs) > 0.0)


def hierarchies() -> dict[str, Callable[[], Any]]:
    """Return functions that make a PyMC hierarchy for each of four distributions, and one of persons and items."""
    laws = ("normal", "Bernoulli", "binomial", "Poisson")
    ordinary = {f"PyMC hierarchy, {law}": functools.partial(hierarchy, law) for law in laws}
    return {**ordinary, "PyMC hierarchy, items": items}


def hierarchy(law: str) -> Any:
    """Return a PyMC model of outcomes with this `law`, with one slope, and an intercept for each of 20 groups."""
    import pymc as pm

    rng = np.random.default_rng(1)
    x = rng.normal(size=ROWS)
    group = rng.integers(20, size=ROWS)
    truth = 0.3 * x + rng.normal(scale=0.5, size=20)[group]
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1.0)
        slope = pm.Normal("slope", 0.0, 1.0)
        eta = pm.Normal("intercept", pm.Normal("mean", 0.0, 1.0), sd, shape=20)[group] + slope * x
        if law == "normal":
            pm.Normal("y", eta, pm.HalfNormal("noise", 1.0), observed=truth + rng.normal(size=ROWS))
        elif law == "Bernoulli":
            pm.Bernoulli("y", logit_p=eta, observed=truth + rng.logistic(size=ROWS) > 0.0)
        elif law == "binomial":
            pm.Binomial("y", n=9, logit_p=eta, observed=rng.binomial(9, 1.0 / (1.0 + np.exp(-truth))))
        else:
            pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(truth)))
    return model


def items() -> Any:
    """Return a PyMC model of answers to items, where a person's ability is multiplied by a slope for each item."""
    import pymc as pm

    rng = np.random.default_rng(1)
    person = rng.integers(20, size=ROWS)
    item = rng.integers(4, size=ROWS)
    right = rng.normal(size=20)[person] + rng.logistic(size=ROWS) > 0.0
    with pm.Model() as model:
        ability = pm.Normal("ability", 0.0, pm.HalfNormal("scale", 1.0), shape=20)
        slope = pm.LogNormal("slope", 0.0, 0.5, shape=4)
        difficulty = pm.Normal("difficulty", shape=4)
        pm.Bernoulli("y", logit_p=slope[item] * (ability[person] - difficulty[item]), observed=right)
    return model


def sampled(factories: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, Any]]:
    """Sample each model with the default sampler, and yield its name and its trace."""
    from approxmcmc.api import sample
    from approxmcmc.sampling.goals import ENOUGH

    for name, make in factories.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short runs warn that they are short
            trace = sample(make(), target_ess=ENOUGH, time_limit=SECONDS, random_seed=1, progressbar=False)
        yield name, trace


def warm(args: argparse.Namespace) -> int:
    """Sample all example models, and print the number of compiled kernels and their time; return the exit code 0."""
    folder = user_cache("kernels")
    print(f"compiling into {folder}; Ctrl-C keeps what is done", flush=True)
    began = time.perf_counter()
    before = compiled_so_far()
    so_far = before
    for name, _ in sampled(examples() | hierarchies()):
        print(f"{name:36} {_text(so_far)}", flush=True)
        so_far = compiled_so_far()
    print(f"{_text(before)}, {time.perf_counter() - began:.0f} s in all; the folder has {size_of(folder) / 1e6:.1f} MB")
    return 0


def _text(before: Compilations) -> str:
    now = compiled_so_far()
    n_compiled = now.kernels - before.kernels
    brought = now.shipped - before.shipped
    came = f", {brought} came with the package" if brought else ""
    return f"{n_compiled} kernel{'' if n_compiled == 1 else 's'} compiled, {now.seconds - before.seconds:.1f} s{came}"
