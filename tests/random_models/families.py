"""Distributions of rows with their links: each takes a linear predictor and returns a law with its arguments."""

from typing import NamedTuple

import numpy as np

from tests.random_models import laws, priors
from tests.random_models.laws import Law
from tests.random_models.models import RandomModel
from tests.random_models.terms import (
    Term,
    cloglog,
    constant,
    exp,
    number,
    probit,
    sigmoid,
    stack,
    written_sigmoid,
)


class Rows(NamedTuple):
    """A distribution of rows and the terms of its arguments; a `limit` caps the observed values."""

    law: Law
    arguments: list[Term]
    limit: np.ndarray | None = None


def normal(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return normal rows, whose noise is a parameter, known, known for each row, or a parameter times known numbers."""
    how = model.pick(["parameter", "known", "known for each row", "weighted", "precision"])
    if how == "precision":
        return Rows(laws.PRECISE, [eta, priors.scale(model, "tau")])
    if how == "known":
        return Rows(laws.NORMAL, [eta, number(0.7)])
    if how == "parameter":
        return Rows(laws.NORMAL, [eta, priors.scale(model, "sigma")])
    known = model.array("noise", model.rng.uniform(0.5, 2.0, n).round(2))
    return Rows(laws.NORMAL, [eta, known if how == "known for each row" else priors.scale(model, "sigma") * known])


def student(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return Student-t rows."""
    return Rows(laws.STUDENT, [number(4.0), eta, priors.scale(model, "sigma")])


def laplace(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return Laplace rows."""
    return Rows(laws.LAPLACE, [eta, priors.scale(model, "sigma")])


def log_normal(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return log-normal rows."""
    return Rows(laws.LOG_NORMAL, [eta, priors.scale(model, "sigma")])


def gamma(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return gamma rows with a log link and a shape."""
    alpha = number(2.0) if model.rarely(3) else priors.scale(model, "alpha")
    return Rows(laws.GAMMA_ROWS, [alpha, alpha * exp(number(-1.0) * eta)])


def weibull(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return Weibull rows with a log link and a shape."""
    alpha = number(1.5) if model.rarely(3) else priors.scale(model, "alpha")
    return Rows(laws.WEIBULL, [alpha, exp(eta)])


def gamma_of_known_spread(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return gamma rows with a log link of the mean and a standard deviation, so that the shape differs."""
    return Rows(laws.GAMMA_OF_MEAN, [exp(eta), priors.scale(model, "sigma")])


def exponential(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return exponential rows with a log link of the rate."""
    return Rows(laws.EXPONENTIAL, [exp(eta, "pt.exp")])


def beta(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return beta rows with a logit link."""
    return Rows(laws.BETA_OF_MEAN, [sigmoid(eta), number(5.0)])


def bernoulli(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return Bernoulli rows, whose link is written in one of several ways."""
    link = model.pick([None, sigmoid, lambda one: sigmoid(one, "pm.math.invlogit"), written_sigmoid, probit, cloglog])
    return Rows(laws.BERNOULLI_OF_LOGIT, [eta]) if link is None else Rows(laws.BERNOULLI, [link(eta)])


def binomial(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return binomial rows with known trials."""
    trials = np.full(n, 3) if model.rarely(2) else model.rng.integers(1, 6, n)
    known = constant("3", 3) if (trials == 3).all() else model.array("trials", trials)
    if model.rarely(2):
        return Rows(laws.BINOMIAL, [known, sigmoid(eta)], limit=trials)
    return Rows(laws.BINOMIAL_OF_LOGIT, [known, eta], limit=trials)


def poisson(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return Poisson rows, times a known exposure or not."""
    mean = exp(eta)
    if model.rarely(2):
        mean = model.array("exposure", model.rng.uniform(0.5, 2.0, n).round(2)) * mean
    return Rows(laws.POISSON, [mean])


def negative_binomial(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return negative binomial rows with a log link."""
    alpha = number(1.5) if model.rarely(3) else priors.scale(model, "alpha")
    return Rows(laws.NEGATIVE_BINOMIAL, [exp(eta), alpha])


def zero_inflated(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return zero-inflated Poisson rows."""
    return Rows(laws.ZERO_INFLATED, [priors.fraction(model, "psi"), exp(eta)])


def categorical(model: RandomModel, eta: Term, n: int) -> Rows:
    """Return categorical rows with three classes."""
    flat = Term(f"({eta.code} + np.zeros({n}))", lambda values: eta.value(values) + np.zeros(n))
    zeros = constant(f"np.zeros({n})", np.zeros(n))
    return Rows(laws.CATEGORICAL_OF_LOGIT, [stack([zeros, flat, number(-0.5) * flat], axis=1)])


# Rows of these are integrated over effects, so they are drawn more often.
OF_GROUPS = [normal, bernoulli, poisson, binomial, negative_binomial, gamma, exponential, weibull]
FAMILIES = [
    *OF_GROUPS,
    *OF_GROUPS,
    normal,
    student,
    laplace,
    log_normal,
    gamma_of_known_spread,
    beta,
    zero_inflated,
    categorical,
]
