r"""Map the coordinates of a chain to the parameters of the groups: sums of products of factors.

.. math:: \phi_j = \sum_{m \to j} \alpha_m \prod_{f \in m} a_f(\theta),

Each factor is a coordinate of theta, its exponential, or its absolute value. A table says which, so that models which
differ only in their tables share compiled kernels. The table is stored with the data:
``places`` (1, F, 2) = coordinate and kind of each factor, ``products`` (1, M, 1 + D) = j and the factors of each
product, padded with -1, ``weights`` (1, M), and ``logs`` (1, n), 1 if phi_j is the logarithm of the sum.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import allocating
from approxmcmc.engine.terms.batches import Data

AS_IT_IS, EXP, ABS = 0, 1, 2
STEP, NEAR_0 = 1e-4, 1e-8  # step of differences, and the value that replaces a coordinate of 0


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
    """Return a table of factors (coordinate, kind), products (j, weight, factors) and which sums are logarithms."""
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
    """Return the value of each factor at theta: a coordinate, its exponential or its absolute value."""
    found = np.empty(places.shape[1])
    for f in range(places.shape[1]):
        value = theta[places[0, f, 0]]
        kind = places[0, f, 1]
        found[f] = math.exp(value) if kind == EXP else (abs(value) if kind == ABS else value)
    return found


@allocating
def add_factor_slopes(theta: np.ndarray, places: np.ndarray, slopes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out` the slopes in theta, given those in the factors."""
    for f in range(places.shape[1]):
        j, kind = places[0, f, 0], places[0, f, 1]
        out[j] += slopes[f] * (math.exp(theta[j]) if kind == EXP else (np.sign(theta[j]) if kind == ABS else 1.0))


@allocating
def sums_of(factors: np.ndarray, products: np.ndarray, weights: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return phi, the sums of products of factors."""
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


def make_phis(factors_of: Callable[..., np.ndarray]) -> Callable[..., None]:
    """Return the kernel that writes phi at each theta; `table` is the four arrays of a link."""

    def phis(thetas: np.ndarray, table: Data, out: np.ndarray) -> None:
        places, products, weights, logs = table
        for k in range(thetas.shape[0]):
            phi = sums_of(factors_of(thetas[k], places), products, weights, logs)
            for j in range(phi.shape[0]):
                out[k, j] = phi[j]

    return phis


def make_jacobian(factors_of: Callable[..., np.ndarray], add: Callable[..., None]) -> Callable[..., None]:
    """Return the function that writes phi and its derivatives in theta; shape (n, d)."""

    def jacobian(theta: np.ndarray, table: Data, phi: np.ndarray, out: np.ndarray) -> None:
        places, products, weights, logs = table
        factors = factors_of(theta, places)
        sums, unit = sums_of(factors, products, weights, logs), np.zeros(phi.shape[0])
        for j in range(phi.shape[0]):
            phi[j], unit[j], row = sums[j], 1.0, np.zeros(theta.shape[0])
            add(theta, places, slopes_in_factors(factors, sums, unit, products, weights, logs), row)
            for k in range(theta.shape[0]):
                out[j, k] = row[k]
            unit[j] = 0.0

    return jacobian


def make_derivatives(jacobian: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel that writes phi, its first derivatives (n, d), and, into zeros, differences of them (n, d, d).

    Terms that depend on an absolute value are even in it, so either side of 0 gives the derivatives at 0.
    """

    def derivatives(theta: np.ndarray, table: Data, phi: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        d, at = theta.shape[0], np.empty(theta.shape[0])
        for j in range(d):
            at[j] = theta[j] if theta[j] != 0.0 else NEAR_0
        for j in range(d):
            here, step = at[j], min(STEP, 0.5 * abs(at[j]))
            for sign in (1.0, -1.0):
                at[j] = here + sign * step
                jacobian(at, table, phi, first)
                for i in range(phi.shape[0]):
                    for k in range(d):  # half of the two derivatives that a symmetric matrix has at (j, k)
                        share = sign * first[i, k] / (4.0 * step)
                        second[i, k, j] += share
                        second[i, j, k] += share
            at[j] = here
        jacobian(at, table, phi, first)

    return derivatives


def make_linked_terms(core: Callable[..., None], factors_of: Callable[..., np.ndarray]) -> Callable[..., None]:
    """Return the kernel of terms in theta, from the kernel of terms in phi; the table is last among the data."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        places, products, weights, logs = data[-4:]
        phi = sums_of(factors_of(theta, places), products, weights, logs)
        core(phi, data[:-4], order, lo, hi, out)

    return log_terms


def make_linked_gradient(
    core: Callable[..., None], factors_of: Callable[..., np.ndarray], add_factor_slopes: Callable[..., None]
) -> Callable[..., None]:
    """Return the kernel that adds gradients in theta, from the kernel that adds gradients in phi."""

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        places, products, weights, logs = data[-4:]
        factors = factors_of(theta, places)
        phi = sums_of(factors, products, weights, logs)
        slopes = np.zeros(phi.shape[0])
        core(phi, data[:-4], order, lo, hi, slopes)
        add_factor_slopes(theta, places, slopes_in_factors(factors, phi, slopes, products, weights, logs), out)

    return add_gradient
