"""Compile the kernels that a wheel brings: ``python -m tests.package.kernels FOLDER``.

A process samples the examples of ``approxmcmc warm`` for x86-64-v3, and one for each of some real processors that this
machine can stand for. Kernels first compiled for an example whose draws differ between them are left out.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from llvmlite import binding

from approxmcmc.cli.warm import examples, sampled
from approxmcmc.engine.compiler.shipped import PROCESSOR
from approxmcmc.engine.files.paths import size_of, user_cache

NATIVES = {"haswell": "avx2", "skylake-avx512": "avx512f"}  # processors, and what a machine needs to stand for them
DRAWS = 50  # of each chain, compared; the number of all depends on the time limit


def compiled_here() -> dict[str, tuple[str, list[str]]]:
    """Sample the examples in this process; return for each the hash of its draws and the kernels it added."""
    known, found = set(), {}
    for name, trace in sampled(examples()):
        digest = hashlib.sha256()
        for values in trace.posterior.isel(draw=slice(DRAWS)).data_vars.values():
            digest.update(values.to_numpy().tobytes())
        files = {path.name for path in user_cache("kernels").glob("*.nbc")}
        found[name] = digest.hexdigest(), sorted(files - known)
        known = files
    return found


def compiled_for(folder: Path, processor: str) -> dict[str, tuple[str, list[str]]]:
    """Do the same in a process that compiles for a processor into an empty folder."""
    environment = {**os.environ, "APPROXMCMC_CACHE_DIR": str(folder)}
    environment |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-m", "tests.package.kernels"]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main(folder: Path) -> None:
    """Write the kernels into an empty folder, and say what was left out."""
    folder.mkdir(parents=True)
    able = binding.get_host_cpu_features()
    natives = [name for name, need in NATIVES.items() if able.get(need, False)]
    print(f"compared with {', '.join(natives)}")
    with tempfile.TemporaryDirectory() as scratch:
        portable, *others = [compiled_for(Path(scratch, name), name) for name in (PROCESSOR, *natives)]
        for example, (draws, files) in portable.items():
            if all(other[example][0] == draws for other in others):
                for file in files:
                    shutil.move(Path(scratch, PROCESSOR, "kernels", file), folder / file)
            else:
                print(f"left out: {len(files)} kernels of {example}, whose draws differ from native ones")
    print(f"{len(list(folder.iterdir()))} kernels, {size_of(folder) / 1e6:.1f} MB")


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with contextlib.redirect_stdout(sys.stderr):
            here = compiled_here()
        print(json.dumps(here))
