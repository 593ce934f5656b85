"""A run on data where they lie equals, bit for bit, that on the same numbers in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import approxmcmc as amc
from approxmcmc.engine.files import mapped_files
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import DatasetWarning, InvalidInputError, MissingExtraError
from approxmcmc.sources import Arrays, DaskArray, DaskFrame, ParquetFolder, ZarrArray
from approxmcmc.targets.all_rows import AllRows

N, NAMES = 240, ["a", "b", "c"]
SAMPLER = amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.05, 64, order="blocks"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Lay rows out in a folder of the test."""
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))


def table_of(dtype):
    """Return predictors with an odd number of columns, and responses."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, len(NAMES))).astype(dtype)
    return X, (rng.random(N) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(np.int8)


def parquet(X, y, folder):
    """Write files of uneven lengths, in row groups that no file's length is a multiple of."""
    (folder / "rows").mkdir()
    for k, here in enumerate((slice(0, 150), slice(150, 151), slice(151, None))):
        columns = {**{name: X[here, j] for j, name in enumerate(NAMES)}, "y": y[here]}
        pq.write_table(pa.table(columns), folder / "rows" / f"{k}.parquet", row_group_size=64)
    rows = ParquetFolder(folder / "rows")
    return rows[NAMES], rows["y"]


def in_zarr(X, y, folder):
    for name, array in (("X", X), ("y", y)):
        chunks = (70, *array.shape[1:])
        zarr.create_array(str(folder / name), shape=array.shape, chunks=chunks, dtype=array.dtype)[:] = array
    return ZarrArray(folder / "X", NAMES), zarr.open_array(str(folder / "y"), mode="r")


def in_dask(X, y, folder):
    return DaskArray(da.from_array(X, chunks=(90, 2)), NAMES), da.from_array(y, chunks=130)


def in_frame(X, y, folder):
    frame = dd.from_pandas(pd.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "y": y}), npartitions=3)
    return frame[NAMES], DaskFrame(frame)["y"]


def mapped(X, y, folder):
    X.tofile(folder / "X")
    y.tofile(folder / "y")
    return Arrays(np.memmap(folder / "X", X.dtype, "r", shape=X.shape), NAMES), np.memmap(folder / "y", y.dtype, "r")


KINDS = [parquet, in_zarr, in_dask, in_frame, mapped]


def run(target, sampler=SAMPLER):
    settings = {"random_seed": 1, "cores": 1, "audit_every": None, "progressbar": False}
    trace = amc.sample(target, sampler, draws=12, tune=4, chains=2, **settings)
    return {name: trace[f"{group}/{name}"].to_numpy() for group, name in [
        ("posterior", "beta"), ("sample_stats", "likelihood_evaluations"), ("sample_stats", "accepted")
    ]}  # fmt: skip


def both(kind, dtype, folder):
    """Return the same regression on a source and on arrays."""
    X, y = table_of(dtype)
    target = amc.targets.LogisticRegression(*kind(X, y, folder), intercept=True)
    return target, amc.targets.LogisticRegression(X, y, intercept=True, coef_names=NAMES)


@pytest.mark.parametrize(("kind", "dtype"), [(parquet, np.float64), *((kind, np.float32) for kind in KINDS)])
def test_rows_are_those_of_arrays(kind, dtype, tmp_path):
    target, plain = both(kind, dtype, tmp_path)
    assert target.X.dtype == dtype and not target.X.flags.writeable
    for name in ("X", "y"):
        np.testing.assert_array_equal(getattr(target, name), getattr(plain, name))
    assert target.content_hash() == plain.content_hash()
    assert target.variables.labels() == plain.variables.labels()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.recompiles
def test_draws_are_those_of_arrays(dtype, tmp_path):
    found, expected = (run(target) for target in both(parquet, dtype, tmp_path))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.recompiles
def test_influential_rows_and_modes_are_those_of_arrays(tmp_path):
    X, y = table_of(np.float32)
    targets = amc.targets.LogisticRegression(*parquet(X, y, tmp_path)), amc.targets.LogisticRegression(X, y)
    modes = [amc.laplace(target).mode for target in targets]
    np.testing.assert_array_equal(*modes)
    expanded = [amc.ControlVariate(target, always_read="auto") for target in targets]
    np.testing.assert_array_equal(*(target.laplace.cov for target in expanded))
    sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.acceptance.PoissonTest())
    np.testing.assert_array_equal(*(run(target, sampler)["beta"] for target in expanded))


def two_groups(X, y):
    """Return a normal regression with groups, whose scale is known, and varying slopes."""
    group = np.arange(N) % 3
    predictors = {"mu": {"beta": X, "effect": group, "slope": (group, X[:, 1])}}
    derivatives = {"derivatives": lambda mu, y: (y - mu, -1.0)}
    return amc.targets.PredictorTarget(lambda mu, y: -0.5 * (y - mu) ** 2, predictors, y, **derivatives)


@pytest.mark.parametrize("make", [amc.targets.LogisticRegression, amc.targets.SoftmaxRegression, two_groups])
@pytest.mark.recompiles
def test_float32_gives_the_sums_of_the_same_numbers_as_float64(make):
    """Single rounding would show in the seventh digit."""
    X, y = table_of(np.float32)
    short, long = make(X, y), make(X.astype(np.float64), y)
    assert short.data[0].dtype == np.float32 and short.data[0].nbytes == long.data[0].nbytes // 2
    theta = np.sin(1.0 + np.arange(short.variables.size))
    for values in zip(*(every_sum(target, theta) for target in (short, long)), strict=True):
        np.testing.assert_allclose(*values, rtol=1e-12, atol=1e-12)


def every_sum(target, theta):
    """Return log density, terms, gradient, mode, curvature, and the sums of the likelihood's bound where it has one."""
    compiled, gradient = target.compile(), target.compile_gradient()
    slope, fit = full_gradient(gradient, theta), amc.numerics.find_mode(target)
    bounds = target.likelihood_bound("tuned", theta).sums if target.bound_kinds else ()
    terms = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
    norms = [target.row_norms()] if isinstance(target, amc.targets.LogisticRegression) else []
    return [AllRows(target).log_densities(theta[None]), terms, slope, fit.theta, fit.precision, *bounds, *norms]


@pytest.mark.parametrize("bound", ["tuned", "untuned", "taylor"])
@pytest.mark.recompiles
def test_bounds_of_float32_are_those_of_float64(bound):
    X, y = table_of(np.float32)
    at = np.array([0.1, -0.2, 0.3])
    found = [
        amc.targets.LogisticRegression(rows, y).likelihood_bound(bound, at).sums for rows in (X, X.astype(np.float64))
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_other_families_take_sources(tmp_path):
    X, y = table_of(np.float64)
    rows, responses = parquet(X, y, tmp_path)
    softmax = amc.targets.SoftmaxRegression(rows, responses)
    assert softmax.content_hash() == amc.targets.SoftmaxRegression(X, y, coef_names=NAMES).content_hash()

    def loglik(theta, data, i):
        return -0.5 * (data[0][i, 0] - theta[0]) ** 2

    def logprior(theta):
        return -0.5 * theta[0] ** 2

    def target_of(data):
        return amc.FunctionTarget(loglik, logprior, data=data, n_obs=N, dim=1)

    assert target_of(rows).content_hash() == target_of(X).content_hash()


def test_categories_are_codes_of_one_list_of_labels(tmp_path):
    cities = np.array(["Rome", "Oslo", "Bern"])[np.arange(N) % 3]
    X, y = table_of(np.float64)
    frame = pd.DataFrame({"a": X[:, 0], "city": pd.Categorical(cities), "y": y})
    first, second = (
        frame[:100],
        frame[100:].assign(city=pd.Categorical(cities[100:], categories=["Rome", "Bern", "Oslo"])),
    )
    (tmp_path / "rows").mkdir()
    first.to_parquet(tmp_path / "rows" / "0.parquet")
    second.to_parquet(tmp_path / "rows" / "1.parquet")
    expected = np.unique(cities, return_inverse=True)[1]
    for rows in (ParquetFolder(tmp_path / "rows"), DaskFrame(dd.from_pandas(frame, npartitions=2))):
        assert rows["city"].categories == {"city": ("Bern", "Oslo", "Rome")}
        np.testing.assert_array_equal(np.asarray(rows["city"]), expected)
        target = amc.targets.PredictorTarget(
            lambda eta, y: -0.5 * (y - eta) ** 2, {"eta": {"slope": rows["a"], "city": rows["city"]}}, rows["y"]
        )
        assert target.variables.shapes == {"slope": (), "city": (3,)}
        with pytest.raises(InvalidInputError, match=r"a table of several columns needs numbers"):
            np.asarray(rows[["a", "city"]])


def test_an_array_that_is_taken_as_a_whole_is_not_laid_out(tmp_path):
    X, _ = table_of(np.float32)
    X.tofile(tmp_path / "X")
    source = Arrays(np.memmap(tmp_path / "X", X.dtype, "r", shape=X.shape), NAMES)
    assert is_mapped(np.asarray(source)) and not (tmp_path / "cache").exists()
    np.testing.assert_array_equal(np.asarray(source), X)
    whole = np.asarray(Arrays(X))
    assert np.shares_memory(whole, X) and not whole.flags.writeable and X.flags.writeable
    for other in (source[["b", "a"]], source["a"], source.astype(np.float64), Arrays(X.T.copy().T, NAMES)):
        np.testing.assert_array_equal(np.asarray(other), np.concatenate([other.read(0)]))
    assert len(list((tmp_path / "cache" / "laid_out_rows").iterdir())) == 4


def test_rows_are_laid_out_once(tmp_path, monkeypatch, caplog):
    X, y = table_of(np.float32)
    rows, _ = parquet(X, y, tmp_path)
    monkeypatch.setattr(mapped_files, "TOLD", rows.nbytes)
    caplog.set_level("INFO", logger="approxmcmc")
    first = np.asarray(rows)
    [told] = caplog.messages
    assert told.startswith("ParquetFolder(240 rows, a, b, c): 2.88e-06 GB are written once to ")
    (file,) = (tmp_path / "cache" / "laid_out_rows").iterdir()
    assert rows.nbytes == X.nbytes < file.stat().st_size < X.nbytes + 300
    monkeypatch.setattr(ParquetFolder, "_read", lambda self, block: pytest.fail("the rows were read again"))
    np.testing.assert_array_equal(np.asarray(ParquetFolder(tmp_path / "rows")[NAMES]), first)


def test_changed_files_are_other_data(tmp_path):
    X, y = table_of(np.float32)
    rows, _ = parquet(X, y, tmp_path)
    before = np.asarray(rows)
    pq.write_table(pa.table({**dict(zip(NAMES, 2.0 * X[:9].T, strict=True)), "y": y[:9]}), tmp_path / "rows/1.parquet")
    after = np.asarray(ParquetFolder(tmp_path / "rows")[NAMES])
    assert len(after) == len(before) + 8
    np.testing.assert_array_equal(after[150:159], 2.0 * X[:9])


def test_what_cannot_be_read_leaves_nothing(tmp_path):
    X, y = table_of(np.float32)
    rows, _ = parquet(X, y, tmp_path)
    (tmp_path / "rows" / "2.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        np.asarray(rows)
    assert list((tmp_path / "cache" / "laid_out_rows").iterdir()) == []


def test_a_disk_without_room_is_told_before_a_row_is_read(tmp_path, monkeypatch):
    X, y = table_of(np.float32)
    rows, _ = parquet(X, y, tmp_path)
    monkeypatch.setattr(ParquetFolder, "_read", lambda self, block: pytest.fail("a row was read"))

    def full(descriptor, offset, length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InvalidInputError, match=r"no room for 0 MB.*No space left"):
        np.asarray(rows)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1.0, None, 2.0]), r"1 NaN or infinite value\(s\), the first at index \(1, 0\)"),
        (pa.array([1, None, 2]), r"has 1 missing value"),
        (pa.array([2**63, 1, 2], pa.uint64()), r"the largest int64; block 0 holds"),
        (pa.array([0, 1, 2], pa.timestamp("s")), r"must hold numbers, categories or text"),
    ],
)
def test_missing_and_strange_values_are_refused(values, message, tmp_path):
    pq.write_table(pa.table({"a": values, "y": [0, 1, 1]}), tmp_path / "rows.parquet")
    rows = ParquetFolder(tmp_path / "rows.parquet")
    read = {pa.float64(): lambda: amc.targets.LogisticRegression(rows[["a"]], rows["y"])}
    with pytest.raises(InvalidInputError, match=message):
        read.get(values.type, lambda: np.asarray(rows["a"]))()


def test_refusals_say_what_there_is(tmp_path):
    X, y = table_of(np.float64)
    rows, _ = parquet(X, y, tmp_path)
    with pytest.raises(InvalidInputError, match=r"no columns \['z'\]; there are \['a', 'b', 'c'\]"):
        rows["z"]
    with pytest.raises(InvalidInputError, match=r"cannot be read as Parquet"):
        ParquetFolder(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match=r"need as many different names"):
        Arrays(X, ["a", "a", "b"])
    with pytest.raises(InvalidInputError, match=r"cannot be opened as a Zarr array"):
        ZarrArray(tmp_path / "nowhere.zarr")


def test_a_zarr_array_that_lacks_a_chunk_warns(tmp_path):
    """Zarr reads the missing rows as zeros, so a posterior would be of other data without a word."""
    X, y = table_of(np.float64)
    in_zarr(X, y, tmp_path)
    [chunk] = (tmp_path / "X" / "c" / "1").iterdir()
    chunk.unlink()
    with pytest.warns(DatasetWarning, match=r"1 of \d+ chunks of .*X are missing, .* the fill value, .*0\.0"):
        rows = ZarrArray(tmp_path / "X", NAMES)
    assert not np.asarray(rows)[70:140].any()


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(MissingExtraError, match=r"approxmcmc\[sources\]"):
        ParquetFolder("rows")
