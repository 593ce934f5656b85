r"""What a model's densities are, by brute force: sums over states, quadrature over effects, numerical derivatives.

Nothing here reads PyMC's graph. Which rows depend on an effect is found by changing the effect; integrals of normal
rows are those of the quadratic function that interpolates the log density, others are sums over a fine grid:

.. math:: \int f(u)\,du \approx h \sum_k f(u_k), \qquad u_k = \mu + k h,

whose error is of the order of :math:`\exp(-2 \pi^2 \sigma^2 / h^2)` for a normal integrand of standard deviation
:math:`\sigma`; with :math:`h = 0.8 \sigma` that is 4e-14, and below 1e-5 for the integrands here, which are nearly
normal. The first grid is placed by the prior of the effects, which may be a thousand times narrower in one direction
than in another; each other grid by the mean and the covariance on the one before, until these agree.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from tests.random_models.models import RandomModel

Values = dict[str, np.ndarray]
STEP = 1e-3  # of derivatives by four points: error of order 1e-12
SHORT_STEP = 1e-5  # of those near a kink, which four points at STEP would stride over: error of order 1e-9
SPACING, REACH = 0.8, 7.6  # step and half width of a grid, in standard deviations
GRIDS, NARROWER = 6, 0.2  # most grids, and the least ratio of the width of the next
NEAR = 0.1  # nats by which the integrals of two grids differ where the later one is right to its rounding


def derivative(function: Callable[[np.ndarray], Any], theta: np.ndarray, length: float = STEP) -> np.ndarray:
    """Return the derivatives of a function at theta in each of its coordinates; shape (dim, ...)."""
    columns = []
    for place in range(len(theta)):
        step = np.zeros(len(theta))
        step[place] = length
        near = np.asarray(function(theta + step)) - np.asarray(function(theta - step))
        far = np.asarray(function(theta + 2 * step)) - np.asarray(function(theta - 2 * step))
        columns.append((8.0 * near - far) / (12.0 * length))
    return np.array(columns)


def log_jacobian(model: RandomModel, variables: Any, theta: np.ndarray) -> float:
    """Return log |d values / d theta|, from the map that makes the values of the trace."""

    def values(point: np.ndarray) -> np.ndarray:
        found = variables.unpack(point)
        pieces = [np.ravel(found[name]) for name in variables.shapes]
        # The last entry on a simplex is 1 minus the others.
        on_simplex = [model.free[name].law.name == "Dirichlet" for name in variables.shapes]
        return np.concatenate([piece[: len(piece) - last] for piece, last in zip(pieces, on_simplex, strict=True)])

    return float(np.linalg.slogdet(derivative(values, theta))[1])


class Groups(NamedTuple):
    """Which rows belong to which group of some effects: `axes` by variable, and the group of each row, or -1."""

    axes: Mapping[str, int]
    n_groups: int
    rows: np.ndarray


def groups_of(model: RandomModel, values: Values, axes: Mapping[str, int]) -> Groups:
    """Find the group of each row: the one whose effects it is computed from.

    Raises
    ------
    AssertionError
        When a row is computed from the effects of two groups, so it belongs to none.
    """
    name, axis = next(iter(axes.items()))
    n_groups = values[name].shape[axis]
    rows = np.full(len(model.flat_rows(values)), -1)
    for group in range(n_groups):
        mine = computed_from(model, values, axes, group)
        assert (rows[mine] == -1).all(), "a row depends on two groups"
        rows[mine] = group
    return Groups(axes, n_groups, rows)


def computed_from(model: RandomModel, values: Values, axes: Mapping[str, int], group: int) -> np.ndarray:
    """Return which rows are computed from the effects of a group.

    Effects that are not a number show it, in a product with 0 and in ``u - 1.0 * v``, too, where moves would not.
    """
    other = dict(values)
    for name, axis in axes.items():
        changed = np.moveaxis(np.array(values[name], dtype=np.float64), axis, 0)
        changed[group] = np.nan
        other[name] = np.moveaxis(changed, 0, axis)
    with np.errstate(invalid="ignore"):
        return np.isnan(model.flat_rows(other))


def with_effects(values: Values, groups: Groups, u: np.ndarray) -> Values:
    """Return values with the effects u of all groups; shape (groups, K)."""
    found, place = dict(values), 0
    for name, axis in groups.axes.items():
        shape = np.moveaxis(values[name], axis, 0).shape
        size = int(np.prod(shape[1:]))
        found[name] = np.moveaxis(u[:, place : place + size].reshape(shape), 0, axis)
        place += size
    return found


def log_joint(model: RandomModel, values: Values, groups: Groups, u: np.ndarray) -> np.ndarray:
    """Return, for each group, the log density of its rows and effects at effects u of all groups; shape (groups,)."""
    found = with_effects(values, groups, u)
    rows = model.flat_rows(found)
    of_rows = np.array([rows[groups.rows == group].sum() for group in range(groups.n_groups)])
    return of_rows + log_prior_of_effects(model, values, groups, u)


def log_prior_of_effects(model: RandomModel, values: Values, groups: Groups, u: np.ndarray) -> np.ndarray:
    """Return the log density of the effects u of each group; shape (groups,)."""
    found = with_effects(values, groups, u)
    total = np.zeros(groups.n_groups)
    for name, axis in groups.axes.items():
        prior = model.log_prior_of(name, found)
        events = np.moveaxis(prior, axis, 0) if prior.ndim == values[name].ndim else prior
        total += events.reshape((groups.n_groups, -1)).sum(axis=1)
    return total


def n_effects(values: Values, groups: Groups) -> int:
    """Return the number K of effects of a group."""
    return sum(values[name].size for name in groups.axes) // groups.n_groups


class Integral(NamedTuple):
    """The log integral over the effects of each group, and their mean and standard deviation given the rows."""

    log: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


def integral(model: RandomModel, values: Values, groups: Groups) -> Integral:
    """Integrate the effects of each group out of its rows."""

    def at(u: np.ndarray) -> np.ndarray:
        return log_joint(model, values, groups, u)

    def prior(u: np.ndarray) -> np.ndarray:
        return log_prior_of_effects(model, values, groups, u)

    normal = all(one.law.name == "Normal" for one in model.observed.values())
    shape = groups.n_groups, n_effects(values, groups)
    if normal:
        log, mean, cov = _of_quadratic(at, *shape)
    else:
        _, centre, scale = _of_quadratic(prior, *shape)
        log, mean, cov = _on_grid(at, centre, np.linalg.cholesky(scale))
    return Integral(log, mean, np.sqrt(np.diagonal(cov, axis1=1, axis2=2)))


Moments = tuple[np.ndarray, np.ndarray, np.ndarray]  # log integral (groups,), mean (groups, K), covariance


def _of_quadratic(at: Callable[[np.ndarray], np.ndarray], n_groups: int, k: int) -> Moments:
    """Return the moments of exp(c + b'u - u'A u / 2), found from the values at 0, e_i and e_i + e_j."""
    unit = np.broadcast_to(np.eye(k)[:, None, :], (k, n_groups, k))
    zero = at(np.zeros((n_groups, k)))
    plus = [at(unit[i]) - zero for i in range(k)]
    minus = [at(-unit[i]) - zero for i in range(k)]
    A, b = np.empty((n_groups, k, k)), np.empty((n_groups, k))
    for i in range(k):
        b[:, i] = 0.5 * (plus[i] - minus[i])
        A[:, i, i] = -(plus[i] + minus[i])
    for i, j in itertools.combinations(range(k), 2):
        A[:, i, j] = A[:, j, i] = -(at(unit[i] + unit[j]) - zero - plus[i] - plus[j])
    cov = np.linalg.inv(A)
    mean = (cov @ b[..., None])[..., 0]
    log = zero + 0.5 * (b * mean).sum(axis=1) + 0.5 * k * np.log(2.0 * np.pi) - 0.5 * np.linalg.slogdet(A)[1]
    return log, mean, cov


def _on_grid(at: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, root: np.ndarray) -> Moments:
    """Sum over grids around the mean of each group's effects, in units of their covariance; all groups at once.

    The first grid has the nodes ``mean + root @ node``; shapes (groups, K) and (groups, K, K).
    """
    k = mean.shape[1]
    line = np.arange(-REACH, REACH + SPACING / 2, SPACING)
    nodes = np.array(list(itertools.product(line, repeat=k)))
    before = np.full(len(mean), np.inf)
    for _ in range(GRIDS):
        u = mean + np.einsum("gij,nj->ngi", root, nodes)
        values = np.array([at(one) for one in u])
        log = logsumexp(values, axis=0) + k * np.log(SPACING) + np.linalg.slogdet(root)[1]
        weights = np.exp(values - logsumexp(values, axis=0))
        mean = (weights[..., None] * u).sum(axis=0)
        centred = u - mean
        cov = np.einsum("ng,ngi,ngj->gij", weights, centred, centred)
        if np.abs(log - before).max() < NEAR:
            break
        before = log
        # A grid far wider than the integrand sees a single node; the next grid is then a fifth as wide.
        root = np.linalg.cholesky(cov + NARROWER**2 * root @ np.swapaxes(root, 1, 2))
    return log, mean, cov


class Sum(NamedTuple):
    """The log sum over the states of each entry; the probability of each state given the rows, (states, entries)."""

    log: np.ndarray
    weights: np.ndarray


def sum_over_states(model: RandomModel, values: Values, names: Sequence[str]) -> Sum:
    """Sum the states of discrete variables out of the rows that each entry reaches; rows that none reaches are left.

    All variables have the same shape, and each two states.
    """
    [name] = names
    n = len(values[name])
    rows = {k: model.flat_rows({**values, name: np.full(n, k)}) for k in range(2)}
    reached = rows_of_each_entry(model, values, name)
    terms = np.array([[rows[k][mine].sum() for mine in reached] for k in range(2)])
    for k in range(2):
        terms[k] += model.log_prior_of(name, {**values, name: np.full(n, k)})
    log = logsumexp(terms, axis=0)
    return Sum(log, np.exp(terms - log))


def rows_of_each_entry(model: RandomModel, values: Values, name: str) -> np.ndarray:
    """Return which rows depend on each entry of a discrete variable; shape (entries, rows).

    Found at parameters that all differ: where those of two states are equal, as at the start of a run, no row changes.
    """
    n = len(values[name])
    rng = np.random.default_rng(0)
    apart = {one: rng.uniform(0.4, 0.9, np.shape(value)) for one, value in values.items()}  # fit for every law
    before = model.flat_rows({**apart, name: np.zeros(n, dtype=np.int64)})
    return np.array([model.flat_rows({**apart, name: other}) != before for other in np.eye(n, dtype=np.int64)])


def log_likelihood(model: RandomModel, values: Values) -> float:
    """Return the log-likelihood of all rows with the discrete variables summed out."""
    if not model.discrete:
        return float(model.flat_rows(values).sum())
    [name] = model.discrete
    reached = rows_of_each_entry(model, values, name).any(axis=0)
    rest = model.flat_rows({**values, name: np.zeros(len(values[name]), int)})[~reached]
    return float(sum_over_states(model, values, [name]).log.sum() + rest.sum())


def at_point(model: RandomModel, found: Mapping[str, Any]) -> Values:
    """Return values of all free variables: those found, and for the others an arbitrary one of the right shape."""
    rest = {name: np.zeros(one.shape, int) for name, one in model.free.items() if name in model.discrete}
    rest |= {
        name: np.linspace(-0.4, 0.5, int(np.prod(one.shape))).reshape(one.shape)
        for name, one in model.free.items()
        if name not in rest
    }
    return {**rest, **{name: np.asarray(value) for name, value in found.items() if name in model.free}}
