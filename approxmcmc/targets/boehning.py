"""Boehning's lower bound of a softmax likelihood, for Firefly.

It replaces the Hessian of the log partition function by an upper bound without theta. With
eta = (x' beta_1, ..., x' beta_K), lse(eta) = log sum_k exp(eta_k), t the datum's class, any eta_0,

    log B = eta_t - [lse(eta_0) + g'(eta - eta_0) + (eta - eta_0)' A (eta - eta_0) / 2],   g = softmax(eta_0),
    A = (I - 11'/K) / 2,

which touches the likelihood at eta_0. Sums of log B only need X'X, not a (K p, K p) matrix: A is the same for all data.
X is the design of one class: all classes have the same columns. A known offset o is a part of eta, so with
eta = o + delta the bound has the slope of delta less A o.

Reference: Boehning (1992), Multinomial logistic regression algorithm.
"""

import math

import numpy as np

from approxmcmc.contracts import CompiledBound
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.numerics import exp_to_700
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.families.categorical import log_sum_exp
from approxmcmc.targets.likelihood_bounds import ROWS_PER_BLOCK, compile_bound
from approxmcmc.targets.predictors.classes import predict_classes
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import add_rows, n_columns, predict, predictor_data


def boehning_bound(
    design: Design,
    y: np.ndarray,
    theta_0: np.ndarray,
    places: np.ndarray,
    *,
    shares_columns: bool,
    weights: np.ndarray | None = None,
) -> CompiledBound:
    """Return the bound of rows of the classes y (n,) that touches the likelihood at theta_0.

    ``places[k]`` are the entries of theta that class k reads, in the same order for each class, shape (K, p).
    `shares_columns` says that theta is (beta_1 ... beta_K), and eta_k = X beta_k. Known `weights` (n,) of rows multiply
    terms and bounds.
    """
    eta_0 = design.X @ theta_0.reshape(places.shape).T if shares_columns else design.of_all_rows(theta_0).T
    n = len(eta_0)
    largest = eta_0.max(axis=1, keepdims=True)
    log_partition = np.log(np.exp(eta_0 - largest).sum(axis=1)) + largest[:, 0]
    gradient = np.exp(eta_0 - log_partition[:, None])
    centred = eta_0 - eta_0.mean(axis=1, keepdims=True)  # 2 A eta_0
    linear = -gradient + 0.5 * centred
    linear[np.arange(n), y] += 1.0
    constant = (gradient * eta_0).sum(axis=1) - log_partition - 0.25 * (centred * eta_0).sum(axis=1)
    touch = np.ascontiguousarray(np.column_stack([log_partition, eta_0, gradient]))
    if weights is not None:
        linear *= weights[:, None]
        constant *= weights
    if shares_columns:
        slope = (linear.T @ design.X).ravel()
        data: Data = (design.X, touch)
        gaps = gaps_of_columns
        add_gap_gradient = add_gap_gradient_of_columns
    else:
        offsets = design.of_all_rows(np.zeros(design.dim)).T
        in_offset = 0.5 * (offsets - offsets.mean(axis=1, keepdims=True))  # A o
        if weights is not None:
            in_offset *= weights[:, None]
        constant += ((linear - 0.5 * in_offset) * offsets).sum(axis=1)
        slope = _slope(design, linear - in_offset)[places.ravel()]
        data = (*design.arrays, touch)
        gaps = gaps_of_design
        add_gap_gradient = add_gap_gradient_of_design
    sums = (
        _gram(design, places, weights, shares_columns=shares_columns),
        slope,
        np.array([math.fsum(constant)]),
        places.ravel(),
    )
    return compile_bound(data, sums, gaps, sum_of_bounds, add_gap_gradient, add_gradient_of_sum, weights=weights)


def _gram(design: Design, places: np.ndarray, weights: np.ndarray | None, *, shares_columns: bool) -> np.ndarray:
    """Return X'X, X the design of one class, or X'WX with the weights of rows; shape (p, p)."""
    gram = np.zeros((places.shape[1], places.shape[1]))
    run = ROWS_PER_BLOCK if shares_columns else design.rows_at_a_time
    for lo in range(0, design.n_rows, run):
        block = slice(lo, lo + run)
        if shares_columns:
            rows = np.asarray(design.X[block], np.float64)
        else:
            rows = design.matrix_of(design.predictors[0], block)[:, places[0]]
        gram += rows.T @ (rows if weights is None else weights[block, None] * rows)
    return gram


def _slope(design: Design, linear: np.ndarray) -> np.ndarray:
    """Return the sum over rows of the gradients of linear[i, k] eta_ik; shape (dim,)."""
    run = design.rows_per_summed_block
    parts = [design.gradient(linear[lo : lo + run].T, slice(lo, lo + run)) for lo in range(0, design.n_rows, run)]
    return np.sum(parts, axis=0)


# --- gaps, given predictors eta (K, rows); a row of `touch` is lse(eta_0), then eta_0 and g of every class; `work`
# (3, rows) is scratch, which functions that kernels call cannot allocate ---


@compiled(fastmath=set(BATCH_FASTMATH))
def write_gaps(
    eta: np.ndarray, work: np.ndarray, touch: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write lse(eta_0) + g'delta + delta' A delta / 2 - lse(eta), delta = eta - eta_0: the gap for every response."""
    n_classes = eta.shape[0]
    log_sum_exp(eta, hi - lo, work[0], work[1])
    total = work[0]
    square = work[2]
    for i in range(hi - lo):
        row = datum_at(order, lo + i)
        out[i] = touch[row, 0] - work[1, i]
        total[i] = square[i] = 0.0
        for k in range(n_classes):
            delta = eta[k, i] - touch[row, 1 + k]
            total[i] += delta
            square[i] += delta * delta
            out[i] += touch[row, 1 + n_classes + k] * delta
    for i in range(hi - lo):
        out[i] += 0.25 * (square[i] - total[i] * total[i] / n_classes)


@compiled(fastmath=set(BATCH_FASTMATH))
def write_slopes(
    eta: np.ndarray,
    work: np.ndarray,
    touch: np.ndarray,
    order: np.ndarray,
    lo: int,
    hi: int,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the slopes of the gaps in eta, times `weights`, to `out` (K, rows)."""
    n_classes = eta.shape[0]
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        row = datum_at(order, lo + i)
        mean = 0.0
        for k in range(n_classes):
            mean += (eta[k, i] - touch[row, 1 + k]) / n_classes
        for k in range(n_classes):
            slope = touch[row, 1 + n_classes + k] - exp_to_700(eta[k, i] - work[1, i])
            out[k, i] = weights[i] * (slope + 0.5 * (eta[k, i] - touch[row, 1 + k] - mean))


def gaps_of_columns(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the gaps of the rows ``order[lo:hi]``; data = (X, touch), and classes share the columns of X."""
    X, touch = data
    eta = np.empty((theta.shape[0] // X.shape[1], hi - lo))
    predict_classes(theta, X, order, lo, hi, eta)
    write_gaps(eta, np.empty((3, hi - lo)), touch, order, lo, hi, out)


def gaps_of_design(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the gaps of the rows ``order[lo:hi]``; data = (*design, touch)."""
    design, (touch,) = predictor_data(data)
    eta = np.empty(((touch.shape[1] - 1) // 2, hi - lo))
    predict(theta, design, order, lo, hi, np.empty(n_columns(design)), eta)
    write_gaps(eta, np.empty((3, hi - lo)), touch, order, lo, hi, out)


def add_gap_gradient_of_columns(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
) -> None:
    """Add the sum of the weighted gradients of the gaps of ``order[lo:hi]``; data = (X, touch)."""
    X, touch = data
    p = X.shape[1]
    eta = np.empty((theta.shape[0] // p, hi - lo))
    slopes = np.empty_like(eta)
    predict_classes(theta, X, order, lo, hi, eta)
    write_slopes(eta, np.empty((3, hi - lo)), touch, order, lo, hi, weights, slopes)
    for position in range(lo, hi):
        row = datum_at(order, position)
        for k in range(eta.shape[0]):
            for j in range(p):
                out[k * p + j] += slopes[k, position - lo] * X[row, j]


def add_gap_gradient_of_design(
    theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
) -> None:
    """Add the sum of the weighted gradients of the gaps of ``order[lo:hi]``; data = (*design, touch)."""
    design, (touch,) = predictor_data(data)
    eta = np.empty(((touch.shape[1] - 1) // 2, hi - lo))
    slopes = np.empty_like(eta)
    coefs = np.empty(n_columns(design))
    predict(theta, design, order, lo, hi, coefs, eta)
    write_slopes(eta, np.empty((3, hi - lo)), touch, order, lo, hi, weights, slopes)
    add_rows(slopes, design, order, lo, hi, coefs, out)


# --- the sum of the bounds ---


@compiled(fastmath=set(BATCH_FASTMATH))
def write_coefficients(theta: np.ndarray, places: np.ndarray, beta: np.ndarray, mean: np.ndarray) -> None:
    """Write (beta_1 ... beta_K), one after the other, to `beta`, and add the mean of the beta_k to `mean`."""
    p = mean.shape[0]
    n_classes = places.shape[0] // p
    for j in range(places.shape[0]):
        beta[j] = theta[places[j]]
    for k in range(n_classes):
        for j in range(p):
            mean[j] += beta[k * p + j] / n_classes


def sum_of_bounds(theta: np.ndarray, sums: Data) -> float:
    """Return sum_i log B_i(theta)."""
    gram, linear, constant, places = sums
    p = gram.shape[0]
    beta = np.empty(places.shape[0])
    mean = np.zeros(p)
    write_coefficients(theta, places, beta, mean)
    total = constant[0]
    for j in range(beta.shape[0]):
        total += linear[j] * beta[j]
    for k in range(beta.shape[0] // p):
        for i in range(p):
            row = 0.0
            for j in range(p):
                row += gram[i, j] * (beta[k * p + j] - mean[j])
            total -= 0.25 * row * (beta[k * p + i] - mean[i])
    return total


def add_gradient_of_sum(theta: np.ndarray, sums: Data, out: np.ndarray) -> None:
    """Add the gradient of `sum_of_bounds` to `out`."""
    gram, linear, _, places = sums
    p = gram.shape[0]
    beta = np.empty(places.shape[0])
    mean = np.zeros(p)
    write_coefficients(theta, places, beta, mean)
    for k in range(beta.shape[0] // p):
        for i in range(p):
            row = 0.0
            for j in range(p):
                row += gram[i, j] * (beta[k * p + j] - mean[j])
            out[places[k * p + i]] += linear[k * p + i] - 0.5 * row
