"""The tall-data suite: coding, small files in place of the real ones, and the real ones where they are."""

import dataclasses
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from approxmcmc import datasets
from approxmcmc.datasets import dataset, libsvm, source as places, uci
from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.errors import DatasetError, InvalidInputError

FOLDER = Path(os.environ.get("APPROXMCMC_DATA_DIR", "nowhere"))


def small_files() -> dict:
    """Return module, name of its declaration, and the arrays of a small file, by loader."""
    rng = np.random.default_rng(5)
    bits = [rng.integers(2, size=(n, 123), dtype=np.uint8) for n in (8, 3)]
    bits[0][:, 7] = 1
    return {
        "covertype": (
            uci,
            "CELLS",
            {
                "quantitative": rng.integers(300, size=(8, 10)).astype(np.int16),
                "wilderness_area": np.array([1, 1, 1, 4, 4, 1, 1, 4], np.uint8),
                "soil_type": np.array([7, 7, 9, 9, 9, 9, 40, 7], np.uint8),
                "cover_type": np.array([1, 2, 2, 3, 7, 2, 1, 1], np.uint8),
            },
        ),
        "a9a": (
            libsvm,
            "PEOPLE",
            {
                "X_train_bits": np.packbits(bits[0], axis=1),
                "y_train": np.arange(8, dtype=np.uint8) % 2,
                "X_test_bits": np.packbits(bits[1], axis=1),
                "y_test": np.array([0, 1, 1], np.uint8),
            },
        ),
        "ijcnn1": (
            libsvm,
            "ENGINE",
            {
                "X_train": rng.standard_normal((8, 22)).astype(np.float32),
                "y_train": np.arange(8, dtype=np.uint8) % 2,
                "X_test": rng.standard_normal((3, 22)).astype(np.float32),
                "y_test": np.array([0, 1, 1], np.uint8),
            },
        ),
        "eeg_eye_state": (
            uci,
            "SAMPLES",
            {"X": rng.standard_normal((8, 14)), "y": np.arange(8, dtype=np.uint8) % 2},
        ),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of small files under the names of the real ones, with checksums that fit; no network."""
    monkeypatch.setenv("APPROXMCMC_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "cache"))

    def no_network(path, fetch, *, insist=False):
        raise DatasetError("no network in tests")

    monkeypatch.setattr(places, "download", no_network)
    for module, name, arrays in small_files().values():
        declared = getattr(module, name)
        places.write_arrays(tmp_path / declared.file_name, arrays)
        fitting = dataclasses.replace(declared, sha256=checksum(*declared.decode(arrays)))
        monkeypatch.setattr(module, name, fitting)
    return tmp_path


def test_a_category_has_a_column_for_each_level_that_occurs():
    columns = dataset.one_hot(np.array([4, 2, 4, 9]), "soil")
    assert columns.names == ("soil[2]", "soil[4]", "soil[9]")
    assert columns.values.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert dataset.one_hot(np.array([1, 0]), "flag", ["REJ", "SF"]).names == ("flag[REJ]", "flag[SF]")


def test_test_rows_go_through_the_scale_of_the_training_rows():
    train = dataset.Columns(np.array([[1.0, 5.0], [3.0, 5.0]]), ("a", "constant"))
    data = dataset.standardised_dataset(
        "two", train, np.array([0, 1]), provenance="here", sha256="", test=np.array([[4, 8]]), y_test=np.array([1])
    )
    assert data.columns == ("a",)
    assert data.X_train.tolist() == [[-1.0], [1.0]]
    assert data.X_test.tolist() == [[2.0]]
    assert train.values.tolist() == [[1.0, 5.0], [3.0, 5.0]]  # what came in is left alone


def test_constant_columns_are_dropped_with_their_names():
    rows = np.array([[1.0, 0.0, 2.0], [2.0, 0.0, 3.0]])
    data = Dataset("x", rows, np.zeros(2), rows[:1], np.zeros(1), "here", "", columns=("a", "b", "c"))
    fewer = dataset.without_constants(data)
    assert fewer.columns == ("a", "c")
    assert fewer.X_train.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert fewer.X_test.tolist() == [[1.0, 2.0]]
    assert dataset.without_constants(fewer) is fewer


def test_covertype_is_coded_by_levels(folder):
    data = datasets.covertype("folder")
    assert data.columns[10:] == ("wilderness[1]", "wilderness[4]", "soil[7]", "soil[9]", "soil[40]")
    assert data.y_train.tolist() == [0, 1, 1, 0, 0, 1, 0, 0]
    rare = (np.arange(8) == 6).astype(float)
    np.testing.assert_allclose(data.X_train[:, -1], (rare - rare.mean()) / rare.std())
    np.testing.assert_allclose(data.X_train.std(axis=0), 1.0)


def test_a9a_is_unpacked(folder):
    data = datasets.a9a("folder")
    assert data.X_train.shape == (8, len(data.columns))
    assert "x8" not in data.columns  # the constant one; columns count from 1
    bits = np.unpackbits(small_files()["a9a"][2]["X_train_bits"], axis=1)[:, int(data.columns[3][1:]) - 1]
    np.testing.assert_array_equal(data.X_train[:, 3] > 0, bits == 1)
    assert data.X_test.shape == (3, len(data.columns))
    assert data.y_test.tolist() == [0, 1, 1]


@pytest.mark.parametrize("name", ["covertype", "a9a", "ijcnn1", "eeg_eye_state"])
def test_every_loader_says_where_its_data_are_from_and_refuses_others(folder, name):
    load, (module, declared, arrays) = getattr(datasets, name), small_files()[name]
    assert "APPROXMCMC_DATA_DIR" in load().provenance
    path = folder / getattr(module, declared).file_name
    places.write_arrays(path, {key: array[::-1] for key, array in arrays.items()})
    with pytest.raises(DatasetError, match="checksum"):
        load()
    path.unlink()
    with pytest.raises(DatasetError, match=f"was not found.*{path.name}"):
        load()
    with pytest.warns(UserWarning, match="synthetic stand-in"):
        stand_in = load(allow_synthetic=True)
    assert stand_in.is_synthetic
    assert "synthetic" in stand_in.name


def test_a_set_that_nobody_offers_has_no_download(folder):
    with pytest.raises(InvalidInputError, match=r"one of \('auto', 'folder', 'cache'\)"):
        datasets.covertype("openml")
    (folder / uci.CELLS.file_name).unlink()
    with pytest.raises(DatasetError, match="there is no download") as caught:
        datasets.covertype()
    assert "network" not in str(caught.value)


def _serve(monkeypatch, rows, labels):
    """Put a scikit-learn in place that has these rows; the real one takes seconds to import."""
    served = types.SimpleNamespace(fetch_openml=lambda *_, **__: (rows, labels))
    monkeypatch.setitem(sys.modules, "sklearn", types.SimpleNamespace(datasets=served))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", served)


def test_openmls_rows_are_read_back(monkeypatch):
    from scipy.sparse import csr_matrix

    monkeypatch.setattr(libsvm, "N_TRAIN", 8)
    arrays = small_files()["a9a"][2]
    rows = np.vstack([np.unpackbits(arrays[name], axis=1)[:, :123] for name in ("X_train_bits", "X_test_bits")])
    labels = np.where(np.concatenate([arrays["y_train"], arrays["y_test"]]), "1", "-1")
    _serve(monkeypatch, csr_matrix(rows.astype(float)), labels)
    assert checksum(*libsvm.fetch_people().values()) == checksum(*arrays.values())
    arrays = small_files()["eeg_eye_state"][2]
    _serve(monkeypatch, arrays["X"], np.where(arrays["y"], "2", "1"))
    assert checksum(*uci.fetch_samples().values()) == checksum(*arrays.values())


def test_downloads_name_functions_that_exist():
    for module, name, _ in small_files().values():
        if download := getattr(module, name).download:
            home, function = download.fetch.split(":")
            assert callable(getattr(sys.modules[home], function))


def test_rare_categories_are_rare_and_have_walls():
    data = datasets.synthetic_categories(5000, 3, (4, 12), ones=0.3, seed=2)
    assert data.is_synthetic
    assert data.columns[:4] == ("x1", "x2", "x3", "category1[0]")
    assert np.corrcoef(data.X_train[:, 0], data.X_train[:, 1])[0, 1] == pytest.approx(0.5, abs=0.06)
    ones = data.X_train[:, data.columns.index("category2[11]")] > 0
    assert 1 <= ones.sum() <= 15
    assert not data.y_train[ones].any()
    # The share of ones is exact but for the few rows at the walls.
    assert data.y_train.mean() == pytest.approx(0.3, abs=0.005)
    again, other = (datasets.synthetic_categories(5000, 3, (4, 12), ones=0.3, seed=seed) for seed in (2, 3))
    assert data.sha256 == again.sha256 != other.sha256


@pytest.mark.parametrize("wrong", [{"n": 10}, {"levels": (1,)}, {"n_numeric": 0, "levels": ()}, {"ones": 1.0}])
def test_impossible_categories_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="synthetic_categories needs"):
        datasets.synthetic_categories(**({"n": 500, "n_numeric": 1, "levels": (3,)} | wrong))


@pytest.mark.parametrize("name", datasets.TALL_DATA)
def test_every_member_makes_a_target_without_real_data(name):
    data, target = datasets.tall_data(name, "synthetic"), datasets.tall_target(name, "synthetic")
    assert data.is_synthetic
    assert (np.ptp(data.X_train, axis=0) > 0.0).all()
    assert 0.05 < data.y_train.mean() < 0.95
    plain = name == "mnist_7v9"
    assert target.variables.size == data.X_train.shape[1] + (not plain)
    assert target.n_obs == len(data.y_train)
    labels = target.variables.coords["coef"]
    assert labels[0] == ("x0" if plain else "intercept")
    assert plain or tuple(labels[1:]) == data.columns


def test_an_unknown_member_is_refused():
    with pytest.raises(InvalidInputError, match=r"suite has.*covertype.*found 'iris'"):
        datasets.tall_target("iris")


SHAPES = {
    "mnist_7v9": ("mnist_7v9.npz", 12_214, 50),
    "covertype": ("covertype_16percent.npz", 92_962, 54),
    "a9a": ("a9a.npz", 32_561, 124),
    "ijcnn1": ("ijcnn1.npz", 49_990, 23),
    "eeg_eye_state": ("eeg_eye_state.npz", 14_980, 15),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_real_data(name):
    file_name, n_obs, dim = SHAPES[name]
    if not (FOLDER / file_name).is_file():
        pytest.skip(f"APPROXMCMC_DATA_DIR names no folder with {file_name}")
    target = datasets.tall_target(name, "folder")
    assert (target.n_obs, target.variables.size) == (n_obs, dim)
    if name != "mnist_7v9":
        np.testing.assert_allclose(target.X[:, 1:].mean(axis=0), 0.0, atol=1e-10)
        np.testing.assert_allclose(target.X[:, 1:].std(axis=0), 1.0)


def test_the_spikes_of_the_eeg_are_kept():
    if not (FOLDER / "eeg_eye_state.npz").is_file():
        pytest.skip("APPROXMCMC_DATA_DIR names no folder with eeg_eye_state.npz")
    data = datasets.eeg_eye_state("folder")
    assert (np.abs(data.X_train) > 50.0).any(axis=1).sum() == 4
