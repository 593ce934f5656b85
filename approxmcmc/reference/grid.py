"""Compute exact gold standards of one or two parameters by quadrature on a grid."""

from collections.abc import Callable
from typing import Any

import arviz_base as az
import numpy as np
import xarray as xr

from approxmcmc.contracts import Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import GoldStandardError, InvalidInputError
from approxmcmc.reference.summary import MOMENTS

DEFAULT_POINTS = {1: 4001, 2: 401}
MAX_EDGE_MASS = 1e-8
MAX_QUADRATURE_ERROR = 1e-4


@naming_the_arguments
def grid_reference(
    log_density: Callable[[np.ndarray], Any],
    variables: Variables,
    bounds: Any,
    *,
    n_points: int | None = None,
    chains: int = 4,
    draws: int = 1000,
    random_seed: int = 0,
    vectorized: bool = False,
) -> xr.DataTree:
    """Return a gold standard of one or two parameters without Monte Carlo error in its moments.

    Parameters
    ----------
    log_density
        Log posterior density of a flat theta, up to a constant; -inf outside the support.
    variables
        Names and shapes of the parameters that theta holds.
    bounds
        Array (dim, 2): the lowest and highest value of each parameter on the grid.
    n_points
        Odd number of points per axis; None = 4001 for one parameter, 401 for two.
    chains, draws
        Number of chains, and of draws in each, that are drawn from the grid.
    random_seed
        Seed of the one uniform number and the shuffling behind the draws.
    vectorized
        Whether `log_density` takes all points at once, shape (n, dim), and returns an array of n values.

    Returns
    -------
    xarray.DataTree
        `posterior`: draws of grid points by systematic resampling, in random order; the count of each point differs
        from its expectation by less than 1. `reference_moments`: mean and sd over the grid, and mcse, which is 0.

    Raises
    ------
    InvalidInputError
        If there are more than two parameters, the bounds are not increasing and finite, or `n_points` is even or below
        5.
    GoldStandardError
        If the log density is NaN somewhere, the bounds cut off mass, or the grid is too coarse: every second point
        gives a mean or sd that differs by more than 1e-4 sd.

    Notes
    -----
    Guarantee: the mean and sd are those of E f = sum_g p(g) f(g) / sum_g p(g) over the grid points g. This is the
    trapezoid rule, because p vanishes at the bounds; for smooth p its error falls faster than any power of the spacing.

    Examples
    --------
    >>> normal = grid_reference(lambda theta: -0.5 * float(theta @ theta), Variables({"x": ()}), [(-8, 8)])
    >>> round(normal["reference_moments"]["x"].sel(moment="sd").item(), 9)
    1.0
    """
    bounds = np.asarray(bounds, dtype=np.float64)
    dim = variables.size
    shaped = dim in DEFAULT_POINTS and bounds.shape == (dim, 2)
    if not shaped or not (np.diff(bounds) > 0).all() or np.isinf(bounds).any():
        raise InvalidInputError(
            f"grid_reference needs one or two parameters and finite increasing bounds of shape (dim, 2); found {dim} "
            f"parameters and bounds {bounds.tolist()}. Use reference_posterior for more parameters."
        )
    n_points = DEFAULT_POINTS[dim] if n_points is None else n_points
    if n_points < 5 or n_points % 2 == 0:
        raise InvalidInputError(f"grid_reference: n_points must be odd and at least 5, found {n_points!r}.")
    axes = [np.linspace(low, high, n_points) for low, high in bounds]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    weights = _weights(log_density, grid, vectorized)
    mean, sd = _moments(grid, weights)
    _check_grid(grid, weights, mean, sd)

    rng = np.random.default_rng(random_seed)
    cumulative = np.cumsum(weights)
    positions = (np.arange(chains * draws) + rng.random()) / (chains * draws)
    chosen = rng.permutation(np.searchsorted(cumulative, positions * cumulative[-1]))
    samples = variables.unpack(grid.reshape(-1, dim)[chosen].reshape(chains, draws, dim))
    moments = variables.unpack(np.stack([mean, sd, np.zeros(dim)]))
    dims: dict[Any, Any] = {name: list(variables.dims.get(name, ())) for name in variables.shapes}
    command = f"grid_reference(log_density, variables, {bounds.tolist()}, n_points={n_points}, chains={chains}, "
    attrs = {"method": "grid", "command": f"{command}draws={draws}, random_seed={random_seed})", "seed": random_seed}
    posterior = az.dict_to_dataset(samples, coords=dict(variables.coords), dims=dims)
    described = az.dict_to_dataset(
        moments,
        coords={**variables.coords, "moment": list(MOMENTS)},
        dims={name: ["moment", *axes_of] for name, axes_of in dims.items()},
        sample_dims=[],
    )
    return xr.DataTree.from_dict(
        {"posterior": posterior.assign_attrs(attrs), "reference_moments": described.assign_attrs(attrs)}
    )


def _weights(log_density: Callable[[np.ndarray], Any], grid: np.ndarray, vectorized: bool) -> np.ndarray:
    """Return the density at every grid point, divided by the largest; shape of the grid without its last axis."""
    points = grid.reshape(-1, grid.shape[-1])
    values = log_density(points) if vectorized else [log_density(theta) for theta in points]
    log_values = np.array(values, dtype=np.float64).reshape(grid.shape[:-1])
    largest = log_values.max()
    if not np.isfinite(largest):
        where = f"theta = {points[int(log_values.argmax())].tolist()}" if largest != -np.inf else "every point"
        raise GoldStandardError(
            "grid_reference needs a log density that is a number on the whole grid and above -inf somewhere; it is "
            f"{largest} at {where}. Correct the density or the bounds."
        )
    return np.exp(log_values - largest)


def _moments(grid: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability = (weights / weights.sum())[..., np.newaxis]
    axes = tuple(range(weights.ndim))
    mean = (probability * grid).sum(axis=axes)
    return mean, np.sqrt((probability * (grid - mean) ** 2).sum(axis=axes))


def _check_grid(grid: np.ndarray, weights: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    inside = weights[(slice(1, -1),) * weights.ndim].sum() / weights.sum()
    every_second = (slice(None, None, 2),) * weights.ndim
    coarse_mean, coarse_sd = _moments(grid[every_second], weights[every_second])
    error = max(np.abs(coarse_mean - mean).max() / sd.min(), np.abs(coarse_sd / sd - 1.0).max())
    if 1.0 - inside > MAX_EDGE_MASS:
        raise GoldStandardError(
            f"grid_reference: the outermost points hold {1.0 - inside:.2g} of the mass, at most {MAX_EDGE_MASS:g} may "
            "be there. Widen the bounds, or transform a parameter whose density does not vanish where its support ends."
        )
    if not error <= MAX_QUADRATURE_ERROR:
        raise GoldStandardError(
            f"grid_reference: with every second point only, a mean or sd changes by {error:.2g} sd; at most "
            f"{MAX_QUADRATURE_ERROR:g} is allowed. Raise n_points or narrow the bounds."
        )
