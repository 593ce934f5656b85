"""Kernels of likelihoods that depend on K linear predictors; data = (*design, *responses).

A batch takes two steps. First `predict` writes the predictors of its rows one by one; only this step reads theta. The
second step, terms or slopes, is a function of predictors and responses only (`likelihood`), so its cost does not depend
on the dimension of theta.

The arrays of a design (`Design.arrays`) are

- X (n, p), the dense columns, and codes (n, C);
- spans: SPANS numbers for each predictor, which locate its parts in the other arrays;
- places: for each dense column the entry of theta that multiplies it;
- weight_columns: for each column of codes the column of X that multiplies its entries, or -1;
- shared, values: the entries of theta that all rows share, and their factors.

The last five have the shape (1, ...): arrays of data have rows along the first axis, and these have one row. The entry
`dim`, one past the end of theta, stands for an offset or a reference level: as a coefficient it is 1, as a code it adds
0.
"""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, allocating, compiled
from approxmcmc.engine.terms.batches import BATCH, Data, datum_at
from approxmcmc.targets.predictors.design import (
    DESIGN_ARRAYS,
    END_OF_CODES,
    END_OF_COLUMNS,
    END_OF_SHARED,
    FIRST_CODE,
    FIRST_COLUMN,
    FIRST_PLACE,
    FIRST_SHARED,
    SPANS,
)


@compiled(fastmath=set(BATCH_FASTMATH))
def read_coefficients(theta: np.ndarray, design: Data, k: int, coefs: np.ndarray) -> float:
    """Copy the coefficients of the dense columns of predictor k to `coefs`; return the part that all rows share."""
    _, _, spans, places, _, shared, values = design
    dim = theta.shape[0]
    width = spans[0, SPANS * k + END_OF_COLUMNS] - spans[0, SPANS * k + FIRST_COLUMN]
    first_place = spans[0, SPANS * k + FIRST_PLACE]
    for j in range(width):
        entry = places[0, first_place + j]
        coefs[j] = theta[entry] if entry < dim else 1.0
    common = 0.0
    for s in range(spans[0, SPANS * k + FIRST_SHARED], spans[0, SPANS * k + END_OF_SHARED]):
        entry = shared[0, s]
        coefficient = theta[entry] if entry < dim else 1.0
        common += values[0, s] * coefficient
    return common


@compiled(fastmath=set(BATCH_FASTMATH))
def add_coded(
    theta: np.ndarray, design: Data, k: int, order: np.ndarray, lo: int, hi: int, common: float, eta: np.ndarray
) -> None:
    """Add to `eta`, predictor k, the entries of theta that codes name, times their weights, and the number `common`."""
    X, codes, spans, _, weight_columns, _, _ = design
    dim = theta.shape[0]
    for i in range(hi - lo):
        eta[i] += common
    for c in range(spans[0, SPANS * k + FIRST_CODE], spans[0, SPANS * k + END_OF_CODES]):
        column = weight_columns[0, c]
        if column < 0:  # these codes have the weight 1
            for i in range(hi - lo):
                code = codes[datum_at(order, lo + i), c]
                eta[i] += theta[code] if code < dim else 0.0
        else:
            for i in range(hi - lo):
                datum = datum_at(order, lo + i)
                code = codes[datum, c]
                eta[i] += X[datum, column] * theta[code] if code < dim else 0.0


@compiled(fastmath=set(BATCH_FASTMATH))
def predict(
    theta: np.ndarray, design: Data, order: np.ndarray, lo: int, hi: int, coefs: np.ndarray, eta: np.ndarray
) -> None:
    """Write predictor k of the rows ``order[lo:hi]`` to ``eta[k, :hi - lo]``; `coefs` is scratch.

    It handles two rows at a time, as `approxmcmc.engine.terms.batches.linear_predictor` does: a coefficient that is
    loaded serves both.
    """
    X, _, spans, _, _, _, _ = design
    for k in range(eta.shape[0]):
        common = read_coefficients(theta, design, k, coefs)
        first = spans[0, SPANS * k + FIRST_COLUMN]
        width = spans[0, SPANS * k + END_OF_COLUMNS] - first
        out = eta[k]
        n_pairs = (hi - lo + 1) // 2
        if width == 0:  # a predictor of codes alone: no row of X is loaded
            n_pairs = 0
            for i in range(hi - lo):
                out[i] = 0.0
        for pair in range(n_pairs):
            i = lo + 2 * pair
            next_i = min(i + 1, hi - 1)  # the last row twice if their number is odd
            row = X[datum_at(order, i)]
            next_row = X[datum_at(order, next_i)]
            total = next_total = 0.0
            for j in range(width):
                total += row[first + j] * coefs[j]
                next_total += next_row[first + j] * coefs[j]
            out[i - lo] = total
            out[next_i - lo] = next_total
        add_coded(theta, design, k, order, lo, hi, common, out)


@compiled(fastmath=set(BATCH_FASTMATH))
def predict_both(
    theta: np.ndarray,
    proposed: np.ndarray,
    design: Data,
    memory_order: np.ndarray,
    lo: int,
    hi: int,
    coefs: np.ndarray,
    eta: np.ndarray,
    eta_proposed: np.ndarray,
) -> None:
    """Write the predictors of the rows lo ... hi - 1 at theta to `eta`, and at `proposed` to `eta_proposed`.

    The numbers are those of `predict`; `coefs` is scratch of two rows.
    """
    X, _, spans, _, _, _, _ = design
    coefs_current = coefs[0]
    coefs_proposed = coefs[1]
    for k in range(eta.shape[0]):
        common = read_coefficients(theta, design, k, coefs_current)
        common_proposed = read_coefficients(proposed, design, k, coefs_proposed)
        first = spans[0, SPANS * k + FIRST_COLUMN]
        width = spans[0, SPANS * k + END_OF_COLUMNS] - first
        out = eta[k]
        out_proposed = eta_proposed[k]
        for i in range(hi - lo):
            row = X[lo + i]
            total = total_proposed = 0.0
            for j in range(width):
                total += row[first + j] * coefs_current[j]
                total_proposed += row[first + j] * coefs_proposed[j]
            out[i] = total
            out_proposed[i] = total_proposed
        add_coded(theta, design, k, memory_order, lo, hi, common, out)
        add_coded(proposed, design, k, memory_order, lo, hi, common_proposed, out_proposed)


@compiled(fastmath=set(BATCH_FASTMATH))
def add_rows(
    slopes: np.ndarray, design: Data, order: np.ndarray, lo: int, hi: int, sums: np.ndarray, out: np.ndarray
) -> None:
    """Add the sum of the rows' gradients in theta to `out`.

    `slopes` (K, rows) are the derivatives of the rows' terms in their predictors; `sums` is scratch.
    """
    X, codes, spans, places, weight_columns, shared, values = design
    dim = out.shape[0]
    for k in range(slopes.shape[0]):
        slope = slopes[k]
        total = 0.0
        first = spans[0, SPANS * k + FIRST_COLUMN]
        width = spans[0, SPANS * k + END_OF_COLUMNS] - first
        first_place = spans[0, SPANS * k + FIRST_PLACE]
        for j in range(width):
            sums[j] = 0.0
        for i in range(hi - lo):
            total += slope[i]
        n_dense_rows = hi - lo if width > 0 else 0  # without dense columns no row of X is loaded
        for i in range(n_dense_rows):
            row = X[datum_at(order, lo + i)]
            for j in range(width):
                sums[j] += slope[i] * row[first + j]
        for j in range(width):
            entry = places[0, first_place + j]
            if entry < dim:
                out[entry] += sums[j]
        for s in range(spans[0, SPANS * k + FIRST_SHARED], spans[0, SPANS * k + END_OF_SHARED]):
            entry = shared[0, s]
            if entry < dim:
                out[entry] += values[0, s] * total
        for c in range(spans[0, SPANS * k + FIRST_CODE], spans[0, SPANS * k + END_OF_CODES]):
            column = weight_columns[0, c]
            for i in range(hi - lo):
                datum = datum_at(order, lo + i)
                code = codes[datum, c]
                if code < dim:
                    slope_of_entry = slope[i] if column < 0 else slope[i] * X[datum, column]
                    out[code] += slope_of_entry


class PredictorData(NamedTuple):
    """The data of a kernel: the arrays of the design, and those that the function of predictors reads."""

    design: Data
    responses: Data


@allocating
def predictor_data(data: Data) -> PredictorData:
    """Return the flat data of a kernel by name."""
    return PredictorData(data[:DESIGN_ARRAYS], data[DESIGN_ARRAYS:])


class ExpandedData(NamedTuple):
    """The data of a kernel of residuals, which have one more array: `numbers` of each row's quadratic."""

    design: Data
    responses: Data
    numbers: np.ndarray


@allocating
def expanded_data(data: Data) -> ExpandedData:
    """Return the flat data of a kernel of residuals by name."""
    return ExpandedData(data[:DESIGN_ARRAYS], data[DESIGN_ARRAYS:-1], data[-1])


@compiled
def n_columns(design: Data) -> int:
    """Return the number of dense columns, which is enough for the coefficients of any predictor."""
    X, _, _, _, _, _, _ = design
    return X.shape[1]


class FunctionOfPredictors(NamedTuple):
    """The number K of predictors, and a batch kernel that computes terms or slopes from predictors and responses.

    ``function(eta, responses, order, lo, hi, out)`` is compiled separately and called once a batch, so the code of this
    file is compiled once for all models.
    """

    n_predictors: int
    function: Any


def log_terms(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Write the terms of the rows ``order[lo:hi]``."""
    design, responses = predictor_data(data)
    eta = np.empty((known.n_predictors, hi - lo))
    coefs = np.empty(n_columns(design))
    predict(theta, design, order, lo, hi, coefs, eta)
    known.function(eta, responses, order, lo, hi, out)


def terms_at_both(
    theta: np.ndarray,
    proposed: np.ndarray,
    data: Data,
    lo: int,
    hi: int,
    current: np.ndarray,
    candidate: np.ndarray,
    known: FunctionOfPredictors,
) -> None:
    """Write the terms of the rows lo ... hi - 1 at theta to `current`, at `proposed` to `candidate`, in one pass."""
    design, responses = predictor_data(data)
    eta = np.empty((2, known.n_predictors, hi - lo))
    coefs = np.empty((2, n_columns(design)))
    memory_order = np.empty(0, dtype=np.int64)
    predict_both(theta, proposed, design, memory_order, lo, hi, coefs, eta[0], eta[1])
    known.function(eta[0], responses, memory_order, lo, hi, current)
    known.function(eta[1], responses, memory_order, lo, hi, candidate)


def add_gradient(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Add the sum of the gradients of the terms of ``order[lo:hi]``; ``known.function`` computes the slopes."""
    design, responses = predictor_data(data)
    coefs = np.empty(n_columns(design))
    for start in range(lo, hi, BATCH):
        stop = min(start + BATCH, hi)
        eta = np.empty((known.n_predictors, stop - start))
        slopes = np.empty((known.n_predictors, stop - start))
        predict(theta, design, order, start, stop, coefs, eta)
        known.function(eta, responses, order, start, stop, slopes)
        add_rows(slopes, design, order, start, stop, coefs, out)


@compiled(fastmath=set(BATCH_FASTMATH))
def subtract_quadratics(
    eta: np.ndarray, numbers: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Subtract f + g'd + d'H d / 2, d = eta - eta_hat, from `out`.

    A row of `numbers` is (eta_hat, f, g, H): the upper triangle of H, with halves on the diagonal.
    """
    n_predictors = eta.shape[0]
    for i in range(hi - lo):
        row = numbers[datum_at(order, lo + i)]
        fitted = row[n_predictors]
        entry = 2 * n_predictors + 1
        for k in range(n_predictors):
            delta = eta[k, i] - row[k]
            slope = row[n_predictors + 1 + k]
            for m in range(k, n_predictors):
                slope += row[entry] * (eta[m, i] - row[m])
                entry += 1
            fitted += delta * slope
        out[i] -= fitted


@compiled(fastmath=set(BATCH_FASTMATH))
def subtract_slopes(
    eta: np.ndarray, numbers: np.ndarray, order: np.ndarray, lo: int, hi: int, slopes: np.ndarray
) -> None:
    """Subtract the slopes g + H d of the quadratics of `subtract_quadratics` from `slopes` (K, rows)."""
    n_predictors = eta.shape[0]
    for i in range(hi - lo):
        row = numbers[datum_at(order, lo + i)]
        entry = 2 * n_predictors + 1
        for k in range(n_predictors):
            slopes[k, i] -= row[n_predictors + 1 + k]
            for m in range(k, n_predictors):  # slope of H_km d_k d_m, or of half of it if k = m
                slopes[k, i] -= row[entry] * (eta[m, i] - row[m])
                slopes[m, i] -= row[entry] * (eta[k, i] - row[k])
                entry += 1


def residuals(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Write the terms of the rows ``order[lo:hi]`` minus their quadratics, which the last array of the data holds."""
    design, responses, numbers = expanded_data(data)
    eta = np.empty((known.n_predictors, hi - lo))
    coefs = np.empty(n_columns(design))
    predict(theta, design, order, lo, hi, coefs, eta)
    known.function(eta, responses, order, lo, hi, out)
    subtract_quadratics(eta, numbers, order, lo, hi, out)


def add_residual_gradient(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Add the sum of the gradients of `residuals` of ``order[lo:hi]``; ``known.function`` computes slopes of terms."""
    design, responses, numbers = expanded_data(data)
    eta = np.empty((known.n_predictors, hi - lo))
    slopes = np.empty((known.n_predictors, hi - lo))
    coefs = np.empty(n_columns(design))
    predict(theta, design, order, lo, hi, coefs, eta)
    known.function(eta, responses, order, lo, hi, slopes)
    subtract_slopes(eta, numbers, order, lo, hi, slopes)
    add_rows(slopes, design, order, lo, hi, coefs, out)
