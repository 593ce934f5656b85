"""How fast a step is: against NumPy, against the exact step; how soon a second process samples, threads, saving.

Run by ``python3 -m nox -s bench`` on a quiet machine. Each race prints its table; the limits asserted are wide, since a
shared machine is noisy, and guard against a lost order of magnitude.
"""

import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import mnist_7v9_pca, synthetic_logistic
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.streams import seed_sequences, streams
from tests.bench.interleave import median, race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
N, DIM, STEPS = 12_214, 50, 100


@pytest.fixture(scope="module")
def target():
    X, y = synthetic_logistic(N, DIM, seed=0)
    return amc.targets.LogisticRegression(X, y)


def running_chain(target, test, *, scale=0.01, theta=None, seed=1):
    """Return a chain of a random walk."""
    program = amc.MetropolisHastings(amc.RandomWalk(scale), test).build(target, audit_every=None)
    return program.start(np.zeros(DIM) if theta is None else theta, streams(seed_sequences(seed, 1)[0][0]), 0)


def stepper(target, test, steps=STEPS, counts=None, **start):
    """Return a function that makes `steps` steps of a running chain."""
    chain = running_chain(target, test, **start)
    draws = np.empty((steps, DIM))
    counts = np.empty((steps, len(COUNT_NAMES)), np.int64) if counts is None else counts
    values = np.empty((steps, len(VALUE_NAMES)))
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
    look = ratio(seconds, "SequentialTTest, one look of 500", "NumPy and BLAS, one look of 500")
    print(f"  one look: {look} of NumPy's")
    assert ratio(seconds, "ExactTest", "NumPy and BLAS, all data").low < 1.0
    assert look.low < 1 / 3


def posterior_draw(X, y, precision):
    """Return a draw of the Laplace approximation: where a chain would be after burn-in."""
    theta = np.zeros(X.shape[1])
    for _ in range(10):
        p = 1.0 / (1.0 + np.exp(-(X @ theta)))
        hessian = (X.T * (p * (1.0 - p))) @ X + precision * np.eye(X.shape[1])
        theta += np.linalg.solve(hessian, X.T @ (y - p) - precision * theta)
    return theta + np.linalg.solve(np.linalg.cholesky(hessian).T, np.random.default_rng(3).normal(size=len(theta)))


def race_against_exact(target, epsilons, batch_size, *, scale, steps, rounds, orders=("blocks",)):
    """Race sequential tests, each settled by its first, unmeasured round, against the exact step."""
    start = {"scale": scale, "theta": posterior_draw(target.X, target.y, 10.0), "steps": steps}
    rivals, counts = {"ExactTest": stepper(target, amc.ExactTest(), **start)}, {}
    for order in orders:
        for epsilon in epsilons:
            name, test = f"epsilon = {epsilon}, {order}", amc.SequentialTTest(epsilon, batch_size, order=order)
            counts[name] = np.empty((steps, len(COUNT_NAMES)), np.int64)
            rivals[name] = stepper(target, test, counts=counts[name], **start)
    seconds = race(rivals, rounds=rounds)
    print(table(f"one step, N = {target.n_obs}, d = {DIM}", seconds, "ExactTest", per=steps))
    for name, count in counts.items():
        touched = count[:, COUNT_NAMES.index("datapoints_touched")].sum()
        evaluated = count[:, COUNT_NAMES.index("likelihood_evaluations")].sum()
        share = touched / steps / target.n_obs
        print(f"  {name:34s} reads {share:.2f} of the data, {evaluated / touched:.2f} evaluations a datum")
    return seconds


def test_blocks_win_on_mnist():
    """Goals on a quiet machine: 1.3 and 1.8. A busy one flushes the caches that all rivals live in."""
    data = mnist_7v9_pca(DIM, allow_synthetic=True)
    target = amc.targets.LogisticRegression(data.X_train, data.y_train, prior_scale=10**-0.5)
    seconds = race_against_exact(target, (0.05, 0.1), 500, scale=0.01, steps=400, rounds=15, orders=("rows", "blocks"))
    assert ratio(seconds, "ExactTest", "epsilon = 0.05, blocks").high > 1.1
    assert ratio(seconds, "ExactTest", "epsilon = 0.1, blocks").high > 1.5
    assert ratio(seconds, "epsilon = 0.05, rows", "epsilon = 0.05, blocks").high > 1.5


@pytest.mark.slow
def test_blocks_win_on_a_million_data():
    """Looks of N / 24; a step size that accepts half of the proposals."""
    X, y = synthetic_logistic(1_000_000, DIM, seed=0)
    target = amc.targets.LogisticRegression(X, y, prior_scale=10**-0.5)
    seconds = race_against_exact(target, (0.05,), 41_667, scale=7e-4, steps=60, rounds=7)
    assert ratio(seconds, "ExactTest", "epsilon = 0.05, blocks").high > 1.2


def test_two_threads():
    """Two chains on two threads against the same chains in turn, beside bare threads that evaluate the same terms.

    Goal: 1.8 where two processors are free. Where the two are halves of one core, or not free, bare threads gain less
    than 2 as well, and chains gain as much: vector code fills a core that plain loops would share.
    """

    @compiled
    def evaluate(log_terms, theta, data, order, times, out):
        for _ in range(times):
            log_terms(theta, data, order, 0, out.shape[0], out)

    X, y = synthetic_logistic(2000, 10, seed=0)
    target = amc.targets.LogisticRegression(X, y)
    terms = target.compile()
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.ExactTest())

    def chains(cores):
        trace = amc.sample(
            target, sampler, draws=60_000, tune=0, chains=2, cores=cores, random_seed=1, progressbar=False
        )
        return trace.posterior.attrs["sampling_time"]

    def bare(cores):
        started = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            job = (terms.log_terms, np.zeros(10), terms.data, np.empty(0, np.int64), 60_000)
            for done in [pool.submit(evaluate, *job, np.empty(2000)) for _ in range(2)]:
                done.result()
        return time.perf_counter() - started

    chains(2), bare(2)
    speedups: dict[str, list[float]] = {"chains": [], "bare": []}
    for _ in range(11):
        speedups["chains"].append(chains(1) / chains(2))
        speedups["bare"].append(bare(1) / bare(2))
    for name, values in speedups.items():
        print(f"\ntwo threads, {name}: {median(np.array(values))} times one (of {np.round(np.sort(values), 2)})")
    shares = np.array(speedups["chains"]) / np.minimum(speedups["bare"], 2.0)
    assert median(shares).high > 0.85


def test_saving_a_large_trace(tmp_path):
    """8 x 100 000 x 50 draws of a random walk that accepts a quarter of its proposals: 320 MB of draws."""
    chains, draws = 8, 100_000
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((chains, draws, DIM)) * (rng.random((chains, draws, 1)) < 0.25), axis=1)
    posterior = xr.Dataset({"beta": (("chain", "draw", "coef"), walk)})
    stats = xr.Dataset({"accepted": (("chain", "draw"), rng.random((chains, draws)) < 0.25)})
    trace = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})
    elapsed = []
    for _ in range(3):
        started = time.process_time()
        path = amc.save(trace, tmp_path / "trace.nc")
        elapsed.append(time.process_time() - started)
    share = path.stat().st_size / walk.nbytes
    print(
        f"\nsaving {walk.nbytes / 1e6:.0f} MB: {min(elapsed):.2f} s of {np.round(elapsed, 2)}, {share:.2f} of the size"
    )
    assert min(elapsed) < 4.0
    assert share < 1 / 3


def test_overhead_of_a_draw():
    """A target of one parameter and one datum: the cost of a step without the model."""
    target = amc.FunctionTarget(
        lambda theta, data, i: -0.5 * theta[0] ** 2, lambda theta: 0.0, data=np.zeros(1), n_obs=1, dim=1
    )
    program = amc.MetropolisHastings(amc.RandomWalk(2.4), amc.ExactTest()).build(target, audit_every=None)
    chain = program.start(np.zeros(1), streams(seed_sequences(1, 1)[0][0]), 0)
    n = 20_000
    draws, counts = np.empty((n, 1)), np.empty((n, len(COUNT_NAMES)), np.int64)
    values = np.empty((n, len(VALUE_NAMES)))
    seconds = race({"one draw": lambda: chain.advance(n, 1, draws, counts, values)})
    print(table("overhead", seconds, "one draw", per=n))
    assert median(seconds["one draw"] / n).low < 2e-6


START = """
import time
import numpy, numba, xarray, arviz
started = time.process_time()
import approxmcmc as amc
from approxmcmc import runs
run = runs.run
def timed(*arguments, **settings):
    print(time.process_time() - started)
    return run(*arguments, **settings)
runs.run = timed
X, y = numpy.random.default_rng(0).normal(size=(1000, 5)), numpy.arange(1000) % 2
target = amc.targets.LogisticRegression(X, y)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(0.05, 500))
amc.sample(target, sampler, draws=1, tune=0, chains=1, random_seed=1, progressbar=False)
"""


def test_a_second_process_samples_soon(tmp_path):
    """CPU seconds from the imports of NumPy, Numba, xarray and ArviZ to the first step, compiled code on disk."""
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
    assert min(later) < 1.2
