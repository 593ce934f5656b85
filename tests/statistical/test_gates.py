"""The gates on audits of real pairs: seldom on exact draws, nearly always on draws of another law."""

import numpy as np
import pytest
import xarray as xr

from approxmcmc.audits.steps import WalkedSteps
from approxmcmc.diagnostics.gates import gates
from approxmcmc.targets.all_rows import AllRows
from tests.models import normal_mean

pytestmark = pytest.mark.statistical
RUNS, AUDITS = 200, 100


def share_that_fires(rng, target, draws_of):
    """Return in which share of runs of 100 audits a gate on the draws fires; the draws are independent."""
    rows, fired = AllRows(target), 0
    for _ in range(RUNS):
        draws = draws_of(AUDITS)[:, None]
        auditor = WalkedSteps(rows, draws, rng)
        found = [auditor(theta, 0) for theta in draws]
        stats = {name: (("chain", "draw"), [[one[name] for one in found]]) for name in found[0]}
        fired += any(gate.fires for gate in gates(xr.Dataset(stats, attrs={"n_obs": target.n_obs})))
    return fired / RUNS


def test_gates_on_the_draws(seed):
    """Exact draws: 0.27 % of runs fire by each of two gates, were their scores normal, and the energy must drift a nat.

    False-fail rate: at 2 % of runs in truth, more than 17 of 200 have a probability below 1e-6; none was found.
    Planted: draws with six times the posterior's standard deviation, and draws shifted by three, must fire in nine of
    ten runs, found 0.98 and 1.00. Power: twice the standard deviation fires in 0.3 of the runs, a shift by two in 0.95;
    a gate that never fires, or that is blind to one of them, fails.
    """
    rng = np.random.default_rng(seed)
    target = normal_mean()
    x = np.random.default_rng(0).normal(size=100)
    mean, sd = (4.0 + x.sum()) / 104.0, 104.0**-0.5
    assert share_that_fires(rng, target, lambda n: mean + sd * rng.normal(size=n)) <= 17 / RUNS
    assert share_that_fires(rng, target, lambda n: mean + 6.0 * sd * rng.normal(size=n)) > 0.9
    assert share_that_fires(rng, target, lambda n: mean + 3.0 * sd + sd * rng.normal(size=n)) > 0.9
