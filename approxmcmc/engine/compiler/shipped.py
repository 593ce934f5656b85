"""Kernels that a wheel of the package brings, so that a first run compiles nothing of the library's own.

They are compiled for x86-64-v3, a set of instructions that processors have had since 2013 (AVX2, FMA, BMI), and named
by content like those in the user's cache, with "x86-64-v3" as the processor. A kernel compiled for this processor is
preferred. Versions of Python, numba or llvmlite other than those of the wheel find nothing here, and compile.

A processor that sums in vectors of 512 bits gives results with other last bits. Shipped kernels are not used there, so
that draws do not depend on how the package was installed. ``APPROXMCMC_SHIPPED=1`` uses them there too,
``APPROXMCMC_SHIPPED=0`` nowhere.

The folder is part of the package, so whoever can write to it can also change the package's source.
"""

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import config

from approxmcmc.engine.compiler.compilations import count_shipped

FOLDER = Path(__file__).resolve().parents[2] / "kernels"
PROCESSOR = "x86-64-v3"
NEEDS = ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3", "xsave")
SUMS_IN_512_BITS = ("znver4", "znver5")  # on Intel's processors with AVX-512 LLVM prefers 256 bits: equal results


def read_shipped(file_name: Callable[[tuple[Any, ...]], str], native: tuple[Any, ...]) -> bytes | None:
    """Return the bytes of a shipped kernel, or None.

    ``file_name(processor)`` is the name of its file for a processor as numba describes it; `native` describes this one.
    """
    if not _are_used(os.environ.get("APPROXMCMC_SHIPPED", "")):
        return None
    with contextlib.suppress(FileNotFoundError):
        content = (FOLDER / file_name((native[0], PROCESSOR, ""))).read_bytes()
        count_shipped()
        return content
    return None


@functools.cache
def _are_used(wish: str) -> bool:
    """Return whether shipped kernels are used; `wish` is the value of ``APPROXMCMC_SHIPPED``.

    They are not used if `wish` is "0", the package has no such folder, the user has set a processor for numba, this
    processor lacks instructions, or it sums in 512 bits and `wish` is not "1".
    """
    if wish == "0" or config.CPU_NAME is not None or not FOLDER.is_dir():
        return False
    features = binding.get_host_cpu_features()
    equal = wish == "1" or binding.get_host_cpu_name() not in SUMS_IN_512_BITS
    return equal and all(features.get(name, False) for name in NEEDS)
