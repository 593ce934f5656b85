"""Resume a run from its checkpoint, or add draws to a finished one."""

import os
from pathlib import Path
from typing import Any

import xarray as xr

from approxmcmc.api import checked_cores, checked_time_limit, warn_of
from approxmcmc.checkpoints.run_file import (
    RunFile,
    described,
    refuse_another_run,
    run_file_of,
    stored_variables,
    versions,
)
from approxmcmc.checkpoints.tables import read_checkpoint
from approxmcmc.contracts import AnySampler, Component, Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.latents import refuse_folder, with_folder
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.any_model import as_target
from approxmcmc.runs import carry_out, completing, make_plan
from approxmcmc.sampling.assembly import Settings
from approxmcmc.sampling.goals import FixedDraws
from approxmcmc.sampling.progress import watching


@naming_the_arguments
def resume(
    path: str | os.PathLike[str],
    target: Any,
    *,
    draws: int | None = None,
    cores: int | None = None,
    time_limit: float | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Resume a run from its checkpoint: finish an interrupted run, or add draws to a finished one.

    Parameters
    ----------
    path
        The file written by ``sample(..., checkpoint=path)``. Sampler, seed, chains, tuning and thinning are read from
        this file. It is overwritten with the longer run.
    target
        The target, or the `pymc.Model`, of that run: its content, all data included, must be the same.
    draws
        Draws to add to each chain. None: finish an interrupted run; add nothing to a finished one.
    cores, progressbar
        As in `sample`.
    time_limit
        Seconds for this call. None: no limit if draws are added to a finished run; for an interrupted run, what is left
        of the limit that `sample` was given.

    Returns
    -------
    xarray.DataTree
        The trace of the whole run, bit for bit what `sample` with the sum of draws would have returned: tuning, old
        draws and new ones. Audits after the run are repeated over all draws. If the run thinned its draws (attribute
        ``thinned_by`` above 1), `draws` counts kept draws. Chains of `NUTS` cannot resume: they run again from their
        start, longer, and repeat the same draws.

    Raises
    ------
    FileNotFoundError
        When the file does not exist.
    IncompatibleError
        When `target` is neither a target nor a PyMC model.
    InvalidInputError
        When `path` is not a path; when the file is not a checkpoint, belongs to another target or version, or its
        sampler is unknown here; or when `draws` is given while the run still lacks draws, unless an interrupted
        `resume` was adding as many.

    Examples
    --------
    >>> import numpy as np, tempfile, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0.3)
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = {"tune": 10, "chains": 1, "random_seed": 1, "progressbar": False, "checkpoint": f"{folder}/run.nc"}
    ...     trace = amc.sample(target, sampler, draws=100, **run)
    ...     longer = amc.resume(f"{folder}/run.nc", target, draws=50, progressbar=False)
    >>> longer.posterior.sizes["draw"]
    150
    """
    compiled_before = compiled_so_far().seconds
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(
            f"resume needs the path of a checkpoint, as in sample(..., checkpoint=path), found a {type(path).__name__}"
        )
    own_target = target
    target = as_target(own_target)
    if not isinstance(target, Target):
        raise IncompatibleError(f"resume needs the target of the run, found {target!r}")
    if draws is not None:
        draws = checked_integer(draws, "draws", 1)
    time_limit = checked_time_limit(time_limit)
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no checkpoint at {path}; `sample(..., checkpoint=path)` writes one.")
    run_file = run_file_of(path, read_checkpoint(path))
    refuse_another_run(
        path,
        {name: run_file.asked.get(name) for name in ("target", "returned", "version")},
        {"target": described(target), "returned": stored_variables(target), "version": versions()},
    )
    refuse_folder(target)
    if run_file.trace is not None and draws is None:
        return with_folder(run_file.trace, target)
    settings = _with_more(run_file, draws)
    if time_limit is not None and run_file.begun is not None:
        settings = settings._replace(time_limit=run_file.begun.seconds + time_limit)
    cores = checked_cores(cores, settings.chains)
    with watching(progressbar, type(own_target).__name__):
        plan = make_plan(target, _sampler_of(run_file), settings, None, run_file, say=progressbar)
        plan = plan._replace(compiled_before=compiled_before, complete=completing(own_target, target))
        trace, block = carry_out(plan, run_file, cores=cores, progressbar=progressbar)
    warn_of(block)
    return trace


def _with_more(run_file: RunFile, draws: int | None) -> Settings:
    """Return the settings of the run with `draws` more draws, and store them in its file.

    For an unfinished run the stored settings are returned unchanged; `draws` must then be None, or the number that an
    interrupted `resume` was adding.
    """
    with run_file.reading():
        settings = run_file.settings()
    assert run_file.begun is not None
    if run_file.trace is None:
        if draws not in (None, run_file.made.get("added")):
            raise InvalidInputError(
                f"{run_file.path} holds a run that has not ended, so no {draws} draws can be added: "
                f"{run_file.made.get('added') or 'its own'} draws are still missing. "
                "Finish it first, resume(path, target)"
            )
        return settings
    assert draws is not None
    if run_file.begun.chains:
        every = max(chain["every"] for chain in run_file.begun.chains)
        kept = min(drawn for _, drawn in (chain["done"] for chain in run_file.begun.chains))
    else:  # the chains of a `WholeSampler` cannot resume
        every = int(run_file.trace["posterior"].attrs.get("thinned_by", 1))
        kept = run_file.trace["posterior"].sizes["draw"]
    settings = settings._replace(draws=kept + draws, every=every, enough=None, target_ess=None, time_limit=None)
    goal = FixedDraws(kept + draws, every).first()
    run_file.begun = run_file.begun._replace(goal=goal, goals={}, stopped="")
    changed = ("draws", "every", "enough", "target_ess", "time_limit")
    run_file.asked = {**run_file.asked, **{name: getattr(settings, name) for name in changed}}
    run_file.made["added"] = draws
    return settings


def _sampler_of(run_file: RunFile) -> Any:
    """Return the sampler of a run, built from its settings; None if the library chose it."""
    with run_file.reading():
        described_as = run_file.asked["sampler"]
    if described_as is None:
        return None
    try:
        return _as_sampler(Component.from_dict(described_as))
    except Exception as error:  # from the checks of any class
        raise InvalidInputError(
            f"{run_file.path} was made with {described_as}, which cannot be made here ({error!r}); "
            "import what defines it, or call `sample` again as before"
        ) from error


def _as_sampler(component: Component) -> AnySampler:
    if not isinstance(component, AnySampler):
        raise TypeError(f"{component!r} is no sampler")
    return component
