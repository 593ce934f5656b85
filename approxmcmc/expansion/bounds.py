r"""Bounds of the residuals of an expansion: of their slopes, of their changes between two states, of their range.

*Differences.* Between two states a term changes by at most

    |l_i(theta, theta')| <= c_i M(theta, theta'),    M symmetric.

*Residuals of an expansion.* Let f be the term as a function of its predictor, c the centre, L the Cholesky factor of a
covariance (those of the pilot, a short run), h_i = |L' x_i|^2, delta = x_i' (theta - c). Take the Taylor polynomial of
order 2 at c, with its linear coefficient shifted by a_i and its quadratic one by b_i, as averages over the pilot
shift them. Its residual has a slope of at most K_i delta^2 / 2 + |a_i| + 2 |b_i delta|, which integrates from theta to
theta' to at most

    K_i |delta'^[3] - delta^[3]| / 6 + |a_i (delta' - delta)| + |b_i (delta'^[2] - delta^[2])|
        <= c_i M,    M = P_3 + P_2 / 2 + 3 P_1,    c_i = max(K_i h_i^(3/2) / 6, 2 |b_i| h_i, |a_i| h_i^(1/2) / 3),

where t^[k] = sign(t) |t|^k is the signed power, so that the change of t^[2] from -1 to 1 is 2, not 0; P_k is the
largest change of the signed k-th power of a predictor of variance 1 between the two states, see
`engine/terms/term_range.py`; and K_i >= |f'''| wherever predictor i differs from its value at c by at most
h_i^(1/2) rho, rho = |L^-1 (theta - c)|. One K_i serves all rho up to `farthest`; the straight line between two such
states stays within it. The weights 3 and 1/2 are free: a_i is about f''' h_i / 2, so that 3 makes the first and the
last term alike, and 1/2 costs 5 % fewer reads than 1. Taylor's own polynomial has a = b = 0, and P_3 is enough. For
order 1 the slope is at most K_i |delta|, K_i >= |f''|, and |l_i| <= K_i h_i P_2 / 2.

*Several predictors.* With F_i a bound of the derivative of order k in the direction L' A_i' u, for all unit vectors u,
abs(l_i) <= c_i Q_k with c_i = F_i / k!, see `engine/terms/term_range.py`; polynomials are Taylor's.

*Slopes.* With Taylor's polynomial of order k = 0, 1 or 2 the slope of the residual in its predictor is at most
K_i abs(delta)^k / k!, K_i >= |f^(k + 1)|, that is K_i h_i^(k/2) rho^k / k!. Processes in continuous time bound their
rates by it.

*Units.* This holds for any L, and that of the pilot is not the best one: if the rows with large c_i point in one
direction, distances in this direction should have more weight, and others less. Let v_i = L' x_i in the pilot's units,
and k = order + 1. In units in which the pilot has the covariance S the bounds add up to about
sum_i K_i (v_i' S^-1 v_i)^(k/2) (trace S)^(k/2). At its minimum

    S^2 ~ sum_i K_i (v_i' S^-1 v_i)^(k/2 - 1) v_i v_i',

and one step towards it from S = I is as good as eight. It reduced the reads by the second-order bounds of
light rows (those not always read) from 313 to 125 on Covertype, from 6190 to 2640 on a9a, and from 2310 to 2100 on
MNIST; if all directions are alike, it changes nothing.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from approxmcmc.contracts import CompiledDifferenceBound, CompiledTermRange
from approxmcmc.engine.terms.passes import BLOCK, over_blocks
from approxmcmc.engine.terms.term_range import FARTHEST, reach_along_path, reach_in_space
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion.linear import squared_lengths

SLOPE_WEIGHT = 3.0
CURVATURE_WEIGHT = 0.5
DRAWN_ROWS = 4096  # rows from which `sharper_units` computes the units
UNSEEN = 0.1  # share of a draw added in each direction, in case no drawn row points there
# How far bounds hold, in units of the pilot's largest radius. At 1.15 the sampler used the exact sum in 1.5 % of the
# decisions, which made two thirds of all reads; at 1.6 in .1 %, which still made half of the reads of a walk with
# first-order bounds on 100 000 dense rows, where a wider radius hardly changes K_i.
MARGINS = (1.6, 2.5, 4.0)
LARGEST_INCREASE = 1.05  # factor by which a wider margin may increase the expected reads
# Residuals are differences of numbers of size 1 and more, with errors of some 1e-15, so no bound may be smaller.
ROUNDING = 1e-13


class BoundedRows(Protocol):
    """What bounds read of a target whose likelihood has bounds of its derivatives, in one predictor or in several."""

    design: Any

    def forms_within(
        self, order: int, eta: np.ndarray, rows: Any, covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of the derivatives of order 2 or 3 of rows in a direction of length 1; shape (rows,)."""

    def expansion(self, order: int) -> Any:
        """Return the expansion of the terms."""


def largest_radius(center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray) -> float:
    """Return the largest distance of a pilot's draws from the centre, in units of `cholesky`."""
    whitened = np.linalg.solve(cholesky, (draws - center).T)
    return float(np.sqrt(np.square(whitened).sum(axis=0)).max())


def slope_rates(bounds: Sequence[np.ndarray | None], lengths: np.ndarray) -> np.ndarray:
    """Return the factors of rho^k in the bounds of the slopes of residuals of order k = 0, 1, 2; shape (3, rows).

    `bounds` hold the largest absolute first, second and third derivatives of f, shape (rows,), None if unknown, where
    the factor is infinite. `lengths` are the h_i^(1/2), shape (rows,).
    """
    rates = np.full((len(bounds), len(lengths)), np.inf)
    for k, bound in enumerate(bounds):
        if bound is not None:
            rates[k] = bound / math.factorial(k) * lengths**k
    return rates


def rates_of_shifts(shifts: np.ndarray, leverages: np.ndarray) -> np.ndarray:
    """Return the part of the c_i that is due to averaged coefficients, shape (rows,).

    `shifts` holds (a_i, b_i), shape (rows, 2), and `leverages` h_i, shape (rows,).
    """
    moved = np.abs(shifts)
    return np.maximum(moved[:, 1] * leverages / CURVATURE_WEIGHT, moved[:, 0] * np.sqrt(leverages) / SLOPE_WEIGHT)


def sharper_units(ways: np.ndarray, cholesky: np.ndarray) -> np.ndarray:
    """Return an L for which the sum of the bounds is smaller than with the pilot's L; see the module.

    `ways` are the v_i of rows that were drawn in proportion to their c_i. As c_i ~ K_i h_i^(k/2), S^2 is in proportion
    to the mean of v_i v_i' / h_i over these rows, and a few thousand draws are enough.
    """
    leverages = np.square(ways).sum(axis=1)
    ways = ways / np.sqrt(np.maximum(leverages, ROUNDING))[:, None]
    values, vectors = np.linalg.eigh(ways.T @ ways + UNSEEN * np.eye(len(cholesky)))
    spread = np.sqrt(values) * (len(values) / np.sqrt(values).sum())  # of S, scaled to the trace of I
    factor = cholesky @ (vectors / np.sqrt(spread))
    return np.linalg.cholesky(factor @ factor.T)


def residual_range(
    target: BoundedRows,
    bound: float,
    numbers: np.ndarray,
    rows: np.ndarray | None,
    pilot: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> CompiledTermRange:
    r"""Compile a bound of the range of the residuals of second order of some rows, in two passes over them.

    `rows` are the indices of the rows, None for all; `numbers` their coefficients, averaged or Taylor's; `pilot` is
    centre, Cholesky factor and draws of a normal approximation; `bound` is K, a bound of the third derivative of all
    terms. A term changes by at most |a_i| h_i^(1/2) P_1 + |b_i| h_i P_2 + K h_i^(3/2) P_3 / 6; a_i, b_i, h_i and P_k as
    in the module. The range is at most twice this sum with the largest of each factor over the rows.

    The bound holds in any units. It is returned in those of the normal approximation or of the parameters, whichever
    gives the smaller bound between draws: in the latter the bound for Taylor's residuals is never above that of
    Bardenet, Doucet and Holmes (2017), section 7, which adds up the remainders at both states.
    """
    center, cholesky, draws = pilot
    expansion = target.expansion(2)

    def in_units(units: np.ndarray) -> tuple[CompiledTermRange, float]:
        """Return the bound in units of L = `units`, and its mean between draws."""

        def largest_of(lo: int, hi: int) -> np.ndarray:
            indices = slice(lo, hi) if rows is None else rows[lo:hi]
            block_of_rows = expansion.around(center, units, indices)
            spread = np.sqrt(squared_lengths(block_of_rows.directions))
            moved = np.abs(expansion.shifts(block_of_rows, numbers[lo:hi]))
            moved[moved <= ROUNDING] = 0.0  # Taylor's own
            return np.array([(moved[:, 0] * spread).max(), (moved[:, 1] * spread**2).max(), spread.max()])

        slope, curvature, spread = np.max(list(over_blocks(largest_of, len(numbers))), axis=0)
        twice = [2.0 * factor for factor in (slope, curvature, bound / 6.0 * spread**3)]
        kernel, constants = reach_along_path(twice, math.inf, center, units)
        return CompiledTermRange(kernel, constants), float(changes_between(draws, kernel, constants).mean())

    of_pilot, between_draws = in_units(cholesky)
    of_parameters, between_draws_of_parameters = in_units(np.eye(len(center)))
    return of_pilot if between_draws <= between_draws_of_parameters else of_parameters


def changes_between(draws: np.ndarray, kernel: Any, constants: np.ndarray) -> np.ndarray:
    """Return the bound of the changes from each draw to the next; shape (draws - 1,)."""
    pairs = itertools.pairwise(draws)
    return np.array([kernel(np.array(first), np.array(other), constants) for first, other in pairs])


class BoundOfRows(NamedTuple):
    """Where the bounds of residuals hold, and in which units: with this, bounds of more rows are computed alone.

    `units` is the Cholesky factor L, `farthest` the radius of the ball around the centre, `is_averaged` whether the
    coefficients of a row may differ from Taylor's, so that the bound has terms for that.
    """

    units: np.ndarray
    farthest: float
    is_averaged: bool


def rates_of_rows(
    target: BoundedRows,
    order: int,
    numbers: np.ndarray,
    rows: np.ndarray | None,
    center: np.ndarray,
    units: np.ndarray,
    places: Sequence[float],
    *,
    averaged: bool,
) -> tuple[np.ndarray, bool]:
    """Return c_i for the Cholesky factor `units`, within each radius in `places`, shape (radii, rows); one pass.

    The second result says whether averaging has changed the coefficients of any row. Other arguments as in
    `bound_of_rows`.
    """
    expansion = target.expansion(2)
    design = target.design
    rows_per_block = BLOCK if design.n_predictors == 1 else design.rows_at_a_time
    rates = np.empty((len(places), len(numbers)), dtype=np.float32)

    def block(lo: int, hi: int) -> bool:
        indices = slice(lo, hi) if rows is None else rows[lo:hi]
        shifts = np.zeros((hi - lo, 2))  # 0 for Taylor's own coefficients, which those of several predictors are
        if design.n_predictors == 1:
            block_of_rows = expansion.around(center, units, indices)
            eta = block_of_rows.eta[None]
            covariances = squared_lengths(block_of_rows.directions)[:, None, None]
            if averaged:
                shifts = expansion.shifts(block_of_rows, numbers[lo:hi])
                shifts[np.abs(shifts) <= ROUNDING] = 0.0
        else:
            eta = design.eta(center, indices)
            covariances = design.covariances(units, indices)
        of_shifts = rates_of_shifts(shifts, covariances[:, 0, 0])
        for k, farthest in enumerate(places):
            forms = target.forms_within(order + 1, eta, indices, covariances, farthest)
            exact = np.maximum(forms / math.factorial(order + 1), of_shifts) + ROUNDING
            # Single precision takes half of the memory, and rounded upwards it is still a bound. For an infinite one
            # see `refuse_infinite`.
            with np.errstate(over="ignore"):
                rates[k, lo:hi] = np.nextafter(exact.astype(np.float32), np.float32(np.inf))
        return bool(shifts.any())

    return rates, any(list(over_blocks(block, len(numbers), rows_per_block)))


def range_in_space(
    target: BoundedRows,
    numbers: np.ndarray,
    rows: np.ndarray | None,
    pilot: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> CompiledTermRange:
    """Compile a bound of the range of Taylor's residuals of second order, of rows with several predictors; one pass.

    Arguments as in `residual_range`. The derivatives of the terms must be bounded for all predictors.
    """
    center, cholesky, _ = pilot
    [rates], _ = rates_of_rows(target, 2, numbers, rows, center, cholesky, [math.inf], averaged=False)
    return CompiledTermRange(*reach_in_space((0.0, 0.0, 2.0 * float(rates.max())), math.inf, center, cholesky))


def range_of_differences(bound: CompiledDifferenceBound) -> CompiledTermRange:
    """Return the bound 2 max_i c_i M of the range of residuals, abs(l_i) <= c_i M; infinite wherever M is.

    M is a function of `reach_of`, linear in its weights, so the kernel is that of M.
    """
    numbers = bound.numbers.copy()
    numbers[:FARTHEST] *= 2.0 * float(bound.rates.max())
    return CompiledTermRange(bound.reach, numbers)


def bound_of_rows(
    target: BoundedRows,
    order: int,
    numbers: np.ndarray,
    rows: np.ndarray | None,
    pilot: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    averaged: bool = False,
) -> tuple[CompiledDifferenceBound, BoundOfRows]:
    """Compile the bounds of the residuals of some rows, one by one, from two passes over these rows; and their units.

    `rows` are the indices of the rows, None for all; `numbers` are the coefficients of their expansion, which has the
    given order. With `averaged`, slope and curvature are averages over the pilot's distribution instead of derivatives
    at the centre. `pilot` is the pilot's centre, Cholesky factor and draws. The bound holds in a ball around the
    centre, the largest of three whose bounds increase the expected reads by at most 5 %.
    """
    center, cholesky, draws = pilot

    def rates_in(units: np.ndarray, places: Sequence[float]) -> tuple[np.ndarray, bool]:
        return rates_of_rows(target, order, numbers, rows, center, units, places, averaged=averaged)

    [rates], _ = rates_in(cholesky, [MARGINS[0] * largest_radius(center, cholesky, draws)])
    total = rates.sum(dtype=np.float64)
    refuse_infinite(total, target)
    drawn = np.random.default_rng(0).choice(len(rates), DRAWN_ROWS, p=rates / total)
    ways = target.design.times(cholesky, drawn if rows is None else rows[drawn])
    units = sharper_units(ways.reshape(-1, ways.shape[-1]), cholesky)
    widest_draw = largest_radius(center, units, draws)
    radii = [margin * widest_draw for margin in MARGINS]
    candidates, is_averaged = rates_in(units, radii)
    sums = candidates.sum(axis=1, dtype=np.float64)
    refuse_infinite(float(sums[0]), target)
    widest = int(np.flatnonzero(sums <= LARGEST_INCREASE * sums[0])[-1])  # sums grow with the margin
    where = BoundOfRows(units, radii[widest], is_averaged)
    kernel, constants = reach_of(target, order, center, where)
    reaches = changes_between(draws, kernel, constants)
    return CompiledDifferenceBound(kernel, constants, candidates[widest].copy(), reaches), where


def refuse_infinite(total: float, target: BoundedRows) -> None:
    """Raise if the sum of the bounds of rows within the smallest radius is not finite."""
    if not np.isfinite(total):
        raise IncompatibleError(
            f"{target!r}: bounds of the residuals are infinite within {MARGINS[0]} times the radius of the posterior's "
            "draws, because derivatives grow exponentially in a predictor that is hardly known; use ExactTest"
        )


def reach_of(target: BoundedRows, order: int, center: np.ndarray, where: BoundOfRows) -> tuple[Any, np.ndarray]:
    """Return the function M of two states, a kernel, and its constants, for residuals of an expansion at `center`."""
    weights = (0.0, 1.0, 0.0) if order == 1 else (0.0, 0.0, 1.0)
    if where.is_averaged:
        weights = SLOPE_WEIGHT, CURVATURE_WEIGHT, 1.0
    reach: Any = reach_along_path if target.design.n_predictors == 1 else reach_in_space
    kernel, constants = reach(weights, where.farthest, center, where.units)
    return kernel, constants
