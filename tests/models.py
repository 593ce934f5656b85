"""Small targets with known answers, used by several test files."""

import numpy as np

from approxmcmc.targets import FunctionTarget, LogisticRegression


def logistic(n: int = 300, dim: int = 3, seed: int = 0, **settings) -> LogisticRegression:
    """Return a logistic regression on simulated rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-X @ np.linspace(-1.0, 1.0, dim)))
    return LogisticRegression(X, y.astype(int), **settings)


def normal_loglik(theta, data, i):
    """Return log N(x_i | theta_0, 1) up to a constant."""
    (x,) = data
    return -0.5 * (x[i] - theta[0]) ** 2


def normal_logprior(theta):
    """Return log N(theta_0 | 1, 1/4) up to a constant; it moves the posterior, so a test notices if it is left out."""
    return -2.0 * (theta[0] - 1.0) ** 2


def normal_mean(n: int = 100, seed: int = 0) -> FunctionTarget:
    """Return the posterior N((4 + sum x) / (4 + n), 1 / (4 + n)) of the mean of a normal sample."""
    x = np.random.default_rng(seed).normal(size=n)
    return FunctionTarget(normal_loglik, normal_logprior, data=x, n_obs=n, dim=1, var_names=("mu",))
