"""NUTS of nutpie: Rust, with a mass matrix from draws and gradients."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.foreign.settings import LibrarySampler
from approxmcmc.foreign.trace import nuts_trace
from approxmcmc.foreign.twin import chain_of, once, twin_of
from approxmcmc.nuts import by_nutpie


@dataclasses.dataclass(frozen=True, eq=False)
class NutpieNUTS(LibrarySampler):
    """The no-U-turn sampler of nutpie on all data.

    Guarantee: asymptotically exact. nutpie does not time single draws: its total, warm-up included, is spread over the
    draws by their leapfrog steps, each of which is one gradient on all data.

    Parameters
    ----------
    tune
        Warm-up draws.
    adaptation
        Kind of the mass matrix: ``"diag"``, ``"low_rank"`` or ``"draw_diag"``.
    target_accept
        Acceptance rate that the step size is tuned to.

    Raises
    ------
    IncompatibleError
        When the target has no PyMC model.

    References
    ----------
    A. Seyboldt, E. L. Carlson, B. Carpenter (2026), preconditioning HMC by minimizing Fisher divergence.

    Examples
    --------
    >>> amc.foreign.NutpieNUTS(tune=500)
    NutpieNUTS(tune=500, adaptation='diag', target_accept=0.8)
    """

    tune: int = 400
    adaptation: str = "diag"
    target_accept: float = 0.8

    def run(self, target: Any, *, seconds: float | None, draws: int, seed: int, initial: np.ndarray) -> xr.DataTree:
        """Draw one chain; see :class:`approxmcmc.contracts.ForeignSampler`."""
        made, seconds_before = _compiled(target)
        job = chain_of(target, seconds=seconds, draws=draws, tune=self.tune, seed=seed, initial=initial)
        raw = by_nutpie.draw(job._replace(target_accept=self.target_accept), made, self.adaptation)
        return nuts_trace(self, target, raw._replace(compile_seconds=seconds_before))


@once
def _compiled(target: Target) -> by_nutpie.NutpieModel:
    return by_nutpie.compile_model(twin_of(target).model, None)
