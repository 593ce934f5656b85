"""Another user of the machine who exchanges a folder of the cache while it is read: his file is never taken."""

import contextlib
import os
import time

import pytest

from approxmcmc.engine.files.paths import UntrustedFileError, make_private, read_trusted

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users"),
]
VICTIM, ATTACKER = 54_321, 54_322  # numbers of users who need no entry in the system's list
SECONDS = 5.0


def as_user(number, run):
    """Run a function in a child process of this user; return its process number."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(number)
            os.setuid(number)
            code = run()
        os._exit(code)
    return child


def checked_then_read(path):
    """Read a file as a planted bug: judge both by name, then open the name."""
    folder, file = path.parent.stat(), path.stat()
    if {folder.st_uid, file.st_uid} - {VICTIM, 0}:
        raise UntrustedFileError
    time.sleep(1e-4)
    return path.read_bytes()


@pytest.mark.parametrize(("read", "is_safe"), [(read_trusted, True), (checked_then_read, False)])
def test_an_exchanged_folder_is_refused(tmp_path, read, is_safe):
    """The attacker may write to the parent folder, and renames his folder to and fro."""
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o711)  # pytest makes them private
    tmp_path.chmod(0o777)
    path, his, away = tmp_path / "kernels" / "kernel.nbc", tmp_path / "his", tmp_path / "away"

    def attack():
        his.mkdir()
        (his / "kernel.nbc").write_bytes(b"attack")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                os.rename(path.parent, away)
                os.rename(his, path.parent)
                os.rename(path.parent, his)
                os.rename(away, path.parent)
        return 0

    def victim():
        end = time.monotonic() + SECONDS
        good = 0
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError, UntrustedFileError):
                if read(path) == b"attack":
                    return 2
                good += 1
        return 0 if good else 3  # 3: the test proves nothing

    def prepare():
        make_private(path.parent)
        path.write_bytes(b"good")
        return 0

    assert os.waitpid(as_user(VICTIM, prepare), 0)[1] == 0
    processes = [as_user(ATTACKER, attack), as_user(VICTIM, victim)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    assert codes == [0, 0 if is_safe else 2]
