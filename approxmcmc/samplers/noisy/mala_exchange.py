"""MALA-exchange: Langevin steps with an estimated gradient, and an exchange test that makes up for it.

Beside theta the chain carries G, the auxiliary draws behind its drift. One step:

1. theta' ~ N(m(theta, G), Sigma);
2. G' = N draws at theta' for the drift of the way back, and *another* draw y' at theta' for the ratio;
3. log a = (theta' - theta)'[s(y) - s(y')] + log p(theta')/p(theta)
           + log N(theta; m(theta', G'), Sigma) - log N(theta'; m(theta, G), Sigma);
4. move to (theta', G') if log u < log a.

Exchanging (theta, G) for (theta', G') and y for y' leaves the extended law as it is, so the chain is exact. It is not
if y' is one of G': then the proposal of the way back knows the draw that judges it.
"""

import dataclasses
import math
from typing import Any

from approxmcmc.contracts import Component, DoublyIntractableTarget, Sampler
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.random_walk import keep
from approxmcmc.samplers.noisy.chain import NoisyProgram, keep_nothing
from approxmcmc.samplers.noisy.doubly_intractable import (
    EVALUATIONS,
    TOUCHED,
    log_normalizer_ratio,
    log_ratio_of_observed,
)
from approxmcmc.samplers.noisy.estimated_drift import (
    CARRIED,
    GRADIENTS,
    LOG_FACTOR,
    add_noise,
    check_steps,
    langevin_program,
    mean_after_drift,
    squared_distance,
)
from approxmcmc.samplers.noisy.exchange import estimate_from_fresh_draws


def drift_and_return(  # type: ignore[no-untyped-def]  # bound into the template
    proposal_rng, auxiliary_rng, log_prior, params, memory, theta, proposed, count
):
    """Follow the drift that G estimates, draw G' at theta', and return the log ratio of the two steps' densities."""
    (sigma, lower, _, refresh), observed, simulator_params = params
    state, _, _, simulator_state, here, there, work = memory
    factor = math.exp(state[LOG_FACTOR])
    if refresh or state[CARRIED] == 0.0:
        for k in range(here.shape[0]):
            SIMULATE(auxiliary_rng, theta, simulator_params, simulator_state, here[k], count)  # noqa: F821 (bound)
        count[GRADIENTS] += 1
        state[CARRIED] = 1.0
    mean_after_drift(log_prior, theta, observed, here, sigma, factor, work, proposed)
    forward = add_noise(proposal_rng, lower, factor, work, proposed)
    if log_prior(proposed) == -math.inf:
        return 0.0
    for k in range(there.shape[0]):
        SIMULATE(auxiliary_rng, proposed, simulator_params, simulator_state, there[k], count)  # noqa: F821 (bound)
    count[GRADIENTS] += 1
    mean_after_drift(log_prior, proposed, observed, there, sigma, factor, work, work[2])
    return 0.5 * (forward - squared_distance(lower, factor, theta, work[2], work))


def estimate_from_drift_draws(  # type: ignore[no-untyped-def]  # bound into the template
    rng, params, memory, theta, proposed, count
):
    """Use G' once more, as the draws of the ratio of normalisers: the noisy sampler."""
    count[TOUCHED] += 1
    count[EVALUATIONS] += 1
    return log_ratio_of_observed(theta, proposed, params[1]) + log_normalizer_ratio(theta, proposed, memory[5])


def carry_drift_draws(memory):  # type: ignore[no-untyped-def]  # bound into the template
    """G' becomes G."""
    memory[4][:, :] = memory[5]


def adapt_step(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into the template
    """Tune the length of the steps to a wanted acceptance rate (Robbins and Monro 1951)."""
    state[LOG_FACTOR] += (acceptance - params[2]) / (step + 1.0) ** 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class MALAExchange(Component, Sampler):
    """Langevin steps with an estimated gradient and an exchange test: exact, or noisy.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    noisy
        False: the ratio has a draw of its own. True: the N draws behind the drift at theta' serve it too, which saves
        that draw and makes the chain biased.
    n_auxiliary
        Auxiliary draws N behind each drift.
    cov, auxiliary
        As for :class:`NoisyLangevin`.
    refresh
        Whether the draws behind the drift at theta are made anew in each step. Otherwise they are carried from the
        step that led to theta, which costs half and leaves as exact.
    target_acceptance
        Wanted acceptance rate in (0, 1): the step size is tuned to it in the tune phase and frozen after. None: it is
        used as it is.

    Raises
    ------
    InvalidInputError
        When a number is out of range or `cov` is not symmetric positive definite.
    IncompatibleError
        When the target cannot simulate, or `cov` has another size; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``noisy=False`` and exact auxiliary draws; biased otherwise. The draw for the ratio comes from
    a simulation of its own, also where `auxiliary` continues one Markov chain from draw to draw.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), sections 3.5 and 3.6. Algorithm 9 leaves open which draw serves the
    ratio; see the module for why it has to be another one.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MALAExchange(step_size=0.5, noisy=True, n_auxiliary=50).noisy
    True
    """

    step_size: float
    noisy: bool = False
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    refresh: bool = False
    target_acceptance: float | None = None

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)
        wanted = self.target_acceptance
        if wanted is not None and not 0.0 < wanted < 1.0:
            raise InvalidInputError(f"MALAExchange: target_acceptance must be in (0, 1) or None, found {wanted!r}")

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        functions = {
            "MOVE": drift_and_return,
            "ESTIMATE": estimate_from_drift_draws if self.noisy else estimate_from_fresh_draws,
            "KEEP": keep_nothing if self.refresh else carry_drift_draws,
            "ADAPT": keep if self.target_acceptance is None else adapt_step,
        }
        n_ratio = 0 if self.noisy else 1
        return langevin_program(self, target, functions, n_ratio=n_ratio, decides=True, audit_every=audit_every)
