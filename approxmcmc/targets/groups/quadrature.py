r"""A group's integral over its effect by Gauss-Hermite quadrature around the mode of the integrand.

.. math:: \ell_g(\beta, \sigma) = \log \int \phi(z) \prod_i p(y_i \mid x_i' \beta + \sigma z)\, dz
          \approx \log \sum_k w_k\, e^{h_k^2} \sqrt 2\, s\, \phi(z_k) \prod_i p(y_i \mid x_i' \beta + \sigma z_k),

:math:`z_k = \hat z + \sqrt 2 s h_k` (Liu and Pierce 1994; Pinheiro and Bates 1995). Mode and width move with theta:
some Newton steps from a start that is predicted from what is stored of the group, so that the sum is one function of
theta. Nodes that stay where they were are wrong by tens to thousands of nats where counts are large or sigma is small.

The start is where the group's score, expanded at its mode b* = sigma* z* at the centre, meets the prior of z: with the
information I and c = score(b*) + I b*, it is z = sigma c / (1 + sigma^2 I), which holds for every sigma, 0 among them.

Data: X (1, N, p), responses (1, N, 2) sorted by group; spans (G, 2) from row to row; starts (G, 2) = (c, I); the rule
(1, K, 2) = (sqrt(2) h, log(w exp(h^2) sqrt(2))); the number of Newton steps (1, 1). What has one entry on the first
axis is never shuffled with the groups.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import Data, datum_at

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
LONGEST_STEP = 2.0  # in eta: the curvature of a logit or a Poisson term changes by a factor of 7 at most
ARRIVED = 1e-9  # posterior standard deviations of z and less: another step would move no sum by more than rounding


def gauss_hermite(n_nodes: int) -> np.ndarray:
    """Return sqrt(2) h_k and log(w_k exp(h_k^2) sqrt(2)); shape (1, K, 2)."""
    from scipy.special import roots_hermite

    h, w = roots_hermite(n_nodes)
    return np.column_stack([math.sqrt(2.0) * h, np.log(w) + h * h + 0.5 * math.log(2.0)])[None]


@compiled
def predictor(theta: np.ndarray, X: np.ndarray, lo: int, hi: int, eta: np.ndarray) -> None:
    """Write x_i' beta of the rows lo ... hi - 1."""
    for i in range(lo, hi):
        total = 0.0
        for j in range(X.shape[2]):
            total += X[0, i, j] * theta[j]
        eta[i - lo] = total


def make_newton(derivatives: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float, float, float]]:
    """Return what finds the mode of a group's integrand: (z, its width s, score and information in b = sigma z)."""

    def newton(
        eta: np.ndarray, responses: np.ndarray, lo: int, n: int, sigma: float, z: float, steps: int
    ) -> tuple[float, float, float, float]:
        longest = LONGEST_STEP / max(sigma, 1e-300)
        curvature, score, information = 1.0, 0.0, 0.0
        for _ in range(steps):
            score = information = 0.0
            for i in range(n):
                slope, bend = derivatives(eta[i] + sigma * z, responses[0, lo + i, 0], responses[0, lo + i, 1])
                score += slope
                information -= bend
            curvature = 1.0 + sigma * sigma * information
            step = (sigma * score - z) / curvature
            z += min(max(step, -longest), longest)
            if abs(step) < ARRIVED:
                break
        return z, 1.0 / math.sqrt(curvature), score, information

    return newton


def make_nodes(term: Callable[..., float], newton: Callable[..., Any]) -> Callable[..., float]:
    """Return what places the nodes of a group: it writes the z_k and their log weights, and returns l_g."""

    def nodes(
        eta: np.ndarray,
        responses: np.ndarray,
        lo: int,
        n: int,
        sigma: float,
        start: np.ndarray,
        rule: np.ndarray,
        steps: int,
        z: np.ndarray,
        weight: np.ndarray,
    ) -> float:
        middle, width, _, _ = newton(
            eta, responses, lo, n, sigma, sigma * start[0] / (1.0 + sigma * sigma * start[1]), steps
        )
        log_width, best = math.log(width), -math.inf
        for k in range(rule.shape[1]):
            z[k] = middle + width * rule[0, k, 0]
            shift, total = sigma * z[k], 0.0
            for i in range(n):
                total += term(eta[i] + shift, responses[0, lo + i, 0], responses[0, lo + i, 1])
            weight[k] = total + rule[0, k, 1] + log_width - 0.5 * z[k] * z[k] - HALF_LOG_2_PI
            best = max(best, weight[k])
        mass = 0.0
        for k in range(rule.shape[1]):
            mass += math.exp(weight[k] - best)
        return best + math.log(mass) if best > -math.inf else best

    return nodes


@compiled
def largest_group(spans: np.ndarray, order: np.ndarray, lo: int, hi: int) -> int:
    """Return the rows of the largest of some groups."""
    largest = 0
    for place in range(lo, hi):
        g = datum_at(order, place)
        largest = max(largest, spans[g, 1] - spans[g, 0])
    return largest


def make_log_terms(nodes: Callable[..., float]) -> Callable[..., None]:
    """Return the kernel of the terms l_g."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        X, responses, spans, starts, rule, steps = data
        eta = np.empty(largest_group(spans, order, lo, hi))
        z, weight = np.empty(rule.shape[1]), np.empty(rule.shape[1])
        sigma = abs(theta[X.shape[2]])
        for place in range(lo, hi):
            g = datum_at(order, place)
            first, last = spans[g, 0], spans[g, 1]
            predictor(theta, X, first, last, eta)
            out[place - lo] = nodes(eta, responses, first, last - first, sigma, starts[g], rule, steps[0, 0], z, weight)

    return log_terms


def make_add_gradient(nodes: Callable[..., float], derivatives: Callable[..., Any]) -> Callable[..., None]:
    """Return the kernel that adds the gradients of terms, by Fisher's identity.

    It is the mean of the gradient of the complete data over the effect given the data. The derivatives of the nodes
    are ignored: an error of the order of the quadrature's.
    """

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        X, responses, spans, starts, rule, steps = data
        p = X.shape[2]
        eta = np.empty(largest_group(spans, order, lo, hi))
        z, weight = np.empty(rule.shape[1]), np.empty(rule.shape[1])
        sigma = abs(theta[p])
        for place in range(lo, hi):
            g = datum_at(order, place)
            first, last = spans[g, 0], spans[g, 1]
            predictor(theta, X, first, last, eta)
            value = nodes(eta, responses, first, last - first, sigma, starts[g], rule, steps[0, 0], z, weight)
            for k in range(rule.shape[1]):
                weight[k] = math.exp(weight[k] - value)
            in_scale = 0.0
            for i in range(first, last):
                slope = 0.0
                for k in range(rule.shape[1]):
                    at_node = (
                        weight[k]
                        * derivatives(eta[i - first] + sigma * z[k], responses[0, i, 0], responses[0, i, 1])[0]
                    )
                    slope += at_node
                    in_scale += at_node * z[k]
                for j in range(p):
                    out[j] += slope * X[0, i, j]
            out[p] += in_scale * np.sign(theta[p])

    return add_gradient


def make_refit(newton: Callable[..., Any]) -> Callable[..., None]:
    """Return the kernel that writes the starts of groups: where the expansion of their scores at theta is stored."""

    def refit(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        X, responses, spans, starts, _, steps = data
        eta = np.empty(largest_group(spans, order, lo, hi))
        sigma = abs(theta[X.shape[2]])
        for place in range(lo, hi):
            g = datum_at(order, place)
            first, last = spans[g, 0], spans[g, 1]
            predictor(theta, X, first, last, eta)
            guess = sigma * starts[g, 0] / (1.0 + sigma * sigma * starts[g, 1])
            z, _, _, _ = newton(eta, responses, first, last - first, sigma, guess, steps[0, 0])
            _, _, score, information = newton(eta, responses, first, last - first, sigma, z, 1)
            out[2 * (place - lo)] = score + information * sigma * z
            out[2 * (place - lo) + 1] = information

    return refit
