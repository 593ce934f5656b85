"""Samplers whose acceptance ratio, or drift, is estimated from random draws, which are auxiliary variables of the step.

The exchange algorithm, and noisy exchange, estimate the ratio of normalisers from auxiliary data at theta':

    log a = (theta' - theta)'s(y) + log p(theta')/p(theta) + log q ratio + log (1/N) sum_k exp((theta - theta')'s(y'_k))

with y'_k drawn from the model at theta'. With N = 1 and exact draws the chain leaves the posterior invariant (Murray,
Ghahramani and MacKay 2006); with N = infinity it would be Metropolis-Hastings, also exact; with other N it is biased
(Alquier, Friel, Everitt and Boland 2016, algorithms 6 and 7). The Langevin samplers are explained in `langevin`, those
with an estimate of the likelihood in `pseudo_marginal`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import (
    CompiledCoupling,
    Component,
    DoublyIntractableTarget,
    EstimatedTarget,
    ProposalSampler,
    Sampler,
    TransitionMatrix,
)
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.checks import checked_integer, cov_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.covariance import check_target_acceptance
from approxmcmc.samplers.auxiliary_variable.coupling import couple
from approxmcmc.samplers.auxiliary_variable.distribution import DrawsLaw, refuse_inexact_draws, transition_matrix
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    check_target,
    estimate_from_draws,
    make_estimate_from_fresh_draws,
    why_not_exact,
)
from approxmcmc.samplers.auxiliary_variable.langevin import (
    adapt_step,
    carry_drift_draws,
    make_drift,
    make_drift_and_return,
    no_estimate,
)
from approxmcmc.samplers.auxiliary_variable.program import (
    AuxiliaryProgram,
    estimated_program,
    exchange_program,
    langevin_program,
)
from approxmcmc.samplers.auxiliary_variable.pseudo_marginal import (
    make_estimate_against_kept,
    make_estimate_both,
    make_estimate_ratio,
)
from approxmcmc.samplers.auxiliary_variable.step import keep_nothing, make_step
from approxmcmc.samplers.checks import check_proposal, refuse_site
from approxmcmc.samplers.counted_model import counted_model
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings
from approxmcmc.samplers.metropolis_hastings.distribution import proposed
from approxmcmc.sampling.chain import adapt_nothing


@dataclasses.dataclass(frozen=True, eq=False)
class Exchange(Component, ProposalSampler):
    """The exchange algorithm, for p(theta) exp(theta's(y)) / Z(theta) without Z: auxiliary data are drawn at theta'.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`, or :class:`AdaptiveDirection` for a population of chains.
    n_auxiliary
        Number N of auxiliary draws in one decision: 1 is the exchange algorithm, more is noisy exchange.
    auxiliary
        How to draw: ``"exact"``, ``AuxiliaryChain(n_updates, start)`` (take the end of a Markov chain), or ``"auto"``:
        exact if the target has exact draws.

    Raises
    ------
    InvalidInputError
        When `n_auxiliary` is not a positive integer, or is 1 while `auxiliary` has a `thin`, which has no effect then.
    IncompatibleError
        When the target cannot simulate, or not in the way that `auxiliary` requires; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``n_auxiliary=1`` and exact draws. With draws from the end of a Markov chain it is biased by
    that chain's convergence error, at any N. With N > 1 it is biased even with exact draws: the one-step error is of
    order 1 / sqrt(N), but the bias is 0 at N = 1, largest at a few draws, and vanishes again as N grows.

    Records: ``auxiliary_updates`` counts sites or dyads visited. The observed data count as one datum, read whole by
    each decision. If the target knows its normaliser, audits compare with the exact ratio at the same theta' and u. The
    differences that audits count are noise, not bias: the exact sampler, N = 1, has the most differences.

    References
    ----------
    Murray, Ghahramani and MacKay (2006); Alquier, Friel, Everitt and Boland (2016), section 3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Exchange(amc.RandomWalk(0.2), n_auxiliary=50).n_auxiliary
    50
    """

    proposal: Any
    n_auxiliary: int = 1
    auxiliary: Any = "auto"

    scope: ClassVar[Mapping[str, str]] = {"coupling": "on doubly intractable targets"}

    def __post_init__(self) -> None:
        """Raise unless `proposal` is a `Proposal` and the number of draws is positive."""
        check_proposal(self.proposal)
        object.__setattr__(self, "n_auxiliary", checked_integer(self.n_auxiliary, "n_auxiliary"))
        check_thin(self)

    @names_itself()
    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> AuxiliaryProgram:
        """Check that target and proposal fit, compile them, and return the program that starts chains."""
        return exchange_program(target, self.proposal, self.auxiliary, self.n_auxiliary, audit_every)

    @names_itself()
    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason if the ratio of normalisers has an error; "" otherwise."""
        if self.n_auxiliary > 1:
            return f"{self!r} averages auxiliary draws: the error of one step is of order 1 / sqrt({self.n_auxiliary})"
        return why_not_exact(target, self.auxiliary)

    def exact_twin(self, target: DoublyIntractableTarget) -> "Exchange":
        """Return the sampler with one exact draw."""
        return dataclasses.replace(self, n_auxiliary=1, auxiliary="exact")

    def coupling(self, target: DoublyIntractableTarget, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return the coupling of two exact exchange chains that share auxiliary data if they propose the same point."""
        if not isinstance(target, DoublyIntractableTarget):
            return super().coupling(target, adapted)
        return couple(target, self.proposal)

    def why_no_audits(self, target: DoublyIntractableTarget, adapted: Sequence[Mapping[str, float]]) -> str:
        """Return the reason: there is no decision on all data to compare with."""
        return "its ratio is redrawn in every decision, and no decision on all data replaces it"

    @names_itself()
    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix on a grid, from the distribution of the statistics; `method` is ignored."""
        refuse_site(site)
        return transition_matrix(self.draws_law(target, states))

    @names_itself()
    def draws_law(self, target: Any, states: np.ndarray) -> DrawsLaw:
        """Return the distribution of the draws that estimate the ratio, and the proposal probabilities."""
        check_target(target)
        refuse_inexact_draws(self)
        return DrawsLaw(counted_model(target, states), self.n_auxiliary, proposed(self.proposal, target, states))

    def exact_limit(self, target: Any) -> MetropolisHastings:
        """Return Metropolis-Hastings with the exact ratio, N = infinity."""
        return MetropolisHastings(self.proposal, ExactTest())


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyLangevin(Component, Sampler):
    """Noisy Langevin (NL): unadjusted Langevin steps with a gradient estimated from auxiliary data.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    n_auxiliary
        Auxiliary draws N at theta; their mean statistic replaces grad log Z(theta).
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
    Guarantee: biased. As the step size tends to 0 and N to infinity the stationary distribution tends to the posterior;
    the error of one step's drift has a standard deviation of Sigma/2 sd(s) / sqrt(N). The chain does not make steps out
    of the support of the prior. The gradient of the log prior is a central difference, one-sided at the edge of the
    support.

    Records: ``decisions_made`` is 0, ``gradient_evaluations`` 1 per step: the data count as one datum.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), section 3.4, algorithm 8.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.NoisyLangevin(step_size=0.5, n_auxiliary=100).step_size
    0.5
    """

    step_size: float
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    target_acceptance = None  # not a setting: there is no acceptance

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "steps add normal noise to an estimated drift, and are not tested",
        "coupling": "steps are not tested, so no coupling of it is exact",
    }

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)

    @names_itself()
    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> AuxiliaryProgram:
        """Check and compile the pairing; return the program of chains that accept every step in the support."""
        return langevin_program(
            target,
            lambda simulate: make_step(make_drift(simulate), no_estimate, keep_nothing, adapt_nothing, False),
            self,
            fresh_for_ratio=False,
            decides=False,
            audit_every=None,
        )

    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason: steps are not tested."""
        return f"{self!r} does not test its steps; the bias vanishes as step_size tends to 0 and n_auxiliary grows"

    def draws_law(self, target: Any, states: np.ndarray) -> DrawsLaw:
        """Return the distribution of the draws that estimate the drift, and the variance of a step's noise.

        For targets with one parameter, on the grid `states`.
        """
        refuse_inexact_draws(self)
        variance = self.step_size * (1.0 if self.cov is None else self.cov.item())
        return DrawsLaw(counted_model(target, states), self.n_auxiliary, variance)


@dataclasses.dataclass(frozen=True, eq=False)
class MALAExchange(Component, Sampler):
    """Langevin steps with an estimated gradient and an exchange test: exact, or noisy.

    Parameters
    ----------
    step_size
        Variance alpha of the noise, in the units of `cov`: Sigma = step_size * cov.
    noisy
        False: the ratio is estimated from a separate draw. True: it is estimated from the N draws for the drift at
        theta', which saves a draw and makes the chain biased.
    n_auxiliary
        Number N of auxiliary draws for each drift.
    cov, auxiliary
        As for :class:`NoisyLangevin`.
    refresh
        True: redraw the auxiliary draws for the drift at theta in each step. False: keep them from the step that led to
        theta, which halves the cost and keeps the chain exact. Kept draws that mislead the drift do so until the chain
        moves: look for long stays at one point.
    target_acceptance
        Target acceptance rate in (0, 1). Tuning adapts the step size to reach this rate; afterwards the step size is
        fixed. None: the step size is used as given.

    Raises
    ------
    InvalidInputError
        When a number is out of range or `cov` is not symmetric positive definite.
    IncompatibleError
        When the target cannot simulate, or `cov` has another size; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``noisy=False`` and exact auxiliary draws; biased otherwise. The draw for the ratio comes from
    its own simulation, even if `auxiliary` continues one Markov chain from draw to draw.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), sections 3.5 and 3.6. Algorithm 9 does not say which draw the ratio uses;
    see the module for why it must be a separate one.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.MALAExchange(step_size=0.5, noisy=True, n_auxiliary=50).noisy
    True
    """

    step_size: float
    noisy: bool = False
    n_auxiliary: int = 100
    cov: Any = None
    auxiliary: Any = "auto"
    refresh: bool = False
    target_acceptance: float | None = None

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the next step depends on the auxiliary draws that estimate the drift, too",
        "coupling": "two chains would have to share the auxiliary draws that estimate their drifts, too",
    }

    def __post_init__(self) -> None:
        """Check ranges and the matrix."""
        check_steps(self)
        check_target_acceptance(self.target_acceptance)

    @names_itself()
    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> AuxiliaryProgram:
        """Check the pairing, compile it, and return the program that starts chains."""

        def step(simulate: Callable[..., None]) -> Callable[..., int]:
            return make_step(
                make_drift_and_return(simulate, self.refresh),
                estimate_from_draws if self.noisy else make_estimate_from_fresh_draws(simulate),
                keep_nothing if self.refresh else carry_drift_draws,
                adapt_nothing if self.target_acceptance is None else adapt_step,
                True,
            )

        return langevin_program(
            target, step, self, fresh_for_ratio=not self.noisy, decides=True, audit_every=audit_every
        )

    @names_itself()
    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason if the ratio of normalisers has an error; "" otherwise."""
        if self.noisy:
            return f"{self!r} uses the drift's draws for the ratio, too; the bias vanishes as n_auxiliary grows"
        return why_not_exact(target, self.auxiliary)


@dataclasses.dataclass(frozen=True, eq=False)
class PseudoMarginal(Component, ProposalSampler):
    """Metropolis-Hastings with an unbiased estimate of the likelihood in place of the likelihood: GIMH or MCWM.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`.
    refresh
        False: keep the estimate at theta from the step that led there (GIMH). True: redraw it in each step (MCWM).

    Raises
    ------
    IncompatibleError
        When the target is not an :class:`approxmcmc.targets.EstimatedLikelihood`; raised before anything runs.

    Notes
    -----
    Guarantee: with ``refresh=False`` exact, whatever the variance of an unbiased estimate; with a large variance the
    chain sticks at states with a high estimate. A standard deviation of log p^ near 1 is a good compromise (Doucet et
    al. 2015). With ``refresh=True`` biased; the bias vanishes with the variance of the estimate. A proposal with an
    estimate of 0 is rejected.

    Records: `datapoints_touched` and `likelihood_evaluations` count the target's `n_terms` for each estimate. If the
    target knows its likelihood, audits compare with the exact decision at the same theta' and u; the differences are
    noise, not bias.

    References
    ----------
    Beaumont (2003); Andrieu and Roberts (2009); Alquier, Friel, Everitt and Boland (2016), section 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.PseudoMarginal(amc.RandomWalk(0.5)).refresh
    False
    """

    proposal: Any
    refresh: bool = False

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the distribution of the user's estimate is unknown",
        "coupling": "two chains would have to share the user's estimates, too",
    }

    def __post_init__(self) -> None:
        """Raise unless `proposal` is a `Proposal`."""
        check_proposal(self.proposal)

    @names_itself()
    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> AuxiliaryProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        make_estimate = make_estimate_both if self.refresh else make_estimate_against_kept
        return estimated_program(
            target,
            self.proposal,
            make_estimate,
            of="likelihood",
            keeps=not self.refresh,
            audit_every=audit_every,
        )

    def why_not_invariant(self, target: EstimatedTarget) -> str:
        """Return the reason if the estimate at theta is redrawn; "" otherwise."""
        return f"{self!r} draws the estimate at theta anew; the bias vanishes with its variance" if self.refresh else ""


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyMetropolisHastings(Component, ProposalSampler):
    """Metropolis-Hastings with a random estimate of the likelihood ratio, redrawn in each step.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`.

    Raises
    ------
    IncompatibleError
        When the target is not an :class:`approxmcmc.targets.EstimatedRatio`; raised before anything runs.

    Notes
    -----
    Guarantee: biased in general, even if the estimate is unbiased; exact if the estimate is the ratio itself. If the
    target knows its likelihood, audits compare with the exact decision at the same theta' and u.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), algorithm 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> def estimate(rng, theta, proposed, data):
    ...     return 0.5 * (theta[0] ** 2 - proposed[0] ** 2) + 0.1 * rng.standard_normal()
    >>> target = amc.targets.EstimatedRatio(estimate, lambda theta: 0.0, dim=1)
    >>> sampler = amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0))
    >>> trace = amc.sample(target, sampler, draws=100, chains=1, random_seed=1, progressbar=False)
    >>> trace.posterior.sizes["draw"]
    100
    """

    proposal: Any

    scope: ClassVar[Mapping[str, str]] = {
        "transition_matrix": "the distribution of the user's estimate is unknown",
        "coupling": "two chains would have to share the user's estimates, too",
    }

    def __post_init__(self) -> None:
        """Raise unless `proposal` is a `Proposal`."""
        check_proposal(self.proposal)

    @names_itself()
    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> AuxiliaryProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        return estimated_program(
            target,
            self.proposal,
            make_estimate_ratio,
            of="ratio",
            keeps=False,
            audit_every=audit_every,
        )

    def why_not_invariant(self, target: EstimatedTarget) -> str:
        """Return the reason: the likelihood ratio is estimated."""
        return "the ratio of likelihoods is estimated anew in each step; the bias vanishes with the estimate's variance"


def check_thin(sampler: Any) -> None:
    """Raise if the setting `thin` of a sampler's auxiliary chains has no effect, because it makes one draw at a theta.

    Raises
    ------
    InvalidInputError
        When `n_auxiliary` is 1 and `thin` is given.
    """
    thin = getattr(sampler.auxiliary, "thin", None)
    if sampler.n_auxiliary == 1 and thin is not None:
        raise InvalidInputError(
            f"{speaker()}: thin={thin!r} of the auxiliary chain has no effect with n_auxiliary=1, because it separates "
            "draws at one theta; leave it out, or raise n_auxiliary"
        )


def check_steps(sampler: Any) -> None:
    """Check the settings shared by the Langevin samplers, and put them in standard form."""
    if not (np.ndim(sampler.step_size) == 0 and 0.0 < sampler.step_size < math.inf):
        raise InvalidInputError(f"{speaker()}: step_size must be positive and finite, found {sampler.step_size!r}")
    object.__setattr__(sampler, "step_size", float(sampler.step_size))
    object.__setattr__(sampler, "n_auxiliary", checked_integer(sampler.n_auxiliary, "n_auxiliary"))
    object.__setattr__(sampler, "cov", _checked_covariance(sampler.cov))
    check_thin(sampler)


def _checked_covariance(cov: Any) -> Any:
    """Return None, or the symmetric positive definite matrix that an array or an object with `cov` holds."""
    if cov is None:
        return None
    matrix = cov_of(cov)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    if not square or not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        raise InvalidInputError(f"{speaker()}: cov must be a finite symmetric matrix, found shape {matrix.shape}")
    least = np.linalg.eigvalsh(matrix)[0]
    if least <= 0.0:
        raise InvalidInputError(f"{speaker()}: cov must be positive definite, its least eigenvalue is {least:.3g}")
    return matrix
