"""No damaged, exchanged or forged file is ever used: every kind of file that the library reads, times every fault."""

import time

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.files import checksums
from tests.faults.damaged_files import COMPILED, KINDS, outcome, table

pytestmark = pytest.mark.filterwarnings("ignore")
EVERY_KIND = [pytest.param(kind, marks=[pytest.mark.needs_jit] * (kind in COMPILED)) for kind in KINDS]


@pytest.mark.faults
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_fault_is_taken_for_the_file(kind, seed):
    began = time.perf_counter()
    counts, bugs = table(kind, np.random.default_rng(seed), flips=300, cuts=30)
    print({"kind": kind, **counts, "faults": sum(counts.values()), "seconds": round(time.perf_counter() - began, 1)})
    assert bugs == []


@pytest.mark.recompiles
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_fault_of_a_few_is_taken_for_the_file(kind, rng):
    counts, bugs = table(kind, rng, flips=3, cuts=3)
    assert bugs == []
    assert sum(counts.values()) >= 6


@pytest.fixture
def without_checksums(monkeypatch):
    """Plant the bug: every checksum is the same, so none is ever wrong."""
    monkeypatch.setattr(checksums, "_hash", lambda file, size, content: "0" * 64)


@pytest.mark.recompiles
@pytest.mark.parametrize("kind", ["rows of a source", "cached analysis"])
def test_the_table_sees_a_library_without_checksums(kind, rng, without_checksums):
    _, bugs = table(kind, rng, flips=60, cuts=0)
    assert any("USED" in bug for bug in bugs)


@pytest.mark.needs_jit
@pytest.mark.recompiles
def test_without_checksums_the_kernel_of_another_function_is_run(rng, without_checksums):
    """Random bits are not put to machine code without checksums: some of them crash the process."""
    _, bugs = table("kernel", rng, flips=0, cuts=0)
    assert [bug for bug in bugs if "another good file" in bug and "USED" in bug]


@pytest.mark.recompiles
def test_without_checksums_a_flipped_exponent_in_a_checkpoint_is_taken(tmp_path, without_checksums):
    """Random bits are not put to netCDF files without checksums: some of them crash the process inside of HDF5."""
    [path] = KINDS["checkpoint"].write(tmp_path, 1).values()
    good, draw = amc.load(path), amc.load(path)["posterior"]["beta"].to_numpy()[0, 10]
    content = bytearray(path.read_bytes())
    content[content.index(draw.tobytes()) + 7] ^= 0x40
    path.write_bytes(bytes(content))
    assert outcome(KINDS["checkpoint"], tmp_path, path, good).startswith("USED")
