"""Couplings of discrete and doubly intractable chains, enumerated: their own code, along every path it can take.

A scripted generator answers each call with every value that it can have, one path after another, so that the joint law
of a coupled step is had to rounding. What it must be: each chain's own transition matrix on either side; and by the
sums over both chains the bias of an approximate sampler, by both forms, to 14 digits.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.rules import log_uniform
from approxmcmc.bounds.finite import grid_of_points, stationary_distribution
from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.couplings.kernels import coupling_of
from approxmcmc.couplings.meeting import maximal_coupling
from approxmcmc.engine.compiler.compile import config
from approxmcmc.samplers import coupled_steps
from approxmcmc.samplers.auxiliary_variable import coupling as exchange
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import RatioState
from approxmcmc.samplers.counted_model import counted_model
from approxmcmc.samplers.metropolis_hastings import coupling as metropolis

pytestmark = [
    pytest.mark.recompiles,
    pytest.mark.skipif(not config.DISABLE_JIT, reason="compiled code cannot use a scripted generator"),
]
CELLS = 6  # of a uniform number that chooses among 1, 2, 3 or 6
GRID = np.array([-0.3, 0.1, 0.6])
WALK = amc.RandomWalk(0.5)


# --- every path of a step ---


class Script:
    """A generator with given draws; `thresholds` are log u, one for each."""

    def __init__(self, choices, u):
        self.choices, self.u, self.made = choices, u, []

    def pick(self, p):
        """Return the next choice among len(p), and note its probability."""
        k = self.choices[len(self.made)] if len(self.made) < len(self.choices) else 0
        self.made.append((k, p))
        return k

    def random(self):
        return (self.pick(np.full(CELLS, 1.0 / CELLS)) + 0.5) / CELLS

    def standard_exponential(self):
        return -math.log(self.u)

    def next_path(self):
        """Return the choices of the path after this one; None after the last."""
        path = [k for k, _ in self.made]
        while path and path[-1] == len(self.made[len(path) - 1][1]) - 1:
            path.pop()
        return [*path[:-1], path[-1] + 1] if path else None


def joint_law(step, points, breaks):
    """Return P((x, y) -> (x', y')), shape (n, n, n, n).

    ``step(script, x, y) -> chains`` makes a coupled step; ``breaks(chains)`` has every u at which it may change.
    """
    n, number = len(points), {point.tobytes(): k for k, point in enumerate(points)}
    law = np.zeros((n, n, n, n))
    for i, j in itertools.permutations(range(n), 2):
        path = []
        while path is not None:
            asked = step(Script(path, 0.5), points[i].copy(), points[j].copy())  # proposals do not depend on u
            edges = sorted({0.0, 1.0, *breaks(asked, points[i], points[j])})
            for lo, hi in itertools.pairwise(edges):
                script = Script(path, 0.5 * (lo + hi))
                x, y = step(script, points[i].copy(), points[j].copy())
                chance = math.prod(p[k] for k, p in script.made) * (hi - lo)
                law[i, j, number[x.theta.tobytes()], number[y.theta.tobytes()]] += chance
            path = script.next_path()
    return law


def has_the_laws_of(P, law):
    """Check that either chain moves by P."""
    for i, j in itertools.permutations(range(len(P)), 2):
        np.testing.assert_allclose(law[i, j].sum(axis=1), P[i], rtol=0.0, atol=2e-14)
        np.testing.assert_allclose(law[i, j].sum(axis=0), P[j], rtol=0.0, atol=2e-14)


def pair_sums(law, h):
    """Return G(i, j) = E sum_{t < tau} [h(X_t) - h(Y_t)]."""
    n = len(law)
    step = law.reshape(n * n, n * n).copy()
    step[:, [i * n + i for i in range(n)]] = 0.0  # met: nothing is added any more
    apart = (h[:, None] - h[None, :]).ravel()
    return np.linalg.solve(np.eye(n * n) - step, apart).reshape(n, n)


def tells_the_bias(P, P_hat, law, h):
    """Check both forms of the identity."""
    pi, pi_hat, G = stationary_distribution(P), stationary_distribution(P_hat), pair_sums(law, h)
    truth = pi_hat @ h - pi @ h
    by_audits = pi_hat @ ((P_hat - P) * G.T).sum(axis=1)  # g(next) - g(here)
    by_drift = pi_hat @ (P * G).sum(axis=1)  # g(here) - g(next)
    assert abs(truth) > 1e-3  # or nothing is told, and a sign error not seen
    np.testing.assert_allclose([by_audits, by_drift], truth, rtol=0.0, atol=2e-14)


# --- single sites ---


@functools.cache
def network():
    """Return a network of two sites with 3 and 2 states, whose six factors leave something to subsample."""
    rng = np.random.default_rng(4)
    tables = {"a": rng.dirichlet(np.full(3, 2.0)), "b": rng.dirichlet(np.full(2, 2.0), size=3)}
    parents, evidence = {"b": ["a"]}, {}
    for name in ("c", "d", "e", "f"):
        tables[name], parents[name] = rng.dirichlet(np.full(2, 2.0), size=(3, 2)), ["a", "b"]
        evidence[name] = int(rng.integers(2))
    return amc.targets.BayesianNetwork(tables, parents, evidence)


@functools.cache
def by_sites(rule):
    """Return states, exact transition matrix, and the joint law of the library's coupled steps."""
    points, sampler = (
        grid_of_points(network(), None),
        amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest(rule)),
    )
    P = bounds.transition_matrix(network(), sampler)
    coupling, accept = coupling_of(network(), sampler), P["decision"].to_numpy()
    room = np.empty((2, 2, points.shape[1])), np.empty((2, 2))

    def step(script, x, y):
        chains = coupling.start(x, math.nan), coupling.start(y, math.nan)
        coupling.loop(script, chains, coupling.shared, 0, 1, *room)
        return chains

    def place(point):
        return int((points == point).all(axis=1).argmax())

    def breaks(chains, x, y):
        both = [accept[place(here), place(walker.proposed)] for here, walker in zip((x, y), chains, strict=True)]
        return [*both, *(1.0 - np.array(both))]

    return points, P.to_numpy(), joint_law(step, points, breaks)


@pytest.mark.parametrize("rule", ["metropolis", pytest.param("barker", marks=pytest.mark.thorough)])
class TestSingleSite:
    """Metropolis-Hastings one site at a time."""

    @pytest.mark.thorough
    def test_either_chain_keeps_its_law(self, rule):
        _, P, law = by_sites(rule)
        has_the_laws_of(P, law)

    @pytest.mark.thorough
    def test_the_identity(self, rule):
        points, P, law = by_sites(rule)
        approximate = amc.acceptance.MinibatchBarker(1.0, 2) if rule == "barker" else amc.SequentialTTest(0.4, 2)
        P_hat = bounds.transition_matrix(
            network(), amc.MetropolisHastings(amc.proposals.SingleSite(), approximate), method="enumerate"
        ).to_numpy()
        for h in (points[:, 0], points[:, 1], points[:, 0] * points[:, 1]):
            tells_the_bias(P, P_hat, law, h)

    def test_chains_that_differ_in_one_site_meet_as_often_as_they_can(self, rule):
        """Given the site, by its conditional kernel: 1 less the total variation of what both draw there."""
        points, P, law = by_sites(rule)
        for i, j in itertools.permutations(range(len(points)), 2):
            (site,) = differ if len(differ := np.flatnonzero(points[i] != points[j])) == 1 else (None,)
            if site is None:
                continue
            same_rest = (np.delete(points, site, axis=1) == np.delete(points[i], site)).all(axis=1)
            at_site = points.shape[1] * np.where(same_rest, P[[i, j]], 0.0)
            for row, k in zip(at_site, (i, j), strict=True):
                row[k] = 1.0 - np.delete(row, k).sum()  # stays where it is, when the site is this one
            most = np.minimum(*at_site).sum() / points.shape[1]
            met = law[i, j].trace()
            assert met == pytest.approx(most, abs=1e-13) if points[:, site].max() == 1 else met <= most + 1e-13


@pytest.mark.thorough
def test_a_threshold_shared_by_chains_that_trade_places_keeps_them_apart(monkeypatch):
    """By Barker's rule two chains that differ in one binary site meet at once with 1 - u, and seldom with u."""
    mirrored = by_sites("barker")[2][0, 1].trace()
    monkeypatch.setattr(metropolis, "MIRRORS", {"barker": lambda threshold: threshold})
    coupled_steps.make_coupled_step.cache_clear()
    assert by_sites.__wrapped__("barker")[2][0, 1].trace() < mirrored - 0.1
    coupled_steps.make_coupled_step.cache_clear()


# --- the exchange sampler ---


@functools.cache
def lattice():
    return amc.targets.Ising(np.array([[1, 1], [1, -1]]), prior_scale=0.7)


class OnTheGrid(NamedTuple):
    """A proposal's transition probabilities between the points of a grid: of one chain, and of two together."""

    rows: np.ndarray
    joint: np.ndarray


def number_of(theta):
    return int(np.flatnonzero(theta[0] == GRID)[0])


def propose(rng, state, theta, out, count):
    out[0] = GRID[rng.pick(state.rows[number_of(theta)])]
    return 0.0


def couple(rng, state, other, x, y, x_new, y_new, noise, count):
    i, j = divmod(rng.pick(state.joint[number_of(x), number_of(y)]), len(GRID))
    x_new[0], y_new[0] = GRID[i], GRID[j]
    return 0.0, 0.0


class Statistics(NamedTuple):
    """Values of the statistic, and their law at each point of the grid."""

    values: np.ndarray
    laws: np.ndarray


def simulate(rng, theta, state, statistics, count):
    statistics[0] = state.values[rng.pick(state.laws[number_of(theta)])]


@functools.cache
def by_exchange():
    """Return exact transition matrix and the joint law of the library's step, with proposals on a grid."""
    model = counted_model(lattice(), GRID[:, None])
    rows = WALK.probabilities(lattice(), GRID[:, None])
    np.fill_diagonal(rows, 1.0 - rows.sum(axis=1))
    joint = np.array([[maximal_coupling(p, q).ravel() for q in rows] for p in rows])
    weigh = exchange.make_weigh(simulate)
    move = coupled_steps.make_coupled_step(
        propose, couple, log_uniform, coupled_steps.unmirrored, weigh, exchange.cannot_tell, exchange.go_there, False
    )
    known = Statistics(model.statistics[:, 0], model.law_of_statistics().probabilities)
    log_prior = lattice().compile_log_prior()
    asked = []

    def step(script, x, y):
        ratio = RatioState(model.observed, known, np.empty((1, 1)))
        counts, state = np.zeros(len(COUNT_NAMES), np.int64), OnTheGrid(rows, joint)
        shared = exchange.SharedDraws(counts, np.empty(2), log_prior, ratio, np.empty((2, 1)))
        chains = exchange.ExchangeWalker(x, x.copy(), state), exchange.ExchangeWalker(y, y.copy(), state)
        assert move(script, chains, shared, 2) == 0
        asked[:] = [k for k, _ in script.made[1:]]  # the draws: one where both are offered one point, else two
        return chains

    def breaks(chains, x, y):
        for walker, here, k in zip(chains, (x, y), (asked[0], asked[-1]), strict=True):
            i, j = number_of(here), number_of(walker.proposed)
            change = model.points[j, 0] - model.points[i, 0]
            log_a = model.log_prior[j] - model.log_prior[i] + change * (model.observed[0] - known.values[k])
            yield min(1.0, math.exp(log_a))

    P = bounds.transition_matrix(lattice(), amc.Exchange(WALK), GRID).to_numpy()
    return P, joint_law(step, GRID[:, None], breaks)


class TestExchange:
    """The exchange sampler with one exact draw; noisy exchange with two is biased by what this tells."""

    def test_either_chain_keeps_its_law(self):
        has_the_laws_of(*by_exchange())

    def test_the_identity(self):
        P, law = by_exchange()
        P_hat = bounds.transition_matrix(lattice(), amc.Exchange(WALK, n_auxiliary=2), GRID).to_numpy()
        for h in (GRID, GRID**2):
            tells_the_bias(P, P_hat, law, h)

    def test_a_draw_shared_by_chains_that_go_elsewhere_breaks_their_laws(self, monkeypatch):
        monkeypatch.setattr(coupled_steps, "equal", lambda one, other: True)
        coupled_steps.make_coupled_step.cache_clear()
        P, law = by_exchange.__wrapped__()
        coupled_steps.make_coupled_step.cache_clear()
        with pytest.raises(AssertionError):
            has_the_laws_of(P, law)
