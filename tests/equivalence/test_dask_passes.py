"""Passes by the workers of a Dask cluster give what one process finds, to 1e-10."""

import dask.array as da
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import approxmcmc as amc
from approxmcmc.engine import partitions
from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.sources import Arrays, ParquetFolder
from approxmcmc.targets.expansion.distributed import DistributedExpansion
from approxmcmc.targets.expansion.linear import LinearExpansion
from approxmcmc.targets.posterior import Posterior

pytestmark = pytest.mark.recompiles
N, DIM = 600, 3


@pytest.fixture(scope="module")
def cluster():
    """Start two workers, processes of their own: what travels is pickled."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "processes": True}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(partitions.spans, "__defaults__", (140,))


def parquet(folder, n=N):
    """Write some files of float32 with rows of a rare category among them, and return X and y."""
    rng = np.random.default_rng(5)
    rare = np.arange(n) % (n // 3) == 0
    X = np.column_stack([rng.normal(size=(n, DIM - 1)), rare / rare.std()]).astype(np.float32)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 0]))) | rare
    (folder / "rows").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(n), 4)):
        table = pa.table({**{f"x{j}": X[rows, j] for j in range(DIM)}, "y": y[rows]})
        pq.write_table(table, folder / "rows" / f"{k}.parquet", row_group_size=70)
    source = ParquetFolder(folder / "rows")
    return source[[f"x{j}" for j in range(DIM)]], source["y"]


def found_by(target):
    """Return what passes over all data find: mode, curvature, numbers by row, walls, spreads, terms."""
    fit = amc.targets.find_mode(target)
    core = amc.CoreRows(target, at=amc.laplace(target))
    expansion = Posterior(target).expansion
    out = np.empty((target.n_obs, 2))
    law = fit.theta, core.pilot.cholesky, core.pilot.draws
    survey = expansion.survey(*law, out, averaged=True)
    total = expansion.expand(fit.theta, np.empty_like(out))
    numbers = {"mode": fit.theta, "precision": fit.precision, "cov": core.laplace.cov, "rows": out}
    sums = {"deviations": survey.deviations, "left": survey.left, "gradient": total.gradient, "hessian": total.hessian}
    by_row = {"spreads": survey.spreads(), "terms": expansion.terms_at(core.pilot.draws[:2])}
    return {**numbers, **sums, **by_row}, {"core": core.core, "walls": survey.walls}, expansion


@pytest.mark.slow
def test_passes_are_those_of_one_process(cluster, tmp_path):
    target = amc.targets.LogisticRegression(*parquet(tmp_path), intercept=True)
    alone, rows, expansion = found_by(target)
    assert type(expansion) is LinearExpansion and len(rows["core"]) >= 3
    with distributed.Client(cluster):
        together, same_rows, expansion = found_by(target)
        assert type(expansion) is DistributedExpansion and len(expansion._where) == 5
        assert Posterior(target, order=1).expansion._parts is expansion._parts  # rows are read once
    for name, values in rows.items():
        np.testing.assert_array_equal(same_rows[name], values, err_msg=name)
    for name, values in alone.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(together[name], values, rtol=1e-10, atol=1e-10 * scale, err_msg=name)


def test_a_function_of_the_users_and_lazy_arrays_travel(cluster, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(N, 2)), rng.poisson(1.0, N)
    scale = 1.0

    def poisson(eta, y):
        return y * eta - scale * np.exp(eta)

    plain = amc.targets.find_mode(amc.GLMTarget(poisson, X, y))
    with distributed.Client(cluster):
        lazy = amc.GLMTarget(poisson, da.from_array(X, chunks=(200, 1)), da.from_array(y, chunks=350))
        found = amc.targets.find_mode(lazy)
    np.testing.assert_allclose(found.theta, plain.theta, rtol=1e-10)


def test_an_error_of_a_part_names_the_datum(cluster, tmp_path):
    X = np.zeros((N, 1))
    X[450] = 800.0

    def overflows(eta, y):
        return np.sqrt(700.0 - eta)

    target = amc.GLMTarget(overflows, Arrays(X), Arrays(np.zeros(N)))
    with distributed.Client(cluster), pytest.raises(NotFiniteError, match="datum 450 "):
        Posterior(target).at(np.ones(1))


def test_arrays_stay_in_this_process(cluster):
    X = np.random.default_rng(0).normal(size=(100, 2))
    with distributed.Client(cluster):
        expansion = Posterior(amc.targets.LogisticRegression(X, X[:, 0] > 0)).expansion
    assert type(expansion) is LinearExpansion


def test_a_cluster_without_workers_is_refused(tmp_path):
    target = amc.targets.LogisticRegression(*parquet(tmp_path))
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as empty,
        distributed.Client(empty),
        pytest.raises(InvalidInputError, match="has no worker; start some"),
    ):
        amc.targets.find_mode(target)
