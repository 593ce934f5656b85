"""A step of SGLD against the best JAX sampler: blackjax inside ``lax.scan``, minibatches of 500, 50 coefficients.

Skipped where blackjax is not installed (extra ``foreign``). CPU time of the whole process is compared, since
JAX computes on threads of its own; XLA is set to use one. Both sides draw their minibatches, ours without replacement.
"""

import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams
from tests.bench.interleave import race, ratio, table

blackjax = pytest.importorskip("blackjax")
jax = pytest.importorskip("jax")

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
N, DIM, BATCH, STEPS, ALPHA = 12_214, 50, 500, 2000, 1e-5


def ours(X, y):
    """Return a function that makes `STEPS` steps of a running chain."""
    target = amc.targets.LogisticRegression(X, y)
    chain = amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(ALPHA, BATCH), amc.acceptance.AlwaysAccept()
    ).build(target, audit_every=None)
    chain = chain.start(np.zeros(DIM), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((STEPS, DIM))
    counts, values = np.empty((STEPS, len(COUNT_NAMES)), np.int64), np.empty((STEPS, len(VALUE_NAMES)))
    return lambda: chain.advance(STEPS, 1, draws, counts, values)


def theirs(X, y, *, double):
    """Return a function that makes `STEPS` steps of blackjax's SGLD in one scan, in single or double precision."""
    with jax.enable_x64(double):
        scan = compiled_scan(X, y, np.float64 if double else np.float32)

    def run():
        with jax.enable_x64(double):
            scan()

    return run


def compiled_scan(X, y, dtype):
    """Return a function that runs the scan on a fresh key."""
    X, y = jax.numpy.asarray(X, dtype), jax.numpy.asarray(y, dtype)

    def log_prior(beta):
        return -0.5 * beta @ beta

    def log_likelihood(beta, row):
        x, response = row
        eta = x @ beta
        return response * eta - jax.nn.softplus(eta)

    gradient = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, N)
    kernel = blackjax.sgld(gradient)

    def step(carry, _):
        key, beta = carry
        key, batch_key, step_key = jax.random.split(key, 3)
        rows = jax.random.randint(batch_key, (BATCH,), 0, N)
        beta = kernel.step(step_key, beta, (X[rows], y[rows]), 0.5 * ALPHA)
        return (key, beta), beta

    scan = jax.jit(lambda key, beta: jax.lax.scan(step, (key, beta), None, length=STEPS)[1])
    start, keys = jax.numpy.zeros(DIM, dtype), iter(jax.random.split(jax.random.key(0), 1000))
    return lambda: scan(next(keys), start).block_until_ready()


def test_sgld_is_at_least_as_fast_as_blackjax():
    X, y = synthetic_logistic(N, DIM, seed=0)
    rivals = {
        "approxmcmc, float64": ours(X, y),
        "blackjax, float64": theirs(X, y, double=True),
        "blackjax, float32": theirs(X, y, double=False),
    }
    seconds = race(rivals, rounds=11, clock=time.process_time)
    title = f"one step of SGLD, minibatch of {BATCH}, d = {DIM}, N = {N}"
    print(table(title, seconds, "approxmcmc, float64", per=STEPS))
    assert ratio(seconds, "blackjax, float64", "approxmcmc, float64").high > 1.0
    assert ratio(seconds, "blackjax, float32", "approxmcmc, float64").high > 1.0
