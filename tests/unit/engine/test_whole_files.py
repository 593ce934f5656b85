"""A file appears whole or not at all."""

import os
import signal
import time

import pytest

from approxmcmc.engine.files.whole_files import UNTOUCHED, remove_leftovers, whole_file, whole_folder


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

    @pytest.mark.parametrize("length", [1, 216, 217, 218, 255])
    @pytest.mark.parametrize("letter", ["a", "é", "😀"])
    def test_every_name_that_the_system_allows_can_be_written(self, tmp_path, durable, length, letter):
        path = tmp_path / (letter * (length // len(letter.encode())) or "a")
        with whole_file(path, durable=durable) as temporary:
            temporary.write_text("new")
        assert list(tmp_path.iterdir()) == [path]


def left_by_a_killed_writer(path, *, folder=False):
    """Start to write `path` in another process, and kill it there."""
    if (child := os.fork()) == 0:
        with (whole_folder if folder else whole_file)(path) as temporary:
            temporary.mkdir() if folder else temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
class TestLeftovers:
    def test_the_next_writer_removes_what_killed_writers_left_at_once(self, tmp_path):
        path, other = tmp_path / "rows.npy", tmp_path / "other.npy"
        left_by_a_killed_writer(path)
        left_by_a_killed_writer(other)
        assert len(list(tmp_path.iterdir())) == 2
        with whole_file(path) as temporary:
            temporary.write_text("new")
        [of_another_file] = set(tmp_path.iterdir()) - {path}
        assert of_another_file.name.startswith(".other.npy.")

    def test_folders_too(self, tmp_path):
        path = tmp_path / "effects.zarr"
        left_by_a_killed_writer(path, folder=True)
        with whole_folder(path) as temporary:
            temporary.mkdir()
        assert list(tmp_path.iterdir()) == [path]

    def test_what_a_running_process_writes_stays(self, tmp_path):
        """For an hour without a change, because the number of a process is used again."""
        path = tmp_path / "rows.npy"
        with whole_file(path) as live:
            live.write_text("half")
            remove_leftovers(path)
            assert live.exists()
            os.utime(live, (time.time() - UNTOUCHED - 1.0,) * 2)
            remove_leftovers(path)
            assert not live.exists()
            live.write_text("whole")

    def test_what_another_machine_writes_stays_though_no_process_here_has_its_number(self, tmp_path, monkeypatch):
        path = tmp_path / "rows.npy"
        left_by_a_killed_writer(path)
        monkeypatch.setattr("approxmcmc.engine.files.whole_files._machine", lambda: "another")
        remove_leftovers(path)
        [left] = tmp_path.iterdir()
        os.utime(left, (time.time() - UNTOUCHED - 1.0,) * 2)
        remove_leftovers(path)
        assert list(tmp_path.iterdir()) == []
