"""The functions of the parameters whose bias is estimated: their values at draws and along coupled chains."""

import abc
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.contracts import DiscreteTarget, Target
from approxmcmc.diagnostics.estimands import Estimand, evaluate, resolve
from approxmcmc.diagnostics.records import group
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.output.reading import adapted_by_chain, flat_draws, shuffled_by

LOG_DENSITY = "lp"
FEWEST = 20  # smallest number of draws, and of audits


class Draws(NamedTuple):
    """The draws of a trace as vectors `theta` (chain, draw, dim); `thin` steps per draw, after `tune` tuning steps.

    `adapted` holds the tuned values of each chain; `shuffled_by` is the random stream that shuffled the data, or None.
    """

    theta: np.ndarray
    thin: int
    tune: int
    adapted: list[Mapping[str, float]]
    shuffled_by: np.random.Generator | None

    @property
    def flat(self) -> np.ndarray:
        """All draws, chain by chain; shape (chains * draws, dim)."""
        return self.theta.reshape(-1, self.theta.shape[2])

    def place(self, k: int) -> tuple[int, int]:
        """Return the index of the chain of draw k of `flat`, and after how many steps of the chain it was recorded."""
        chain, draw = divmod(k, self.theta.shape[1])
        return chain, self.tune + (draw + 1) * self.thin


def draws_of(trace: xr.DataTree, target: Target) -> Draws:
    """Return the draws of a trace, with their coordinates in the order of the target's parameters.

    Raises
    ------
    IncompatibleError
        When the draws carry weights.
    InvalidInputError
        When a variable is missing or has another shape, or the draws are too few, not finite, or all the same.
    """
    theta = flat_draws(trace, target)
    if "sample_stats" in trace.children and {"weight", "log_weight"} & set(trace["sample_stats"].data_vars):
        raise IncompatibleError("bias: the draws of the trace carry weights; resample them first")
    flat = theta.reshape(-1, theta.shape[2])
    if len(flat) < FEWEST:
        raise InvalidInputError(f"bias: the trace has {len(flat)} draws, but must have at least {FEWEST}")
    if (flat == flat[0]).all():
        raise InvalidInputError(f"bias: all {len(flat)} draws are the same: the chain never moved")
    attrs = trace["posterior"].attrs
    steps = int(attrs.get("thin", 1)), int(attrs.get("tuning_steps", 0))
    return Draws(np.ascontiguousarray(theta), *steps, adapted_by_chain(trace), shuffled_by(trace))


class Quantities(abc.ABC):
    """Estimands: their labels, and ``measure(theta, log_density) -> values`` of shape (n, n_estimands)."""

    labels: list[str]
    with_density: bool = False

    @abc.abstractmethod
    def __call__(self, theta: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return the values at states (n, dim) with these log densities (n,)."""


class Moments(Quantities):
    """The default estimands: all parameters, their squared distances from the means of the draws, and the log density.

    A discrete target has no squares. Without `with_density` the log density is left out.
    """

    def __init__(self, target: Target, draws: Draws, with_density: bool) -> None:
        self.center = draws.flat.mean(axis=0)
        self.squares = not isinstance(target, DiscreteTarget)
        self.with_density = with_density
        names = target.variables.labels()
        self.labels = [
            *names,
            *([f"({name} - mean)^2" for name in names] if self.squares else []),
            *([LOG_DENSITY] if with_density else []),
        ]

    def __call__(self, theta: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return parameters, squares and log densities of the states as columns; shape (n, n_estimands)."""
        squares = [(theta - self.center) ** 2] if self.squares else []
        return np.hstack([theta, *squares, *([log_density[:, None]] if self.with_density else [])])


class Functions(Quantities):
    """The estimands given by the user: functions of the posterior Dataset, as in `risk`."""

    def __init__(self, estimands: Mapping[str, Estimand], trace: xr.DataTree, target: Target) -> None:
        self.functions = resolve(estimands, trace)
        self.variables = target.variables
        self.template = group(trace, "posterior").isel(chain=[0], draw=[0])
        first = {name: evaluate(name, function, trace) for name, function in self.functions.items()}
        self.dims = {name: value.layout.dims for name, value in first.items()}
        self.labels = [label for value in first.values() for label in value.layout.labels]

    def __call__(self, theta: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return the functions' values at the states `theta` (n, dim), shape (n, n_estimands).

        The functions get a Dataset in which the states are the draws of a single chain. `log_density` is not used.
        """
        arrays = {
            name: (self.template[name].dims, values) for name, values in self.variables.unpack(theta[None]).items()
        }
        extra = {
            name: coord for name, coord in self.template.coords.items() if not {"chain", "draw"} & {name, *coord.dims}
        }
        tree = xr.DataTree.from_dict({"posterior": xr.Dataset(arrays, coords=extra)})
        return np.hstack(
            [evaluate(name, function, tree, self.dims[name]).values[0] for name, function in self.functions.items()]
        )


def measure_of(
    estimands: Mapping[str, Estimand] | None, trace: xr.DataTree, target: Target, draws: Draws, with_density: bool
) -> Quantities:
    """Return the estimands: the user's functions, or for None those of `Moments`."""
    return Moments(target, draws, with_density) if estimands is None else Functions(estimands, trace, target)


class AtDraws(NamedTuple):
    """Mean of each estimand over the draws, standard error of this mean, and standard deviation; (n_estimands,)."""

    mean: np.ndarray
    error: np.ndarray
    sd: np.ndarray


def at_draws(measure: Quantities, draws: Draws, audited: np.ndarray, log_density: np.ndarray) -> AtDraws:
    """Return the moments over all draws; for the log density, over the `audited` draws at which it is known."""
    chains, n_draws, _ = draws.theta.shape
    if not measure.with_density:
        values = measure(draws.flat, np.empty(0)).reshape(chains, n_draws, -1)
        return _moments(values)
    every = _moments(measure(draws.flat, np.zeros(len(draws.flat))).reshape(chains, n_draws, -1))
    is_evaluated = np.isfinite(log_density)  # not evaluated for proposals outside the support
    moments = _moments(measure(draws.flat[audited][is_evaluated], log_density[is_evaluated])[None])
    return AtDraws(*(np.append(whole[:-1], part[-1]) for whole, part in zip(every, moments, strict=True)))


def _moments(values: np.ndarray) -> AtDraws:
    """Return mean, standard error by batch means, and standard deviation of values (chain, draw, estimand)."""
    _, n_draws, k = values.shape
    size = max(1, math.isqrt(n_draws))
    batches = values[:, : n_draws // size * size].reshape(-1, size, k).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches)) if len(batches) > 1 else np.full(k, np.nan)
    flat = values.reshape(-1, k)
    return AtDraws(flat.mean(axis=0), error, flat.std(axis=0))
