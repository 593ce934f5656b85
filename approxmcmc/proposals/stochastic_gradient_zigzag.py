r"""Stochastic-gradient zig-zag, as a proposal: straight lines at speed 1, with turns by a minibatch's gradient.

In the coordinates of the preconditioner, M = L L' and d theta = L v dt with v in {-1, 1}^d, coordinate k turns round at
the rate max(0, -v_k f_k), f = L' g. If g is the gradient of log p(theta | x) at every moment, this is the zig-zag
process, which leaves the posterior invariant. An unbiased estimate that is redrawn at every moment also leaves the
posterior invariant, because E max(0, -v f) - E max(0, v f) = -v E f.

Here an estimate is drawn at the beginning of a step, and its rates are kept for the time h of the step. Rates then lag
h / 2 behind the position, on average, and a coordinate turns at most once in a step: errors of order h.

In one dimension, with the gradient of all data and U = -log p: a particle at x comes from x - v h / 2, so that its rate
is max(0, v U'(x) - h U''(x) / 2) + O(h^2), and the density with the derivative -(lambda(x, 1) - lambda(x,
-1)) of its log is that of U with abs(U') less by h U'' / 2. For N(0, 1) that is a density exp(-x^2 / 2 + h abs(x) / 2),
with the variance 1 + h E(abs(X)^3 - abs(X)) / 2 = 1 + h / sqrt(2 pi). That is 1 + h E abs(f) / 2, h times the rate of
turns. Enumeration confirms this with noise in f, which causes more turns.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError
from approxmcmc.proposals.hamiltonian_step import checked_time, drift, kick
from approxmcmc.proposals.langevin_step import checked_preconditioner, gradient_of, spread_of
from approxmcmc.proposals.minibatch_gradient import (
    MinibatchGradient,
    book_reads,
    checked_anchor,
    draw_minibatch,
    estimate_gradient,
    minibatch_gradient,
    setup_cost,
)


class ZigZagState(NamedTuple):
    """The minibatch; T, h and the preconditioner; velocity, NaN before the first step; scratch."""

    minibatch: MinibatchGradient
    steps: int
    step_size: float
    scale: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    slope: np.ndarray
    force: np.ndarray
    moved: np.ndarray


@compiled
def zig_and_zag(
    rng: np.random.Generator, h: float, velocity: np.ndarray, force: np.ndarray, moved: np.ndarray
) -> float:
    """Run for a time h with the rates max(0, -v_k f_k) of turns; return the sum of the rates before the first turn.

    The displacement is written to `moved`, and the turns change `velocity`.
    """
    dim = velocity.shape[0]
    left = h
    total = 0.0
    for k in range(dim):
        moved[k] = 0.0
        total += max(0.0, -velocity[k] * force[k])
    first = total
    while total > 0.0:
        time = rng.standard_exponential() / total
        if time >= left:
            break
        left -= time
        chosen = -1
        mark = rng.random() * total
        for k in range(dim):
            moved[k] += time * velocity[k]
            rate = max(0.0, -velocity[k] * force[k])
            if rate > 0.0 and mark >= 0.0:  # false if rounding has passed the last mark
                chosen = k
                mark -= rate
        velocity[chosen] = -velocity[chosen]
        total = 0.0
        for k in range(dim):
            total += max(0.0, -velocity[k] * force[k])
    for k in range(dim):
        moved[k] += left * velocity[k]
    return first


@compiled
def move(rng: np.random.Generator, state: ZigZagState, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> float:
    """Write theta after T steps, each with its own minibatch, to `out`; return 0, or NaN if it is not finite."""
    velocity = state.velocity
    force = state.force
    if math.isnan(velocity[0]):
        for k in range(velocity.shape[0]):
            velocity[k] = 1.0 if rng.random() < 0.5 else -1.0
    assign(out, theta)
    book_reads(state.minibatch, state.steps, count)
    for _ in range(state.steps):
        draw_minibatch(rng, state.minibatch, count)
        estimate_gradient(state.minibatch, out, state.slope, count)
        for k in range(force.shape[0]):
            force[k] = 0.0
        kick(1.0, state.scale, state.upper, state.slope, force)
        if math.isnan(zig_and_zag(rng, state.step_size, velocity, force, state.moved)):
            return math.nan
        drift(1.0, state.scale, state.upper, state.moved, out)
    return 0.0 * out.sum()  # NaN stops the chain


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientZigZag(Component, Proposal):
    r"""Propose by a zig-zag process with the gradients of minibatches, biased; only for :class:`AlwaysAccept`.

    Parameters
    ----------
    step_size
        h, the time of a step: coordinates move at speed 1 in the metric of the preconditioner.
    batch_size
        n, the size of a minibatch, redrawn for each step, without replacement.
    steps
        T, steps for each draw.
    preconditioner
        M: a covariance, shape (dim, dim), standard deviations, shape (dim,), or a Laplace approximation. None: the
        identity.
    control_variate
        A point near the mode, as for :class:`StochasticGradientLangevin`.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient, another dimension, or fewer data than a minibatch, and with any test.

    Notes
    -----
    With :math:`f = L' \hat g(\theta)` from a minibatch at the beginning of a step, coordinate k turns round at the
    constant rate :math:`\max(0, -v_k f_k)` for the time h.

    Guarantee: biased, by order h; exact as h tends to 0, for any minibatch. In the metric of a normal posterior the
    variance is :math:`1 + h\,\mathrm{E}|f| / 2 + O(h^2)`, too large by h times the rate of turns: :math:`h /
    \sqrt{2\pi}` with the gradient of all data, about :math:`0.4\, h \sigma` where the noise of f has a standard
    deviation :math:`\sigma` above 1. Stable for any h, as speeds are 1. It needs no bound of any rate, unlike
    :class:`ZigZag`, which is exact. Cost: T n gradients a draw, twice that with control variates.

    References
    ----------
    Fearnhead, Grazzi, Nemeth and Roberts (2024).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0)
    >>> fit = amc.laplace(target)
    >>> zigzag = amc.proposals.StochasticGradientZigZag(0.1, 20, steps=5, preconditioner=fit, control_variate=fit)
    >>> sampler = amc.MetropolisHastings(zigzag, amc.AlwaysAccept())
    >>> trace = amc.sample(target, sampler, draws=10, tune=10, chains=1, random_seed=1, progressbar=False)
    >>> int(trace.sample_stats["gradient_evaluations"][0, 0])
    200
    """

    error_untested = "steps of constant rates are biased, by order step_size"

    step_size: float
    batch_size: int = 500
    steps: int = 1
    preconditioner: Any = None
    control_variate: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; Laplace approximations become arrays."""
        object.__setattr__(self, "step_size", checked_time(self.step_size))
        object.__setattr__(self, "batch_size", checked_integer(self.batch_size, "batch_size"))
        object.__setattr__(self, "steps", checked_integer(self.steps, "steps"))
        object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner))
        object.__setattr__(self, "control_variate", checked_anchor(self.control_variate))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Raise: this proposal has no density ratio."""
        raise IncompatibleError(
            "StochasticGradientZigZag has no density ratio, because draws do not contain its velocity; pair it with "
            "AlwaysAccept(), or use ZigZag, which is exact"
        )

    @names_itself()
    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal."""
        dim = target.variables.size
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, self.batch_size, self.control_variate)
        spread = spread_of(self.preconditioner, dim)

        def make_state() -> ZigZagState:
            vectors = np.full(dim, math.nan), np.zeros(dim), np.zeros(dim), np.zeros(dim)
            return ZigZagState(make_minibatch(), self.steps, self.step_size, *spread, *vectors)

        return CompiledProposal(
            move,
            make_state,
            refresh=lambda state: state.velocity.fill(math.nan),  # NaN marks a first step
            records=("gradient_evaluations",),
            attrs=setup_cost(gradient, self.control_variate),
        )
