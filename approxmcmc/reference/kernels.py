"""Exact kernels for long chains, and how to run them, as `nuts` does for NUTS."""

import dataclasses
import math
import os
from typing import Any

import xarray as xr

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import Target
from approxmcmc.output.datatree import build_trace
from approxmcmc.proposals import Langevin, Mixture, PreconditionedCrankNicolson, RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.sampling.assembly import assemble
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.progress import progress
from approxmcmc.surrogate import CoreRows, SurrogateTransition
from approxmcmc.targets import Laplace


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An exact sampler, the form of the posterior it runs on, and its steps per draw.

    Parameters
    ----------
    sampler
        A sampler that leaves the posterior invariant, such as ``MetropolisHastings(proposal, ExactTest())``, or with
        :class:`PoissonTest`, which reads few rows.
    form
        The same posterior with other terms, such as `CoreRows` of the target; None = the target itself.
    thin
        Steps per kept draw: use more for a kernel that mixes slowly.
    """

    sampler: Any
    form: Target | None = None
    thin: int = 1


def langevin_kernel(fit: Laplace, thin: int = 1) -> Kernel:
    """Return Metropolis-Hastings with Langevin steps (MALA) in the metric of a Laplace approximation."""
    step_size = 1.65**2 / fit.mode.size ** (1 / 3)  # Roberts and Rosenthal (1998), for a normal law
    return Kernel(
        MetropolisHastings(Langevin(step_size, preconditioner=fit, target_acceptance=0.574), ExactTest()), thin=thin
    )


def core_rows_kernel(target: Target) -> Kernel:
    """Return surrogate transitions on the core rows of a target with an exact test: fast if a few rows are heavy."""
    return Kernel(MetropolisHastings(SurrogateTransition(), ExactTest()), CoreRows(target))


def mixture_kernel(fit: Laplace, thin: int = 1) -> Kernel:
    """Return Metropolis-Hastings with independent draws of a Laplace approximation and random-walk steps, in turn."""
    walk = RandomWalk(2.38 / math.sqrt(fit.mode.size), preconditioner=fit)
    return Kernel(MetropolisHastings(Mixture([PreconditionedCrankNicolson(0.0, fit), walk]), ExactTest()), thin=thin)


def run_kernel(
    target: Target, sampler: Any, settings: dict[str, int], *, cores: int | None, progressbar: bool
) -> xr.DataTree:
    """Return chains of a sampler; `settings` holds draws, tune, thin, chains and random_seed.

    Raises
    ------
    KeyboardInterrupt
        If sampling was interrupted.
    SamplingError
        If a log density was NaN before a draw was kept.
    """
    draws, tune, thin, chains = (settings[name] for name in ("draws", "tune", "thin", "chains"))
    made = assemble(target, sampler, seed=settings["random_seed"], chains=chains, tune=tune)
    total = chains * (tune + thin * draws)
    with progress(total, show=progressbar, label="long exact chain", time_limit=None) as bar:
        result = run(
            made.program,
            made.chains,
            dim=target.variables.size,
            draws=draws,
            tune=tune,
            thin=thin,
            cores=cores or min(chains, os.cpu_count() or 1),
            time_limit=None,
            keep_warmup=False,
            progress=bar,
        )
    if result.attrs["stopped"]:
        # An interrupted reference run is not a gold standard: do not cache it.
        raise KeyboardInterrupt(f"the chains were stopped after {result.draws.shape[1]} of {draws} draws")
    return build_trace(
        result,
        variables=target.variables,
        observed_data={},
        constant_data={},
        keep_warmup=False,
        settings=sampler.to_dict(),
    )
