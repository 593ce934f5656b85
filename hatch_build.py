"""Make a wheel with kernels for one Python on Linux, if APPROXMCMC_KERNELS names their folder, else the pure wheel."""

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """Add the kernels that ``python -m tests.package.kernels FOLDER`` compiled with the same Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to the package, and say for which Python and system it is."""
        folder = os.environ.get("APPROXMCMC_KERNELS")
        if folder and version != "editable":
            python = "cp{}{}".format(*sys.version_info[:2])
            build_data["force_include"][folder] = "approxmcmc/kernels"
            build_data["tag"] = f"{python}-{python}-manylinux_2_28_x86_64"
            build_data["pure_python"] = False
