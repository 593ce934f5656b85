"""Models with many rows and effects, on which nutpie may reach the limit of CPU seconds."""

import numpy as np
import pymc as pm

from studies.street.factors import won


def many_groups() -> None:
    """Write a logistic regression, 300 000 rows in 30 000 groups, not centred."""
    rng = np.random.default_rng(0)
    group = rng.integers(30_000, size=300_000)
    x = rng.normal(size=300_000)
    eta = 0.3 + rng.normal(scale=0.7, size=30_000)[group] + 0.5 * x
    mu = pm.Normal("mu")
    beta = pm.Normal("beta")
    tau = pm.HalfNormal("tau", 1.0)
    rows = (mu + tau * pm.Normal("z", shape=30_000))[group] + beta * x
    pm.Bernoulli("y", logit_p=rows, observed=won(eta, rng))


def users_and_items() -> None:
    """Write a logistic regression, 200 000 rows of 2000 users and 500 items, centred."""
    rng = np.random.default_rng(0)
    user = rng.integers(2000, size=200_000)
    item = rng.integers(500, size=200_000)
    eta = 0.3 + rng.normal(scale=0.7, size=2000)[user] + rng.normal(scale=0.5, size=500)[item]
    scales = {name: pm.HalfNormal(f"scale_{name}", 1.0) for name in ("user", "item")}
    a = pm.Normal("a", 0.0, scales["user"], shape=2000)
    b = pm.Normal("b", 0.0, scales["item"], shape=500)
    pm.Bernoulli("y", logit_p=pm.Normal("mu") + a[user] + b[item], observed=won(eta, rng))


def many_columns() -> None:
    """Write a logistic regression, 50 000 rows of 500 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 500))
    eta = X @ rng.normal(scale=0.05, size=500)
    rows = pm.Normal("intercept") + X @ pm.Normal("beta", 0.0, 1.0, shape=500)
    pm.Bernoulli("y", logit_p=rows, observed=won(eta, rng))


MODELS = (many_groups, users_and_items, many_columns)
