"""Arrays become a trace, a trace becomes a file, and nothing is lost on the way."""

import errno
import json

import arviz as az
import numpy as np
import pytest
import xarray as xr

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, SamplingResult, Variables, content_hash
from approxmcmc.errors import InvalidInputError
from approxmcmc.output import SAMPLE_STATS, build_trace, load, save
from approxmcmc.output.datatree import sanitize_attrs
from approxmcmc.output.schema import BY_NAME
from tests.fakes import fake_trace


def small_result(n_chains=2, n_draws=3, **changes):
    fields = {
        "draws": np.arange(n_chains * n_draws * 5, dtype=float).reshape(n_chains, n_draws, 5),
        "stats": {
            "accepted": np.ones((n_chains, n_draws), dtype=np.int64),
            "perf_counter_diff": np.full((n_chains, n_draws), 0.5),
            "home_made": np.zeros((n_chains, n_draws)),
        },
        "warmup_draws": np.zeros((n_chains, 4, 5)),
        "warmup_stats": {"datapoints_touched": np.full((n_chains, 4), 7)},
        "tuning_totals": {"datapoints_touched": np.full(n_chains, 28)},
        "attrs": {"seed": 2**100, "tuned": True, "stopped": "", "failure": None, "n_obs": 50},
    }
    return SamplingResult(**{**fields, **changes})


VARIABLES = Variables({"b": (2, 2), "tau": ()}, {"b": ("row", "coef")}, {"row": ["p", "q"], "coef": ["x", "y"]})


def built(result=None, **changes):
    options = {
        "variables": VARIABLES,
        "observed_data": {"y": np.arange(50)},
        "constant_data": {"X": np.ones((50, 2))},
        "keep_warmup": True,
        "settings": {"kind": "Fake", "test": {"epsilon": 0.1}},
    }
    return build_trace(result or small_result(), **{**options, **changes})


def test_schema_names_every_record_once_and_covers_the_chain_templates():
    names = [variable.name for variable in SAMPLE_STATS]
    assert len(names) == len(set(names))
    assert set(COUNT_NAMES) | set(VALUE_NAMES) <= set(names)
    assert all(v.units in {"1", "s"} and v.long_name and v.meaning.endswith(".") for v in SAMPLE_STATS)


def test_groups_dims_coords_and_values():
    trace = built()
    assert set(trace.children) == {
        "posterior",
        "sample_stats",
        "warmup_posterior",
        "warmup_sample_stats",
        "observed_data",
        "constant_data",
    }
    posterior = trace["posterior"]
    assert posterior["b"].dims == ("chain", "draw", "row", "coef")
    assert posterior["tau"].dims == ("chain", "draw")
    np.testing.assert_array_equal(posterior["b"].sel(row="q", coef="x"), small_result().draws[..., 2])
    np.testing.assert_array_equal(posterior["tau"], small_result().draws[..., 4])
    assert trace.attrs == {}


def test_records_get_dtype_units_and_name_from_the_schema():
    stats = built()["sample_stats"]
    assert stats["accepted"].dtype == bool
    assert stats["perf_counter_diff"].attrs == {"units": "s", "long_name": BY_NAME["perf_counter_diff"].long_name}
    assert stats["home_made"].attrs == {"units": "1", "long_name": "home made"}


def test_attributes_are_storable_and_complete():
    attrs = built()["sample_stats"].attrs
    assert attrs["inference_library"] == "approxmcmc"
    assert attrs["seed"] == str(2**100)
    assert attrs["tuned"] == 1
    assert "failure" not in attrs
    assert attrs["tuning_datapoints_touched"] == [28, 28]
    assert json.loads(attrs["inference_library_settings"])["test"]["epsilon"] == 0.1
    assert built()["posterior"].attrs["n_obs"] == 50


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.bool_(True), 1),
        (np.int64(3), 3),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        ([True, False], [1, 0]),
        (["a", "b"], ["a", "b"]),
        ([1, "a"], '[1, "a"]'),
        ([[1, 2], [3, 4]], "[[1, 2], [3, 4]]"),
        ([1.0, None], "[1.0, null]"),
        ({"a": None}, '{"a": null}'),
    ],
)
def test_sanitizer(value, stored):
    assert sanitize_attrs({"name": value}) == {"name": stored}


def test_warmup_only_on_request_and_large_arrays_as_shape_and_hash():
    X = np.arange(130_000.0).reshape(-1, 2)
    trace = built(keep_warmup=False, constant_data={"X": X, "n": np.array(5)}, observed_data={})
    assert set(trace.children) == {"posterior", "sample_stats", "constant_data"}
    group = trace["constant_data"]
    assert list(group.data_vars) == ["n"]
    assert group.attrs["X_shape"] == [65_000, 2]
    assert group.attrs["X_dtype"] == "float64"
    assert group.attrs["X_content_hash"] == content_hash(X) != content_hash(X + 1)


def test_wrong_shapes_are_refused_with_both_shapes_in_the_text():
    with pytest.raises(InvalidInputError, match=r"\(chains, draws, 5\).*\(2, 3, 4\)"):
        built(small_result(draws=np.zeros((2, 3, 4))))
    with pytest.raises(InvalidInputError, match=r"'lp'.*\(2, 3\).*\(2, 4\)"):
        built(small_result(stats={"lp": np.zeros((2, 4))}))


def assert_same(trace, other):
    assert set(trace.groups) == set(other.groups)
    for group in trace.children:
        xr.testing.assert_equal(trace[group].to_dataset(), other[group].to_dataset())
        for name, value in trace[group].attrs.items():
            np.testing.assert_array_equal(np.atleast_1d(value), np.atleast_1d(other[group].attrs[name]))


@pytest.mark.thorough
@pytest.mark.parametrize("opener", [load, xr.open_datatree, az.from_netcdf], ids=["load", "xarray", "arviz"])
def test_file_round_trip(tmp_path, opener):
    trace = built()
    path = save(trace, tmp_path / "run.nc")
    with opener(path) as found:
        assert_same(trace, found)
        assert found["sample_stats"]["accepted"].dtype == bool
        assert found["sample_stats"]["perf_counter_diff"].attrs["units"] == "s"
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]


def test_trace_without_draws_round_trips(tmp_path):
    empty = built(small_result(n_draws=0))
    found = load(save(empty, tmp_path / "empty.nc"))
    assert found["posterior"]["b"].shape == (2, 0, 2, 2)
    assert_same(empty, found)


def test_a_loaded_trace_is_closed_and_can_be_thinned_and_saved_over_itself(tmp_path):
    path = save(fake_trace(np.zeros((2, 100, 3))), tmp_path / "run.nc")
    thinned = load(path).isel(draw=slice(None, None, 10))
    save(thinned, path)
    assert load(path)["posterior"].sizes["draw"] == 10


def test_attributes_added_by_hand_are_stored_and_the_trace_is_left_alone(tmp_path):
    trace = fake_trace(np.zeros((1, 5)))
    trace["posterior"].attrs.update(checked=True, note=None, gates={"r_hat": 1.0})
    found = load(save(trace, tmp_path / "run.nc"))
    assert found["posterior"].attrs["checked"] == 1
    assert json.loads(found["posterior"].attrs["gates"]) == {"r_hat": 1.0}
    assert trace["posterior"].attrs["gates"] == {"r_hat": 1.0}


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = save(fake_trace(np.zeros((1, 5))), tmp_path / "run.nc")

    def full_disk(*args):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        save(fake_trace(np.ones((1, 5))), path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]
    assert float(load(path)["posterior"]["beta"].max()) == 0


def no_room(*_, **__):
    raise RuntimeError("NetCDF: HDF error")  # all that netCDF4 says of a full disk, and of a damaged block


def test_a_full_disk_is_an_error_of_the_system_and_a_damaged_block_one_of_the_file(tmp_path, monkeypatch):
    path = save(fake_trace(np.zeros((1, 5))), tmp_path / "run.nc")
    monkeypatch.setattr(xr.DataTree, "to_netcdf", no_room)
    monkeypatch.setattr(xr, "open_datatree", no_room)
    with pytest.raises(OSError, match="is the disk full") as caught:
        save(fake_trace(np.ones((1, 5))), path)
    assert caught.value.errno == errno.EIO
    with pytest.raises(InvalidInputError, match=r"run\.nc cannot be read"):
        load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.nc"]


@pytest.mark.thorough
def test_a_trace_is_saved_though_the_scheduler_of_dask_that_is_active_is_gone(tmp_path, monkeypatch):
    """Xarray asks it for a lock; a study then ended with a traceback where it had to say which scheduler is gone."""
    distributed = pytest.importorskip("distributed")

    def gone(*_, **__):
        raise ConnectionResetError("the scheduler is gone")

    options = {"n_workers": 0, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        monkeypatch.setattr("dask.distributed.Lock", gone)
        with pytest.raises(ConnectionResetError):
            built().to_netcdf(tmp_path / "plain.nc", engine="netcdf4")
        trace = built()
        assert_same(load(save(trace, tmp_path / "trace.nc")), trace)


def test_what_cannot_be_saved_or_loaded_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="found a Dataset"):
        save(xr.Dataset(), tmp_path / "x.nc")
    with pytest.raises(FileNotFoundError, match="folder"):
        save(fake_trace(np.zeros((1, 5))), tmp_path / "nowhere" / "x.nc")
    with pytest.raises(FileNotFoundError, match=r"no trace at .*gone\.nc"):
        load(tmp_path / "gone.nc")
    (tmp_path / "text.nc").write_text("not a trace")
    with pytest.raises(InvalidInputError, match=r"text\.nc cannot be read"):
        load(tmp_path / "text.nc")
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "flat.nc")
    with pytest.raises(InvalidInputError, match="no groups"):
        load(tmp_path / "flat.nc")


def test_arviz_reads_the_trace():
    rng = np.random.default_rng(1)
    summary = az.summary(fake_trace(rng.normal(size=(2, 50, 2)), labels=["x1", "x2"]))
    assert list(summary.index) == ["beta[x1]", "beta[x2]"]
