"""Groups whose rows come from sources: the target of the same arrays, and parts that keep groups whole."""

import itertools

import cloudpickle
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import approxmcmc as amc
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms import partitions
from approxmcmc.errors import ClusterWarning, IncompatibleError
from approxmcmc.sources import ParquetFolder, parts
from approxmcmc.targets.all_rows import AllRows
from approxmcmc.targets.groups import grouping

N, G = 120, 25
FAMILIES = ["logit", "binomial", "poisson"]


@pytest.fixture(autouse=True)
def small_pieces(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(partitions.spans, "__defaults__", (40,))
    monkeypatch.setattr(grouping, "ROWS", 16)


def table_of(folder, order):
    """Write row groups of 15 rows, 25 groups in the given order of rows; return the columns too."""
    rng = np.random.default_rng(3)
    shop = rng.integers(G, size=N)
    shop = np.sort(shop) if order == "sorted" else shop
    columns = {
        "x": rng.normal(size=N).astype(np.float32),
        "y": rng.integers(2, size=N),
        "trials": rng.integers(1, 4, size=N),
        "shop": shop,
        "name": np.array([f"shop {s:02d}" for s in shop]),
    }
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "0.parquet", row_group_size=15)
    return columns, ParquetFolder(folder)


def target_of(rows, family="logit", shop="shop", **settings):
    trials = rows["trials"] if family == "binomial" else None
    X = rows[["x"]] if isinstance(rows, ParquetFolder) else rows["x"][:, None]
    return amc.targets.GroupedTarget(X, rows["y"], rows[shop], family=family, trials=trials, intercept=True, **settings)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_groups_of_a_source_are_those_of_the_same_arrays(order, family, tmp_path):
    columns, source = table_of(tmp_path / "rows", order)
    held, read = target_of(columns, family), target_of(source, family)
    assert is_mapped(read.data[0]) and is_mapped(read.data[1]) and not is_mapped(held.data[0])
    for array, expected in zip(read.data, held.data, strict=True):
        np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(read.omitted_constants, held.omitted_constants)
    np.testing.assert_array_equal(read.group_labels, held.group_labels, strict=True)
    assert read.accuracy == held.accuracy


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_normal_groups_of_a_source_are_those_of_the_same_arrays(order, tmp_path):
    columns, source = table_of(tmp_path / "rows", order)
    make, slopes = amc.targets.NormalGroups, columns["trials"]
    held = make(columns["x"][:, None], columns["y"], columns["shop"], slopes=slopes, intercept=True)
    read = make(source[["x"]], source["y"], source["shop"], slopes=source["trials"], intercept=True)
    for array, expected in zip(read.data, held.data, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_labels_of_text_are_those_of_the_source(tmp_path):
    columns, source = table_of(tmp_path / "rows", "random")
    at = np.zeros(3)
    held, read = (target_of(rows, shop="name", at=at, n_nodes=8) for rows in (columns, source))
    assert held.group_labels.tolist() == read.group_labels.tolist() == [f"shop {s:02d}" for s in range(G)]
    np.testing.assert_array_equal(read.own_terms(at), held.own_terms(at))


def test_parts_hold_whole_groups_and_their_terms(tmp_path):
    """A group that lies in two row groups of the file is read from both."""
    columns, source = table_of(tmp_path / "rows", "sorted")
    assert (columns["shop"][14::15][:-1] == columns["shop"][15::15]).any()
    target = target_of(source)
    recipe, theta = parts.recipe_of(target), np.array([0.3, -0.2, 0.7])
    starts = list(recipe.first_rows)
    assert len(starts) == 4 and starts[0] == 0 and starts[-1] == target.n_obs
    made = [
        parts.make_part(cloudpickle.loads(cloudpickle.dumps(recipe)), lo, hi).target
        for lo, hi in itertools.pairwise(starts)
    ]
    np.testing.assert_array_equal(np.concatenate([part.own_terms(theta) for part in made]), target.own_terms(theta))
    assert sum(part.n_rows for part in made) == N


def test_a_split_group_counted_as_two_is_refused(tmp_path, monkeypatch):
    """Planted: parts that end where the row groups end."""
    target = target_of(table_of(tmp_path / "rows", "sorted")[1])
    ends = target.grouping.start
    split = next(row for row in range(45, N, 15) if row not in ends)
    g = int(np.searchsorted(ends, split))
    bug = np.array([0, g, target.n_obs]), np.array([0, split, N])
    monkeypatch.setattr(type(target), "cuts", property(lambda self: bug))
    recipe = parts.recipe_of(target)
    with pytest.raises(IncompatibleError, match="a group must not be split"):
        parts.make_part(recipe, g, target.n_obs)


def test_groups_that_lie_far_apart_stay_in_this_process_and_it_says_so(tmp_path):
    target = target_of(table_of(tmp_path / "rows", "random")[1])
    assert target.cuts[0].tolist() == [0, target.n_obs]
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster),
        pytest.warns(ClusterWarning, match="lie far apart; sort the rows by group"),
    ):
        assert parts.parts_of(target) is None


def test_a_cluster_finds_the_mode_and_makes_audits(tmp_path):
    """Parts made while the mode is searched hold other starts of the nodes than the finished target: made anew."""
    source, thetas = table_of(tmp_path / "rows", "sorted")[1], np.random.default_rng(0).normal(size=(5, 3))
    alone = target_of(source)
    densities = AllRows(alone).log_densities(thetas)
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster),
    ):
        together = target_of(source)
        rows = AllRows(together)
        found = rows.log_densities(thetas)
        assert len(rows.parts.where) == 3
    np.testing.assert_allclose(together.center, alone.center, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, densities, rtol=1e-12)
