"""The connections of KDD99: coding, where the files are searched, and the message about a foreign file."""

import dataclasses
import sys
import types

import numpy as np
import pytest

from approxmcmc.datasets import connections_stand_in, kdd99 as load, source as places
from approxmcmc.datasets.dataset import checksum
from approxmcmc.errors import DatasetError, InvalidInputError

kdd99 = sys.modules["approxmcmc.datasets.kdd99"]


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Leave no place that has the data."""
    monkeypatch.delenv("APPROXMCMC_DATA_DIR", raising=False)
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def no_network(path, fetch, *, insist=False):
        raise DatasetError("unreachable")

    monkeypatch.setattr(places, "download", no_network)
    return tmp_path


def raw_rows(n=6):
    values = np.zeros((n, 41), dtype=np.int32)
    values[:, kdd99.FEATURES.index("src_bytes")] = np.arange(n)
    values[:, kdd99.FEATURES.index("service")] = [0, 0, 0, 1, 1, 2]
    values[:, kdd99.FEATURES.index("serror_rate")] = [0, 50, 100, 0, 0, 0]
    return values


def test_coding():
    assert len(kdd99.FEATURES) == len(set(kdd99.FEATURES)) == 41
    assert len(kdd99.RATES) == 15
    columns = dict(zip(kdd99.FEATURES, kdd99.features_of(raw_rows()).T, strict=True))
    np.testing.assert_allclose(columns["src_bytes"], np.log1p(np.arange(6)))
    np.testing.assert_allclose(columns["service"], [1 / 2, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 6])
    np.testing.assert_allclose(columns["serror_rate"], [0, 0.5, 1, 0, 0, 0])
    scaled = kdd99.standardise(kdd99.features_of(raw_rows()))
    spread = scaled.std(axis=0)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-15)
    assert set(spread.round(12)) == {0.0, 1.0}


def test_scikit_learns_rows_are_read_back(monkeypatch):
    rows = np.empty((3, 41), dtype=object)
    rows[:] = 0
    rows[:, kdd99.FEATURES.index("protocol_type")] = [b"udp", b"icmp", b"udp"]
    rows[:, kdd99.FEATURES.index("same_srv_rate")] = [0.29, 1.0, 0.07]
    served = types.SimpleNamespace(fetch_kddcup99=lambda **_: (rows, np.array([b"normal.", b"smurf.", b"normal."])))
    monkeypatch.setitem(sys.modules, "sklearn", types.SimpleNamespace(datasets=served))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", served)
    arrays = kdd99.fetch_connections()
    assert arrays["protocol_type"].tolist() == [1, 0, 1]
    assert arrays["same_srv_rate"].tolist() == [29, 100, 7]
    assert arrays["malicious"].tolist() == [0, 1, 0]


def test_what_is_not_found_says_where_it_was_looked_for(nowhere):
    with pytest.raises(DatasetError, match=r"variable is not set.*unreachable.*kddcup99_10percent.npz"):
        load()
    with pytest.warns(UserWarning, match="synthetic stand-in"):
        assert load(allow_synthetic=True).is_synthetic
    with pytest.raises(InvalidInputError, match="source must be one of"):
        load("elsewhere")


def test_a_foreign_file_is_refused(nowhere, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_DATA_DIR", str(nowhere))
    arrays = dict(zip(kdd99.FEATURES, raw_rows().T, strict=True))
    places.write_arrays(nowhere / kdd99.CONNECTIONS.file_name, {**arrays, "malicious": np.zeros(6, dtype=np.uint8)})
    with pytest.raises(DatasetError, match="does not hold the 10 % subset"):
        load("folder")


def test_the_download_names_a_function_that_exists():
    module, name = kdd99.CONNECTIONS.download.fetch.split(":")
    assert getattr(sys.modules[module], name) is kdd99.fetch_connections


def test_one_hot_columns(nowhere, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_DATA_DIR", str(nowhere))
    arrays = dict(zip(kdd99.FEATURES, raw_rows().T, strict=True)) | {"malicious": np.array([0, 1, 0, 1, 0, 1])}
    places.write_arrays(nowhere / kdd99.CONNECTIONS.file_name, arrays)
    found = checksum(*kdd99.decode_connections(arrays))
    monkeypatch.setattr(kdd99, "CONNECTIONS", dataclasses.replace(kdd99.CONNECTIONS, sha256=found))
    data = load("folder", coding="one_hot")
    assert data.columns == ("service[0]", "service[1]", "service[2]", "src_bytes", "serror_rate")
    np.testing.assert_allclose(data.X_train[:, 2], (np.arange(6) == 5) * 6 / 5**0.5 - 1 / 5**0.5)
    assert data.y_train.tolist() == [0, 1, 0, 1, 0, 1]
    assert load("folder").X_train.shape == (6, 41)
    with pytest.raises(InvalidInputError, match="coding must be one of"):
        load("folder", coding="hashed")


def test_the_stand_in_is_like_the_data():
    data = connections_stand_in(5000)
    assert data.X_train.shape == (5000, 41)
    assert data.is_synthetic
    assert 0.77 < data.y_train.mean() < 0.83
    tenth = kdd99.every(data, 10)
    assert len(tenth.y_train) == 500
    np.testing.assert_allclose(tenth.X_train[:, :39].std(axis=0), 1.0)


@pytest.mark.needs_jit
@pytest.mark.slow
def test_the_real_data():
    folder = places.data_folder()
    if folder is None or not (folder / kdd99.CONNECTIONS.file_name).exists():
        pytest.skip(f"APPROXMCMC_DATA_DIR names no folder with {kdd99.CONNECTIONS.file_name}")
    data = load("folder")
    assert data.X_train.shape == (494_021, 41)
    assert data.y_train.sum() == 396_743
    assert (data.X_train.std(axis=0) == 0.0).sum() == 2
    one_hot = load("folder", coding="one_hot")
    assert one_hot.X_train.shape == (494_021, 116)
    np.testing.assert_allclose(one_hot.X_train.std(axis=0), 1.0)
