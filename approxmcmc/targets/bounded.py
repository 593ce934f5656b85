"""The user's own lower bound of a likelihood, for Firefly."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import (
    BoundedTarget,
    CompiledBound,
    CompiledTarget,
    Target,
    TwinnedTarget,
    content_hash,
    pymc_model_of,
)
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, closure
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.checks import check_compiles, check_terms, checked_arrays, plain_function
from approxmcmc.targets.likelihood_bounds import check_kind, compile_bound


def make_gaps(gap: Callable[..., float]) -> Callable[..., None]:
    """Return the batch kernel that writes ``gap(theta, data, i)`` for the rows i in ``order[lo:hi]`` to `out`."""

    def gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        for place in range(lo, hi):
            out[place - lo] = gap(theta, data, datum_at(order, place))

    return gaps


def make_log_bound(log_bound: Callable[..., float]) -> Callable[..., float]:
    """Return a function that calls the user's ``log_bound(theta, sums)``, for `closure` to compile."""

    def bound(theta: np.ndarray, sums: tuple[np.ndarray, ...]) -> float:
        return log_bound(theta, sums)

    return bound


class BoundedLikelihood(Target, BoundedTarget, TwinnedTarget):
    """A target together with lower bounds 0 < B_i(theta) <= p(x_i | theta) of its likelihood terms.

    Parameters
    ----------
    target
        The target with the terms p(x_i | theta).
    gap
        ``gap(theta, data, i) -> float``: log p(x_i | theta) - log B_i(theta) >= 0. `data` is the target's tuple of
        arrays, followed by the arrays of `bound_data`.
    log_bound
        ``log_bound(theta, sums) -> float``: sum_i log B_i(theta) over all data, in closed form, from the arrays in
        `sums`. It must include the same constants as the target's terms: gaps and bounds add up to the log-likelihood.
    sums
        An array or a tuple of arrays; `log_bound` gets a tuple.
    bound_data
        Further arrays that `gap` reads, an array or a tuple.

    Raises
    ------
    InvalidInputError
        If an array holds a number that is not finite, `target` is not a target, or a function is not plain Python.
    CompilationError
        If a function does not compile or does not return one number; raised here, before sampling.

    Notes
    -----
    Sample it with ``Firefly(proposal, bound="own")``; all other samplers use the target only. Firefly checks B_i <=
    p(x_i | theta) for all data, and the sum, at some random theta first and at the states of each chain after 1, 2, 4,
    ... steps; and the gap of every datum that a step reads.

    Examples
    --------
    A bound of a normal likelihood, lower by 0.01 everywhere:

    >>> import numpy as np, approxmcmc as amc
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> normal = amc.FunctionTarget(
    ...     lambda theta, data, i: -0.5 * (data[0][i] - theta[0]) ** 2, lambda theta: 0.0, data=x, n_obs=1000, dim=1
    ... )
    >>> sums = np.array([x @ x, x.sum(), 1000.0])
    >>> def log_bound(theta, sums):
    ...     return -0.5 * (sums[0][0] - 2 * theta[0] * sums[0][1] + sums[0][2] * theta[0] ** 2) - 0.01 * sums[0][2]
    >>> target = amc.targets.BoundedLikelihood(normal, lambda theta, data, i: 0.01, log_bound, sums)
    >>> sampler = amc.Firefly(amc.RandomWalk(0.05), bound="own")
    >>> trace = amc.sample(target, sampler, draws=100, tune=0, chains=1, random_seed=1, progressbar=False)
    """

    @naming_the_arguments
    def __init__(
        self,
        target: Target,
        gap: Callable[..., float],
        log_bound: Callable[..., float],
        sums: Any,
        bound_data: Any = (),
    ) -> None:
        if not isinstance(target, Target):
            raise InvalidInputError(f"{speaker()}: target must be a target, found {type(target).__name__}")
        self.target = target
        self.n_obs = target.n_obs
        self.variables = target.variables
        self.terms_are_likelihood = target.terms_are_likelihood
        self._sums = checked_arrays(sums, "sums")
        self._more = checked_arrays(bound_data, "bound_data")
        self._data = (*target.compile().data, *self._more)
        self._gap, self._log_bound = (
            plain_function(function, name) for function, name in ((gap, "gap"), (log_bound, "log_bound"))
        )
        theta = np.asarray(target.initial_point(), dtype=np.float64) + 0.1
        check_terms(self._gap, "gap", theta, self._data, self.n_obs, "gap(theta, data, i) -> float")
        check_compiles(self._log_bound, "log_bound", (theta, self._sums), "log_bound(theta, sums) -> float")

    @property
    def bound_kinds(self) -> tuple[str, ...]:
        """The one kind, "own"."""
        return ("own",)

    @names_itself()
    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Compile the user's bound; `kind` must be "own", and `at` is not used."""
        check_kind(kind, self.bound_kinds, at)
        gaps = closure(make_gaps, self._gap, fastmath=BATCH_FASTMATH)
        log_bound = closure(make_log_bound, self._log_bound, fastmath=BATCH_FASTMATH)
        return compile_bound(self._data, self._sums, gaps, log_bound)

    def compile(self) -> CompiledTarget:
        """Compile the functions of `target`."""
        return self.target.compile()

    def initial_point(self) -> np.ndarray:
        """Return the initial point of the target; shape (dim,)."""
        return self.target.initial_point()

    def content_hash(self) -> str:
        """Return a hash of target and bound."""
        functions = content_id(self._gap, content_id(self._log_bound))
        return content_hash(self.target.content_hash(), functions, *self._sums, *self._more)

    def to_pymc(self) -> Any:
        """Return the target's PyMC twin."""
        return pymc_model_of(self.target)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed data of `target`."""
        return self.target.observed_data

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """Predictors and other constants."""
        return self.target.constant_data

    def __repr__(self) -> str:
        """Name the target."""
        return f"BoundedLikelihood({self.target!r})"
