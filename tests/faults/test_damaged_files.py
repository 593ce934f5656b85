"""No damaged, exchanged or forged file is ever used: every kind of file that the library reads, times every fault."""

import time

import numpy as np
import pytest

from approxmcmc.engine.files import checksums
from tests.faults.damaged_files import KINDS, table

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_is_taken_for_the_file(kind, seed):
    began = time.perf_counter()
    counts, bugs = table(kind, np.random.default_rng(seed), flips=300, cuts=30)
    print({"kind": kind, **counts, "faults": sum(counts.values()), "seconds": round(time.perf_counter() - began, 1)})
    assert bugs == []


@pytest.mark.recompiles
@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_few_is_taken_for_the_file(kind, rng):
    counts, bugs = table(kind, rng, flips=3, cuts=3)
    assert bugs == []
    assert sum(counts.values()) >= 6


@pytest.mark.recompiles
@pytest.mark.parametrize("kind", ["trace", "cell", "rows of a source", "cached analysis"])
def test_the_table_sees_a_library_without_checksums(kind, rng, monkeypatch):
    """The planted bug: every checksum is the same, so none is ever wrong."""
    monkeypatch.setattr(checksums, "_hash", lambda file, size, content: "0" * 64)
    _, bugs = table(kind, rng, flips=60, cuts=0)
    assert any("USED" in bug for bug in bugs)
