"""One run of NUTS: PyMC's interface, with nutpie underneath where it is installed."""

import contextlib
import importlib.metadata
import json
import multiprocessing
import platform
import time
from typing import Any

import xarray as xr

from approxmcmc.errors import IncompatibleError
from approxmcmc.nuts.by_pymc import silent
from approxmcmc.reference.gates import with_common_names


def run_nuts(model: Any, settings: dict[str, Any], *, cores: int | None, progressbar: bool) -> xr.DataTree:
    """Sample a ``pm.Model`` by NUTS.

    Parameters
    ----------
    model
        The model.
    settings
        draws, tune, chains, random_seed, nuts_sampler and target_accept: everything that the draws depend on.
    cores
        Chains that run at once; None = PyMC's choice, at most 4. BLAS threads share the same cores. A daemonic
        process, such as a Dask worker, may not start others and runs the chains one after the other.
    progressbar
        Whether to show progress; without it PyMC's loggers are silent too.

    Returns
    -------
    xarray.DataTree
        What PyMC returns, without empty groups and statistics that are text. Attributes of the posterior:
        `sampling_time` (s, of the chains alone), `wall_seconds` (compilation included), and `versions` as JSON.
        Statistics have PyMC's names.

    Raises
    ------
    IncompatibleError
        If the model has discrete parameters.
    KeyboardInterrupt
        If sampling was interrupted, also where PyMC itself returns what was drawn.
    """
    import pymc as pm

    if model.discrete_value_vars:
        raise IncompatibleError(
            "A gold standard by NUTS needs continuous parameters; the model has discrete ones: "
            f"{', '.join(variable.name for variable in model.discrete_value_vars)}. Sum them out of the model, or use "
            "`grid_reference` where one or two parameters remain."
        )
    run = {name: value for name, value in settings.items() if name != "target_accept"}
    if multiprocessing.current_process().daemon and settings["nuts_sampler"] == "pymc":
        cores = 1
    start = time.perf_counter()
    with contextlib.nullcontext() if progressbar else silent("pymc"):
        tree = pm.sample(
            model=model,
            cores=cores,
            progressbar=progressbar,
            compute_convergence_checks=False,  # the gates do this
            nuts={"target_accept": settings["target_accept"]},
            **run,
        )
    wall_seconds = time.perf_counter() - start
    made = tree["posterior"].sizes
    if (made["chain"], made["draw"]) != (settings["chains"], settings["draws"]):
        # PyMC answers Ctrl-C with the draws made so far; a part of a gold standard is none, and must not be cached.
        raise KeyboardInterrupt(f"NUTS was stopped after {made['draw']} of {settings['draws']} draws")
    groups = {name: _numeric(group) for name, group in tree.to_dict().items() if group.data_vars}
    groups["/sample_stats"] = with_common_names(groups["/sample_stats"])
    posterior = groups["/posterior"]
    posterior.attrs |= {"wall_seconds": wall_seconds, "versions": json.dumps(_versions(settings["nuts_sampler"]))}
    return xr.DataTree.from_dict(groups)


def _numeric(group: xr.Dataset) -> xr.Dataset:
    text = [name for name, variable in group.data_vars.items() if variable.dtype.kind not in "biuf"]
    return group.drop_vars(text)


def _versions(sampler: str) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("approxmcmc", "pymc", "pytensor", "numba", "numpy", *({sampler} - {"pymc"})):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[name] = "not installed"
    return versions
