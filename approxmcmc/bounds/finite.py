"""Finite Markov chains: transition matrices, stationary distributions, and how fast a chain forgets its start.

The distance of distributions is total variation, d_v(P, Q) = 1/2 sum |P - Q|, from 0 to 1. A transition matrix T has
one row per state and contracts by

    eta_k = max over x, y of d_v(T^k(x, .), T^k(y, .))            (Dobrushin 1956),   eta_{j + k} <= eta_j eta_k.

The transition matrix of a sampler comes with a label of its validity. The chain on a grid is a different chain, with
the target restricted to the grid as its exact stationary distribution. Results are exact for the chain on the grid, and
approximate for the continuous chain; the finer the grid, the smaller the error.

A binary or other discrete target needs no grid: its states are enumerated, the last site changing fastest.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts import DiscreteTarget, TransitionMatrix
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

RIGOROUS = "rigorous"
HEURISTIC = "heuristic"
NOT_APPLICABLE = "not applicable"
VACUOUS = "vacuous"
GIVEN_PREMISES = "given premises"  # a theorem whose premises are named, and were checked but not proven
LABELS = (RIGOROUS, GIVEN_PREMISES, HEURISTIC, NOT_APPLICABLE, VACUOUS)
# Label: the matrix errs at least as much per step as the sampler, and has another stationary distribution.
ONE_SIDED = "one-sided"
ROW_TOLERANCE = 1e-9  # error allowed in a row's sum, for the rounding of thousands of products
LARGEST_MATRIX = 2048
BLOCK = 64  # states eliminated together, by one product of matrices
NEGLIGIBLE = 1e-13  # contraction below which further powers add nothing to a sum


def total_variation(p: Any, q: Any) -> float:
    """Return d_v(P, Q) = 1/2 sum |P - Q| of two probability vectors."""
    return 0.5 * float(np.abs(np.asarray(p) - np.asarray(q)).sum())


def row_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the total variation distance of corresponding rows, shape (n,); `b` may be one row."""
    return np.asarray(0.5 * np.abs(a - b).sum(axis=1))


def checked_matrix(values: Any, name: str) -> np.ndarray:
    """Return a transition matrix as float64; raise if it is invalid.

    Raises
    ------
    InvalidInputError
        When it is not square, holds NaN or negative numbers, a row does not sum to 1, or it has more than one
        stationary distribution: its states contain several closed sets that a chain never leaves.
    """
    matrix = np.array(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise InvalidInputError(f"{name} must be a square matrix, one row per state; found shape {matrix.shape}.")
    if not np.isfinite(matrix).all() or matrix.min() < -ROW_TOLERANCE:
        row = int(np.argmax((~np.isfinite(matrix) | (matrix < -ROW_TOLERANCE)).any(axis=1)))
        raise InvalidInputError(
            f"{name} must hold probabilities; row {row} holds NaN or a negative number. A matrix of densities needs to "
            "be normalised first."
        )
    sums = matrix.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[worst] - 1.0) > ROW_TOLERANCE:
        raise InvalidInputError(
            f"{name} must be stochastic: row {worst} sums to {sums[worst]:.12g}, not 1. Put the mass of rejected "
            "proposals on the diagonal."
        )
    closed = closed_classes(matrix)
    if len(closed) > 1:
        shown = ", ".join(str(states[:5].tolist()) for states in closed[:3])
        raise InvalidInputError(
            f"{name} is reducible: {len(closed)} sets of states are never left (they begin with {shown}), so there is "
            "no unique stationary distribution. Compare the chains on one of these sets."
        )
    matrix = np.maximum(matrix, 0.0)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def closed_classes(matrix: np.ndarray) -> list[np.ndarray]:
    """Return the sets of states that communicate and are never left, each an array of indices of states."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(matrix > 0.0), directed=True, connection="strong")
    rows, columns = np.nonzero(matrix)
    left = set(label[rows[label[rows] != label[columns]]].tolist())
    return [np.flatnonzero(label == k) for k in range(count) if k not in left]


def stationary_distribution(matrix: np.ndarray) -> np.ndarray:
    """Return the probability vector p with p T = p; shape (n,).

    States are eliminated one by one; what remains is the chain observed on the other states (Grassmann, Taksar and
    Heyman 1985). The algorithm subtracts nothing, so every p_i is right to n roundings, however rarely the chain moves
    between modes; the error of a linear solve is 5e-4 if the chain changes modes with probability e^-25.

    Raises
    ------
    InvalidInputError
        When the probability of a path between states underflows.
    """
    [closed] = closed_classes(matrix)  # the other states are transient
    chain = matrix[np.ix_(closed, closed)]
    for stop in range(len(closed), 1, -BLOCK):
        start = max(0, stop - BLOCK)
        for k in range(stop - 1, max(start, 1) - 1, -1):
            leaving = chain[k, :k].sum()
            if not leaving > 0.0:
                raise InvalidInputError(f"the probability of leaving state {closed[k]} to earlier ones underflows.")
            chain[:k, k] /= leaving
            chain[start:k, :k] += chain[start:k, k, None] * chain[k, :k]
            chain[:start, start:k] += chain[:start, k, None] * chain[k, start:k]
        # Now the chain on the states before the block.
        chain[:start, :start] += chain[:start, start:stop] @ chain[start:stop, :start]
    probabilities = np.ones(len(closed))
    for k in range(1, len(closed)):
        probabilities[k] = probabilities[:k] @ chain[:k, k]
        probabilities[: k + 1] /= probabilities[: k + 1].sum()
    stationary = np.zeros(len(matrix))
    stationary[closed] = probabilities
    return stationary


def contraction(matrix: np.ndarray) -> float:
    """Return the Dobrushin coefficient max_{x,y} d_v(T(x, .), T(y, .)); 1 if nothing is forgotten."""
    from scipy.spatial.distance import pdist

    return 0.5 * float(pdist(matrix, "cityblock").max()) if len(matrix) > 1 else 0.0


def contractions(matrix: np.ndarray, stationary: np.ndarray, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return eta_k and sup_x d_v(T^k(x, .), S_0) for k = 1, 2, ..., `n_steps`; T is `matrix` and S_0 is `stationary`.

    Both arrays end earlier if eta_k falls below `NEGLIGIBLE`.
    """
    power = np.eye(len(matrix))
    etas = []
    distances = []
    for _ in range(n_steps):
        power = power @ matrix
        etas.append(min(contraction(power), 1.0))
        distances.append(min(float(row_distances(power, stationary).max()), 1.0))
        if etas[-1] < NEGLIGIBLE:
            break
    return np.array(etas), np.array(distances)


def asymptotic_variance(matrix: np.ndarray, stationary: np.ndarray, values: np.ndarray) -> float:
    """Return lim n Var(mean of f over n steps), given the stationary distribution; f by state, shape (n,)."""
    centred = values - stationary @ values
    n = len(matrix)
    solution = np.linalg.solve(np.eye(n) - matrix + np.outer(np.ones(n), stationary), centred)
    return float((stationary * centred * (2.0 * solution - centred)).sum())


if TYPE_CHECKING:
    import xarray as xr


@naming_the_arguments
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
        and `MetropolisHastings` with `ExactTest` on the same target, the limit of `Exchange` for many draws.
    grid
        Points, shape (n,) for one parameter or (n, dim); None enumerates a discrete target. At most 2048 states.
    method
        How to compute the acceptance probability of approximate tests: "enumerate" (exact, tiny N), "gaussian" (the
        recursion for sequential tests, the smoothed correction for the Barker test), or "auto".
    site
        For Gibbs: index of a site; the matrix then updates this site only, instead of a sweep.

    Returns
    -------
    xarray.DataArray
        Dims ``state``, ``next_state``; rows sum to 1. The coordinate `decision` holds the probability of the decision
        that leads from one state to the other (acceptance of the proposal; for Gibbs the conditional of the site that
        changes), NaN if no decision does: :func:`exact` reads Delta_max from it. Attributes: `method`, `n_decisions`
        per step, and `label`, which says how well the matrix describes the sampler: "rigorous" for closed forms and
        enumeration; "heuristic" for the Gaussian regime; "one-sided" for `Exchange` with three or more draws (method
        "lattice"). A one-sided acceptance probability is too low by at most `acceptance_error`: delta, and every bound
        that grows with it, hold for the sampler; the stationary distribution and averages over it (`b4`) are
        approximate.

    Raises
    ------
    InvalidInputError
        When the grid has the wrong shape, or there are more than 2048 states.
    IncompatibleError
        When the probabilities of the proposal or of the test cannot be computed.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> T = amc.bounds.transition_matrix(amc.targets.alarm_network(), amc.Gibbs())
    >>> T.sizes["state"], T.attrs["n_decisions"]
    (32, 5)
    """
    import xarray as xr

    matrix: TransitionMatrix = sampler.transition_matrix(target, grid_of_points(target, grid), method=method, site=site)
    pair = ("state", "next_state")
    return xr.DataArray(
        matrix.probability,
        dims=pair,
        coords={"decision": (pair, matrix.decision)},
        name="transition",
        attrs={
            "long_name": "transition probability",
            "units": "1",
            "method": matrix.method,
            "n_decisions": matrix.n_decisions,
            "label": {"gaussian": HEURISTIC, "lattice": ONE_SIDED}.get(matrix.method, RIGOROUS),
            "acceptance_error": math.nan if matrix.method == "gaussian" else matrix.error,
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
                "by contraction coefficients are not available. estimate_delta and couplings need no matrix."
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
