"""Summaries of estimands over a set of draws: moments, MCSE, ESS and R-hat."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import arviz_stats as az
import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset

from approxmcmc.errors import InvalidInputError

Estimands = Mapping[str, Callable[[xr.Dataset], xr.DataArray]]

MOMENTS = ("mean", "sd", "mcse")
TAIL_PROBABILITIES = (0.05, 0.95)


@dataclasses.dataclass(frozen=True)
class Summary:
    """The summary of every coordinate of one estimand.

    Attributes
    ----------
    labels
        A name for each coordinate in C order, ``"beta[x1]"``; only the estimand's name if it is a scalar.
    sizes, coords
        Axes of the estimand beyond (chain, draw) with their lengths, and the labels of the axes that have labels.
    mean, sd, mcse
        Mean, standard deviation (ddof 1, all chains together), and Monte Carlo standard error of the mean.
    ess_bulk, ess_tail
        Rank-normalised effective sample size, and the smaller effective sample size of the 5 % and 95 % quantiles.
    r_hat
        Rank-normalised split R-hat, the larger of plain and folded; NaN if any chain did not move.
    """

    labels: tuple[str, ...]
    sizes: Mapping[str, int]
    coords: Mapping[str, np.ndarray]
    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    r_hat: np.ndarray

    @property
    def relative_mcse(self) -> np.ndarray:
        """Return the MCSE of the mean in units of the posterior sd; NaN for a constant."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.sd > 0, self.mcse / self.sd, np.nan)


def estimand_values(posterior: xr.Dataset, estimands: Estimands | None) -> dict[str, xr.DataArray]:
    """Return the draws of every estimand with dims (chain, draw, ...); all variables if no estimand is given.

    Raises
    ------
    InvalidInputError
        If a function does not return a DataArray with one value, or one array, per chain and draw.
    """
    if estimands is None:
        values = {str(name): variable for name, variable in posterior.data_vars.items()}
    else:
        values = {name: function(posterior) for name, function in estimands.items()}
    draws = {dim: posterior.sizes[dim] for dim in ("chain", "draw")}
    for name, value in values.items():
        if not isinstance(value, xr.DataArray) or {dim: value.sizes.get(dim) for dim in draws} != draws:
            description = dict(value.sizes) if isinstance(value, xr.DataArray) else f"a {type(value).__name__}"
            raise InvalidInputError(
                f"estimand {name!r} must return an xarray.DataArray with one entry per draw, sizes {draws}; found "
                f"{description}. Write it as a function of the posterior Dataset that keeps the dims 'chain' and "
                "'draw'."
            )
    return {name: value.transpose("chain", "draw", ...) for name, value in values.items()}


def summarize(values: xr.DataArray) -> Summary:
    """Return the summary of the draws of one estimand, dims (chain, draw, ...).

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), sections 3 and 4: rank-normalised R-hat, bulk and tail ESS.
    """
    sizes = {str(dim): values.sizes[dim] for dim in values.dims[2:]}
    draws = values.to_numpy().astype(np.float64).reshape(*values.shape[:2], -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        statistics = {
            "ess_bulk": az.ess(draws, method="bulk"),
            "ess_tail": az.ess(draws, method="tail", prob=TAIL_PROBABILITIES),
            "mcse": az.mcse(draws, method="mean"),
            # A chain stuck at a typical value leaves R-hat near 1 and its ESS at the number of draws.
            "r_hat": np.where((np.ptp(draws, axis=1) == 0.0).any(axis=0), np.nan, az.rhat(draws)),
        }
    flat = draws.reshape(-1, draws.shape[2])
    # The sd of equal numbers must be exactly 0, whatever the rounding of the mean.
    statistics |= {"mean": flat.mean(axis=0), "sd": np.where(np.ptp(flat, axis=0) > 0, flat.std(axis=0, ddof=1), 0.0)}
    return Summary(
        labels=_labels(values, tuple(sizes)),
        sizes=sizes,
        coords={dim: values[dim].to_numpy() for dim in sizes if dim in values.coords},
        **{name: np.atleast_1d(statistic) for name, statistic in statistics.items()},
    )


def summarize_all(posterior: xr.Dataset, estimands: Estimands | None) -> dict[str, Summary]:
    """Return the summary of every estimand of a posterior by name; of all its variables if `estimands` is None."""
    values = estimand_values(posterior, estimands)
    return {name: summarize(value.rename(name)) for name, value in values.items()}


def moments_dataset(summaries: Mapping[str, Summary], attrs: Mapping[str, Any]) -> xr.Dataset:
    """Return the group ``reference_moments``: each variable with a leading dim ``moment`` (mean, sd, mcse).

    Raises
    ------
    InvalidInputError
        If two estimands give one dimension different labels or lengths.
    """
    data: dict[str, np.ndarray] = {}
    dims: dict[Any, Any] = {}
    coords: dict[Any, Any] = {"moment": np.array(MOMENTS)}
    lengths = {"moment": len(MOMENTS)}
    for name, summary in summaries.items():
        for dim, size in summary.sizes.items():
            labels = summary.coords.get(dim)
            relabelled = labels is not None and not np.array_equal(coords.setdefault(dim, labels), labels)
            if lengths.setdefault(dim, size) != size or relabelled:
                raise InvalidInputError(
                    f"estimand {name!r} has a dimension {dim!r} whose length or labels differ from those of another "
                    "variable of the same posterior; give the dimension a name of its own."
                )
        stacked = np.stack([getattr(summary, moment) for moment in MOMENTS])
        data[name] = stacked.reshape(len(MOMENTS), *summary.sizes.values())
        dims[name] = ["moment", *summary.sizes]
    dataset = dict_to_dataset(data, dims=dims, coords=coords, sample_dims=[])
    return dataset.assign_attrs(attrs)


def _labels(values: xr.DataArray, dims: tuple[str, ...]) -> tuple[str, ...]:
    if not dims:
        return (str(values.name),)
    axes = [values[dim].to_numpy() for dim in dims]
    return tuple(f"{values.name}[{', '.join(map(str, labels))}]" for labels in itertools.product(*axes))
