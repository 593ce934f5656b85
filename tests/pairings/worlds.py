"""Models whose parameters and data can be drawn together, with likelihoods written in NumPy.

A world says how theta is drawn from its proper prior, data given theta, and how a target is made of the data. Their
posteriors have standard deviations near .3, so that the proposals of `tests.examples` make steps of their size.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

import approxmcmc as amc
from approxmcmc.contracts import DiscreteTarget, DoublyIntractableTarget, EstimatedTarget
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.targets.all_rows import AllRows
from tests import langevin as book
from tests.examples import TARGETS, log_poisson, reach

ROWS = 40
X = 0.7 * np.random.default_rng(12).normal(size=(ROWS, 2))
SCALE = 0.5  # of the priors
SPREAD_OF_ESTIMATE = 0.6  # standard deviation of the log of an estimate of a likelihood


class World(NamedTuple):
    """A joint law of parameters and data.

    ``prior(u)`` maps uniforms, shape (n, dim), to draws; None if there are finitely many states, which `states` then
    holds. `log_likelihood(thetas, data)` has shape (n,). The first `burn` steps of a chain are not used; it is above 0
    if the chain keeps more than theta, from a law that cannot be drawn from.
    """

    dim: int
    prior: Callable[[np.ndarray], np.ndarray] | None
    draw_data: Callable[[np.random.Generator, np.ndarray], Any]
    log_likelihood: Callable[[np.ndarray, Any], np.ndarray]
    target: Callable[[Any], Any]
    n_data_sets: int = 8
    burn: int = 0
    states: np.ndarray | None = None

    def points(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return n points that fill the prior evenly, or all states if there are finitely many; shape (n, dim)."""
        if self.prior is None:
            return self.states if n > 1 else self.states[:1]
        uniforms = qmc.Sobol(self.dim, rng=rng).random(n) if n > 1 else rng.random((1, self.dim))
        return self.prior(np.clip(uniforms, 1e-12, 1.0 - 1e-12))


def normal_prior(scale: Any = SCALE) -> Callable[[np.ndarray], np.ndarray]:
    """Return independent normal priors of mean 0."""
    return lambda u: scale * ndtri(u)


def draw_responses(rng, theta):
    """Return y given theta."""
    return (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-X @ theta))).astype(np.int64)


def logistic_log_likelihood(thetas, y):
    """Return log p(y | theta)."""
    return -np.logaddexp(0.0, -(thetas @ X.T) * (2.0 * y - 1.0)).sum(axis=1)


def logistic(y):
    """Return the target."""
    return amc.targets.LogisticRegression(X, y, prior_scale=SCALE)


@numba.njit
def noisy_log_likelihood(rng, theta, data):
    """Return the log of an unbiased estimate: log-normal noise of mean 1."""
    total = -0.5 * SPREAD_OF_ESTIMATE**2
    for j in range(theta.shape[0]):
        total -= 2.0 * (data[0][j] - theta[j]) ** 2
    return total + SPREAD_OF_ESTIMATE * rng.standard_normal()


def log_prior(theta):
    """Return log N(theta | 0, SCALE^2)."""
    total = 0.0
    for j in range(theta.shape[0]):
        total -= 2.0 * theta[j] ** 2
    return total


@functools.cache
def graphs(n_nodes=4):
    """Return all graphs, shape (k, n, n), and their numbers of edges and two-stars, shape (k, 2)."""
    rows, columns = np.triu_indices(n_nodes, 1)
    found = np.zeros((2 ** len(rows), n_nodes, n_nodes), dtype=np.int64)
    for graph, bits in zip(found, itertools.product((0, 1), repeat=len(rows)), strict=True):
        graph[rows, columns] = graph[columns, rows] = bits
    degrees = found.sum(axis=2)
    return found, np.column_stack([degrees.sum(axis=1) / 2.0, (degrees * (degrees - 1) / 2.0).sum(axis=1)])


def draw_graph(rng, theta):
    """Return the adjacency matrix of a graph given theta."""
    found, statistics = graphs()
    return found[draw_index(rng, statistics @ theta)]


def graph_log_likelihood(thetas, graph):
    """Return log p(graph | theta), with its normaliser by enumeration."""
    _, statistics = graphs()
    degrees = graph.sum(axis=1)
    observed = np.array([degrees.sum() / 2.0, (degrees * (degrees - 1) / 2.0).sum()])
    return thetas @ observed - np.logaddexp.reduce(thetas @ statistics.T, axis=1)


@functools.cache
def lattices(side=3):
    """Return all lattices of spins, shape (k, side, side), and the sums of products of neighbours."""
    found = np.array(list(itertools.product((-1, 1), repeat=side * side))).reshape(-1, side, side)
    return found, agreement(found)


def agreement(found):
    """Return the sum of products of neighbours of some lattices, with free edges."""
    down, across = found[:, 1:] * found[:, :-1], found[:, :, 1:] * found[:, :, :-1]
    return down.sum(axis=(1, 2)) + across.sum(axis=(1, 2))


def draw_lattice(rng, theta):
    """Return a lattice of spins given theta."""
    found, statistics = lattices()
    return found[draw_index(rng, statistics * theta[0])]


def draw_index(rng, log_weights):
    """Return an index drawn by weights."""
    weights = np.exp(log_weights - log_weights.max())
    return rng.choice(len(weights), p=weights / weights.sum())


def lattice_log_likelihood(thetas, lattice):
    """Return log p(lattice | theta), with its normaliser by enumeration."""
    levels, counts = np.unique(lattices()[1], return_counts=True)
    return thetas[:, 0] * agreement(lattice[None])[0] - np.logaddexp.reduce(np.log(counts) + thetas * levels, axis=1)


def normal_log_likelihood(thetas, x):
    """Return log p(x | theta) of normal means with variance 1."""
    return -0.5 * ((x - thetas[:, None]) ** 2).sum(axis=(1, 2))


def user_target(x):
    """Return normal means as functions of the user's, whose bound holds where the data and the posterior are."""
    return amc.FunctionTarget(
        book.loglik, log_prior, data=x, n_obs=len(x), dim=2, grad_loglik=book.grad_loglik,
        difference_bound=(np.full(len(x), 10.0), reach),
    )  # fmt: skip


def log_normal_sum(theta, sums):
    """Return the sum of the terms of `book.loglik`, from x'x, the sums of the columns and the number of rows."""
    (sums,) = sums
    crossed = sums[1] * theta[0] + sums[2] * theta[1]
    squares = theta[0] ** 2 + theta[1] ** 2
    return -0.5 * (sums[0] - 2.0 * crossed + sums[3] * squares) - sums[3] * (0.5 + theta[0] ** 2)


def bounded(x):
    """Return the same with bounds below each term, the further the larger the first mean is."""
    sums = np.array([(x**2).sum(), *x.sum(axis=0), float(len(x))])
    gap = lambda theta, data, i: 0.5 + theta[0] ** 2  # noqa: E731  # as users write it
    return amc.targets.BoundedLikelihood(user_target(x), gap, log_normal_sum, sums)


def softmax_log_likelihood(thetas, y):
    """Return log p(y | theta) of two categories and one predictor."""
    eta = thetas[:, :, None] * X[:, 0]  # (n, category, row)
    return (eta[:, y, np.arange(ROWS)] - np.logaddexp.reduce(eta, axis=1)).sum(axis=1)


def student_log_likelihood(thetas, y):
    """Return log p(y | theta) of Student-t errors with 3 degrees of freedom, up to a constant."""
    return -2.0 * np.log1p((y - thetas @ X.T) ** 2 / 3.0).sum(axis=1)


def poisson_log_likelihood(thetas, y):
    """Return log p(y | theta) of counts, up to a constant."""
    eta = thetas @ X.T
    return (y * eta - np.exp(eta)).sum(axis=1)


def with_intercept(thetas, y):
    """Return log p(y | beta, intercept) of counts."""
    eta = thetas[:, :1] * X[:, 0] + thetas[:, 1:]
    return (y * eta - np.exp(eta)).sum(axis=1)


def predictor_target(y):
    """Return counts as a target of one linear predictor."""
    predictors = {"eta": {"beta": X[:, :1], "intercept": 1.0}}
    return amc.targets.PredictorTarget(log_poisson, predictors, y, prior_scale=SCALE)


def own_law(make, scales):
    """Return a target with fixed data and a normal prior, whose likelihood is only known from its own terms."""
    target = functools.cache(make)

    def log_likelihood(thetas, data):
        compiled = target().compile()
        return np.array([full_terms(compiled.log_terms, t, compiled.data, compiled.n_obs).sum() for t in thetas])

    return World(
        len(scales), normal_prior(np.array(scales)), lambda rng, theta: None, log_likelihood, lambda data: target(),
        n_data_sets=1,
    )  # fmt: skip


def noisy_groups():
    """Return normal rows in six groups; those of the examples are fitted exactly, so that their noise tends to 0."""
    y = X[:12, 0] + np.random.default_rng(5).normal(size=12)
    return amc.targets.NormalGroups(X[:12], y, np.arange(12) // 2)


def around_the_mode(make):
    """Return the world of a target that has no entry: its data are fixed, and its law is known from its own density.

    Points come from a normal law around its mode, 1.5 times as wide as the Laplace approximation. Finitely many states
    are all weighed. None for a target without a density of its own.
    """
    made = make()
    if isinstance(made, (DoublyIntractableTarget, EstimatedTarget)):
        return None
    fixed = {"draw_data": lambda rng, theta: None, "target": lambda data: made, "n_data_sets": 1}
    if isinstance(made, DiscreteTarget):
        states = np.array(list(itertools.product(*map(range, made.n_states))), dtype=np.float64)
        density = lambda x, data: made.log_density(x.astype(int))  # noqa: E731  # as users write it
        return World(states.shape[1], None, log_likelihood=density, states=states, **fixed)
    law = functools.cache(lambda: amc.laplace(made))

    def log_weights(thetas, data):
        z = np.linalg.solve(1.5 * law().cholesky, (thetas - law().mode).T)
        return AllRows(made).log_densities(thetas) + 0.5 * (z**2).sum(axis=0)

    points = lambda u: law().mode + 1.5 * ndtri(u) @ law().cholesky.T  # noqa: E731  # a formula
    return World(made.variables.size, points, log_likelihood=log_weights, **fixed)


def world(log_likelihood, draw_data, target, **settings):
    """Return a model of two parameters with prior N(0, SCALE^2)."""
    return World(2, normal_prior(), draw_data, log_likelihood, target, **settings)


LOGISTIC = (logistic_log_likelihood, draw_responses)
NORMAL = (normal_log_likelihood, lambda rng, theta: theta + rng.normal(size=(12, 2)))
COUNTS = (poisson_log_likelihood, lambda rng, theta: rng.poisson(np.exp(X @ theta)).astype(float))
WORLDS = {
    "LogisticRegression": world(*LOGISTIC, logistic),
    "ControlVariate": world(*LOGISTIC, lambda y: amc.ControlVariate(logistic(y))),
    "ControlVariate, influential rows": world(
        *LOGISTIC, lambda y: amc.ControlVariate(logistic(y), always_read=[0, 5], at="mode"), n_data_sets=4
    ),
    "FunctionTarget": world(*NORMAL, user_target),
    "BoundedLikelihood": world(*NORMAL, bounded),
    "SoftmaxRegression": world(
        softmax_log_likelihood,
        lambda rng, theta: (rng.random(ROWS) < 1.0 / (1.0 + np.exp(X[:, 0] * (theta[0] - theta[1])))).astype(int),
        lambda y: amc.targets.SoftmaxRegression(X[:, :1], y, prior_scale=SCALE),
    ),
    "RobustRegression": world(
        student_log_likelihood,
        lambda rng, theta: X @ theta + rng.standard_t(3.0, size=ROWS),
        lambda y: amc.targets.RobustRegression(X, y, df=3.0, prior_scale=SCALE),
    ),
    "GLMTarget": world(*COUNTS, lambda y: amc.targets.GLMTarget(log_poisson, X, y, prior_scale=SCALE)),
    "PredictorTarget": world(
        with_intercept,
        lambda rng, theta: rng.poisson(np.exp(X[:, 0] * theta[0] + theta[1])).astype(float),
        predictor_target,
    ),
    "EstimatedLikelihood": world(
        lambda thetas, x: -2.0 * ((x - thetas) ** 2).sum(axis=1),
        lambda rng, theta: theta + 0.5 * rng.normal(size=2),
        lambda x: amc.targets.EstimatedLikelihood(noisy_log_likelihood, log_prior, dim=2, data=x),
        burn=300,
    ),
    "ERGM": world(
        graph_log_likelihood, draw_graph, lambda y: amc.targets.ERGM(y, ["edges", "two_stars"], prior_scale=SCALE)
    ),
    "Ising": World(
        1, normal_prior(), draw_lattice, lattice_log_likelihood, lambda y: amc.targets.Ising(y, prior_scale=SCALE)
    ),
    "PseudoLikelihood": own_law(TARGETS["PseudoLikelihood"], [1.0, 1.0]),
    "GaussianMixture": own_law(TARGETS["GaussianMixture"], [10.0**0.5, 1.0]),
    "GroupedTarget": own_law(TARGETS["GroupedTarget"], [1.0] * 3),
    "NormalGroups": own_law(noisy_groups, [1.0, 1.0, 1.0, 1.5]),
}
WORLDS |= {name: found for name, make in TARGETS.items() if name not in WORLDS and (found := around_the_mode(make))}
