"""Models of other kinds: a curve, a mixture, processes, missing values, several outcomes."""

import numpy as np
import pymc as pm


def a_curve() -> None:
    """Write a model of logistic growth, 1000 measurements."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 10.0, 1000))
    height = pm.HalfNormal("height", 10.0)
    rate = pm.HalfNormal("rate", 2.0)
    middle = pm.Normal("middle", 5.0, 3.0)
    curve = height / (1.0 + pm.math.exp(-rate * (t - middle)))
    observed = 8.0 / (1.0 + np.exp(-1.2 * (t - 4.0))) + rng.normal(scale=0.5, size=1000)
    pm.Normal("y", curve, pm.HalfNormal("noise", 1.0), observed=observed)


def two_normals() -> None:
    """Write a model of a mixture with ordered means, 1000 values."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random(1000) < 0.35, rng.normal(-1.5, 0.8, 1000), rng.normal(1.5, 1.2, 1000))
    share = pm.Beta("share", 2.0, 2.0)
    scales = pm.HalfNormal("scales", 2.0, shape=2)
    means = pm.Normal("means", [-1.0, 1.0], 3.0, shape=2, transform=pm.distributions.transforms.ordered)
    pm.NormalMixture("y", pm.math.stack([share, 1.0 - share]), means, scales, observed=values)


def three_outcomes() -> None:
    """Write a model of three correlated outcomes of 3000 persons."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    noise = rng.multivariate_normal(np.zeros(3), [[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]], 3000)
    a = pm.Normal("a", 0.0, 2.0, shape=3)
    b = pm.Normal("b", 0.0, 1.0, shape=3)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", mu=a + x[:, None] * b, chol=chol, observed=0.5 * x[:, None] + noise)


def smooth() -> None:
    """Write a model of a Gaussian process, 80 points."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 10.0, 80)
    length = pm.Gamma("length", 2.0, 1.0)
    height = pm.HalfNormal("height", 2.0)
    process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.Matern52(1, length))
    observed = np.sin(x) + rng.normal(scale=0.3, size=80)
    process.marginal_likelihood("y", X=x[:, None], y=observed, sigma=pm.HalfNormal("noise", 1.0))


def volatility() -> None:
    """Write a model of stochastic volatility: 300 returns with a random walk of their log scale."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(scale=0.15, size=300))
    step = pm.Exponential("step", 10.0)
    level = pm.GaussianRandomWalk("level", sigma=step, init_dist=pm.Normal.dist(0.0, 1.0), shape=300)
    returns = np.exp(walk) * rng.normal(size=300)
    pm.StudentT("y", nu=pm.Exponential("nu", 0.1), sigma=pm.math.exp(level), observed=returns)


def missing_values() -> None:
    """Write a model of a line of 400 points, 40 outcomes not observed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    values = np.ma.masked_array(0.5 + x + rng.normal(size=400), mask=np.arange(400) % 10 == 0)
    a = pm.Normal("a", 0.0, 2.0)
    b = pm.Normal("b", 0.0, 2.0)
    pm.Normal("y", a + b * x, pm.HalfNormal("noise", 1.0), observed=values)


def two_outcomes() -> None:
    """Write a model of a count and a duration of 2000 persons that share a predictor."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    a = pm.Normal("a", 0.0, 1.0, shape=2)
    b = pm.Normal("b", 0.0, 1.0, shape=2)
    pm.Poisson("count", pm.math.exp(a[0] + b[0] * x), observed=rng.poisson(np.exp(0.4 + 0.3 * x)))
    duration = rng.exponential(np.exp(0.2 - 0.5 * x))
    pm.Exponential("duration", pm.math.exp(-a[1] - b[1] * x), observed=duration)


MODELS = (
    a_curve,
    two_normals,
    three_outcomes,
    smooth,
    volatility,
    missing_values,
    two_outcomes,
)
