"""Targets in folders: equal when read back, grown by their new rows alone, whole after a kill, checked for damage."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc.engine.files import rows_file
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.output import target_folder
from tests import capabilities
from tests.unit.targets.test_growing import MADE, Growing, log_density

pytestmark = pytest.mark.uncompiled
EXPANDED = ["expanded", "first order", "influential"]


def assert_equal(found, expected, at):
    assert found.content_hash() == expected.content_hash()
    assert log_density(found, at) == pytest.approx(log_density(expected, at), rel=1e-12)
    assert found.blocks == expected.blocks
    if isinstance(expected, amc.ControlVariate):
        assert np.array_equal(found.laplace.mode, expected.laplace.mode)
        assert np.array_equal(found.always_read, expected.always_read)
        ours = found.compile_difference_bound()
        theirs = expected.compile_difference_bound()
        for name in ("numbers", "rates", "reaches"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        for ours_of, theirs_of in zip(ours.classes, theirs.classes, strict=True):
            assert np.array_equal(ours_of, theirs_of)


def check_family(family, design, folder, rng):
    model = capabilities.Model(capabilities.FAMILIES[family], design)
    if "yours" in family:
        amc.save(model.target, folder)
        with pytest.raises(InvalidInputError, match="functions of yours"):
            amc.load(folder)
        found = amc.load(folder, model=model.target)
    else:
        amc.save(model.target, folder)
        found = amc.load(folder)
    assert found.variables == model.target.variables
    assert repr(found) == repr(model.target)
    assert_equal(found, model.target, 0.2 * rng.normal(size=model.dim))


SOME = [("binomial", "table with text"), ("ordered logit", "matrix"), ("softmax", "offset"), ("normal", "weights")]


@pytest.mark.parametrize(("family", "design"), [*SOME, ("yours", "matrix")])
def test_families_come_back(family, design, tmp_path, rng):
    check_family(family, design, tmp_path / "target", rng)


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "design"), [model for model in MADE if model not in SOME])
def test_all_families_come_back(family, design, tmp_path, rng):
    check_family(family, design, tmp_path / "target", rng)


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.thorough) for kind in EXPANDED[:-1]), EXPANDED[-1]]
)
def test_a_target_that_grows_from_day_to_day(kind, tmp_path, rng):
    model = Growing(kind, rng)
    folder = tmp_path / "target"
    target = model.made(np.arange(120))
    target.compile_difference_bound()
    amc.save(target, folder)
    files = set(folder.glob("*.rows"))
    before = {path: path.read_bytes()[: _used(folder, path)] for path in files}
    for k in range(4):
        day = model.columns(np.arange(120 + 30 * k, 150 + 30 * k))
        target = target.append(**day, block=f"day {k}")
        amc.save(amc.load(folder).append(**day, block=f"day {k}"), folder)
    assert set(folder.glob("*.rows")) == files  # written to at their ends
    assert all(path.read_bytes().startswith(content) for path, content in before.items())
    assert_equal(amc.load(folder, check=True), target, target.center + 0.1)
    target = target.remove("day 1")
    amc.save(amc.load(folder).remove("day 1"), folder)
    assert_equal(amc.load(folder, check=True), target, target.center + 0.1)


def _used(folder: Path, path: Path) -> int:
    [file] = [file for file in target_folder._known_files(folder).values() if file.name == path.name]
    return file.ends[-1] * file.bytes_of_row


def test_only_new_rows_are_written(tmp_path, rng, monkeypatch):
    model = Growing("expanded", rng)
    folder = tmp_path / "target"
    amc.save(model.made(np.arange(200)), folder)
    grown = amc.load(folder).append(**model.columns(np.arange(200, 230)))
    written = []
    real = rows_file._written
    monkeypatch.setattr(
        rows_file,
        "_written",
        lambda path, rows, known: written.append(len(rows) - (known.ends or (0,))[-1]) or real(path, rows, known),
    )
    amc.save(grown, folder)
    assert written == [30, 30, 30]  # X, y and coefficients
    amc.save(grown, folder)
    assert len(written) == 3


def test_a_save_that_stops_before_its_end_leaves_the_target_before(tmp_path, rng, monkeypatch):
    model = Growing("expanded", rng)
    folder = tmp_path / "target"
    first = model.made(np.arange(120))
    amc.save(first, folder)
    grown = amc.load(folder).append(**model.columns(np.arange(120, 150)))
    with monkeypatch.context() as stopped:
        stopped.setattr(target_folder, "write_tree", _stop)
        with pytest.raises(KeyboardInterrupt):
            amc.save(grown, folder)
    assert amc.load(folder, check=True).blocks == first.blocks
    other = amc.load(folder).append(**model.columns(np.arange(150, 190)))
    amc.save(other, folder)
    assert_same_rows(amc.load(folder, check=True), other)


def _stop(*arguments):
    raise KeyboardInterrupt


def assert_same_rows(found, expected):
    assert found.blocks == expected.blocks
    assert np.array_equal(found.target.design.X, expected.target.design.X)
    assert np.array_equal(found._numbers, expected._numbers)


def test_two_processes_that_append_other_rows_do_not_mix_them(tmp_path, rng):
    model = Growing("expanded", rng)
    folder = tmp_path / "target"
    amc.save(model.made(np.arange(120)), folder)
    one = amc.load(folder)
    two = amc.load(folder)
    one = one.append(**model.columns(np.arange(120, 150)), block="one")
    two = two.append(**model.columns(np.arange(150, 240)), block="two")
    amc.save(one, folder)
    amc.save(two, folder)
    assert_same_rows(amc.load(folder, check=True), two)
    amc.save(one, folder)
    assert_same_rows(amc.load(folder, check=True), one)


def test_damage_is_found(tmp_path, rng):
    model = Growing("expanded", rng)
    folder = tmp_path / "target"
    amc.save(model.made(np.arange(120)), folder)
    path = folder / "X.0.rows"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"X\.0\.rows is damaged: rows 0 to 119"):
        amc.load(folder)
    path.write_bytes(content[:200])
    with pytest.raises(InvalidInputError, match="damaged"):
        amc.load(folder)
    path.unlink()
    with pytest.raises(InvalidInputError, match="is missing"):
        amc.load(folder)
    state = folder / "state.nc"
    state.write_bytes(state.read_bytes().replace(b"first", b"worst"))
    with pytest.raises(InvalidInputError, match="checksum is wrong"):
        amc.load(folder)


def test_what_cannot_be_saved(tmp_path, rng):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    plain = Growing("merged", rng)
    with pytest.raises(InvalidInputError, match="holds other files"):
        amc.save(plain.plain(np.arange(99)), tmp_path / "other")
    with pytest.raises(IncompatibleError, match="merges equal rows"):
        amc.save(plain.made(np.arange(240)), tmp_path / "target")
    with pytest.raises(FileNotFoundError, match="no target"):
        amc.load(tmp_path / "other")
    with pytest.raises(InvalidInputError, match="another likelihood"):
        amc.load(
            amc.save(plain.plain(np.arange(99)), tmp_path / "target"), model=amc.LinearRegression(np.eye(2), [0, 1])
        )


def test_files_of_a_folder_that_grows(tmp_path, rng):
    pytest.importorskip("pyarrow")
    from approxmcmc.sources import ParquetFolder

    def write(day: str, n: int) -> None:
        town = pd.Categorical(rng.choice(["Bern", "Oslo"], n))
        late = rng.integers(2, size=n).astype(float)
        pd.DataFrame({"age": rng.normal(size=n), "town": town, "late": late}).to_parquet(days / f"{day}.parquet")

    days = tmp_path / "days"
    days.mkdir()
    write("1", 40)
    write("2", 20)
    rows = ParquetFolder(days)
    target = amc.LogisticRegression(rows[["age", "town"]], rows["late"], intercept=True)
    assert [name for name, _, _ in target.blocks[0].files] == ["1.parquet", "2.parquet"]
    with pytest.raises(InvalidInputError, match="no file that the target does not have"):
        ParquetFolder(days).new_rows(target)
    write("0", 10)
    new = ParquetFolder(days).new_rows(target)
    assert len(new) == 10
    grown = target.append(new[["age", "town"]], new["late"], block="0")
    grown = amc.load(amc.save(grown, tmp_path / "target"))
    assert grown.blocks[1].files == new.files
    assert grown.n_obs == 70
    time.sleep(0.01)
    write("2", 20)
    with pytest.raises(InvalidInputError, match=r"2\.parquet, whose rows the target has, was changed"):
        ParquetFolder(days).new_rows(grown)
    (days / "2.parquet").unlink()
    with pytest.raises(InvalidInputError, match=r"2\.parquet, whose rows the target has, is gone"):
        ParquetFolder(days).new_rows(grown)


@pytest.mark.faults
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_kills_of_updates_leave_one_day_or_the_next(tmp_path, rng):
    """20 kills at random moments: each day is there with all of its rows, or not at all."""
    model = Growing("expanded", rng)
    folder = tmp_path / "target"
    amc.save(model.made(np.arange(40)), folder)
    kills = 0
    while kills < 20:
        child = os.fork()
        if not child:
            for _ in range(200):
                target = amc.load(folder)
                n = 40 if target.target.n_obs > 200 else target.target.n_obs
                if n == 40 and len(target.blocks) > 1:
                    target = model.made(np.arange(40))
                amc.save(target.append(**model.columns(np.arange(n, n + 20)), block=str(n)), folder)
            os._exit(0)
        time.sleep(rng.uniform(0.0, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        found = amc.load(folder, check=True)
        n = found.target.n_obs
        assert found.blocks.names == ["first", *(str(k) for k in range(40, n, 20))]
        assert np.array_equal(found.target.design.X, model.X[:n])
        expected = amc.ControlVariate(model.plain(np.arange(n)), at=found.center)
        assert np.array_equal(found._numbers, expected._numbers)
