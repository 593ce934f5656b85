"""Firefly in NumPy, with which the compiled chain and its speed are compared.

Written from the formulas of Maclaurin and Adams (2014), with array operations wherever the algorithm allows them. It
shares nothing with the library but the random streams, so equal chains mean that the kernels do what the formulas say.
"""

import numpy as np

from approxmcmc.engine.streams import seed_sequences, streams


def log_expm1(gap):
    """Return log(exp(gap) - 1) for an array; -inf at 0."""
    with np.errstate(divide="ignore"):
        return gap + np.where(gap < np.log(2.0), np.log(-np.expm1(-gap)), np.log1p(-np.exp(-gap)))


class Logistic:
    """Logistic regression with Jaakkola-Jordan bounds, y in {0, 1}, N(0, s^2) priors."""

    def __init__(self, X, y, prior_scale, xi):
        self.X, self.prior_scale = X, prior_scale
        xi = np.abs(np.broadcast_to(xi, len(y)).astype(float))
        safe = np.where(xi < 1e-8, 1.0, xi)
        self.a = np.where(xi < 1e-8, -0.125, -np.tanh(safe / 2) / (4 * safe))
        self.c = -self.a * xi**2 - np.logaddexp(xi / 2, -xi / 2)
        self.Q, self.linear = (X * self.a[:, None]).T @ X, X.T @ (y - 0.5)
        self.constant = self.c.sum()

    def gaps(self, theta, rows):
        eta = self.X[rows] @ theta
        return np.maximum(0.0, -np.logaddexp(eta / 2, -eta / 2) - self.a[rows] * eta**2 - self.c[rows])

    def log_prior_and_bound(self, theta):
        prior = -0.5 * (theta @ theta) / self.prior_scale**2
        return prior + theta @ (self.Q @ theta) + self.linear @ theta + self.constant


class Robust:
    """Regression with Student-t errors."""

    def __init__(self, X, y, df, scale, prior_scale, xi):
        self.X, self.y, self.df, self.scale, self.prior_scale = X, y, df, scale, prior_scale
        xi = np.broadcast_to(xi, len(y))
        self.a = -(df + 1) / 2 / (df + xi**2)
        self.c = -self.a * xi**2 - (df + 1) / 2 * np.log1p(xi**2 / df)

    def gaps(self, theta, rows):
        r = (self.y[rows] - self.X[rows] @ theta) / self.scale
        return np.maximum(0.0, -(self.df + 1) / 2 * np.log1p(r**2 / self.df) - self.a[rows] * r**2 - self.c[rows])

    def log_prior_and_bound(self, theta):
        r = (self.y - self.X @ theta) / self.scale
        return -0.5 * (theta @ theta) / self.prior_scale**2 + (self.a * r**2 + self.c).sum()


class Softmax:
    """Softmax regression with Boehning's bounds, theta class after class."""

    def __init__(self, X, y, n_classes, prior_scale, beta_0):
        self.X, self.y, self.K, self.prior_scale = X, y, n_classes, prior_scale
        self.eta_0 = X @ beta_0.T
        self.log_partition = np.logaddexp.reduce(self.eta_0, axis=1)
        self.gradient = np.exp(self.eta_0 - self.log_partition[:, None])
        self.A = 0.5 * (np.eye(n_classes) - 1.0 / n_classes)

    def upper(self, theta, rows):
        delta = self.X[rows] @ theta.reshape(self.K, -1).T - self.eta_0[rows]
        curved = 0.5 * np.einsum("nk,kl,nl->n", delta, self.A, delta)
        return self.log_partition[rows] + (self.gradient[rows] * delta).sum(axis=1) + curved

    def gaps(self, theta, rows):
        eta = self.X[rows] @ theta.reshape(self.K, -1).T
        return np.maximum(0.0, self.upper(theta, rows) - np.logaddexp.reduce(eta, axis=1))

    def log_prior_and_bound(self, theta):
        rows = np.arange(len(self.y))
        own = (self.X * theta.reshape(self.K, -1)[self.y]).sum()
        return -0.5 * (theta @ theta) / self.prior_scale**2 + own - self.upper(theta, rows).sum()


class Chain:
    """One chain with Gaussian random-walk steps and implicit updates of z, q_bright = 1."""

    def __init__(self, model, theta, *, n_obs, scale, q, seed, chain_index=0):
        sequences, _ = seed_sequences(seed, chain_index + 1)
        self.streams = streams(sequences[chain_index])
        self.model, self.theta, self.scale, self.q = model, theta.copy(), scale, q
        gaps = model.gaps(theta, np.arange(n_obs))
        bright = self.streams.start.random(n_obs) < -np.expm1(-gaps)
        # Bright data in front, and the place of each datum, which decides the uniform that it gets.
        self.order = np.concatenate([np.flatnonzero(bright), np.flatnonzero(~bright)])
        self.size = int(bright.sum())
        self.odds = log_expm1(gaps[self.order[: self.size]])
        self.base = model.log_prior_and_bound(theta)

    def move_theta(self):
        """Propose, accept on the joint density; return whether theta moved."""
        own = self.streams
        proposed = self.theta + self.scale * own.proposal.standard_normal(len(self.theta))
        log_u = -own.uniform.standard_exponential()
        odds = log_expm1(self.model.gaps(proposed, self.order[: self.size]))
        base = self.model.log_prior_and_bound(proposed)
        if log_u < base + odds.sum() - self.base - self.odds.sum():
            self.theta, self.odds, self.base = proposed, odds, base
            return True
        return False

    def move_z(self):
        """Resample the indicators; return the number of dark data that proposed to become bright."""
        rng, order, first_dark = self.streams.order, self.order, self.size
        goes = rng.random(first_dark)[::-1] < np.exp(np.minimum(0.0, np.log(self.q) - self.odds))
        for place in np.flatnonzero(goes)[::-1]:
            self.size -= 1
            order[place], order[self.size] = order[self.size], order[place]
            self.odds[place] = self.odds[self.size]
        self.odds = self.odds[: self.size]
        places, place, rate = [], first_dark - 1, -np.log1p(-self.q)
        while (jump := rng.standard_exponential() / rate) < len(order) - 1 - place:
            place += 1 + int(jump)
            places.append(place)
        chosen = order[places]
        gaps = self.model.gaps(self.theta, chosen)
        bright = rng.random(len(chosen)) < np.minimum(1.0, np.expm1(np.minimum(gaps, 700.0)) / self.q)
        # A candidate keeps its place until another one is moved there, which only happens to places already visited.
        for k in np.flatnonzero(bright):
            place = places[k]
            order[place], order[self.size] = order[self.size], order[place]
            self.size += 1
        self.odds = np.append(self.odds, log_expm1(gaps[bright]))
        return len(chosen)

    def run(self, steps):
        """Return the states, the bright counts, the dark proposals and the moves of `steps` steps."""
        draws, bright, dark, moved = np.empty((steps, len(self.theta))), [], [], []
        for step in range(steps):
            moved.append(self.move_theta())
            dark.append(self.move_z())
            bright.append(self.size)
            draws[step] = self.theta
        return draws, np.array(bright), np.array(dark), np.array(moved)
