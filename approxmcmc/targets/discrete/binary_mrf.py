"""A Markov random field over binary sites: p(x) is proportional to prod_f psi_f(x_f), x in {0, 1}^D.

The conditional of one site is logistic, P(x_i = 1 | rest) = 1 / (1 + exp(-L_i)), and its log odds

    L_i = sum_{f holds i} [log psi_f(x_i = 1, rest) - log psi_f(x_i = 0, rest)]

are a sum that a sequential test may stop early. If factors have at most three sites, the log density is a polynomial of
degree three in the x_i. Then L_i can be stored as a *field* that is updated when a site flips, instead of summed over
all factors; this is the fastest exact conditional.

Reference: Korattikara, Chen and Welling (2013), Austerity in MCMC Land, preprint, section 6.3: D = 100 and one table
for each of the 161700 triples, log entries N(0, 0.02^2).
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables, content_hash
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import checked_array, checked_dimension
from approxmcmc.targets.discrete.factor_graph import FactorGraph, FactorGroup
from approxmcmc.targets.exponential_family import ExponentialFamily, make_uniform_log_prior
from approxmcmc.targets.logistic import LogisticRegression

MOST_SITES_WITH_FIELDS = 400  # the third-order coefficients of 400 sites take 512 MB
FIELD_ARITY = 3


class BinaryMRF(FactorGraph):
    """A Markov random field over D binary sites, from a table for each factor.

    Parameters
    ----------
    n_variables
        Number of sites D.
    indices
        The sites of every factor, shape (F, k), all different within a row; or a sequence of such arrays, one for
        each arity k.
    log_tables
        log psi of every factor, shape (F, 2, ..., 2) with k axes of length 2 in the order of its sites, finite; or a
        sequence of such arrays.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a site is out of range, twice in a factor, or in no factor, or a value is not finite.

    Notes
    -----
    The trace holds ``x`` with the dim ``site``, int64. Exact answers by enumeration, up to 22 sites:
    ``log_normalizer()``, ``joint(sites)``, ``marginals()``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> chain = amc.targets.BinaryMRF(3, [[0, 1], [1, 2]], np.full((2, 2, 2), [[0.5, 0.0], [0.0, 0.5]]))
    >>> chain.marginals().round(12).tolist()
    [0.5, 0.5, 0.5]
    >>> trace = amc.sample(chain, amc.Gibbs(), draws=100, tune=10, chains=1, random_seed=1, progressbar=False)
    >>> trace.posterior["x"].dtype
    dtype('int64')
    """

    @naming_the_arguments
    def __init__(self, n_variables: int, indices: Any, log_tables: Any) -> None:
        n_variables = checked_dimension(n_variables, "n_variables")
        if not np.size(indices[0] if isinstance(indices, (list, tuple)) and len(indices) else indices):
            raise InvalidInputError("BinaryMRF: indices holds no factor; give the sites of one at least")
        several = isinstance(indices, (list, tuple)) and np.ndim(indices[0]) == 2
        pairs = zip(indices, log_tables, strict=True) if several else [(indices, log_tables)]
        groups = [_group(n_variables, sites, tables) for sites, tables in pairs]
        covered = np.unique(np.concatenate([group.sites.ravel() for group in groups]))
        if covered.size < n_variables:
            missing = np.setdiff1d(np.arange(n_variables), covered)
            raise InvalidInputError(
                f"BinaryMRF: every site must be in a factor, and site {missing[0]} is not; give it a table of zeros"
            )
        variables = Variables({"x": (n_variables,)}, {"x": ("site",)}, {"site": list(range(n_variables))}, "int64")
        super().__init__([2] * n_variables, groups, variables)

    @classmethod
    def from_triples(cls, log_tables: Any) -> "BinaryMRF":
        """Return the dense field with one table for each triple of sites.

        Parameters
        ----------
        log_tables
            log psi_ijk, shape (C(D, 3), 2, 2, 2), the triples i < j < k in the order of `itertools.combinations`.
        """
        tables = np.asarray(log_tables)
        count = tables.shape[0] if tables.ndim else 0
        n_variables = round((6.0 * count) ** (1.0 / 3.0)) + 1
        triples = np.array(list(itertools.combinations(range(n_variables), 3)), dtype=np.int64)
        if len(triples) != count or count == 0:
            raise InvalidInputError(
                f"BinaryMRF.from_triples: needs C(D, 3) = 1, 4, 10, 20, ... tables, found shape {tables.shape}"
            )
        return cls(n_variables, triples, tables)

    @classmethod
    def random_triples(cls, n_variables: int, scale: float, random_seed: Any) -> "BinaryMRF":
        """Return a model like that of Korattikara, Chen and Welling: independent log psi_ijk ~ N(0, scale^2).

        The entries of all tables of triples are drawn from ``default_rng(random_seed)``.
        """
        n_triples = n_variables * (n_variables - 1) * (n_variables - 2) // 6
        rng = np.random.default_rng(random_seed)
        return cls.from_triples(rng.normal(0.0, scale, size=(n_triples, 2, 2, 2)))

    def marginals(self) -> np.ndarray:
        """Return P(x_i = 1) of every site, by enumeration; shape (D,)."""
        return np.array([self.joint([site])[1] for site in range(self.n_states.size)])

    def fields(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return (linear, pair, triple), the coefficients of the log density as a polynomial of the x_i.

        log p = const + sum_i linear_i x_i + sum_{i<j} pair_ij x_i x_j + sum_{i<j<k} triple_ijk x_i x_j x_k. `pair` and
        `triple` are symmetric with zeros where two indices agree; shapes (D,), (D, D), (D, D, D). None if a factor
        has more than three sites, or D > 400.
        """
        n = self.n_states.size
        if n > MOST_SITES_WITH_FIELDS or any(group.sites.shape[1] > FIELD_ARITY for group in self.groups):
            return None
        coefficients = [np.zeros(n**order) for order in range(1, FIELD_ARITY + 1)]
        for sites, tables in self.groups:
            arity = sites.shape[1]
            for order in range(1, arity + 1):
                for chosen in itertools.combinations(range(arity), order):
                    values = _difference(tables, chosen)
                    for permuted in itertools.permutations(chosen):
                        index = np.zeros(len(sites), dtype=np.int64)
                        for c in permuted:
                            index = index * n + sites[:, c]
                        coefficients[order - 1] += np.bincount(index, values, minlength=n**order)
        linear, pair, triple = coefficients
        return linear, pair.reshape(n, n), triple.reshape(n, n, n)

    def __repr__(self) -> str:
        """Show the size."""
        return f"BinaryMRF({self.n_states.size} sites, {self.n_obs} factors)"


def _difference(tables: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return the mixed difference of each table along `axes`, at state 0 of the other sites.

    It is the coefficient of the product of these sites' x_i in the polynomial that equals the table.
    """
    for axis in reversed(range(tables.ndim - 1)):
        at_zero = tables.take(0, axis=axis + 1)
        tables = tables.take(1, axis=axis + 1) - at_zero if axis in axes else at_zero
    return tables


def _group(n_variables: int, indices: Any, log_tables: Any) -> FactorGroup:
    sites = checked_array(indices, "indices")
    tables = checked_array(log_tables, "log_tables").astype(np.float64)
    if sites.ndim != 2 or sites.dtype != np.int64 or not sites.size:
        raise InvalidInputError(
            f"BinaryMRF: indices must be integers of shape (F, k), found {sites.dtype} {sites.shape}"
        )
    if tables.shape != (len(sites), *[2] * sites.shape[1]):
        shape = (len(sites), *[2] * sites.shape[1])
        raise InvalidInputError(
            f"BinaryMRF: log_tables must have shape {shape} for indices {sites.shape}, found {tables.shape}"
        )
    if sites.min() < 0 or sites.max() >= n_variables:
        raise InvalidInputError(
            f"BinaryMRF: indices must lie in 0 ... {n_variables - 1}, found {sites.min()} to {sites.max()}"
        )
    repeated = (np.diff(np.sort(sites, axis=1), axis=1) == 0).any(axis=1)
    if repeated.any():
        row = int(np.argmax(repeated))
        raise InvalidInputError(f"BinaryMRF: factor {row} names a site twice: {sites[row].tolist()}")
    return FactorGroup(sites, tables)


class PseudoLikelihood(LogisticRegression):
    """The posterior with the pseudo-likelihood in place of the likelihood: the fast baseline of a random field.

    Parameters
    ----------
    target
        ``targets.Ising`` or ``targets.ERGM``; its prior is kept.

    Raises
    ------
    IncompatibleError
        When the target is neither of these.

    Notes
    -----
    Guarantee: biased. The mode is consistent for lattices, but the posterior is too narrow: the conditionals count each
    neighbour pair twice. The trace has the variables of `target`, so both can be compared with one gold standard.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> lattice = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])
    >>> amc.targets.PseudoLikelihood(amc.targets.Ising(lattice, prior_scale=1.0))
    PseudoLikelihood(n_obs=9, dim=1)
    """

    def __init__(self, target: ExponentialFamily) -> None:
        if not isinstance(target, ExponentialFamily):
            raise IncompatibleError(f"PseudoLikelihood needs targets.Ising or targets.ERGM, found {target!r}")
        response, design = target.change_statistics()
        if target.prior.normal is not None:
            super().__init__(design, response, prior_scale=target.prior.normal.scale)
        else:
            assert target.prior.bounds is not None
            super().__init__(design, response, prior=make_uniform_log_prior(*target.prior.bounds))
        self.variables = target.variables
        self._field_hash = target.content_hash()

    def content_hash(self) -> str:
        """Return a hash of the random field, its data and the prior."""
        return content_hash("PseudoLikelihood", self._field_hash, super().content_hash())

    def to_pymc(self) -> Any:
        """Raise: a pseudo-likelihood is not a likelihood, so no PyMC twin exists."""
        raise IncompatibleError(f"{self!r} has no PyMC twin: a pseudo-likelihood is not a distribution of the data")
