"""A file appears whole or not at all."""

import os
import time

import numpy as np
import pytest

from approxmcmc.engine.files.mapped_files import A_BLOCK_AT_MOST, named_array
from approxmcmc.engine.files.whole_files import remove_leftovers, whole_file


@pytest.mark.parametrize("durable", [True, False])
class TestWholeFile:
    def test_replaces_the_old_file_only_at_the_end(self, tmp_path, durable):
        path = tmp_path / "result"
        path.write_text("old")
        with whole_file(path, durable=durable) as temporary:
            temporary.write_text("new")
            assert path.read_text() == "old"
            assert temporary.parent == path.parent  # a rename is atomic within one file system alone
        assert path.read_text() == "new"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_an_error_leaves_the_old_file_and_nothing_else(self, tmp_path, durable, error):
        path = tmp_path / "result"
        path.write_text("old")

        def fail():
            with whole_file(path, durable=durable) as temporary:
                temporary.write_text("half of the n")
                raise error

        with pytest.raises(error):
            fail()
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_writers_do_not_disturb_each_other(self, tmp_path, durable):
        path = tmp_path / "result"
        with whole_file(path, durable=durable) as one, whole_file(path, durable=durable) as other:
            one.write_text("one")
            other.write_text("other")
        assert path.read_text() == "one"  # the last to finish


def test_what_killed_writers_left_is_removed_and_what_is_being_written_stays(tmp_path):
    """With the next use of the file, also where it is there already."""
    path, rows = tmp_path / "rows.npy", np.arange(4.0)
    with whole_file(path) as live, whole_file(path) as killed, whole_file(tmp_path / "other.npy") as other:
        for temporary in (live, killed, other):
            temporary.write_bytes(b"half")
        for temporary in (killed, other):
            os.utime(temporary, (time.time() - A_BLOCK_AT_MOST - 1.0,) * 2)
        np.testing.assert_array_equal(named_array(path, (4,), rows.dtype, [rows], who="test"), rows)
        assert (live.exists(), killed.exists(), other.exists()) == (True, False, True)
        killed.write_bytes(b"half")
        remove_leftovers(path)
        assert (live.exists(), killed.exists(), other.exists()) == (False, False, True)
        for temporary in (live, killed):
            temporary.write_bytes(b"whole")
