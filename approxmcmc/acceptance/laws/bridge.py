"""The distribution of the sequential test's statistic over all looks, as a recursion over a Brownian bridge.

With many terms, the test depends on the population of terms through one number only, the standardised mean
``mu_std = (mu - mu_0) sqrt(N - 1) / sigma_l``, mu and sigma_l the mean and standard deviation of all N terms, mu_0 the
threshold. After the fraction pi_j = n_j / N, drawn without replacement, the statistic z_j is a Brownian bridge with
drift divided by its standard deviation:

    z_j ~ N(mu_std m_j, 1),   m_j = sqrt(pi_j / (1 - pi_j)),   corr(z_i, z_j) = m_i / m_j   (i < j).

The test stops at look j when |z_j| > G_j. Given z_j, the earlier statistics do not depend on mu_std. So the
probability ``u_j(z)`` that no look before j stopped, given z_j = z, is one function for every mu_std, and obeys

    u_1 = 1,   u_j(z) = integral over |y| < G_{j-1} of u_{j-1}(y) N(y; rho_j z, 1 - rho_j^2) dy,   rho_j = m_{j-1}/m_j.

The density of z_j on "no stop before j" is u_j(z) N(z; mu_std m_j, 1); errors and costs follow for all mu_std at once.

References: Korattikara, Chen and Welling, *Austerity in MCMC Land* (2014), section 5 and its supplement; Pocock (1977)
for the constant boundary.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr, roots_legendre

from approxmcmc.acceptance.laws.looks import critical_values, look_sizes

# In float64 the probability that a statistic 40 standard errors from zero has the wrong sign is 0, so larger limits are
# set to 40.
CERTAIN = 40.0
LEAST_NODES = 96
NODES_PER_SPREAD = 8  # number of quadrature nodes on [-G, G], divided by G / (smallest standard deviation of a step)
NEGLIGIBLE = 1e-18
KNOTS_PER_FEATURE = 10  # on the axis asinh(mu_std m_{J-1}), where features are 1 / G wide: interpolation adds < 1e-6
NOISE_NODES = 64
LAST_NOISE = 40.0  # largest noise of the threshold in the integral; the probability of a larger one is about exp(-40)

Characteristic = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

legendre = lru_cache(maxsize=128)(roots_legendre)


def schedule(
    epsilon: float, batch_size: int, n_obs: int, growth: float, thresholds: str, shape: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Return the fractions pi_1 ... pi_J of the data read at the looks, and the limits G_1 ... G_{J-1}, at most 40."""
    looks = look_sizes(n_obs, batch_size, growth)
    return looks / n_obs, np.minimum(critical_values(looks, epsilon, thresholds, shape), CERTAIN)


def narrowest_feature(n_obs: int, batch_size: int, growth: float) -> float:
    """Return the least distance in mu_std over which the test changes much, sqrt(n_J / n_{J-1} - 1).

    n_j is the number of terms read at look j of J; 1 if J = 1.
    """
    looks = look_sizes(n_obs, batch_size, growth)
    return math.sqrt(looks[-1] / looks[-2] - 1.0) if looks.size > 1 else 1.0


@lru_cache(maxsize=64)
def operating_characteristic(
    epsilon: float, batch_size: int, n_obs: int, growth: float, thresholds: str, shape: float
) -> Characteristic:
    """Return the function from mu_std to the probability of a wrong decision and the expected data fraction.

    It interpolates a table, which is computed once for each test and process.
    """
    fractions, limits = schedule(epsilon, batch_size, n_obs, growth, thresholds, shape)
    if epsilon == 0.0 or limits.size == 0:
        return lambda mu_std: (np.zeros(np.shape(mu_std)), np.ones(np.shape(mu_std)))

    from scipy.interpolate import CubicSpline

    width = narrowest_feature(n_obs, batch_size, growth)
    farthest = (limits[0] + 9.0) * math.sqrt(
        1.0 / fractions[0] - 1.0
    )  # from here on the first look stops with the right decision, except with probability 1e-19
    top = math.asinh(farthest / width)
    axis = np.linspace(0.0, top, math.ceil(top * KNOTS_PER_FEATURE * max(limits.max(), 2.5)) + 1)
    curves = CubicSpline(axis, np.stack(stopped_early(np.sinh(axis) * width, fractions, limits), axis=-1))

    def characteristic(mu_std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        curve = curves(np.arcsinh(np.minimum(np.abs(mu_std), farthest) / width))
        return np.clip(curve[..., 0], 0.0, 0.5), np.clip(curve[..., 1], fractions[0], 1.0)

    return characteristic


def stopped_early(
    mu_std: np.ndarray, fractions: np.ndarray, limits: np.ndarray, refine: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of stopping early on the wrong side, and the expected fraction read, for ``mu_std >= 0``.

    `refine` multiplies the number of quadrature nodes; use it to check convergence.
    """
    early = fractions[:-1]
    slopes = np.sqrt(early / (1.0 - early))
    spreads = np.append(np.sqrt(np.diff(early) / (early[1:] * (1.0 - early[:-1]))), 1.0)  # sd of step j -> j + 1
    error = ndtr(-limits[0] - mu_std * slopes[0])
    used = np.full_like(mu_std, fractions[0])
    alive = np.arange(mu_std.size)  # values of mu_std at which a test may still be running
    nodes = inner = mass = np.empty(0)
    for j, limit in enumerate(limits):
        step = spreads[max(j - 1, 0)]
        outer, weights = _nodes(limit, min(step, spreads[j]), refine)
        undecided = np.ones_like(outer)
        if j > 0:
            correlation = slopes[j - 1] / slopes[j]
            drift = mu_std[alive] * (slopes[j] - correlation * slopes[j - 1])
            error[alive] += (mass * ndtr((-limit - correlation * nodes - drift[:, None]) / step)).sum(axis=1)
            undecided = _normal((nodes - correlation * outer[:, None]) / step) / step @ inner
        nodes = outer
        inner = weights * undecided
        mass = _normal(nodes - mu_std[alive, None] * slopes[j]) * inner
        left = mass.sum(axis=1)
        used[alive] += (fractions[j + 1] - fractions[j]) * left
        keep = left > NEGLIGIBLE
        alive = alive[keep]
        mass = mass[keep]
    return error, used


def integrate_noise(
    log_ratio: np.ndarray, tau: np.ndarray, characteristic: Characteristic, narrow: float, rule: str
) -> np.ndarray:
    """Integrate error and data fraction over the threshold's noise e = -T(u), for each pair.

    Return, with shape (2, pairs), the error of the acceptance probability (positive: accepts too often) and the
    expected share of the data read. The decision is about the sign of Lambda + e. The noise has density exp(-e), e >= 0
    (Metropolis), or the logistic density (Barker). The range is split at e = 0, where the noise is densest, and at the
    kink e = -Lambda. From each of these two points the nodes spread out geometrically; the first width is `narrow *
    tau`, that is the width of the narrowest feature of the error.
    """
    kink = -log_ratio
    low = np.minimum(kink, 0.0)
    high = np.maximum(kink, 0.0)
    if rule == "metropolis":
        low = np.zeros_like(kink)
    half = np.minimum((high - low) / 2.0, LAST_NOISE)
    beyond = np.full_like(kink, LAST_NOISE)
    pieces = [(low, 1.0, half), (high, -1.0, half), (high, 1.0, beyond)]
    if rule == "barker":
        pieces.append((low, -1.0, beyond))
    start = np.clip(narrow * tau, 1e-8, 1.0)[:, None]
    nodes, weights = legendre(NOISE_NODES)
    total = np.zeros((2, log_ratio.size))
    for anchor, direction, length in pieces:
        reach = np.log1p(length[:, None] / start)
        position = 0.5 * reach * (nodes + 1.0)
        noise = anchor[:, None] + direction * start * np.expm1(position)
        density = np.exp(-noise) if rule == "metropolis" else expit(noise) * expit(-noise)
        share = density * (0.5 * reach * weights) * start * np.exp(position)
        above = log_ratio[:, None] + noise
        mu_std = np.divide(above, tau[:, None], out=np.full_like(above, np.inf), where=tau[:, None] > 0.0)
        error, fraction = characteristic(mu_std)
        total[0] += (share * np.where(above > 0.0, -error, error)).sum(axis=1)
        total[1] += (share * fraction).sum(axis=1)
    return total


def _nodes(limit: float, spread: float, refine: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights on [-limit, limit], dense enough for functions of width `spread`."""
    # Rounded up to a multiple of the least number, so that few different rules are computed, each only once.
    count = LEAST_NODES * max(1, math.ceil(NODES_PER_SPREAD * limit / spread / LEAST_NODES))
    nodes, weights = legendre(count * refine)
    return nodes * limit, weights * limit


def _normal(z: np.ndarray) -> np.ndarray:
    density: np.ndarray = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return density
