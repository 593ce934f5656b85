"""The transition matrix of our samplers on finite or gridded state spaces.

On a grid the proposal's density is evaluated at all pairs of points and scaled to a largest row sum of 1; what a row
lacks is the mass that a proposal sends off the grid, and counts as rejected. A proposal to the point itself changes
nothing and joins the rejections. The grid's chain is a chain of its own, with the target restricted to the grid as its
exact stationary law: what is computed is exact for it, and says of the continuous chain as much as the grid is fine.

A binary or other discrete target needs no grid: its states are enumerated, the last site changing fastest.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.bounds.acceptance_law import (
    acceptance_probability,
    best_method,
    gaussian_probability,
    refuse_impossible_terms,
)
from approxmcmc.bounds.exchange import exchange_acceptance, lattice_error, refuse_inexact_draws
from approxmcmc.bounds.finite import LARGEST_MATRIX
from approxmcmc.bounds.statements import HEURISTIC, ONE_SIDED, RIGOROUS
from approxmcmc.bounds.transition_gibbs import gibbs_matrix
from approxmcmc.contracts import AcceptanceTest, DiscreteTarget, DoublyIntractableTarget
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import RandomWalk, SingleSite
from approxmcmc.samplers import Exchange, Gibbs, MetropolisHastings

if TYPE_CHECKING:
    import xarray as xr

ENTRIES_AT_ONCE = 20_000_000  # of (pairs x terms): 160 MB


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
        For Gibbs: the kernel of this site alone instead of a sweep.

    Returns
    -------
    xarray.DataArray
        Dims ``state``, ``next_state``; rows sum to 1. The coordinate `decision` holds the probability of the decision
        that leads from one state to the other (acceptance of the proposal; for Gibbs the conditional of the site that
        changes), NaN where there is none: :func:`exact` reads Delta_max from it. Attributes: `method`, `n_decisions`
        per step, and `label`, how the matrix describes the sampler: "rigorous" for closed forms and enumeration;
        "heuristic" for the Gaussian regime; "one-sided" for `Exchange` with three or more draws (method "lattice"),
        whose acceptance is too low by at most `acceptance_error`: delta, and every bound that grows with it, hold for
        the sampler, its stationary law and what is averaged under it (`b4`) are approximate.

    Raises
    ------
    InvalidInputError
        When the grid has the wrong shape, or there are more than 2048 states: a bound of this kind is not available.
    IncompatibleError
        When the law of the proposal or test is not known.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> T = amc.bounds.transition_matrix(amc.targets.alarm_network(), amc.Gibbs())
    >>> T.sizes["state"], T.attrs["n_decisions"]
    (32, 5)
    """
    points = grid_of_points(target, grid)
    if isinstance(sampler, Gibbs):
        return _labelled(*gibbs_matrix(target, sampler, points, method, site))
    if site is not None:
        raise InvalidInputError(f"transition_matrix: `site` is for Gibbs, found {type(sampler).__name__}.")
    if not isinstance(sampler, (MetropolisHastings, Exchange)):
        raise IncompatibleError(
            f"transition_matrix knows MetropolisHastings, Gibbs and Exchange, found {type(sampler).__name__}"
        )
    proposal = proposal_matrix(sampler.proposal, points, target)
    error, wanted = 0.0, proposal > 0.0
    if isinstance(target, DoublyIntractableTarget):
        n_auxiliary = _auxiliary_draws(target, sampler)
        acceptance, used = exchange_acceptance(target, n_auxiliary, points, wanted)
        error = lattice_error(n_auxiliary)
    elif isinstance(sampler, MetropolisHastings):
        acceptance, used = _acceptance(target, sampler.test, points, wanted, method)
    else:
        raise IncompatibleError(f"transition_matrix: Exchange needs a doubly intractable target, found {target!r}")
    matrix = proposal * acceptance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return _labelled(matrix, np.where(wanted, acceptance, np.nan), used, 1, error=error)


def _auxiliary_draws(target: Any, sampler: Any) -> float:
    """Return N of an exchange sampler, inf for Metropolis-Hastings on its target."""
    if isinstance(sampler, Exchange):
        refuse_inexact_draws(sampler)
        return float(sampler.n_auxiliary)
    if sampler.test != ExactTest():
        raise IncompatibleError(
            f"transition_matrix: on {target!r} Metropolis-Hastings has the exact ratio, one datum and nothing to "
            f"subsample; use ExactTest(), or Exchange, found {sampler.test!r}"
        )
    return math.inf


def proposal_matrix(proposal: Any, points: np.ndarray, target: Any) -> np.ndarray:
    """Return the probability to propose each state from each, zero on the diagonal; rows sum to at most 1."""
    if isinstance(proposal, SingleSite):
        different = points[:, None, :] != points[None, :, :]
        chance = different / (target.n_states - 1.0) / points.shape[1]
        return np.where(different.sum(axis=2) == 1, chance.sum(axis=2), 0.0)
    if not isinstance(proposal, RandomWalk):
        raise IncompatibleError(
            f"transition_matrix: the proposal must be RandomWalk on a grid or SingleSite on a discrete target, found "
            f"{proposal!r}"
        )
    if isinstance(target, DiscreteTarget):
        raise IncompatibleError(
            "transition_matrix: RandomWalk proposes real numbers, the target has states; use SingleSite"
        )
    if proposal.target_acceptance is not None:
        raise IncompatibleError("transition_matrix: a kernel that still adapts has no matrix; fix the scale")
    steps = points[None, :, :] - points[:, None, :]
    precision = np.linalg.inv(walk_covariance(proposal, target))
    chance = np.exp(-0.5 * np.einsum("ijk,ijk->ij", steps, steps @ precision))
    chance /= chance.sum(axis=1).max()
    np.fill_diagonal(chance, 0.0)
    return np.asarray(chance)


def walk_covariance(proposal: RandomWalk, target: Any) -> np.ndarray:
    """Return the covariance of a random walk's steps, shape (dim, dim)."""
    spread: np.ndarray = (
        proposal.build_proposal(target).make_state().spread
    )  # standard deviations, or U with U' U = Sigma
    return np.diag(spread**2) if spread.ndim == 1 else spread.T @ spread


def grid_of_points(target: Any, grid: Any) -> np.ndarray:
    """Return the points of a grid, shape (n, dim); all states of a discrete target where there is none."""
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


def _acceptance(
    target: Any, test: AcceptanceTest, points: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    """Return the acceptance probability of every pair that is proposed, and the method."""
    compiled = target.compile()
    terms = np.array([full_terms(compiled.log_terms, point, compiled.data, compiled.n_obs) for point in points])
    prior = np.array([compiled.log_prior(point) for point in points])
    n_obs = compiled.n_obs
    possible = np.isfinite(prior) & np.isfinite(terms).all(axis=1)
    method = best_method(test, n_obs, method)
    if method != "closed form":
        refuse_impossible_terms(test, terms[np.isfinite(prior)])
    if method == "enumerate":
        return _pair_by_pair(test, terms, prior, possible, wanted, method)
    if not test.uses_ratio:
        return np.ones(wanted.shape), method
    # All pairs at once: sums and scales of differences follow from sums and inner products of the terms.
    terms, pairs = terms[possible] / test.temperature, np.ix_(possible, possible)
    log_density = prior[possible] + terms.sum(axis=1)
    log_ratio = log_density[None, :] - log_density[:, None]
    tau = _scales(terms) if method == "gaussian" else np.zeros(log_ratio.shape)
    acceptance, inside = np.zeros(log_ratio.shape), wanted[pairs]
    acceptance[inside] = gaussian_probability(test, log_ratio[inside], tau[inside], n_obs, test.rule)
    return _of_all_states(acceptance, possible), method


def _pair_by_pair(
    test: AcceptanceTest, terms: np.ndarray, prior: np.ndarray, possible: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    terms, prior = terms[possible], prior[possible]
    acceptance = np.zeros((len(prior), len(prior)))
    rows, columns = np.nonzero(wanted[np.ix_(possible, possible)])
    used, at_once = "enumerate", max(1, ENTRIES_AT_ONCE // terms.shape[1])
    for start in range(0, rows.size, at_once):
        i, j = rows[start : start + at_once], columns[start : start + at_once]
        acceptance[i, j], used = acceptance_probability(test, terms[j] - terms[i], prior[j] - prior[i], method=method)
    return _of_all_states(acceptance, possible), used


def _of_all_states(acceptance: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Add the states where no chain can be: from there everything possible is accepted, and they are accepted never."""
    found = np.zeros((len(possible), len(possible)))
    found[:, possible] = 1.0
    found[np.ix_(possible, possible)] = acceptance
    return found


def _scales(terms: np.ndarray) -> np.ndarray:
    """Return tau = sqrt(N) S_l of every pair, from inner products of the centred terms."""
    n_obs = terms.shape[1]
    centred = terms - terms.mean(axis=0)  # what all states share drops out of every difference
    centred -= centred.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    squares = np.diag(products)
    variance = np.maximum(squares[:, None] + squares[None, :] - 2.0 * products, 0.0) / (n_obs - 1)
    np.fill_diagonal(variance, 0.0)
    return np.asarray(np.sqrt(n_obs * variance))


def _labelled(
    matrix: np.ndarray, decision: np.ndarray, used: str, n_decisions: int, *, error: float = 0.0
) -> "xr.DataArray":
    import xarray as xr

    pair = ("state", "next_state")
    return xr.DataArray(
        matrix,
        dims=pair,
        coords={"decision": (pair, decision)},
        name="transition",
        attrs={
            "long_name": "transition probability",
            "units": "1",
            "method": used,
            "n_decisions": n_decisions,
            "label": {"gaussian": HEURISTIC, "lattice": ONE_SIDED}.get(used, RIGOROUS),
            "acceptance_error": math.nan if used == "gaussian" else error,
        },
    )
