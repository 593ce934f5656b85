"""Read a trace: its groups, sums of records per chain, totals of the tuning steps, the members of a population."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.acceptance.stored import stored_test
from approxmcmc.errors import InvalidInputError

LENGTHS = "draws_per_chain"  # attribute of the posterior of a trace whose chains have different lengths


def check_confidence(confidence: float) -> None:
    """Raise unless a confidence level lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"`confidence` needs a number between 0 and 1, such as 0.95; found {confidence}.")


def group(trace: xr.DataTree, name: str) -> xr.Dataset:
    """Return the group `name` of a trace as a Dataset with the dims chain and draw first; raise if it is missing."""
    if not isinstance(trace, xr.DataTree):
        raise InvalidInputError(
            f"A trace is needed, one xarray.DataTree; found a {type(trace).__name__}. Pass what `sample` or `load` "
            "returned."
        )
    if name not in trace.children:
        raise InvalidInputError(f"The trace needs a group {name!r}; found {sorted(trace.children)}.")
    dataset = trace[name].to_dataset()
    missing = {"chain", "draw"} - set(dataset.dims)
    if missing:
        raise InvalidInputError(
            f"The group {name!r} needs the dims 'chain' and 'draw'; {sorted(missing)} missing among "
            f"{sorted(map(str, dataset.dims))}."
        )
    return dataset.transpose("chain", "draw", ...)


def lengths(trace: xr.DataTree) -> np.ndarray:
    """Return the number of real draws of each chain, shape (chain,).

    NaN after the end of a chain is padding if the trace says so (`as_trace`), or if every variable and every record of
    `sample_stats` with decimals is NaN there. NaN in the posterior alone may be the result of a sampler that failed.
    """
    posterior = group(trace, "posterior")
    draws = posterior.sizes["draw"]
    recorded = np.atleast_1d(posterior.attrs.get(LENGTHS, [])).astype(int)
    if len(recorded) == posterior.sizes["chain"]:
        return np.minimum(recorded, draws)
    stats = trace["sample_stats"].to_dataset() if "sample_stats" in trace.children else xr.Dataset()
    records = [v for v in stats.data_vars.values() if v.dtype.kind == "f" and {"chain", "draw"} <= set(v.dims)]
    variables = list(posterior.data_vars.values())
    real = np.full(posterior.sizes["chain"], draws)
    if not records or not variables or any(v.dtype.kind != "f" for v in variables) or not draws:
        return real
    is_missing = np.ones((posterior.sizes["chain"], draws), dtype=bool)
    for variable in (*variables, *records):
        ordered = variable.transpose("chain", "draw", ...).to_numpy()
        is_missing &= np.isnan(ordered).reshape(*is_missing.shape, -1).all(axis=-1)
    last = draws - np.argmin(is_missing[:, ::-1], axis=1)  # after the last draw that is there
    return np.where(is_missing.all(axis=1), draws, last)


def leaves_invariant(attrs: Mapping[Any, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether the sampler of a trace leaves its target invariant, according to the trace's attributes.

    If they do not record this, return whether its test is exact; False if it has no test either.
    """
    if "why_not_invariant" in attrs:
        return not attrs["why_not_invariant"]
    test = stored_test(settings)
    return test is not None and test.leaves_invariant(int(attrs["n_obs"]))


def sums(trace: xr.DataTree, name: str) -> np.ndarray | None:
    """Return the sums of a record over the draws of each chain, shape (chain,); None if the trace lacks the record."""
    stats = group(trace, "sample_stats")
    return np.asarray(stats[name].sum("draw")) if name in stats else None


def tuning_totals(trace: xr.DataTree, name: str) -> np.ndarray | None:
    """Return the total of a record over the tuning steps, per chain; None if unknown.

    The attribute ``tuning_<name>`` holds it in the order of the chains that were run, a plain number for a single
    chain; a trace without the attribute may have kept its warm-up records.
    """
    stats = group(trace, "sample_stats")
    chains = stats.sizes["chain"]
    if f"tuning_{name}" in stats.attrs:
        totals = np.atleast_1d(np.asarray(stats.attrs[f"tuning_{name}"]))
        if len(totals) == chains:
            return totals
        # Chains may have been selected after the run; their labels still count from zero.
        labels = np.asarray(stats["chain"]) if "chain" in stats.coords else np.arange(chains)
        if labels.dtype.kind in "iu" and labels.max(initial=0) < len(totals):
            return totals[labels]
    if "warmup_sample_stats" in trace.children:
        warmup = trace["warmup_sample_stats"].to_dataset()
        if name in warmup and warmup.sizes["chain"] == chains:
            return np.asarray(warmup[name].sum("draw"))
    return None


def stat_attribute(trace: xr.DataTree, name: str, default: float) -> float:
    """Return a number among the attributes of ``sample_stats``, or `default`."""
    return float(group(trace, "sample_stats").attrs.get(name, default))


def split_population(trace: xr.DataTree) -> xr.Dataset:
    """Return the posterior draws of a population sampler with every member as a separate chain.

    Parameters
    ----------
    trace
        A run with ``AdaptiveDirection``: draws t and t + H of a chain belong to the same of the H members.

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
