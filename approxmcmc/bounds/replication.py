"""Many independent decisions of one sampler at one place: a pair (x, x') that it proposes, or a site in a state.

A chain whose proposal is pinned to a pair proposes x' from x, and from x' goes back for sure: what accepts there is the
sampler's own test, with a new u and new subsets each time.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.laws.threshold import exact_probability
from approxmcmc.bounds.acceptance_law import gaussian_probability
from approxmcmc.bounds.gibbs_replication import realised_conditional
from approxmcmc.contracts import AcceptanceTest, CompiledProposal, Component, Proposal
from approxmcmc.contracts.records import COUNT_NAMES, TOUCHED, VALUE_NAMES
from approxmcmc.design.pairs import compiled_propose
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.batches import full_terms, scale_of
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers import MetropolisHastings

MOST_STEPS = 2000  # of one call of the chain: some 10 to 100 ms


class PinnedPair(NamedTuple):
    """The pair (x, x') of a pinned proposal, and log q(x|x') - log q(x'|x), one number."""

    here: np.ndarray
    there: np.ndarray
    log_q_ratio: np.ndarray


@compiled
def propose_pinned(
    rng: np.random.Generator, pair: PinnedPair, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Propose x' from x, and x from x'; the way back is accepted for sure."""
    if equal(theta, pair.here):
        assign(out, pair.there)
        return pair.log_q_ratio[0]
    assign(out, pair.here)
    return math.inf


@dataclasses.dataclass(frozen=True, eq=False)
class _Pinned(Component, Proposal):
    """Propose x' from x, again and again, and return from x' for sure: the chain's own decisions at one pair."""

    proposes_states = True

    def build_proposal(self, target: Any) -> CompiledProposal:
        dim = target.variables.size
        pair = PinnedPair(np.zeros(dim), np.zeros(dim), np.zeros(1))
        return CompiledProposal(propose_pinned, lambda: pair)  # one pair for all chains: whoever replicates sets it


def visited_states(chain: Any, tune: int, n_draws: int, thin: int, dim: int) -> np.ndarray:
    """Advance a chain and return every `thin`-th state after `tune` steps, shape (n_draws, dim)."""
    kept = []
    for rows, every, keep_them in ((tune, 1, False), (n_draws, thin, True)):
        done = 0
        while done < rows:
            n = min(rows - done, max(1, MOST_STEPS // every))
            draws = np.empty((n, dim))
            made = chain.advance(
                n, every, draws, np.empty((n, len(COUNT_NAMES)), dtype=np.int64), np.empty((n, len(VALUE_NAMES)))
            )
            if made < n:
                raise InvalidInputError(f"estimate_delta: the chain broke off: {chain.explain_failure()}")
            done += n
            if keep_them:
                kept.append(draws)
    return np.concatenate(kept)


def replicate_pairs(
    target: Any, sampler: Any, program: Any, chain: Any, visited: np.ndarray, replications: int, own: Any, shown: Any
) -> tuple[dict[str, list[float]], int, int]:
    """Draw x' for each state, and let a chain whose proposal is pinned to the pair decide."""
    propose, memory = compiled_propose(program.proposal), chain.state.proposal
    # Blocks would let the decisions at one pair share a partition of the data.
    pinned = MetropolisHastings(_Pinned(), sampler.test.with_independent_subsets()).build(target, audit_every=None)
    pair = pinned.proposal.make_state()
    model, count, touched = target.compile(), np.zeros(len(COUNT_NAMES), dtype=np.int64), 0
    table: dict[str, list[float]] = {name: [] for name in ("log_ratio", "tau", "exact", "accepted", "error_model")}
    for k, theta in enumerate(visited):
        proposed = theta.copy()
        program.proposal.refresh(memory)  # no step follows the one before
        log_q_ratio = propose(own.proposal, memory, theta, proposed, count)
        log_ratio, tau = _pair(model, sampler.test, theta, proposed, log_q_ratio)
        pair.here[:], pair.there[:], pair.log_q_ratio[0] = theta, proposed, log_q_ratio
        accepted, cost = _decide(pinned.start(theta.copy(), own, 0), theta, replications)
        touched += cost
        for name, value in zip(
            table,
            (log_ratio, tau, *_probabilities(sampler.test, log_ratio, tau, model.n_obs, accepted)),
            strict=True,
        ):
            table[name].append(value)
        shown.update(k + 1)
    return table, touched, 2 * model.n_obs * len(visited)


def replicate_sites(
    target: Any, sampler: Any, program: Any, chain: Any, visited: np.ndarray, replications: int, own: Any, shown: Any
) -> tuple[dict[str, list[float]], int, int]:
    """Replicate the decision of a random site in each visited state; a proposed value of 1 is an accept."""
    sites = (own.proposal.random(len(visited)) * visited.shape[1]).astype(np.int64)
    table: dict[str, list[float]] = {name: [] for name in ("log_ratio", "tau", "exact", "accepted", "error_model")}
    terms, touched = program.conditionals.n_terms, 0
    seeds = np.random.SeedSequence(int(own.audit.random() * 2**52)).generate_state(len(visited))
    for k, site in enumerate(sites):
        found = realised_conditional(
            target, sampler.test, visited[k : k + 1], [site], replications=replications, random_seed=int(seeds[k])
        ).isel(context=0)
        n_terms = int(terms[site])
        log_odds, tau = float(found["log_odds"]), float(found["tau"])
        try:
            model = gaussian_probability(sampler.test, np.array([log_odds]), np.array([tau]), n_terms, "barker")
            error = float(model[0]) - float(found["exact"])
        except IncompatibleError:
            error = math.nan
        row = (log_odds, tau, float(found["exact"]), round(float(found["realised"]) * replications), error)
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
        touched += round(float(found["data_fraction"]) * n_terms * replications)
        shown.update(k + 1)
    return table, touched, int(2 * terms[sites].sum())


def _pair(
    model: Any, test: AcceptanceTest, theta: np.ndarray, proposed: np.ndarray, log_q_ratio: float
) -> tuple[float, float]:
    """Return Lambda and tau of a pair, from all data; -inf and inf where a datum has probability 0 at theta'."""
    prior = model.log_prior(proposed)
    if prior == -math.inf:
        return -math.inf, 0.0
    ends = [full_terms(model.log_terms, at, model.data, model.n_obs) for at in (theta, proposed)]
    if not np.isfinite(ends[0]).all():
        raise InvalidInputError(
            f"estimate_delta: datum {np.argmin(np.isfinite(ends[0]))} has probability 0 or no density at the state "
            f"theta = {theta}, where no exact chain comes; give `states` of positive density"
        )
    terms = (ends[1] - ends[0]) / test.temperature
    return prior - model.log_prior(theta) + log_q_ratio + float(terms.sum()), scale_of(terms)


def _probabilities(
    test: AcceptanceTest, log_ratio: float, tau: float, n_obs: int, accepted: int
) -> tuple[float, float, float]:
    """Return exact probability, accepts, and the error in the Gaussian regime (NaN where it is not known)."""
    exact = float(exact_probability(np.array([log_ratio]), test.rule)[0])
    if not test.uses_ratio:
        return exact, accepted, 1.0 - exact
    if not math.isfinite(log_ratio):  # the Gaussian regime knows no data of probability 0
        return exact, accepted, 0.0 if tau == 0.0 else math.nan
    try:
        model = gaussian_probability(test, np.array([log_ratio]), np.array([tau]), n_obs, test.rule)
    except IncompatibleError:
        return exact, accepted, math.nan
    return exact, accepted, float(model[0]) - exact


def _decide(chain: Any, here: np.ndarray, replications: int) -> tuple[int, int]:
    """Return how many of `replications` decisions at the pair accepted, and the data that they touched."""
    decided = accepted = touched = 0
    away = False
    while decided < replications:
        n = min(MOST_STEPS, replications - decided)
        draws, counts = np.empty((n, here.size)), np.empty((n, len(COUNT_NAMES)), dtype=np.int64)
        if chain.advance(n, 1, draws, counts, np.empty((n, len(VALUE_NAMES)))) < n:
            raise InvalidInputError(f"estimate_delta: {chain.explain_failure()}")
        moved = (draws != here).any(axis=1)
        began_away = np.concatenate([[away], moved[:-1]])
        decided += int((~began_away).sum())
        accepted += int((moved & ~began_away).sum())
        touched += int(counts[~began_away, TOUCHED].sum())
        away = bool(moved[-1])
    return accepted, touched
