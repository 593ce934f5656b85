"""Langevin proposals in NumPy, from the textbook; they share only the random stream with the library."""

import numpy as np

from approxmcmc.targets import FunctionTarget


def loglik(theta, data, i):
    """Return log N(x_i | theta, I) up to a constant."""
    (x,) = data
    total = 0.0
    for j in range(theta.shape[0]):
        total -= 0.5 * (x[i, j] - theta[j]) ** 2
    return total


def grad_loglik(theta, data, i, out):
    """Add the gradient of `loglik` to `out`."""
    (x,) = data
    for j in range(theta.shape[0]):
        out[j] += x[i, j] - theta[j]


def logprior(theta):
    """Return log N(theta | 0, 100 I) up to a constant."""
    total = 0.0
    for j in range(theta.shape[0]):
        total -= 0.005 * theta[j] * theta[j]
    return total


def grad_logprior(theta, out):
    """Add the gradient of `logprior` to `out`."""
    for j in range(theta.shape[0]):
        out[j] -= 0.01 * theta[j]


def normal_means(n: int = 100, dim: int = 1, seed: int = 0) -> FunctionTarget:
    """Return the posterior, with precision n + 0.01, of the means of normal data with variance 1 (divisor n - 1)."""
    x = np.random.default_rng(seed).normal(size=(n, dim))
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1) + 0.3
    return FunctionTarget(
        loglik, logprior, data=x, n_obs=n, dim=dim, grad_loglik=grad_loglik, grad_logprior=grad_logprior
    )  # fmt: skip


def scores(x):
    """Return the function that gives the gradients of all terms at theta, shape (n, dim)."""
    return lambda theta: x - theta


def prior_score(theta):
    """Return the gradient of the log prior of `normal_means`."""
    return -0.01 * theta


def _log_ratio(theta, proposed, m_theta, m_proposed, precision, alpha):
    forward, back = proposed - m_theta, theta - m_proposed
    return (forward @ precision @ forward - back @ precision @ back) / (2.0 * alpha)


def mala(terms, prior, alpha, M):
    """Return ``propose(rng, theta)`` of the Metropolis-adjusted Langevin algorithm."""
    L, precision = np.linalg.cholesky(M), np.linalg.inv(M)

    def m(theta):
        return theta + alpha / 2.0 * M @ (prior(theta) + terms(theta).sum(axis=0))

    def propose(rng, theta):
        z = np.array([rng.standard_normal() for _ in theta])
        proposed = m(theta) + np.sqrt(alpha) * L @ z
        return proposed, _log_ratio(theta, proposed, m(theta), m(proposed), precision, alpha)

    return propose


def sgld(terms, prior, step_size, M, *, n, n_obs, anchor=None):
    """Return ``propose(rng, theta)`` of SGLD, both densities given the same minibatch; `step_size` maps t to alpha."""
    L, precision, order, time = np.linalg.cholesky(M), np.linalg.inv(M), np.arange(n_obs), iter(range(10**9))

    def propose(rng, theta):
        alpha = step_size(next(time))
        for place in range(n):
            other = place + int(rng.random() * (n_obs - place))
            order[[place, other]] = order[[other, place]]
        batch = order[:n]

        def m(at):
            if anchor is None:
                likelihood = n_obs / n * terms(at)[batch].sum(axis=0)
            else:
                likelihood = terms(anchor).sum(axis=0) + n_obs / n * (terms(at) - terms(anchor))[batch].sum(axis=0)
            return at + alpha / 2.0 * M @ (prior(at) + likelihood)

        proposed = m(theta) + np.sqrt(alpha) * L @ np.array([rng.standard_normal() for _ in theta])
        return proposed, _log_ratio(theta, proposed, m(theta), m(proposed), precision, alpha)

    return propose


class Script:
    """A random stream with given values: uniforms that pick a minibatch, and standard normals."""

    def __init__(self, uniforms=(), normals=()):
        self.uniforms, self.normals = list(uniforms), list(normals)

    def random(self):
        """Return the next uniform."""
        return self.uniforms.pop(0)

    def standard_normal(self):
        """Return the next normal."""
        return self.normals.pop(0)


def picks(batch, n_obs):
    """Return the uniforms that make a fresh permutation's first places hold `batch`."""
    order, uniforms = list(range(n_obs)), []
    for place, datum in enumerate(batch):
        other = order.index(datum, place)
        uniforms.append((other - place + 0.5) / (n_obs - place))
        order[place], order[other] = order[other], order[place]
    return uniforms
