"""Audits of a finished chain: one step from a kept draw, looked at with all data.

    theta a kept draw,  theta' ~ q(theta, .) by the chain's own tuned proposal,
    l_i = log p(x_i|theta') - log p(x_i|theta),  Lambda = c + sum_i l_i,
    alpha = F(Lambda),  alpha^ = mean of F(Lambda^) over fresh orders of the data.

An audit needs theta alone, so that it is made after the chain, from any kept draw, and cannot touch what it judges. The
step is made by the chain's own compiled loop, from a state of its own that shares the tuned proposal. Subsets are drawn
by rows even where the chain reads blocks: its partition is one of many.

A sampler without a test has no alpha^, and need not have a q: a symmetric walk with the covariance of the draws takes
its place, and audits judge the draws alone.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.threshold import exact_probability, threshold_at
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledTarget, CompiledTest, Streams
from approxmcmc.engine.batches import full_terms, scale_of
from approxmcmc.engine.evidence import Evidence
from approxmcmc.engine.term_table import write_pair
from approxmcmc.samplers.replication import DECISIONS, ORDERS, Replicate

CLASSICAL_SCALE = 2.38  # over sqrt(dim): Roberts, Gelman and Gilks (1997)
DRAWS_OF_COVARIANCE = 512


class Judge(NamedTuple):
    """How a test is judged: rule and temperature, its replicates, and the table that they read."""

    rule: str
    temperature: float
    replicate: Replicate
    table: Evidence


class TestedSteps:
    """The audits of a chain whose test looks at the log ratio; see `Auditor`."""

    def __init__(
        self,
        target: CompiledTarget,
        test: CompiledTest,
        judge: Judge,
        step: Callable[..., int],
        state: Any,
        rng: np.random.Generator,
    ) -> None:
        self.target, self.test, self.judge, self.step, self.state, self.rng = target, test, judge, step, state, rng
        self.streams = Streams(rng, rng, rng, rng, rng)
        self.records = (
            np.empty((1, state.theta.size)),
            np.empty((1, len(COUNT_NAMES)), dtype=np.int64),
            np.empty((1, len(VALUE_NAMES))),
        )

    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit step `number` of the chain, from theta."""
        state = self.state if self.test.state_at is None else self.state._replace(test=self.test.state_at(number))
        state.theta[:] = theta
        state.log_prior[0] = self.target.log_prior(theta)
        if self.step(self.streams, state, 1, *self.records) < 1:
            return None
        energy_change, differences = compare(self.target, theta, state.proposed, self.judge.temperature)
        if math.isnan(energy_change):
            return None
        log_rest = float(state.log_rest[0])
        log_ratio = log_rest + float(differences.sum())
        thresholds, log_ratios = self.decide(theta, state, differences, log_rest)
        if np.isnan(log_ratios).any():
            return None
        exact = float(exact_probability(np.array(log_ratio), self.judge.rule))
        estimates = exact_probability(log_ratios, self.judge.rule)
        accepts, should = bool(thresholds[0] < log_ratios[0]), bool(thresholds[0] < log_ratio)
        tau = scale_of(differences)
        clear = (log_ratio - thresholds[0]) / tau if 0.0 < tau < math.inf else math.nan
        return {
            "decisions_audited": 1,
            "wrong_decisions": accepts != should,
            "wrong_accepts": accepts and not should,
            **({"audited_mu_std": clear} if "audited_mu_std" in self.test.records else {}),
            "audited_acceptance": exact,
            "audited_log_ratio": log_ratio,
            "audited_energy_change": energy_change,
            "audited_tau": tau,
            "audited_kurtosis": kurtosis_of(differences),
            "audit_acceptance_error": float(estimates.mean()) - exact,
            "audit_acceptance_noise": float(estimates.std(ddof=1)) / math.sqrt(estimates.size),
        }

    def decide(
        self, theta: np.ndarray, state: Any, differences: np.ndarray, log_rest: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return T(u) at stratified u's, and Lambda^ for each over an order of its own."""
        n = DECISIONS if self.test.threshold_form is None else ORDERS
        thresholds = threshold_at((self.rng.permutation(n) + self.rng.random(n)) / n, self.judge.rule)
        if log_rest == -math.inf:  # outside the support no test is asked
            return thresholds, np.full(n, -math.inf)
        write_pair(self.judge.table, theta, state.proposed, differences * self.judge.temperature)
        return thresholds, self.judge.replicate(self.rng, self.judge.table, log_rest, state.test, thresholds)


class WalkedSteps:
    """The audits of draws that no test has judged: steps of a symmetric random walk; see `Auditor`."""

    def __init__(self, target: CompiledTarget, draws: np.ndarray, rng: np.random.Generator) -> None:
        self.target, self.rng = target, rng
        some = draws[:: -(-len(draws) // DRAWS_OF_COVARIANCE) or 1]
        # z'(draws - mean) has the covariance of the draws, whatever its rank.
        scale = CLASSICAL_SCALE / math.sqrt(draws.shape[1] * max(len(some) - 1, 1))
        self.spread = scale * (some - some.mean(axis=0))

    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit a step from theta."""
        proposed = theta + self.rng.standard_normal(len(self.spread)) @ self.spread
        log_ratio, _ = compare(self.target, theta, proposed, 1.0)
        if math.isnan(log_ratio):
            return None
        return {
            "audited_acceptance": math.exp(min(log_ratio, 0.0)),
            "audited_log_ratio": log_ratio,
            "audited_energy_change": log_ratio,
        }


def compare(
    target: CompiledTarget, theta: np.ndarray, proposed: np.ndarray, temperature: float
) -> tuple[float, np.ndarray]:
    """Return log pi(theta') - log pi(theta) and the terms l_i over the temperature, shape (n_obs,).

    The change is -inf, and the terms are 0, where the prior is 0 at theta'; it is NaN where a log density is.
    """
    log_prior = target.log_prior(proposed)
    if log_prior == -math.inf:
        return log_prior, np.zeros(target.n_obs)
    here, there = (full_terms(target.log_terms, x, target.data, target.n_obs) for x in (theta, proposed))
    with np.errstate(invalid="ignore"):  # -inf at both is NaN, and no audit
        there -= here
    there /= temperature
    return float(log_prior - target.log_prior(theta) + there.sum()), there


def kurtosis_of(differences: np.ndarray) -> float:
    """Return N sum (l - mean)^4 / (sum (l - mean)^2)^2, 3 for the normal law; NaN where all terms are equal."""
    if not np.isfinite(differences).all():
        return math.inf
    squares = (differences - differences.mean()) ** 2
    total = float(squares.sum())
    return differences.size * float(squares @ squares) / total**2 if total > 0.0 else math.nan
