"""The memory of the machine, or of the container or process if that may use less."""

import os
from pathlib import Path

CGROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def all_memory() -> float:
    """Return the bytes that the machine has, or that the process may use; infinity if neither is known."""
    limits = [float(path.read_text()) for path in CGROUP if path.exists() and path.read_text().strip().isdigit()]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    return min([*limits, _limit_of_process()], default=float("inf"))


def _limit_of_process() -> float:
    """Return the limit on the address space of this process, as ``ulimit -v`` sets it; infinity without one."""
    try:
        import resource
    except ImportError:  # Windows
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else float(limit)
