r"""Stochastic-gradient Langevin dynamics (SGLD), as a proposal.

A minibatch X_n estimates the gradient of the log posterior (see `minibatch_gradient.py`), and the proposal is
:math:`\theta' = \theta + \tfrac{\alpha}{2} M \hat g(\theta) + N(0, \alpha M)`. Each minibatch defines one proposal
kernel. So a test uses both densities given the *same* minibatch. This leaves the posterior invariant for every
minibatch, and so for the mixture over minibatches. The test draws its subset from another random stream.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.langevin_step import (
    add_noise,
    checked_preconditioner,
    checked_step_size,
    drift,
    gradient_of,
    spread_of,
    squared_distance,
)
from approxmcmc.proposals.minibatch_gradient import (
    MinibatchGradient,
    book_reads,
    checked_anchor,
    draw_minibatch,
    estimate_gradient,
    minibatch_gradient,
    setup_cost,
)


@dataclasses.dataclass(frozen=True, eq=False)
class DecreasingStep(Component):
    """The step size alpha_t = scale (offset + t)^-exponent at step t = 0, 1, ...; tuning steps count.

    Parameters
    ----------
    scale
        a, positive: the step size, which is a variance, at offset + t = 1.
    offset
        b, at least 1: step sizes hardly decrease until t is near b.
    exponent
        gamma in (0.5, 1].

    Raises
    ------
    InvalidInputError
        When a number is out of its range.

    Notes
    -----
    Draws then carry the weight alpha_t, ``sample_stats["weight"]``; averages must use it, and `risk` does. The mean
    squared error falls at best like t^(-2/3), at gamma = 1/3, which is outside the range above. Within the range a
    smaller gamma is better.

    References
    ----------
    Welling and Teh (2011), section 3; Teh, Thiery and Vollmer (2016).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.proposals.DecreasingStep(1e-3, offset=100.0).at(0) > amc.proposals.DecreasingStep(1e-3, offset=100.0).at(50)
    True
    """

    scale: float
    offset: float = 1.0
    exponent: float = 0.55

    def __post_init__(self) -> None:
        """Check the ranges."""
        ranges = {
            "scale": (0.0 < self.scale < math.inf, "be positive and finite"),
            "offset": (1.0 <= self.offset < math.inf, "be at least 1"),
            "exponent": (0.5 < self.exponent <= 1.0, "lie in (0.5, 1], where averages converge"),
        }
        for name, (fine, rule) in ranges.items():
            if not fine:
                raise InvalidInputError(f"DecreasingStep: {name} must {rule}, found {getattr(self, name)!r}")

    def at(self, t: int) -> float:
        """Return the step size alpha_t of step t."""
        return self.scale * (self.offset + t) ** -self.exponent


class SGLDState(NamedTuple):
    """The minibatch, the schedule of step sizes, the preconditioner, and scratch.

    alpha_t = a (b + t)^-gamma; a constant step has gamma = 0. `steps` (1,) is t, the number of steps made, `step_size`
    (1,) the size of the last one.
    """

    minibatch: MinibatchGradient
    a: float
    b: float
    gamma: float
    scale: np.ndarray
    upper: np.ndarray
    steps: np.ndarray
    step_size: np.ndarray
    slope: np.ndarray
    mean: np.ndarray
    work: np.ndarray


@compiled
def _next_step_size(state: SGLDState) -> float:
    state.step_size[0] = state.a * (state.b + state.steps[0]) ** -state.gamma
    state.steps[0] += 1.0
    return state.step_size[0]


@compiled
def propose(rng: np.random.Generator, state: SGLDState, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> float:
    """Write theta' to `out`, and return log q(theta|theta') - log q(theta'|theta), both given the minibatch."""
    scale = state.scale
    upper = state.upper
    slope = state.slope
    alpha = _next_step_size(state)
    draw_minibatch(rng, state.minibatch, count)
    book_reads(state.minibatch, 1, count)
    estimate_gradient(state.minibatch, theta, slope, count)
    drift(alpha, scale, upper, theta, slope, out)
    squared = add_noise(rng, alpha, scale, upper, out)
    estimate_gradient(state.minibatch, out, slope, count)  # the reverse step, given the same minibatch
    drift(alpha, scale, upper, out, slope, state.mean)
    return 0.5 * (squared - squared_distance(scale, upper, state.mean, theta, state.work) / alpha)


@compiled
def move(rng: np.random.Generator, state: SGLDState, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> float:
    """Write theta' to `out`, without the gradient at theta' and the density ratio; return 0, or NaN if not finite."""
    alpha = _next_step_size(state)
    draw_minibatch(rng, state.minibatch, count)
    book_reads(state.minibatch, 1, count)
    estimate_gradient(state.minibatch, theta, state.slope, count)
    drift(alpha, state.scale, state.upper, theta, state.slope, out)
    add_noise(rng, alpha, state.scale, state.upper, out)
    return 0.0 * out.sum()  # NaN stops the chain


@compiled
def last_step_size(state: SGLDState) -> float:
    """Return the size of the last step, the draw's weight if steps decrease."""
    return state.step_size[0]


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientLangevin(Component, Proposal):
    """Propose a Langevin step along the gradient of a minibatch: SGLD, stochastic-gradient Langevin dynamics.

    Parameters
    ----------
    step_size
        alpha, the *variance* of the noise (times M); the drift has alpha/2. A positive number, or a
        :class:`DecreasingStep`; draws then carry their step size as weight.
    batch_size
        n, the size of the minibatch, redrawn for each step, without replacement.
    preconditioner
        M: a covariance, shape (dim, dim), standard deviations, shape (dim,), or a Laplace approximation. None: the
        identity.
    control_variate
        A point theta_hat near the mode, shape (dim,), or an object with a `mode`. The estimate becomes
        sum_i g_i(theta_hat) + (N/n) sum_{X_n} [g_i(theta) - g_i(theta_hat)], unbiased, with a variance of order
        ``|theta - theta_hat|^2``; N gradients at set-up (attribute ``setup_gradient_evaluations``), n more for each
        step.

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient, another dimension, or fewer data than a minibatch.

    Notes
    -----
    Guarantee: with :class:`AlwaysAccept`, biased at any fixed alpha (SGLD): for a normal target of precision A, M = 1
    and estimates of the gradient with variance V, the stationary variance is (1 + alpha V / 4) / (A (1 - alpha A / 4)).
    With decreasing steps, weighted averages are asymptotically exact. With :class:`ExactTest`, exact; with
    :class:`SequentialTTest`, the sampler of Korattikara, Chen and Welling, with the bias of the test. Noise of the
    minibatch lowers the acceptance rate, so choose alpha by risk, not by acceptance rate. Cost: n gradients a step
    without a test, 2 n with a test; n more with control variates.

    References
    ----------
    Welling and Teh (2011); Korattikara, Chen and Welling (2013), section 6.2; Baker, Fearnhead, Fox and Nemeth (2019).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> target = amc.LogisticRegression(X, X[:, 0] > 0)
    >>> sgld = amc.MetropolisHastings(amc.StochasticGradientLangevin(1e-3, batch_size=100), amc.AlwaysAccept())
    >>> trace = amc.sample(target, sgld, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> int(trace.sample_stats["gradient_evaluations"].sum()), int(trace.sample_stats["datapoints_touched"].sum())
    (1000, 1000)
    """

    error_untested = (
        "untested steps along minibatch gradients are biased, by order step_size, and more if gradients are noisy; "
        "with DecreasingStep weighted averages are asymptotically exact"
    )

    step_size: Any
    batch_size: int = 500
    preconditioner: Any = None
    control_variate: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; Laplace approximations become arrays."""
        if not isinstance(self.step_size, DecreasingStep):
            object.__setattr__(self, "step_size", checked_step_size(self.step_size))
        batch_size = checked_integer(self.batch_size, "batch_size", needed="a positive integer", whole_floats=True)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner))
        object.__setattr__(self, "control_variate", checked_anchor(self.control_variate))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal with its density ratio given the minibatch."""
        return self._compile(target, propose)

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal without a density ratio."""
        return self._compile(target, move)

    @names_itself()
    def _compile(self, target: Target, propose: Callable[..., float]) -> CompiledProposal:
        dim = target.variables.size
        gradient = gradient_of(target)
        make_minibatch = minibatch_gradient(gradient, dim, self.batch_size, self.control_variate)
        decreasing = isinstance(self.step_size, DecreasingStep)
        steps = self.step_size
        schedule = (steps.scale, steps.offset, steps.exponent) if decreasing else (steps, 1.0, 0.0)
        spread = spread_of(self.preconditioner, dim)

        def make_state() -> SGLDState:
            cells = (np.zeros(1) for _ in range(2))
            vectors = (np.zeros(dim) for _ in range(3))
            return SGLDState._make((make_minibatch(), *schedule, *spread, *cells, *vectors))

        return CompiledProposal(
            propose,
            make_state,
            weight=last_step_size if decreasing else None,
            move=move,
            records=("gradient_evaluations", *(("weight",) if decreasing else ())),
            attrs=setup_cost(gradient, self.control_variate),
        )
