"""Machine code does what its author wants, so none of another user's is read."""

import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from approxmcmc.engine.files import paths
from approxmcmc.engine.files.mapped_files import named_array
from approxmcmc.engine.files.paths import UntrustedFileError, read_trusted, why_not_trusted
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import CacheWarning

pwd = pytest.importorskip("pwd")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system knows no owners")
SOMEBODY = 54_321


def become_another_user(monkeypatch):
    """Look at files as somebody else would; those of root stay trusted, so that they are given away first."""
    monkeypatch.setattr(paths.os, "geteuid", lambda: SOMEBODY)


def given_away(path):
    """Give a file to a user who is not root, where only root can."""
    if path.stat().st_uid == 0:
        os.chown(path, SOMEBODY + 1, -1)
    return path


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    path = folder / "one.nbc"
    path.write_bytes(b"kernel")
    return path


def test_ones_own_file_in_a_private_folder_is_trusted(file):
    assert why_not_trusted(file) is None


@pytest.fixture
def shared_group(monkeypatch):
    """Let this user's group have another member."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(paths.grp, "getgrgid", lambda number: SimpleNamespace(gr_name=name, gr_mem=["colleague"]))


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not(file, mode, shared_group):
    file.parent.chmod(mode)
    assert "chmod go-w" in why_not_trusted(file)
    with pytest.raises(UntrustedFileError, match="chmod go-w"):
        read_trusted(file)


@pytest.mark.parametrize("mode", [0o660, 0o602])
def test_a_file_that_others_may_write_to_is_not(file, mode, shared_group):
    file.chmod(mode)
    assert why_not_trusted(file).startswith(f"other users may write to {file};")
    with pytest.raises(UntrustedFileError, match="other users may write"):
        read_trusted(file)


def test_a_private_group_may_write(file, monkeypatch):
    """The group of the user's own name without other members, where the umask 0002 is usual."""
    user = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(paths.grp, "getgrgid", lambda number: SimpleNamespace(gr_name=user.pw_name, gr_mem=[]))
    os.chown(file, -1, user.pw_gid)
    os.chown(file.parent, -1, user.pw_gid)
    file.parent.chmod(0o775)
    file.chmod(0o664)
    assert why_not_trusted(file) is None
    assert read_trusted(file) == b"kernel"
    file.chmod(0o666)
    assert why_not_trusted(file) is not None
    file.chmod(0o664)
    monkeypatch.setattr(paths.grp, "getgrgid", lambda number: SimpleNamespace(gr_name="staff", gr_mem=[]))
    assert why_not_trusted(file) is not None


def test_a_link_in_place_of_a_file_is_not(file):
    link = file.with_name("link.nbc")
    link.symlink_to(file)
    with pytest.raises(UntrustedFileError, match="is a link"):
        read_trusted(link)
    pipe = file.with_name("pipe.nbc")
    os.mkfifo(pipe, 0o600)
    with pytest.raises(UntrustedFileError, match="is not a file"):
        read_trusted(pipe)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077, 0o000])
def test_what_is_written_is_read_under_every_umask(tmp_path, umask, shared_group):
    """Rows of a source, and a private file: the library trusts its own files, also in folders that it makes."""
    before = os.umask(umask)
    try:
        folder, rows = tmp_path / "cache" / "rows", np.arange(6.0)
        for _ in range(2):
            found = named_array(folder / "rows.npy", (6,), rows.dtype, [rows], purpose="test")
            np.testing.assert_array_equal(found, rows)
        with whole_file(folder / "kernel", private=True) as temporary:
            temporary.write_bytes(b"kernel")
        assert read_trusted(folder / "kernel") == b"kernel"
        assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_that_others_may_read_is(file, mode):
    file.parent.chmod(mode)
    assert why_not_trusted(file) is None


def test_a_folder_of_another_user_is_not(file, monkeypatch):
    given_away(file.parent)
    become_another_user(monkeypatch)
    assert why_not_trusted(file).startswith(f"{file.parent} belongs to another user")


def test_a_file_of_another_user_is_not(file, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away and keep its folder")
    given_away(file)
    become_another_user(monkeypatch)
    assert why_not_trusted(file).startswith(f"{file} belongs to another user")


def test_a_file_that_is_not_there_says_so(file):
    with pytest.raises(FileNotFoundError):
        why_not_trusted(file.with_name("other.nbc"))


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.needs_jit
def test_a_planted_kernel_is_not_unpickled(tmp_path, monkeypatch):
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import VECTOR, _compile, kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def trebled(x):
        return 3.0 * x[0]

    signature = nb.float64(VECTOR)
    _compile.cache_clear()
    kernel(trebled, signature)
    (path,) = tmp_path.rglob("*.nbc")
    assert path.parent.stat().st_mode & 0o077 == 0
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "bomb")))
    path.parent.chmod(0o777)
    _compile.cache_clear()
    with pytest.warns(CacheWarning, match="other users may write"):
        anew = kernel(trebled, signature)
    assert anew(np.full(1, 2.0)) == 6.0
    assert not (tmp_path / "bomb").exists()
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "bomb")))
    path.parent.chmod(0o700)
    _compile.cache_clear()
    with pytest.warns(CacheWarning, match="could not be read back"):
        kernel(trebled, signature)
    assert not (tmp_path / "bomb").exists()  # nothing in a kernel's file is a pickle
    pickle.loads(pickle.dumps(Bomb(tmp_path / "bomb")))
    assert (tmp_path / "bomb").exists()  # it is a bomb
