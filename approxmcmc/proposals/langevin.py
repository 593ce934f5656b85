r"""The Langevin proposal on all data: MALA with a test, the unadjusted Langevin algorithm without.

.. math:: \theta' = m(\theta) + N(0, \alpha M), \qquad
          m(\theta) = \theta + \tfrac{\alpha}{2} M \nabla \log p(\theta | x).

.. math:: \log q(\theta|\theta') - \log q(\theta'|\theta)
          = \frac{|\theta' - m(\theta)|^2_M - |\theta - m(\theta')|^2_M}{2 \alpha}, \qquad |v|^2_M = v' M^{-1} v.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, Component, Part, Proposal, Target
from approxmcmc.engine.bind import compiled
from approxmcmc.engine.gradients import ALL_ROWS
from approxmcmc.engine.vectors import assign, equal
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
from approxmcmc.proposals.random_walk import keep

GRADIENTS = COUNT_NAMES.index("gradient_evaluations")
TOUCHED = COUNT_NAMES.index("datapoints_touched")
LOG_FACTOR = 0  # place of the state that holds the logarithm of the tuned factor on alpha
VECTORS = 6


@compiled
def _posterior_gradient(model, theta, out, count):  # type: ignore[no-untyped-def]  # a kernel helper
    data, n_obs, all_rows, add_gradient, add_prior_gradient = model
    out[:] = 0.0
    add_gradient(theta, data, all_rows, 0, n_obs, out)
    add_prior_gradient(theta, out)
    count[GRADIENTS] += n_obs


def _propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    # The state remembers the last two points and their gradients: whichever of them the chain went on from, one
    # gradient a step is new, the one at theta'.
    model, step_size, scale, upper, _ = params
    alpha = step_size * math.exp(state[LOG_FACTOR])
    rows = state[1:].reshape(VECTORS, theta.shape[0])
    here, slope, there, slope_there, mean, work = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    if not equal(theta, here):
        if equal(theta, there):
            assign(slope, slope_there)
        else:
            _posterior_gradient(model, theta, slope, count)
        assign(here, theta)
    drift(alpha, scale, upper, theta, slope, out)
    squared = add_noise(rng, alpha, scale, upper, out)
    assign(there, out)
    _posterior_gradient(model, there, slope_there, count)
    count[TOUCHED] += model[1]
    drift(alpha, scale, upper, there, slope_there, mean)
    return 0.5 * (squared - squared_distance(scale, upper, mean, theta, work) / alpha)


def _forget(state):  # type: ignore[no-untyped-def]  # bound into a template
    # For samplers whose density changes between proposals (Firefly's bright set): no point is remembered.
    state[1:] = math.nan


def _move(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    # Nobody asks for the density ratio: one gradient, at theta.
    model, step_size, scale, upper, _ = params
    slope = state[1 : 1 + theta.shape[0]]
    _posterior_gradient(model, theta, slope, count)
    count[TOUCHED] += model[1]
    drift(step_size, scale, upper, theta, slope, out)
    return 0.0 * add_noise(rng, step_size, scale, upper, out) + 0.0 * out.sum()  # NaN stops the chain


def _adapt(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into a template
    state[LOG_FACTOR] += 2.0 * (acceptance - params[4]) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class Langevin(Component, Proposal):
    """Propose theta' ~ N(theta + (step_size/2) M grad log p(theta|x), step_size M), the gradient on all data.

    Parameters
    ----------
    step_size
        alpha, the *variance* of the noise (times M); positive. The drift has alpha/2.
    cov
        M: a covariance, shape (dim, dim), or standard deviations, shape (dim,). None: the identity.
    preconditioner
        The same, or a Laplace approximation, which gives its covariance; in place of `cov`.
    target_acceptance
        Wanted acceptance rate in (0, 1), to which the tune phase moves alpha; frozen after. None: alpha as it is.
        0.574 is best for exact tests in high dimension (Roberts and Rosenthal 1998).

    Raises
    ------
    InvalidInputError
        When a number is out of range, or M not symmetric positive definite.
    IncompatibleError
        When the target has no gradient or another dimension, or `target_acceptance` is given without a test.

    Notes
    -----
    Guarantee: with :class:`ExactTest`, exact (MALA). With :class:`AlwaysAccept`, biased: the unadjusted Langevin
    algorithm, of order alpha; on a normal target of precision A it is stable for alpha M < 4/A and has the variance
    1 / (A (1 - alpha A / 4)). With other tests, as the test says.
    Cost: N gradients a step, at theta'; the gradient at theta is remembered.

    References
    ----------
    Besag (1994); Roberts and Tweedie (1996).

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> target = amc.targets.LogisticRegression(X, X[:, 0] > 0)
    >>> mala = amc.MetropolisHastings(amc.Langevin(0.1), amc.ExactTest())
    >>> trace = amc.sample(target, mala, draws=10, tune=0, chains=1, random_seed=1, progressbar=False)
    >>> trace.sample_stats["gradient_evaluations"].values[0, :3].tolist()
    [400, 200, 200]
    """

    step_size: float
    cov: Any = None
    preconditioner: Any = None
    target_acceptance: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges; a Laplace approximation becomes its covariance."""
        object.__setattr__(self, "step_size", checked_step_size(self.step_size, who="Langevin"))
        if self.cov is not None and self.preconditioner is not None:
            raise InvalidInputError("Langevin: cov and preconditioner are two names of one matrix; give one of them")
        for name in ("cov", "preconditioner"):
            object.__setattr__(self, name, checked_preconditioner(getattr(self, name), who="Langevin"))
        if self.target_acceptance is not None and not 0.0 < self.target_acceptance < 1.0:
            raise InvalidInputError(
                f"Langevin: target_acceptance must lie strictly between 0 and 1, found {self.target_acceptance}"
            )

    def build_proposal(self, target: Target) -> Part:
        """Return the part that proposes and knows its density ratio."""
        tuned = self.target_acceptance is not None
        functions = {"PROPOSE": _propose, "ADAPT": _adapt if tuned else keep, "FORGET": _forget}
        return self._part(target, functions)

    def build_unadjusted(self, target: Target) -> Part:
        """Return the part for a sampler that asks for no density ratio."""
        return self._part(target, {"PROPOSE": _move, "ADAPT": keep})

    def _part(self, target: Target, functions: Mapping[str, Any]) -> Part:
        gradient, dim = gradient_of(target, who="Langevin"), target.variables.size
        spread = spread_of(self.preconditioner if self.cov is None else self.cov, dim, who="Langevin")
        model = (gradient.data, gradient.n_obs, ALL_ROWS, gradient.add_gradient, gradient.add_prior_gradient)
        params = (model, self.step_size, *spread, self.target_acceptance or 0.0)

        def make_state() -> np.ndarray:
            return np.concatenate([np.zeros(1), np.full(VECTORS * dim, math.nan)])

        def describe(state: np.ndarray) -> Mapping[str, float]:
            tuned = self.target_acceptance is not None
            return {"step_size": self.step_size * math.exp(state[LOG_FACTOR])} if tuned else {}

        return Part(functions, params, make_state, describe, ("gradient_evaluations",))
