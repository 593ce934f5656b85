"""One run of NUTS for a gold standard, with the same draws as `sample` with :class:`approxmcmc.NUTS`."""

import importlib.metadata
import json
import os
import platform
import time
from typing import Any

import xarray as xr

from approxmcmc.contracts import WholeRun
from approxmcmc.engine.streams import chain_seeds
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.whole_model import WholeModel
from approxmcmc.output.datatree import named_trace
from approxmcmc.output.returned import with_deterministics
from approxmcmc.sampling.goals import FixedDraws
from approxmcmc.whole_chains.settings import NUTS


def run_nuts(model: Any, settings: dict[str, Any], *, cores: int | None, progressbar: bool) -> xr.DataTree:
    """Sample a ``pm.Model`` by NUTS.

    Parameters
    ----------
    model
        The model.
    settings
        draws, tune, chains, random_seed, nuts (the preferred library) and target_accept: everything that determines the
        draws.
    cores
        Chains that run at once; None: as many as there are processors.
    progressbar
        Whether to show progress.

    Returns
    -------
    xarray.DataTree
        The trace of `sample`, with all variables of the model. Attributes of the posterior: `nuts`, the name of the
        library that ran NUTS, `sampling_time` (s, of the chains alone), `wall_seconds` (s, compilation included), and
        `versions` as JSON.

    Raises
    ------
    IncompatibleError
        If the model has discrete parameters.
    KeyboardInterrupt
        If sampling was interrupted: an incomplete gold standard must not be cached.
    """
    if model.discrete_value_vars:
        raise IncompatibleError(
            "A gold standard by NUTS needs continuous parameters; the model has discrete ones: "
            f"{', '.join(variable.name for variable in model.discrete_value_vars)}. Sum them out of the model, or use "
            "`grid_reference` where one or two parameters remain."
        )
    start = time.perf_counter()
    chains = settings["chains"]
    target = WholeModel(model, "a gold standard needs no terms")
    sampler = NUTS(target_accept=settings["target_accept"])
    asked = WholeRun(
        goals=FixedDraws(settings["draws"]),
        tune=settings["tune"],
        thin=1,
        seeds=chain_seeds(settings["random_seed"], chains),
        cores=min(chains, os.cpu_count() or 1) if cores is None else cores,
        progressbar=progressbar,
    )
    drawn = sampler.run(target, asked)
    if drawn.attrs["stopped"]:
        raise KeyboardInterrupt(f"NUTS was stopped after {drawn.flat.shape[1]} of {settings['draws']} draws")
    versions = json.dumps(_versions(drawn.attrs["nuts"]))
    trace = named_trace(
        drawn.posterior,
        drawn.stats,
        variables=drawn.variables,
        tuning_totals=drawn.tuning_totals,
        attrs={**drawn.attrs, "wall_seconds": time.perf_counter() - start, "versions": versions},
        settings=sampler.to_dict(),
        observed_data=target.observed_data,
        constant_data=target.constant_data,
    )
    # A gold standard of a model without terms has its deterministics, too.
    return with_deterministics(trace, target.returned) if target.why_no_terms else trace


def _versions(sampler: str) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("approxmcmc", "pymc", "pytensor", "numba", "numpy", *({sampler} - {"pymc"})):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[name] = "not installed"
    return versions
