"""Collapsible lower bounds of likelihood terms, as Firefly needs them.

A bound is useful when it is tight where the posterior lies, and when its sum over all data costs no pass over them.
Here every log B_i is a quadratic function of theta, so that

    sum_i log B_i(theta) = theta' Q theta + l' theta + c,

with Q, l and c formed once. For a linear model a bound is a function of eta_i = x_i' theta, a minorant of its family
(`families.family.Minorant`). The gap of row i is its term minus its bound; it depends on theta and on `touch_i`, three
numbers of the row that say where and how its bound touches the term.

Reference: Maclaurin and Adams (2014), Firefly Monte Carlo.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledBound
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import (
    BATCH_FASTMATH,
    INDICES,
    VECTOR,
    allocating,
    closure,
    compiled,
    kernel,
    type_of,
)
from approxmcmc.engine.terms.batches import Data, datum_at, linear_predictor, log_terms_type
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.family import Minorant
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import add_rows, n_columns, predict, predictor_data

ROWS_PER_BLOCK = 65_536  # for sums over all data, so that no second copy of the data is made


# --- gaps of linear models ---


@compiled
def _copy_rows(touch: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    for position in range(lo, hi):
        row = datum_at(order, position)
        for k in range(out.shape[0]):
            out[k, position - lo] = touch[row, k]


def make_linear_gaps(gap: Callable[..., float]) -> Callable[..., None]:
    """Return the batch kernel that writes ``gap(eta_i, *touch_i)``; data = (X, touch), `touch` with shape (n, 3)."""

    def linear_gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # Copy first, compute second, as in the batch kernel of the terms: only loops over contiguous arrays vectorise.
        X, touch = data
        linear_predictor(theta, X, order, lo, hi, out)
        touch_of_rows = np.empty((3, hi - lo))
        _copy_rows(touch, order, lo, hi, touch_of_rows)
        first = touch_of_rows[0]
        second = touch_of_rows[1]
        third = touch_of_rows[2]
        for i in range(hi - lo):
            out[i] = gap(out[i], first[i], second[i], third[i])

    return linear_gaps


def make_add_linear_gap_gradient(slope: Callable[..., float]) -> Callable[..., None]:
    """Return the kernel `CompiledBound.add_gap_gradient`; ``slope(eta_i, *touch_i)`` is a gap's derivative in eta."""

    def add_gap_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
    ) -> None:
        X, touch = data
        eta = np.empty(hi - lo)
        touch_of_rows = np.empty((3, hi - lo))
        linear_predictor(theta, X, order, lo, hi, eta)
        _copy_rows(touch, order, lo, hi, touch_of_rows)
        for position in range(lo, hi):
            i = position - lo
            row = datum_at(order, position)
            weighted = weights[i] * slope(eta[i], touch_of_rows[0, i], touch_of_rows[1, i], touch_of_rows[2, i])
            for j in range(theta.shape[0]):
                out[j] += weighted * X[row, j]

    return add_gap_gradient


def make_design_gaps(gap: Callable[..., float]) -> Callable[..., None]:
    """Return the same as `make_linear_gaps` for any design of one predictor; data = (*design, touch)."""

    def design_gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        eta = np.empty((1, hi - lo))
        touch_of_rows = np.empty((3, hi - lo))
        design, (touch,) = predictor_data(data)
        predict(theta, design, order, lo, hi, np.empty(n_columns(design)), eta)
        _copy_rows(touch, order, lo, hi, touch_of_rows)
        for i in range(hi - lo):
            out[i] = gap(eta[0, i], touch_of_rows[0, i], touch_of_rows[1, i], touch_of_rows[2, i])

    return design_gaps


def make_add_design_gap_gradient(slope: Callable[..., float]) -> Callable[..., None]:
    """Return the same as `make_add_linear_gap_gradient` for any design of one predictor; data = (*design, touch)."""

    def add_gap_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
    ) -> None:
        eta = np.empty((1, hi - lo))
        touch_of_rows = np.empty((3, hi - lo))
        design, (touch,) = predictor_data(data)
        coefs = np.empty(n_columns(design))
        predict(theta, design, order, lo, hi, coefs, eta)
        _copy_rows(touch, order, lo, hi, touch_of_rows)
        slopes = eta  # in place
        for i in range(hi - lo):
            row_slope = slope(eta[0, i], touch_of_rows[0, i], touch_of_rows[1, i], touch_of_rows[2, i])
            slopes[0, i] = weights[i] * row_slope
        add_rows(slopes, design, order, lo, hi, coefs, out)

    return add_gap_gradient


class WeightedData(NamedTuple):
    """The data of a kernel of weighted gaps: those of the gaps, then the known weights of the rows."""

    of_gaps: Data
    weights: np.ndarray


@allocating
def weighted_data(data: Data) -> WeightedData:
    """Return the flat data of a kernel of weighted gaps by name."""
    return WeightedData(data[:-1], data[-1])


def make_weighted_gaps(gaps: Callable[..., None]) -> Callable[..., None]:
    """Return the batch kernel of gaps times known weights of rows."""

    def weighted_gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        of_gaps, weights = weighted_data(data)
        gaps(theta, of_gaps, order, lo, hi, out)
        for i in range(hi - lo):
            out[i] *= weights[datum_at(order, lo + i)]

    return weighted_gaps


def make_add_weighted_gap_gradient(add_gradient: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel of the gradients of gaps times known weights of rows."""

    def add_gap_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
    ) -> None:
        of_gaps, known_weights = weighted_data(data)
        products = np.empty(hi - lo)
        for i in range(hi - lo):
            products[i] = weights[i] * known_weights[datum_at(order, lo + i)]
        add_gradient(theta, of_gaps, order, lo, hi, products, out)

    return add_gap_gradient


def _quadratic(theta: np.ndarray, sums: tuple[np.ndarray, ...]) -> float:
    Q, linear, constant = sums
    total = constant[0]
    for i in range(theta.shape[0]):
        factor = linear[i]
        for j in range(theta.shape[0]):
            factor += Q[i, j] * theta[j]
        total += factor * theta[i]
    return total


def _add_quadratic_gradient(theta: np.ndarray, sums: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    Q, linear, _ = sums
    for i in range(theta.shape[0]):
        product = 0.0
        for j in range(theta.shape[0]):
            product += Q[i, j] * theta[j]
        out[i] += 2.0 * product + linear[i]


def compile_bound(
    data: Data,
    sums: tuple[np.ndarray, ...],
    gaps: Callable[..., None],
    log_bound: Callable[..., float],
    add_gap_gradient: Callable[..., None] | None = None,
    add_bound_gradient: Callable[..., None] | None = None,
    *,
    weights: np.ndarray | None = None,
) -> CompiledBound:
    """Compile the functions of a `CompiledBound` for the types of `data` and `sums`.

    The gradients are None for a bound of the user; Firefly then cannot move by gradients. Known `weights` of rows
    (n,) multiply the gaps; `sums` include them.
    """
    if weights is not None:
        data = (*data, weights)
        gaps = closure(make_weighted_gaps, gaps, fastmath=BATCH_FASTMATH)
        if add_gap_gradient is not None:
            add_gap_gradient = closure(make_add_weighted_gap_gradient, add_gap_gradient, fastmath=BATCH_FASTMATH)
    data_type = type_of(data)
    sums_type = type_of(sums)
    gap_gradient = nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR, VECTOR)
    bound_gradient = nb.void(VECTOR, sums_type, VECTOR)
    fast = functools.partial(kernel, fastmath=BATCH_FASTMATH)
    return CompiledBound(
        fast(gaps, log_terms_type(data_type).signature),
        fast(log_bound, nb.float64(VECTOR, sums_type)),
        data,
        sums,
        None if add_gap_gradient is None else fast(add_gap_gradient, gap_gradient),
        None if add_bound_gradient is None else fast(add_bound_gradient, bound_gradient),
    )


def linear_bound(X: np.ndarray, minorant: Minorant) -> CompiledBound:
    """Return the bound of a linear model with the predictors X (n, p), from the bounds of its rows in eta."""
    quadratic, linear, constant = minorant.coefficients
    Q = np.zeros((X.shape[1], X.shape[1]))
    for lo in range(0, X.shape[0], ROWS_PER_BLOCK):
        rows = X[lo : lo + ROWS_PER_BLOCK]
        Q += (rows * quadratic[lo : lo + ROWS_PER_BLOCK, None]).T @ rows
    sums = (Q, X.T @ linear, np.array([math.fsum(constant)]))
    return _compile_minorant((X,), sums, minorant, make_linear_gaps, make_add_linear_gap_gradient)


def bound_of_design(design: Design, minorant: Minorant) -> CompiledBound:
    """Return the bound of rows with one predictor of any design, from the bounds of the rows in eta.

    The bound a eta^2 + b eta + c of a row with eta = x_i' theta + o_i is a quadratic in x_i' theta, with coefficients
    a, b + 2 a o_i and c + b o_i + a o_i^2.
    """
    if design.is_dense:
        return linear_bound(design.X, minorant)
    quadratic, linear, constant = minorant.coefficients
    Q = np.zeros((design.dim, design.dim))
    slope = np.zeros(design.dim)
    constants = []
    for lo in range(0, design.n_rows, design.rows_per_summed_block):
        rows = slice(lo, lo + design.rows_per_summed_block)
        offset = design.eta(np.zeros(design.dim), rows)[0]
        a = quadratic[rows]
        b = linear[rows]
        Q += design.hessian(a[None, None], rows)
        slope += design.gradient((b + 2.0 * a * offset)[None], rows)
        constants.append(math.fsum(constant[rows] + (b + a * offset) * offset))
    sums = (Q, slope, np.array([math.fsum(constants)]))
    return _compile_minorant(design.arrays, sums, minorant, make_design_gaps, make_add_design_gap_gradient)


def _compile_minorant(
    arrays: tuple[np.ndarray, ...],
    sums: tuple[np.ndarray, ...],
    minorant: Minorant,
    make_gaps: Callable[..., Callable[..., None]],
    make_add_gap_gradient: Callable[..., Callable[..., None]],
) -> CompiledBound:
    """Compile a bound of rows with one predictor; `arrays` are those from which its kernels compute predictors."""
    touch = np.stack(np.broadcast_arrays(*minorant.touch), axis=1)
    return compile_bound(
        (*arrays, np.ascontiguousarray(touch, dtype=np.float64)),
        sums,
        closure(make_gaps, minorant.gap, fastmath=BATCH_FASTMATH),
        _quadratic,
        closure(make_add_gap_gradient, minorant.slope, fastmath=BATCH_FASTMATH),
        _add_quadratic_gradient,
        weights=minorant.weights,
    )


def check_kind(kind: str, kinds: tuple[str, ...], at: np.ndarray | None) -> None:
    """Raise if a target does not have this kind of bound, or a tuned bound has no theta to touch at."""
    if kind not in kinds:
        raise InvalidInputError(f"{speaker()}: bound must be one of {kinds}, found {kind!r}")
    if kind in ("tuned", "taylor") and at is None:
        raise InvalidInputError(f"{speaker()}: the bound {kind!r} needs the theta at which it touches the likelihood")
