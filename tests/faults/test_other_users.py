"""Another user of the machine against a study that runs: no port, no socket with a name, no way into a process."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can become another user"),
]
ROOT = Path(__file__).parents[2]
STUDY = """
import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study

X = np.random.default_rng(0).normal(size=(50, 2))
study = Study(
    name="watched",
    targets={"logistic": lambda: amc.targets.LogisticRegression(X, X[:, 0] > 0)},
    samplers={"walk": amc.MetropolisHastings(amc.RandomWalk(0.2), amc.ExactTest())},
    budget=Budget(seconds=300.0),
    gold=None,
    replicates=2,
)
"""
# Prints each way into the processes that another user finds: a port that answers, a file that can be opened.
ATTACK = """
import json, os, socket, sys

ports, processes = json.loads(sys.argv[1])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for port in ports:
    try:
        with socket.socket() as caller:  # a library function would import more, which this user may not read
            caller.settimeout(5)
            caller.connect(("127.0.0.1", port))
        print("port", port)
    except OSError:
        pass
for pid in processes:
    for path in (f"/proc/{pid}/fd", f"/proc/{pid}/mem"):
        try:
            os.listdir(path) if path.endswith("fd") else open(path, "rb+").close()
            print("file", path)
        except PermissionError:
            pass
"""
LISTENER = "import socket, time; server = socket.create_server(('127.0.0.1', 0)); time.sleep(600)"
RUN = "import sys; from approxmcmc.cli import main; sys.exit(main())"


@contextlib.contextmanager
def processes_of(*command, cwd, at_least):
    """Start a command; yield the processes of its tree once there are so many, and kill all of them at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    with subprocess.Popen([sys.executable, "-W", "ignore", *command], cwd=cwd, env=environment) as process:
        tree = psutil.Process(process.pid)
        try:
            deadline = time.monotonic() + 240
            while len(children := tree.children(recursive=True)) < at_least and time.monotonic() < deadline:
                assert process.poll() is None, "the command ended"
                time.sleep(0.2)
            assert len(children) >= at_least
            yield [tree, *children]
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in [*tree.children(recursive=True), tree]:
                    one.kill()


def doors(processes):
    """Return the ports on which processes listen, and the names of their sockets in the file system or beside it."""
    connections = [each for one in processes for each in one.net_connections(kind="all")]
    ports = sorted({each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN})
    names = sorted({each.laddr for each in connections if each.family == socket.AF_UNIX and each.laddr})
    return ports, names


def ways_in(processes):
    """Return what another user can open of these processes, and the names of their sockets."""
    ports, names = doors(processes)
    what = json.dumps([ports, [one.pid for one in processes]])
    attack = subprocess.run([sys.executable, "-c", ATTACK, what], capture_output=True, text=True, check=True)
    return attack.stdout.splitlines() + names


def test_a_study_in_two_processes_has_no_door(tmp_path):
    """The run, its workers and the tracker of their resources; looked at again and again while the cells run."""
    (tmp_path / "watched.py").write_text(STUDY)
    command = ("-c", RUN, "run", "watched.py", "--jobs", "2", "--no-report")
    with processes_of(*command, cwd=tmp_path, at_least=3) as processes:
        began = list(tmp_path.glob("results/*/plan.json"))
        for _ in range(10):
            assert ways_in(processes) == []
            time.sleep(2.0)
        assert began and all(process.is_running() for process in processes)


def test_a_listening_process_is_seen(tmp_path):
    """The same search finds a port that answers another user."""
    with processes_of("-c", LISTENER, cwd=tmp_path, at_least=0) as processes:
        deadline = time.monotonic() + 60
        while not (found := ways_in(processes)) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert len(found) == 1 and found[0].startswith("port")
