"""The balance of a sampler at a pair of states, by its own decisions: a(x, x') / a(x', x) = exp(Lambda).

Decisions at a pinned pair are independent, so far fewer of them than steps of a chain detect that a share of the
acceptances is lost in one direction, and they detect it whatever the proposal. All else that a decision draws is drawn
afresh: rows, auxiliary data, the bright rows of Firefly given x. Then a is a mean over them, and the balance is that of
x alone, because the joint flow of x and of these draws is symmetric.

A particle that flies from x with velocity v has no decision. It stays on its line for a time T with probability
exp(-integral of its rate), and rates there and back differ by the slope of log pi along the line. So

    P(no turn from x to x' = x + T v) / P(no turn from x' to x, with velocity -v) = pi(x') / pi(x).

MALA-exchange and pseudo-marginal samplers keep draws with x, on which the step from x depends, so that no pair can be
pinned. Both are reversible for the law of x and what it keeps: from draws of this law as many steps go up as down.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledProposal, Component, Proposal
from approxmcmc.contracts.records import EVENTS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.samplers.firefly.joint import make_bright
from approxmcmc.samplers.firefly.step import firefly_step
from approxmcmc.samplers.metropolis_hastings.replication import PinnedDecisions, PinnedPair, _decide, propose_pinned
from approxmcmc.samplers.pdmp.step import pdmp_step
from approxmcmc.sampling.chain import compile_chain, new_clock, new_draw
from tests.pairings.law import SEEN, Posterior, data_sets
from tests.pairings.worlds import SCALE, SPREAD_OF_ESTIMATE, noisy_log_likelihood

LOST = 0.03  # of the acceptances in one direction: seen with power .999
FIRST = 20_000  # decisions from which the number needed is computed
REACH = np.array([[0.2], [0.9], [1.5]])  # posterior standard deviations from the mean to the states
UPHILL = 1.5  # nats that a flight climbs


class Balance(NamedTuple):
    """log a(x, x') - log a(x', x) - Lambda of a pair of states, and its standard error."""

    excess: float
    error: float


def balance(accepted: Callable[[bool, int], int], expected: float) -> Balance:
    """Return the balance of a pair, from enough decisions to detect a loss of `LOST`.

    ``accepted(back, n)`` makes n decisions from x to x', or back, and returns how many accepted.
    """
    found, made, wanted = np.zeros(2), 0, FIRST
    while made < wanted:
        found += [accepted(back, wanted - made) for back in (False, True)]
        made = wanted
        error = math.sqrt(((1.0 + 1.0 / made - found / made) / found).sum())  # where all accept it is not 0
        wanted = max(made, math.ceil(1.1 * made * (error * SEEN / LOST) ** 2))
    return Balance(math.log(found[0] / found[1]) - expected, error)


def pairs(world: str, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield the pairs of three states of a world with the default prior, and Lambda, without code of the library."""
    posterior = data_sets(world, seed)[0][1]
    sd, angles = np.linalg.inv(posterior.whiten), 0.4 + 2.0 * math.pi / 3.0 * np.arange(3)
    states = posterior.mean + REACH * np.column_stack([np.cos(angles), np.sin(angles)])[:, : len(sd)] @ sd.T
    for one, other in itertools.combinations(states, 2):
        yield one, other, log_ratio(posterior, one, other)


def log_ratio(posterior: Posterior, here: np.ndarray, there: np.ndarray) -> float:
    """Return Lambda under the default prior."""
    thetas = np.array([here, there])
    density = posterior.world.log_likelihood(thetas, posterior.data) - 0.5 * (thetas**2).sum(axis=1) / SCALE**2
    return float(density[1] - density[0])


def balances(world: str, test: Any, seed: int) -> list[Balance]:
    """Return the balance of a test at all pairs of three states of a world."""
    decisions, own = PinnedDecisions(data_sets(world, seed)[0][0], test), own_streams(seed)
    return [
        balance(lambda back, n, way=(here, there): decisions(*way[:: -1 if back else 1], 0.0, n, own)[0], ratio)
        for here, there, ratio in pairs(world, seed)
    ]


def own_streams(seed: int) -> Any:
    """Return streams for decisions."""
    return streams(seed_sequences(seed, 1)[0][0])


@dataclasses.dataclass(frozen=True, eq=False)
class Pinned(Component, Proposal):
    """Proposes x' from x; `propose` may have a planted bug."""

    pair: PinnedPair
    propose: Any = propose_pinned

    def build_proposal(self, target: Any) -> CompiledProposal:
        """Return the compiled proposal."""
        return CompiledProposal(self.propose, lambda: self.pair)


def balance_of(world: str, sampler: Callable[[Proposal], Any], seed: int, propose: Any = propose_pinned) -> Balance:
    """Return the balance of ``sampler(proposal)`` at the farthest pair."""
    (target, _), own, (*way, expected) = data_sets(world, seed)[0], own_streams(seed), list(pairs(world, seed))[-1]
    pair = PinnedPair(*np.zeros((2, len(way[0]))), np.zeros(1))
    program = sampler(Pinned(pair, propose)).build(target, audit_every=None)

    def accepted(back: bool, n: int) -> int:
        pair.here[:], pair.there[:] = way[:: -1 if back else 1]
        return _decide(program.start(pair.here.copy(), own, 0), pair.here, n)[0]

    return balance(accepted, expected)


# --- samplers that keep more than theta: each step begins anew at one place ---


class Restarted(NamedTuple):
    """A chain whose steps all begin at one place: the interface of the loop, the chain, the place, and two sums."""

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Any
    chain: Any
    place: tuple[np.ndarray, np.ndarray, np.ndarray]
    sums: np.ndarray


def sums_of_steps(step: Any, restart: Any, note: Any, chain: Any, place: Any, n: int) -> np.ndarray:
    """Make n steps, each after ``restart(rng, state, place)``; return the sums that ``note`` adds to."""

    def again(streams, state, count, value):
        restart(streams.start, state.chain, state.place)
        status = step(streams, state.chain, count, value)
        note(state.chain, state.place, status, count, state.sums)
        return status

    state = Restarted(*chain.state[:3], new_clock(0), chain.state, place, np.zeros(2))
    loop = compile_chain(compiled(inline="always")(again), state)
    counts, values = np.empty((n, len(COUNT_NAMES)), np.int64), np.empty((n, len(VALUE_NAMES)))
    draws = np.empty((n, len(state.theta)))
    assert loop.of_chain(chain.streams, state, new_draw())(n, 1, draws, counts, values) == n, chain.explain_failure()
    return state.sums


@compiled
def draw_bright(rng, state, place):
    """Go back to x, with bright rows drawn from their law given x; place = (x, prior, bound and bright rows, odds)."""
    here, numbers, log_odds = place
    assign(state.theta, here)
    state.current.log_prior[0], state.current.log_bound[0] = numbers[0], numbers[1]
    state.bright.size[0] = 0
    for datum in range(log_odds.shape[0]):
        if rng.random() * (1.0 + math.exp(-log_odds[datum])) < 1.0:
            make_bright(state.bright, datum, log_odds[datum])
    numbers[2] = state.bright.size[0]


@compiled
def note_accepted(state, place, status, count, sums):
    """Count the accepted steps."""
    sums[0] += status


@compiled
def note_bright(state, place, status, count, sums):
    """Add the change of the number of bright rows, and its square."""
    change = state.bright.size[0] - place[1][2]
    sums[0] += change
    sums[1] += change * change


def balance_of_firefly(world: str, firefly: Any, seed: int, propose: Any = propose_pinned) -> tuple[Balance, Balance]:
    """Return the balance of theta at the farthest pair, and by how much a step at x changes the bright rows' number.

    The second has mean 0 if the update of z leaves the law of z given x invariant.
    """
    (target, _), own, (*way, expected) = data_sets(world, seed)[0], own_streams(seed), list(pairs(world, seed))[-1]
    pair = PinnedPair(*np.zeros((2, len(way[0]))), np.zeros(1))
    program = dataclasses.replace(firefly, proposal=Pinned(pair, propose)).build(target)

    def sums(here: np.ndarray, there: np.ndarray, n: int, note: Any) -> np.ndarray:
        pair.here[:], pair.there[:] = here, there
        chain = program.start(here.copy(), own, 0)
        numbers = np.array([chain.state.current.log_prior[0], chain.state.current.log_bound[0], 0.0])
        log_odds = np.log(np.expm1(np.maximum(1e-12, program.gaps(here))))
        step = firefly_step(program.theta_update(chain.state.bright), program.z_update)
        return sums_of_steps(step, draw_bright, note, chain, (here.copy(), numbers, log_odds), n)

    theta = balance(lambda back, n: int(sums(*way[:: -1 if back else 1], n, note_accepted)[0]), expected)
    change, squares = sums(way[0], way[0], 10 * FIRST, note_bright)
    return theta, Balance(change / (10 * FIRST), math.sqrt(squares) / (10 * FIRST))


@compiled
def go_back(rng, state, place):
    """Go back to x with the same velocity; place = (position, velocity, gain)."""
    assign(state.flight.position, place[0])
    assign(state.flight.velocity, place[1])
    state.flight.gain[0] = place[2][0]


@compiled
def note_straight(state, place, status, count, sums):
    """Count the flights without a turn."""
    sums[0] += count[EVENTS] == 0


def balance_of_flights(world: str, build: Callable[[Any, float], Any], seed: int) -> Balance:
    """Return the balance of a flight from the posterior's mean; ``build(target, spacing)`` returns a program."""
    (target, posterior), own, velocity = data_sets(world, seed)[0], own_streams(seed), np.array([1.0, -1.0])
    along = posterior.whiten @ (build(target, 1.0).split.cholesky @ velocity)
    time = math.sqrt(2.0 * UPHILL / (along @ along))
    program = build(target, time)
    way = posterior.mean, posterior.mean + time * program.split.cholesky @ velocity
    gain = np.full(1, np.linalg.norm(velocity) if program.dynamics.norm == 2 else 1.0)

    def straight(back: bool, n: int) -> int:
        chain = program.start(way[back].copy(), own, 0)
        place = chain.state.flight.position.copy(), -velocity if back else velocity, gain
        return int(sums_of_steps(pdmp_step(program.dynamics), go_back, note_straight, chain, place, n)[0])

    return balance(straight, log_ratio(posterior, *way))


@compiled
def begin_with_new_draws(rng, state, place):
    """Go to the next x; the draws that estimate its drift are made in the step."""
    go_to_next(state, place)
    state.move.has_draws[0] = False


@compiled
def begin_with_estimate(rng, state, place):
    """Go to the next x, with an estimate from the law in which large ones weigh more: log-normal with another mean."""
    go_to_next(state, place)
    state.estimate.here[0] = noisy_log_likelihood(rng, state.theta, state.estimate.data) + SPREAD_OF_ESTIMATE**2


@compiled
def go_to_next(state, place):
    """Go to the next x; place = (draws of x, their number so far)."""
    thetas, number = place
    assign(state.theta, thetas[number[0]])
    number[0] += 1


@compiled
def note_direction(state, place, status, count, sums):
    """Count the moves up and the moves down of the first coordinate."""
    before = place[0][place[1][0] - 1, 0]
    sums[0] += state.theta[0] > before
    sums[1] += state.theta[0] < before


def balance_of_moves(world: str, sampler: Any, begin: Any, seed: int) -> Balance:
    """Return the log of the ratio of moves up and down from draws of the law of x and what it keeps."""
    (target, posterior), own, rng = data_sets(world, seed)[0], own_streams(seed), np.random.default_rng(seed)
    program = sampler.build(target, audit_every=None)

    def moves(down: bool, n: int) -> int:
        place = posterior.draw(rng, n), np.zeros(1, np.int64)
        chain = program.start(place[0][0].copy(), own, 0)
        return int(sums_of_steps(program.setup.step, begin, note_direction, chain, place, n)[int(down)])

    return balance(moves, 0.0)
