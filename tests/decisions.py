"""Run one acceptance test many times on one pair of states."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb
from scipy import stats

from approxmcmc.contracts import (
    COUNT_NAMES,
    VALUE_NAMES,
    BoundedDifferencesTarget,
    BoundedTermsTarget,
    CompiledTermRange,
)
from approxmcmc.contracts.records import BLANK_VALUES, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import bind, compiled, entry_point, type_of
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.batches import batch_kernel
from approxmcmc.engine.terms.evidence import merge_differences, new_evidence
from approxmcmc.engine.terms.order import read_differences, rows_order
from approxmcmc.engine.terms.term_range import constant_range
from tests.planting import plain


@dataclasses.dataclass(frozen=True)
class Population(BoundedTermsTarget):
    """Stands in for a target: its terms are known, and so is their range."""

    terms: Any

    @property
    def n_obs(self):
        return len(self.terms)

    def compile_term_range(self):
        return CompiledTermRange(constant_range(), np.array([float(np.ptp(self.terms))]))


class Decisions(NamedTuple):
    """Decisions, acceptance probabilities, and numbers of terms read; shape (repeats,) each."""

    accepted: np.ndarray
    probability: np.ndarray
    read: np.ndarray


def scaled_term(theta, data, i):
    """Return theta times the i-th number: between theta = 0 and theta' = 1 the differences are the numbers."""
    (terms,) = data
    return terms[i] * theta[0]


def evidence_of(terms, places=None):
    """Return the evidence on a pair of states whose differences are `terms`, read in the order of `places` if given."""
    data, order = (np.ascontiguousarray(terms, dtype=np.float64),), rows_order(len(terms))
    order = order if places is None else order._replace(places=np.array(places))
    return new_evidence(batch_kernel(scaled_term, data), data, len(terms), np.zeros(1), np.ones(1), order)


def make_repetition(
    draw_threshold: Callable[..., float],
    decide: Callable[..., tuple[int, float]],
    probability: Callable[[float], float],
) -> Callable[..., None]:
    """Return the loop that runs a test once for each row of `out`."""

    def repetition(uniform, rng, evidence, log_rest, test, count, value, out):
        for r in range(out.shape[0]):
            count[:] = 0
            assign(value, BLANK_VALUES)
            decision, log_ratio = decide(rng, evidence, draw_threshold(uniform), log_rest, test, count, value)
            out[r, 0] = decision
            out[r, 1] = probability(log_ratio)
            out[r, 2] = count[TOUCHED]

    return repetition


@compiled
def zero(rng: np.random.Generator) -> float:
    """Return the threshold 0."""
    return 0.0


def repeat(test, terms, log_rest, repeats, seed) -> Decisions:
    """Run `test` `repeats` times on one pair of states, each time with a new random threshold of its rule."""
    uniform, rng = (np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(2))
    part = test.build_test(Population(terms))
    return _repeat(part, part.threshold, uniform, rng, terms, log_rest, repeats)


def ask(test, terms, mu_0, repeats, seed) -> Decisions:
    """Run `test` `repeats` times to decide whether the mean of `terms` exceeds `mu_0`."""
    rng, part = np.random.default_rng(seed), test.build_test(Population(np.asarray(terms, dtype=np.float64)))
    return _repeat(part, zero, rng, rng, terms, -len(terms) * mu_0, repeats)


def _repeat(part, draw_threshold, uniform, rng, terms, log_rest, repeats):
    out = np.empty((repeats, 3))
    count, value = np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES))
    arguments = (uniform, rng, evidence_of(terms), float(log_rest), part.make_state(), count, value, out)
    signature = nb.void(*(type_of(argument) for argument in arguments))
    parts = draw_threshold, part.decide, part.probability
    entry_point(bind(make_repetition, *parts, signature=signature), signature)(*arguments)
    return Decisions(*out.T)


def read_without_drawing(rng, evidence, start, stop, count):
    """Do what `read_differences` does, in the given order of places."""
    count[TOUCHED] += stop - start
    count[EVALUATIONS] += 2 * (stop - start)
    return plain(merge_differences)(evidence, evidence.order.places, start, stop)


def in_all_orders(test, terms, threshold, log_rest):
    """Yield (decision, log ratio, data read) for every order of the terms, by the library's own decision function."""
    part = test.build_test(Population(terms))
    decide = plain(part.decide, {read_differences: read_without_drawing})
    for places in itertools.permutations(range(len(terms))):
        count, value = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy()
        evidence = evidence_of(terms, places)
        decision, log_ratio = decide(None, evidence, threshold, log_rest, part.make_state(), count, value)
        yield decision, log_ratio, count[TOUCHED]


def decide_once(test, terms, threshold, log_rest, *, kept=None, outcome=None):
    """Return decision, log ratio, and the counts and values that one decision on the terms in memory order has written.

    `kept` is the log-likelihood at theta, for tests that cache it; `outcome`, if given, is what every reading returns.
    """
    part, said = test.build_test(Population(terms)), outcome
    read = read_without_drawing if said is None else lambda *arguments: said
    count, value, state = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy(), part.make_state()
    if kept is not None:
        part.keep_log_likelihood(state, kept)
    decide = plain(part.decide, {read_differences: read})
    found = decide(None, evidence_of(terms), threshold, log_rest, state, count, value)
    counted = {name: int(number) for name, number in zip(COUNT_NAMES, count, strict=True) if number}
    written = value != BLANK_VALUES
    written &= ~np.isnan(value)
    return *found, counted, {name: value[k] for k, name in enumerate(VALUE_NAMES) if written[k]}


def log_normal(n_obs: int, log_sd: float) -> np.ndarray:
    """Return the quantiles of a log-normal law: a population whose mean a sample without its tail underestimates."""
    return np.exp(log_sd * stats.norm.ppf((np.arange(n_obs) + 0.5) / n_obs))


def threshold(terms: np.ndarray, mu_std: float) -> float:
    """Return the mu_0 from which the mean of the terms has the standardised distance `mu_std`."""
    return float(terms.mean() - mu_std * terms.std() / np.sqrt(len(terms) - 1))


class WithBound(BoundedDifferencesTarget):
    """Stands in for a target of which a test uses only the bound of the differences."""

    def __init__(self, bound, n_obs):
        self.bound, self.n_obs = bound, n_obs

    def compile_difference_bound(self):
        """Return the bound."""
        return self.bound
