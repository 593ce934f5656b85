"""Discrete distributions as products of tables: p(x) is proportional to prod_f psi_f(x_f), x_f the sites of factor f.

Every site has finitely many states 0, 1, ... . The terms of the log density are the tables' entries log psi_f(x_f);
the conditional of one site has the terms of the factors that hold it. One kernel evaluates both: a row of integers
per term says where its table starts, then the sites that it depends on, each with its stride. Rows of one site are
stored together. Each row has a copy of its table with that site as last axis, so a test that evaluates a term at two
states of the site touches two places in memory, one row and one table.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import (
    BoundedDifferencesTarget,
    CompiledConditionals,
    CompiledDifferenceBound,
    CompiledTarget,
    DiscreteTarget,
    MovableTerms,
    Variables,
    content_hash,
)
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, bind, type_of
from approxmcmc.engine.terms.batches import LOG_PRIOR, Data, bind_terms, datum_at, log_terms_at_both_type
from approxmcmc.engine.terms.term_range import constant_range
from approxmcmc.errors import IncompatibleError, InvalidInputError

LARGEST_STATE_SPACE = 2**22
LEAST_RANGE = 1e-13  # added to the range of each factor, because rows are drawn with weights that must be positive
LARGEST_MOVABLE = 2**27  # numbers in movable rows, 1 GB, if most of them only fill up shorter tables
STATES_AT_ONCE = 64  # states per block of a vectorised log density; 64 x 161700 entries take 80 MB


class FactorGroup(NamedTuple):
    """Factors of one shape: `sites` (F, k), and `log_tables` (F, n_1, ..., n_k), axes in the order of the sites."""

    sites: np.ndarray
    log_tables: np.ndarray


def make_log_terms(width: int) -> Callable[..., None]:
    """Return the kernel over tables of up to `width` sites; `width` is a compile-time constant, so the loop unrolls."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        base, rows, tables = data
        first = base[0]
        for position in range(lo, hi):
            row = first + datum_at(order, position)
            entry = np.int64(rows[row, 0])
            for c in range(width):
                entry += rows[row, 2 * c + 2] * int(theta[rows[row, 2 * c + 1]])
            out[position - lo] = tables[entry]

    return log_terms


def make_movable_log_terms(width: int) -> Callable[..., None]:
    """Return the kernel over movable rows: the other sites of a factor with their strides, then its whole table."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        base, rows, tables = data
        first = base[0]
        state = width - 1 + int(theta[base[1]])  # the table follows `width` - 1 pairs of integers
        for position in range(lo, hi):
            row = first + datum_at(order, position)
            entry = state
            for c in range(width - 1):
                entry += rows[row, 2 * c + 1] * int(theta[rows[row, 2 * c]])
            out[position - lo] = tables[row, entry]

    return log_terms


def make_movable_terms_at_both(width: int) -> Callable[..., None]:
    """Return the kernel that reads each movable row once, for two states of its site."""

    def terms_at_both(
        theta: np.ndarray,
        proposed: np.ndarray,
        data: Data,
        lo: int,
        hi: int,
        current: np.ndarray,
        candidate: np.ndarray,
    ) -> None:
        base, rows, tables = data
        first = base[0]
        state = width - 1 + int(theta[base[1]])
        other = width - 1 + int(proposed[base[1]])
        for position in range(lo, hi):
            row = first + position
            entry = np.int64(0)
            for c in range(width - 1):
                entry += rows[row, 2 * c + 1] * int(theta[rows[row, 2 * c]])
            current[position - lo] = tables[row, state + entry]
            candidate[position - lo] = tables[row, other + entry]

    return terms_at_both


def views_of_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return movable rows as 32-bit integers, and as floating-point numbers."""
    return words.view(np.int32), words.view(np.float64)


def make_log_support(n_states: tuple[int, ...]) -> Callable[[np.ndarray], float]:
    """Return a log prior that is 0 at states and -inf elsewhere, so that no table is read out of range.

    `n_states` has one number for each site, or a single one for all sites.
    """

    def log_support(theta: np.ndarray) -> float:
        for i in range(theta.shape[0]):
            if not 0.0 <= theta[i] < n_states[i % len(n_states)] or theta[i] != math.floor(theta[i]):
                return -math.inf
        return 0.0

    return log_support


class FactorGraph(DiscreteTarget, BoundedDifferencesTarget):
    """A discrete distribution given by tables; the base class of the named discrete targets.

    Parameters
    ----------
    n_states
        Number of states of every site, shape (D,).
    groups
        The factors, grouped by shape. Tables may hold -inf.
    variables
        Names and shapes of the variables that hold the sites in the trace.
    """

    def __init__(self, n_states: Sequence[int], groups: Sequence[FactorGroup], variables: Variables) -> None:
        self.n_states = np.asarray(n_states, dtype=np.int64)
        self.groups = tuple(groups)
        self.variables = variables
        self.n_obs = sum(len(group.sites) for group in self.groups)

    # --- the distribution ---

    def log_density(self, states: np.ndarray) -> np.ndarray:
        """Return the unnormalised log density of states of shape (..., D); -inf where a number is not a state."""
        states = np.asarray(states, dtype=np.float64)
        flat = states.reshape(-1, self.n_states.size)
        whole = flat.astype(np.int64)
        valid = ((flat == whole) & (whole >= 0) & (whole < self.n_states)).all(axis=1)
        out = np.full(len(flat), -np.inf)
        places = np.flatnonzero(valid)
        for start in range(0, places.size, STATES_AT_ONCE):
            part = places[start : start + STATES_AT_ONCE]
            out[part] = sum(_entries(group, whole[part]).sum(axis=1) for group in self.groups)
        return out.reshape(states.shape[:-1])

    def conditional(self, states: np.ndarray, site: int) -> np.ndarray:
        """Return p(x_site = k | all other sites) for states of shape (n, D); shape (n, n_states[site])."""
        from scipy.special import softmax

        states = np.array(states, dtype=np.int64)
        around = [group for group in (_of_site(group, site) for group in self.groups) if len(group.sites)]
        logits = np.empty((len(states), self.n_states[site]))
        for k in range(self.n_states[site]):
            states[:, site] = k
            for start in range(0, len(states), 16 * STATES_AT_ONCE):
                part = slice(start, start + 16 * STATES_AT_ONCE)
                logits[part, k] = sum(_entries(group, states[part]).sum(axis=1) for group in around)
        return np.asarray(softmax(logits, axis=1))

    @functools.cached_property
    def log_joint(self) -> np.ndarray:
        """Unnormalised log density of every state, by enumeration; shape (n_1, ..., n_D).

        Raises
        ------
        InvalidInputError
            When there are more than 2^22 states.
        """
        size = math.prod(self.n_states.tolist())
        if size > LARGEST_STATE_SPACE:
            raise InvalidInputError(
                f"{type(self).__name__}: enumeration needs at most {LARGEST_STATE_SPACE} states, this one has "
                f"{size:.3g}; sample it, for instance with Gibbs(ExactTest())"
            )
        total = np.zeros(self.n_states)
        for group in self.groups:
            for sites, table in zip(group.sites, group.log_tables, strict=True):
                ascending = np.argsort(sites)
                shape = np.ones(self.n_states.size, dtype=np.int64)
                shape[sites] = table.shape
                total += table.transpose(ascending).reshape(shape)
        return total

    def log_normalizer(self) -> float:
        """Return log sum_x prod_f psi_f(x_f), by enumeration."""
        from scipy.special import logsumexp

        return float(logsumexp(self.log_joint))

    def joint(self, sites: Sequence[int]) -> np.ndarray:
        """Return the joint distribution of some sites, by enumeration: one axis per site, in the order of `sites`."""
        sites = [int(site) for site in sites]
        others = tuple(site for site in range(self.n_states.size) if site not in sites)
        probability = np.exp(self.log_joint - self.log_normalizer()).sum(axis=others)
        return np.asarray(probability.transpose(np.argsort(np.argsort(sites))))

    # --- the interface of samplers ---

    def initial_point(self) -> np.ndarray:
        """Return the state 0 of every site; shape (D,)."""
        return np.zeros(self.n_states.size)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random state: each site independent and uniform; shape (D,)."""
        return np.floor(rng.random(self.n_states.size) * self.n_states)

    def content_hash(self) -> str:
        """Return a hash of the tables and of their variables."""
        names = {name: list(shape) for name, shape in self.variables.shapes.items()}
        arrays = [array for group in self.groups for array in group]
        return content_hash(type(self).__name__, names, self.n_states, *arrays)

    def compile(self) -> CompiledTarget:
        """Compile the terms log psi_f of the joint density, for samplers that compare two states of all sites."""
        rows, tables = _rows(self.groups, by_site=False)
        rows = np.pad(rows, ((0, 0), (0, rows.shape[1] % 2)))  # a shuffled copy moves 8 bytes at a time
        data = (np.zeros(1, dtype=np.int64), rows, tables)
        sizes = tuple(self.n_states.tolist())
        shortest = sizes[:1] if len(set(sizes)) == 1 else sizes
        support = bind(make_log_support, shortest, signature=LOG_PRIOR.signature)
        return CompiledTarget(_kernel(data), support, data, self.n_obs)

    def compile_difference_bound(self) -> CompiledDifferenceBound:
        """Return the range of log psi_f over all states, the most that a term can change, as `rates`; `reach` is 1.

        Raises
        ------
        IncompatibleError
            When a table holds the probability 0.
        """
        flat = [group.log_tables.reshape(len(group.sites), -1) for group in self.groups]
        ranges = np.concatenate([np.ptp(tables, axis=1) if np.isfinite(tables).all() else [np.inf] for tables in flat])
        if not np.isfinite(ranges).all():
            raise IncompatibleError(
                f"{type(self).__name__} has a factor with a probability of 0, whose logarithm has no bound: exact "
                "subsampling needs one; use Gibbs(), or ExactTest"
            )
        return CompiledDifferenceBound(constant_range(), np.ones(1), ranges + LEAST_RANGE, np.ones(1))

    def compile_conditionals(self, *, fields: bool) -> CompiledConditionals:
        """Compile the terms of the sites' conditionals; with ``fields=True`` the polynomial instead, if it is known."""
        form = self.fields() if fields else None
        # A chain that keeps fields reads no table, so a single row is enough.
        groups = self.groups if form is None else (FactorGroup(np.zeros((1, 1), np.int64), np.zeros((1, 1))),)
        tables = _rows(groups, by_site=True)
        n_terms = self._numbers_of_terms()
        first = np.concatenate([[0], np.cumsum(n_terms)[:-1]])
        kernel = _kernel((np.zeros(1, dtype=np.int64), *tables))
        movable = self._compile_movable if _fits(self.groups) else None
        return CompiledConditionals(kernel, tables, first, n_terms, self.n_states, form, movable)

    def _numbers_of_terms(self) -> np.ndarray:
        """Return how many factors hold each site; int64, shape (D,)."""
        n_terms = np.zeros(self.n_states.size, dtype=np.int64)
        for group in self.groups:
            n_terms += np.bincount(group.sites.ravel(), minlength=self.n_states.size)
        return n_terms

    def _compile_movable(self) -> MovableTerms:
        """Compile the terms of the conditionals in rows that can be moved."""
        words = _movable_rows(self.groups, self._numbers_of_terms())
        data = (np.zeros(2, dtype=np.int64), *views_of_words(words))
        width = _width(self.groups)
        log_terms = bind_terms(make_movable_log_terms, width, data=data)
        signature = log_terms_at_both_type(type_of(data)).signature
        at_both = bind(make_movable_terms_at_both, width, signature=signature, fastmath=BATCH_FASTMATH)
        return MovableTerms(log_terms, at_both, words, views_of_words)

    def fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return None: the coefficients of a polynomial are known only in subclasses (`BinaryMRF.fields`)."""
        return None


def _kernel(data: tuple[np.ndarray, ...]) -> object:
    _, rows, _ = data
    width = (rows.shape[1] - 1) // 2
    return bind_terms(make_log_terms, width, data=data)


def _entries(group: FactorGroup, states: np.ndarray) -> np.ndarray:
    """Return log psi_f of the factors f of a group at integer `states` (n, D); shape (n, F)."""
    axes = [states[:, group.sites[:, c]] for c in range(group.sites.shape[1])]
    return np.asarray(group.log_tables[(np.arange(len(group.sites)), *axes)])


def _of_site(group: FactorGroup, site: int) -> FactorGroup:
    holds = (group.sites == site).any(axis=1)
    return FactorGroup(group.sites[holds], group.log_tables[holds])


def _width(groups: Sequence[FactorGroup]) -> int:
    """Return the largest number of sites of a factor."""
    return max(group.sites.shape[1] for group in groups)


def _fits(groups: Sequence[FactorGroup]) -> bool:
    """Return whether movable rows are small: each is as long as the largest table, so one such table may fill all."""
    rows = np.array([group.sites.size for group in groups])
    entries = np.array([group.log_tables[0].size for group in groups])
    return bool(rows.sum() * entries.max() <= max(LARGEST_MOVABLE, 2 * (rows * entries).sum()))


def _movable_rows(groups: Sequence[FactorGroup], n_terms: np.ndarray) -> np.ndarray:
    """Return one row of words per factor and each of its sites, sorted by site; int64, shape (rows, words).

    A row has (site, stride) of the factor's other sites, two 32-bit integers in a word, and its table with the owner
    as last axis, as floating-point numbers; shorter rows are filled up with zeros.
    """
    rows, flat = _rows(groups, by_site=True)
    width = _width(groups)
    starts = rows[:, 0].astype(np.int64)
    sizes = np.diff([*starts, flat.size])
    longest = int(sizes.max())
    pairs = rows[:, 1:].reshape(len(rows), width, 2)
    owners = np.repeat(np.arange(n_terms.size), n_terms)
    owner_at = (pairs[:, :, 0] == owners[:, None]).argmax(axis=1)  # padded columns, which may name site 0, come later
    others = pairs[np.arange(width) != owner_at[:, None]]
    words = np.zeros((len(rows), width - 1 + longest), dtype=np.int64)
    words.view(np.int32)[:, : 2 * (width - 1)] = others.reshape(len(rows), 2 * (width - 1))
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        words.view(np.float64)[alike, width - 1 : width - 1 + size] = flat[starts[alike, None] + np.arange(size)]
    return words


def _rows(groups: Sequence[FactorGroup], *, by_site: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of integers and the flat tables that kernels read, see the module.

    There is one row per factor; with `by_site` one per factor and each of its sites, sorted by site.
    """
    width = _width(groups)
    owners = []
    columns = []
    strides = []
    blocks = []
    for group in groups:
        count, arity = group.sites.shape
        for axis in range(arity) if by_site else [arity - 1]:
            shift = arity - 1 - axis  # rolls the owner to the last place
            tables = group.log_tables.transpose(0, *(1 + (c - shift) % arity for c in range(arity)))
            steps = np.cumprod([1, *tables.shape[:1:-1]])[::-1]
            pad = (0, width - arity)  # stride 0: a padded column has no effect
            columns.append(np.pad(np.roll(group.sites, shift, axis=1), ((0, 0), pad)))
            strides.append(np.tile(np.pad(steps, pad), (count, 1)))
            owners.append(group.sites[:, axis] if by_site else np.zeros(count, dtype=np.int64))
            blocks.append(np.ascontiguousarray(tables).reshape(count, -1))
    ranked = np.argsort(np.concatenate(owners), kind="stable")
    sizes = np.concatenate([np.full(len(block), block.shape[1]) for block in blocks])
    starts = np.empty_like(sizes)
    starts[ranked] = np.cumsum(sizes[ranked]) - sizes[ranked]
    flat = np.empty(int(sizes.sum()))
    if flat.size > np.iinfo(np.int32).max:
        raise InvalidInputError(
            f"the tables hold {flat.size:.3g} entries, one copy for each site of a table; less than 2^31 are possible"
        )
    done = 0
    for block in blocks:
        flat[starts[done : done + len(block), None] + np.arange(block.shape[1])] = block
        done += len(block)
    pairs = np.stack([np.concatenate(columns), np.concatenate(strides)], axis=2).reshape(len(ranked), 2 * width)
    rows = np.concatenate([starts[:, None], pairs], axis=1)[ranked]
    return np.ascontiguousarray(rows, dtype=np.int32), flat
