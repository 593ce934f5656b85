"""The Gaussian random walk: theta' = theta + factor * L z, z ~ N(0, I).

The proposal is symmetric, so log q(theta|theta') - log q(theta'|theta) = 0. With a target acceptance rate the factor
follows a Robbins-Monro recursion during tuning, log factor += (acceptance - wanted) / step^0.6 (Andrieu and Thoms 2008,
algorithm 4 without the covariance). Afterwards it is fixed, so that kept draws come from one kernel.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, DiscreteTarget, Proposal, Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import (
    add_column,
    check_target_acceptance,
    checked_cholesky,
    couple_noise,
    covariance_of,
    tuned_factor,
    whiten,
)


class WalkState(NamedTuple):
    """`spread`, standard deviations (dim,) or L' (dim, dim), the target rate, and the log of the tuned factor."""

    spread: np.ndarray
    target_acceptance: float
    log_factor: np.ndarray


@compiled
def propose_independent(
    rng: np.random.Generator, state: WalkState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta plus independent normal steps of all coordinates to `out`; return 0, the log q ratio."""
    factor = math.exp(state.log_factor[0])
    for j in range(theta.shape[0]):
        out[j] = theta[j] + factor * state.spread[j] * rng.standard_normal()
    return 0.0


@compiled
def propose_correlated(
    rng: np.random.Generator, state: WalkState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta plus a normal step of covariance factor^2 L L' to `out`; return 0, the log q ratio."""
    factor = math.exp(state.log_factor[0])
    assign(out, theta)
    for j in range(theta.shape[0]):
        add_column(state.spread, j, factor * rng.standard_normal(), out)
    return 0.0


@compiled
def couple_independent(
    rng: np.random.Generator,
    state: WalkState,
    other: WalkState,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    noise: np.ndarray,
    count: np.ndarray,
) -> tuple[float, float]:
    """Propose for two chains: the same point for both, or steps of which one is the reflection of the other."""
    log_q_ratio = propose_independent(rng, state, x, x_new, count)
    xi = noise[0]
    z = noise[1]
    factor = math.exp(state.log_factor[0])
    for j in range(x.shape[0]):
        xi[j] = (x_new[j] - x[j]) / (factor * state.spread[j])
        z[j] = (x[j] - y[j]) / (factor * state.spread[j])
    same = couple_noise(rng, xi, z)
    for j in range(x.shape[0]):
        y_new[j] = x_new[j] if same else y[j] + factor * state.spread[j] * xi[j]
    return log_q_ratio, log_q_ratio


@compiled
def couple_correlated(
    rng: np.random.Generator,
    state: WalkState,
    other: WalkState,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    noise: np.ndarray,
    count: np.ndarray,
) -> tuple[float, float]:
    """Propose for two chains: the same point for both, or steps reflected in the metric of the covariance."""
    log_q_ratio = propose_correlated(rng, state, x, x_new, count)
    xi = noise[0]
    z = noise[1]
    factor = math.exp(state.log_factor[0])
    whiten(state.spread, x, x_new, xi)
    whiten(state.spread, y, x, z)
    for j in range(x.shape[0]):
        xi[j] /= factor
        z[j] /= factor
    if couple_noise(rng, xi, z):
        assign(y_new, x_new)
        return log_q_ratio, log_q_ratio
    assign(y_new, y)
    for j in range(y.shape[0]):
        add_column(state.spread, j, factor * xi[j], y_new)
    return log_q_ratio, log_q_ratio


@compiled
def adapt_factor(state: WalkState, acceptance: float, step: int) -> None:
    """Tune the factor to the target acceptance rate; `step` counts tuning steps from 0."""
    # Robbins-Monro: steps t^-0.6 have an infinite sum and a finite sum of squares.
    state.log_factor[0] += (acceptance - state.target_acceptance) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class RandomWalk(Component, Proposal):
    """Propose theta' ~ N(theta, Sigma): random-walk Metropolis (RWM), adaptive if asked.

    Parameters
    ----------
    scale
        A positive number (the standard deviation of every coordinate), a vector of standard deviations, shape
        (dim,), or a covariance matrix Sigma, shape (dim, dim), in the units of theta.
    target_acceptance
        Target acceptance rate in (0, 1). Tuning adapts the size of the steps to reach this rate; afterwards the size is
        fixed. None: the scale is used as given.
    preconditioner
        A covariance, shape (dim, dim), standard deviations, shape (dim,), or a Laplace approximation: theta' = theta +
        scale L z with L L' the covariance. `scale` is then a number, in units of posterior standard deviations.
        2.38 / sqrt(dim) is the classical choice.

    Raises
    ------
    InvalidInputError
        When a scale is not positive, a matrix not symmetric positive definite, or `scale` is not one number although
        there is a preconditioner.
    IncompatibleError
        When the scale's length is not the target's dimension.

    Notes
    -----
    On a Gaussian target the best exact random walk has Sigma = 2.38^2 / dim times the posterior covariance and
    accepts from 0.44 (one dimension) down to 0.234 (many) of its proposals (Roberts, Gelman and Gilks 1997). With an
    approximate test smaller steps are better, because the test then reads less data.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.RandomWalk([0.1, 0.2], target_acceptance=0.3)
    RandomWalk(scale=array([0.1, 0.2]), target_acceptance=0.3)
    """

    scale: Any = 1.0
    target_acceptance: float | None = None
    preconditioner: Any = None

    def __post_init__(self) -> None:
        """Check signs, symmetry and ranges."""
        array = np.asarray(self.scale)
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(f"scale must hold numbers, found {self.scale!r}")
        scale = array.astype(np.float64)
        if not np.all(np.isfinite(scale)):
            raise InvalidInputError("RandomWalk: scale must be finite")
        if scale.ndim < 2 and not np.all(scale > 0.0):
            raise InvalidInputError(f"RandomWalk: standard deviations must be positive, found {scale.min()}")
        if scale.ndim == 2:
            checked_cholesky(scale)
        if scale.ndim > 2:
            raise InvalidInputError(
                f"RandomWalk: scale must be a number, a vector or a matrix, found shape {scale.shape}"
            )
        object.__setattr__(self, "scale", scale if scale.ndim else float(scale))
        check_target_acceptance(self.target_acceptance)
        if self.preconditioner is not None:
            if scale.ndim:
                raise InvalidInputError(
                    f"RandomWalk: with a preconditioner scale is a number, found shape {scale.shape}; leave one out"
                )
            object.__setattr__(self, "preconditioner", covariance_of(self.preconditioner))

    def __repr__(self) -> str:
        """Return the settings as text, with the shape of the preconditioner if there is one."""
        more = "" if self.preconditioner is None else f", preconditioner={self.preconditioner.shape}"
        return f"RandomWalk(scale={self.scale!r}, target_acceptance={self.target_acceptance!r}{more})"

    @names_itself()
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal; its state holds the logarithm of the tuned factor."""
        dim = target.variables.size
        scale = np.asarray(self.scale)
        if self.preconditioner is not None:
            scale = scale**2 * self.preconditioner
        if scale.ndim and scale.shape[0] != dim:
            raise IncompatibleError(
                f"RandomWalk: the target has {dim} parameters, scale (times the preconditioner, if there is one) has "
                f"shape {scale.shape}; give {dim} standard deviations or a {dim} x {dim} covariance, or a number alone"
            )
        correlated = scale.ndim == 2
        if correlated:
            spread = np.ascontiguousarray(checked_cholesky(scale).T)
        else:
            spread = np.ascontiguousarray(np.broadcast_to(scale, (dim,)))
        propose = propose_correlated if correlated else propose_independent
        couple = couple_correlated if correlated else couple_independent
        target_acceptance = self.target_acceptance

        def make_state() -> WalkState:
            return WalkState(spread, target_acceptance or 0.0, np.zeros(1))

        if target_acceptance is None:
            return CompiledProposal(propose, make_state, couple=couple)
        return CompiledProposal(propose, make_state, adapt_factor, *tuned_factor("scale_factor"), couple=couple)

    def probabilities(self, target: Target, states: np.ndarray) -> np.ndarray:
        """Return the normal density of the steps between the states of a grid, scaled to probabilities; shape (n, n).

        The largest row sum is scaled to 1; then the diagonal, steps that stay, is set to 0.
        """
        if isinstance(target, DiscreteTarget):
            raise IncompatibleError(
                "transition_matrix: RandomWalk proposes real numbers, and the target is discrete; use SingleSite"
            )
        if self.target_acceptance is not None:
            raise IncompatibleError("transition_matrix: the proposal must not adapt; leave target_acceptance out")
        spread = self.build_proposal(target).make_state().spread  # standard deviations, or U with U' U = Sigma
        covariance = np.diag(spread**2) if spread.ndim == 1 else spread.T @ spread
        steps = states[None, :, :] - states[:, None, :]
        chance = np.exp(-0.5 * np.einsum("ijk,ijk->ij", steps, steps @ np.linalg.inv(covariance)))
        chance /= chance.sum(axis=1).max()
        np.fill_diagonal(chance, 0.0)
        return np.asarray(chance)
