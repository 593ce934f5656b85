"""The draws of a setting's replicates as one array; each member of a population is a chain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.diagnostics import split_population

if TYPE_CHECKING:
    import xarray as xr


def draws_of(traces: "Sequence[xr.DataTree]") -> np.ndarray:
    """Return the draws of theta, cut to the shortest replicate; each member of a population is a chain."""
    populations = "adapted_n_members" in traces[0]["posterior"].attrs
    posteriors = [split_population(trace) if populations else trace["posterior"].to_dataset() for trace in traces]
    n = min(posterior.sizes["draw"] for posterior in posteriors)
    return np.concatenate([posterior["theta"].to_numpy()[:, :n] for posterior in posteriors])
