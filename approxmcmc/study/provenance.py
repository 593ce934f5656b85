"""What a result came from: the version of the code that draws, and the machine and software that ran it."""

import functools
import hashlib
import importlib.metadata
import io
import os
import platform
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
# The rooms whose code decides what is drawn and counted; diagnostics, plots and reports can change without a rerun.
ROOMS_THAT_DRAW = ("contracts", "engine", "targets", "proposals", "acceptance", "samplers", "sampling", "interop")
FILES_THAT_DRAW = ("api.py",)
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
LIBRARIES = (
    "approxmcmc", "numpy", "scipy", "numba", "llvmlite", "xarray", "netcdf4", "arviz", "pymc", "nutpie", "distributed"
)  # fmt: skip


@functools.cache
def code_version() -> str:
    """Return a hash of the package's code that draws, without comments, docstrings and layout.

    The package's version number is mixed in. Equal hashes mean equal draws under equal libraries; the libraries'
    versions stand in the provenance.
    """
    digest = hashlib.blake2b(_version("approxmcmc").encode(), digest_size=8)
    for path in sorted(_files_that_draw(), key=lambda path: path.relative_to(PACKAGE).as_posix()):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        for token in code_tokens(path.read_text(encoding="utf-8")):
            digest.update(token.encode() + b"\0")
    return digest.hexdigest()


def _files_that_draw() -> Iterator[Path]:
    for room in ROOMS_THAT_DRAW:
        yield from (PACKAGE / room).rglob("*.py")
    yield from (PACKAGE / name for name in FILES_THAT_DRAW if (PACKAGE / name).is_file())


def code_tokens(source: str) -> Iterator[str]:
    """Yield the tokens of a Python file that can change what it does; a statement that is only a string cannot."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
    structure = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in layout:
            continue
        statement.append(token)
        if token.type in structure:
            if [part.type for part in statement] != [tokenize.STRING, tokenize.NEWLINE]:
                # The depth of an indentation counts, its spelling does not.
                yield from (tokenize.tok_name[t.type] if t.type in structure else t.string for t in statement)
            statement = []


def collect() -> dict[str, Any]:
    """Return where and with what this process runs: code, libraries, processor, threads, linear algebra, system."""
    return {
        "code_version": code_version(),
        "git": _git(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
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
    """Return the processor's model name, as well as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or "unknown"


def linear_algebra() -> list[dict[str, Any]]:
    """Return the thread pools that are loaded: BLAS and OpenMP libraries, their versions and thread counts."""
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


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
