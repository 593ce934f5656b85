r"""Rows of a split energy: with one predictor, or with several; what is stored of a row, and how its residual is read.

A row has K predictors, eta = A theta + offset, and the term f(eta). In the coordinates phi its predictors move by
delta = A_i phi, A_i the design times L, shape (K, dim). A residual r_i, of a polynomial of order k, has the gradient
A_i' s, s the slopes of f less those of the polynomial. For a unit vector u and rho = abs(phi)

    abs(u' grad r_i) <= rate_i rho^k,    rate_i = F_i / k!,

with F_i a bound of the derivative of f of order k + 1 in the direction A_i w, for all unit vectors w: a symmetric form
of several directions is largest where they are equal (Banach 1938). A coordinate moves the predictors only by its
projection on the rows of A_i, of length `share`_ij, so that

    abs(d r_i / d phi_j) <= rate_i share_ij rho^k.

With one predictor A_i is one vector a_i. Its length is left out of the rate, which then bounds abs(s), and a_i itself
takes the place of the shares.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import bind, compiled
from approxmcmc.expansion.bounds import slope_rates
from approxmcmc.numerics import Laplace
from approxmcmc.targets.regression import Regression

ORDERS = 3
# Columns of a row's record. Only rows with one predictor have the first five: the predictor at the centre; the
# response; the number of trials of a binomial row, or another known number of the row, 1 where the family has none; f'
# and f'' of the row's polynomial, 0 where its order leaves them out. All rows have the rate, see the module, and the
# sum of the shares for a zig-zag or their 2-norm for a bouncy particle. Then follow the shares. Rows with several
# predictors have behind them eta (K), slopes (K) and second derivatives (K, K) of their polynomial, and A_i (K, dim).
ETA, RESPONSE, SIZE, SLOPE, BEND, RATE, LENGTH = range(7)
N_SCALARS = 7
PIECE = 65_536  # rows at a time, in set-up
NEGLIGIBLE = 1e-14  # singular values of A_i, relative to the largest, which are rounding


class Likelihood(NamedTuple):
    """What a step reads of rows with one predictor: ``derivatives_eta(eta, y, size)`` returns f' and f''."""

    derivatives_eta: Any


class LikelihoodOfSeveral(NamedTuple):
    """What a step reads of rows with several predictors.

    ``slopes(eta, responses, order, lo, hi, out)`` is the batch function of the likelihood, see `RowLikelihood`.
    """

    slopes: Any
    responses: tuple[np.ndarray, ...]


class Scratch(NamedTuple):
    """Arrays for reading a row with K predictors: eta and slopes (K, 1), delta (K,), its index (1,), direction (dim,).

    With one predictor they are not used.
    """

    eta: np.ndarray
    slopes: np.ndarray
    delta: np.ndarray
    datum: np.ndarray
    direction: np.ndarray


def scratch(n_predictors: int, dim: int) -> Scratch:
    """Return the arrays for reading a row."""
    K = n_predictors
    return Scratch(np.empty((K, 1)), np.empty((K, 1)), np.empty(K), np.empty(1, dtype=np.int64), np.empty(dim))


# --- kernels: read a row ---


@compiled(inline="always")  # a call copies the many fields of a split: with it a draw takes twice as long
def slope_of(split: Any, record: np.ndarray, position: np.ndarray) -> float:
    """Return s_i, the slope of a row's term minus the slope of its polynomial, at `position`; of one predictor."""
    delta = 0.0
    for j in range(position.shape[0]):
        delta += record[N_SCALARS + j] * position[j]
    first, _ = split.likelihood.derivatives_eta(record[ETA] + delta, record[RESPONSE], record[SIZE])
    return first - record[SLOPE] - record[BEND] * delta  # type: ignore[no-any-return]  # of a kernel


@compiled(inline="always")
def read_one(split: Any, place: int, position: np.ndarray, work: Scratch) -> tuple[float, np.ndarray]:
    """Return the slope s_i and the direction a_i of the residual of the row `place`: its gradient is their product."""
    record = split.records[place]
    return slope_of(split, record, position), record[N_SCALARS:]


@compiled(inline="always")
def read_several(split: Any, place: int, position: np.ndarray, work: Scratch) -> tuple[float, np.ndarray]:
    """Return the length of the gradient of the residual of the row `place`, and the unit vector in its direction."""
    record = split.records[place]
    dim = position.shape[0]
    K = work.delta.shape[0]
    of_eta = N_SCALARS + dim
    of_slopes = of_eta + K
    of_bends = of_slopes + K
    of_design = of_bends + K * K
    for k in range(K):
        delta = 0.0
        for j in range(dim):
            delta += record[of_design + k * dim + j] * position[j]
        work.delta[k] = delta
        work.eta[k, 0] = record[of_eta + k] + delta
    work.datum[0] = split.rows[place]
    split.likelihood.slopes(work.eta, split.likelihood.responses, work.datum, 0, 1, work.slopes)
    direction = work.direction
    for j in range(dim):
        direction[j] = 0.0
    for k in range(K):
        slope = work.slopes[k, 0] - record[of_slopes + k]
        for m in range(K):
            slope -= record[of_bends + k * K + m] * work.delta[m]
        for j in range(dim):
            direction[j] += slope * record[of_design + k * dim + j]
    squared = 0.0
    for j in range(dim):
        squared += direction[j] * direction[j]
    length = math.sqrt(squared)
    if length > 0.0:
        for j in range(dim):
            direction[j] /= length
    return length, direction


# --- set-up: what is stored ---


class RowsAroundFit(abc.ABC):
    """The rows of a target around a normal approximation: their records, the bounds of their residuals, checks."""

    n_numbers: int
    """Length of a record."""
    rows_at_a_time: int
    is_global: bool
    """Whether some bound of each row holds for all predictors."""
    read: Callable[..., tuple[float, np.ndarray]]
    """The kernel that reads a row."""
    likelihood: Likelihood | LikelihoodOfSeveral

    def __init__(self, target: Regression, fit: Laplace, norm: int) -> None:
        self.target = target
        self.fit = fit
        self.norm = norm
        self.dim = fit.mode.size
        self.expansion: Any = target.expansion(2)

    @abc.abstractmethod
    def expand(self, here: slice, out: np.ndarray) -> None:
        """Write the records of the rows `here` to `out`, but for rates, with polynomials of order 2."""

    @abc.abstractmethod
    def rates(self, here: slice, records: np.ndarray, radius: float) -> np.ndarray:
        """Return the rates of the orders 0, 1 and 2 within a radius, shape (3, rows); inf where no bound is known."""

    @abc.abstractmethod
    def keep_order(self, records: np.ndarray, order: np.ndarray) -> None:
        """Set to 0 what a polynomial of the given `order` (rows,) leaves out."""

    @abc.abstractmethod
    def of_polynomials(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient (dim,) and the Hessian (dim, dim) of the sum of the polynomials at phi = 0."""

    @abc.abstractmethod
    def sizes(self, here: slice, records: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return what the rates bound: the sizes of the residuals' slopes at `position`; shape (rows,)."""

    def unfit(self, records: np.ndarray) -> np.ndarray:
        """Return which records hold a number that is not finite; shape (rows,)."""
        return ~np.isfinite(records).all(axis=1)


class RowsOfOne(RowsAroundFit):
    """Rows with one predictor."""

    read = staticmethod(read_one)

    def __init__(self, target: Regression, fit: Laplace, norm: int) -> None:
        super().__init__(target, fit, norm)
        self.n_numbers = N_SCALARS + self.dim
        self.rows_at_a_time = PIECE
        self.has_sizes = np.iscomplexobj(target.y)  # a family with two numbers for each row keeps them as y + i size
        orders = range(1, ORDERS + 1)
        self.bounds = [target.likelihood.derivative_bounds(order, target.responses) for order in orders]
        self.is_global = any(bound is not None for bound in self.bounds)
        make = make_derivatives_of_sized if self.has_sizes else make_derivatives
        self.likelihood = Likelihood(bind(make, target.scalar.derivatives, signature=DERIVATIVES))

    def expand(self, here: slice, out: np.ndarray) -> None:
        """Write the records."""
        rows = self.expansion.around(self.fit.mode, self.fit.cholesky, here)
        out[:, RESPONSE] = self.target.y[here].real
        out[:, SIZE] = self.target.y[here].imag if self.has_sizes else 1.0
        out[:, N_SCALARS:] = rows.directions
        out[:, ETA] = rows.eta
        out[:, SLOPE] = rows.first
        out[:, BEND] = rows.second
        out[:, RATE] = 0.0
        out[:, LENGTH] = np.linalg.norm(rows.directions, ord=self.norm, axis=1)

    def rates(self, here: slice, records: np.ndarray, radius: float) -> np.ndarray:
        """Return the rates: those of the bounds for all predictors, if there are some."""
        lengths = np.linalg.norm(records[:, N_SCALARS:], axis=1)
        if self.is_global:
            return slope_rates([None if bound is None else bound[here] for bound in self.bounds], lengths)
        responses = self.target.responses_of(here)
        eta = records[:, ETA]
        within = self.target.likelihood.derivative_within
        orders = range(1, ORDERS + 1)
        return slope_rates([within(order, eta, responses, radius * lengths) for order in orders], lengths)

    def keep_order(self, records: np.ndarray, order: np.ndarray) -> None:
        """Set slopes and curvatures to 0."""
        records[order < 1, SLOPE] = 0.0
        records[order < 2, BEND] = 0.0

    def of_polynomials(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of slopes and curvatures."""
        directions = records[:, N_SCALARS:]
        return records[:, SLOPE] @ directions, (directions * records[:, BEND, None]).T @ directions

    def sizes(self, here: slice, records: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the absolute slopes in the predictor."""
        delta = records[:, N_SCALARS:] @ position
        first, _ = self.expansion.derivatives(records[:, ETA] + delta, here)
        sizes: np.ndarray = np.abs(first - records[:, SLOPE] - records[:, BEND] * delta)
        return sizes


class RowsOfSeveral(RowsAroundFit):
    """Rows with K predictors, more than one."""

    read = staticmethod(read_several)

    def __init__(self, target: Regression, fit: Laplace, norm: int) -> None:
        super().__init__(target, fit, norm)
        K = self.K = target.design.n_predictors
        of_eta = N_SCALARS + self.dim
        self.of_eta = slice(of_eta, of_eta + K)
        self.of_slopes = slice(of_eta + K, of_eta + 2 * K)
        self.of_bends = slice(of_eta + 2 * K, of_eta + 2 * K + K * K)
        self.of_design = slice(of_eta + 2 * K + K * K, of_eta + 2 * K + K * K + K * self.dim)
        self.n_numbers = self.of_design.stop
        self.rows_at_a_time = max(64, PIECE // K)
        self.is_global = target.likelihood.forms_are_global
        self.likelihood = LikelihoodOfSeveral(target.likelihood.compile("slopes", target.responses), target.responses)

    def expand(self, here: slice, out: np.ndarray) -> None:
        """Write the records: a share is the length of a coordinate's projection on the rows of A_i."""
        n = len(out)
        design = self.target.design
        eta = design.eta(self.fit.mode, here)
        slopes, bends = self.expansion.derivatives_in_predictors(eta, here)
        out[:, :N_SCALARS] = 0.0
        out[:, self.of_eta] = eta.T
        out[:, self.of_slopes] = slopes.T
        out[:, self.of_bends] = bends.reshape(n, -1)
        out[:, self.of_design] = design.times(self.fit.cholesky, here).swapaxes(0, 1).reshape(n, -1)
        _, singular, axes = np.linalg.svd(self._design(out), full_matrices=False)
        is_used = singular > NEGLIGIBLE * singular[:, :1]
        shares = np.sqrt((np.square(axes) * is_used[:, :, None]).sum(axis=1))
        out[:, N_SCALARS : N_SCALARS + self.dim] = shares
        out[:, LENGTH] = shares.sum(axis=1) if self.norm == 1 else is_used[:, 0]

    def _design(self, records: np.ndarray) -> np.ndarray:
        """Return the A_i; shape (rows, K, dim)."""
        return records[:, self.of_design].reshape(len(records), self.K, self.dim)

    def _bends(self, records: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the polynomials in the predictors; shape (rows, K, K)."""
        return records[:, self.of_bends].reshape(len(records), self.K, self.K)

    def rates(self, here: slice, records: np.ndarray, radius: float) -> np.ndarray:
        """Return the rates from the bounds of derivatives in a direction."""
        eta = np.ascontiguousarray(records[:, self.of_eta].T)
        A = self._design(records)
        covariances = A @ A.swapaxes(1, 2)
        responses = self.target.responses_of(here)
        slopes = self.target.likelihood.slopes_within(eta, responses, covariances, radius)
        forms = [self.target.forms_within(order, eta, here, covariances, radius) for order in (2, 3)]
        return slope_rates([slopes, *forms], np.ones(len(records)))

    def keep_order(self, records: np.ndarray, order: np.ndarray) -> None:
        """Set slopes and second derivatives to 0."""
        records[order < 1, self.of_slopes] = 0.0
        records[order < 2, self.of_bends] = 0.0

    def of_polynomials(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of A_i' g_i and A_i' H_i A_i."""
        A = self._design(records)
        bent = (self._bends(records) @ A).reshape(-1, self.dim)
        flat = A.reshape(-1, self.dim)
        return records[:, self.of_slopes].ravel() @ flat, flat.T @ bent

    def sizes(self, here: slice, records: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the lengths of the gradients."""
        A = self._design(records)
        delta = A @ position
        eta = np.ascontiguousarray((records[:, self.of_eta] + delta).T)
        slopes, _ = self.expansion.derivatives_in_predictors(eta, here)
        left = slopes.T - records[:, self.of_slopes] - np.einsum("rkm,rm->rk", self._bends(records), delta)
        sizes: np.ndarray = np.linalg.norm(np.einsum("rk,rkj->rj", left, A), axis=1)
        return sizes


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
