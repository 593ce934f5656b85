"""Audits of a finished chain: one step from a kept draw, evaluated with all data.

    theta a kept draw,  theta' ~ q(theta, .) by the chain's own tuned proposal,
    l_i = log p(x_i|theta') - log p(x_i|theta),  Lambda = c + sum_i l_i,
    alpha = F(Lambda),  alpha^ = mean of F(Lambda^) over fresh orders of the data,

c the log ratio of prior and proposal, F and Lambda^ as in `replication`.

An audit only needs theta, so it is made after the chain, from any kept draw, and does not change the chain. The chain's
compiled step proposes theta', in a separate state with the tuned values. Each audit draws new orders of the data. If
the chains read blocks of one partition of the rows, orders come from that partition, because it contributes to the
error. Copies that are shuffled again during a run have the distribution of new orders.

If a pass takes long, an audit reads a random sixteenth of the rows instead, m of them, and repeats these N / m times.
Test and exact decision see the same N terms, so the test's error is that on all rows to first order, and Lambda has the
standard error sqrt(N / m) tau, tau = sqrt(N) times the standard deviation of the l_i. Neither this nor a term that is
missing or repeated may change Lambda by more than 0.02; audits of all rows come first and show whether that is so.

A sampler without a test has no alpha^, and may have no q: a symmetric walk with the covariance of the draws replaces
it, and audits only check the draws.
"""

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.probability import exact_probability, threshold_at
from approxmcmc.acceptance.metropolis import log_ratio_of
from approxmcmc.audits.replication import DECISIONS, ORDERS, Replicate
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Auditor, CompiledTest, Streams
from approxmcmc.engine.compiler.compile import as_python
from approxmcmc.engine.terms.batches import scale_of
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.term_table import Partition, some_rows, write_pair
from approxmcmc.sampling.chain import Loop, new_draw
from approxmcmc.targets.all_rows import AllRows

FEW_ROWS = 16  # audits may read one row in 16
LARGEST_NOISE = 0.02  # nats: largest standard error of Lambda from few rows, and largest change of it by one row
CLASSICAL_SCALE = 2.38  # over sqrt(dim): Roberts, Gelman and Gilks (1997)
DRAWS_OF_COVARIANCE = 512


class Judge(NamedTuple):
    """Settings to audit a test.

    Its rule ("metropolis" or "barker") and temperature, the function that repeats its decision (`compile_replicate`),
    and the table of terms that this function reads.
    """

    rule: str
    temperature: float
    replicate: Replicate
    table: Evidence


class AuditedStep(NamedTuple):
    """A step evaluated with all data.

    theta', log pi(theta') - log pi(theta), Lambda, the terms l_i, shape (n_obs,), and the log-likelihood at theta, NaN
    if it was not evaluated; the test's thresholds T(u), and for each of them Lambda^ over a separate order of the data.
    """

    proposed: np.ndarray
    energy_change: float
    log_ratio: float
    terms: np.ndarray
    log_likelihood: float
    thresholds: np.ndarray
    log_ratios: np.ndarray


class TestedSteps(Auditor):
    """The audits of a chain with a test of the log ratio; they are made one at a time, and keep all terms."""

    def __init__(
        self,
        rows: AllRows,
        test: CompiledTest,
        judge: Judge,
        loop: Loop,
        refresh: Callable[[Any], None],
        state: Any,
        rng: np.random.Generator,
        partition: Partition | None = None,
    ) -> None:
        self.rows = rows
        self.test = test
        self.judge = judge
        self.loop = loop
        self.state = state
        self.rng = rng
        self.refresh = refresh
        self.partition = partition
        self.reads_few = False
        self.clear = True

    @functools.cached_property
    def step(self) -> Callable[..., int]:
        """The loop of the chain that proposes."""
        rng = self.rng
        return self.loop.of_chain(Streams(rng, rng, rng, rng, rng), self.state, new_draw())

    @property
    def share(self) -> float:
        """Share of the rows that an audit reads: 1, or 1 / 16 for audits of few rows (all, if few are not enough)."""
        return 1.0 / FEW_ROWS if self.reads_few else 1.0

    def on_few_rows(self) -> Auditor:
        """Return an auditor of a sixteenth of the rows if the audits so far show that this is enough, else this one."""
        if self.rows.parts is not None or not self.clear:
            return self
        few = copy.copy(self)
        few.reads_few = True
        return few

    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit step `number` of the chain, from theta; return the records by name, None if a log density is NaN."""
        step = self.audit_at(theta, number)
        if step is None:
            return None
        self.clear &= self.few_rows_tell(step.terms)
        return {
            **self.of_the_pair(step.energy_change, step.log_ratio, step.terms),
            **self.of_the_test(step.log_ratio, step.thresholds, step.log_ratios, scale_of(step.terms)),
        }

    def few_rows_tell(self, terms: np.ndarray) -> bool:
        """Return whether a sixteenth of the rows is enough, judged by `terms`.

        True if Lambda then has a standard error of at most 0.02, and no single term changes Lambda by more than 0.02.
        """
        noise = math.sqrt(FEW_ROWS) * scale_of(terms)
        return noise <= LARGEST_NOISE and FEW_ROWS * float(np.ptp(terms)) <= LARGEST_NOISE

    def audit_at(self, theta: np.ndarray, number: int, orders: int = ORDERS) -> AuditedStep | None:
        """Propose from theta as the chain does; evaluate the proposal with all data, and repeat the test.

        The test has its settings of step `number` and decides on `orders` orders of the data. None if a log density is
        NaN, or +inf at the proposal.
        """
        proposal = self.propose(theta)
        if proposal is None:
            return None
        proposed, log_q_ratio = proposal
        log_prior_ratio, terms, total, at_theta = self.compare(theta, proposed)
        log_rest = as_python(log_ratio_of)(log_q_ratio, 0.0, log_prior_ratio)
        if not log_rest + total < math.inf:
            return None
        thresholds, log_ratios = self.decide(theta, proposed, terms, log_rest, number, orders)
        if np.isnan(log_ratios).any():
            return None
        return AuditedStep(
            proposed.copy(), log_prior_ratio + total, log_rest + total, terms, at_theta, thresholds, log_ratios
        )

    def compare(self, theta: np.ndarray, proposed: np.ndarray) -> tuple[float, np.ndarray, float, float]:
        """Return the result of the function `compare`, from few rows if `reads_few` and these are enough, else all."""
        if self.reads_few:
            n_obs = self.rows.compiled.n_obs
            sampled_rows = some_rows(self.rng, n_obs, math.ceil(n_obs / FEW_ROWS), self.partition)
            log_prior_ratio, terms, total, at_theta = compare(
                self.rows, theta, proposed, self.judge.temperature, sampled_rows
            )
            if self.few_rows_tell(terms):
                if self.partition is not None:  # put each term at its row's place in the partition
                    terms[self.partition.rows] = terms.copy()
                return log_prior_ratio, terms, total, at_theta
        return compare(self.rows, theta, proposed, self.judge.temperature)

    def propose(self, theta: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Return theta' and log q(theta|theta') - log q(theta'|theta); None if the proposal has no valid density."""
        state = self.state
        state.theta[:] = theta
        self.refresh(state.proposal)  # the velocity at a draw is not stored: draw a new one
        state.log_prior[0] = math.inf  # with this value the step rejects theta' without a test
        draws = np.empty((1, theta.size))
        counts = np.empty((1, len(COUNT_NAMES)), dtype=np.int64)
        values = np.empty((1, len(VALUE_NAMES)))
        steps_made = self.step(1, 1, draws, counts, values)
        return (state.proposed, float(state.log_q_ratio[0])) if steps_made else None

    def decide(
        self, theta: np.ndarray, proposed: np.ndarray, terms: np.ndarray, log_rest: float, number: int, orders: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return T(u) at stratified values of u, and for each of them Lambda^ over a separate order of the data."""
        test = self.test
        table = self.judge.table
        n = orders * (DECISIONS // ORDERS) if test.threshold_form is None else orders
        thresholds = threshold_at((self.rng.permutation(n) + self.rng.random(n)) / n, self.judge.rule)
        if log_rest == -math.inf:  # outside the support no test is used
            return thresholds, np.full(n, -math.inf)
        terms = terms * self.judge.temperature
        begins = np.arange(n) * (table.n_obs // n or 1) % table.n_obs
        if self.partition is not None:
            terms, begins = self.partition.windows(self.rng, terms, n)
        write_pair(table, theta, proposed, terms, shuffled=self.partition is not None)
        state = self.state.test if test.state_at is None else test.state_at(number)
        return thresholds, self.judge.replicate(self.rng, table, log_rest, state, thresholds, begins)

    def of_the_pair(self, energy_change: float, log_ratio: float, terms: np.ndarray) -> Mapping[str, float]:
        """Return the records that need no test: alpha, Lambda, the energy change, the terms' scale tau and kurtosis."""
        return {
            "audited_acceptance": float(exact_probability(np.array(log_ratio), self.judge.rule)),
            "audited_log_ratio": log_ratio,
            "audited_energy_change": energy_change,
            "audited_tau": scale_of(terms),
            "audited_kurtosis": kurtosis_of(terms),
        }

    def of_the_test(
        self, log_ratio: float, thresholds: np.ndarray, log_ratios: np.ndarray, tau: float
    ) -> Mapping[str, float]:
        """Return the test's records.

        They are: whether its decision at the first threshold is wrong, and the error of alpha^ with its standard error.
        """
        accepts = bool(thresholds[0] < log_ratios[0])
        should = bool(thresholds[0] < log_ratio)
        errors = exact_probability(log_ratios, self.judge.rule) - exact_probability(
            np.array(log_ratio), self.judge.rule
        )
        clear = (log_ratio - thresholds[0]) / tau if 0.0 < tau < math.inf else math.nan
        return {
            "decisions_audited": 1,
            "wrong_decisions": accepts != should,
            "wrong_accepts": accepts and not should,
            **({"audited_mu_std": clear} if "audited_mu_std" in self.test.records else {}),
            "audit_acceptance_error": float(errors.mean()),
            "audit_acceptance_noise": float(errors.std(ddof=1)) / math.sqrt(errors.size),
        }


class WalkedSteps(Auditor):
    """The audits of draws without a test: steps of a symmetric random walk."""

    def __init__(self, rows: AllRows, draws: np.ndarray, rng: np.random.Generator) -> None:
        self.rows = rows
        self.rng = rng
        thinned = draws[:: math.ceil(len(draws) / DRAWS_OF_COVARIANCE)]
        # With z standard normal, z'(draws - mean) / sqrt(n - 1) has the covariance of the n draws, for any rank.
        scale = CLASSICAL_SCALE / math.sqrt(draws.shape[1] * max(len(thinned) - 1, 1))
        self.spread = scale * (thinned - thinned.mean(axis=0))

    def __call__(self, theta: np.ndarray, number: int) -> Mapping[str, float] | None:
        """Audit a step from theta; None if Lambda is NaN or +inf. `number` is not used."""
        [records] = self.of_many(theta[None], np.array([number]))
        return records

    @property
    def at_once(self) -> int:
        """Number of audits that one pass over the data should serve."""
        return self.rows.at_once

    def of_many(self, thetas: np.ndarray, numbers: np.ndarray) -> Sequence[Mapping[str, float] | None]:
        """Audit a step from each of `thetas` (k, dim), in one pass over the data; `numbers` is not used.

        The result of a step is None if its Lambda is NaN or +inf.
        """
        proposed = np.array([theta + self.rng.standard_normal(len(self.spread)) @ self.spread for theta in thetas])
        return [of_a_walk(log_ratio) for log_ratio in self.rows.log_ratios(thetas, proposed).tolist()]


def of_a_walk(log_ratio: float) -> Mapping[str, float] | None:
    """Return the records of a symmetric step with this Lambda; None if Lambda is NaN or +inf."""
    if not log_ratio < math.inf:
        return None
    return {
        "audited_acceptance": math.exp(min(log_ratio, 0.0)),
        "audited_log_ratio": log_ratio,
        "audited_energy_change": log_ratio,
    }


def compare(
    rows: AllRows, theta: np.ndarray, proposed: np.ndarray, temperature: float, subset: np.ndarray | None = None
) -> tuple[float, np.ndarray, float, float]:
    """Compare the log densities at theta' and theta; return four results.

    They are log p(theta') - log p(theta); the terms l_i divided by the temperature, shape (n_obs,); the sum of these;
    and the log-likelihood at theta. The terms of the rows `subset`, if given, stand for all. If theta' has prior
    density 0, nothing is evaluated: the first is -inf, the terms and their sum are 0, and the last is NaN. A sum that
    is NaN or +inf shows that the target has no valid density at one of the two.
    """
    target = rows.compiled
    log_prior = target.log_prior(proposed)
    if log_prior == -math.inf:
        return log_prior, np.zeros(target.n_obs), 0.0, math.nan
    terms, at_theta = rows.differences(theta, proposed, subset)
    terms /= temperature
    with np.errstate(invalid="ignore"):  # +inf and -inf add up to NaN; such a step is not audited
        total = float(terms.sum())
    return float(log_prior - target.log_prior(theta)), terms, total, at_theta


def kurtosis_of(differences: np.ndarray) -> float:
    """Return N sum (l - mean)^4 / (sum (l - mean)^2)^2, about 3 for normal terms.

    NaN if all terms are equal, inf if a term is not finite.
    """
    if not np.isfinite(differences).all():
        return math.inf
    squares = (differences - differences.mean()) ** 2
    total = float(squares.sum())
    return differences.size * float(squares @ squares) / total**2 if total > 0.0 else math.nan
