"""What a host that fails leaves of a study, or of a search, that runs across four hosts; see the program beside this.

The hosts are network namespaces of this machine, which need root: without it these tests are skipped, and nothing else.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.network import ISOLATED, what_is_missing
from tests.faults.workers import PARTS

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
AGAIN = "run the same command again"


STUDY = {  # exit codes of the command, given again where it fails
    "two runners": [0],
    "disk full": [0],
    "slow link": [0],
    "client unplugged": [2, 0],
    "worker unplugged": [0],
    "scheduler killed": [2, 0],
}
SEARCH = {
    "disk full": [0],
    "slow link": [0],
    "client unplugged": [1, 0],
    "worker killed": [0],
    "worker unplugged": [0],
    "scheduler killed": [1, 0],
}


def outcomes(work, faults, seed):
    """Return what the program finds, fault by fault."""
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    command = [*ISOLATED, sys.executable, "-W", "ignore", "-m", "tests.faults.hosts", work, *faults, f"--seed={seed}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    print(done.stdout)
    return {found["fault"]: found for found in map(json.loads, done.stdout.splitlines())}


def test_a_study_loses_nothing_and_repeats_what_was_in_flight(seed):
    found = outcomes("study", STUDY, seed)
    assert {fault: each["exit codes"] for fault, each in found.items()} == STUDY
    for each in found.values():
        assert each["lost"] == each["written twice"] == each["different"] == 0
        assert ("12 done" if each["exit codes"] == [0] else "run the same command again") in each["message"]
    assert found["two runners"]["second"] == 2
    assert "Another run is working" in found["two runners"]["second says"]
    assert found["slow link"]["waits"] > 0


def test_a_search_finds_the_same_mode_and_does_not_begin_again(seed):
    """A restart from zero would read all parts again."""
    found = outcomes("search", SEARCH, seed)
    assert {fault: each["exit codes"] for fault, each in found.items()} == SEARCH
    for each in found.values():
        assert each["distance"] < 1e-8
        assert each["read again"] < PARTS
        if each["exit codes"] != [0]:
            assert "ConnectionError: passes on Dask: the connection to the scheduler" in each["message"]
    assert found["disk full"]["read again"] == found["slow link"]["read again"] == 0
    assert found["slow link"]["dropped"] > 0
