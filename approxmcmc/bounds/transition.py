"""The transition matrix of a sampler on finite or gridded state spaces, with a label of its validity.

The chain on a grid is a different chain, with the target restricted to the grid as its exact stationary distribution:
results are exact for it, and approximate the continuous chain as far as the grid is fine.

A binary or other discrete target needs no grid: its states are enumerated, the last site changing fastest.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import LARGEST_MATRIX
from approxmcmc.bounds.statements import HEURISTIC, ONE_SIDED, RIGOROUS
from approxmcmc.contracts import DiscreteTarget, TransitionMatrix
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


def transition_matrix(
    target: Any, sampler: Any, grid: Any = None, *, method: str = "auto", site: int | None = None
) -> "xr.DataArray":
    """Return the transition matrix of a sampler on the states of a discrete target, or on a grid.

    Parameters
    ----------
    target
        A target of tall data, a discrete target, or a doubly intractable one.
    sampler
        `MetropolisHastings` with `RandomWalk` (grid) or `SingleSite` (discrete) and `ExactTest`, `SequentialTTest`,
        `MinibatchBarker` or `AlwaysAccept`; `Gibbs` with these tests, one sweep; `Exchange` with exact auxiliary draws,
        and `MetropolisHastings` with `ExactTest` on the same target, which is its limit for many draws.
    grid
        Points, shape (n,) for one parameter or (n, dim); None enumerates a discrete target. At most 2048 states.
    method
        Acceptance of approximate tests: "enumerate" (exact, tiny N), "gaussian" (the recursion for sequential tests,
        the smoothed correction for Barker's), or "auto".
    site
        For Gibbs: the kernel of this site only, instead of a sweep.

    Returns
    -------
    xarray.DataArray
        Dims ``state``, ``next_state``; rows sum to 1. The coordinate `decision` holds the probability of the decision
        that leads from one state to the other (acceptance of the proposal; for Gibbs the conditional of the site that
        changes), NaN if no decision does: :func:`exact` reads Delta_max from it. Attributes: `method`, `n_decisions`
        per step, and `label`, how the matrix describes the sampler: "rigorous" for closed forms and enumeration;
        "heuristic" for the Gaussian regime; "one-sided" for `Exchange` with three or more draws (method "lattice"),
        whose acceptance is too low by at most `acceptance_error`: delta, and every bound that grows with it, hold for
        the sampler, its stationary law and what is averaged under it (`b4`) are approximate.

    Raises
    ------
    InvalidInputError
        When the grid has the wrong shape, or there are more than 2048 states: a bound of this kind is not available.
    IncompatibleError
        When the law of the proposal or test is unknown.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> T = amc.bounds.transition_matrix(amc.targets.alarm_network(), amc.Gibbs())
    >>> T.sizes["state"], T.attrs["n_decisions"]
    (32, 5)
    """
    import xarray as xr

    found: TransitionMatrix = sampler.transition_matrix(target, grid_of_points(target, grid), method=method, site=site)
    pair = ("state", "next_state")
    return xr.DataArray(
        found.probability,
        dims=pair,
        coords={"decision": (pair, found.decision)},
        name="transition",
        attrs={
            "long_name": "transition probability",
            "units": "1",
            "method": found.method,
            "n_decisions": found.n_decisions,
            "label": {"gaussian": HEURISTIC, "lattice": ONE_SIDED}.get(found.method, RIGOROUS),
            "acceptance_error": math.nan if found.method == "gaussian" else found.error,
        },
    )


def grid_of_points(target: Any, grid: Any) -> np.ndarray:
    """Return the points of a grid, shape (n, dim); all states of a discrete target if no grid is given."""
    if grid is None:
        if not isinstance(target, DiscreteTarget):
            raise InvalidInputError(
                f"transition_matrix needs a grid of points for {target!r}, whose states are real numbers."
            )
        size = math.prod(target.n_states.tolist())
        if size > LARGEST_MATRIX:
            raise InvalidInputError(
                f"transition_matrix: {target!r} has {size:.3g} states, a matrix holds at most {LARGEST_MATRIX}: bounds "
                "from its contraction coefficients are not available. estimate_delta and couplings need no matrix."
            )
        return np.array(list(itertools.product(*map(range, target.n_states.tolist()))), dtype=np.float64)
    dim = target.variables.size
    points = np.asarray(grid, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 and dim == 1 else points
    if points.ndim != 2 or points.shape[1] != dim or not 2 <= len(points) <= LARGEST_MATRIX:
        raise InvalidInputError(
            f"transition_matrix: the grid must have shape (n, {dim}) with 2 to {LARGEST_MATRIX} points, found "
            f"{points.shape}."
        )
    return points
