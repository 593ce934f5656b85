r"""Stochastic-gradient Langevin dynamics (SGLD), as a proposal.

A minibatch X_n, drawn without replacement, estimates the gradient of the log posterior,

.. math:: \hat g(\theta) = \nabla \log p(\theta) + \frac{N}{n} \sum_{x \in X_n} \nabla \log p(x | \theta),

and the proposal is :math:`\theta' = \theta + \tfrac{\alpha}{2} M \hat g(\theta) + N(0, \alpha M)`. Each minibatch is
one proposal kernel. A test therefore uses both densities given the *same* minibatch, which leaves the posterior
invariant for every minibatch, and so for their mixture. The test's own subset comes from another random stream.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, CompiledGradient, Component, Part, Proposal, Target
from approxmcmc.engine.approximation import mode_of
from approxmcmc.engine.bind import compiled
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.gradients import full_gradient
from approxmcmc.engine.order import draw_next
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.langevin_step import (
    add_noise,
    checked_preconditioner,
    checked_step_size,
    drift,
    gradient_of,
    spread_of,
    squared_distance,
)
from approxmcmc.proposals.random_walk import keep
from approxmcmc.proposals.step_sizes import DecreasingStep

GRADIENTS = COUNT_NAMES.index("gradient_evaluations")
TOUCHED = COUNT_NAMES.index("datapoints_touched")
TIME, ALPHA = 0, 1  # places of the state: steps made, step size of the last
VECTORS = 4


@compiled
def _estimate(model, theta, order, at_anchor, out, count):  # type: ignore[no-untyped-def]  # a kernel helper
    """Write g_hat(theta) to `out`: (N/n) (the minibatch's sum - its sum at the anchor) + the anchor's total."""
    data, n_obs, batch_size, add_gradient, add_prior_gradient, _, anchor_total = model
    out[:] = 0.0
    add_gradient(theta, data, order, 0, batch_size, out)
    count[GRADIENTS] += batch_size
    for j in range(theta.shape[0]):
        out[j] = n_obs / batch_size * (out[j] - at_anchor[j]) + anchor_total[j]
    add_prior_gradient(theta, out)


@compiled
def _draw_minibatch(rng, model, state, order, at_anchor, count):  # type: ignore[no-untyped-def]  # a kernel helper
    """Draw the step's minibatch to the front of `order`, and write its gradient at the anchor, if there is one."""
    data, _, batch_size, add_gradient, _, anchor, _ = model
    draw_next(rng, order, 0, batch_size)
    count[TOUCHED] += batch_size
    at_anchor[:] = 0.0
    if anchor.shape[0] > 0:
        add_gradient(anchor, data, order, 0, batch_size, at_anchor)
        count[GRADIENTS] += batch_size


@compiled
def _next_step_size(schedule, state):  # type: ignore[no-untyped-def]  # a kernel helper
    # alpha_t = a (b + t)^-gamma; a constant step has gamma = 0.
    a, b, gamma = schedule
    state[ALPHA] = a * (b + state[TIME]) ** -gamma
    state[TIME] += 1.0
    return state[ALPHA]


def _propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    model, schedule, scale, upper = params
    split = 2 + VECTORS * theta.shape[0]
    rows = state[2:split].reshape(VECTORS, theta.shape[0])
    slope, at_anchor, mean, work = rows[0], rows[1], rows[2], rows[3]
    order = state[split:].view(np.int64)
    alpha = _next_step_size(schedule, state)
    _draw_minibatch(rng, model, state, order, at_anchor, count)
    _estimate(model, theta, order, at_anchor, slope, count)
    drift(alpha, scale, upper, theta, slope, out)
    squared = add_noise(rng, alpha, scale, upper, out)
    _estimate(model, out, order, at_anchor, slope, count)  # the way back, given the same minibatch
    drift(alpha, scale, upper, out, slope, mean)
    return 0.5 * (squared - squared_distance(scale, upper, mean, theta, work) / alpha)


def _move(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    # Nobody asks for the density ratio: no gradient at theta'.
    model, schedule, scale, upper = params
    split = 2 + VECTORS * theta.shape[0]
    rows = state[2:split].reshape(VECTORS, theta.shape[0])
    slope, at_anchor = rows[0], rows[1]
    order = state[split:].view(np.int64)
    alpha = _next_step_size(schedule, state)
    _draw_minibatch(rng, model, state, order, at_anchor, count)
    _estimate(model, theta, order, at_anchor, slope, count)
    drift(alpha, scale, upper, theta, slope, out)
    return 0.0 * add_noise(rng, alpha, scale, upper, out) + 0.0 * out.sum()  # NaN stops the chain


def step_size_of(params, state):  # type: ignore[no-untyped-def]  # bound into a template
    """Return the step size of the step just made, the draw's weight where steps decrease."""
    return state[ALPHA]


@dataclasses.dataclass(frozen=True, eq=False)
class StochasticGradientLangevin(Component, Proposal):
    """Propose a Langevin step along the gradient of a minibatch.

    Parameters
    ----------
    step_size
        alpha, the *variance* of the noise (times M); the drift has alpha/2. A positive number, or a
        :class:`DecreasingStep`; draws then carry their step size as weight.
    batch_size
        n, the data of the minibatch: drawn afresh for each step, without replacement.
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
    Guarantee: with :class:`AlwaysAccept`, biased at any fixed alpha (SGLD): for a normal target of precision A and
    estimates of the gradient with variance V, the stationary variance is (1 + alpha V / 4) / (A (1 - alpha A / 4)).
    With decreasing steps, weighted averages are asymptotically exact. With :class:`ExactTest`, exact; with
    :class:`SequentialTTest`, the sampler of Korattikara, Chen and Welling, biased as the test is.
    Noise of the minibatch lowers the acceptance rate: choose alpha by risk, not by acceptance.
    Cost: n gradients a step without a test, 2 n with one; n more with control variates.

    References
    ----------
    Welling and Teh (2011); Korattikara, Chen and Welling (2014), section 6.2; Baker, Fearnhead, Fox and Nemeth (2019).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> target = amc.targets.LogisticRegression(X, X[:, 0] > 0)
    >>> sgld = amc.MetropolisHastings(amc.StochasticGradientLangevin(1e-3, batch_size=100), amc.AlwaysAccept())
    >>> trace = amc.sample(target, sgld, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> int(trace.sample_stats["gradient_evaluations"].sum()), int(trace.sample_stats["datapoints_touched"].sum())
    (1000, 1000)
    """

    step_size: Any
    batch_size: int = 500
    preconditioner: Any = None
    control_variate: Any = None

    def __post_init__(self) -> None:
        """Check the ranges; Laplace approximations become arrays."""
        who = "StochasticGradientLangevin"
        if not isinstance(self.step_size, DecreasingStep):
            object.__setattr__(self, "step_size", checked_step_size(self.step_size, who=who))
        # Without `who`: `Component` adds a note with all settings to what does not begin with its name.
        batch_size = checked_integer(self.batch_size, "batch_size", needed="a positive integer", whole_floats=True)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "preconditioner", checked_preconditioner(self.preconditioner, who=who))
        if self.control_variate is not None:
            anchor = mode_of(self.control_variate)
            if anchor.ndim != 1 or not np.isfinite(anchor).all():
                raise InvalidInputError(
                    f"{who}: control_variate must be a point, shape (dim,), or an object with a mode such as "
                    f"laplace(target), found shape {anchor.shape}"
                )
            object.__setattr__(self, "control_variate", anchor)

    def build_proposal(self, target: Target) -> Part:
        """Return the part that proposes and knows its density ratio given the minibatch."""
        return self._part(target, {"PROPOSE": _propose, "ADAPT": keep})

    def build_unadjusted(self, target: Target) -> Part:
        """Return the part for a sampler that asks for no density ratio."""
        return self._part(target, {"PROPOSE": _move, "ADAPT": keep})

    def _part(self, target: Target, functions: Mapping[str, Any]) -> Part:
        who, dim = "StochasticGradientLangevin", target.variables.size
        gradient = gradient_of(target, who=who)
        anchor, anchor_total = self._anchor(gradient, dim)
        if isinstance(self.step_size, DecreasingStep):
            schedule = (self.step_size.scale, self.step_size.offset, self.step_size.exponent)
            functions = {**functions, "WEIGHT": step_size_of}
        else:
            schedule = (self.step_size, 1.0, 0.0)
        model = (*minibatch_model(gradient, self.batch_size, who=who), anchor, anchor_total)
        params = (model, schedule, *spread_of(self.preconditioner, dim, who=who))
        records = ("gradient_evaluations", *(("weight",) if "WEIGHT" in functions else ()))
        setup = {"setup_gradient_evaluations": gradient.n_obs} if anchor.size else {}
        n_numbers = 2 + VECTORS * dim
        make_state = functools.partial(minibatch_state, n_numbers, gradient.n_obs)
        return Part(functions, params, make_state, records=records, attrs=setup)

    def _anchor(self, gradient: CompiledGradient, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the point of the control variates and the gradient on all data there; empty and 0 without them."""
        if self.control_variate is None:
            return np.empty(0), np.zeros(dim)
        if self.control_variate.shape != (dim,):
            raise IncompatibleError(
                f"StochasticGradientLangevin: the target has {dim} parameters, control_variate "
                f"{self.control_variate.size}; give a point near the mode of this target"
            )
        return self.control_variate.copy(), full_gradient(gradient, self.control_variate)


def minibatch_model(gradient: CompiledGradient, batch_size: int, *, who: str) -> tuple[Any, ...]:
    """Return what kernels need for the gradients of a minibatch; a minibatch larger than the data is refused."""
    data, n_obs = gradient.data, gradient.n_obs
    if batch_size > n_obs:
        raise IncompatibleError(f"{who}: a minibatch of {batch_size} cannot be drawn from {n_obs} data; use fewer")
    return (data, n_obs, batch_size, gradient.add_gradient, gradient.add_prior_gradient)


def minibatch_state(n_numbers: int, n_obs: int) -> np.ndarray:
    """Return zeros, then the permutation of the data: int64 numbers, in the bits of the state's last `n_obs` places."""
    return np.concatenate([np.zeros(n_numbers), np.arange(n_obs, dtype=np.int64).view(np.float64)])
