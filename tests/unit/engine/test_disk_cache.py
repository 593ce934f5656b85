"""Kernels on disk: what a process reads that several others wrote."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.needs_jit

ADDS = """
import sys
import numba
import numpy as np
from numba import types as nb
from approxmcmc.engine.compiler.compile import VECTOR, kernel

def make(number):
    def add(theta):
        return theta[0] + number
    return add

signature = nb.float64(VECTOR)
numbers = [float(argument) for argument in sys.argv[1:]]
kernels = [kernel(make(number), signature) for number in numbers]
call = numba.njit(nb.float64(nb.FunctionType(signature), VECTOR))(lambda function, theta: function(theta))
assert [call(one, np.zeros(1)) for one in kernels] == numbers, [call(one, np.zeros(1)) for one in kernels]
print(sum(sum(one.stats.cache_hits.values()) for one in kernels))
"""


def test_kernels_of_one_name_that_two_processes_wrote_are_told_apart_in_a_third(tmp_path):
    def run(*numbers):
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "APPROXMCMC_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", ADDS, *map(str, numbers)]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    # Each process gives its kernel the same number, so that only the content tells them apart.
    assert run(1.0) == run(2.0) == 0
    assert run(1.0, 2.0) == run(2.0, 1.0) == 2  # read from disk, called by pointer
