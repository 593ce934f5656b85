r"""Stochastic-gradient Fisher scoring (SGFS): Langevin steps preconditioned by a curvature estimated on minibatches.

Let :math:`\hat V` be the covariance of the gradients of single data in the minibatch of step t, and
:math:`V_t = (1 - 1/t) V_{t-1} + \hat V/t`. The Fisher information of all data is estimated by :math:`\hat I = N V_t`.
With the estimate :math:`\hat g` of the gradient from n of N data, :math:`\gamma = N/n`, the step size :math:`\alpha`
and a matrix B,

.. math:: \theta' = \theta + 2 \left[\gamma \hat I + \tfrac{4}{\alpha} B\right]^{-1} (\hat g(\theta) + \eta),
          \qquad \eta \sim N(0, \tfrac{4}{\alpha} B).

For large steps all the noise comes from the minibatch, and the matrix in brackets gives the draws the posterior's
covariance.

The estimate :math:`\hat I` depends on all earlier steps, so theta' has no density given theta alone. With a fixed
matrix I in its place, theta' is normal given the minibatch,

.. math:: \theta' \mid X_n \sim N\left(\theta + 2 M^{-1} \hat g(\theta), \tfrac{16}{\alpha} M^{-1} B M^{-1}\right),
          \qquad M = \gamma I + \tfrac{4}{\alpha} B,

and a test uses both densities given the same minibatch, as for SGLD.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.checks import checked_integer, cov_of, is_approximation
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import add_column, checked_cholesky, factor
from approxmcmc.proposals.langevin_step import checked_preconditioner, checked_step_size, gradient_of, squared_distance
from approxmcmc.proposals.minibatch_gradient import (
    MinibatchGradient,
    book_reads,
    draw_minibatch,
    estimate_gradient,
    minibatch_gradient,
    write_scores,
)


@compiled
def _solve(lower: np.ndarray, vector: np.ndarray) -> None:
    """Replace `vector` by (L L')^-1 vector."""
    dim = vector.shape[0]
    for i in range(dim):
        for k in range(i):
            vector[i] -= lower[i, k] * vector[k]
        vector[i] /= lower[i, i]
    for i in range(dim - 1, -1, -1):
        for k in range(i + 1, dim):
            vector[i] -= lower[k, i] * vector[k]
        vector[i] /= lower[i, i]


class FisherScoringState(NamedTuple):
    """The minibatch, alpha, B and its Cholesky factor, the number of steps made, V_t, and scratch.

    `noise_matrix` is B and `noise_lower` its factor; both are empty if B is the estimated information. `running` is
    V_t.
    """

    minibatch: MinibatchGradient
    step_size: float
    noise_matrix: np.ndarray
    noise_lower: np.ndarray
    steps: np.ndarray
    running: np.ndarray
    mean: np.ndarray
    score: np.ndarray
    now: np.ndarray
    matrix: np.ndarray
    lower: np.ndarray


@allocating
def move(
    rng: np.random.Generator, state: FisherScoringState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' of the module's equation, with a new minibatch, to `out`; return 0, or NaN if it is not finite."""
    minibatch = state.minibatch
    alpha = state.step_size
    n_obs = minibatch.n_obs
    batch_size = minibatch.batch_size
    dim = theta.shape[0]
    mean = state.mean
    running = state.running
    now = state.now
    matrix = state.matrix
    lower = state.lower
    draw_next(rng, minibatch.order, 0, batch_size)
    write_scores(minibatch, theta, mean, now, state.score)
    count[TOUCHED] += batch_size
    count[GRADIENTS] += batch_size
    state.steps[0] += 1.0
    running += (now - running) / state.steps[0]
    # B: the matrix that is given, or the estimated information itself.
    if state.noise_matrix.shape[0] == 0:
        now[:] = n_obs * running
        factor(now, lower)
    else:
        now[:] = state.noise_matrix
        lower[:] = state.noise_lower
    matrix[:] = (n_obs / batch_size) * n_obs * running + (4.0 / alpha) * now  # gamma I + (4/alpha) B
    for j in range(dim):
        out[j] = n_obs * mean[j]
    minibatch.add_prior_gradient(theta, out)
    for j in range(dim):
        noise = math.sqrt(4.0 / alpha) * rng.standard_normal()
        for i in range(j, dim):
            out[i] += noise * lower[i, j]
    factor(matrix, lower)
    _solve(lower, out)
    for j in range(dim):
        out[j] = theta[j] + 2.0 * out[j]
    return 0.0 * out.sum()  # NaN stops the chain


class FrozenScoringState(NamedTuple):
    """The minibatch, alpha, M and its Cholesky factor, the transposed factor of B, and scratch."""

    minibatch: MinibatchGradient
    step_size: float
    matrix: np.ndarray
    lower: np.ndarray
    noise_upper: np.ndarray
    no_scale: np.ndarray
    slope: np.ndarray
    pull: np.ndarray
    work: np.ndarray


@compiled
def frozen_step(
    rng: np.random.Generator, state: FrozenScoringState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' = theta + 2 M^-1 (g_hat + eta), with a new minibatch, to `out`; return |z|^2.

    The noise is eta = 2 / sqrt(alpha) L z with L L' = B.
    """
    draw_minibatch(rng, state.minibatch, count)
    book_reads(state.minibatch, 1, count)
    estimate_gradient(state.minibatch, theta, out, count)
    squared = 0.0
    for j in range(theta.shape[0]):
        z = rng.standard_normal()
        squared += z * z
        add_column(state.noise_upper, j, 2.0 / math.sqrt(state.step_size) * z, out)
    _solve(state.lower, out)
    for j in range(theta.shape[0]):
        out[j] = theta[j] + 2.0 * out[j]
    return squared


@compiled
def frozen_move(
    rng: np.random.Generator, state: FrozenScoringState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' to `out`, without the gradient at theta' and the density ratio; return 0, or NaN if not finite."""
    frozen_step(rng, state, theta, out, count)
    return 0.0 * out.sum()  # NaN stops the chain


@compiled
def frozen_propose(
    rng: np.random.Generator, state: FrozenScoringState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Write theta' to `out`, and return log q(theta|theta') - log q(theta'|theta), both given the minibatch."""
    squared = frozen_step(rng, state, theta, out, count)
    # The reverse step needs the noise M (theta - theta') / 2 - g_hat(theta'), given the same minibatch.
    estimate_gradient(state.minibatch, out, state.slope, count)
    dim = theta.shape[0]
    for i in range(dim):
        total = 0.0
        for j in range(dim):
            total += state.matrix[i, j] * (theta[j] - out[j])
        state.pull[i] = 0.5 * total
    back = squared_distance(state.no_scale, state.noise_upper, state.slope, state.pull, state.work)
    return 0.5 * (squared - 0.25 * state.step_size * back)


def _explain(state: FisherScoringState) -> str:
    """Return a sentence if a step is NaN because the estimated information is singular; "" otherwise."""
    running = state.running
    dim = len(state.running)
    if not np.isfinite(running).all():
        return ""
    eigenvalues = np.linalg.eigvalsh(running)
    rank = int((eigenvalues > 1e-12 * eigenvalues[-1]).sum())
    if rank == dim:
        return ""
    return (
        f"StochasticGradientFisherScoring: the information that its minibatches estimate is singular, of rank {rank} "
        f"for {dim} parameters: predictors are 0 in all rows drawn, or collinear. Give noise_matrix, or draw more data"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientFisherScoring(Component, Proposal):
    """Propose by stochastic-gradient Fisher scoring (SGFS).

    Parameters
    ----------
    step_size
        alpha, positive, of any size. If alpha is small, the noise has the *variance* alpha times the inverse of B.
    batch_size
        n, the size of the minibatch, redrawn for each step, without replacement.
    noise_matrix
        B: a matrix, shape (dim, dim), or the square roots of a diagonal, shape (dim,). None: the estimated information
        itself, which needs more rows in a minibatch than parameters.
    information
        A fixed information I of all data, shape (dim, dim), or ``laplace(target)``, of which it is the inverse
        covariance. Any positive definite matrix keeps a test valid. None: I is estimated by the minibatches of all
        steps so far, and the proposal is only for :class:`AlwaysAccept`.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or B or the information not symmetric positive definite.
    IncompatibleError
        When the target has no gradient, another dimension, or too few data. With any test but `AlwaysAccept`, unless
        `information` is given: theta' then depends on the whole past of the chain, so no ratio of densities is known.
    NotFiniteError
        During sampling without `noise_matrix`, when the first minibatches carry no information on a parameter, such as
        a rare binary predictor: the estimated information is then singular.

    Notes
    -----
    Guarantee: with :class:`AlwaysAccept` none at fixed settings; biased. With `information` and :class:`ExactTest`,
    exact; with :class:`SequentialTTest`, biased as the test. If the posterior is normal, the prior weak and B the
    information, the stationary distribution without a test is the posterior at *any* step size. gamma = N/n: the
    (n + N)/n of the paper is for minibatches drawn with replacement; without replacement the variance of the gradient's
    noise is 1 - n/N times as large. Cost: n gradients and n dim^2 / 2 + dim^3 / 3 multiplications a step; with
    `information` n gradients, with a test 2 n, and dim^2 multiplications.

    References
    ----------
    Ahn, Korattikara and Welling (2012).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(
    ...     amc.proposals.StochasticGradientFisherScoring(1.0, batch_size=100), amc.AlwaysAccept()
    ... ).test
    AlwaysAccept()
    """

    error_untested = "its steps are biased at any size, unless the posterior is normal and the prior weak"

    step_size: float
    batch_size: int = 500
    noise_matrix: Any = None
    information: Any = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        object.__setattr__(self, "step_size", checked_step_size(self.step_size))
        needed = "an integer of at least 2"
        checked_integer(self.batch_size, "batch_size", 2, needed=needed, whole_floats=True)
        object.__setattr__(self, "noise_matrix", checked_preconditioner(self.noise_matrix))
        object.__setattr__(self, "information", checked_information(self.information))

    @names_itself()
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal with its density ratio given the minibatch; raise unless the information is fixed."""
        if self.information is None:
            raise IncompatibleError(
                "StochasticGradientFisherScoring has no density ratio, because its matrix depends on the past of the "
                "chain; pair it with AlwaysAccept(), or give a fixed information=, such as laplace(target)"
            )
        return self._compile_frozen(target, frozen_propose)

    @names_itself()
    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal without a density ratio."""
        if self.information is not None:
            return self._compile_frozen(target, frozen_move)
        dim = target.variables.size
        B = self.noise_matrix
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, int(self.batch_size))
        if B is None and self.batch_size <= dim:
            raise IncompatibleError(
                f"{speaker()}: a minibatch of {self.batch_size} cannot estimate the information of {dim} parameters; "
                "use more data, or give noise_matrix"
            )
        if B is not None and B.shape[0] != dim:
            raise IncompatibleError(f"{speaker()}: the target has {dim} parameters, noise_matrix has shape {B.shape}")
        if B is None:
            B = np.empty((0, 0))
        elif B.ndim == 1:
            B = np.diag(B**2)
        lower = np.linalg.cholesky(B) if B.size else B

        def make_state() -> FisherScoringState:
            vectors = (np.zeros(dim) for _ in range(2))
            matrices = (np.zeros((dim, dim)) for _ in range(4))
            steps = np.zeros(1)
            running = next(matrices)
            return FisherScoringState(make_minibatch(), self.step_size, B, lower, steps, running, *vectors, *matrices)

        return CompiledProposal(move, make_state, explain=_explain, records=("gradient_evaluations",))

    def _compile_frozen(self, target: Target, propose: Callable[..., float]) -> CompiledProposal:
        """Compile the proposal with the fixed information."""
        dim = target.variables.size
        alpha = self.step_size
        information = self.information
        B = information if self.noise_matrix is None else self.noise_matrix
        for name, given in (("information", information), ("noise_matrix", B)):
            if given.shape[0] != dim:
                raise IncompatibleError(f"{speaker()}: the target has {dim} parameters, {name} has shape {given.shape}")
        if B.ndim == 1:
            B = np.diag(B**2)
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, int(self.batch_size))
        matrix = gradient.n_obs / self.batch_size * information + 4.0 / alpha * B
        lower = np.linalg.cholesky(matrix)
        noise_upper = np.ascontiguousarray(np.linalg.cholesky(B).T)

        def make_state() -> FrozenScoringState:
            vectors = (np.zeros(dim) for _ in range(3))
            return FrozenScoringState(make_minibatch(), alpha, matrix, lower, noise_upper, np.empty(0), *vectors)

        return CompiledProposal(propose, make_state, move=frozen_move, records=("gradient_evaluations",))


def checked_information(information: Any) -> np.ndarray | None:
    """Return a fixed information as a matrix, or None; raise if it is invalid."""
    if information is None:
        return None
    values = cov_of(information)
    if values.ndim != 2:
        raise InvalidInputError(
            f"{speaker()}: information must be a matrix, shape (dim, dim), or an approximation such as "
            f"laplace(target), found shape {values.shape}"
        )
    checked_cholesky(values, name="information")
    return np.linalg.inv(values) if is_approximation(information) else values
