"""The file of an array is used only if it is as it was written, for these rows; otherwise it is written again."""

import numpy as np
import pytest

from approxmcmc.engine.files import mapped_files
from approxmcmc.engine.files.checksums import add_checksum
from approxmcmc.engine.files.mapped_files import named_array
from approxmcmc.errors import CacheWarning, InvalidInputError

ROWS = np.arange(40.0).reshape(20, 2)


@pytest.fixture(autouse=True)
def a_new_process(monkeypatch):
    """Forget which files this process has checked."""
    monkeypatch.setattr(mapped_files, "_checked", set())


def array_in(path, rows=ROWS):
    return named_array(path, rows.shape, rows.dtype, [rows[:7], rows[7:]], purpose="Arrays")


def put(path, rows, name):
    """Write rows as the library would write them under another name."""
    np.save(path, rows, allow_pickle=True)
    add_checksum(path, name)


FAULTS = {
    "a flipped bit": lambda path, good: path.write_bytes(good[:200] + bytes([good[200] ^ 16]) + good[201:]),
    "cut off": lambda path, good: path.write_bytes(good[:-9]),
    "without a checksum": lambda path, good: path.write_bytes(good[:448]),
    "empty": lambda path, good: path.write_bytes(b""),
    "the rows of another source": lambda path, good: put(path, ROWS + 7.0, "another"),
    "fewer rows": lambda path, good: put(path, ROWS[:5], path.stem),
    "more columns": lambda path, good: put(path, np.zeros((20, 3)), path.stem),
    "integers": lambda path, good: put(path, np.zeros((20, 2), np.int64), path.stem),
    "objects": lambda path, good: put(path, np.full((20, 2), {}), path.stem),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_hold_these_rows_is_written_again(tmp_path, fault):
    path = tmp_path / "rows.npy"
    array_in(path)
    mapped_files._checked.clear()
    good = path.read_bytes()
    FAULTS[fault](path, good)
    with pytest.warns(CacheWarning, match=r"Arrays: .*rows\.npy is not used, and is written again: "):
        np.testing.assert_array_equal(array_in(path), ROWS)
    assert path.read_bytes() == good
    np.testing.assert_array_equal(array_in(path), ROWS)  # without a warning


def test_the_file_is_read_once_in_a_process_for_its_checksum_and_once_after_each_change(tmp_path, monkeypatch):
    path, read = tmp_path / "rows.npy", []
    right = mapped_files.why_damaged
    monkeypatch.setattr(mapped_files, "why_damaged", lambda *given, **named: read.append(1) or right(*given, **named))
    for _ in range(2):
        array_in(path)
    assert len(read) == 0  # this process has written it
    mapped_files._checked.clear()
    for _ in range(2):
        array_in(path)
    assert len(read) == 1
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(CacheWarning):
        array_in(path)
    assert len(read) == 2


def test_blocks_with_too_few_or_too_many_rows_leave_no_file(tmp_path):
    for rows in (ROWS[:-1], np.concatenate([ROWS, ROWS])):
        with pytest.raises(InvalidInputError, match=r"need 320 bytes, and the blocks had"):
            named_array(tmp_path / "rows.npy", ROWS.shape, ROWS.dtype, [rows], purpose="Arrays")
    assert list(tmp_path.iterdir()) == []
