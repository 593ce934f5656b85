"""Proposals with a momentum in NumPy, from the textbook; they share only the random stream with the library."""

import itertools

import numpy as np

from approxmcmc.contracts import COUNT_NAMES
from tests import langevin as book
from tests.planting import plain


def estimator(terms, prior, *, n, n_obs, anchor=None):
    """Return ``draw(rng)``, which draws a minibatch and returns the gradient that it estimates, a function of theta."""
    order = np.arange(n_obs)

    def draw(rng):
        for place in range(n):
            other = place + int(rng.random() * (n_obs - place))
            order[[place, other]] = order[[other, place]]
        batch = order[:n].copy()

        def gradient(theta):
            if anchor is None:
                return prior(theta) + n_obs / n * terms(theta)[batch].sum(axis=0)
            differences = (terms(theta) - terms(anchor))[batch]
            return prior(theta) + terms(anchor).sum(axis=0) + n_obs / n * differences.sum(axis=0)

        return gradient

    return draw


def normals(rng, dim):
    """Return `dim` standard normals, drawn one by one."""
    return np.array([rng.standard_normal() for _ in range(dim)])


def sghmc(draw, h, gamma, M, *, steps=1, V=None):
    """Return ``propose(rng, theta)`` of BAOAB without a test; V is the covariance of the estimated gradient."""
    L, c = np.linalg.cholesky(M), np.exp(-gamma * h)
    dim, velocity = len(M), []
    S = (1.0 - c**2) * np.eye(dim) - (0.0 if V is None else (1.0 + c) ** 2 / 4.0 * h**2 * L.T @ V @ L)

    def propose(rng, theta):
        v = velocity.pop() if velocity else normals(rng, dim)
        for _ in range(steps):
            v = v + h * L.T @ draw(rng)(theta)
            theta = theta + h / 2.0 * L @ v
            v = c * v + np.linalg.cholesky(S) @ normals(rng, dim)
            theta = theta + h / 2.0 * L @ v
        velocity.append(v)
        return theta, 0.0

    return propose


def corrected(draw, h, gamma, M, *, steps=1):
    """Return ``propose(rng, theta)`` of trajectories that a test decides; a rejection reverses the velocity."""
    L, c = np.linalg.cholesky(M), np.exp(-gamma * h)
    dim, last = len(M), []

    def propose(rng, theta):
        if last:
            there, v_there, v = last.pop()
            v = v_there if np.array_equal(theta, there) else -v
        else:
            v = normals(rng, dim)
        start, ratio = v, 0.0
        for step in range(steps + 1):
            if step > 0:
                theta = theta + h / 2.0 * L @ v
                v = c * v + np.sqrt(1.0 - c**2) * normals(rng, dim)
                theta = theta + h / 2.0 * L @ v
            kicked = v + (h if 0 < step < steps else h / 2.0) * L.T @ draw(rng)(theta)
            ratio -= (kicked @ kicked - v @ v) / 2.0
            v = kicked
        last.append((theta, v, start))
        return theta, ratio

    return propose


def hmc(terms, prior, step_size, length, M, most_steps, L=None):
    """Return ``propose(rng, theta)`` of leapfrog trajectories with a step and a length drawn for each; L L' = M."""
    L = np.linalg.cholesky(M) if L is None else L

    def force(theta):
        return L.T @ (prior(theta) + terms(theta).sum(axis=0))

    def propose(rng, theta):
        v = start = normals(rng, len(M))
        h = step_size * (0.9 + 0.2 * rng.random())
        steps = min(most_steps, max(1, int(length * (0.6 + 0.8 * rng.random()) / h + 0.5)))
        for _ in range(steps):
            v = v + h / 2.0 * force(theta)
            theta = theta + h * L @ v
            v = v + h / 2.0 * force(theta)
        return theta, (start @ start - v @ v) / 2.0

    return propose


class LinearChain:
    """The kernel of a proposal on a normal target, (theta, v) -> F (theta, v) + shift(batch) + G z, read off its steps.

    `shifts` has a row for each minibatch; all are equally probable.
    """

    def __init__(self, target, part, n, *, wrong=None):
        dim = target.variables.size
        kernel, count = plain(part.propose, wrong), np.zeros(len(COUNT_NAMES), dtype=np.int64)
        batches = list(itertools.combinations(range(target.n_obs), n))

        def step(theta, v, batch, z):
            state, out = part.make_state(), np.empty(dim)
            state.velocity[:] = v
            kernel(book.Script(book.picks(batch, target.n_obs), z.tolist()), state, theta, out, count)
            return np.concatenate([out, state.velocity])

        nothing, units = np.zeros(dim), np.eye(2 * dim)
        self.shifts = np.array([step(nothing, nothing, batch, nothing) for batch in batches])
        origin, first = self.shifts[0], batches[0]
        self.F = np.array([step(u[:dim], u[dim:], first, nothing) - origin for u in units]).T
        self.G = np.array([step(nothing, nothing, first, z) - origin for z in np.eye(dim)]).T

    def stationary_covariance(self):
        """Return the solution of C = F C F' + G G' + cov(shift)."""
        from scipy.linalg import solve_discrete_lyapunov

        return solve_discrete_lyapunov(self.F, self.G @ self.G.T + np.cov(self.shifts.T, bias=True))
