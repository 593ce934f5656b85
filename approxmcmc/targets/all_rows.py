"""Evaluate a target on all its rows at given states, in this process or in parts on the workers of a Dask cluster.

    log pi(theta) = log p(theta) + sum_i log p(x_i|theta),
    l_i = log p(x_i|theta') - log p(x_i|theta),    i = 1 ... N.

A term of the library's kernels is the same number, bit by bit, wherever it is computed, so a test on the terms makes
the same decisions everywhere. A term of a user's function or of a PyMC model may differ in its last bits, because the
compiler may treat the last rows of a loop differently. Sums over parts agree to rounding. This process computes the
terms of an expansion (`ControlVariate`), because it holds each row's coefficients; the density of an
expansion is that of its plain target, so workers can compute it.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledTarget, Target
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.engine.terms.partitions import Partitions
from approxmcmc.engine.terms.passes import log_likelihood_ratios, log_likelihoods
from approxmcmc.errors import ClusterWarning, warn
from approxmcmc.sources.parts import Part, compiled_of, parts_of

STATES = 32  # states, or pairs of states, per task: when a worker dies, one task is lost


class AllRows:
    """A compiled target and its passes over all rows; this process makes the passes that a lost cluster left undone."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.compiled = target.compile()

    @functools.cached_property
    def parts(self) -> Partitions | None:
        """Parts of the rows, if a cluster makes the passes."""
        return parts_of(self.target)

    @property
    def at_once(self) -> int:
        """How many pairs of states one pass should evaluate: 32 on workers, else 1.

        Starting a task on a worker costs as much as a million cheap rows.
        """
        return 1 if self._of_density.parts is None else STATES

    @functools.cached_property
    def _of_density(self) -> "AllRows":
        """The passes over the plain target of an expansion, if the plain target has parts; else this object."""
        plain = self.target.plain
        return self if plain is self.target or parts_of(plain) is None else AllRows(plain)

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return log prior + log-likelihood at each row of `thetas` (k, dim); one pass for every 32 thetas."""
        plain = self._of_density
        values = plain._log_priors(thetas)
        inside = np.flatnonzero(values > -np.inf)
        for block in np.array_split(inside, math.ceil(len(inside) / STATES) or 1):
            if block.size:
                values[block] += plain._pass(log_likelihoods, thetas[block])
        return values

    def log_ratios(self, thetas: np.ndarray, proposed: np.ndarray) -> np.ndarray:
        """Return log pi(theta') - log pi(theta), shape (k,), of `thetas` and `proposed`, (k, dim) each; one pass."""
        plain = self._of_density
        ratios = plain._log_priors(proposed)
        inside = np.flatnonzero(ratios != -np.inf)
        if inside.size:
            ratios[inside] -= plain._log_priors(thetas[inside])
            ratios[inside] += plain._pass(log_likelihood_ratios, thetas[inside], proposed[inside])
        return ratios

    def _log_priors(self, thetas: np.ndarray) -> np.ndarray:
        return np.array([float(self.compiled.log_prior(theta)) for theta in thetas])

    def differences(
        self, theta: np.ndarray, proposed: np.ndarray, subset: np.ndarray | None = None
    ) -> tuple[np.ndarray, float]:
        """Return log p(x_i|proposed) - log p(x_i|theta), (n_obs,), and the log-likelihood at theta: one pass.

        If `subset` holds indices of rows, only these rows are read: their differences are repeated up to the length
        n_obs, and the sum of their log-likelihoods is multiplied by n_obs / len(subset).
        """
        n_obs = self.compiled.n_obs
        if subset is None:
            terms = np.empty(n_obs)
            at_theta = self._pass(compare_terms, theta, proposed, terms=terms)
            return terms, at_theta
        terms = np.empty(len(subset))
        at_theta = compare_terms(self.compiled, theta, proposed, terms=terms, rows=subset)
        return np.resize(terms, n_obs), at_theta * n_obs / len(subset)

    def _pass(self, function: Callable[..., Any], *arguments: Any, **by_row: np.ndarray) -> Any:
        """Return ``function(compiled target, *arguments, **by_row)``, or its sum over the parts on the workers."""
        if self.parts is not None:
            try:
                return self.parts.total(_on_part, function, *arguments, **by_row)
            except ConnectionError as error:  # the draws of a run are kept
                warn(f"{error}. This process makes the remaining passes", ClusterWarning)
                self.parts = None
        return function(self.compiled, *arguments, **by_row)


def _on_part(part: Part, function: Callable[..., Any], *arguments: Any, **by_row: np.ndarray) -> Any:
    return function(part.keep(compiled_of), *arguments, **by_row)


def compare_terms(
    target: CompiledTarget, theta: np.ndarray, proposed: np.ndarray, *, terms: np.ndarray, rows: np.ndarray = ALL_ROWS
) -> float:
    """Write log p(x_i|proposed) - log p(x_i|theta) of `rows`, by default all, to `terms`.

    Return the sum of log p(x_i|theta) over these rows.
    """
    own_terms = np.empty_like(terms)
    for at, out in ((theta, own_terms), (proposed, terms)):
        target.log_terms(at, target.data, rows, 0, len(terms), out)
    with np.errstate(invalid="ignore"):  # infinite terms at both states make NaN, and no audit
        terms -= own_terms
        return float(own_terms.sum())
