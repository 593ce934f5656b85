"""Posteriors of the tall-data suite that are not logistic regressions, on data simulated from their own model.

Each function makes a target of ``n`` rows. If the library has no class for a posterior, the target is a PyMC model,
which samplers of other libraries accept too.
"""

from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Target

COLUMNS = 10
GROUPS = 50
CLASSES = 4
SEED = 2026
DISPERSION = 2.0  # shape of the negative binomial: variance mu + mu^2 / 2


def _columns(n: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Return a random generator, a column of ones with standard normal columns, and coefficients of moderate size."""
    rng = np.random.default_rng(SEED)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, COLUMNS - 1))])
    return rng, X, 0.3 * rng.normal(size=COLUMNS)


def poisson(n: int) -> Target:
    """Return a Poisson regression with a log link; beta_j ~ N(0, 1)."""
    import pymc as pm

    rng, X, beta = _columns(n)
    counts = rng.poisson(np.exp(X @ beta))
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(X @ pm.Normal("beta", 0.0, 1.0, shape=COLUMNS)), observed=counts)
    return amc.from_pymc(model)


def student_t(n: int) -> Target:
    """Return a linear regression with Student-t errors, 4 degrees of freedom; beta_j ~ N(0, 1)."""
    rng, X, beta = _columns(n)
    return amc.targets.RobustRegression(X, X @ beta + rng.standard_t(4, size=n), df=4.0)


def softmax(n: int) -> Target:
    """Return a softmax regression of four classes; coefficients ~ N(0, 1)."""
    rng, X, _ = _columns(n)
    eta = X @ (0.5 * rng.normal(size=(COLUMNS, CLASSES)))
    return amc.targets.SoftmaxRegression(X, (eta + rng.gumbel(size=eta.shape)).argmax(axis=1))


def negative_binomial(n: int) -> Target:
    """Return a negative binomial regression with unknown dispersion alpha: beta_j ~ N(0, 1), log alpha ~ N(0, 1)."""
    import pymc as pm

    rng, X, beta = _columns(n)
    counts = rng.poisson(np.exp(X @ beta) * rng.gamma(DISPERSION, 1.0 / DISPERSION, size=n))
    with pm.Model() as model:
        mu = pm.math.exp(X @ pm.Normal("beta", 0.0, 1.0, shape=COLUMNS))
        pm.NegativeBinomial("y", mu=mu, alpha=pm.math.exp(pm.Normal("log_alpha", 0.0, 1.0)), observed=counts)
    return amc.from_pymc(model)


def hierarchy(n: int) -> Target:
    """Return a logistic regression with an intercept for each of 50 groups of very different sizes.

    The intercept of group g is mu + tau z_g, with z_g ~ N(0, 1), mu ~ N(0, 1), tau ~ HalfNormal(1), beta_j ~ N(0, 1).
    """
    import pymc as pm

    rng, X, beta = _columns(n)
    group = rng.choice(GROUPS, size=n, p=rng.dirichlet(np.ones(GROUPS)))
    effect = 0.7 * rng.normal(size=GROUPS)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(X[:, 1:] @ beta[1:] + effect[group])))
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        tau = pm.HalfNormal("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=GROUPS)
        slopes = pm.Normal("beta", 0.0, 1.0, shape=COLUMNS - 1)
        pm.Bernoulli("y", logit_p=X[:, 1:] @ slopes + mu + tau * z[group], observed=y.astype(int))
    return amc.from_pymc(model)


def customer_lifetimes(n: int) -> Target:
    r"""Return the BG/NBD model of repeat purchases of n customers (Fader, Hardie and Lee 2005, equation 3).

    A customer buys at rate lambda ~ Gamma(r, alpha) and leaves after each purchase with probability p ~ Beta(a, b).
    With x repeat purchases, the last at t, in the time T since the first,

    .. math:: L = \frac{\Gamma(r + x) \alpha^r}{\Gamma(r)} \left[ \frac{B(a, b + x)}{B(a, b)} (\alpha + T)^{-(r + x)}
       + 1_{x > 0} \frac{B(a + 1, b + x - 1)}{B(a, b)} (\alpha + t)^{-(r + x)} \right].

    log r, log alpha, log a and log b ~ N(0, 1).
    """
    import pymc as pm
    import pytensor.tensor as pt

    x, last, span = _purchases(n)
    later = np.maximum(x, 1.0)

    def log_likelihood(value: Any, r: Any, alpha: Any, a: Any, b: Any) -> Any:
        x, last, span, later = (value[:, k] for k in range(4))
        common = pt.gammaln(r + x) - pt.gammaln(r) + r * pt.log(alpha) + pt.gammaln(a + b) - pt.gammaln(b)
        alive = pt.gammaln(b + x) - pt.gammaln(a + b + x) - (r + x) * pt.log(alpha + span)
        gone = pt.log(a) - pt.log(b + later - 1.0) + alive + (r + x) * (pt.log(alpha + span) - pt.log(alpha + last))
        return common + pt.switch(pt.gt(x, 0.0), pt.logaddexp(alive, gone), alive)

    with pm.Model() as model:
        named = {name: pm.math.exp(pm.Normal(f"log_{name}", 0.0, 1.0)) for name in ("r", "alpha", "a", "b")}
        pm.CustomDist(
            "y",
            *named.values(),
            logp=log_likelihood,
            observed=np.column_stack([x, last, span, later]),
            signature="(),(),(),()->(4)",
        )
    return amc.from_pymc(model)


def _purchases(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate repeat purchases, time of the last one and time observed, of n customers, in weeks.

    Parameters are near the estimates of Fader, Hardie and Lee (2005) on the CDNOW data: r = .24, alpha = 4.4, a = .79,
    b = 2.4.
    """
    rng = np.random.default_rng(SEED)
    rate = rng.gamma(0.24, 1.0 / 4.4, size=n)
    leaves = rng.beta(0.79, 2.4, size=n)
    span = rng.uniform(27.0, 39.0, size=n)
    stays = rng.geometric(leaves)  # purchases until the customer leaves
    x = np.zeros(n)
    last = np.zeros(n)
    for i in range(n):
        time = 0.0
        while x[i] < stays[i]:
            time += rng.exponential(1.0 / rate[i])
            if time > span[i]:
                break
            x[i], last[i] = x[i] + 1.0, time
    return x, last, span
