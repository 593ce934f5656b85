"""Metropolis-Hastings with a sequential t-test, written from the textbook in NumPy.

It shares nothing with the library but the random streams, so equal chains mean that the library's kernels do what the
formulas say. Slow, and meant to be.
"""

import numpy as np
from scipy import stats
from scipy.special import ndtr

from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.engine.streams import seed_sequences, streams


def chain(terms, log_prior, propose, theta, *, n_obs, steps, seed, test, rule="metropolis", chain_index=0):
    """Return the states after each step, shape (steps, dim), and the data read by each decision.

    `terms(theta)` returns all N log-likelihood terms, `propose(rng, theta)` a pair (theta', log q-ratio), and
    `test(rng, order, differences, mu_0)` a pair (accept, data read).
    """
    sequences, _ = seed_sequences(seed, chain_index + 1)
    own = streams(sequences[chain_index])
    order = np.arange(n_obs)
    draws, read = [], []
    for _ in range(steps):
        proposed, log_q_ratio = propose(own.proposal, theta)
        log_u = -own.uniform.standard_exponential()
        threshold = log_u if rule == "metropolis" else log_u - np.log1p(-np.exp(log_u))
        log_rest = log_prior(proposed) - log_prior(theta) + log_q_ratio
        differences = terms(proposed) - terms(theta)
        accept, n = test(own.order, order, differences, (threshold - log_rest) / n_obs)
        theta = proposed if accept else theta
        draws.append(theta)
        read.append(n)
    return np.array(draws), np.array(read)


def random_walk(scale):
    """Return ``propose(rng, theta)`` of the random walk theta + scale z."""

    def propose(rng, theta):
        return theta + scale * np.array([rng.standard_normal() for _ in theta]), 0.0

    return propose


def exact(rng, order, differences, mu_0):
    """Decide on all terms."""
    return differences.mean() > mu_0, len(differences)


def sequential_t(epsilon, batch_size):
    """Decide by the sequential t-test; order is shuffled lazily and kept between decisions."""

    def decide(rng, order, differences, mu_0):
        n_obs, n = len(differences), 0
        while True:
            stop = min(n + batch_size, n_obs)
            for place in range(n, stop):
                other = place + int(rng.random() * (n_obs - place))
                order[[place, other]] = order[[other, place]]
            n = stop
            seen = differences[order[:n]]
            if n == n_obs:
                return seen.mean() > mu_0, n
            standard_error = seen.std(ddof=1) / np.sqrt(n) * np.sqrt(1.0 - n / n_obs)
            t = (seen.mean() - mu_0) / standard_error
            if stats.t.sf(abs(t), n - 1) < epsilon:
                return t > 0.0, n

    return decide


def minibatch_barker_probability(seen, n_obs, log_rest, *, target_variance=1.0, temperature=1.0):
    """Return the acceptance probability given the terms seen, or None if their variance is too large: one look.

    The look is that of the minibatch Barker test, with the library's correction distribution.
    """
    n = len(seen)
    estimates = log_rest + n_obs / temperature * seen
    if n == n_obs:
        return 1.0 / (1.0 + np.exp(-estimates.mean()))
    variance = ((estimates - estimates.mean()) ** 2).sum() / (n * (n - 1)) * (1.0 - n / n_obs)
    if variance >= target_variance:
        return None
    correction = correction_distribution(np.sqrt(target_variance))
    z = (estimates.mean() + correction.atoms) / np.sqrt(target_variance - variance)
    return float(correction.weights @ ndtr(z))
