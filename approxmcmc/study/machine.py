"""Timing: one thread, two clocks, and a probe that shows whether the machine was disturbed.

Wall-clock time is what users wait for, but on a shared machine it also measures other programs. So every cell keeps
both the wall-clock and the processor time of its process, and a fixed piece of work is timed before and after it: if
the two differ by more than 10 %, the speed of the machine changed meanwhile and the cell is marked noisy.
"""

import contextlib
import dataclasses
import hashlib
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.code_version import PACKAGE, code_version, version
from approxmcmc.engine.extras import THREAD_VARIABLES

PROBE_PARTS = 5
PROBE_PASSES = 280
PROBE_SIZE = 16_384
LARGEST_DRIFT = 0.10


def speed_probe() -> float:
    """Return the seconds of a fixed piece of NumPy work: the median of five parts of about 10 ms, times five.

    The median ignores a single interruption, which would say nothing about the minutes between two probes.
    """
    values = np.linspace(0.0, 1.0, PROBE_SIZE)
    out = np.empty_like(values)
    parts = []
    for _ in range(PROBE_PARTS):
        start = time.perf_counter()
        for _ in range(PROBE_PASSES):
            np.exp(values, out=out)
            np.add(out, values, out=out)
            np.sqrt(out, out=out)
        parts.append(time.perf_counter() - start)
    return PROBE_PARTS * statistics.median(parts)


def is_noisy(before: float, after: float) -> bool:
    """Return whether two probes differ by more than 10 % of the faster one."""
    return abs(after - before) > LARGEST_DRIFT * min(before, after)


@dataclasses.dataclass
class Stopwatch:
    """Wall-clock and processor seconds of a block; both 0 until it ends."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextlib.contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time a block on both clocks; processor time counts all threads of this process, but no child processes."""
    watch = Stopwatch()
    wall = time.perf_counter()
    cpu = time.process_time()
    try:
        yield watch
    finally:
        watch.wall_seconds = time.perf_counter() - wall
        watch.cpu_seconds = time.process_time() - cpu


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit every BLAS and OpenMP pool of this process to one thread."""
    import threadpoolctl

    with threadpoolctl.threadpool_limits(limits=1):
        yield


LIBRARIES = (
    "approxmcmc", "numpy", "scipy", "numba", "llvmlite", "pandas", "xarray", "netcdf4", "arviz", "pymc", "pytensor",
    "nutpie", "distributed", "jax", "jaxlib", "blackjax", "numpyro", "pymc-extras",
)  # fmt: skip


def collect() -> dict[str, Any]:
    """Return the environment of this process: code, libraries, processor, threads, linear algebra, system."""
    return {
        "code_version": code_version(),
        "git": _git(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "lock_file": _hash_of_lock_file(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "thread_variables": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "linear_algebra": linear_algebra(),
        "jit": os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"),
    }


def processor() -> str:
    """Return the processor's model name, as far as the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or "unknown"


def linear_algebra() -> list[dict[str, Any]]:
    """Return the loaded thread pools: BLAS and OpenMP libraries, their versions and thread counts."""
    import threadpoolctl

    kept = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{name: pool[name] for name in kept if name in pool} for pool in threadpoolctl.threadpool_info()]


def _git() -> dict[str, str] | None:
    root = PACKAGE.parent
    sha = _output_of("git", "-C", str(root), "rev-parse", "HEAD") if (root / ".git").exists() else None
    if not sha:
        return None
    changes = _output_of("git", "-C", str(root), "diff", "HEAD") or ""
    return {"commit": sha, "changes": hashlib.blake2b(changes.encode(), digest_size=8).hexdigest() if changes else ""}


def _output_of(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _hash_of_lock_file() -> str | None:
    for folder in (Path.cwd(), PACKAGE.parent):
        if (folder / "uv.lock").is_file():
            return hashlib.blake2b((folder / "uv.lock").read_bytes(), digest_size=8).hexdigest()
    return None
