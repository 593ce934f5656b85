"""A file with a checksum is refused once a single bit of it has changed; other programs can still read it."""

import json

import numpy as np
import pytest

from approxmcmc.engine.files import checksums
from approxmcmc.engine.files.checksums import add_checksum, has_checksum, why_damaged, with_checksum


@pytest.fixture(params=["file", "bytes", "json"])
def sealed(request, tmp_path, monkeypatch):
    """Return a function that writes content with a checksum, and gives what `why_damaged` takes."""
    monkeypatch.setattr(checksums, "PIECE", 7)  # several pieces
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")

    def write(content=""):
        path = tmp_path / "sealed"
        if request.param == "json":
            return with_checksum('{"a": 1.5, "b": [2, 3]}', content)
        path.write_bytes(b"numbers of any kind")
        add_checksum(path, content)
        return path if request.param == "file" else path.read_bytes()

    def changed(file, content):
        if isinstance(file, bytes):
            return content
        file.write_bytes(content)
        return file

    return write, changed


@pytest.mark.thorough
def test_every_flipped_bit_and_every_cut_is_seen(sealed):
    write, changed = sealed
    file = write()
    good = file if isinstance(file, bytes) else file.read_bytes()
    assert why_damaged(file) is None and has_checksum(file)
    for bit in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        assert why_damaged(changed(file, bytes(flipped)))
    for length in range(len(good)):
        assert why_damaged(changed(file, good[:length]))
    assert why_damaged(changed(file, good + b"x"))
    assert why_damaged(changed(file, good)) is None


def test_a_good_file_under_the_name_of_another_is_seen(sealed):
    write, _ = sealed
    file = write("rows a")
    assert why_damaged(file, "rows a") is None
    assert "other data than its name says" in why_damaged(file, "rows b")


@pytest.mark.parametrize("text", ["{}", '{\n "a": 1\n}\n', '{"a": {"b": "}"}}'])
def test_json_with_a_checksum_is_json(text):
    content = json.loads(with_checksum(text))
    assert len(content.pop("checksum")) == 64
    assert content == json.loads(text)


@pytest.mark.thorough
@pytest.mark.parametrize("n_bytes", [0, 1, checksums.PIECE - 2, checksums.PIECE, 2 * checksums.PIECE + 1])
def test_pieces_and_threads_do_not_change_the_checksum(tmp_path, monkeypatch, n_bytes):
    """A file and its bytes have the same."""
    path = tmp_path / "large"
    path.write_bytes(np.random.default_rng(0).bytes(n_bytes))
    add_checksum(path)
    for threads in ("1", "3"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        assert why_damaged(path) is None
        assert why_damaged(path.read_bytes()) is None
