"""Hierarchies with many groups."""

from typing import Any

import numpy as np
import pymc as pm


class Groups:
    """The data of the models below: rows in groups with a predictor `x`, and the true linear predictor `eta`."""

    def __init__(self, rows: int, groups: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows, self.groups = rows, groups
        self.group, self.x = self.rng.integers(groups, size=rows), self.rng.normal(size=rows)
        self.effect, self.tilt = self.rng.normal(scale=0.7, size=groups), self.rng.normal(scale=0.3, size=groups)
        self.eta = 0.3 + self.effect[self.group] + (0.5 + self.tilt[self.group]) * self.x


def _scales(*names: str) -> list[Any]:
    return [pm.HalfNormal(name, 1.0) for name in names]


def normal_not_centred() -> None:
    """Write a model of 12 000 normal rows in 400 groups with intercepts, not centred."""
    data = Groups(12_000, 400)
    mu, beta, [tau, noise] = pm.Normal("mu", 0.0, 2.0), pm.Normal("beta", 0.0, 1.0), _scales("tau", "noise")
    z = pm.Normal("z", shape=400)
    observed = data.eta + data.rng.normal(size=data.rows)
    pm.Normal("y", (mu + tau * z)[data.group] + beta * data.x, noise, observed=observed)


def normal_centred() -> None:
    """Write the model of `normal_not_centred`, centred."""
    data = Groups(12_000, 400)
    mu, beta, [tau, noise] = pm.Normal("mu", 0.0, 2.0), pm.Normal("beta", 0.0, 1.0), _scales("tau", "noise")
    a = pm.Normal("a", mu, tau, shape=400)
    pm.Normal("y", a[data.group] + beta * data.x, noise, observed=data.eta + data.rng.normal(size=data.rows))


def normal_slopes() -> None:
    """Write a model of 12 000 normal rows in 400 groups with intercepts and slopes, centred."""
    data = Groups(12_000, 400)
    mu, slope, [tau, tilt, noise] = pm.Normal("mu"), pm.Normal("slope"), _scales("tau", "tilt", "noise")
    a = pm.Normal("a", mu, tau, shape=400)
    b = pm.Normal("b", slope, tilt, shape=400)
    observed = data.eta + data.rng.normal(size=data.rows)
    pm.Normal("y", a[data.group] + b[data.group] * data.x, noise, observed=observed)


def correlated_slopes() -> None:
    """Write a model of 3000 normal rows in 150 groups with correlated intercepts and slopes, not centred."""
    data = Groups(3000, 150)
    mean, [noise] = pm.Normal("mean", shape=2), _scales("noise")
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    effects = mean + pm.math.dot(pm.Normal("z", shape=(150, 2)), chol.T)
    rows = effects[data.group, 0] + effects[data.group, 1] * data.x
    pm.Normal("y", rows, noise, observed=data.eta + data.rng.normal(size=data.rows))


def logistic_groups() -> None:
    """Write a logistic regression, 6000 rows in 600 groups, not centred."""
    data = Groups(6000, 600)
    mu, beta, [tau], z = pm.Normal("mu"), pm.Normal("beta"), _scales("tau"), pm.Normal("z", shape=600)
    won = data.rng.random(data.rows) < 1.0 / (1.0 + np.exp(-data.eta))
    pm.Bernoulli("y", logit_p=(mu + tau * z)[data.group] + beta * data.x, observed=won)


def poisson_groups() -> None:
    """Write a model of Poisson counts, 5000 rows in 300 groups, centred."""
    data = Groups(5000, 300)
    mu, beta, [tau] = pm.Normal("mu"), pm.Normal("beta"), _scales("tau")
    a = pm.Normal("a", mu, tau, shape=300)
    counts = data.rng.poisson(np.exp(0.5 * data.eta))
    pm.Poisson("y", pm.math.exp(a[data.group] + beta * data.x), observed=counts)


def schools_and_classes() -> None:
    """Write a model of 4000 pupils in 200 classes of 40 schools, with normal noise, not centred."""
    data = Groups(4000, 200)
    school = np.arange(200) // 5
    observed = data.eta + data.rng.normal(scale=0.5, size=40)[school][data.group] + data.rng.normal(size=data.rows)
    mu, beta, [schools, classes, noise] = pm.Normal("mu"), pm.Normal("beta"), _scales("schools", "classes", "noise")
    s = pm.Normal("s", shape=40)
    c = pm.Normal("c", shape=200)
    level = mu + schools * s[school] + classes * c
    pm.Normal("y", level[data.group] + beta * data.x, noise, observed=observed)


def outliers_in_groups() -> None:
    """Write a model of 4000 rows with Student-t noise in 120 groups, not centred."""
    data = Groups(4000, 120)
    mu, beta, [tau, noise] = pm.Normal("mu"), pm.Normal("beta"), _scales("tau", "noise")
    nu = pm.Gamma("nu", 2.0, 0.1)
    z = pm.Normal("z", shape=120)
    observed = data.eta + data.rng.standard_t(4.0, size=data.rows)
    pm.StudentT("y", nu=nu, mu=(mu + tau * z)[data.group] + beta * data.x, sigma=noise, observed=observed)


MODELS = (
    normal_not_centred,
    normal_centred,
    normal_slopes,
    correlated_slopes,
    logistic_groups,
    poisson_groups,
    schools_and_classes,
    outliers_in_groups,
)
