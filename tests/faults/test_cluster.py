"""A study on two worker processes of Dask, of which one comes late and the other is lost: each cell is made once.

The workers are processes of this machine, started as an array job starts them, one by one.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from approxmcmc.study.store import Store
from tests.faults.hosts import CLI, STUDY, wait_until

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
CELLS = 12
WORKER = ("-m", "dask", "worker", "--no-nanny", "--no-dashboard")


class Processes:
    """Pythons started here, whose words are in files; all are killed in the end."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []

    def start(self, name, *command):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(self.folder)}
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", *command], cwd=self.folder, env=environment, stdout=log, stderr=log
            )
        self.started.append(process)
        return process

    def said(self, name):
        return (self.folder / f"{name}.log").read_text()

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.end()


@pytest.fixture
def scheduler(processes):
    """Return the address of a scheduler without workers."""
    file = processes.folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file))
    processes.start("scheduler", "-m", "dask", "scheduler", *options)
    wait_until(lambda: file.is_file() and file.stat().st_size > 0, "the scheduler")
    return json.loads(file.read_text())["address"]


def recorded(store):
    """Return the time at which each record was written, by path."""
    return {str(path): path.stat().st_mtime_ns for path in store.glob("small-paper/cells/??/*/record.json")}


def results(store):
    """Return what is known of the finished cells by key, without their clocks."""
    names = ("target", "label", "replicate", "seed", "draws", "steps", "draws_hash")
    records = Store(store / "small-paper").records()
    return {key: [record[name] for name in names] for key, record in records.items() if record["status"] == "done"}


def test_a_late_and_a_lost_worker_leave_each_cell_once_and_the_same(processes, scheduler, tmp_path):
    """The first worker stops in a cell, as on a host that hangs; the late one goes on; then the first one is lost."""
    assert processes.start("alone", *CLI, "run", STUDY, "--no-report", "--store", "alone").wait() == 0
    store = tmp_path / "cluster"
    command = ("run", STUDY, "--no-report", "--store", str(store), "--scheduler", scheduler)
    runner = processes.start("runner", *CLI, *command)
    first = processes.start("first", *WORKER, "--nthreads", "1", scheduler)
    wait_until(lambda: len(recorded(store)) >= 2 or runner.poll() is not None, "the first cells")
    first.send_signal(signal.SIGSTOP)
    by_the_first = recorded(store)
    assert runner.poll() is None and len(by_the_first) < CELLS, processes.said("runner")
    processes.start("late", *WORKER, "--nthreads", "1", scheduler)
    wait_until(lambda: len(recorded(store)) > len(by_the_first) + 1 or runner.poll() is not None, "the late worker")
    first.kill()
    assert runner.wait(timeout=300) == 0, processes.said("runner")
    after = recorded(store)
    assert len(after) == len(results(store)) == CELLS
    assert by_the_first.items() <= after.items()  # none is written again
    assert results(store) == results(tmp_path / "alone")
    assert f"{CELLS} done" in processes.said("runner")


def test_a_worker_with_several_threads_ends_the_run_with_the_remedy(processes, scheduler, tmp_path):
    processes.start("worker", *WORKER, "--nthreads", "2", scheduler)
    command = ("run", STUDY, "--no-report", "--store", str(tmp_path / "store"), "--scheduler", scheduler)
    runner = processes.start("runner", *CLI, *command)
    assert runner.wait(timeout=300) == 2
    assert "has 2 threads" in processes.said("runner")
    assert "--nworkers 2 --nthreads 1" in processes.said("runner")
    assert recorded(tmp_path / "store") == {}
