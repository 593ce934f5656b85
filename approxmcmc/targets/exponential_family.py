"""Base of doubly intractable targets: p(theta | y) proportional to p(theta) exp(theta's(y)) / Z(theta).

Z(theta) sums exp(theta's(y')) over all possible data and depends on theta, so a Metropolis-Hastings ratio needs a
number that is too expensive to compute unless the model is small. Exchange samplers need draws y' ~ f(.|theta) instead,
and use only s(y').

Reference: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 3.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from approxmcmc.contracts import (
    CompiledTarget,
    Component,
    DoublyIntractableTarget,
    Simulator,
    TwinnedTarget,
    content_hash,
)
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import bind
from approxmcmc.engine.terms.batches import LOG_PRIOR
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.tall_data import Prior


def make_uniform_log_prior(low: float, high: float) -> Callable[[np.ndarray], float]:
    """Return the log density, up to a constant, of a theta with each coordinate uniform from `low` to `high`."""

    def log_prior(theta: np.ndarray) -> float:
        for j in range(theta.shape[0]):
            if not low <= theta[j] <= high:
                return -math.inf
        return 0.0

    return log_prior


class FamilyPrior:
    """Independent N(0, scale^2), flat if the scale is infinite, or uniform between two bounds."""

    def __init__(self, scale: float | None, bounds: Any) -> None:
        if (scale is None) == (bounds is None):
            raise InvalidInputError(
                f"{speaker()}: needs prior_scale (inf for a flat prior) or prior_bounds=(low, high), one of the two; "
                f"found prior_scale={scale!r}, prior_bounds={bounds!r}"
            )
        self.normal = None if scale is None else Prior(scale, None)
        limits = None if bounds is None else np.asarray(bounds, dtype=np.float64)
        if limits is not None and not (limits.shape == (2,) and -math.inf < limits[0] < limits[1] < math.inf):
            raise InvalidInputError(
                f"{speaker()}: prior_bounds must be two finite numbers, low < high, found {bounds!r}"
            )
        self.bounds = None if limits is None else (float(limits[0]), float(limits[1]))

    def compile(self, dim: int) -> Any:
        """Return the compiled ``log_prior(theta) -> float`` of `dim` parameters."""
        if self.normal is not None:
            return self.normal.compile(dim)
        assert self.bounds is not None
        return bind(make_uniform_log_prior, *self.bounds, signature=LOG_PRIOR.signature)

    def identity(self) -> str:
        """Return a text that identifies the prior."""
        return self.normal.identity() if self.normal is not None else f"uniform{self.bounds!r}"

    def __str__(self) -> str:
        """Return the argument that made this prior, as text."""
        return f"prior_scale={self.normal.scale:g}" if self.normal is not None else f"prior_bounds={self.bounds}"


class ExponentialFamily(DoublyIntractableTarget, TwinnedTarget):
    """A posterior over the natural parameter of an exponential family on a finite space, given one observation.

    Subclasses set `variables`, `_observed_statistics` and `prior`, and say how to simulate.
    """

    prior: FamilyPrior
    _observed_statistics: np.ndarray
    n_obs = 1  # one lattice, one graph: nothing to take a subset of

    @property
    def observed_statistics(self) -> np.ndarray:
        """The statistics s(y) of the observed data; float64, shape (dim,)."""
        return self._observed_statistics.copy()

    @abc.abstractmethod
    def build_simulator(self, auxiliary: Any) -> Simulator:
        """Return the simulator for "auto", "exact" or an `AuxiliaryChain`."""

    @abc.abstractmethod
    def _log_normalizers(self, thetas: np.ndarray) -> np.ndarray | None:
        """Return log Z at each row of `thetas` (n, dim), shape (n,); None if it cannot be computed."""

    def log_normalizer(self, theta: Any) -> float | None:
        """Return log Z(theta), or None if it cannot be computed."""
        values = self._log_normalizers(self._checked_theta(theta)[np.newaxis])
        return None if values is None else float(values[0])

    @abc.abstractmethod
    def change_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (response, design) of the pseudo-likelihood, a logistic regression without intercept.

        The pseudo-likelihood is the product of the full conditionals of sites or dyads, P(y_i = 1 | rest) =
        1 / (1 + exp(-theta'design_i)). Shapes (n,), values 0 and 1, and (n, dim).
        """

    def compile_log_prior(self) -> Any:
        """Return the compiled ``log_prior(theta) -> float``."""
        return self.prior.compile(self.variables.size)

    def log_density(self, theta: Any) -> float:
        """Return the log posterior density up to a constant: log p(theta) + theta's(y) - log Z(theta).

        Raises
        ------
        IncompatibleError
            If Z(theta) cannot be computed.
        """
        return float(self.log_densities(self._checked_theta(theta)[np.newaxis])[0])

    def log_densities(self, thetas: Any) -> np.ndarray:
        """Return the log posterior density, up to a constant, at each row of `thetas`, shape (n, dim); for grids.

        Raises `IncompatibleError` if Z(theta) cannot be computed.

        Examples
        --------
        >>> import numpy as np, approxmcmc as amc
        >>> from approxmcmc.reference.grid import grid_reference
        >>> chess = amc.targets.Ising(np.where(np.indices((4, 4)).sum(axis=0) % 2, 1, -1), prior_scale=0.5)
        >>> gold = grid_reference(chess.log_densities, chess.variables, [(-5, 5)], n_points=201, vectorized=True)
        >>> round(gold["reference_moments"]["theta"].sel(moment="mean").item(), 3)
        -0.821
        """
        thetas = np.ascontiguousarray(thetas, dtype=np.float64)
        log_prior = self.compile_log_prior()
        density = np.array([log_prior(theta) for theta in thetas])
        inside = density > -math.inf
        log_normalizers = self._log_normalizers(thetas[inside])
        if log_normalizers is None:
            raise IncompatibleError(f"{self!r} has no computable normaliser; sample it with an exchange sampler")
        density[inside] += thetas[inside] @ self._observed_statistics - log_normalizers
        return density

    def _checked_theta(self, theta: Any) -> np.ndarray:
        array = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        if array.shape != (self.variables.size,) or not np.isfinite(array).all():
            raise InvalidInputError(
                f"{type(self).__name__}: theta must hold {self.variables.size} finite numbers, found {theta!r}"
            )
        return array

    def content_hash(self) -> str:
        """Return a hash of model, data and prior."""
        arrays = [array for _, array in sorted(self.observed_data.items())]
        return content_hash(type(self).__name__, self._identity(), self.prior.identity(), *arrays)

    def _identity(self) -> str:
        """Return a text that identifies the likelihood without its data."""
        return ""

    @property
    @abc.abstractmethod
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observation, as the trace stores it."""

    def compile(self) -> CompiledTarget:
        """Raise: the likelihood is not a product of terms."""
        self._refuse("its likelihood has a normaliser that depends on theta, and is not a sum of terms")

    def to_pymc(self) -> Any:
        """Raise: PyMC has no likelihood of this kind."""
        self._refuse("PyMC has no likelihood with an intractable normaliser")

    def _refuse(self, why: str) -> NoReturn:
        raise IncompatibleError(f"{self!r}: {why}; use a sampler of the exchange family")


STARTS = ("empty", "full", "observed", "both")
MOVES = ("auto", "dyad", "tnt")


@dataclasses.dataclass(frozen=True, eq=False)
class AuxiliaryChain(Component):
    """Auxiliary data y' ~ f(.|theta) as the last state of a Markov chain that leaves f(.|theta) invariant.

    Parameters
    ----------
    n_updates
        Length of the chain: updates of single sites of a lattice, proposed toggles of a graph.
    start
        Where the chain starts: "empty" (no edge; all spins down), "full" (all edges; all spins up), "observed" (the
        data), or "both": empty and full in turn, from draw to draw. If f(.|theta) has a sparse and a dense phase, a
        chain that starts in one does not reach the other in affordable time; with "both" the draws show both phases.
    move
        How a graph's chain moves: "dyad" (toggle a random dyad) or "tnt" (with probability 1/2 a random edge, else a
        random dyad). "auto" is the heat bath for a lattice, and "tnt" for a graph.
    thin
        None: every draw is a new chain. A number: further draws at one theta continue the last chain by `thin`
        updates. These draws are dependent but cheaper: Alquier et al. (2016) take 1000 updates, then a draw every 4.

    Notes
    -----
    Guarantee: none at any finite length. The distribution of y' tends to f(.|theta) as `n_updates` grows. The remaining
    difference biases samplers that would be exact with exact draws of y'.

    Examples
    --------
    >>> AuxiliaryChain(1000, "both")
    AuxiliaryChain(n_updates=1000, start='both', move='auto', thin=None)
    """

    n_updates: int
    start: str = "both"
    move: str = "auto"
    thin: int | None = None

    def __post_init__(self) -> None:
        """Check ranges and names."""
        for name in ("n_updates", "thin"):
            value = getattr(self, name)
            if name == "n_updates" or value is not None:
                checked_integer(value, name, needed="a positive integer")
        for name, allowed in (("start", STARTS), ("move", MOVES)):
            if getattr(self, name) not in allowed:
                raise InvalidInputError(
                    f"AuxiliaryChain: {name} must be one of {allowed}, found {getattr(self, name)!r}"
                )


def checked_auxiliary(auxiliary: Any) -> Any:
    """Return "auto", "exact" or an `AuxiliaryChain`; raise on anything else."""
    if isinstance(auxiliary, AuxiliaryChain) or auxiliary in ("auto", "exact"):
        return auxiliary
    raise InvalidInputError(
        f'{speaker()}: auxiliary must be "auto", "exact" or AuxiliaryChain(n_updates, start), found {auxiliary!r}'
    )
