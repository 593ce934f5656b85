"""Student-t errors of known degrees of freedom: (y - eta) / scale ~ t_df. The scale is known, or the family's shape.

With r the residual in units of the scale, the log density is -((df + 1) / 2) log(1 + r^2 / df) plus a constant, which
terms include. Its lower bounds, "tuned" and "untuned", are tangents in r^2: alpha r^2 + c with
alpha = -((df + 1) / 2) / (df + xi^2); they touch at r = xi and r = -xi.

Reference: Maclaurin and Adams (2014), Firefly Monte Carlo, section 4.3.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import closure
from approxmcmc.families.family import (
    Family,
    Form,
    Minorant,
    Pair,
    Partials,
    PyMCFamily,
    make_of_pair,
    no_constants,
)
from approxmcmc.families.normal import of_row

LARGEST_THIRD = (3.0 + 2.0 * math.sqrt(2.0)) / 4.0  # largest third derivative of log(1 + t^2) / 2
LARGEST_MIXED = 0.75 * math.sqrt(3.0)  # largest 4 r / (1 + r^2)^2
LARGEST_THIRD_MIXED = 1.7392  # bound of 8 r (1 - r^2) / (1 + r^2)^3, which is largest at r = 0.366
# xi of the untuned minorant, in units of the scale: Firefly evaluates a row with |r| <= 1 with a probability below .06
# for df >= 4, and below .18 for df = 1.
UNTUNED = 1.0


def student_t(df: float, scale: float) -> Family:
    """Return the family of errors with these degrees of freedom and this scale, both positive."""
    half = 0.5 * (df + 1.0)
    constant = math.lgamma(half) - math.lgamma(0.5 * df) - (0.5 * math.log(math.pi * df) + math.log(scale))
    pair = Pair(*student_term(df, scale, constant))
    # The derivatives of log(1 + t^2) / 2, t = r / sqrt(df), are largest at t = 1, 0 and sqrt(2) - 1.
    unit = scale * math.sqrt(df)
    bounds = (half / unit, 2.0 * half / unit**2, 2.0 * half * LARGEST_THIRD / unit**3)

    def tuned(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
        return student_minorant(y, (y - eta_0) / scale, df, scale, constant)

    def untuned(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
        return student_minorant(y, np.full(len(y), UNTUNED), df, scale, constant)

    def mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
        return eta

    def simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
        return eta + scale * rng.standard_t(df, size=np.shape(eta))

    def observe(name: str, eta: Any, y: np.ndarray, size: Any = 1.0, shape: float = 1.0) -> Any:
        import pymc as pm

        return pm.StudentT(name, nu=df, mu=eta, sigma=scale, observed=y)

    return Family(
        "student t",
        closure(make_of_pair, pair.term),
        closure(make_of_pair, pair.derivatives),
        no_constants,
        "any number",
        lambda y, size: np.isfinite(y),
        pair,
        slope_bound=bounds[0],
        second_derivative_bound=bounds[1],
        third_derivative_bound=bounds[2],
        minorants={"tuned": tuned, "untuned": untuned},
        mean=mean if df > 1.0 else None,  # Student-t errors with df of 1 or less have no mean
        simulate=simulate,
        twin=PyMCFamily("StudentT", "identity", observe),
    )


def student_t_errors(df: float) -> Family:
    """Return the family of errors with these degrees of freedom; its shape is their scale."""
    half = 0.5 * (df + 1.0)
    constant = math.lgamma(half) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)

    def term(eta: float, y: float, size: float, shape: float) -> float:
        r = (y - eta) / shape
        return -half * math.log1p(r * r / df)

    def derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
        r = (y - eta) / shape
        weight = 2.0 * half / ((df + r * r) * shape)
        return weight * r, weight * (r * r - df) / ((df + r * r) * shape)

    def in_shape(eta: float, y: float, size: float, shape: float) -> float:
        r = (y - eta) / shape
        return 2.0 * half * r * r / (df + r * r)

    def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
        r = (y - eta) / shape
        curvature = -4.0 * half * df * r / (df + r * r) ** 2
        return curvature / shape, curvature * r

    def partials_within(
        order: int,
        eta: np.ndarray,
        y: np.ndarray,
        log_shape: np.ndarray,
        reach: np.ndarray,
        reach_of_shape: np.ndarray,
    ) -> Partials:
        # With k = exp(-s) / sqrt(df) and r = k (y - eta), each is k^(number of derivatives in eta), times the largest
        # value of a function of r; functions and constants are those of half log(1 + r^2).
        k = np.exp(reach_of_shape - log_shape) / math.sqrt(df)
        if order == 2:
            return 2.0 * half * k**2, half * LARGEST_MIXED * k, np.full(np.shape(eta), half)
        return (
            2.0 * half * LARGEST_THIRD * k**3,
            4.0 * half * k**2,
            half * LARGEST_THIRD_MIXED * k,
            np.full(np.shape(eta), 8.0 * half / (6.0 * math.sqrt(3.0))),
        )

    def constants(y: np.ndarray, size: np.ndarray) -> Any:
        return np.full_like(y, constant)

    def mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
        return eta

    def simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
        return eta + shape * rng.standard_t(df, size=np.shape(eta))

    def observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
        import pymc as pm

        return pm.StudentT(name, nu=df, mu=eta, sigma=shape, observed=y)

    return Family(
        "student t",
        term,
        derivatives,
        constants,
        "any number",
        lambda y, size: np.isfinite(y),
        in_shape=in_shape,
        of_row=of_row,
        second_in_shape=second_in_shape,
        partials_within=partials_within,
        mean=mean if df > 1.0 else None,
        simulate=simulate,
        twin=PyMCFamily("StudentT", "identity", observe),
    )


def _read(graphs: Any, nu: Any, mu: Any, sigma: Any) -> Any:
    """Degrees of freedom must be known. With a known scale too the family has bounds of derivatives, and minorants."""
    df = graphs.number(nu)
    scale = graphs.number(sigma)
    if df is None:
        return None
    if scale is None:
        return graphs.of_predictor(student_t_errors(df), mu, graphs.product(sigma))
    return graphs.of_predictor(student_t(df, scale), mu)


FORMS = (Form("StudentT", "a known nu, mu = a linear predictor, and sigma", _read),)


def student_term(df: float, scale: float, constant: float) -> tuple[Callable[..., float], Callable[..., Any]]:
    """Return two functions of (eta, y): log p(y | eta), and the pair of its first two derivatives in eta."""
    half = 0.5 * (df + 1.0)
    per_scale = 1.0 / scale

    def loglik_eta(eta: float, y: float) -> float:
        r = per_scale * (y - eta)
        return constant - half * math.log1p(r * r / df)

    def derivatives(eta: float, y: float) -> tuple[float, float]:
        r = per_scale * (y - eta)
        weight = 2.0 * half * per_scale / (df + r * r)
        return weight * r, weight * per_scale * (r * r - df) / (df + r * r)

    return loglik_eta, derivatives


def student_coefficients(xi: np.ndarray, df: float) -> tuple[np.ndarray, np.ndarray]:
    """Return alpha and c of the bound of -((df + 1) / 2) log(1 + r^2 / df) that touches at r = xi and r = -xi."""
    half = 0.5 * (df + 1.0)
    square = np.asarray(xi, dtype=np.float64) ** 2
    alpha = -half / (df + square)
    return alpha, -alpha * square - half * np.log1p(square / df)


def student_minorant(y: np.ndarray, xi: np.ndarray, df: float, scale: float, constant: float) -> Minorant:
    """Return the bounds that touch the terms where the residuals, in units of the scale, are xi and -xi.

    `constant` is the log density of a residual of 0.
    """
    alpha, c = student_coefficients(xi, df)
    half = 0.5 * (df + 1.0)
    per_scale = 1.0 / scale

    def gap(eta: float, response: float, alpha: float, c: float) -> float:
        r = per_scale * (response - eta)
        return -half * math.log1p(r * r / df) - alpha * r * r - c

    def slope(eta: float, response: float, alpha: float, c: float) -> float:
        r = per_scale * (response - eta)
        return per_scale * 2.0 * r * (half / (df + r * r) + alpha)

    curved = alpha / scale**2
    return Minorant(gap, slope, (y, alpha, c), (curved, -2.0 * curved * y, curved * y * y + c + constant))
