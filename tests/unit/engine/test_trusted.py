"""A pickle runs what its author wants, so none of another user's is read."""

import os
import pickle

import numpy as np
import pytest

from approxmcmc.engine.files import paths
from approxmcmc.engine.files.paths import why_not_trusted
from approxmcmc.errors import CacheWarning

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


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not(file, mode):
    file.parent.chmod(mode)
    assert "chmod go-w" in why_not_trusted(file)


@pytest.mark.parametrize("mode", [0o660, 0o602])
def test_a_file_that_others_may_write_to_is_not(file, mode):
    file.chmod(mode)
    assert why_not_trusted(file).startswith(f"other users may write to {file};")


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
    path.parent.chmod(0o700)  # the bomb is one: read as a file of our own, it goes off
    _compile.cache_clear()
    with pytest.warns(CacheWarning, match="could not be read back"):
        kernel(trebled, signature)
    assert (tmp_path / "bomb").exists()
