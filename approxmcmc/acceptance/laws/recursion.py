"""Compute how often a sequential test errs and how much data it reads, without simulation.

The functions here are for one decision with a known standardised mean (`sequential_test_error`) and for one pair of
states with a random threshold: its error (`acceptance_probability_error`), and the acceptance probability, by
enumeration of the looks or in the Gaussian regime. All but the enumeration use the recursion in `bridge`.

Given the order of the data, a look with mean m and limit w stops for thresholds mu_0 outside m -+ w. So the thresholds
that are still undecided form an interval, the thresholds that accept form intervals too, and the probability over u has
a closed form.

Reference: Korattikara, Chen and Welling, *Austerity in MCMC Land* (2014), section 5 and its supplement.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.acceptance.laws.bridge import (
    integrate_noise,
    narrowest_feature,
    operating_characteristic,
)
from approxmcmc.acceptance.laws.looks import critical_values
from approxmcmc.acceptance.laws.probability import Order, exact_probability, mean_over_orders
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError

if TYPE_CHECKING:
    import xarray as xr


PAIRS_AT_ONCE = 4096  # bounds the memory: 256 nodes for each pair
RULES = ("metropolis", "barker")


@naming_the_arguments
def sequential_test_error(
    mu_std: Any,
    *,
    epsilon: float,
    batch_size: int,
    n_obs: int,
    growth: float = 1.0,
    thresholds: str = "student",
    boundary_shape: float = 0.5,
) -> "xr.Dataset":
    """Return error probability and data used by one decision of the sequential test, in the Gaussian regime.

    Parameters
    ----------
    mu_std
        Standardised distance of the mean mu of all N terms from the threshold mu_0, (mu - mu_0) sqrt(N - 1) / sigma_l
        with sigma_l the standard deviation of the terms (divisor N): a number, an array or a DataArray; any sign,
        infinity allowed. At 0 the exact decision is "not above".
    epsilon, batch_size, n_obs, growth, boundary_shape
        The test, as in `SequentialTTest`; see `look_sizes` and `critical_values`.
    thresholds
        "student" (what the test uses) or "normal" quantiles as critical values.

    Returns
    -------
    xr.Dataset
        `error`: probability that the decision differs from the exact one. `data_fraction`: expected share of the
        `n_obs` terms that are read. A number gives scalars, a vector the dim ``mu_std``.

    Raises
    ------
    InvalidInputError
        When `mu_std` holds NaN or a setting is outside its range.

    Notes
    -----
    The result is exact for a Gaussian bridge, up to quadrature and interpolation errors below 1e-6. The real test
    approaches it as the batch grows, because the central limit theorem applies and the estimated standard deviation
    becomes less noisy. The table of a schedule is computed once per process: milliseconds for 20 looks, seconds for
    thousands.

    Examples
    --------
    >>> test = sequential_test_error(1.0, epsilon=0.05, batch_size=500, n_obs=10_000, thresholds="normal")
    >>> round(float(test["error"]), 4), round(float(test["data_fraction"]), 3)
    (0.0758, 0.487)
    """
    (values,) = _labelled(mu_std=mu_std)
    _refuse_nan(mu_std=values.values)
    error, fraction = operating_characteristic(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)(
        values.values
    )
    settings = _settings(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    return _dataset([values], error, fraction, "probability of a wrong decision", settings)


@naming_the_arguments
def acceptance_probability_error(
    log_ratio: Any,
    tau: Any,
    *,
    epsilon: float,
    batch_size: int,
    n_obs: int,
    growth: float = 1.0,
    thresholds: str = "student",
    boundary_shape: float = 0.5,
    rule: str = "metropolis",
) -> "xr.Dataset":
    """Return the error of the sequential test's acceptance probability, integrated over the random threshold.

    Delta(Lambda, tau) = integral_0^1 P_+((Lambda - T(u)) / tau) du - P_a, with the threshold T(u) = log u and
    P_a = min(1, exp(Lambda)) for the Metropolis rule, T(u) = logit u and P_a = 1 / (1 + exp(-Lambda)) for the Barker
    rule (and binary Gibbs). P_+(mu_std) is the probability that the test decides "above".

    Parameters
    ----------
    log_ratio
        Lambda, the exact log acceptance ratio: number, array or DataArray.
    tau
        sqrt(N) S_l, with S_l the standard deviation of the N terms (divisor N - 1); at least 0. Arrays broadcast
        against `log_ratio` as in NumPy; two DataArrays broadcast by the names of their dims.
    epsilon, batch_size, n_obs, growth, thresholds, boundary_shape
        The test, as in `sequential_test_error`.
    rule
        "metropolis" or "barker".

    Returns
    -------
    xr.Dataset
        `error`: Delta with its sign (positive: accepts too often). `data_fraction`: expected share of the terms read.
        Vectors share the dim ``pair``.

    Raises
    ------
    InvalidInputError
        When `log_ratio` or `tau` is not finite, `tau` is negative, a setting is outside its range, or shapes do not
        broadcast.

    Examples
    --------
    >>> test = {"epsilon": 0.05, "batch_size": 500, "n_obs": 10_000}
    >>> acceptance_probability_error([-2.0, 0.0], 2.0, **test)["error"].values.round(3).tolist()
    [0.08, -0.158]
    """
    if rule not in RULES:
        raise InvalidInputError(f"rule must be one of {RULES}, found {rule!r}.")
    ratios, scales = _labelled(log_ratio=log_ratio, tau=tau)
    _refuse_nan(log_ratio=ratios.values, tau=scales.values)
    if not (np.all(np.isfinite(ratios)) and np.all(np.isfinite(scales)) and np.all(scales.values >= 0)):
        raise InvalidInputError("log_ratio must be finite and tau finite and at least 0; drop the pairs that are not.")
    characteristic = operating_characteristic(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    narrow = narrowest_feature(n_obs, batch_size, growth)
    flat_ratio = ratios.values.ravel()
    flat_tau = scales.values.ravel()
    results = np.empty((2, flat_ratio.size))
    for start in range(0, flat_ratio.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        results[:, part] = integrate_noise(flat_ratio[part], flat_tau[part], characteristic, narrow, rule)
    error, fraction = results.reshape(2, *ratios.shape)
    settings = _settings(epsilon, batch_size, n_obs, growth, thresholds, boundary_shape)
    title = "approximate minus exact acceptance probability"
    return _dataset([ratios, scales], error, fraction, title, settings | {"rule": rule})


def _labelled(**named: Any) -> list["xr.DataArray"]:
    """Return the arguments, numbers or arrays by name, as DataArrays of the same shape with these names."""
    import xarray as xr

    if any(isinstance(value, xr.DataArray) for value in named.values()):
        arrays = [_with_coordinate(name, value) for name, value in named.items()]
        return [a.astype(np.float64).rename(name) for a, name in zip(xr.broadcast(*arrays), named, strict=True)]
    try:
        plain = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in named.values()))
    except ValueError as error:
        shapes = {name: np.shape(value) for name, value in named.items()}
        raise InvalidInputError(
            f"{' and '.join(named)} must be numbers of shapes that broadcast, found {shapes}."
        ) from error
    only = next(iter(named)) if len(named) == 1 else "pair"
    dims = (only,) if plain[0].ndim == 1 else tuple(f"dim_{k}" for k in range(plain[0].ndim))
    return [xr.DataArray(values, dims=dims, name=name) for name, values in zip(named, plain, strict=True)]


def _with_coordinate(name: str, value: Any) -> "xr.DataArray":
    """Return `value` as a DataArray; if its only dim is called `name`, its values become the coordinate of this dim."""
    import xarray as xr

    if not isinstance(value, xr.DataArray):
        if np.ndim(value) > 0:
            raise InvalidInputError(f"{name} must be a number or a DataArray, as the other argument is a DataArray.")
        return xr.DataArray(float(value))
    return value.assign_coords({name: value.values}) if value.dims == (name,) else value


def _settings(
    epsilon: float, batch_size: int, n_obs: int, growth: float, thresholds: str, boundary_shape: float
) -> dict[str, Any]:
    return {
        "epsilon": epsilon,
        "batch_size": batch_size,
        "n_obs": n_obs,
        "growth": growth,
        "thresholds": thresholds,
        "boundary_shape": boundary_shape,
    }


def _refuse_nan(**named: np.ndarray) -> None:
    for name, values in named.items():
        if np.isnan(values).any():
            raise InvalidInputError(f"{name} holds {int(np.isnan(values).sum())} NaN; drop those values first.")


def _dataset(
    inputs: list["xr.DataArray"], error: np.ndarray, fraction: np.ndarray, title: str, settings: dict[str, Any]
) -> "xr.Dataset":
    import xarray as xr

    first = inputs[0]
    own = {str(values.name): values.variable for values in inputs if values.name not in first.coords}
    return xr.Dataset(
        {
            "error": (first.dims, error, {"long_name": title, "units": "1"}),
            "data_fraction": (first.dims, fraction, {"long_name": "expected fraction of the data read", "units": "1"}),
        },
        coords={**first.coords, **own},
        attrs=settings,
    )


def enumerated_probability(
    differences: np.ndarray,
    log_rest: np.ndarray,
    looks: np.ndarray,
    *,
    epsilon: float,
    tol: float,
    boundary_shape: float,
    rule: str,
) -> np.ndarray:
    """Return the acceptance probability of each pair, shape (pairs,): the mean over all ways to draw the `looks`.

    `differences` (pairs, N) holds the terms log p(x_i|theta') - log p(x_i|theta), `log_rest` (pairs,) the log ratios of
    prior and proposal.
    """
    n_obs = differences.shape[1]
    critical = np.append(critical_values(looks, epsilon, shape=boundary_shape), 0.0)

    def below(mu_0: np.ndarray) -> np.ndarray:
        return exact_probability(n_obs * mu_0 + log_rest, rule)

    def given(order: Order) -> np.ndarray:
        accepted = np.zeros(len(differences))
        # The interval of mu_0 that is still undecided.
        low = np.full(len(differences), -np.inf)
        high = np.full(len(differences), np.inf)
        seen: tuple[int, ...] = ()
        for new, limit in zip(order, critical, strict=True):
            seen += new
            n = len(seen)
            part = differences[:, list(seen)]
            mean = part.mean(axis=1)
            error = part.std(axis=1, ddof=1) / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)
            # limit * 0 = 0 also if the limit is infinite: all terms seen are equal, and only the last look decides.
            half = np.zeros(len(mean)) if n == n_obs else np.where(math.isinf(limit), np.inf, limit * error)
            by_tolerance = math.isfinite(limit) and n < n_obs and tol > 0.0
            half = np.where(by_tolerance & (n_obs * error <= tol), 0.0, half)
            accepts = np.minimum(high, mean - half)
            accepted += np.where(accepts > low, below(accepts) - below(low), 0.0)
            low = np.maximum(low, mean - half)
            high = np.minimum(high, mean + half)
            high = np.maximum(high, low)
        return accepted

    return mean_over_orders(looks, given)


def gaussian_probability(log_ratio: np.ndarray, tau: np.ndarray, *, rule: str, **test: Any) -> np.ndarray:
    """Return the acceptance probability of each pair in the Gaussian regime.

    Arguments as for `acceptance_probability_error`; `test` holds those from `epsilon` on.
    """
    pairs = np.stack([log_ratio.ravel(), tau.ravel()]).round(14)
    distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
    error = acceptance_probability_error(distinct[0], distinct[1], rule=rule, **test)["error"].values
    return np.asarray(exact_probability(log_ratio, rule) + error[inverse.ravel()].reshape(log_ratio.shape))
