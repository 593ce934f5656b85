"""A file appears whole or not at all."""

import pytest

from approxmcmc.engine.whole_files import whole_file


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
