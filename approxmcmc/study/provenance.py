"""The provenance of a result: the version of the code, and the machine and software that ran it."""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from approxmcmc.engine.compiler.code_version import PACKAGE, code_version, version

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
LIBRARIES = (
    "approxmcmc", "numpy", "scipy", "numba", "llvmlite", "xarray", "netcdf4", "arviz", "pymc", "nutpie", "distributed",
    "jax", "jaxlib", "blackjax", "numpyro", "pymc-extras",
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
