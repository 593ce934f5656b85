"""Regressions with many kinds of responses, without groups.

Each function writes a model into the PyMC model of the current context, with data generated from known parameters.
"""

from typing import Any

import numpy as np
import pymc as pm

from approxmcmc.datasets import eeg_eye_state

ROWS = 5000
SLOPES = 6


def _data(rows: int = ROWS, slopes: int = SLOPES) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return predictors, the linear predictor, and a random generator."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, slopes))
    return X, 0.3 + X @ rng.normal(scale=0.4, size=slopes), rng


def _predictor(X: np.ndarray) -> Any:
    return pm.Normal("intercept", 0.0, 2.0) + X @ pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])


def straight_line() -> None:
    """Write a model of 1000 normal rows with unknown noise."""
    X, eta, rng = _data(1000)
    pm.Normal("y", _predictor(X), pm.HalfNormal("noise", 1.0), observed=eta + rng.normal(size=1000))


def logistic() -> None:
    """Write a logistic regression, 3000 rows and ten slopes."""
    X, eta, rng = _data(3000, 10)
    pm.Bernoulli("y", logit_p=_predictor(X), observed=rng.random(3000) < 1.0 / (1.0 + np.exp(-eta)))


def eyes() -> None:
    """Write a logistic regression of open or closed eyes on 13 of 14 electrodes, 14 980 rows of real data."""
    data = eeg_eye_state()
    electrodes = data.X_train[:, 1:]  # without the first: the published times are those of this model
    pm.Bernoulli("y", logit_p=_predictor(electrodes), observed=data.y_train)


def counts() -> None:
    """Write a model of Poisson counts with known exposures."""
    X, eta, rng = _data()
    exposure = np.exp(rng.normal(scale=0.5, size=ROWS))
    pm.Poisson("y", exposure * pm.math.exp(_predictor(X)), observed=rng.poisson(exposure * np.exp(0.5 * eta)))


def overdispersed_counts() -> None:
    """Write a model of negative binomial counts."""
    X, eta, rng = _data()
    observed = rng.poisson(np.exp(0.5 * eta) * rng.gamma(2.0, 0.5, size=ROWS))
    pm.NegativeBinomial("y", mu=pm.math.exp(_predictor(X)), alpha=pm.Exponential("alpha", 1.0), observed=observed)


def many_zeros() -> None:
    """Write a model of zero-inflated Poisson counts, 20 000 rows."""
    X, eta, rng = _data(20_000)
    share = pm.Beta("share", 2.0, 2.0)
    observed = rng.poisson(np.exp(0.5 * eta)) * (rng.random(20_000) < 0.7)
    pm.ZeroInflatedPoisson("y", psi=share, mu=pm.math.exp(_predictor(X)), observed=observed)


def durations() -> None:
    """Write a model of gamma durations."""
    X, eta, rng = _data()
    shape = pm.Exponential("shape", 0.5)
    mean = pm.math.exp(_predictor(X))
    pm.Gamma("y", alpha=shape, beta=shape / mean, observed=rng.gamma(2.0, np.exp(eta) / 2.0))


def shares() -> None:
    """Write a model of shares between 0 and 1 with a beta distribution."""
    X, eta, rng = _data()
    p = 1.0 / (1.0 + np.exp(-eta))
    nu = pm.HalfNormal("nu", 20.0)
    mean = pm.math.sigmoid(_predictor(X))
    observed = np.clip(rng.beta(10.0 * p, 10.0 * (1.0 - p)), 1e-6, 1.0 - 1e-6)
    pm.Beta("y", alpha=mean * nu, beta=(1.0 - mean) * nu, observed=observed)


def survival() -> None:
    """Write a model of Weibull times, censored at 3."""
    X, eta, rng = _data()
    shape = pm.HalfNormal("shape", 2.0)
    law = pm.Weibull.dist(alpha=shape, beta=pm.math.exp(_predictor(X)))
    pm.Censored("y", law, lower=None, upper=3.0, observed=np.minimum(rng.weibull(1.5, size=ROWS) * np.exp(eta), 3.0))


def three_classes() -> None:
    """Write a softmax regression of three classes."""
    X, _, rng = _data(ROWS, 4)
    logits = X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(ROWS, 3))
    a = pm.Normal("a", 0.0, 2.0, shape=3)
    beta = pm.Normal("beta", 0.0, 1.0, shape=(4, 3))
    pm.Categorical("y", logit_p=a + X @ beta, observed=logits.argmax(axis=1))


def grades() -> None:
    """Write an ordered logistic regression of four grades."""
    X, eta, rng = _data()
    cuts = pm.Normal("cuts", [-1.0, 0.5, 2.0], 2.0, transform=pm.distributions.transforms.ordered, shape=3)
    rows = X @ pm.Normal("beta", 0.0, 1.0, shape=SLOPES)
    observed = np.searchsorted([-1.0, 0.5, 2.0], eta + rng.logistic(size=ROWS))
    pm.OrderedLogistic("y", eta=rows, cutpoints=cuts, observed=observed)


def outliers() -> None:
    """Write a model of rows with Student-t noise of unknown scale and degrees of freedom."""
    X, eta, rng = _data()
    scale = pm.HalfNormal("scale", 1.0)
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=_predictor(X), sigma=scale, observed=eta + rng.standard_t(4.0, size=ROWS))


def varying_scale() -> None:
    """Write a model of 20 000 normal rows; the logarithm of their noise is linear in the predictors."""
    X, eta, rng = _data(20_000)
    gamma = pm.Normal("gamma", 0.0, 1.0, shape=SLOPES)
    noise = np.exp(0.3 * X[:, 0]) * rng.normal(size=20_000)
    pm.Normal("y", _predictor(X), pm.math.exp(X @ gamma), observed=eta + noise)


def quantile() -> None:
    """Write a model of the upper quartile, by an asymmetric Laplace likelihood."""
    X, eta, rng = _data()
    scale = pm.HalfNormal("scale", 1.0)
    pm.AsymmetricLaplace("y", b=1.0 / scale, q=0.75, mu=_predictor(X), observed=eta + rng.normal(size=ROWS))


def horseshoe() -> None:
    """Write a logistic regression, 1000 rows and 20 slopes, with a horseshoe prior; 18 true slopes are 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1000, 20))
    tau = pm.HalfCauchy("tau", 0.1)
    local = pm.HalfCauchy("local", 1.0, shape=20)
    beta = pm.Deterministic("beta", pm.Normal("z", shape=20) * local * tau)
    won = rng.random(1000) < 1.0 / (1.0 + np.exp(-(X[:, 0] - X[:, 1])))
    pm.Bernoulli("y", logit_p=pm.Normal("intercept") + X @ beta, observed=won)


MODELS = (
    straight_line,
    logistic,
    eyes,
    counts,
    overdispersed_counts,
    many_zeros,
    durations,
    shares,
    survival,
    three_classes,
    grades,
    outliers,
    varying_scale,
    quantile,
    horseshoe,
)
