"""What is recorded is neither lost nor computed twice when processes are killed; see the programs beside this file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
ROOT = Path(__file__).parents[2]


def outcome(*command):
    """Return what a program of this folder finds; it fails where something was lost or is different."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-m", *command]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    return found


@pytest.mark.faults
@pytest.mark.parametrize("what", ["run", "serial", "processes"])
def test_kills_at_random_moments_leave_what_nobody_disturbed(what, seed):
    found = outcome("tests.faults.kills", what, "--kills=50", f"--seed={seed}")
    assert sum(found["kills"].values()) >= 50
    in_flight = 1 if what == "serial" else 2
    assert found.get("extra", 0) <= in_flight * sum(found["kills"].values())


@pytest.mark.faults
def test_a_pass_repeats_what_a_killed_worker_held_and_no_more(seed):
    """A restart from zero would read all parts again, at each kill."""
    from tests.faults.workers import PARTS

    found = outcome("tests.faults.workers", "--kills=25", f"--seed={seed}")
    assert found["kills"] >= 25 and found["different"] == 0
    assert found["read again"] > 0 and found["most read again"] < PARTS
