"""Distributions: PyMC's name and keywords, the log density by SciPy, and random values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats


class Law(NamedTuple):
    """A distribution with the arguments `keywords`; ``log_density(x, *arguments)`` has an entry for each event.

    ``simulate(rng, size)`` returns observed values that the distribution can take, whatever its arguments. The last
    `event_axes` axes of a value are one event. `more` holds further arguments as code.
    """

    name: str
    keywords: tuple[str, ...]
    log_density: Callable[..., Any]
    simulate: Callable[[np.random.Generator, Any], Any] | None = None
    event_axes: int = 0
    more: str = ""


def _normal(x: Any, mu: Any, sigma: Any) -> Any:
    """Return the log density: SciPy's function takes .3 ms, and the oracles call it thousands of times."""
    return -0.5 * ((np.asarray(x) - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2.0 * np.pi)


def _poisson(y: Any, mu: Any) -> Any:
    return special.xlogy(y, mu) - mu - special.gammaln(np.asarray(y) + 1.0)


def _real(rng: np.random.Generator, size: Any) -> Any:
    return rng.normal(size=size).round(2)


def _positive(rng: np.random.Generator, size: Any) -> Any:
    return rng.gamma(2.0, 0.6, size=size).round(2) + 0.01


def _fraction(rng: np.random.Generator, size: Any) -> Any:
    return rng.beta(2.0, 2.0, size=size).round(2).clip(0.01, 0.99)


def _count(rng: np.random.Generator, size: Any) -> Any:
    return rng.poisson(1.5, size=size)


def _bit(rng: np.random.Generator, size: Any) -> Any:
    return rng.integers(0, 2, size=size)


def _inverse_gamma(x: Any, alpha: Any, beta: Any) -> Any:
    return stats.invgamma.logpdf(x, alpha, scale=beta)


def _truncated(x: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:
    return stats.truncnorm.logpdf(x, (lower - mu) / sigma, (upper - mu) / sigma, mu, sigma)


def _dirichlet(x: Any, a: Any) -> Any:
    a = np.asarray(a, dtype=float)
    return special.gammaln(a.sum()) - special.gammaln(a).sum() + ((a - 1.0) * np.log(x)).sum(axis=-1)


def _normal_rows(x: Any, mu: Any, chol: Any) -> Any:
    """Return the log densities of the rows of x under N(mu, chol chol')."""
    scaled = np.linalg.solve(chol, (np.asarray(x) - mu)[..., None])[..., 0]
    return -0.5 * (scaled**2 + np.log(2.0 * np.pi)).sum(axis=-1) - np.log(np.diag(chol)).sum()


def lkj_of_two(packed: Any, eta: float, rate: float) -> Any:
    r"""Return the log density of LKJCholeskyCov(n=2) with exponential scales at its packed factor, up to a constant.

    With scales s and correlation r the factor is :math:`L_{00} = s_0`, :math:`L_{10} = s_1 r`,
    :math:`L_{11} = s_1 \sqrt{1 - r^2}`; p(r) is proportional to :math:`(1 - r^2)^{\eta - 1}`.
    """
    s0, below, last = packed
    s1 = np.hypot(below, last)
    rest = (last / s1) ** 2
    jacobian = np.log(s1) - 0.5 * np.log(rest)
    return -rate * (s0 + s1) + (eta - 1.0) * np.log(rest) - jacobian


def unpacked(packed: Any) -> Any:
    """Return the lower triangular matrix of a packed factor of size two."""
    return np.array([[packed[0], 0.0], [packed[1], packed[2]]])


def _negative_binomial(y: Any, mu: Any, alpha: Any) -> Any:
    return stats.nbinom.logpmf(y, alpha, alpha / (alpha + mu))


def _log_bit(y: Any, logit_p: Any) -> Any:
    return -np.logaddexp(0.0, np.where(np.asarray(y) == 1, -1.0, 1.0) * logit_p)


def _zero_inflated(y: Any, psi: Any, mu: Any) -> Any:
    zero = np.logaddexp(np.log1p(-psi), np.log(psi) - mu)
    return np.where(np.asarray(y) == 0, zero, np.log(psi) + stats.poisson.logpmf(y, mu))


def _categorical(y: Any, logit_p: Any) -> Any:
    logit_p = np.asarray(logit_p)
    y = np.asarray(y)
    chosen = np.take_along_axis(np.broadcast_to(logit_p, (*y.shape, logit_p.shape[-1])), y[..., None], -1)[..., 0]
    return chosen - special.logsumexp(logit_p, axis=-1)


NORMAL = Law("Normal", ("mu", "sigma"), _normal, _real)
PRECISE = Law("Normal", ("mu", "tau"), lambda x, mu, tau: stats.norm.logpdf(x, mu, np.asarray(tau) ** -0.5), _real)
STUDENT = Law("StudentT", ("nu", "mu", "sigma"), stats.t.logpdf, _real)
LAPLACE = Law("Laplace", ("mu", "b"), stats.laplace.logpdf, _real)
LOGISTIC = Law("Logistic", ("mu", "s"), stats.logistic.logpdf, _real)
CAUCHY = Law("Cauchy", ("alpha", "beta"), stats.cauchy.logpdf, _real)
HALF_NORMAL = Law("HalfNormal", ("sigma",), lambda x, sigma: stats.halfnorm.logpdf(x, 0.0, sigma))
HALF_CAUCHY = Law("HalfCauchy", ("beta",), lambda x, beta: stats.halfcauchy.logpdf(x, 0.0, beta))
EXPONENTIAL = Law("Exponential", ("lam",), lambda x, lam: stats.expon.logpdf(x, scale=1.0 / lam), _positive)
GAMMA = Law("Gamma", ("alpha", "beta"), lambda x, alpha, beta: stats.gamma.logpdf(x, alpha, scale=1.0 / beta))
GAMMA_ROWS = GAMMA._replace(simulate=_positive)
WEIBULL = Law(
    "Weibull",
    ("alpha", "beta"),
    lambda x, alpha, beta: stats.weibull_min.logpdf(x, alpha, scale=beta),
    _positive,
)
GAMMA_OF_MEAN = Law(
    "Gamma",
    ("mu", "sigma"),
    lambda x, mu, sigma: stats.gamma.logpdf(x, (mu / sigma) ** 2, scale=sigma**2 / mu),
    _positive,
)
INVERSE_GAMMA = Law("InverseGamma", ("alpha", "beta"), _inverse_gamma)
LOG_NORMAL = Law(
    "LogNormal", ("mu", "sigma"), lambda x, mu, sigma: stats.lognorm.logpdf(x, sigma, scale=np.exp(mu)), _positive
)
BETA = Law("Beta", ("alpha", "beta"), stats.beta.logpdf)
BETA_OF_MEAN = Law("Beta", ("mu", "nu"), lambda x, mu, nu: stats.beta.logpdf(x, mu * nu, (1.0 - mu) * nu), _fraction)
UNIFORM = Law("Uniform", ("lower", "upper"), lambda x, lower, upper: stats.uniform.logpdf(x, lower, upper - lower))
TRUNCATED = Law("TruncatedNormal", ("mu", "sigma", "lower", "upper"), _truncated)
DIRICHLET = Law("Dirichlet", ("a",), _dirichlet, event_axes=1)
MULTIVARIATE = Law("MvNormal", ("mu", "chol"), _normal_rows, event_axes=1)
POISSON = Law("Poisson", ("mu",), _poisson, _count)
NEGATIVE_BINOMIAL = Law("NegativeBinomial", ("mu", "alpha"), _negative_binomial, _count)
ZERO_INFLATED = Law("ZeroInflatedPoisson", ("psi", "mu"), _zero_inflated, _count)
BERNOULLI = Law("Bernoulli", ("p",), stats.bernoulli.logpmf, _bit)
BERNOULLI_OF_LOGIT = Law("Bernoulli", ("logit_p",), _log_bit, _bit)
BINOMIAL = Law("Binomial", ("n", "p"), stats.binom.logpmf, _bit)
BINOMIAL_OF_LOGIT = Law(
    "Binomial", ("n", "logit_p"), lambda y, n, logit_p: stats.binom.logpmf(y, n, special.expit(logit_p)), _bit
)
CATEGORICAL = Law("Categorical", ("p",), lambda y, p: _categorical(y, np.log(p)))
CATEGORICAL_OF_LOGIT = Law("Categorical", ("logit_p",), _categorical, lambda rng, size: rng.integers(0, 3, size=size))
