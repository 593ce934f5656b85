"""Versions of libraries: their functions count by name and version, where reading all of their code would not end.

An installed library is known by the hashes of its files that the installer recorded. So a library that is installed
again from changed sources counts as another one, even if its version number is the same. A library that is used from
its sources, such as one installed in editable mode, has no such version: its functions are read.
"""

import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

# The versions of Python, numba and llvmlite are part of the name of a stored kernel (see `disk_cache`), which contains
# numba's own forms of NumPy's functions.
PINNED_PACKAGES = frozenset({"numpy", "numba", "math", "builtins", "llvmlite", "scipy", "cmath", "operator"})
_PACKAGE = __name__.partition(".")[0]

# Returns the version by which the functions of a package count, None for a package whose functions are read.
Libraries = Callable[[str], str | None]


def counted_by_name(package: str) -> str | None:
    """Return "" for the libraries whose functions count by name only in a kernel, None for others, which are read.

    These are `PINNED_PACKAGES` and the standard library.
    """
    return "" if package in PINNED_PACKAGES or _is_standard(package) else None


def installed_version(package: str) -> str | None:
    """Return name and version of an installed library, "" for one that counts by name; None for code that must be read.

    For functions that Python runs, and that may call much of a library, such as a sampler of a study. This package
    counts by name, because the version of its code (`code_version`) is part of what such functions are stored under.
    """
    if package == _PACKAGE:
        return ""
    if not package:  # code that `exec` runs belongs to no module
        return None
    named = counted_by_name(package)
    return _installed_version(package) if named is None else named


@functools.cache
def _is_standard(package: str) -> bool:
    """Return whether `package` is a module of the standard library, and not a file of the user's with such a name."""
    if package not in sys.stdlib_module_names:
        return False
    spec = importlib.util.find_spec(package) if package not in sys.modules else sys.modules[package].__spec__
    if spec is None or spec.origin in (None, "built-in", "frozen"):
        return spec is not None
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    return not folders.isdisjoint(Path(str(spec.origin)).resolve().parents)


@functools.cache
def _installed_version(package: str) -> str | None:
    """Return name, version and hash of the recorded files of the distribution that installed `package`."""
    for distribution in _distributions(package):
        record = distribution.read_text("RECORD") or ""
        if any(line.startswith((f"{package}/", f"{package}.")) for line in record.splitlines()):
            files = hashlib.blake2b(record.encode(), digest_size=8).hexdigest()
            return f"{distribution.name} {distribution.version} {files}"
    return None


def _distributions(package: str) -> Iterable[importlib.metadata.Distribution]:
    """Yield the distribution of the same name first: to search all of them takes tenths of a second."""
    try:
        yield importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        for name in _all_packages().get(package, ()):
            yield importlib.metadata.distribution(name)


@functools.cache
def _all_packages() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()
