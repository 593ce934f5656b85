r"""The energy of a generalised linear model as a quadratic, and one small residual for each row.

In the coordinates phi = L^-1 (theta - c) of a normal approximation N(c, L L'), with a_i = L' x_i, delta_i = a_i' phi
and f_i(eta) = log p(y_i | eta),

    -log p(theta | x) = Q(phi) - sum_i r_i(phi) + const,    Q(phi) = g'phi + phi' H phi / 2,
    r_i = f_i(eta_i) - (Taylor's polynomial of f_i of order k_i, without its constant),    eta_i = x_i' c + delta_i.

Q contains the normal prior and all polynomials; evaluating Q reads no data. The gradient of a residual is s_i a_i with
the slope s_i = r_i'(delta_i). Because abs(delta_i) <= abs(a_i) rho, rho = abs(phi), derivatives of f bound the slope:

    order 0:  abs(s_i) <= sup abs(f')             order 1:  abs(s_i) <= sup abs(f'') abs(a_i) rho
    order 2:  abs(s_i) <= sup abs(f''') abs(a_i)^2 rho^2 / 2

Each row uses the order with the smallest bound at rho = sqrt(dim), near which most of the mass of N(c, L L') lies. A
row of a rare category, with a very uncertain predictor, gets order 0, because a polynomial would approximate it badly.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import bind
from approxmcmc.engine.terms.alias_table import alias_table
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.bounds import slope_rates
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.expansion.predictors import PredictorExpansion
from approxmcmc.numerics import Laplace
from approxmcmc.targets.regression import Regression, bounded
from approxmcmc.targets.stands_for_rows import StandsForRows

ORDERS = 3
# Columns of a row's record: the predictor at the centre; the response; the number of trials of a binomial row, or
# another known number of the row, 1 where the family has none; f' and f'' of the row's polynomial, 0 where its order
# leaves them out; K_i |a_i|^k / k!, the factor of rho^k, with the 2-norm, which bounds the slope; the length of a_i,
# which bounds the effect on the velocity: the 1-norm for a zig-zag, the 2-norm for a bouncy particle. Then follows a_i.
ETA, RESPONSE, SIZE, SLOPE, BEND, RATE, LENGTH = range(7)
N_SCALARS = 7
PIECE = 65_536  # rows at a time, in set-up
BOUNDS = ("slope_bound", "second_derivative_bound", "third_derivative_bound")  # of orders 0, 1 and 2
CHECKS = 8  # draws of the normal approximation at which the bounds are checked
ROUNDING = 1e-9  # by which a slope may exceed its bound: differences of numbers of size 1


class Split(NamedTuple):
    """Q, and the rows sorted by class, which is the order of a row's polynomial.

    ``derivatives_eta(eta, y, size)`` returns f' and f''. `center` (dim,), `cholesky` (dim, dim); `force` is g and
    `curvature` H. `records` (rows, 7 + dim) hold the data of a row, contiguous in memory; `rows` are their indices in
    the data. Class k has the records ``first[k] ... first[k + 1] - 1``, from which a row is drawn by its part of
    `table` with weights RATE times LENGTH, the norm of a_i; `totals` are the sums of the weights of each class.
    """

    derivatives_eta: Any
    center: np.ndarray
    cholesky: np.ndarray
    force: np.ndarray
    curvature: np.ndarray
    records: np.ndarray
    rows: np.ndarray
    table: np.ndarray
    first: np.ndarray
    totals: np.ndarray


def split(target: Target, fit: Laplace, norm: int) -> Split:
    """Return the split of a target around a normal approximation; the length of a_i is its norm of order 1 or 2.

    Raises
    ------
    IncompatibleError
        When the target is not a generalised linear model with a normal prior and known, bounded derivatives.
    InvalidInputError
        When a bound does not hold, or a derivative is not finite.
    """
    bounds = derivative_bounds(target, fit)
    assert isinstance(target, Regression)
    assert target.normal_prior is not None
    mean, precision = target.normal_prior
    center = fit.mode
    cholesky = fit.cholesky
    has_sizes = np.iscomplexobj(target.y)  # a family with two numbers for each row keeps them as y + i size
    make = make_derivatives_of_sized if has_sizes else make_derivatives
    derivatives = bind(make, target.scalar.derivatives, signature=DERIVATIVES)
    expansion = target.expansion(2)
    records = np.empty((target.n_obs, N_SCALARS + center.size))
    order = np.empty(target.n_obs, dtype=np.int64)
    force = cholesky.T @ (precision * (center - mean))
    curvature = cholesky.T @ (precision[:, None] * cholesky)
    places = np.random.default_rng(0).standard_normal((CHECKS, center.size))  # the same in every run
    for lo in range(0, target.n_obs, PIECE):
        here = slice(lo, lo + PIECE)
        records[here, RESPONSE] = target.y[here].real
        records[here, SIZE] = target.y[here].imag if has_sizes else 1.0
        of_rows = [None if bound is None else bound[here] for bound in bounds]
        order[here] = _expand(expansion, of_rows, fit, here, records[here])
        directions = records[here, N_SCALARS:]
        numbers = records[here]
        check_rates(expansion, numbers, order[here], places, here)
        force -= numbers[:, SLOPE] @ directions
        curvature -= (directions * numbers[:, BEND, None]).T @ directions
    records[:, LENGTH] = np.linalg.norm(records[:, N_SCALARS:], ord=norm, axis=1)
    rows = np.argsort(order, kind="stable")
    records = records[rows]
    weights = records[:, RATE] * records[:, LENGTH]
    first = np.searchsorted(order[rows], np.arange(ORDERS + 1))
    parts = [weights[start:stop] for start, stop in itertools.pairwise(first)]
    totals = np.array([part.sum() for part in parts])
    tables = [alias_table(part) if part.sum() > 0.0 else np.zeros((len(part), 4)) for part in parts]
    return Split(derivatives, center, cholesky, force, curvature, records, rows, np.concatenate(tables), first, totals)


def check_rates(
    expansion: LinearExpansion | PredictorExpansion,
    records: np.ndarray,
    order: np.ndarray,
    places: np.ndarray,
    here: slice,
) -> None:
    """Raise if the bound of a row fails at one of `places`.

    During a run, a bound that is far too small would hardly be noticed. The rows are `here`.
    """
    for phi in places:
        delta = records[:, N_SCALARS:] @ phi
        first, _ = expansion.derivatives(records[:, ETA] + delta, here)
        slopes = np.abs(first - records[:, SLOPE] - records[:, BEND] * delta)
        bounds = records[:, RATE] * np.linalg.norm(phi) ** order
        excess = np.nan_to_num(slopes - bounds, nan=np.inf)
        if excess.max() > ROUNDING:
            worst = int(np.argmax(excess))
            raise InvalidInputError(
                f"{speaker()}: {BOUNDS[order[worst]]} of {expansion.target!r} is not a true bound: the residual of "
                f"datum {here.start + worst} has the slope {slopes[worst]:.4g} where that allows {bounds[worst]:.4g}; "
                "give a larger one"
            )


DERIVATIVES = nb.UniTuple(nb.float64, 2)(nb.float64, nb.float64, nb.float64)


def make_derivatives(derivatives_eta: Any) -> Any:
    """Return the family's two derivatives as a kernel, for rows without a size."""

    def derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
        first, second = derivatives_eta(eta, y)
        return first, second

    return derivatives


def make_derivatives_of_sized(derivatives_eta: Any) -> Any:
    """Return the family's two derivatives as a kernel, given those as a function of eta and y + i size."""

    def derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
        first, second = derivatives_eta(eta, complex(y, size))
        return first, second

    return derivatives


def _expand(
    expansion: LinearExpansion | PredictorExpansion,
    bounds: Sequence[np.ndarray | None],
    fit: Laplace,
    here: slice,
    out: np.ndarray,
) -> np.ndarray:
    """Write the numbers of the rows `here` to `out`, and return the orders of the rows' polynomials."""
    rows = expansion.around(fit.mode, fit.cholesky, here)
    out[:, N_SCALARS:] = rows.directions
    out[:, ETA] = rows.eta
    out[:, SLOPE] = rows.first
    out[:, BEND] = rows.second
    finite = np.isfinite(out[:, [ETA, SLOPE, BEND]]).all(axis=1)
    if not finite.all():
        worst = here.start + int(np.argmin(finite))
        raise InvalidInputError(
            f"{expansion.target!r}: the derivatives of datum {worst} are not finite at theta = {fit.mode}"
        )
    rates = slope_rates(bounds, np.linalg.norm(rows.directions, axis=1))
    typical = np.sqrt(fit.mode.size)  # of rho
    order = np.argmin(rates * typical ** np.arange(ORDERS)[:, None], axis=0)
    out[:, RATE] = rates[order, np.arange(len(rates[0]))]
    out[order < 1, SLOPE] = 0.0
    out[order < 2, BEND] = 0.0
    return order


def derivative_bounds(target: Target, fit: Laplace) -> list[np.ndarray | None]:
    """Return bounds of abs(f'), abs(f'') and abs(f''') over all eta for each row, each None if unknown.

    Raises IncompatibleError if none is known, or the target is not of the right kind.
    """
    regression = bounded(target)
    if regression is None:
        raise IncompatibleError(
            f"{speaker()} needs a generalised linear model such as LogisticRegression, RobustRegression or GLMTarget, "
            f"found {target!r}; it expands the terms itself, so give the plain target and not an expansion of it"
        )
    if isinstance(target, StandsForRows):
        raise IncompatibleError(
            f"{speaker()} needs one term for each row, and a term of {target!r} represents several rows; give "
            "target.plain"
        )
    if target.normal_prior is None:
        raise IncompatibleError(
            f"{speaker()} adds a normal prior to its rates exactly, and {target!r} has a prior given as a function; "
            "give the target a normal prior by prior_scale="
        )
    if not regression.knows_derivatives:
        raise IncompatibleError(
            f"{speaker()} needs exact derivatives, and those of {target!r} are finite differences; give "
            "derivatives_eta=, a function (eta, y) -> (first, second)"
        )
    if fit.mode.size != target.variables.size:
        raise IncompatibleError(
            f"{speaker()}: the fit has {fit.mode.size} parameters, {target!r} has {target.variables.size}; give "
            "amc.laplace(target)"
        )
    bounds = [regression.likelihood.derivative_bounds(order, regression.responses) for order in range(1, ORDERS + 1)]
    if all(bound is None for bound in bounds):
        raise IncompatibleError(
            f"{speaker()} needs a bound of a derivative of log p(y | eta) over all eta, and {target!r} has none; give "
            "a GLMTarget slope_bound=, second_derivative_bound= or third_derivative_bound=, a number each. If no bound "
            "exists, as in Poisson regression, use MetropolisHastings(SurrogateTransition()) on a "
            'ControlVariate(target, always_read="auto")'
        )
    return bounds
