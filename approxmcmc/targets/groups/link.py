r"""Map the coordinates of a chain to the parameters of the groups: sums of products of factors.

.. math:: \phi_j = \sum_{m \to j} \alpha_m \prod_{f \in m} a_f(\theta),

Each factor is a function of one coordinate t of theta: t, exp(t), abs(t), or one of two that stay between 0 and 1,
abs(tanh(t / 2)) and 1 / (1 + exp(-t)). A table says which, so that models which differ only in their tables share
compiled kernels. The table is stored with the data: ``places`` (1, F, 2) = coordinate and kind of each factor,
``products`` (1, M, 1 + D) = j and the factors of each product, at most D, padded with -1, ``weights`` (1, M) = alpha_m,
and ``logs`` (1, n), 1 if phi_j is the logarithm of the sum.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import allocating
from approxmcmc.engine.numerics import bounded_exp
from approxmcmc.engine.terms.batches import Data

AS_IT_IS = 0
EXP = 1
ABS = 2
ABS_TANH = 3
EXPIT = 4
"""Kinds of factors. The last two are the share of a positive variable in its upper bound."""

STEP = 1e-4  # step of differences
NEAR_0 = 1e-8  # replaces a coordinate of 0


class Link(NamedTuple):
    """The table of a link, as arrays that are stored with the data."""

    places: np.ndarray
    products: np.ndarray
    weights: np.ndarray
    logs: np.ndarray


def link(
    places: Sequence[tuple[int, int]],
    products: Sequence[tuple[int, float, Sequence[int]]],
    logs: Sequence[bool],
) -> Link:
    """Return the table of a link, see the module.

    `places` holds (coordinate, kind) of each factor, `products` (j, weight, indices of factors) of each product, `logs`
    whether phi_j is the logarithm of its sum.
    """
    degree = max([1, *(len(factors) for _, _, factors in products)])
    rows = [[j, *factors, *[-1] * (degree - len(factors))] for j, _, factors in products]
    return Link(
        np.array(places, dtype=np.int64).reshape(1, len(places), 2),
        np.array(rows, dtype=np.int64).reshape(1, len(rows), 1 + degree),
        np.array([[weight for _, weight, _ in products]], dtype=np.float64),
        np.array([logs], dtype=np.int64),
    )


@allocating
def factors_of(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the value at theta of each factor in `places`, by its kind."""
    factors = np.empty(places.shape[1])
    for f in range(places.shape[1]):
        value = theta[places[0, f, 0]]
        kind = places[0, f, 1]
        if kind == EXP:
            factors[f] = bounded_exp(value)
        elif kind == ABS:
            factors[f] = abs(value)
        elif kind == ABS_TANH:
            factors[f] = abs(math.tanh(0.5 * value))
        elif kind == EXPIT:
            factors[f] = 0.5 + 0.5 * math.tanh(0.5 * value)
        else:
            factors[f] = value
    return factors


@allocating
def add_factor_slopes(theta: np.ndarray, places: np.ndarray, slopes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out` (d,) the derivatives of a function in theta, given its derivatives in the factors, `slopes` (F,)."""
    for f in range(places.shape[1]):
        j = places[0, f, 0]
        kind = places[0, f, 1]
        if kind == EXP:
            slope = bounded_exp(theta[j])
        elif kind == ABS:
            slope = np.sign(theta[j])
        elif kind == ABS_TANH:
            slope = np.sign(theta[j]) * 0.5 * (1.0 - math.tanh(0.5 * theta[j]) ** 2)
        elif kind == EXPIT:
            slope = 0.25 * (1.0 - math.tanh(0.5 * theta[j]) ** 2)
        else:
            slope = 1.0
        out[j] += slopes[f] * slope


@allocating
def sums_of(factors: np.ndarray, products: np.ndarray, weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return phi (n,), the sums of products of the given `factors`, or their logarithms; see the module."""
    phi = np.zeros(logs.shape[1])
    for m in range(products.shape[1]):
        product = weights[0, m]
        for k in range(1, products.shape[2]):
            if products[0, m, k] >= 0:
                product *= factors[products[0, m, k]]
        phi[products[0, m, 0]] += product
    for j in range(logs.shape[1]):
        if logs[0, j]:
            phi[j] = math.log(phi[j])
    return phi


@allocating
def slopes_in_factors(
    factors: np.ndarray,
    phi: np.ndarray,
    slopes: np.ndarray,
    products: np.ndarray,
    weights: np.ndarray,
    logs: np.ndarray,
) -> np.ndarray:
    """Return the derivative of a function of phi in each factor, given its derivatives in phi (`slopes`)."""
    found = np.zeros(factors.shape[0])
    for m in range(products.shape[1]):
        j = products[0, m, 0]
        slope = weights[0, m] * slopes[j]
        if logs[0, j]:
            slope /= math.exp(phi[j])
        for k in range(1, products.shape[2]):
            if products[0, m, k] >= 0:
                others = slope
                for n in range(1, products.shape[2]):
                    if n != k and products[0, m, n] >= 0:
                        others *= factors[products[0, m, n]]
                found[products[0, m, k]] += others
    return found


def values_of(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return what `factors_of` computes, in NumPy, for one theta or many; shape (..., F)."""
    values = theta[..., places[0, :, 0]]
    kind = places[0, :, 1]
    values = np.where(kind == ABS, np.abs(values), values)
    bounded = np.tanh(0.5 * values)
    values = np.where(kind == ABS_TANH, np.abs(bounded), values)
    values = np.where(kind == EXPIT, 0.5 + 0.5 * bounded, values)
    return np.exp(values, out=values, where=kind == EXP)


def slopes_in_theta(theta: np.ndarray, places: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the derivatives of n functions in theta (n, d), given those in the factors, `slopes` (n, F)."""
    coordinate, kind = places[0].T
    of_theta = np.zeros((len(theta), len(slopes)))
    values = theta[coordinate]
    own = np.where(kind == ABS, np.sign(values), 1.0)
    bounded = 0.5 * (1.0 - np.tanh(0.5 * values) ** 2)
    own = np.where(kind == ABS_TANH, np.sign(values) * bounded, own)
    own = np.where(kind == EXPIT, 0.5 * bounded, own)
    np.exp(values, out=own, where=kind == EXP)
    np.add.at(of_theta, coordinate, (slopes * own).T)
    return of_theta.T


def phi_of(factors: np.ndarray, products: np.ndarray, weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return what `sums_of` computes, in NumPy; shape (..., n)."""
    j = products[0, :, 0]
    phi = np.zeros((*factors.shape[:-1], logs.shape[1]))
    np.add.at(phi.T, j, (weights[0] * _chosen(factors, products).prod(axis=-1)).T)
    return np.log(phi, out=phi, where=logs[0] == 1)


def slopes_of_phi(
    factors: np.ndarray, phi: np.ndarray, products: np.ndarray, weights: np.ndarray, logs: np.ndarray
) -> np.ndarray:
    """Return the derivatives of phi in the factors; shape (n, F)."""
    j = products[0, :, 0]
    chosen = _chosen(factors, products)
    scale = (weights[0] / np.exp(phi, out=np.ones(len(phi)), where=logs[0] == 1)[j])[:, None]
    of_factors = np.zeros((len(phi), len(factors) + 1))  # the last column receives the padding
    for k in range(chosen.shape[1]):
        others = np.delete(chosen, k, axis=1).prod(axis=1, keepdims=True)
        np.add.at(of_factors, (j, products[0, :, 1 + k]), (scale * others)[:, 0])
    return of_factors[:, :-1]


def _chosen(factors: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Return the factors of each product, padded with 1; shape (..., M, D)."""
    ones = np.ones((*factors.shape[:-1], 1))
    return np.concatenate([factors, ones], axis=-1)[..., products[0, :, 1:]]


def make_linked_terms(core: Callable[..., None], factors_of: Callable[..., np.ndarray]) -> Callable[..., None]:
    """Return the kernel of terms in theta, from `core`, that in phi; the last four arrays of its data are the table."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        places, products, weights, logs = data[-4:]
        phi = sums_of(factors_of(theta, places), products, weights, logs)
        core(phi, data[:-4], order, lo, hi, out)

    return log_terms


def make_linked_gradient(
    core: Callable[..., None], factors_of: Callable[..., np.ndarray], add_factor_slopes: Callable[..., None]
) -> Callable[..., None]:
    """Return the kernel that adds gradients in theta, from `core`, that in phi; its data end with the table."""

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        places, products, weights, logs = data[-4:]
        factors = factors_of(theta, places)
        phi = sums_of(factors, products, weights, logs)
        slopes = np.zeros(phi.shape[0])
        core(phi, data[:-4], order, lo, hi, slopes)
        add_factor_slopes(theta, places, slopes_in_factors(factors, phi, slopes, products, weights, logs), out)

    return add_gradient
