r"""Is the stationary distribution as close as theory says? Bounds on d_v(S_0, S_e), with the truth for comparison.

T is the exact transition matrix with stationary distribution S_0, T^ the approximate matrix with stationary
distribution S_e; delta(x) = d_v(T^(x, .), T(x, .)), and delta is the largest delta(x). With the contraction
coefficients eta_k of T (:mod:`approxmcmc.bounds.finite`),

    B1   delta / (1 - eta_1)                                 Theorem 1 (Theorem 2 where one step is a Gibbs sweep)
    B2   min over K of K delta / (1 - eta_K)                 multi-step
    B3   delta sum_{k >= 0} eta_k                            summed, eta_0 = 1
    B4   E_{S_e}[delta(x)] sum_{k >= 0} eta_k                average-case: delta averaged over the approximate chain
    B5   (lambda + C rho^lambda / (1 - rho)) delta           Mitrophanov (2005), lambda = max(1, ceil(-log C / log rho))

B3 and B4 follow from S_e - S_0 = sum_k S_e (T^ - T) T^k; the tail of the sum is bounded with eta_{jK + r} <= eta_K^j
eta_r. B5 assumes sup_x ||T^n(x, .) - S_0|| <= C rho^n in the norm of signed measures, which is *twice* d_v.

For Metropolis-Hastings delta(x) is at most the largest error Delta_max of an acceptance probability, and for a
sampler that makes D decisions per step at most D Delta_max.

References: Korattikara, Chen and Welling (2014), Austerity in MCMC Land, theorems 1 and 2; Mitrophanov (2005); Alquier,
Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 2; Bremaud (1999), chapter 7, for Dobrushin's coefficient.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.finite import (
    HEURISTIC,
    NOT_APPLICABLE,
    ONE_SIDED,
    RIGOROUS,
    VACUOUS,
    checked_matrix,
    contractions,
    row_distances,
    stationary_distribution,
    total_variation,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr

NAMES = {
    "b1": "Theorem 1: delta / (1 - eta_1)",
    "b2": "multi-step: min K delta / (1 - eta_K)",
    "b3": "summed: delta sum eta_k",
    "b4": "average-case: E delta sum eta_k",
    "b5": "Mitrophanov: (lambda + C rho^lambda / (1 - rho)) delta",
}
ROUNDING = 1e-13  # matrices that differ by no more are equal, and so are their stationary distributions
CERTAIN_FORGETTING = 1.0 - 1e-12  # a contraction coefficient above it is 1 up to rounding


def label_of(value: float, *, heuristic: bool = False) -> str:
    """Return the label of a bound: "rigorous", "heuristic", "not applicable" (NaN) or "vacuous" (1 or more)."""
    if math.isnan(value):
        return NOT_APPLICABLE
    if value >= 1.0:
        return VACUOUS
    return HEURISTIC if heuristic else RIGOROUS


@naming_the_arguments
def mitrophanov_factor(C: float, rho: float, *, distance: str = "norm") -> float:
    """Return lambda + C rho^lambda / (1 - rho), the factor of delta in B5; lambda = max(1, ceil(-log C / log rho)).

    Parameters
    ----------
    C, rho
        Constants with sup_x distance(T^n(x, .), S_0) <= C rho^n for all n >= 1, T the exact chain's transition matrix
        and S_0 its stationary distribution; C > 0, 0 <= rho < 1.
    distance
        The distance that C refers to: ``"norm"``, the norm of signed measures (up to 2), or ``"tv"``, d_v (up to 1).
        With ``"tv"`` C is doubled.

    Returns
    -------
    float
        The factor, at least 1. It bounds sum_k eta_k, k >= 0, and is the same whether the two sides of B5 are norms or
        d_v. Constants with C < 1 can hold only for n >= 1, because eta_0 is 1 for every chain.

    Raises
    ------
    InvalidInputError
        When a constant is out of range.

    References
    ----------
    Mitrophanov (2005), corollary 3.1.

    Examples
    --------
    >>> round(mitrophanov_factor(2.0, 0.9), 6)
    16.565938
    """
    if not (C > 0.0 and 0.0 <= rho < 1.0) or distance not in ("norm", "tv"):
        raise InvalidInputError(
            f"mitrophanov_factor needs C > 0, 0 <= rho < 1 and distance 'norm' or 'tv'; found C={C!r}, rho={rho!r}, "
            f"distance={distance!r}."
        )
    C = 2.0 * C if distance == "tv" else C
    if rho == 0.0:
        return 1.0
    steps = max(1, math.ceil(math.log(1.0 / C) / math.log(rho)))
    return steps + C * rho**steps / (1.0 - rho)


@naming_the_arguments
def exact(
    T: Any,
    T_hat: Any,
    *,
    delta_max: float | None = None,
    n_decisions: int | None = None,
    constants: tuple[float, float] | None = None,
    n_steps: int = 500,
) -> "xr.Dataset":
    r"""Return the true distance of two stationary distributions, and the bounds B1 to B5.

    Parameters
    ----------
    T, T_hat
        Exact and approximate transition matrix, shape (n, n), rows summing to 1; as :func:`transition_matrix` returns
        them, or plain arrays.
    delta_max
        Largest error of a decision's probability. None: read from the matrices if :func:`transition_matrix` made them;
        otherwise the bounds that need it are left out.
    n_decisions
        Decisions per step, D for a Gibbs sweep; None: read from the matrices if they state it, otherwise 1.
    constants
        (C, rho) of B5, for the norm of signed measures; B5 is then labelled heuristic. None: the best constants that
        follow from the matrix T, which are rigorous.
    n_steps
        Largest number of steps for which the contraction is computed.

    Returns
    -------
    xarray.Dataset
        Scalars `tv` (the truth, d_v(S_0, S_e)), `delta`, `e_delta` = E_{S_e} delta(x), `sum_eta`, `b1` ... `b5`, and
        for each bound `label_b1` ... ("rigorous", "heuristic", "not applicable", "vacuous") and `looseness_b1` = bound
        / truth. If Delta_max is given or known: `delta_max`, and the bounds with D Delta_max in place of delta,
        `b1_delta_max`, `b2_delta_max`, `b3_delta_max`, `b5_delta_max`. `eta` has the dim ``k``; `stationary` and
        `stationary_hat` have the dim ``state``.

    Raises
    ------
    InvalidInputError
        When a matrix is not stochastic or has more than one stationary distribution, or shapes differ.

    Notes
    -----
    As statements on the two matrices the bounds are rigorous, up to rounding of order 1e-12. The attribute
    `label_matrices` says how well the matrices describe their samplers ("rigorous", "one-sided", "heuristic", or "as
    given" for plain arrays). A bound of 1 or more is uninformative and is labelled vacuous. If eta_1 = 1, B1 is "not
    applicable"; if eta_k = 1 for all computed k, all bounds are, except B5 with given `constants`.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> found = amc.bounds.exact([[0.9, 0.1], [0.2, 0.8]], [[0.88, 0.12], [0.2, 0.8]])
    >>> round(float(found["tv"]), 4), round(float(found["b1"]), 4), str(found["label_b1"].values)
    (0.0417, 0.0667, 'rigorous')
    """
    import xarray as xr

    matrix = checked_matrix(T, "T")
    matrix_hat = checked_matrix(T_hat, "T_hat")
    if matrix.shape != matrix_hat.shape:
        raise InvalidInputError(
            f"T and T_hat must act on the same states; found {len(matrix)} and {len(matrix_hat)} states."
        )
    decided, found_decisions = _decision_error(T, T_hat)
    delta_max = decided if delta_max is None else float(delta_max)
    n_decisions = found_decisions if n_decisions is None else n_decisions
    stationary = stationary_distribution(matrix)
    stationary_hat = stationary_distribution(matrix_hat)
    etas, distances = contractions(matrix, stationary, n_steps)
    one_step = row_distances(matrix, matrix_hat)
    if one_step.max() <= ROUNDING:
        stationary_hat = stationary
        one_step = np.zeros(len(stationary))
    delta = float(one_step.max())
    e_delta = float(stationary_hat @ one_step)
    tv = total_variation(stationary, stationary_hat)
    factors = bound_factors(etas, distances, constants)
    values = {name: factor * (e_delta if name == "b4" else delta) for name, factor in factors.items()}
    scalars = {"tv": tv, "delta": delta, "e_delta": e_delta, "sum_eta": factors["b3"]}
    if delta_max is not None:
        scalars["delta_max"] = delta_max
        ceiling = n_decisions * delta_max
        values |= {f"{name}_delta_max": factor * ceiling for name, factor in factors.items() if name != "b4"}
    data: dict[str, Any] = {**scalars}
    for name, value in values.items():
        heuristic = constants is not None and name.startswith("b5")
        data |= {
            name: value,
            f"label_{name}": label_of(value, heuristic=heuristic),
            f"looseness_{name}": _ratio(value, tv),
        }
    data["eta"] = ("k", etas)
    data["stationary"] = ("state", stationary)
    data["stationary_hat"] = ("state", stationary_hat)
    attrs = {"n_decisions": n_decisions, "label_matrices": _label_of_matrices(T, T_hat)}
    bounds = xr.Dataset(data, coords={"k": np.arange(1, len(etas) + 1)}, attrs=attrs)
    return _described(bounds)


def bound_factors(
    etas: np.ndarray, distances: np.ndarray, constants: tuple[float, float] | None = None
) -> dict[str, float]:
    """Return the factor of delta in each bound (of E delta in B4); NaN if the bound does not exist because eta = 1.

    Parameters
    ----------
    etas, distances
        eta_k and sup_x d_v(T^k(x, .), S_0) for k = 1, 2, ...
    constants
        (C, rho) of B5; None for the best constants that follow from the two sequences.
    """
    forgets = np.flatnonzero(etas < CERTAIN_FORGETTING)
    nothing = dict.fromkeys(NAMES, math.nan)
    if constants is not None:
        nothing["b5"] = mitrophanov_factor(*constants)
    if not forgets.size:
        return nothing
    summed = sum_of_contractions(etas)
    return {
        "b1": 1.0 / (1.0 - etas[0]) if forgets[0] == 0 else math.nan,
        "b2": float(((forgets + 1.0) / (1.0 - etas[forgets])).min()),
        "b3": summed,
        "b4": summed,
        "b5": nothing["b5"] if constants is not None else _best_mitrophanov(etas, distances, forgets),
    }


def sum_of_contractions(etas: np.ndarray) -> float:
    """Return an upper bound of sum_{k >= 0} eta_k: (sum_{r < K} eta_r) / (1 - eta_K), at the best K."""
    before = np.concatenate([[1.0], 1.0 + np.cumsum(etas[:-1])])  # sum over r < K, for K = 1, 2, ...
    forgets = etas < CERTAIN_FORGETTING
    return float((before[forgets] / (1.0 - etas[forgets])).min())


def _best_mitrophanov(etas: np.ndarray, distances: np.ndarray, forgets: np.ndarray) -> float:
    """Return the smallest factor of B5 over K: as d_n <= eta_K^j d_r at n = jK + r, each K gives a pair (C, rho).

    d_n = sup_x d_v(T^n(x, .), S_0) are the `distances`; rho = eta_K^(1/K) and C = 2 max_{r < K} d_r rho^-r.
    """
    before = np.concatenate([[1.0], distances])
    best = math.inf
    for k in forgets:
        K = int(k) + 1
        eta = float(etas[k])
        if eta <= 0.0:
            return min(best, float(K))  # more steps have larger factors
        rho = eta ** (1.0 / K)
        C = 2.0 * float((before[:K] * rho ** -np.arange(K)).max())
        best = min(best, mitrophanov_factor(C, rho))
    return best


def _decision_error(T: Any, T_hat: Any) -> tuple[float | None, int]:
    """Return Delta_max and the number of decisions per step, read from two results of `transition_matrix`.

    If a matrix is a plain array, return None and 1.
    """
    coords = [getattr(matrix, "coords", {}) for matrix in (T, T_hat)]
    if not all("decision" in coord for coord in coords):
        return None, 1
    right, wrong = (np.asarray(coord["decision"]) for coord in coords)
    largest = float(np.nanmax(np.abs(wrong - right), initial=0.0))
    return (largest if largest > ROUNDING else 0.0), int(T.attrs["n_decisions"])


def _label_of_matrices(*matrices: Any) -> str:
    """Return the weakest label of matrices from `transition_matrix`; "as given" if one comes from elsewhere."""
    labels = [getattr(matrix, "attrs", {}).get("label", "as given") for matrix in matrices]
    return max(labels, key=(RIGOROUS, ONE_SIDED, HEURISTIC, "as given").index)


def _ratio(bound: float, truth: float) -> float:
    """Return bound / truth, also where the truth is 0: NaN for 0 / 0."""
    if truth > 0.0:
        return bound / truth
    if math.isnan(bound) or bound == 0.0:
        return math.nan
    return math.inf


def _described(dataset: "xr.Dataset") -> "xr.Dataset":
    words = {
        "tv": "d_v of the two stationary distributions: the truth",
        "delta": "largest one-step error, sup_x d_v(T^(x, .), T(x, .))",
        "e_delta": "mean one-step error under the approximate stationary distribution",
        "delta_max": "largest error of a decision's probability",
        "sum_eta": "sum of the contraction coefficients eta_k, k >= 0",
        "eta": "contraction coefficient of k exact steps (Dobrushin)",
        "stationary": "stationary distribution of T",
        "stationary_hat": "stationary distribution of T_hat",
        **NAMES,
        **{f"{name}_delta_max": f"{title}, with D Delta_max for delta" for name, title in NAMES.items()},
    }
    for name, text in words.items():
        if name in dataset:
            dataset[name].attrs |= {"long_name": text, "units": "1"}
    return dataset
