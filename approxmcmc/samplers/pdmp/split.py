r"""The energy of a regression as a quadratic, and one small residual for each row.

In the coordinates phi = L^-1 (theta - c) of a normal approximation N(c, L L'), with f_i the log density of row i as a
function of its predictors,

    -log p(theta | x) = Q(phi) - sum_i r_i(phi) + const,    Q(phi) = g'phi + phi' H phi / 2,
    r_i = f_i(eta_i) - (Taylor's polynomial of f_i of order k_i, without its constant).

Q contains the normal prior and all polynomials; evaluating Q reads no data. The gradient of a residual is at most
rate_i rho^k_i, rho = abs(phi), see `rows`; with one predictor eta_i = x_i' c + delta_i, delta_i = a_i' phi, it is s_i
a_i, and

    order 0:  abs(s_i) <= sup abs(f')             order 1:  abs(s_i) <= sup abs(f'') abs(a_i) rho
    order 2:  abs(s_i) <= sup abs(f''') abs(a_i)^2 rho^2 / 2

Each row uses the order with the smallest bound at rho = sqrt(dim), near which most of the mass of N(c, L L') lies. A
row of a rare category, with a very uncertain predictor, gets order 0, because a polynomial would approximate it badly.

*Shells.* Where no derivative is bounded for all predictors, as that of a Poisson term, bounds hold in balls rho <= R_s.
The rates of the innermost ball serve in all of them, times a factor for each order: the largest by which the rate of a
row of this order grows. So a wide ball, which a chain hardly ever visits, needs no further numbers of the rows.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.terms.alias_table import alias_table
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.numerics import Laplace
from approxmcmc.samplers.pdmp.rows import (
    LENGTH,
    ORDERS,
    RATE,
    Likelihood,
    LikelihoodOfSeveral,
    RowsAroundFit,
    RowsOfOne,
    RowsOfSeveral,
)
from approxmcmc.targets.regression import Regression, has_one_predictor, with_bounded_residuals
from approxmcmc.targets.stands_for_rows import StandsForRows

BOUNDS = ("slope_bound", "second_derivative_bound", "third_derivative_bound")  # of orders 0, 1 and 2
CHECKS = 8  # draws of the normal approximation at which the bounds are checked
ROUNDING = 1e-9  # by which a slope may exceed its bound: differences of numbers of size 1
# Radii of balls less sqrt(dim), near which rho lies under the normal approximation: the first ball is left once in some
# hundreds of draws, the third once in 1e4, the fifth never.
SHELLS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0)
MOST_PASSES = 1000  # reads in a unit of time, in passes over all rows, beyond which a run is stopped as hopeless
WIDER = 1.0 + 1e-6  # factor of the radius up to which bounds hold, because rounding may carry a particle over an edge


class Split(NamedTuple):
    """Q, and the rows sorted by class, which is the order of a row's polynomial.

    `likelihood` is that of the rows; `center` (dim,), `cholesky` (dim, dim); `force` is g and `curvature` H. `records`
    hold the data of a row, contiguous in memory, see `rows`; `rows` are their indices in the data. Class k has the
    records ``first[k] ... first[k + 1] - 1``, from which a row is drawn by its part of `table` with weights RATE times
    LENGTH. Shell s is the ball of squared radius ``limits[s]``; there the rates of class k are ``factors[s, k]`` times
    RATE, and ``totals[s, k]`` is the sum of their weights.
    """

    likelihood: Likelihood | LikelihoodOfSeveral
    center: np.ndarray
    cholesky: np.ndarray
    force: np.ndarray
    curvature: np.ndarray
    records: np.ndarray
    rows: np.ndarray
    table: np.ndarray
    first: np.ndarray
    limits: np.ndarray
    factors: np.ndarray
    totals: np.ndarray


def split(rows: RowsAroundFit) -> Split:
    """Return the split of the energy of a target around a normal approximation.

    Raises
    ------
    IncompatibleError
        When bounds are infinite within the smallest ball, or so large that a run would not end.
    InvalidInputError
        When a bound does not hold, or a derivative is not finite.
    """
    target = rows.target
    fit = rows.fit
    assert target.normal_prior is not None
    mean, precision = target.normal_prior
    dim = fit.mode.size
    records = np.empty((target.n_obs, rows.n_numbers))
    order = np.empty(target.n_obs, dtype=np.int64)
    force = fit.cholesky.T @ (precision * (fit.mode - mean))
    curvature = fit.cholesky.T @ (precision[:, None] * fit.cholesky)
    typical = np.sqrt(dim)  # of rho
    radii = np.array([math.inf]) if rows.is_global else typical + np.array(SHELLS)
    factors = np.zeros((len(radii), ORDERS))
    places = np.random.default_rng(0).standard_normal((CHECKS, dim))  # the same in every run
    for lo in range(0, target.n_obs, rows.rows_at_a_time):
        here = slice(lo, min(lo + rows.rows_at_a_time, target.n_obs))
        numbers = records[here]
        rows.expand(here, numbers)
        refuse_unfit(rows, numbers, lo)
        rates = rates_within(rows, here, numbers, radii)
        order[here] = np.argmin(rates[0] * typical ** np.arange(ORDERS)[:, None], axis=0)
        of_order = np.take_along_axis(rates, order[None, None, here], axis=1)[:, 0]
        numbers[:, RATE] = of_order[0]
        factors = np.maximum(factors, largest_growth(of_order, order[here]))
        rows.keep_order(numbers, order[here])
        gradient, hessian = rows.of_polynomials(numbers)
        force -= gradient
        curvature -= hessian
        check_rates(rows, numbers, of_order, radii, order[here], places, here)
    refuse_unbounded(records[:, RATE], radii[0], rows)
    by_order = np.argsort(order, kind="stable")
    records = records[by_order]
    weights = records[:, RATE] * records[:, LENGTH]
    first = np.searchsorted(order[by_order], np.arange(ORDERS + 1))
    parts = [weights[start:stop] for start, stop in itertools.pairwise(first)]
    totals = factors * np.array([part.sum() for part in parts])
    n_usable = usable(radii, totals, rows)
    table = np.concatenate([alias_table(part) if part.sum() > 0.0 else np.zeros((len(part), 4)) for part in parts])
    return Split(
        rows.likelihood,
        fit.mode,
        fit.cholesky,
        force,
        curvature,
        records,
        by_order,
        table,
        first,
        radii[:n_usable] ** 2,
        factors[:n_usable],
        totals[:n_usable],
    )


def rates_within(rows: RowsAroundFit, here: slice, records: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Return the rates of some rows within each radius, shape (radii, 3, rows); inf where no bound is known."""
    with np.errstate(all="ignore"):  # exponentials of predictors far away
        rates = np.array([rows.rates(here, records, radius * WIDER) for radius in radii])
    rates[np.isnan(rates)] = np.inf
    return rates


def largest_growth(rates: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the largest factor by which a rate of each order grows from the first radius; shape (radii, 3).

    `rates` are those of the rows' orders, shape (radii, rows).
    """
    with np.errstate(all="ignore"):
        growth = np.where(rates == rates[0], 1.0, rates / rates[0])
    growth[np.isnan(growth)] = np.inf
    return np.stack([growth[:, order == k].max(axis=1, initial=1.0) for k in range(ORDERS)], axis=1)


def refuse_unbounded(rates: np.ndarray, radius: float, rows: RowsAroundFit) -> None:
    """Raise if the rate of a row within the smallest ball is not finite."""
    if not np.isfinite(rates).all():
        worst = int(np.argmin(np.isfinite(rates)))
        raise IncompatibleError(
            f"{speaker()}: the slope of the residual of datum {worst} of {rows.target!r} has no finite bound within "
            f"{radius:.3g} standard deviations of the fit, because its derivatives grow exponentially in a predictor "
            "that is hardly known; use MetropolisHastings with an ExactTest"
        )


def usable(radii: np.ndarray, totals: np.ndarray, rows: RowsAroundFit) -> int:
    """Return the number of balls, from the smallest on, at whose edge a process does not read too many rows."""
    if rows.is_global:
        return len(radii)
    with np.errstate(over="ignore", invalid="ignore"):
        reads = (totals * radii[:, None] ** np.arange(ORDERS)).sum(axis=1)  # in a unit of time
    n_usable = int((reads <= MOST_PASSES * rows.target.n_obs).sum())  # reads increase with the radius
    if n_usable == 0:
        raise IncompatibleError(
            f"{speaker()}: within {radii[0]:.3g} standard deviations of the fit the bounds of {rows.target!r} are so "
            f"large that a unit of time takes up to {reads[0]:.2g} reads of a row, more than {MOST_PASSES} passes over "
            "all rows; use MetropolisHastings with an ExactTest"
        )
    return n_usable


def refuse_unfit(rows: RowsAroundFit, records: np.ndarray, lo: int) -> None:
    """Raise if a number of a record is not finite."""
    unfit = rows.unfit(records)
    if unfit.any():
        worst = lo + int(np.argmax(unfit))
        raise InvalidInputError(
            f"{rows.target!r}: the derivatives of datum {worst} are not finite at theta = {rows.fit.mode}"
        )


def check_rates(
    rows: RowsAroundFit,
    records: np.ndarray,
    rates: np.ndarray,
    radii: np.ndarray,
    order: np.ndarray,
    places: np.ndarray,
    here: slice,
) -> None:
    """Raise if the bound of a row fails at one of `places`; `rates` (radii, rows) are those within each radius.

    During a run, a bound that is far too small would hardly be noticed. The rows are `here`.
    """
    for phi in places:
        rho = np.linalg.norm(phi)
        slopes = rows.sizes(here, records, phi)
        bounds = rates[np.searchsorted(radii, rho)] * rho**order
        excess = np.nan_to_num(slopes - bounds, nan=np.inf)
        if excess.max() > ROUNDING:
            worst = int(np.argmax(excess))
            raise InvalidInputError(
                f"{speaker()}: {BOUNDS[order[worst]]} of {rows.target!r} is not a true bound: the residual of "
                f"datum {here.start + worst} has the slope {slopes[worst]:.4g} where that allows {bounds[worst]:.4g}; "
                "give a larger one"
            )


def rows_of(target: Target, fit: Laplace, norm: int) -> RowsAroundFit:
    """Return the rows of a target with a normal prior and known, bounded derivatives; shares have this norm, 1 or 2.

    Raises IncompatibleError if the target is not of this kind.
    """
    if isinstance(target, StandsForRows):
        raise IncompatibleError(
            f"{speaker()} needs one term for each row, and a term of {target!r} represents several rows; give "
            "target.plain"
        )
    if not isinstance(target, Regression):
        raise IncompatibleError(
            f"{speaker()} needs a regression such as LogisticRegression, SoftmaxRegression or GLMTarget, found "
            f"{target!r}; it expands the terms itself, so give the plain target and not an expansion of it"
        )
    if target.normal_prior is None:
        raise IncompatibleError(
            f"{speaker()} adds a normal prior to its rates exactly, and the prior of {target!r} is not normal in "
            f"theta: {target.prior.text}; give the target a normal prior by prior_scale=, or use MetropolisHastings"
        )
    if not target.knows_derivatives:
        raise IncompatibleError(
            f"{speaker()} needs exact derivatives, and those of {target!r} are finite differences; give "
            "derivatives_eta=, a function (eta, y) -> (first, second)"
        )
    if fit.mode.size != target.variables.size:
        raise IncompatibleError(
            f"{speaker()}: the fit has {fit.mode.size} parameters, {target!r} has {target.variables.size}; give "
            "amc.laplace(target)"
        )
    regression = with_bounded_residuals(target)
    if regression is None or not has_bounds(regression):
        raise IncompatibleError(
            f"{speaker()} needs a bound of a derivative of log p(y | eta), over all eta or near its value at the fit, "
            f"and {target!r} has none; give a GLMTarget slope_bound=, second_derivative_bound= or "
            "third_derivative_bound=, or use a regression of the library"
        )
    return (RowsOfOne if has_one_predictor(regression) else RowsOfSeveral)(regression, fit, norm)


def has_bounds(target: Regression) -> bool:
    """Return whether some derivative of the rows' terms has a bound within an interval."""
    if not has_one_predictor(target):
        return True
    first = slice(0, 1)
    responses = target.responses_of(first)
    bounds: Any = [
        target.likelihood.derivative_within(order, np.zeros(1), responses, np.ones(1)) for order in range(1, ORDERS + 1)
    ]
    return any(bound is not None for bound in bounds)
