"""Audits and starting points by two worker processes give what one process finds: decisions to the bit, sums to 1e-10.

The workers are processes: all that travels to them is pickled.
"""

import sys

import cloudpickle
import distributed
import numba
import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc.engine.terms import partitions
from approxmcmc.errors import ClusterWarning
from approxmcmc.sources import Arrays
from approxmcmc.targets import all_rows
from approxmcmc.targets.all_rows import AllRows

pytestmark = [pytest.mark.recompiles, pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")]
N, PARTS = 240, 4


@pytest.fixture(scope="module")
def client():
    """Start two worker processes with a thread each."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def small_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(partitions.spans, "__defaults__", (N // PARTS,))


def source_of(array):
    source = Arrays(array)
    source.offsets = np.append(np.arange(0, N, 30), N)
    return source


def logistic(rng):
    X = rng.normal(size=(N, 3)).astype(np.float32)
    return amc.targets.LogisticRegression(source_of(X), source_of((X[:, 0] + rng.logistic(size=N) > 0).astype(float)))


def bounded_scale(rng):
    """A general target with a wall in its prior."""

    def loglik(theta, data, i):
        (x,) = data
        return -np.log(theta[1]) - 0.5 * ((x[i] - theta[0]) / theta[1]) ** 2

    def logprior(theta):
        return -0.5 * theta[0] ** 2 if 0.5 < theta[1] < 1.1 else -np.inf

    x = source_of(rng.normal(size=N))
    return amc.FunctionTarget(loglik, logprior, data=x, n_obs=N, dim=2, initial_point=[0.0, 0.9])


def control_variate(rng):
    return amc.ControlVariate(logistic(rng))


def influential_rows(rng):
    return amc.ControlVariate(logistic(rng), always_read=np.arange(5))


TARGETS = [logistic, bounded_scale, control_variate, influential_rows]
SAMPLER = amc.MetropolisHastings(
    amc.RandomWalk(0.2, target_acceptance=0.3), amc.SequentialTTest(epsilon=0.2, batch_size=20)
)
DIFFERENCES = {"audited_acceptance", "audited_log_ratio", "audited_energy_change"}


def run(target):
    settings = {"draws": 30, "tune": 20, "chains": 2, "random_seed": 3, "audit_every": None, "progressbar": False}
    return amc.sample(target, SAMPLER, **settings)


def audits(trace, target, sampler):
    """Return what 20 audits record, by name."""
    stats = amc.audit(trace, target, sampler, n_audits=20, random_seed=1)["sample_stats"]
    return {name: stats[name].values for name in stats.data_vars if "audit" in name or "wrong" in name}


@pytest.mark.parametrize("make", TARGETS)
def test_densities_are_those_of_one_process(make, client, rng):
    target = make(rng)
    thetas = target.initial_point() + 0.2 * rng.normal(size=(40, target.variables.size))  # in two passes
    alone = AllRows(target).log_densities(thetas)
    with client.as_current():
        rows = AllRows(target)
        together = rows.log_densities(thetas)
        assert len(rows._of_density.parts.where) == PARTS
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    assert make is not bounded_scale or (alone == -np.inf).any()


@pytest.mark.parametrize("make", TARGETS)
def test_audits_of_steps_are_those_of_one_process_bit_by_bit(make, client, rng):
    """The run, too, whose starting points the workers look at."""
    target = make(rng)
    trace = run(target)
    alone = audits(trace, target, SAMPLER)
    with client.as_current():
        xr.testing.assert_equal(run(target)["posterior"].to_dataset(), trace["posterior"].to_dataset())
        together = audits(trace, target, SAMPLER)
    assert np.isfinite(alone["audited_log_ratio"]).sum() > 10 and alone.keys() == together.keys()
    # A user's term is compiled with the loop around it, whose last rows may round otherwise.
    rounding = 1e-13 if make is bounded_scale and not numba.config.DISABLE_JIT else 0.0
    for name, values in alone.items():
        np.testing.assert_allclose(together[name], values, rtol=rounding, err_msg=name)


@pytest.mark.parametrize("make", TARGETS)
def test_audits_of_draws_are_those_of_one_process(make, client, rng):
    target = make(rng)
    trace = run(target)
    alone = audits(trace, target, None)
    with client.as_current():
        together = audits(trace, target, None)
    for name in DIFFERENCES:
        np.testing.assert_allclose(together[name], alone[name], rtol=1e-10, err_msg=name)


def test_a_row_that_is_left_out_is_seen(client, rng, monkeypatch):
    """Planted: each part forgets its last row."""

    def forgetful(part, function, *arguments, **by_row):
        target = part.target.compile()
        return function(target._replace(n_obs=target.n_obs - 1), *arguments, **by_row)

    def found():
        rows = AllRows(target)
        return np.append(rows.log_densities(theta[None]), rows.log_ratios(theta[None], -theta[None]))

    target, theta = logistic(rng), np.full(3, 0.1)
    alone = found()
    monkeypatch.setattr(all_rows, "_on_part", forgetful)
    with client.as_current():
        together = found()
    assert (np.abs(together / alone - 1.0) > 1e-4).all()


def test_terms_of_an_expansion_of_mapped_data_stay_here_and_that_is_told(client, tmp_path, rng):
    X = rng.normal(size=(N, 1))
    X.tofile(tmp_path / "X")
    source = Arrays(np.memmap(tmp_path / "X", float, "r", shape=X.shape))
    target = amc.ControlVariate(amc.targets.LogisticRegression(source, Arrays(X[:, 0] + rng.normal(size=N) > 0)))
    with client.as_current(), pytest.warns(ClusterWarning, match="need its expansion of each row"):
        assert AllRows(target).parts is None


def test_a_lost_scheduler_costs_no_audit(client, rng, monkeypatch):
    def lost(self, *arguments, **by_row):
        raise ConnectionError("the connection to the scheduler was lost")

    target, theta = logistic(rng), np.full(3, 0.1)
    expected = AllRows(target).differences(theta, -theta)
    monkeypatch.setattr(partitions.Partitions, "total", lost)
    with client.as_current():
        rows = AllRows(target)
        with pytest.warns(ClusterWarning, match=r"was lost\. This process makes"):
            found = rows.differences(theta, -theta)
        np.testing.assert_array_equal(rows.differences(theta, -theta)[0], expected[0])  # and says so once
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
