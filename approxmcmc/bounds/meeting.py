"""Two lagged chains that meet: how far X runs ahead of Y, how both move together, and when they are first equal.

Both chains make the sampler's own steps, with the exact test. What couples them is drawn before: one u for both, and
proposals, or a site, that belong together.

Each function here returns what makes one coupling, ``meet(rng, x, y) -> tau``: the meeting time in steps of X, which
runs `lag` steps ahead; -1 if the two have not met after `max_steps` steps.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.exact import keep_log_likelihood
from approxmcmc.acceptance.rules import RULES, logit_uniform
from approxmcmc.bounds.transition import walk_covariance
from approxmcmc.contracts import CompiledProposal, CompiledTarget, DiscreteTarget, Streams
from approxmcmc.contracts.records import BLANK_VALUES, COUNT_NAMES
from approxmcmc.engine.batches import full_terms
from approxmcmc.engine.checks import show
from approxmcmc.engine.compile import bind, compiled, entry_point, type_of
from approxmcmc.engine.evidence import new_evidence
from approxmcmc.engine.identity import cached_by_content
from approxmcmc.engine.order import rows_order
from approxmcmc.engine.vectors import equal
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.samplers import Gibbs, MetropolisHastings
from approxmcmc.samplers.chain import FAILED, STAYED, new_clock
from approxmcmc.samplers.gibbs.gibbs import build_tests
from approxmcmc.samplers.gibbs.sweep import SCANS, GibbsState, draw_by_terms, new_state
from approxmcmc.samplers.metropolis_hastings_step import MetropolisHastingsState, metropolis_hastings_step

Meet = Callable[[np.random.Generator, np.ndarray, np.ndarray], int]

NOT_MET, BROKE_OFF = -1, -2


class Couple(NamedTuple):
    """The states of the chains X and Y, what draws for both, and what their steps book.

    `streams` are those of the steps. In the place of the uniforms they hold `threshold`, one number, drawn for both.
    """

    chains: tuple[Any, Any]
    streams: Streams
    threshold: np.ndarray
    counts: np.ndarray
    values: np.ndarray


class CoupledWalks(NamedTuple):
    """The Cholesky factor L of the covariance of the steps, its inverse, and scratch; (dim, dim) and (dim,)."""

    lower: np.ndarray
    inverse: np.ndarray
    xi: np.ndarray
    z: np.ndarray


class NoState(NamedTuple):
    """The state of what has none."""


@compiled
def given_threshold(drawn: np.ndarray) -> float:
    """Return the threshold that both chains use."""
    return drawn[0]


@compiled
def propose_as_given(
    rng: np.random.Generator, state: NoState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Leave theta' as it was drawn for both chains; the walk is symmetric."""
    return 0.0


@compiled
def propose_together(
    rng: np.random.Generator,
    walks: CoupledWalks,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    coupled: bool,
) -> None:
    """Draw x' = x + L xi, and y' = x' where the maximal coupling allows it, else y' with xi reflected."""
    lower, inverse, xi, z = walks.lower, walks.inverse, walks.xi, walks.z
    dim = x.shape[0]
    for j in range(dim):
        xi[j] = rng.standard_normal()
    square = change = 0.0
    for i in range(dim):
        x_new[i] = x[i]
        z[i] = 0.0
        for j in range(i + 1):
            x_new[i] += lower[i, j] * xi[j]
            z[i] += inverse[i, j] * (x[j] - y[j])
        square += z[i] * z[i]
        change += xi[i] * z[i]
    same = coupled and math.log(1.0 - rng.random()) <= -change - 0.5 * square
    for i in range(dim):
        y_new[i] = x_new[i] if same else y[i]
    if coupled and not same:
        for j in range(dim):  # reflect: xi - 2 (e'xi) e with e = z / |z|
            xi[j] -= 2.0 * change / square * z[j]
        for i in range(dim):
            for j in range(i + 1):
                y_new[i] += lower[i, j] * xi[j]


@cached_by_content(maxsize=64)
def make_walks(draw_threshold: Callable[..., float], step: Callable[..., int]) -> Callable[..., int]:
    """Return one step of two random walks: proposals drawn together, one threshold."""

    def walk(rng: np.random.Generator, couple: Couple, walks: CoupledWalks, n_chains: int) -> int:
        x, y = couple.chains
        propose_together(rng, walks, x.theta, y.theta, x.proposed, y.proposed, n_chains == 2)
        couple.threshold[0] = draw_threshold(rng)
        for k in range(n_chains):
            if step(couple.streams, couple.chains[k], couple.counts, couple.values) == FAILED:
                return FAILED
        return STAYED

    return compiled(walk)


@cached_by_content(maxsize=64)
def make_sweeps(
    next_site: Callable[..., int], draw_threshold: Callable[..., float], draw: Callable[..., int]
) -> Callable[..., int]:
    """Return one sweep of two Gibbs samplers: the same sites, a threshold for each."""

    def sweep(rng: np.random.Generator, couple: Couple, nothing: NoState, n_chains: int) -> int:
        n_sites = couple.chains[0].theta.shape[0]
        for place in range(n_sites):
            site = next_site(rng, place, n_sites)
            couple.threshold[0] = draw_threshold(rng)
            for k in range(n_chains):
                if draw(couple.streams, couple.chains[k], site, couple.counts, couple.values) == FAILED:
                    return FAILED
        return STAYED

    return compiled(sweep)


def make_meeting(move: Callable[..., int]) -> Callable[..., int]:
    """Return the loop that moves both chains until they meet; BROKE_OFF where a log density was NaN."""

    def meeting_time(rng: np.random.Generator, couple: Couple, shared: Any, lag: int, max_steps: int) -> int:
        x, y = couple.chains
        for t in range(1, max_steps + 1):
            if move(rng, couple, shared, 2 if t > lag else 1) == FAILED:
                return BROKE_OFF
            if t >= lag and equal(x.theta, y.theta):
                return t
        return NOT_MET

    return meeting_time


def _compile_meeting(
    move: Callable[..., int],
    start: Callable[[np.ndarray], Any],
    shared: Any,
    point: np.ndarray,
    lag: int,
    max_steps: int,
) -> Meet:
    """Return what makes one coupling of two chains: ``start(theta)`` makes the state of each."""

    def couple_at(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> Couple:
        threshold: Any = np.zeros(1)
        streams = Streams(proposal=rng, uniform=threshold, order=rng, audit=rng, start=rng)
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        return Couple((start(x), start(y)), streams, threshold, counts, BLANK_VALUES.copy())

    rng = np.random.default_rng(0)
    couple_type = type_of(couple_at(rng, point, point))
    signature = nb.int64(type_of(rng), couple_type, type_of(shared), nb.int64, nb.int64)
    meeting_time = entry_point(bind(make_meeting, move, signature=signature), signature)

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        couple = couple_at(rng, x, y)
        found = int(meeting_time(rng, couple, shared, lag, max_steps))
        if found == BROKE_OFF:
            steps = " or ".join(f"from {show(chain.theta)} to {show(chain.proposed)}" for chain in couple.chains)
            raise NotFiniteError(f"couplings: a log density is NaN {steps}")
        return found

    return meet


def couple_walks(target: Any, sampler: MetropolisHastings, lag: int, max_steps: int) -> Meet:
    """Return the coupling of random walks: reflection-maximal proposals, and one u for both decisions."""
    if sampler.proposal.target_acceptance is not None:
        raise IncompatibleError("couplings: a proposal that still adapts is no Markov chain; fix the scale")
    compiled: CompiledTarget = target.compile()
    lower = np.linalg.cholesky(walk_covariance(sampler.proposal, target))
    dim, rule = target.variables.size, RULES[sampler.test.rule]
    walks = CoupledWalks(lower, np.ascontiguousarray(np.linalg.inv(lower)), np.empty(dim), np.empty(dim))
    test = ExactTest(sampler.test.rule).build_test(target)._replace(threshold=given_threshold)
    step = metropolis_hastings_step(CompiledProposal(propose_as_given, NoState), test)

    def start(theta: np.ndarray) -> MetropolisHastingsState:
        proposed, order = theta.copy(), rows_order(0)
        state = MetropolisHastingsState(
            theta=theta,
            proposed=proposed,
            point=np.empty_like(theta),
            log_density=np.full(1, math.nan),
            log_q_ratio=np.full(1, math.nan),
            log_prior=np.array([compiled.log_prior(theta)]),
            clock=new_clock(0),
            log_prior_of=compiled.log_prior,
            prior_rows=compiled.prior_rows,
            evidence=new_evidence(compiled.log_terms, compiled.data, compiled.n_obs, theta, proposed, order),
            proposal=NoState(),
            test=test.make_state(),
        )
        if state.log_prior[0] > -math.inf:  # else the first proposal inside the support is accepted
            terms = full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs)
            keep_log_likelihood(state.test, float(terms.sum()))
        else:
            keep_log_likelihood(state.test, 0.0)
        return state

    return _compile_meeting(make_walks(rule.threshold, step), start, walks, target.initial_point(), lag, max_steps)


def couple_gibbs(target: DiscreteTarget, sampler: Gibbs, lag: int, max_steps: int) -> Meet:
    """Return the coupling of Gibbs samplers: the maximal coupling of each conditional, one u for both chains."""
    conditionals = target.compile_conditionals(fields=False)
    tests = build_tests(ExactTest(), target, conditionals)
    sweep = make_sweeps(SCANS[sampler.scan], logit_uniform, draw_by_terms(given_threshold, tests[0]))

    def start(theta: np.ndarray) -> GibbsState:
        return new_state(conditionals, tests, theta, new_clock(0))

    return _compile_meeting(sweep, start, NoState(), target.initial_point(), lag, max_steps)


def maximal_coupling(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the joint law of (X, Y), X ~ p, Y ~ q, with the largest chance to be equal; independent where they differ.

    Examples
    --------
    >>> joint = maximal_coupling(np.array([0.9, 0.1]), np.array([0.2, 0.8]))
    >>> joint.round(12).tolist()
    [[0.2, 0.7], [0.0, 0.1]]
    """
    both = np.minimum(p, q)
    left, joint = 1.0 - both.sum(), np.diag(both)
    return joint + np.outer(p - both, q - both) / left if left > 1e-15 else joint


def couple_states(matrix: np.ndarray, lag: int, max_steps: int) -> Meet:
    """Return the coupling of a transition matrix: the maximal coupling of two rows."""
    n = len(matrix)
    joint = {
        (i, j): maximal_coupling(matrix[i], matrix[j]).ravel().cumsum() for i in range(n) for j in range(n) if i != j
    }
    rows = matrix.cumsum(axis=1)

    def draw(rng: np.random.Generator, cumulative: np.ndarray) -> int:
        return int(min(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"), len(cumulative) - 1))

    def meet(rng: np.random.Generator, x: np.ndarray, y: np.ndarray) -> int:
        i, j = int(x[0]), int(y[0])
        for _ in range(lag):
            i = draw(rng, rows[i])
        for t in range(lag, max_steps + 1):
            if i == j:
                return t
            i, j = divmod(draw(rng, joint[i, j]), n)
        return -1

    return meet
