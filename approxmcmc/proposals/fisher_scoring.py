r"""Stochastic-gradient Fisher scoring (SGFS): Langevin steps preconditioned by a curvature estimated on minibatches.

Let :math:`\hat V` be the covariance of the gradients of single data in the minibatch of step t, and
:math:`V_t = (1 - 1/t) V_{t-1} + \hat V/t`. The Fisher information of all data is estimated by :math:`\hat I = N V_t`.
With the estimate :math:`\hat g` of the gradient from n of N data, :math:`\gamma = N/n`, the step size :math:`\alpha`
and a matrix B,

.. math:: \theta' = \theta + 2 \left[\gamma \hat I + \tfrac{4}{\alpha} B\right]^{-1} (\hat g(\theta) + \eta),
          \qquad \eta \sim N(0, \tfrac{4}{\alpha} B).

For large steps all the noise comes from the minibatch, and the matrix in brackets gives the draws the posterior's
covariance.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.engine.terms.order import draw_next
from approxmcmc.errors import IncompatibleError
from approxmcmc.proposals.covariance import factor
from approxmcmc.proposals.langevin_step import checked_preconditioner, checked_step_size, gradient_of
from approxmcmc.proposals.minibatch_gradient import MinibatchGradient, minibatch_gradient, write_scores


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
    """Propose by stochastic-gradient Fisher scoring (SGFS); only for :class:`AlwaysAccept`.

    Parameters
    ----------
    step_size
        alpha, positive, of any size. If alpha is small, the noise has the *variance* alpha times the inverse of B.
    batch_size
        n, the size of the minibatch, redrawn for each step, without replacement.
    noise_matrix
        B: a matrix, shape (dim, dim), or the square roots of a diagonal, shape (dim,). None: the estimated information
        itself, which needs more rows in a minibatch than parameters.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or B not symmetric positive definite.
    IncompatibleError
        When the target has no gradient, another dimension, or too few data. With any test: theta' depends on the whole
        past of the chain, so no ratio of densities is known.
    NotFiniteError
        During sampling without `noise_matrix`, when the first minibatches carry no information on a parameter, such as
        a rare binary predictor: the estimated information is then singular.

    Notes
    -----
    Guarantee: none at fixed settings; biased. If the posterior is normal, the prior weak and B the information, the
    stationary distribution is the posterior at *any* step size. gamma = N/n: the (n + N)/n of the paper is for
    minibatches drawn with replacement; without replacement the variance of the gradient's noise is 1 - n/N times as
    large. Cost: n gradients and n dim^2 / 2 + dim^3 / 3 multiplications a step.

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

    def __post_init__(self) -> None:
        """Check the ranges."""
        object.__setattr__(self, "step_size", checked_step_size(self.step_size))
        needed = "an integer of at least 2"
        checked_integer(self.batch_size, "batch_size", 2, needed=needed, whole_floats=True)
        object.__setattr__(self, "noise_matrix", checked_preconditioner(self.noise_matrix))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Raise: this proposal has no density ratio."""
        raise IncompatibleError(
            "StochasticGradientFisherScoring has no density ratio, because its matrix depends on the past of the "
            "chain; pair it with AlwaysAccept(), or use StochasticGradientLangevin with a preconditioner"
        )

    @names_itself()
    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal."""
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
