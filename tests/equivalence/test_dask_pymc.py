"""Passes of a PyMC model by two worker processes, which compile its graph for themselves, are those of one process."""

import distributed
import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms import partitions
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.reference.stein import scores_of
from approxmcmc.sources import Arrays
from approxmcmc.targets.all_rows import AllRows

pytestmark = [pytest.mark.needs_jit, pytest.mark.recompiles]
N, FEW, PARTS = 240, 8, 4


def sources(rng):
    """Return rows of float32, codes and responses."""
    x = rng.normal(size=N).astype(np.float32)
    rows = {"x": x, "group": rng.integers(2, size=N), "y": x + rng.normal(size=N)}
    found = {name: Arrays(array) for name, array in rows.items()}
    for source in found.values():
        source.offsets = np.append(np.arange(0, N, 30), N)
    return found


def test_passes_are_those_of_one_process(rng, tmp_path, monkeypatch):
    """To 1e-10; but the second derivatives are differences of gradients, whose steps are found from sums."""
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(partitions.spans, "__defaults__", (N // PARTS,))
    rows = sources(rng)
    with pm.Model() as model:
        x, group = pm.Data("x", rows["x"].rows(0, FEW)), pm.Data("group", rows["group"].rows(0, FEW))
        slope, log_sigma = pm.Normal("slope", 0.0, 1.0, shape=2), pm.Normal("log_sigma", 0.0, 1.0)
        pm.Normal("y", slope[group] * x, pm.math.exp(log_sigma), observed=rows["y"].rows(0, FEW))
    target = amc.from_pymc(model, data=rows)
    thetas = rng.normal(scale=0.3, size=(4, 3))

    def found():
        everything, expansion, numbers = AllRows(target), Posterior(target).expansion, np.empty((N, 10))
        total = expansion.expand(thetas[0], numbers)
        sums = everything.log_densities(thetas), everything.log_ratios(thetas, -thetas), scores_of(target, thetas)
        terms = everything.differences(thetas[0], thetas[1])[0]
        return expansion.parts, (terms, *sums, total.gradient), (total.hessian, numbers)

    none, sums, differences = found()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        parts, same_sums, same_differences = found()
    assert none is None and len(parts.where) == PARTS
    for together, alone in zip(same_sums, sums, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-10, atol=1e-10 * np.abs(alone).max())
    for together, alone in zip(same_differences, differences, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-7 * np.abs(alone).max())
