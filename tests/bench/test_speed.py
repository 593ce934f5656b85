"""How fast a step is: against NumPy, against the exact step, and how soon a second process samples.

Run by ``python3 -m nox -s bench`` on a quiet machine. Each race prints its table; the limits asserted are wide, since a
shared machine is noisy, and guard against a lost order of magnitude.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams
from tests.bench.interleave import race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
N, DIM, STEPS = 12_214, 50, 100


@pytest.fixture(scope="module")
def target():
    X, y = synthetic_logistic(N, DIM, seed=0)
    return amc.targets.LogisticRegression(X, y)


def stepper(target, test, steps=STEPS):
    """Return a function that makes `steps` steps of a running chain."""
    program = amc.MetropolisHastings(amc.RandomWalk(0.01), test).build(target, audit_every=None)
    chain = program.start(np.zeros(DIM), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((steps, DIM))
    counts, values = np.empty((steps, len(COUNT_NAMES)), np.int64), np.empty((steps, len(VALUE_NAMES)))
    return lambda: chain.advance(steps, 1, draws, counts, values)


def test_exact_step_and_one_look_against_numpy(target):
    X, y, rng = target.X, target.y, np.random.default_rng(0)
    theta = np.zeros(DIM)

    def log_sigmoid_terms(eta, y):
        return y * eta - np.maximum(eta, 0.0) - np.log1p(np.exp(-np.abs(eta)))

    def numpy_exact():
        for _ in range(STEPS):
            log_sigmoid_terms(X @ (theta + 0.01 * rng.standard_normal(DIM)), y).sum()

    def numpy_look():
        for _ in range(STEPS):
            rows = rng.integers(0, N, 500)
            both = np.stack([theta, theta + 0.01 * rng.standard_normal(DIM)], axis=1)
            terms = log_sigmoid_terms(X[rows] @ both, y[rows, None])
            (terms[:, 1] - terms[:, 0]).std()

    seconds = race(
        {
            "NumPy and BLAS, all data": numpy_exact,
            "ExactTest": stepper(target, amc.ExactTest()),
            "NumPy and BLAS, one look of 500": numpy_look,
            "SequentialTTest, one look of 500": stepper(target, amc.SequentialTTest(epsilon=0.5, batch_size=500)),
            "SequentialTTest, epsilon = 0.05": stepper(target, amc.SequentialTTest(epsilon=0.05, batch_size=500)),
        }
    )
    print(table(f"one step, N = {N}, d = {DIM}", seconds, "NumPy and BLAS, all data", per=STEPS))
    assert ratio(seconds, "ExactTest", "NumPy and BLAS, all data")[0] < 2.0
    assert ratio(seconds, "SequentialTTest, one look of 500", "NumPy and BLAS, one look of 500")[0] < 0.6


def test_overhead_of_a_draw():
    """A target of one parameter and one datum: what a step costs beside the model."""
    target = amc.Target(
        lambda theta, data, i: -0.5 * theta[0] ** 2, lambda theta: 0.0, data=np.zeros(1), n_obs=1, dim=1
    )
    program = amc.MetropolisHastings(amc.RandomWalk(2.4), amc.ExactTest()).build(target, audit_every=None)
    chain = program.start(np.zeros(1), streams(seed_sequences(1, 1)[0][0]), 0)
    n = 20_000
    draws, counts = np.empty((n, 1)), np.empty((n, len(COUNT_NAMES)), np.int64)
    values = np.empty((n, len(VALUE_NAMES)))
    seconds = race({"one draw": lambda: chain.advance(n, 1, draws, counts, values)})
    print(table("overhead", seconds, "one draw", per=n))
    assert np.median(seconds["one draw"]) / n < 2e-6


START = """
import time
import numpy, numba, xarray, arviz
started = time.perf_counter()
import approxmcmc as amc
from approxmcmc import api
run = api.run
def timed(*arguments, **settings):
    print(time.perf_counter() - started)
    return run(*arguments, **settings)
api.run = timed
X, y = numpy.random.default_rng(0).normal(size=(1000, 5)), numpy.arange(1000) % 2
target = amc.targets.LogisticRegression(X, y)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(0.05, 500))
amc.sample(target, sampler, draws=1, tune=0, chains=1, random_seed=1, progressbar=False)
"""


def test_a_second_process_samples_soon(tmp_path):
    """Seconds from the imports of NumPy, Numba, xarray and ArviZ to the first step, compiled code on disk."""
    environment = {
        **os.environ,
        "APPROXMCMC_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }

    def run() -> float:
        done = subprocess.run(
            [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    first, *later = [run() for _ in range(4)]
    print(f"\nfirst process {first:.2f} s, second {np.median(later):.2f} s (median of 3)")
    assert min(later) < 1.5
