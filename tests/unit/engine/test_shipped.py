"""Kernels that a wheel brings: read where this processor has none of its own, run only where they can."""

import shutil
from types import SimpleNamespace

import pytest
from numba import types as nb

from approxmcmc.engine.compiler import disk_cache, shipped
from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.compiler.compile import VECTOR, _compile, kernel

NATIVE = ("x86_64-unknown-linux-gnu", "some processor", "+some,+features")
V3 = dict.fromkeys(shipped.NEEDS, True)


def processor(name="haswell", **features):
    """Return a replacement of llvmlite's binding on a processor."""
    return SimpleNamespace(get_host_cpu_features=lambda: V3 | features, get_host_cpu_name=lambda: name)


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """Return a folder of shipped kernels, on a processor with all that they need."""
    folder = tmp_path / "kernels of the wheel"
    folder.mkdir()
    monkeypatch.delenv("APPROXMCMC_SHIPPED", raising=False)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(shipped, "config", SimpleNamespace(CPU_NAME=None))
    monkeypatch.setattr(shipped, "binding", processor())
    monkeypatch.setattr(shipped, "_are_used", shipped._are_used.__wrapped__)
    (folder / "kernel-x86-64-v3.nbc").write_bytes(b"code")
    return folder


def found():
    """Return what is read for the processor `NATIVE`."""
    return shipped.read_shipped(lambda processor: f"kernel-{'-'.join(processor[1:]).rstrip('-')}.nbc", NATIVE)


def test_they_are_named_for_their_own_processor(brought):
    assert found() == b"code"
    assert shipped.read_shipped(lambda processor: f"another-{processor[1]}.nbc", NATIVE) is None


@pytest.mark.parametrize("lacking", shipped.NEEDS)
def test_a_processor_that_lacks_an_instruction_gets_none(brought, monkeypatch, lacking):
    monkeypatch.setattr(shipped, "binding", processor(**{lacking: False}))
    monkeypatch.setenv("APPROXMCMC_SHIPPED", "1")
    assert found() is None


@pytest.mark.parametrize("name", shipped.SUMS_IN_512_BITS)
def test_a_processor_with_other_bits_gets_them_only_where_the_user_says_so(brought, monkeypatch, name):
    monkeypatch.setattr(shipped, "binding", processor(name))
    assert found() is None
    monkeypatch.setenv("APPROXMCMC_SHIPPED", "1")
    assert found() is not None


def test_a_user_may_refuse_them_or_name_a_processor_and_the_pure_wheel_has_none(brought, monkeypatch):
    with monkeypatch.context() as there:
        there.setenv("APPROXMCMC_SHIPPED", "0")
        assert found() is None
    with monkeypatch.context() as there:
        there.setattr(shipped, "config", SimpleNamespace(CPU_NAME="generic"))
        assert found() is None
    assert found() is not None
    shutil.rmtree(brought)
    assert found() is None


@pytest.mark.needs_jit
def test_a_native_kernel_comes_first_and_a_shipped_one_is_counted(brought, tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path / "ours"))

    def quadrupled(x):
        return 4.0 * x[0]

    def counts():
        before = compiled_so_far()
        _compile.cache_clear()
        kernel(quadrupled, nb.float64(VECTOR))
        after = compiled_so_far()
        return after.kernels - before.kernels, after.shipped - before.shipped

    def as_if_shipped(file_name, native):
        return shipped.read_shipped(lambda _: file_name(native), native)

    monkeypatch.setattr(disk_cache, "read_shipped", as_if_shipped)  # kernels that this processor compiled
    assert counts() == (1, 0)
    assert counts() == (0, 0)
    (path,) = (tmp_path / "ours").rglob("*.nbc")
    path.rename(brought / path.name)
    assert counts() == (0, 1)
    assert not list((tmp_path / "ours").rglob("*.nbc"))  # not copied
    monkeypatch.setenv("APPROXMCMC_SHIPPED", "0")
    assert counts() == (1, 0)
