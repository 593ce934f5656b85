"""Chains that are populations, split into their members for R-hat and ESS."""

import math

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.records import group, stat_attribute
from approxmcmc.errors import InvalidInputError


def split_population(trace: xr.DataTree) -> xr.Dataset:
    """Return the posterior draws of a population sampler with every member as a separate chain.

    Parameters
    ----------
    trace
        A run with ``AdaptiveDirection``: draw t of a chain belongs to member t mod H.

    Returns
    -------
    xarray.Dataset
        The variables of ``posterior``, with H times as many chains and draws / H draws each (a remainder is cut off).

    Raises
    ------
    InvalidInputError
        When the run had no population, or `thin` shares a factor with H, so that some members were never kept.

    Notes
    -----
    Neighbouring draws of a population belong to different members, and are nearly independent however slowly each
    member moves. An effective sample size or MCSE of the interleaved draws is therefore far too optimistic; that of the
    members is right up to the weak dependence between them.

    Examples
    --------
    >>> az.ess(amc.diagnostics.split_population(trace))  # doctest: +SKIP
    """
    posterior = group(trace, "posterior")
    n_members = int(np.atleast_1d(posterior.attrs.get("adapted_n_members", 0))[0])
    thin = int(stat_attribute(trace, "thin", 1))
    if not n_members:
        raise InvalidInputError("split_population needs a trace of a population sampler, such as AdaptiveDirection")
    if math.gcd(thin, n_members) > 1:
        raise InvalidInputError(
            f"split_population: thin = {thin} and {n_members} members have a common factor, so some members were "
            "never kept; choose another thin"
        )
    n_draws = posterior.sizes["draw"] // n_members

    def split(values: np.ndarray) -> np.ndarray:
        n_chains, _, *rest = values.shape
        cut = values[:, : n_draws * n_members].reshape(n_chains, n_draws, n_members, *rest)
        return np.moveaxis(cut, 2, 1).reshape(n_chains * n_members, n_draws, *rest)

    variables = {
        name: (variable.dims, split(variable.to_numpy()), variable.attrs) for name, variable in posterior.items()
    }
    coords = {name: values for name, values in posterior.coords.items() if name not in ("chain", "draw")}
    sizes = {"chain": np.arange(posterior.sizes["chain"] * n_members), "draw": np.arange(n_draws)}
    return xr.Dataset(variables, coords={**sizes, **coords})
