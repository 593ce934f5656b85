"""Textbook models of small real tables, most with a latent variable for each row or group.

Each function writes a model into the PyMC model of the current context.
"""

import numpy as np
import pymc as pm

from studies.street import tables


def eight_schools() -> None:
    """Write a model of effects of eight schools, centred."""
    effect, error = tables.SCHOOLS
    mu = pm.Normal("mu", 0.0, 10.0)
    tau = pm.HalfCauchy("tau", 5.0)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, error, observed=effect)


def eight_schools_not_centred() -> None:
    """Write the model of `eight_schools`, not centred."""
    effect, error = tables.SCHOOLS
    mu = pm.Normal("mu", 0.0, 10.0)
    tau = pm.HalfCauchy("tau", 5.0)
    z = pm.Normal("z", shape=8)
    pm.Normal("y", pm.Deterministic("theta", mu + tau * z), error, observed=effect)


def baseball() -> None:
    """Write a model of shares of hits, with a latent logit for each batter, not centred."""
    mu = pm.Normal("mu", -1.0, 1.0)
    tau = pm.HalfNormal("tau", 1.0)
    z = pm.Normal("z", shape=18)
    pm.Binomial("y", n=tables.AT_BAT, logit_p=mu + tau * z, observed=tables.HITS)


def pumps() -> None:
    """Write a model of rates of failures of ten pumps, with a gamma prior."""
    alpha = pm.Exponential("alpha", 1.0)
    beta = pm.Gamma("beta", 0.1, 1.0)
    rate = pm.Gamma("rate", alpha, beta, shape=10)
    pm.Poisson("y", rate * tables.HOURS, observed=tables.FAILURES)


def surgery() -> None:
    """Write a model of deaths in twelve hospitals, with centred logits."""
    mu = pm.Normal("mu", 0.0, 3.0)
    tau = pm.HalfNormal("tau", 1.0)
    logit = pm.Normal("logit", mu, tau, shape=12)
    pm.Binomial("y", n=tables.OPERATIONS, logit_p=logit, observed=tables.DEATHS)


def seeds() -> None:
    """Write a binomial regression of germinated seeds with an effect for each plate, not centred."""
    beta = pm.Normal("beta", 0.0, 2.0, shape=4)
    tau = pm.HalfNormal("tau", 1.0)
    z = pm.Normal("z", shape=21)
    kind = tables.KIND_OF_SEED
    extract = tables.EXTRACT
    fixed = beta[0] + beta[1] * kind + beta[2] * extract + beta[3] * kind * extract
    pm.Binomial("y", n=tables.SEEDS, logit_p=fixed + tau * z, observed=tables.GERMINATED)


def growth_curves() -> None:
    """Write a model of a line to the weights of each of twelve rats, with flat priors of the scales."""
    rat = np.repeat(np.arange(12), 5)
    age = np.tile(tables.AGES - 22.0, 12)
    level = pm.Normal("level", 250.0, 100.0)
    slope = pm.Normal("slope", 6.0, 5.0)
    spread = pm.HalfFlat("spread")
    tilt = pm.HalfFlat("tilt")
    noise = pm.HalfFlat("noise")
    a = pm.Normal("a", level, spread, shape=12)
    b = pm.Normal("b", slope, tilt, shape=12)
    pm.Normal("y", a[rat] + b[rat] * age, noise, observed=tables.RATS.ravel().astype(float))


def disasters() -> None:
    """Write a model of a change of the rate in an unknown, discrete year."""
    year = np.arange(1851, 1962)
    change = pm.DiscreteUniform("change", 1851, 1961)
    early = pm.Exponential("early", 1.0)
    late = pm.Exponential("late", 1.0)
    pm.Poisson("y", pm.math.switch(change >= year, early, late), observed=tables.DISASTERS)


def lynx() -> None:
    """Write a model of an autoregression of order two on logarithms."""
    rho = pm.Normal("rho", 0.0, 1.0, shape=3)
    noise = pm.HalfNormal("noise", 1.0)
    pm.AR("y", rho, sigma=noise, constant=True, init_dist=pm.Normal.dist(6.0, 2.0), observed=np.log(tables.LYNX))


MODELS = (
    eight_schools,
    eight_schools_not_centred,
    baseball,
    pumps,
    surgery,
    seeds,
    growth_curves,
    disasters,
    lynx,
)
