"""Two lagged chains that meet: how far X runs ahead of Y, how both move together, and when they are first equal.

Each function here returns what makes one coupling, ``meet(rng, x, y) -> tau``: the meeting time in steps of X, which
runs `lag` steps ahead; -1 if the two have not met after `max_steps` steps.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance.rules import RULES
from approxmcmc.bounds.transition import walk_covariance
from approxmcmc.contracts import CompiledTarget, DiscreteTarget
from approxmcmc.engine.batches import BATCH, LOG_PRIOR, log_terms_type, memory_order, sum_terms
from approxmcmc.engine.compile import INDICES, MATRIX, VECTOR, bind, compiled, type_of
from approxmcmc.engine.vectors import assign, equal
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers import Gibbs, MetropolisHastings

Meet = Callable[[np.random.Generator, np.ndarray, np.ndarray], int]


@compiled
def log_density_at(log_terms, log_prior, data, n_obs, theta, work):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return the unnormalised log posterior density on all data."""
    prior = log_prior(theta)
    if prior == -math.inf:
        return prior
    return prior + sum_terms(log_terms, theta, data, memory_order(), n_obs, work)


def _meet_walks(  # type: ignore[no-untyped-def]  # a template
    rng, log_terms, log_prior, data, n_obs, lower, inverse, x, y, x_new, y_new, z, xi, work, lag, max_steps
):
    """Return the meeting time of two lagged random walks; -1 if they have not met after `max_steps` steps of X."""
    dim = x.shape[0]
    x_density = log_density_at(log_terms, log_prior, data, n_obs, x, work)
    y_density = log_density_at(log_terms, log_prior, data, n_obs, y, work)
    for t in range(1, max_steps + 1):
        coupled = t > lag
        for j in range(dim):
            xi[j] = rng.standard_normal()
        square = change = 0.0
        for i in range(dim):
            x_new[i] = x[i]
            z[i] = 0.0
            for j in range(i + 1):
                x_new[i] += lower[i, j] * xi[j]
                z[i] += inverse[i, j] * (x[j] - y[j])
            square += z[i] * z[i]
            change += xi[i] * z[i]
        same = coupled and math.log(1.0 - rng.random()) <= -change - 0.5 * square
        for i in range(dim):
            y_new[i] = x_new[i] if same else y[i]
        if coupled and not same:
            for j in range(dim):  # reflect: xi - 2 (e'xi) e with e = z / |z|
                xi[j] -= 2.0 * change / square * z[j]
            for i in range(dim):
                for j in range(i + 1):
                    y_new[i] += lower[i, j] * xi[j]
        threshold = THRESHOLD(rng)  # type: ignore[name-defined]  # noqa: F821 (bound)
        proposed = log_density_at(log_terms, log_prior, data, n_obs, x_new, work)
        x_moves = threshold < proposed - x_density
        if coupled:
            other = proposed if same else log_density_at(log_terms, log_prior, data, n_obs, y_new, work)
            if threshold < other - y_density:
                assign(y, y_new)
                y_density = other
        if x_moves:
            assign(x, x_new)
            x_density = proposed
        if t >= lag and equal(x, y):
            return t
    return -1


@compiled
def log_odds(log_terms, data, first, n_terms, x, site, zero, one):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return L of a binary site, from all its terms."""
    data[0][0] = first[site]
    kept, total = x[site], 0.0
    for lo in range(0, n_terms[site], BATCH):
        hi = min(lo + BATCH, n_terms[site])
        x[site] = 0.0
        log_terms(x, data, memory_order(), lo, hi, zero)
        x[site] = 1.0
        log_terms(x, data, memory_order(), lo, hi, one)
        for i in range(hi - lo):
            total += one[i] - zero[i]
    x[site] = kept
    return total


def _meet_sweeps(  # type: ignore[no-untyped-def]  # a template
    rng, log_terms, data, first, n_terms, x, y, work, lag, max_steps, systematic
):
    """Return the meeting time, in sweeps, of two lagged Gibbs samplers over binary sites; -1 if they have not met."""
    dim = x.shape[0]
    for t in range(1, max_steps + 1):
        for k in range(dim):
            site = k if systematic else int(rng.random() * dim)
            threshold = THRESHOLD(rng)  # type: ignore[name-defined]  # noqa: F821 (bound)
            at_x = log_odds(log_terms, data, first, n_terms, x, site, work[0], work[1])
            x[site] = 1.0 if threshold < at_x else 0.0
            if t > lag:
                at_y = log_odds(log_terms, data, first, n_terms, y, site, work[0], work[1])
                y[site] = 1.0 if threshold < at_y else 0.0
        if t >= lag and equal(x, y):
            return t
    return -1


def couple_walks(target: Any, sampler: MetropolisHastings, lag: int, max_steps: int) -> Meet:
    """Return the coupling of random walks: reflection-maximal proposals, and one u for both decisions."""
    if sampler.proposal.target_acceptance is not None:
        raise IncompatibleError("couplings: a proposal that still adapts is no Markov chain; fix the scale")
    made: CompiledTarget = target.compile()
    lower = np.linalg.cholesky(walk_covariance(sampler.proposal, target))
    inverse = np.ascontiguousarray(np.linalg.inv(lower))
    dim, data = target.variables.size, type_of(made.data)
    signature = None if config.DISABLE_JIT else nb.int64(
        type_of(np.random.default_rng(0)), log_terms_type(data), LOG_PRIOR, data, nb.int64, MATRIX, MATRIX,
        VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, nb.int64, nb.int64,
    )  # fmt: skip
    kernel = bind(_meet_walks, signature, THRESHOLD=RULES[sampler.test.rule]["THRESHOLD"])

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        scratch = [np.empty(dim) for _ in range(4)]
        return int(
            kernel(
                rng, made.log_terms, made.log_prior, made.data, made.n_obs, lower, inverse, x, y, *scratch,
                np.empty(BATCH), lag, max_steps,
            )
        )  # fmt: skip

    return meet


def couple_gibbs(target: DiscreteTarget, sampler: Gibbs, lag: int, max_steps: int) -> Meet:
    """Return the coupling of Gibbs samplers: the maximal coupling of each conditional, one u for both chains."""
    conditionals = target.compile_conditionals(fields=False)
    data = (np.zeros(1, dtype=np.int64), *conditionals.tables)
    signature = None if config.DISABLE_JIT else nb.int64(
        type_of(np.random.default_rng(0)), log_terms_type(type_of(data)), type_of(data), INDICES, INDICES,
        VECTOR, VECTOR, MATRIX, nb.int64, nb.int64, nb.boolean,
    )  # fmt: skip
    kernel = bind(_meet_sweeps, signature, THRESHOLD=RULES["barker"]["THRESHOLD"])

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        return int(
            kernel(
                rng, conditionals.log_terms, data, conditionals.first, conditionals.n_terms, x, y, np.empty((2, BATCH)),
                lag, max_steps, sampler.scan == "systematic",
            )
        )  # fmt: skip

    return meet


def maximal_coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the joint law of (X, Y), X ~ p, Y ~ q, with the largest chance to be equal; independent where they differ.

    Examples
    --------
    >>> joint = maximal_coupling(np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    >>> joint.round(12).tolist()
    [[0.2, 0.7], [0.0, 0.1]]
    """
    both = np.minimum(p, q)
    left, joint = 1.0 - both.sum(), np.diag(both)
    return joint + np.outer(p - both, q - both) / left if left > 1e-15 else joint


def couple_states(matrix: np.ndarray, lag: int, max_steps: int) -> Meet:
    """Return the coupling of a transition matrix: the maximal coupling of two rows."""
    n = len(matrix)
    joint = {
        (i, j): maximal_coupling(matrix[i], matrix[j]).ravel().cumsum() for i in range(n) for j in range(n) if i != j
    }
    rows = matrix.cumsum(axis=1)

    def draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
        return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"), len(cumulative) - 1))

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        i, j = int(x[0]), int(y[0])
        for _ in range(lag):
            i = draw(rng, rows[i])
        for t in range(lag, max_steps + 1):
            if i == j:
                return t
            i, j = divmod(draw(rng, joint[i, j]), n)
        return -1

    return meet
