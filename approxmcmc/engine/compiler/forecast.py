"""How many kernels a call will compile, and for how long: remembered from earlier calls on this machine.

Which kernels a call needs is known only when it needs them. Calls on the same kind of model compile about the same
number, so the median of the earlier ones is the estimate; without any, that of all kinds. The file affects nothing but
what is shown: a line that cannot be read is skipped.
"""

import contextlib
import statistics
from pathlib import Path

from approxmcmc.engine.files.paths import make_private, user_cache

LATEST = 20  # calls of a kind that count
BYTES = 1 << 16  # read from the end of the file: about a thousand calls


def expected(kind: str) -> tuple[int, float] | None:
    """Return the number of kernels of a call on this `kind` of model, and seconds per kernel; None without a record."""
    try:
        text = _file().read_bytes()[-BYTES:].decode(errors="replace")
    except OSError:
        return None
    calls = [entry for line in text.splitlines() if (entry := _entry(line))]
    alike = [entry for entry in calls if entry[0] == kind] or calls
    if not alike:
        return None
    kernels = statistics.median_high([number for _, number, _ in alike[-LATEST:]])
    per_kernel = statistics.median([seconds / number for _, number, seconds in calls[-LATEST:]])
    return kernels, per_kernel


def remember(kind: str, kernels: int, seconds: float) -> None:
    """Record that a call on this `kind` of model compiled so many kernels in so many seconds."""
    with contextlib.suppress(OSError):  # a folder that cannot be written: there is no estimate next time
        file = _file()
        make_private(file.parent)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"\n{kind} {kernels} {seconds:.2f}")  # a new line first: the last one may be cut short


def _file() -> Path:
    return user_cache("compilations") / "calls.txt"


def _entry(line: str) -> tuple[str, int, float] | None:
    """Return the kind, the number of kernels and the seconds of a line; None if it is not such a line."""
    try:
        kind, kernels, seconds = line.split(" ")
        entry = kind, int(kernels), float(seconds)
    except ValueError:
        return None
    return entry if entry[1] > 0 and 0.0 <= entry[2] < float("inf") else None
