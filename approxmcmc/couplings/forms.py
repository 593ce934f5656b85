r"""The contribution of one audit to an estimate of a bias: a pair of states, a weight, and two exact chains.

With h an estimand, P exact, P^ the sampler's own kernel, pi^ its stationary distribution, g = sum_t (P^t h - pi(h)) and
coupled exact chains X, Y from x, y that meet at tau, g(x) - g(y) = E sum_{t < tau} [h(X_t) - h(Y_t)], and

    (A)  pi^(h) - pi(h) = E[(alpha^ - alpha) (g(theta') - g(theta))],    theta' proposed as the sampler does,
    (B)  pi^(h) - pi(h) = E[g(theta) - g(theta_1)],                      theta_1 one exact step from theta,

with theta ~ pi^, and alpha^ and alpha the acceptance probabilities of the sampler's test and on all data.

(A) needs the sampler's test, (B) only the draws. In (A) alpha^ is an average over orders of the data, with u integrated
out; if the run read blocks of one fixed partition, the orders come from this partition. A coupling is started with
probability min(1, abs(alpha^ - alpha) / c) for a constant c, and its sum is weighted by the inverse of this
probability.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.probability import exact_probability
from approxmcmc.couplings.kernels import ExactKernel, coupling_of
from approxmcmc.couplings.measure import Draws
from approxmcmc.couplings.meeting import Coupling, Meeting
from approxmcmc.engine.terms.batches import full_terms


class AuditRecord(NamedTuple):
    """The record of one audit; NaN where a value does not apply.

    `delta` is alpha^ - alpha, and `noise` its standard error; `wrong` is the probability that the test and all data
    decide differently. `log_ratio` is Lambda on all data, `energy_change` log pi(theta') - log pi(theta), `log_density`
    that at theta. `passes` counts evaluations of all terms. `weight` multiplies the sum over the coupled chains and is
    0 without a coupling; `meeting_time` is the number of terms of this sum, -1 without a coupling.
    """

    delta: float
    noise: float
    alpha: float
    alpha_hat: float
    wrong: float
    log_ratio: float
    energy_change: float
    log_density: float
    passes: float
    weight: float = 0.0
    meeting_time: int = -1
    met: bool = True


class AuditStreams(NamedTuple):
    """Random streams of the audits, which no chain uses: for proposals and orders, roulette, and coupled chains."""

    audit: np.random.Generator
    roulette: np.random.Generator
    coupling: np.random.Generator


Audit = tuple[AuditRecord, Meeting | None]


class AuditForm:
    """Form (A): repeat the sampler's steps, and compute their acceptance probabilities on all data and by the test.

    `auditors` (`TestedSteps`) and `couplings` hold one entry for each chain, with its tuned steps; `roulette` is c.
    """

    name = "audit"
    learns = True
    roulette = 0.0

    def __init__(
        self,
        target: Any,
        couplings: Sequence[Coupling],
        auditors: Sequence[Any],
        orders: int,
        max_steps: int,
    ) -> None:
        self.target = target.compile()
        self.couplings = couplings
        self.auditors = auditors
        self.coupling = couplings[0]
        self.orders = orders
        self.max_steps = max_steps

    def __call__(self, streams: AuditStreams, theta: np.ndarray, chain: int, number: int) -> Audit | None:
        """Audit step `number` of a chain, from theta; return its record, and the coupling if the roulette starts one.

        None if a log density was NaN.
        """
        step = self.auditors[chain].audit_at(theta, number, self.orders)
        if step is None:
            return None
        alpha = float(exact_probability(np.array(step.log_ratio), self.coupling.rule))
        each = exact_probability(step.log_ratios, self.coupling.rule)
        delta = float(each.mean()) - alpha
        noise = float(each.std(ddof=1)) / math.sqrt(each.size) if each.size > 1 else math.inf
        log_density = float(self.target.log_prior(theta)) + step.log_likelihood
        record = AuditRecord(
            delta=delta,
            noise=noise,
            alpha=alpha,
            alpha_hat=alpha + delta,
            wrong=float(np.abs(each - alpha).mean()),
            log_ratio=step.log_ratio,
            energy_change=step.energy_change,
            log_density=log_density,
            passes=2.0,
        )
        chance = min(1.0, abs(delta) / self.roulette) if self.roulette > 0.0 else float(delta != 0.0)
        if not streams.roulette.random() < chance:
            return record, None
        there = step.log_likelihood + float(step.terms.sum())
        meeting = self.couplings[chain].meet(
            streams.coupling, step.proposed, theta, 0, self.max_steps, log_likelihoods=(there, step.log_likelihood)
        )
        return _with(record, meeting, delta / chance), meeting

    def learn(self, records: Sequence[AuditRecord]) -> None:
        """Set the roulette's constant c to the root mean square of delta in the records of a pilot."""
        self.roulette = float(np.sqrt(np.mean(np.square([record.delta for record in records]))))


class DriftForm:
    """Form (B): make one exact step from a draw, and couple exact chains from the states before and after it."""

    name = "drift"
    learns = False
    roulette = math.nan

    def __init__(self, kernel: ExactKernel, coupling: Coupling, max_steps: int) -> None:
        self.coupling = coupling
        self.max_steps = max_steps
        self.target = kernel.target.compile() if coupling.knows_density else None

    def __call__(self, streams: AuditStreams, theta: np.ndarray, chain: int, number: int) -> Audit | None:
        """Couple two exact chains from theta, X one step ahead; return the record and the coupling.

        `chain` and `number` are not used.
        """
        log_likelihood = math.nan
        log_density = math.nan
        passes = 0.0
        if self.target is not None:
            terms = full_terms(self.target.log_terms, theta, self.target.data, self.target.n_obs)
            log_likelihood = float(terms.sum())
            passes = 1.0
            log_density = float(self.target.log_prior(theta)) + log_likelihood
        meeting = self.coupling.meet(
            streams.coupling, theta, theta, 1, self.max_steps + 1, log_likelihoods=(log_likelihood, log_likelihood)
        )
        alpha = float(exact_probability(np.array(meeting.first.log_ratio), self.coupling.rule))
        record = AuditRecord(math.nan, math.nan, alpha, math.nan, math.nan, *meeting.first, log_density, passes)
        return _with(record, meeting, -1.0), meeting

    def learn(self, records: Sequence[AuditRecord]) -> None:
        """Do nothing: every audit starts a coupling, without a roulette."""


def _with(record: AuditRecord, meeting: Meeting, weight: float) -> AuditRecord:
    """Return the record with passes, weight and meeting time of its coupling; without steps, the weight is 0."""
    steps = meeting.paths.shape[1]
    launched = weight if steps else 0.0
    return record._replace(
        passes=record.passes + meeting.passes, weight=launched, meeting_time=steps if steps else -1, met=meeting.met
    )


def audit_form(
    target: Any, sampler: Any, draws: Draws, rng: np.random.Generator, orders: int, max_steps: int
) -> AuditForm:
    """Return form (A) of a sampler for its draws.

    `rng` is the random stream of the audits, and `orders` the number of orders of the data for each acceptance
    probability.
    """
    program = sampler.build(target, audit_every="auto")
    coupled = {told: Coupling(sampler.coupling(target, dict(told))) for told in map(_as_key, draws.adapted)}
    auditors = [
        program.auditor_of(adapted, kept, rng, draws.shuffled_by)
        for adapted, kept in zip(draws.adapted, draws.theta, strict=True)
    ]
    couplings = [coupled[_as_key(adapted)] for adapted in draws.adapted]
    return AuditForm(target, couplings, auditors, orders, max_steps)


def _as_key(adapted: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(adapted.items()))


def drift_form(kernel: ExactKernel, max_steps: int) -> DriftForm:
    """Return form (B) for an exact kernel."""
    return DriftForm(kernel, coupling_of(kernel.target, kernel.sampler), max_steps)
