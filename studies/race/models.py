"""Models of the race to an answer: logistic regressions on simulated and real data, and PyMC models as users write."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import TALL_DATA, synthetic_logistic, tall_target

ROWS = 100_000
SLOPES = 20
GROUPS = 50


def dense(n_obs: int, dim: int = 50) -> Any:
    """Return a logistic regression on normal predictors."""
    return amc.targets.LogisticRegression(*synthetic_logistic(n_obs, dim, seed=0))


def regression(observe: Callable[[Any, np.ndarray, np.random.Generator], None], n_obs: int = ROWS) -> Any:
    """Return a PyMC model with an intercept and slopes; ``observe(eta, true eta, rng)`` adds the responses."""
    import pymc as pm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_obs, SLOPES))
    slopes = rng.normal(scale=0.3, size=SLOPES)
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 2.0)
        beta = pm.Normal("beta", 0.0, 1.0, shape=SLOPES)
        observe(intercept + X @ beta, 0.5 + X @ slopes, rng)
    return model


def bernoulli(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add Bernoulli responses with the logit `eta`."""
    import pymc as pm

    pm.Bernoulli("y", logit_p=eta, observed=rng.random(truth.size) < 1.0 / (1.0 + np.exp(-truth)))


def poisson_with_offset(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add Poisson counts with known exposures and the log rate `eta` / 2."""
    import pymc as pm

    exposure = np.exp(rng.normal(scale=0.5, size=truth.size))
    observed = rng.poisson(exposure * np.exp(0.5 * truth))
    pm.Poisson("y", mu=exposure * pm.math.exp(0.5 * eta), observed=observed)


def negative_binomial(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add negative binomial counts with the log mean `eta` / 2."""
    import pymc as pm

    alpha = pm.Exponential("alpha", 1.0)
    mean = np.exp(0.5 * truth)
    observed = rng.poisson(mean * rng.gamma(2.0, 0.5, size=truth.size))
    pm.NegativeBinomial("y", mu=pm.math.exp(0.5 * eta), alpha=alpha, observed=observed)


def student_t(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add responses with mean `eta` and Student-t noise."""
    import pymc as pm

    sigma = pm.HalfNormal("sigma", 1.0)
    pm.StudentT("y", nu=4.0, mu=eta, sigma=sigma, observed=truth + rng.standard_t(4.0, size=truth.size))


def ordered(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add one of four ordered grades for each row, by cutpoints on `eta` plus logistic noise."""
    import pymc as pm

    steps = pm.HalfNormal("steps", 2.0, shape=2)
    cuts = pm.math.concatenate([[-1.0], -1.0 + pm.math.cumsum(steps)])
    noisy = truth + rng.logistic(size=truth.size)
    pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=np.searchsorted([-1.0, 0.5, 2.0], noisy))


def mixture(eta: Any, truth: np.ndarray, rng: np.random.Generator) -> None:
    """Add responses with mean `eta` and normal noise, three times as large in one row of five."""
    import pymc as pm

    share = pm.Beta("share", 2.0, 8.0)
    laws = [pm.Normal.dist(eta, 1.0), pm.Normal.dist(eta, 3.0)]
    noise = np.where(rng.random(truth.size) < 0.2, 3.0, 1.0) * rng.normal(size=truth.size)
    pm.Mixture("y", w=pm.math.stack([1.0 - share, share]), comp_dists=laws, observed=truth + noise)


def varying_intercepts(n_obs: int = ROWS) -> Any:
    """Return a logistic PyMC model with an intercept for each of 50 groups, not centred."""
    import pymc as pm

    rng = np.random.default_rng(0)
    group = rng.integers(GROUPS, size=n_obs)
    x = rng.normal(size=n_obs)
    truth = rng.normal(scale=0.7, size=GROUPS)[group] + 0.5 * x
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 1.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=GROUPS)
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli(
            "y",
            logit_p=(mean + sigma * z)[group] + slope * x,
            observed=rng.random(n_obs) < 1.0 / (1.0 + np.exp(-truth)),
        )
    return model


FAMILIES = (bernoulli, poisson_with_offset, negative_binomial, student_t, ordered, mixture)
MODELS: dict[str, Callable[[], Any]] = {
    **{f"dense_1e{k}": functools.partial(dense, 10**k) for k in (3, 4, 5, 6)},
    "dense_1e7": functools.partial(dense, 10**7, 20),
    **{name: functools.partial(tall_target, name) for name in TALL_DATA},
    **{f"pymc_{family.__name__}": functools.partial(regression, family) for family in FAMILIES},
    "pymc_varying_intercepts": varying_intercepts,
    "pymc_few_rows": functools.partial(varying_intercepts, 40 * GROUPS),
    "smoke": functools.partial(dense, 1000, 3),
}
