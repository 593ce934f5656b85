"""Noisy Langevin: a step along a gradient that auxiliary data estimate, plus noise, and no test.

    theta' = theta + Sigma/2 [grad log p(theta) + s(y) - (1/N) sum_k s(y'_k)] + N(0, Sigma),    y'_k drawn at theta.

Biased twice: by the step size, as every unadjusted Langevin chain, and by the noise of the gradient.
"""

import dataclasses
from typing import Any

from approxmcmc.contracts import Component, DoublyIntractableTarget, Sampler
from approxmcmc.proposals.random_walk import keep
from approxmcmc.samplers.noisy.chain import NoisyProgram, keep_nothing
from approxmcmc.samplers.noisy.doubly_intractable import TOUCHED
from approxmcmc.samplers.noisy.estimated_drift import (
    GRADIENTS,
    add_noise,
    check_steps,
    langevin_program,
    mean_after_drift,
)


def drift(  # type: ignore[no-untyped-def]  # bound into the template
    proposal_rng, auxiliary_rng, log_prior, params, memory, theta, proposed, count
):
    """Draw G at theta and follow the drift that it estimates; nobody asks about the way back."""
    (sigma, lower, _, _), observed, simulator_params = params
    _, _, _, simulator_state, here, _, work = memory
    for k in range(here.shape[0]):
        SIMULATE(auxiliary_rng, theta, simulator_params, simulator_state, here[k], count)  # noqa: F821 (bound)
    count[TOUCHED] += 1
    count[GRADIENTS] += 1
    mean_after_drift(log_prior, theta, observed, here, sigma, 1.0, work, proposed)
    add_noise(proposal_rng, lower, 1.0, work, proposed)
    return 0.0


def no_estimate(rng, params, memory, theta, proposed, count):  # type: ignore[no-untyped-def]  # as above
    """Estimate nothing: every step is made."""
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyLangevin(Component, Sampler):
    """Unadjusted Langevin steps with a gradient that auxiliary data estimate.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    n_auxiliary
        Auxiliary draws N at theta, whose mean statistic stands in for grad log Z(theta).
    cov
        Shape of the steps, (dim, dim), or an object with an attribute `cov`, such as the result of
        :func:`robbins_monro`. None: the identity.
    auxiliary
        As for :class:`Exchange`.

    Raises
    ------
    InvalidInputError
        When a number is out of range or `cov` is not symmetric positive definite.
    IncompatibleError
        When the target cannot simulate, or `cov` has another size; raised before anything runs.

    Notes
    -----
    Guarantee: biased. As the step size tends to 0 and N to infinity the stationary law tends to the posterior; the
    drift of one step is off by a standard deviation of Sigma/2 sd(s) / sqrt(N). A step that would leave the support of
    the prior is not made. The gradient of the log prior is a central difference.

    Records: ``decisions_made`` is 0, ``gradient_evaluations`` 1 per step: the data are one datum.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), section 3.4, algorithm 8.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.NoisyLangevin(step_size=0.5, n_auxiliary=100).step_size
    0.5
    """

    step_size: float
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    target_acceptance, refresh = None, True  # no settings: nothing accepts, and no draw serves two steps

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains; it makes no decisions."""
        functions = {"MOVE": drift, "ESTIMATE": no_estimate, "KEEP": keep_nothing, "ADAPT": keep}
        return langevin_program(self, target, functions, n_ratio=0, decides=False, audit_every=None)
