"""How well chains over discrete states agree with the exact answers: conditionals, joints of small cliques, influences.

Models appear here only through functions and arrays: ``conditional(states, site)`` with shape (n, n_states) returns
exact conditionals, and `fields` the polynomial of a binary log density; `targets.BinaryMRF` has both.

Reference: Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 6.3, equation 12; Dobrushin
(1968) for the influence matrix.
"""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.diagnostics.records import group, stat_attribute
from approxmcmc.errors import InvalidInputError
from approxmcmc.study.measures import seconds_of_draws


def states_of(trace: xr.DataTree) -> np.ndarray:
    """Return the states of all sites as one array, shape (chain, draw, site), sites in the order of the trace."""
    posterior = group(trace, "posterior")
    columns = [variable.transpose("chain", "draw", ...).to_numpy() for variable in posterior.data_vars.values()]
    return np.concatenate([column.reshape(*column.shape[:2], -1) for column in columns], axis=2)


def empirical_conditional(
    trace: xr.DataTree,
    conditional: Callable[[np.ndarray, int], np.ndarray],
    *,
    n_bins: int = 20,
    confidence: float = 0.95,
) -> xr.Dataset:
    """Compare how often binary sites became 1 with their exact conditional probabilities, in bins of these.

    Parameters
    ----------
    trace
        Of :class:`Gibbs` with systematic scan and ``thin=1``: draw t holds the sites before i in their new states and
        draw t - 1 those after i, so the states of the other sites at every decision are known.
    conditional
        ``conditional(states (n, D), site) -> (n, 2)``, exact.
    n_bins
        Equal bins of the exact P(x_i = 1 | rest).
    confidence
        Of the Clopper-Pearson intervals, which take decisions as independent given their contexts.

    Returns
    -------
    xarray.Dataset
        Dim ``bin``: `exact` (mean over the decisions in the bin), `empirical` with `empirical_lower` and
        `empirical_upper`, `n_decisions`. Empty bins are NaN.

    Raises
    ------
    InvalidInputError
        When the trace is thinned, has a single draw, or is not of Gibbs with a systematic scan and no proposal.
    """
    states = states_of(trace)
    if stat_attribute(trace, "thin", 1) != 1 or states.shape[1] < 2:
        raise InvalidInputError(
            "empirical_conditional needs every sweep: a trace with thin=1 and at least 2 draws; found thin="
            f"{stat_attribute(trace, 'thin', 1)}, {states.shape[1]} draws"
        )
    settings = json.loads(trace["posterior"].attrs.get("inference_library_settings", "{}"))
    if settings.get("scan", "systematic") != "systematic" or "proposal" in settings:
        raise InvalidInputError(
            "empirical_conditional needs Gibbs with systematic scan, for which the draws determine the contexts; found "
            f"the settings {settings}. realised_conditional replicates decisions at contexts of your choice"
        )
    before, after = (part.reshape(-1, states.shape[2]) for part in (states[:, :-1], states[:, 1:]))
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    totals = np.zeros((3, n_bins))  # decisions, sum of their exact probabilities, ones
    context = before.copy()
    for site in range(states.shape[2]):
        exact = conditional(context, site)[:, 1]
        places = np.clip(np.searchsorted(edges, exact, side="right") - 1, 0, n_bins - 1)
        np.add.at(totals.T, places, np.stack([np.ones_like(exact), exact, after[:, site]], axis=1))
        context[:, site] = after[:, site]
    count, exact_sum, ones = totals
    lower, upper = clopper_pearson(ones, count, confidence)
    with np.errstate(invalid="ignore"):
        data = {
            "exact": exact_sum / count,
            "empirical": ones / count,
            "empirical_lower": lower,
            "empirical_upper": upper,
        }
    empty = count == 0
    columns = {name: ("bin", np.where(empty, np.nan, values)) for name, values in data.items()}
    return xr.Dataset(columns | {"n_decisions": ("bin", count.astype(np.int64))})


def random_cliques(n_sites: int, *, n_cliques: int = 1600, size: int = 5, random_seed: int = 0) -> np.ndarray:
    """Return subsets of sites, drawn uniformly and independently; shape (n_cliques, size), ascending."""
    rng = np.random.default_rng(random_seed)
    return np.sort([rng.choice(n_sites, size, replace=False) for _ in range(n_cliques)], axis=1)


def clique_probabilities(states: Any, cliques: np.ndarray, *, weights: Any = None) -> np.ndarray:
    """Return the share of draws in each joint state of each clique of binary sites.

    Parameters
    ----------
    states
        Draws, shape (..., D), 0 or 1.
    cliques
        Shape (M, k).
    weights
        Weights of the draws, shape (...); None = equal.

    Returns
    -------
    np.ndarray
        Shape (M, 2^k); state x of a clique has the column sum_c x_c 2^(k - 1 - c).
    """
    states = np.asarray(states)
    flat = states.reshape(-1, states.shape[-1])
    share = np.ones(len(flat)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    share = share / share.sum()
    k = cliques.shape[1]
    # One byte for each state, because the lookups below are limited by memory.
    columns = np.ascontiguousarray(flat.T.astype(np.uint8))
    out = np.empty((len(cliques), 2**k))
    for m, clique in enumerate(cliques):
        number: Any = np.zeros(len(flat), dtype=np.uint8 if k <= 8 else np.int64)
        for site in clique:
            number = 2 * number + columns[site]
        out[m] = np.bincount(number, weights=share, minlength=2**k)
    return out


def clique_error(probabilities: np.ndarray, reference: np.ndarray) -> float:
    """Return (1/M) sum_m sum_s abs(P_hat_m(s) - P_m(s)), equation 12: the mean L1 distance, without the factor 1/2."""
    return float(np.abs(np.asarray(probabilities) - reference).sum(axis=-1).mean())


def clique_noise_floor(reference: np.ndarray, effective_draws: float) -> float:
    """Return the clique error that an exact sampler has by chance, (1/M) sum_m sum_s sqrt(2 p_s (1 - p_s) / (pi n)).

    Parameters
    ----------
    reference
        Joint probabilities, shape (M, 2^k).
    effective_draws
        Independent draws n that the estimate is worth.
    """
    return float(np.sqrt(2.0 * reference * (1.0 - reference) / (math.pi * effective_draws)).sum(axis=-1).mean())


def clique_errors_over_draws(
    trace: xr.DataTree, cliques: np.ndarray, reference: np.ndarray, sizes: Sequence[int]
) -> xr.Dataset:
    """Return the clique error of the first n draws of every chain, with what they cost.

    Parameters
    ----------
    trace
        A chain or several over binary sites.
    cliques, reference
        The subsets, and their joint probabilities.
    sizes
        Numbers of draws n, ascending; those beyond the end of the chains are left out.

    Returns
    -------
    xarray.Dataset
        Dims ``chain``, ``n_draws``: `error`, and the sums of `datapoints_touched` and `seconds` over the n draws.
    """
    states = states_of(trace)
    stats = group(trace, "sample_stats")
    sizes = [int(n) for n in sizes if 0 < n <= states.shape[1]]
    shape = (states.shape[0], len(sizes))
    error = np.empty(shape)
    for chain in range(shape[0]):
        done = 0
        total = np.zeros_like(reference)
        for index, n in enumerate(sizes):
            if n > done:
                total += clique_probabilities(states[chain, done:n], cliques) * (n - done)
                done = n
            error[chain, index] = clique_error(total / done, reference)
    rows = np.asarray(sizes, dtype=np.int64) - 1
    costs = {
        name: column.transpose("chain", "draw").to_numpy().cumsum(axis=1)[:, rows]
        for name, column in (("datapoints_touched", stats["datapoints_touched"]), ("seconds", seconds_of_draws(stats)))
    }
    data = {name: (("chain", "n_draws"), values) for name, values in {"error": error, **costs}.items()}
    return xr.Dataset(data, coords={"n_draws": sizes})


def clique_error_at_cost(trace: xr.DataTree, cliques: np.ndarray, reference: np.ndarray, pairs: float) -> float:
    """Return the clique error of the first chain once it has read this many `pairs`, or at its end."""
    spent = trace["sample_stats"]["datapoints_touched"].to_numpy()[0].cumsum()
    n_draws = min(int(np.searchsorted(spent, pairs)) + 1, len(spent))
    return float(clique_errors_over_draws(trace, cliques, reference, [n_draws])["error"][0, 0])


def influence_matrix(log_joint: np.ndarray) -> np.ndarray:
    """Return C_ij, the largest change of P(x_i = 1 given the rest) when j flips, by enumeration.

    Parameters
    ----------
    log_joint
        Unnormalised log density of every state, shape (2, ..., 2).

    Returns
    -------
    np.ndarray
        Shape (D, D), zero diagonal. Dobrushin's condition is a largest row sum below 1: then single-site Gibbs
        contracts at a known rate. It may fail although sweeps contract.
    """
    n = np.ndim(log_joint)
    influence = np.zeros((n, n))
    for i in range(n):
        log_odds = log_joint.take(1, axis=i) - log_joint.take(0, axis=i)
        probability = 1.0 / (1.0 + np.exp(-np.expand_dims(log_odds, i)))
        for j in range(n):
            if j != i:
                influence[i, j] = np.abs(probability.take(1, axis=j) - probability.take(0, axis=j)).max()
    return influence


def influence_bound(fields: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Return an upper bound of the influence matrix that needs no enumeration: C_ij <= tanh(h_ij / 4).

    h_ij is the largest change of the log odds of site i when site j flips: max over x of
    abs(pair_ij + sum_k triple_ijk x_k).

    Parameters
    ----------
    fields
        (linear, pair, triple), the polynomial of the log density; see ``BinaryMRF.fields()``.
    """
    _, pair, triple = fields
    highest = pair + np.maximum(triple, 0.0).sum(axis=2)
    lowest = pair + np.minimum(triple, 0.0).sum(axis=2)
    return _without_diagonal(np.tanh(np.maximum(np.abs(highest), np.abs(lowest)) / 4.0))


def influence_at(fields: tuple[np.ndarray, np.ndarray, np.ndarray], state: Any) -> np.ndarray:
    """Return tanh(h_ij / 4), where h_ij is the change of the log odds of i when j flips, at one state; shape (D, D).

    Parameters
    ----------
    fields
        As in :func:`influence_bound`.
    state
        0 or 1 for each site, shape (D,).
    """
    _, pair, triple = fields
    return _without_diagonal(np.tanh(np.abs(pair + triple @ np.asarray(state, dtype=np.float64)) / 4.0))


def all_states(n_sites: int) -> np.ndarray:
    """Return all 2^n states of binary sites, shape (2^n, n); the last site changes fastest."""
    return np.array(list(itertools.product((0, 1), repeat=n_sites)))


def _without_diagonal(matrix: np.ndarray) -> np.ndarray:
    np.fill_diagonal(matrix, 0.0)
    return matrix
