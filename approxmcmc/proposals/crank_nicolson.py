"""The preconditioned Crank-Nicolson proposal, and the independence proposal, its limit rho = 0.

    theta' = c + rho (theta - c) + sqrt(1 - rho^2) L z,    z ~ N(0, I),    Sigma = L L'.

It is reversible for N(c, Sigma), so that

    log q(theta|theta') - log q(theta'|theta) = log N(theta; c, Sigma) - log N(theta'; c, Sigma).

If c and Sigma come from the Laplace approximation, the normal part of the posterior cancels, so a decision depends only
on the error of the approximation. If this error is small, nearly all proposals are accepted, whatever rho.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.checks import cov_of, is_approximation, mode_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import add_column, checked_cholesky, couple_noise, whiten


class CrankNicolsonState(NamedTuple):
    """The distribution N(c, L L'), rho and `spread` = sqrt(1 - rho^2), and a cache of two points.

    `upper` is L'. `here` is the last current theta, `there` the last proposal, `phi` and `phi_there` are their whitened
    coordinates L^-1 (theta - c). These are solved for only at the start, and when another proposal of a mixture has
    moved the chain.
    """

    center: np.ndarray
    upper: np.ndarray
    rho: float
    spread: float
    here: np.ndarray
    there: np.ndarray
    phi: np.ndarray
    phi_there: np.ndarray


@compiled
def recall(state: CrankNicolsonState, theta: np.ndarray) -> None:
    """Set ``state.phi`` to the whitened coordinates of theta."""
    if not equal(theta, state.here):
        if equal(theta, state.there):
            assign(state.phi, state.phi_there)
        else:
            whiten(state.upper, state.center, theta, state.phi)
        assign(state.here, theta)


@compiled
def propose(
    rng: np.random.Generator, state: CrankNicolsonState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write a proposal to `out`, by a step in the whitened coordinates phi; return the log q ratio."""
    center = state.center
    upper = state.upper
    rho = state.rho
    spread = state.spread
    phi = state.phi
    phi_there = state.phi_there
    recall(state, theta)
    assign(out, center)
    # The proposal is reversible with respect to N(c, L L'), so log q(theta|theta') - log q(theta'|theta) is
    # (|phi'|^2 - |phi|^2) / 2. It is summed as products, because the difference of two large squares loses digits.
    change = 0.0
    for j in range(theta.shape[0]):
        phi_there[j] = rho * phi[j] + spread * rng.standard_normal()
        change += (phi_there[j] - phi[j]) * (phi_there[j] + phi[j])
        add_column(upper, j, phi_there[j], out)
    assign(state.there, out)
    return 0.5 * change


@compiled
def couple(
    rng: np.random.Generator,
    state: CrankNicolsonState,
    other: CrankNicolsonState,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    noise: np.ndarray,
    count: np.ndarray,
) -> tuple[float, float]:
    """Propose the same point for both chains, or reflect the noise; with rho = 0 the point is always the same."""
    log_q_ratio = propose(rng, state, x, x_new, count)
    rho = state.rho
    spread = state.spread
    phi_y = other.phi
    xi = noise[0]
    z = noise[1]
    recall(other, y)
    for j in range(x.shape[0]):
        xi[j] = (state.phi_there[j] - rho * state.phi[j]) / spread
        z[j] = rho * (state.phi[j] - phi_y[j]) / spread
    same = couple_noise(rng, xi, z)
    change = 0.0
    assign(y_new, x_new if same else state.center)
    for j in range(y.shape[0]):
        there = state.phi_there[j] if same else rho * phi_y[j] + spread * xi[j]
        other.phi_there[j] = there
        change += (there - phi_y[j]) * (there + phi_y[j])
        if not same:
            add_column(state.upper, j, there, y_new)
    assign(other.there, y_new)
    return log_q_ratio, 0.5 * change


@dataclasses.dataclass(frozen=True, eq=False)
class PreconditionedCrankNicolson(Component, Proposal):
    """pCN, preconditioned Crank-Nicolson: propose theta' ~ N(c + rho (theta - c), (1 - rho^2) Sigma).

    Parameters
    ----------
    rho
        Correlation with the current theta, -1 < rho < 1. With 0 proposals are independent of theta; with 0.8 the noise
        of a step has the standard deviation 0.6 Sigma^(1/2).
    center
        c, shape (dim,); or a Laplace approximation, which gives c and Sigma.
    cov
        Sigma, shape (dim, dim), or standard deviations, shape (dim,).

    Raises
    ------
    InvalidInputError
        When rho is out of range, or Sigma not symmetric positive definite.
    IncompatibleError
        When the length of c or Sigma is not the target's dimension.

    Notes
    -----
    Any c, Sigma and rho leave an exact chain exact; the acceptance rate depends on how close N(c, Sigma) is to the
    posterior. If the posterior has heavier tails than N(c, Sigma), rho = 0 can get stuck in a tail for long:
    mix it with a random walk, ``Mixture([PreconditionedCrankNicolson(0.0, fit), RandomWalk(2.38 / dim**0.5,
    preconditioner=fit)], weights=[0.9, 0.1])``. Cost: dim^2 / 2 multiplications.

    References
    ----------
    Neal (1999); Cotter, Roberts, Stuart and White (2013), section 4.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> amc.proposals.PreconditionedCrankNicolson(0.8, center=np.zeros(2), cov=np.eye(2)).rho
    0.8
    """

    error_untested = "untested steps sample the normal distribution that they are built from"

    rho: float
    center: Any
    cov: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; a Laplace approximation becomes two arrays."""
        if not -1.0 < self.rho < 1.0:
            raise InvalidInputError(f"{speaker()}: rho must lie strictly between -1 and 1, found {self.rho}")
        center, cov = mean_and_covariance(self.center, self.cov)
        object.__setattr__(self, "center", center)
        object.__setattr__(self, "cov", cov)

    @names_itself()
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal; its state caches the whitened coordinates of two points."""
        return crank_nicolson(self.rho, self.center, self.cov, target)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of N(c, Sigma), where a chain may start; shape (dim,)."""
        return np.asarray(self.center + np.linalg.cholesky(self.cov) @ rng.standard_normal(self.center.size))


@dataclasses.dataclass(frozen=True, eq=False)
class Independence(Component, Proposal):
    """Independent Metropolis-Hastings: propose theta' ~ N(mean, cov), whatever theta is; pCN with rho = 0.

    Parameters
    ----------
    mean
        Shape (dim,); or a Laplace approximation, which gives mean and covariance.
    cov
        Shape (dim, dim), or standard deviations, shape (dim,).

    Raises
    ------
    InvalidInputError, IncompatibleError
        As for :class:`PreconditionedCrankNicolson`.

    References
    ----------
    Tierney (1994), section 2.3.3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.proposals.Independence([0.0, 1.0], cov=[1.0, 2.0]).cov.tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    error_untested = "untested steps sample the normal distribution that they are built from"

    mean: Any
    cov: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; a Laplace approximation becomes two arrays."""
        mean, cov = mean_and_covariance(self.mean, self.cov)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", cov)

    @names_itself()
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal."""
        return crank_nicolson(0.0, self.mean, self.cov, target)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a draw of the proposal's distribution; shape (dim,)."""
        return np.asarray(self.mean + np.linalg.cholesky(self.cov) @ rng.standard_normal(self.mean.size))


def mean_and_covariance(center: Any, cov: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance from two arrays or from one Laplace approximation; raise if they are invalid."""
    if is_approximation(center):
        if cov is not None:
            raise InvalidInputError(f"{speaker()}: a Laplace approximation gives the covariance too; leave cov out")
        center, cov = mode_of(center), cov_of(center)
    if cov is None:
        raise InvalidInputError(f"{speaker()}: give a covariance with the center, or laplace(target) in place of both")
    center = np.array(center, dtype=np.float64)
    cov = np.array(cov, dtype=np.float64)
    if cov.ndim == 1 and np.all(cov > 0.0):
        cov = np.diag(cov**2)
    if center.ndim != 1 or cov.shape != (center.size, center.size) or not np.isfinite(center).all():
        raise InvalidInputError(
            f"{speaker()}: the center must be finite numbers (dim,) and the covariance (dim, dim) or positive standard "
            f"deviations (dim,), found shapes {center.shape} and {cov.shape}"
        )
    checked_cholesky(cov)
    return center, cov


def crank_nicolson(rho: float, center: np.ndarray, cov: np.ndarray, target: Target) -> CompiledProposal:
    """Compile the Crank-Nicolson proposal with correlation `rho` for N(center, cov)."""
    dim = target.variables.size
    if center.size != dim:
        raise IncompatibleError(
            f"{speaker()}: the target has {dim} parameters, the proposal {center.size}; "
            "build it from laplace(target) of this target"
        )
    upper = np.ascontiguousarray(np.linalg.cholesky(cov).T)
    constants = (center.copy(), upper, float(rho), math.sqrt(1.0 - rho * rho))

    def make_state() -> CrankNicolsonState:
        return CrankNicolsonState(*constants, *(np.full(dim, math.nan) for _ in range(4)))

    return CompiledProposal(propose, make_state, couple=couple)
