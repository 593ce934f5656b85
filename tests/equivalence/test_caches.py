"""Caches change seconds alone: terms, gradients and draws have the same bits whatever a cache holds.

A process prints hashes of all of them; its folders, ours and PyTensor's, are empty or full.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.recompiles, pytest.mark.needs_jit]

PROGRAM = """
import hashlib, warnings
warnings.simplefilter("ignore")
import numba, numpy as np, pymc as pm, pytensor.tensor as pt
import approxmcmc as amc

rng = np.random.default_rng(1)
n, groups = 600, 20
x, group = rng.normal(size=n), rng.integers(0, groups, n)
y = rng.normal(size=groups)[group] + 0.5 * x + rng.normal(size=n)
X = rng.normal(size=(n, 3))
z = 1.0 * (X[:, 0] > rng.normal(size=n))
counts = rng.poisson(np.exp(0.5 * x + 0.3 * rng.normal(size=groups)[group]))

with pm.Model() as hierarchy:
    mean, sd, noise = pm.Normal("mean", 0, 5), pm.HalfNormal("sd", 2), pm.HalfNormal("noise", 2)
    pm.Normal("y", mean + sd * pm.Normal("z", 0, 1, shape=groups)[group], noise, observed=y)
with pm.Model() as counted:
    effects = pm.Normal("effects", 0, pm.HalfNormal("sd", 1), shape=groups)
    pm.Poisson("counts", pt.exp(effects[group] + pm.Normal("slope", 0, 1) * x), observed=counts)
with pm.Model() as regression:
    pm.Bernoulli("z", logit_p=pt.dot(X, pm.Normal("beta", 0, 2, shape=3)), observed=z)
with pm.Model() as general:
    weights, ends = pm.Normal("weights", 0, 1, shape=(3, 30)), pm.Normal("ends", 0, 1, shape=30)
    hidden = pt.tanh(pt.dot(pm.Data("x", X), weights))
    pm.Normal("y", (hidden * ends).sum(axis=-1), pm.HalfNormal("noise", 2), observed=y)

@numba.njit(fastmath=True)
def total(theta, row):
    found = 0.0
    for j in range(theta.shape[0]):
        found += np.sin(theta[j]) * row[j] / (1.0 + theta[j] * theta[j])
    return found

def loglik(theta, data, i):
    return -0.5 * (total(theta, data[0][i]) - 1.0) ** 2

def logprior(theta):
    return -0.5 * (theta * theta).sum()

def hashed(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]

targets = {name: amc.from_pymc(model) for name, model in
           (("hierarchy", hierarchy), ("regression", regression), ("general", general))}
targets["by quadrature"] = amc.from_pymc(counted, integrate=True)
targets["as written"] = amc.from_pymc(hierarchy, integrate=False)
targets["logistic"] = amc.targets.LogisticRegression(X, z)
targets["distinct rows"] = amc.targets.compressed(amc.targets.LogisticRegression(np.round(X[:, :1]), z))
targets["robust"] = amc.targets.RobustRegression(X, y)
targets["softmax"] = amc.targets.SoftmaxRegression(X, np.minimum(counts, 2))
targets["mixture"] = amc.targets.GaussianMixture.simulated(n, random_seed=1)
targets["binary groups"] = amc.targets.GroupedTarget(X, z, group)
targets["user's"] = amc.targets.FunctionTarget(loglik, logprior, data=(X,), n_obs=n, dim=3)
for name, target in targets.items():
    compiled, theta = target.compile(), 0.3 * np.random.default_rng(2).normal(size=target.initial_point().size)
    out = np.empty(target.n_obs)
    compiled.log_terms(theta, compiled.data, np.arange(target.n_obs), 0, target.n_obs, out)
    found = [hashed(out), compiled.log_prior(theta).hex()]
    if name != "user's":
        slopes = np.zeros((2, theta.size))
        gradient = target.compile_gradient()
        gradient.add_gradient(theta, gradient.data, np.arange(target.n_obs), 0, target.n_obs, slopes[0])
        gradient.add_prior_gradient(theta, slopes[1])
        found.append(hashed(slopes))
    print("RESULT", name, *found)
sampler = amc.MetropolisHastings(amc.proposals.Hamiltonian(0.01, length=0.1), amc.ExactTest())
for name in ("hierarchy", "by quadrature", "as written"):
    trace = amc.sample(targets[name], sampler, draws=20, tune=0, chains=1, random_seed=1)
    print("RESULT draws", name, *(hashed(values) for values in trace.posterior.data_vars.values()))
"""


def told(ours, pytensors):
    """Return what a process tells that uses these two folders."""
    environment = {**os.environ, "APPROXMCMC_CACHE_DIR": str(ours), "PYTENSOR_FLAGS": f"base_compiledir={pytensors}"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return [line for line in run.stdout.splitlines() if line.startswith("RESULT")]


def test_bits_do_not_depend_on_what_caches_hold(tmp_path):
    """Both empty, both full, and ours empty where PyTensor's is full, for each kind of target."""
    ours, pytensors = tmp_path / "ours", tmp_path / "pytensors"
    cold = told(ours, pytensors)
    assert len(cold) == 15
    assert told(ours, pytensors) == cold
    assert told(tmp_path / "others", pytensors) == cold
