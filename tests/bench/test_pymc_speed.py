"""What a step costs when the model is PyMC's: against the same model as plain functions, and in its fast form."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.interop.pymc import from_pymc
from tests.bench.interleave import race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
N, DIM, STEPS = 12_214, 50, 50


def _loglik(theta, data, i):
    X, y = data
    eta = 0.0
    for j in range(theta.shape[0]):
        eta += X[i, j] * theta[j]
    return y[i] * eta - (max(eta, 0.0) + np.log1p(np.exp(-abs(eta))))


def _logprior(theta):
    return -0.5 * np.sum(theta**2)


def stepper(target, test):
    """Return a function that makes `STEPS` steps of a running chain."""
    program = amc.MetropolisHastings(amc.RandomWalk(0.01), test).build(target, audit_every=None)
    chain = program.start(np.zeros(DIM), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((STEPS, DIM))
    counts, values = np.empty((STEPS, len(COUNT_NAMES)), np.int64), np.empty((STEPS, len(VALUE_NAMES)))
    return lambda: chain.advance(STEPS, 1, draws, counts, values)


def test_a_pymc_model_against_plain_functions_and_the_fast_form():
    X, y = synthetic_logistic(N, DIM, seed=0)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=DIM)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(np.int64))
    targets = {
        "PyMC model": from_pymc(model, structure=False),
        "amc.FunctionTarget": amc.FunctionTarget(_loglik, _logprior, data=(X, y), n_obs=N, dim=DIM),
        "LogisticRegression": amc.targets.LogisticRegression(X, y),
    }
    test = amc.SequentialTTest(epsilon=0.05, batch_size=500)
    seconds = race({name: stepper(target, test) for name, target in targets.items()})
    print(table(f"a sequential-test step, N = {N}, d = {DIM}", seconds, "amc.FunctionTarget", per=STEPS))
    assert ratio(seconds, "PyMC model", "amc.FunctionTarget").low < 1.5
    assert ratio(seconds, "PyMC model", "LogisticRegression").low < 5.0
