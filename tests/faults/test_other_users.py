"""Another user of the machine: what he puts in place of a file of the cache is not read, and no worker can be reached.

He may write to the parent folder of the cache, and exchanges its folders while they are read. Workers of a study
communicate by pipes: they listen on no port and no named socket, and their memory and files are closed to him.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from numba import types as nb

from approxmcmc.engine.compiler import disk_cache
from approxmcmc.engine.compiler.compile import kernel
from approxmcmc.engine.files.checksums import ADDED, add_checksum
from approxmcmc.engine.files.paths import CACHE_VARIABLE, UntrustedFileError, make_private, read_trusted

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users"),
]
VICTIM, ATTACKER = 54_321, 54_322  # numbers of users who need no entry in the system's list
SECONDS = 5.0
REPOSITORY = Path(__file__).parents[2]
PRIVATE = {"fd": os.O_RDONLY | os.O_DIRECTORY, "mem": os.O_RDONLY}  # of a process, with the flags that open it


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
    time.sleep(1e-2)
    return path.read_bytes()


def forks(tmp_path, prepare, attack, victim):
    """Let a victim and an attacker, who may write to the folder, run at the same time; return their exit codes."""
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o711)  # pytest makes them private
    tmp_path.chmod(0o777)
    assert os.waitpid(as_user(VICTIM, prepare), 0)[1] == 0
    processes = [as_user(ATTACKER, attack), as_user(VICTIM, victim)]
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def exchanging(folder, his, content):
    """Return an attack: put a folder with a file of other content in the place of a folder, and take it away again."""
    away = folder.with_name("away")

    def attack():
        his.mkdir()
        for path, data in content().items():
            (his / path).write_bytes(data)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                os.rename(folder, away)
                os.rename(his, folder)
                os.rename(folder, his)
                os.rename(away, folder)
        return 0

    return attack


@pytest.mark.parametrize(("read", "is_safe"), [(read_trusted, True), (checked_then_read, False)])
def test_an_exchanged_folder_is_refused(tmp_path, read, is_safe):
    path = tmp_path / "kernels" / "kernel.nbc"

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

    attack = exchanging(path.parent, tmp_path / "his", lambda: {path.name: b"attack"})
    assert forks(tmp_path, prepare, attack, victim) == [0, 0 if is_safe else 2]


@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.CacheWarning")
@pytest.mark.parametrize(("reads", "is_safe"), [(read_trusted, True), (checked_then_read, False)])
def test_a_forged_kernel_is_never_run(tmp_path, monkeypatch, reads, is_safe):
    """The attacker has compiled another function, and put it under the kernel's name with a right checksum."""
    mine, his = tmp_path / "kernels", tmp_path / "his"
    monkeypatch.setattr(disk_cache, "read_trusted", reads)

    def add(number):
        return lambda x: x + number

    def read(number):
        made = kernel(add(number), nb.float64(nb.float64))
        return made(2.0), sum(made.stats.cache_hits.values())

    def prepare():
        return int(read(1.0) != (3.0, 0))

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "warm"))
    read(5.0)  # loads what the compiler imports late, from folders that other users may not read
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))

    def forged():
        os.environ[CACHE_VARIABLE] = str(his)
        read(1.0)  # to know the name of its file
        [name] = [path.name for path in (his / "kernels").iterdir()]
        read(24.0)
        [other] = [path for path in (his / "kernels").iterdir() if path.name != name]
        copy = his / "copy"
        copy.write_bytes(other.read_bytes()[:-ADDED])
        add_checksum(copy, name)
        return {name: copy.read_bytes()}

    def victim():
        end = time.monotonic() + SECONDS
        uses = 0
        while time.monotonic() < end:
            value, used = read(1.0)
            if value != 3.0:
                return 2
            uses += used
        return 0 if uses else 3  # 3: the test proves nothing

    assert forks(tmp_path, prepare, exchanging(mine, his, forged), victim) == [0, 0 if is_safe else 2]


def listening():
    """Return the numbers of all sockets of this machine that others may connect or send to."""
    numbers = set()
    for name, is_open in {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}.items():
        rows = [line.split() for line in Path("/proc/net", name).read_text().splitlines()[1:]]
        numbers |= {row[9] for row in rows if row[3] == is_open}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return numbers | {row[6] for row in rows if int(row[3], 16) & 0x10000}  # it accepts connections


def sockets_of(process):
    """Return the numbers of the sockets that a process has open."""
    numbers = set()
    for file in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            kind, _, number = os.readlink(file).partition(":")
            numbers |= {number.strip("[]")} if kind == "socket" else set()
    return numbers


def are_closed_to_others(processes):
    """Return whether another user can neither list the files of these processes nor read their memory."""

    def attack():
        places = [(f"/proc/{process.pid}/{place}", flags) for process in processes for place, flags in PRIVATE.items()]
        for place, flags in places:
            with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
                os.open(place, flags)
                return 2
        return 0

    return os.waitstatus_to_exitcode(os.waitpid(as_user(ATTACKER, attack), 0)[1]) == 0


def test_workers_of_a_study_cannot_be_reached(tmp_path):
    """``approxmcmc run ... --jobs 2``, looked at five times a second while it runs."""
    program = str(Path(sys.executable).with_name("approxmcmc"))
    command = [program, "run", "tests/faults/small_study.py", "--jobs", "2", "--store", str(tmp_path / "store")]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPOSITORY)}
    looks, most_processes, reachable = 0, 0, set()
    with (tmp_path / "output").open("w") as output:
        run = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)
        while run.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                main = psutil.Process(run.pid)
                processes = [main, *main.children(recursive=True)]
                open_to_all = listening()
                reachable |= {process.pid for process in processes if sockets_of(process) & open_to_all}
                if len(processes) > most_processes:
                    assert are_closed_to_others(processes)
                looks, most_processes = looks + 1, max(most_processes, len(processes))
            time.sleep(0.2)
    print({"looks": looks, "processes": most_processes, "reachable": len(reachable)})
    assert run.returncode == 0, (tmp_path / "output").read_text()
    assert most_processes >= 3 and looks >= 10  # both workers were seen
    assert reachable == set()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_port_would_be_seen(family, tmp_path):
    """The test above finds a socket that listens, as workers of Dask have them."""
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "socket"))
        listener.listen()
        assert sockets_of(psutil.Process()) & listening() == {str(os.fstat(listener.fileno()).st_ino)}
