import dataclasses
import os
import subprocess
import sys
import time
import types
import urllib.error
from pathlib import Path

import numpy as np
import pytest

from approxmcmc import datasets
from approxmcmc.datasets import mnist, source as places, synthetic
from approxmcmc.datasets.dataset import checksum
from approxmcmc.datasets.mnist import fit_principal_components
from approxmcmc.errors import DatasetError, InvalidInputError

REAL_FOLDER = os.environ.get("APPROXMCMC_DATA_DIR", "")
needs_real_data = pytest.mark.skipif(
    not (Path(REAL_FOLDER) / "mnist_7v9.npz").is_file() or not REAL_FOLDER,
    reason="APPROXMCMC_DATA_DIR names no folder with mnist_7v9.npz",
)


def _small_images() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "X_train": rng.integers(256, size=(6, 784), dtype=np.uint8),
        "y_train": np.array([7, 9, 9, 7, 9, 7], dtype=np.uint8),
        "X_test": rng.integers(256, size=(2, 784), dtype=np.uint8),
        "y_test": np.array([9, 7], dtype=np.uint8),
    }


@pytest.fixture
def empty_places(tmp_path, monkeypatch):
    """Two empty folders, no network, and a checksum that fits the small images; returns the two paths to fill."""
    monkeypatch.setenv("APPROXMCMC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))
    small = dataclasses.replace(mnist.IMAGES, sha256=checksum(*_small_images().values()))
    monkeypatch.setattr(mnist, "IMAGES", small)

    def no_network(path, fetch, *, insist=False):
        raise DatasetError("no network in tests")

    monkeypatch.setattr(places, "download", no_network)
    return tmp_path / "data" / "mnist_7v9.npz", tmp_path / "cache" / "datasets" / "mnist_7v9.npz"


def test_nines_are_ones(empty_places):
    places.write_arrays(empty_places[0], _small_images())
    images = datasets.mnist_7v9()
    assert images.y_train.tolist() == [0, 1, 1, 0, 1, 0]
    assert images.y_test.tolist() == [1, 0]
    assert images.X_train.dtype == np.uint8
    assert not images.is_synthetic
    assert len(repr(images)) < 200


def test_the_folder_comes_before_the_cache(empty_places):
    folder, cached = empty_places
    places.write_arrays(cached, _small_images())
    assert "cache" in datasets.mnist_7v9().provenance
    places.write_arrays(folder, _small_images())
    assert "APPROXMCMC_DATA_DIR" in datasets.mnist_7v9().provenance
    assert "cache" in datasets.mnist_7v9("cache").provenance


def test_the_download_comes_last_and_is_kept(empty_places, monkeypatch):
    calls = []

    def download(path, fetch, *, insist=False):
        calls.append(insist)
        places.write_arrays(path, _small_images())

    monkeypatch.setattr(places, "download", download)
    first, second = datasets.mnist_7v9(), datasets.mnist_7v9()
    assert "OpenML" in first.provenance
    assert first.sha256 == second.sha256
    assert calls == [False]
    datasets.mnist_7v9("openml")
    assert calls == [False, True]


def test_missing_data_name_the_three_places_and_the_remedy(empty_places):
    folder, cached = empty_places
    with pytest.raises(DatasetError) as caught:
        datasets.mnist_7v9()
    for part in (str(folder), str(cached), "no network in tests", "APPROXMCMC_CACHE_DIR"):
        assert part in str(caught.value)
    assert "allow_synthetic" not in str(caught.value)  # it has no such argument


@pytest.mark.parametrize("source", ["folder", "cache"])
def test_one_source_asks_no_other(empty_places, monkeypatch, source):
    monkeypatch.delenv("APPROXMCMC_DATA_DIR")
    with pytest.raises(DatasetError, match=r"not set.*OpenML data set mnist_784 version 1: not asked"):
        datasets.mnist_7v9(source)


def test_a_file_with_other_content_is_refused(empty_places):
    changed = _small_images()
    changed["X_test"][1, 300] ^= 1
    places.write_arrays(empty_places[0], changed)
    with pytest.raises(DatasetError, match="checksum"):
        datasets.mnist_7v9()


def test_a_damaged_file_in_the_named_folder_is_an_error(empty_places):
    empty_places[0].parent.mkdir()
    empty_places[0].write_bytes(b"not an archive")
    with pytest.raises(DatasetError, match="cannot be read"):
        datasets.mnist_7v9()


def test_a_damaged_cache_is_reported_and_replaced(empty_places, monkeypatch):
    cached = empty_places[1]
    places.write_arrays(cached, _small_images())
    cached.write_bytes(cached.read_bytes()[:1000])
    monkeypatch.setattr(places, "download", lambda path, fetch, insist: places.write_arrays(path, _small_images()))
    with pytest.warns(UserWarning, match="ignored"):
        datasets.mnist_7v9()
    assert datasets.mnist_7v9().sha256 == mnist.IMAGES.sha256


def test_an_unknown_source_is_refused():
    with pytest.raises(InvalidInputError, match="web"):
        datasets.mnist_7v9("web")


def test_the_stand_in_needs_permission_and_says_what_it_is(empty_places):
    with pytest.raises(DatasetError, match="give allow_synthetic=True"):
        datasets.mnist_7v9_pca()
    with pytest.warns(UserWarning, match="synthetic stand-in replaces"):
        data = datasets.mnist_7v9_pca(20, allow_synthetic=True)
    assert data.is_synthetic
    assert "synthetic" in data.name
    assert data.X_train.shape == (12_214, 20)


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "kept.npz"
    places.write_arrays(path, {"a": np.arange(3)})

    def full_disk(stream, **arrays):
        stream.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space"):
        places.write_arrays(path, {"a": np.arange(9)})
    assert [file.name for file in tmp_path.iterdir()] == ["kept.npz"]
    assert places.read_arrays(path, ("a",))["a"].tolist() == [0, 1, 2]


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    with pytest.raises(DatasetError, match="cannot be read"):
        places.read_arrays(tmp_path / "objects.npz", ("a",))


@pytest.mark.thorough
def test_a_download_that_hangs_is_killed():
    started = time.monotonic()
    with pytest.raises(DatasetError, match=r"stopped after 0\.5 s"):
        places.run_limited([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert time.monotonic() - started < 20


def test_a_failed_download_says_why():
    with pytest.raises(DatasetError, match="ValueError: the reason"):
        places.run_limited([sys.executable, "-c", "raise ValueError('the reason')"], 20)


@pytest.mark.thorough
def test_the_child_process_writes_the_file(tmp_path):
    code = "import sys; from pathlib import Path; import numpy; from approxmcmc.datasets.source import write_arrays;"
    code += "write_arrays(Path(sys.argv[1]), {'a': numpy.ones(2)})"
    places.download(tmp_path / "datasets" / "x.npz", "any:fetch", child=code)
    assert places.read_arrays(tmp_path / "datasets" / "x.npz", ("a",))["a"].tolist() == [1.0, 1.0]


FAILS, WRITES = "raise OSError('unreachable')", "import sys; open(sys.argv[1], 'w')"


def test_a_failure_is_not_repeated_at_once(tmp_path):
    path = tmp_path / "datasets" / "x.npz"
    with pytest.raises(DatasetError, match="unreachable"):
        places.download(path, "any:fetch", child=FAILS)
    with pytest.raises(DatasetError, match=r"not tried.*unreachable"):
        places.download(path, "any:fetch", child=WRITES)
    places.download(path, "any:fetch", child=WRITES, insist=True)
    places.download(path, "any:fetch", child=WRITES)  # a success forgets the failure
    assert path.exists()


@pytest.mark.parametrize("age", [700.0, -30.0 * 86_400.0])
def test_an_old_failure_is_forgotten_and_one_in_the_future_of_a_clock_that_was_set_back(tmp_path, age):
    path = tmp_path / "x.npz"
    note = tmp_path / "x.failed"
    note.write_text("unreachable")
    os.utime(note, (time.time() - age, time.time() - age))
    places.download(path, "any:fetch", child=WRITES)
    assert path.exists()
    assert not note.exists()


def test_the_child_calls_the_function_that_fetches(tmp_path, monkeypatch):
    module = types.SimpleNamespace(fetch=lambda: {"a": np.arange(3)})
    monkeypatch.setitem(sys.modules, "a_fetching_module", module)
    places.save(str(tmp_path / "x.npz"), "a_fetching_module:fetch")
    assert places.read_arrays(tmp_path / "x.npz", ("a",))["a"].tolist() == [0, 1, 2]


def _serve(monkeypatch, images, labels):
    """Put a scikit-learn in place that has these images; the real one takes seconds to import."""
    served = types.SimpleNamespace(fetch_openml=lambda *_, **__: (images, labels))
    monkeypatch.setitem(sys.modules, "sklearn", types.SimpleNamespace(datasets=served))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", served)


def test_sevens_and_nines_keep_their_order_and_their_split(monkeypatch):
    labels = np.full(70_000, "3", dtype=object)
    labels[[5, 59_999]], labels[[8, 60_000, 69_999]] = "9", "7"
    images = np.repeat(np.arange(70_000.0)[:, None] % 251, 4, axis=1)
    _serve(monkeypatch, images, labels)
    arrays = mnist.fetch_sevens_and_nines()
    assert arrays["y_train"].tolist() == [9, 7, 9]
    assert arrays["y_test"].tolist() == [7, 7]
    assert arrays["X_train"][:, 0].tolist() == [5, 8, 59_999 % 251]
    assert arrays["X_test"][:, 3].tolist() == [60_000 % 251, 69_999 % 251]
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.uint8)}


@pytest.mark.thorough
@pytest.mark.slow
def test_scikit_learn_accepts_the_request(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", no_network)
    with pytest.warns(UserWarning, match="network error"), pytest.raises(urllib.error.URLError, match="no network"):
        mnist.fetch_sevens_and_nines()


def test_the_cache_folder_follows_the_platform(monkeypatch):
    monkeypatch.delenv("APPROXMCMC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(sys, "platform", "linux")
    assert places.cache_folder() == Path("/somewhere/approxmcmc/datasets")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert places.cache_folder() == Path.home() / "Library" / "Caches" / "approxmcmc" / "datasets"


def test_principal_components_agree_with_the_singular_values(rng):
    rows = rng.standard_normal((40, 6)) * [5, 4, 3, 2, 1, 0.5] + 10
    fit = fit_principal_components(rows, 4)
    _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(fit.variances, singular[:4] ** 2 / 39)
    np.testing.assert_allclose(np.abs(np.sum(fit.loadings * right[:4].T, axis=0)), 1.0)
    assert np.all(fit.loadings[np.abs(fit.loadings).argmax(axis=0), range(4)] > 0)
    np.testing.assert_allclose(np.cov(fit.transform(rows).T), np.diag(fit.variances), atol=1e-12)
    assert fit.total_variance == pytest.approx(rows.var(axis=0, ddof=1).sum())


@pytest.mark.parametrize("n_components", [0, 7])
def test_impossible_numbers_of_components_are_refused(n_components):
    with pytest.raises(InvalidInputError, match="n_components"):
        fit_principal_components(np.ones((5, 6)), n_components)


def test_principal_components_do_not_depend_on_the_number_of_threads(rng):
    from threadpoolctl import threadpool_limits

    rows = rng.integers(256, size=(500, 300)).astype(np.uint8)
    bits = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            bits.append(fit_principal_components(rows, 10).transform(rows))
    assert np.array_equal(*bits)


def test_the_stand_in_has_the_spectrum_and_the_difficulty():
    # 12214 rows: a variance has relative standard error sqrt(2/12214) = .013, the accuracy .002; 5 of them are allowed.
    data = datasets.synthetic_stand_in()
    variances = np.array(synthetic.MNIST_7V9_VARIANCES)
    np.testing.assert_allclose(data.X_train.var(axis=0) / variances, 1.0, atol=0.065)
    correlation = np.corrcoef(data.X_train.T) - np.eye(50)
    assert np.abs(correlation).max() < 5 / np.sqrt(12_214) + 0.01
    # The classes share a covariance, so the best linear rule is Fisher's.
    ones, zeros = data.X_train[data.y_train == 1], data.X_train[data.y_train == 0]
    within = np.cov(np.vstack([ones - ones.mean(axis=0), zeros - zeros.mean(axis=0)]).T)
    beta = np.linalg.solve(within, ones.mean(axis=0) - zeros.mean(axis=0))
    log_odds = data.X_test @ beta
    assert ((log_odds > 0) == data.y_test).mean() == pytest.approx(0.95, abs=0.025)
    assert data.y_train.mean() == pytest.approx(0.5, abs=0.023)
    # The model is logistic without intercept: within bins, observed frequencies follow the predicted ones.
    log_odds = data.X_train @ beta
    predicted = 1.0 / (1.0 + np.exp(-log_odds))
    for low, high in [(-4, -2), (-2, 0), (0, 2), (2, 4)]:
        inside = (log_odds > low) & (log_odds < high)
        standard_error = 0.5 / np.sqrt(inside.sum())
        assert data.y_train[inside].mean() == pytest.approx(predicted[inside].mean(), abs=5 * standard_error)


def test_generated_data_repeat_with_their_seed():
    one, same, other = (datasets.synthetic_stand_in(200, 10, 5, seed=seed) for seed in (1, 1, 2))
    assert one.sha256 == same.sha256 != other.sha256
    assert np.array_equal(one.X_train, same.X_train)
    assert one.X_test.shape == (10, 5)


@pytest.mark.parametrize("size", [{"n_train": 0}, {"n_components": 51}, {"n_components": 0}, {"n_test": -1}])
def test_impossible_stand_ins_are_refused(size):
    with pytest.raises(InvalidInputError, match="stand-in"):
        datasets.synthetic_stand_in(**size)


def test_synthetic_logistic_follows_its_model():
    X, y = datasets.synthetic_logistic(20_000, 1, seed=3)
    # Both halves of a one-column data set lean to the side of the coefficient's sign.
    assert X.shape == (20_000, 1)
    assert set(np.unique(y)) == {0, 1}
    lean = y[X[:, 0] > 0].mean() - y[X[:, 0] < 0].mean()
    assert abs(lean) > 0.1
    assert np.array_equal(X, datasets.synthetic_logistic(20_000, 1, seed=3)[0])
    with pytest.raises(InvalidInputError, match="at least one row"):
        datasets.synthetic_logistic(0, 3)


@pytest.mark.thorough
def test_loading_the_package_loads_no_heavy_library():
    code = (
        "import sys; import approxmcmc.datasets; "
        "print([m for m in ('scipy', 'sklearn', 'numba', 'xarray', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@needs_real_data
def test_the_published_images():
    images = datasets.mnist_7v9("folder")
    assert images.X_train.shape == (12_214, 784)
    assert images.X_test.shape == (2037, 784)
    assert (int(images.y_train.sum()), int(images.y_test.sum())) == (5949, 1009)
    assert images.sha256 == mnist.IMAGES.sha256


@needs_real_data
def test_the_published_principal_components():
    data = datasets.mnist_7v9_pca(source="folder")
    assert data.X_train.shape == (12_214, 50)
    assert {a.dtype for a in (data.X_train, data.y_train, data.X_test, data.y_test)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(data.component_variances[:5], [5.294, 3.675, 3.103, 2.877, 2.031], atol=5e-4)
    np.testing.assert_allclose(data.component_variances, synthetic.MNIST_7V9_VARIANCES, atol=6e-4)
    np.testing.assert_allclose(data.X_train.var(axis=0, ddof=1), data.component_variances)
    total = (datasets.mnist_7v9("folder").X_train / 255.0).var(axis=0, ddof=1).sum()
    assert data.component_variances.sum() / total == pytest.approx(0.865, abs=5e-4)
    # Test rows go through the training rows' means and loadings: their variances are close to the others, not equal.
    np.testing.assert_allclose(data.X_test.var(axis=0), data.component_variances, rtol=0.25)
    assert np.abs(data.X_test.mean(axis=0)).max() > 1e-3


@needs_real_data
def test_openml_gives_the_same_arrays(monkeypatch):
    with np.load(Path(REAL_FOLDER) / "mnist_7v9.npz") as stored:
        images, labels = np.zeros((70_000, 784), dtype=np.uint8), np.full(70_000, "0", dtype=object)
        for part, offset in (("train", 0), ("test", 60_000)):
            images[stored[f"index_{part}"] + offset] = stored[f"X_{part}"]
            labels[stored[f"index_{part}"] + offset] = stored[f"y_{part}"].astype(str)
    _serve(monkeypatch, images, labels)
    assert checksum(*mnist.fetch_sevens_and_nines().values()) == mnist.IMAGES.sha256


def test_union_members_are_545_men_in_eight_years_each():
    men = datasets.union_members()
    assert men.shape == (4360, 8) and "NCSA" in men.attrs["provenance"]
    assert (men.groupby("nr")["year"].apply(tuple) == tuple(range(1980, 1988))).all()
    assert men["union"].sum() == 1064 and set(men["union"]) == {0, 1}
