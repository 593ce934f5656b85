"""Check weighted draws by the effective sample size, Pareto k, and the sample size that the KL divergence requires.

With rho = d nu / d mu (target nu, proposal mu) and L = KL(nu || mu) = E_nu log rho, about exp(L) draws are necessary
and sufficient to estimate I(f) = E_nu f. Theorem 1.1 proves this for I_n(f) = (1/n) sum f(X_i) rho(X_i), X_i ~ mu,
which needs *normalised* weights rho:

    n = exp(L + t), t >= 0:  E |I_n(f) - I(f)| <= ||f||_{L2(nu)} (exp(-t/4) + 2 sqrt(P_nu(log rho > L + t/2))),
    n = exp(L - t), t >= 0:  P(I_n(1) >= 1 - delta) <= exp(-t/2) + P_nu(log rho <= L - t/2) / (1 - delta).

`importance_estimates` returns the *self-normalised* J_n(f) = sum f(X_i) rho(X_i) / sum rho(X_i), which does not need
the constant of rho. Theorem 1.2 bounds its error in probability instead of in expectation: with eps^2 the
bracket of the first line,

    n = exp(L + t), eps < 1:  P(|J_n(f) - I(f)| >= 2 ||f||_{L2(nu)} eps / (1 - eps)) <= 2 eps,
    n = exp(L - t), t >= 0:   f = 1 where log rho <= L - t/2, else 0, has I(f) = P_nu(log rho <= L - t/2), and
                              P(J_n(f) != 1) <= exp(-t/2).

J_n(f + c) = J_n(f) + c, so ||f|| may be replaced by the standard deviation of f under nu. The effective sample size
sees only the points that were drawn: a proposal that misses the target looks fine. Read it together with Pareto k and
L.

Reference: Chatterjee and Diaconis (2018), The sample size required in importance sampling, theorems 1.1 and 1.2.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.estimands import resolve
from approxmcmc.diagnostics.records import group
from approxmcmc.errors import InvalidInputError

LARGEST_PARETO_K = 0.7  # Vehtari et al. (2024)
MOST_LOG = 700.0  # exp(700) = 1e304
STATEMENTS = (
    "error_bound", "mass_bound", "self_normalised_error", "self_normalised_risk", "blind_mass", "blind_risk"
)  # fmt: skip
FEWEST_WEIGHTS = 25  # distinct weights needed to fit their tail; with two distinct weights fits gave k = 6.9 and -5.6


def importance_diagnostics(log_weights: Any) -> dict[str, float]:
    """Return diagnostics of a vector of log weights.

    Parameters
    ----------
    log_weights
        log w_t, known up to a constant, shape (n,); -inf where the target is 0.

    Returns
    -------
    dict
        ``ess`` = (sum w)^2 / sum w^2; ``pareto_k``, the tail index fitted by Pareto-smoothed importance sampling
        (ArviZ; over 0.7 the estimates are not to be trusted, NaN if there is no tail to fit: fewer than 25 different
        weights, or equal ones in the tail); ``log_normalizer``, the log of the mean weight; ``kl``, the plug-in
        estimate of KL(target || proposal).

    Examples
    --------
    >>> round(importance_diagnostics([0.0, 0.0, 0.0, 0.0])["ess"], 6)
    4.0
    """
    log_weights = _vector(log_weights)
    largest = log_weights.max()
    weights = np.exp(log_weights - largest)
    log_normalizer = float(largest + np.log(weights.mean()))
    shares = weights / weights.sum()
    positive = shares > 0.0
    return {
        "ess": float(weights.sum() ** 2 / (weights**2).sum()),
        "pareto_k": _pareto_k(log_weights),
        "log_normalizer": log_normalizer,
        "kl": float(shares[positive] @ (log_weights[positive] - log_normalizer)),
    }


def importance_estimates(trace: xr.DataTree, estimands: Any = None) -> xr.Dataset:
    """Return self-normalised estimates, sum w f / sum w, with their standard errors.

    Parameters
    ----------
    trace
        A trace of `importance_sampling`.
    estimands
        Functions of the posterior Dataset by name; None = every variable.

    Returns
    -------
    xarray.Dataset
        Each estimand with a leading dim ``moment`` of (mean, mcse), mcse = sqrt(sum w^2 (f - mean)^2) / sum w, the
        delta method (Owen 2013, equation 9.9). The mcse is NaN if a single draw has all the weight.

    Raises
    ------
    InvalidInputError
        When the trace has no weights.

    Examples
    --------
    >>> importance_estimates(trace)["B"].sel(moment="mean")  # doctest: +SKIP
    """
    stats = group(trace, "sample_stats")
    if "weight" not in stats:
        raise InvalidInputError(
            "importance_estimates needs draws with weights, as `importance_sampling` makes them; this trace has no "
            "weights: use `az.summary(trace)`"
        )
    weights = stats["weight"]
    weights = weights / weights.sum(("chain", "draw"))
    out = {}
    for name, function in resolve(estimands, trace).items():
        values = function(group(trace, "posterior")).astype(np.float64)
        mean = (weights * values).sum(("chain", "draw"))
        mcse = ((weights**2 * (values - mean) ** 2).sum(("chain", "draw"))) ** 0.5
        out[name] = xr.concat([mean, mcse.where((weights > 0.0).sum() > 1)], dim="moment")
    return xr.Dataset(out, coords={"moment": ["mean", "mcse"]})


def pareto_finding(stats: xr.Dataset) -> Finding:
    """Check the weights of a run of `importance_sampling` by their Pareto k."""
    pareto = importance_diagnostics(np.asarray(stats["log_weight"]).ravel())
    k = pareto["pareto_k"]
    effective = pareto["ess"]
    if math.isnan(k):
        sentence = f"Pareto k was not checked: fewer than {FEWEST_WEIGHTS} different weights, or equal ones in the tail"
        return Finding("Pareto k", "not checked", sentence, limit=LARGEST_PARETO_K)
    sentence = f"Pareto k is {k:.2f}, with {effective:.0f} effective draws"
    if k <= LARGEST_PARETO_K:
        return Finding("Pareto k", "ok", sentence, "", k, LARGEST_PARETO_K)
    sentence = (
        f"Pareto k is {k:.2f} (over {LARGEST_PARETO_K}): a few draws dominate the estimates, and the {effective:.0f} "
        "effective draws cannot be trusted"
    )
    return Finding("Pareto k", "failure", sentence, "use a proposal with heavier tails", k, LARGEST_PARETO_K)


@naming_the_arguments
def chatterjee_diaconis_bound(
    n_draws: Any,
    *,
    kl: float | None = None,
    tail: Callable[[float], float] | None = None,
    log_weights: Any = None,
    delta: float = 0.5,
) -> xr.Dataset:
    """Bound the error of importance sampling with n draws by the KL divergence and its fluctuation.

    Parameters
    ----------
    n_draws
        Number of draws n, or a vector of them.
    kl, tail
        L = KL(target || proposal), and the function s -> P_target(log rho > s), if known.
    log_weights
        Log weights of a run, instead: L and the tail are then estimated from the weighted draws. A run that missed a
        part of the target underestimates both.
    delta
        The delta of the lower bound, in (0, 1).

    Returns
    -------
    xarray.Dataset
        Dim ``n_draws``. `t` = log n - L. Theorem 1.1, on the average with normalised weights: `error_bound` bounds E
        abs(I_n(f) - I(f)) in units of ||f||_{L2(target)}; NaN if n < exp(L); a value above 1 says nothing.
        `mass_bound` bounds the probability that the mean weight, which has expectation 1, reaches 1 - delta; NaN if n >
        exp(L). Theorem 1.2, on the self-normalised average that `importance_estimates` returns: with probability at
        least 1 - `self_normalised_risk`, its error is less than `self_normalised_error` times ||f||, or times the
        standard deviation of f; inf if `error_bound` >= 1; a risk of 1 or more is an empty statement. `blind_mass` and
        `blind_risk`, for n < exp(L): with probability at least 1 - `blind_risk`, all draws lie in a set of states with
        probability `blind_mass` under the target. Attributes: `kl`, `needed` = exp(L), and `estimated`, 1 if L and the
        tail come from `log_weights`, else 0.

    Raises
    ------
    InvalidInputError
        When neither `kl` and `tail` nor `log_weights` are given, or a number is out of range.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> bound = chatterjee_diaconis_bound(np.exp(0.5 + 4.0), kl=0.5, tail=norm(0.5, 1.0).sf)
    >>> round(float(bound["error_bound"]), 6)
    0.669542
    >>> bound = chatterjee_diaconis_bound(np.exp(0.5 + 16.0), kl=0.5, tail=norm(0.5, 1.0).sf)
    >>> round(float(bound["self_normalised_error"]), 4), round(float(bound["self_normalised_risk"]), 4)
    (0.313, 0.2707)
    """
    if log_weights is not None:
        kl, tail = _plug_in(_vector(log_weights))
    if kl is None or tail is None:
        raise InvalidInputError("chatterjee_diaconis_bound needs `kl` and `tail`, or `log_weights`")
    n = np.asarray(n_draws, dtype=np.float64)
    if not (kl >= 0.0 and np.all(n > 0.0) and 0.0 < delta < 1.0):
        raise InvalidInputError(
            f"chatterjee_diaconis_bound: needs kl >= 0, n_draws > 0 and delta in (0, 1), found {kl}, {n}, {delta}"
        )
    t = np.log(n) - kl
    each = np.array([_bounds(value, kl, tail, delta) for value in t.ravel()]).reshape(*t.shape, len(STATEMENTS))
    dims = ("n_draws",) if n.ndim else ()
    data = {"t": (dims, t), **{name: (dims, each[..., k]) for k, name in enumerate(STATEMENTS)}}
    attrs = {
        "kl": float(kl),
        "needed": math.exp(kl) if kl < MOST_LOG else math.inf,
        "estimated": int(log_weights is not None),
    }
    return xr.Dataset(data, coords={"n_draws": (dims, n)}, attrs=attrs)


def _bounds(t: float, kl: float, tail: Callable[[float], float], delta: float) -> tuple[float, ...]:
    """Return the numbers of `STATEMENTS` at n = exp(kl + t); NaN for a statement that does not hold at this n."""
    above = float(tail(kl + t / 2.0))  # for t < 0 this is L - |t|/2, as the lower bounds of both theorems require
    error = risk = self_error = mass = blind = blind_risk = math.nan
    if t >= 0.0:
        error = math.exp(-t / 4.0) + 2.0 * math.sqrt(above)
        eps = math.sqrt(error)
        self_error = 2.0 * eps / (1.0 - eps) if eps < 1.0 else math.inf
        risk = 2.0 * eps
    if t <= 0.0:
        mass = math.exp(t / 2.0) + (1.0 - above) / (1.0 - delta)
        blind = 1.0 - above
        blind_risk = math.exp(t / 2.0)
    return error, mass, self_error, risk, blind, blind_risk


def _plug_in(log_weights: np.ndarray) -> tuple[float, Callable[[float], float]]:
    pareto = importance_diagnostics(log_weights)
    log_rho = log_weights - pareto["log_normalizer"]
    shares = np.exp(log_rho) / len(log_rho)
    return max(pareto["kl"], 0.0), lambda s: float(shares[log_rho > s].sum())


def _pareto_k(log_weights: np.ndarray) -> float:
    from arviz_stats.base import array_stats

    positive = log_weights[log_weights > -np.inf]
    if np.unique(positive).size < FEWEST_WEIGHTS:
        return math.nan
    try:
        # The function expects log-likelihoods, which are the negatives of the log weights.
        return float(array_stats.psislw(-positive)[1])
    except ValueError:  # all weights of the tail are equal, as on a few discrete states: there is no tail to fit
        return math.nan


def _vector(log_weights: Any) -> np.ndarray:
    values = np.asarray(log_weights, dtype=np.float64).ravel()
    if not values.size or np.isnan(values).any() or not np.isfinite(values.max()):
        raise InvalidInputError("log_weights must hold numbers or -inf, one of them finite")
    return values
