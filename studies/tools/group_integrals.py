"""Posteriors of groups with normal effects whose integrals are computed by quadrature, or estimated.

Rows y_gi of a group depend on its effects u_g ~ N(0, I) and on theta = (beta, scales), whose entries have independent
priors N(0, 2.5^2); a scale has either sign, and the trace reports its absolute value. The likelihood is

    p(y | theta) = prod_g int phi(u) prod_i p(y_gi | x_gi' beta + z_gi' L u) du,    L diagonal.

`by_nodes` sums over K nodes for each effect, around the mode of the integrand: K = 1 is the Laplace approximation.
`by_draws` replaces each integral by a mean over N draws from phi, so that the product is unbiased (Beaumont 2003).
"""

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.engine.compiler.compile import allocating
from approxmcmc.engine.numerics import exp, softplus
from approxmcmc.targets.groups.link import factors_of, sums_of

PRIOR_SD = 2.5
BETA = np.array([1.1, -0.5])  # coefficients in `visits`
SDS = np.array([0.78, 0.32])  # standard deviations of effects in `visits`


# --- data ---


@functools.cache
def visits() -> Any:
    """Return the posterior of 100 persons: 2 to 14 visits each, responses 0 or 1, own intercept and slope in time.

    Numbers of visits, times and parameters are like those of the simulated data in the R package `glmmr` by the first
    author of Berchuck and others (2024); there the effects of a person are correlated, here they are not.
    """
    rng = np.random.default_rng(2403)
    group = np.repeat(np.arange(100), np.clip(np.round(rng.normal(7.1, 2.8, size=100)), 2, 14).astype(int))
    visit = np.arange(len(group)) - np.searchsorted(group, group)
    X = np.column_stack([np.ones(len(group)), np.minimum(visit * rng.uniform(0.066, 0.086, size=100)[group], 1.0)])
    effects = rng.normal(size=(100, 2)) * SDS
    eta = (X * (BETA + effects[group])).sum(axis=1)
    return posterior(group, X, _zero_or_one(rng, eta), ["intercept", "time"], counts=False)


@functools.cache
def triples() -> Any:
    """Return the posterior of 500 groups of three responses 0 or 1; in most groups all three are equal."""
    rng = np.random.default_rng(3)
    group, X = _groups(rng, np.full(500, 3))
    eta = X @ [0.5, 0.5] + 2.0 * rng.normal(size=500)[group]
    return posterior(group, X, _zero_or_one(rng, eta), ["intercept"], counts=False)


@functools.cache
def counts() -> Any:
    """Return the posterior of 200 groups of 1 to 20 Poisson counts each."""
    rng = np.random.default_rng(20)
    group, X = _groups(rng, rng.integers(1, 21, size=200))
    eta = X @ [0.5, 0.3] + 0.7 * rng.normal(size=200)[group]
    return posterior(group, X, rng.poisson(np.exp(eta)), ["intercept"], counts=True)


def _groups(rng: np.random.Generator, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.column_stack([np.ones(len(group)), rng.normal(size=len(group))])


def _zero_or_one(rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64)


def posterior(group: np.ndarray, X: np.ndarray, y: np.ndarray, varying: Sequence[str], *, counts: bool) -> Any:
    """Return the posterior, effects integrated out, of responses that are counts (Poisson), or 0 or 1 (logit).

    `varying` names the effects of a group: its deviations from the coefficients of the first columns of X.
    """
    import pymc as pm

    with pm.Model(coords={"group": np.unique(group), "coef": [f"x{j}" for j in range(X.shape[1])]}) as model:
        eta = X @ pm.Normal("beta", 0.0, PRIOR_SD, dims="coef")
        for j, name in enumerate(varying):
            scale = pm.HalfNormal(f"sd_{name}", PRIOR_SD)
            eta += scale * pm.Normal(f"z_{name}", dims="group")[group] * X[:, j]
        if counts:
            pm.Poisson("y", pm.math.exp(eta), observed=y)
        else:
            pm.Bernoulli("y", logit_p=eta, observed=y)
    return amc.from_pymc(model, integrate=True, latents=None)


# --- the integrals, by sums over nodes and by draws ---


def by_nodes(n_nodes: int) -> Callable[[Any], Any]:
    """Return a function that returns a copy of a posterior with `n_nodes` nodes for each effect."""

    @functools.cache
    def form(target: Any) -> Any:
        other = copy.copy(target)
        other.set_rule(n_nodes=n_nodes)
        return other

    form.__name__ = f"by_nodes_{n_nodes}"
    return form


def by_draws(n_draws: int) -> Callable[[Any], Any]:
    """Return a function that returns a posterior with its integrals estimated by `n_draws` draws of the effects."""

    @functools.cache
    def form(target: Any) -> Any:
        W, responses, spans, *_ = target.data
        n_effects = np.array([target.n_effects, n_draws])
        return amc.targets.EstimatedLikelihood(
            poisson_estimate if target.family_name == "poisson" else logit_estimate,
            log_prior,
            dim=target.variables.size,
            data=(W[0], responses[0, :, 0].copy(), spans, n_effects, *target.data[-4:]),
            n_obs=target.n_obs,
            initial_point=target.initial_point(),
        )

    form.__name__ = f"by_draws_{n_draws}"
    return form


def log_prior(theta: np.ndarray) -> float:
    """Return the log prior, up to a constant; scales have the same normal prior, because they have either sign."""
    return -0.5 * (theta**2).sum() / PRIOR_SD**2  # type: ignore[no-any-return]  # an array of doubles


@allocating
def logit_of_row(eta: float, y: float) -> float:
    """Return log p(y | eta) of a row that is 0 or 1."""
    return y * eta - softplus(eta)


@allocating
def poisson_of_row(eta: float, y: float) -> float:
    """Return log p(y | eta) of a count, up to a constant."""
    return y * eta - exp(eta)


@allocating
def log_mean_likelihood(
    of_row: Callable[[float, float], float], rng: Any, theta: np.ndarray, data: tuple[np.ndarray, ...]
) -> float:
    """Return the sum over groups of the log of the mean, over draws u ~ N(0, I), of the likelihood of the group's rows.

    ``of_row(eta, y)`` is the log-likelihood of a row.
    """
    W, y, spans, (n_effects, n_draws), places, products, weights, logs = data
    phi = sums_of(factors_of(theta, places), products, weights, logs)
    n_fixed = W.shape[1] - n_effects
    u = np.empty(n_effects)
    value = np.empty(n_draws)
    eta = np.empty(W.shape[0])
    total = 0.0
    for i in range(W.shape[0]):
        eta[i] = 0.0
        for j in range(n_fixed):
            eta[i] += W[i, n_effects + j] * phi[j]
    for g in range(spans.shape[0]):
        for m in range(n_draws):
            value[m] = 0.0
            for k in range(n_effects):
                u[k] = rng.standard_normal()
            for i in range(spans[g, 0], spans[g, 1]):
                effect = 0.0
                for j in range(n_effects):
                    for k in range(n_effects):
                        effect += W[i, j] * phi[n_fixed + j * n_effects + k] * u[k]
                value[m] += of_row(eta[i] + effect, y[i])
        best = value.max()
        mass = 0.0
        for m in range(n_draws):
            mass += exp(value[m] - best)
        total += best + math.log(mass / n_draws)
    return total


def logit_estimate(rng: Any, theta: np.ndarray, data: tuple[np.ndarray, ...]) -> float:
    """Return the log of the estimated likelihood of rows that are 0 or 1."""
    return log_mean_likelihood(logit_of_row, rng, theta, data)


def poisson_estimate(rng: Any, theta: np.ndarray, data: tuple[np.ndarray, ...]) -> float:
    """Return the log of the estimated likelihood of counts, up to a constant."""
    return log_mean_likelihood(poisson_of_row, rng, theta, data)
