"""Choose the exact kernel to couple: the sampler's, the user's, or the default for the posterior."""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import DoublyIntractableTarget, Sampler, Target
from approxmcmc.couplings.meeting import Coupling
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.default_kernel import default_kernel

LARGEST_DIFFERENCE = 1e-6  # two log densities of one posterior may differ by this, beyond a constant and rounding
POINTS = 10


class ExactKernel(NamedTuple):
    """An exact sampler, and the target on which it runs."""

    target: Any
    sampler: Any


def coupling_of(target: Target, sampler: Sampler) -> Coupling:
    """Return the coupling of the *exact* chain, which proposes as the sampler does and decides on all data."""
    return Coupling(sampler.coupling(target))


def chosen_kernel(kernel: Any, target: Target, points: np.ndarray) -> ExactKernel:
    """Return the user's exact kernel, or the default one if `kernel` is None; `points` (n, dim) are draws.

    If the user's kernel comes with another target, its log density is compared with that of `target` at ten draws.

    Raises
    ------
    IncompatibleError
        When the kernel is not exact, or its target has another posterior.
    """
    if kernel is None:
        return ExactKernel(*default_kernel(target, points))
    own, sampler = kernel if isinstance(kernel, tuple) and len(kernel) == 2 else (target, kernel)
    why = "it is not a sampler" if not isinstance(sampler, Sampler) else sampler.why_not_invariant(own)
    if why:
        raise IncompatibleError(
            f"bias: kernel must leave the posterior invariant, and {why}; give an exact sampler, such as "
            "MetropolisHastings(proposal, ExactTest()), Gibbs(), or Exchange(proposal, auxiliary='exact') with one "
            f"auxiliary draw; or a pair (target, exact sampler) of the same posterior; found {sampler!r}"
        )
    if own is not target:
        _check_same_posterior(own, target, points[np.linspace(0, len(points) - 1, POINTS).astype(int)])
    return ExactKernel(own, sampler)


def _check_same_posterior(own: Any, target: Target, points: np.ndarray) -> None:
    if not isinstance(own, Target) or own.variables.size != target.variables.size:
        raise IncompatibleError(f"bias: the kernel's target needs the parameters of {target!r}, found {own!r}")
    differences = np.array([log_density_of(own, theta) - log_density_of(target, theta) for theta in points])
    rounding = 1e-13 * np.abs([log_density_of(target, theta) for theta in points]).max()
    apart = float(np.ptp(differences))
    if not apart <= LARGEST_DIFFERENCE + rounding:
        raise IncompatibleError(
            f"bias: the log densities of the kernel's target {own!r} and of {target!r} differ by more than a constant, "
            f"by {apart:.3g} over {len(points)} draws (limit {LARGEST_DIFFERENCE:g}): they have different posteriors"
        )


def log_density_of(target: Target, theta: np.ndarray) -> float:
    """Return log prior + log-likelihood on all data at theta; -inf where the prior is 0."""
    if isinstance(target, DoublyIntractableTarget):
        return float(target.log_densities(theta[None])[0])
    compiled = target.compile()
    log_prior = float(compiled.log_prior(theta))
    if log_prior == -np.inf:
        return log_prior
    return log_prior + float(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum())
