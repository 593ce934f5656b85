"""Posteriors whose likelihood is known through random estimates: log p(theta | y) = logprior(theta) + log p(y|theta).

`EstimatedLikelihood` has an unbiased estimate of p(y|theta), such as a particle filter or importance sampling gives;
`EstimatedRatio` has an estimate of log p(y|theta') - log p(y|theta), biased or not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from approxmcmc.contracts import CompiledEstimator, CompiledTarget, EstimatedTarget, TwinnedTarget, content_hash
from approxmcmc.contracts.arguments import is_number, naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.compiler.compile import allocating
from approxmcmc.engine.compiler.identity import cached_by_content, content_id
from approxmcmc.errors import ApproxMCMCError, CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import (
    check_compiles,
    checked_array,
    checked_arrays,
    checked_dimension,
    plain_function,
    positive_integer,
)
from approxmcmc.targets.given import named_variables
from approxmcmc.targets.tall_data import Prior
from approxmcmc.targets.unchanged import NotesItsData


@cached_by_content(maxsize=64)
def compile_estimate(estimate: Callable[..., float]) -> Callable[..., float]:
    """Return the user's function, compiled once for all equal functions, so that compiled chains are reused."""
    return allocating(estimate)


class _EstimatedTarget(NotesItsData, EstimatedTarget, TwinnedTarget):
    """Base of `EstimatedLikelihood` and `EstimatedRatio`: a prior, data, names, and a function that estimates."""

    of: ClassVar[str]
    signature: ClassVar[str]

    @naming_the_arguments
    def __init__(
        self,
        estimate: Callable[..., float],
        logprior: Callable[..., float],
        *,
        dim: int,
        data: Any = (),
        n_obs: int = 1,
        n_terms: int | None = None,
        log_likelihood: Callable[[np.ndarray], float] | None = None,
        var_names: Sequence[str] | None = None,
        initial_point: Any = None,
    ) -> None:
        self._estimate = plain_function(estimate, "estimate")
        self.prior = Prior(1.0, logprior, name="logprior")
        dim = checked_dimension(dim, "dim")
        self.n_obs = positive_integer(n_obs, "n_obs")
        self.n_terms = self.n_obs if n_terms is None else positive_integer(n_terms, "n_terms")
        self.data = checked_arrays(data, "data")
        self.variables = named_variables(dim, var_names, {}, {})
        self._log_likelihood = log_likelihood
        start = np.zeros(dim) if initial_point is None else checked_array(initial_point, "initial_point")
        self._initial_point = start.astype(np.float64)
        if self._initial_point.shape != (dim,):
            raise InvalidInputError(
                f"{speaker()}: initial_point must have shape ({dim},), found {self._initial_point.shape}"
            )
        self.prior.compile(dim)
        self._check_estimate()
        self._check_log_likelihood()

    @names_itself()
    def _check_estimate(self) -> None:
        """Compile the function on its own, and compare it with plain Python on equal random numbers."""
        points = [self._initial_point] * (2 if self.of == "ratio" else 1)
        arguments = (np.random.default_rng(0), *points, self.data)
        check_compiles(self._estimate, "estimate", arguments, self.signature)

    @names_itself()
    def _check_log_likelihood(self) -> None:
        """Call the function once: it would otherwise fail at the first audit, in the middle of a run."""
        try:
            self.log_likelihood(self._initial_point)
        except ApproxMCMCError:
            raise
        except Exception as error:
            raise CompilationError(
                f"{speaker()}: log_likelihood fails at the initial point with {type(error).__name__}: {error}\n"
                f"  expected signature: log_likelihood(theta) -> float; call it yourself on {self._initial_point}"
            ) from error

    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""
        return self.prior.compile(self.variables.size)

    def build_estimator(self) -> CompiledEstimator:
        """Return the estimator and its data."""
        self.refuse_changed_data()
        return CompiledEstimator(compile_estimate(self._estimate), self.of, self.data, self.n_terms)

    def log_likelihood(self, theta: np.ndarray) -> float | None:
        """Return what the user's `log_likelihood` returns, or None if there is no such function.

        Raises
        ------
        CompilationError
            When it does not return one real number.
        """
        if self._log_likelihood is None:
            return None
        value = self._log_likelihood(theta)
        if not is_number(value):
            raise CompilationError(
                f"{type(self).__name__}: log_likelihood(theta) must return one float, found {value!r}"
            )
        return float(value)

    def initial_point(self) -> np.ndarray:
        """Return the point around which chains start; shape (dim,)."""
        return self._initial_point.copy()

    def content_hash(self) -> str:
        """Return a hash of `estimate`, prior, names, sizes and data; `log_likelihood` and start do not count."""
        names = {name: list(shape) for name, shape in self.variables.shapes.items()}
        sizes = [self.n_obs, self.n_terms]
        return content_hash(
            type(self).__name__, content_id(self._estimate), self.prior.identity(), names, sizes, *self.data
        )

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The arrays in `data`, as data_0, data_1 and so on."""
        return {f"data_{k}": array for k, array in enumerate(self.data)}

    def compile(self) -> CompiledTarget:
        """Raise: there are no terms."""
        self._refuse("it has random estimates and no terms")

    def to_pymc(self) -> Any:
        """Raise: there is no PyMC twin."""
        self._refuse("it has no PyMC twin")

    def _refuse(self, why: str) -> NoReturn:
        sampler = "PseudoMarginal" if self.of == "likelihood" else "NoisyMetropolisHastings"
        raise IncompatibleError(f"{self!r}: {why}; use {sampler}")

    def __repr__(self) -> str:
        """Show the estimate's name and the dimension."""
        return f"{type(self).__name__}({self._estimate.__name__}, dim={self.variables.size})"


class EstimatedLikelihood(_EstimatedTarget):
    """A posterior with an unbiased, non-negative random estimate of its likelihood; for :class:`PseudoMarginal`.

    Parameters
    ----------
    estimate
        ``estimate(rng, theta, data) -> float``: the *log* of an estimate of p(y|theta) that is unbiased (of p, not of
        its log), up to a factor that does not depend on theta; -inf for an estimate of 0. Plain Python, compiled here;
        `rng` is a `numpy.random.Generator`, theta a float64 vector (dim,), `data` the tuple of arrays given here.
    logprior
        ``logprior(theta) -> float``, up to a constant; -inf outside the support.
    dim
        Length of theta.
    data
        An array or a tuple of arrays, of any length.
    n_obs, n_terms
        Number of terms of the likelihood, by default 1, and of the terms that one estimate reads, by default all. They
        are used only for the trace's counts of work.
    log_likelihood
        ``log_likelihood(theta) -> float``, the exact log-likelihood if it is known: decisions are then audited.
    var_names
        One name for the vector theta, or `dim` names of scalars.
    initial_point
        The theta around which chains start, shape (dim,); default the origin.

    Raises
    ------
    InvalidInputError, CompilationError
        When arrays or functions cannot be used; raised here, before sampling.

    Examples
    --------
    A normal mean whose likelihood is estimated by importance sampling of a latent effect:

    >>> import math, numpy as np, approxmcmc as amc
    >>> def estimate(rng, theta, data):
    ...     total = 0.0
    ...     for _ in range(20):
    ...         total += math.exp(-0.5 * (data[0][0] - theta[0] - rng.standard_normal()) ** 2)
    ...     return math.log(total / 20)
    >>> amc.targets.EstimatedLikelihood(estimate, lambda theta: -0.5 * theta[0] ** 2, dim=1, data=np.array([1.0]))
    EstimatedLikelihood(estimate, dim=1)
    """

    of = "likelihood"
    signature = "estimate(rng, theta, data) -> float, the log of the estimate"


class EstimatedRatio(_EstimatedTarget):
    """A posterior with a random estimate of its likelihood ratio; for :class:`NoisyMetropolisHastings`.

    Parameters
    ----------
    estimate
        ``estimate(rng, theta, proposed, data) -> float``: an estimate of log p(y|theta') - log p(y|theta).
    logprior, dim, data, n_obs, n_terms, log_likelihood, var_names, initial_point
        As for :class:`EstimatedLikelihood`.

    Raises
    ------
    InvalidInputError, CompilationError
        When arrays or functions cannot be used; raised here, before sampling.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> def estimate(rng, theta, proposed, data):
    ...     return 0.5 * (theta[0] ** 2 - proposed[0] ** 2) + 0.1 * rng.standard_normal()
    >>> amc.targets.EstimatedRatio(estimate, lambda theta: 0.0, dim=1)
    EstimatedRatio(estimate, dim=1)
    """

    of = "ratio"
    signature = "estimate(rng, theta, proposed, data) -> float, a log ratio"
