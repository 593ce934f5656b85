"""What an update of an auxiliary simulation costs, all in one run."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.datasets import florentine_business
from approxmcmc.targets.ising.exact import backward_simulator
from tests.bench.interleave import median, race, ratio
from tests.simulation import draw_many

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
ALL = ("edges", "two_stars", "three_stars", "triangles")
UPDATES = 500_000


def runner(simulator, theta, n_draws=1):
    state, rng = simulator.make_state(), np.random.default_rng(0)
    return lambda: draw_many(simulator, theta, n_draws, rng, state=state)


def test_updates_are_cheap():
    """Goals: 5e6 toggles/s on 16 nodes, 5 ns per site of a lattice."""
    adjacency, lattice = florentine_business().adjacency, np.ones((16, 16))
    rivals = {}
    for names in (ALL[:2], ALL):
        target = amc.targets.ERGM(adjacency, names, prior_scale=1.0)
        for move in ("dyad", "tnt"):
            simulator = target.build_simulator(amc.targets.AuxiliaryChain(UPDATES, "empty", move))
            rivals[f"{move}, {len(names)} statistics"] = runner(simulator, [-2.0] + [0.0] * (len(names) - 1))
    ising = amc.targets.Ising(lattice, prior_scale=1.0)
    rivals["heat bath, 16 x 16"] = runner(ising.build_simulator(amc.targets.AuxiliaryChain(UPDATES, "empty")), 0.4)
    nanoseconds = {name: median(1e9 * seconds / UPDATES) for name, seconds in race(rivals, rounds=9).items()}
    for name, each in nanoseconds.items():
        print(f"  {name:24s} {each} ns per update, {1e3 / each.middle:7.1f} million/s")
    assert nanoseconds.pop("heat bath, 16 x 16").low < 5.0
    assert max(each.low for each in nanoseconds.values()) < 200.0


def test_exact_draws_share_the_tables_of_their_theta():
    """A draw at a new theta pays for the recursion; more draws at that theta cost a tenth or less."""
    adjacency = florentine_business().adjacency
    graph = amc.targets.ERGM(adjacency, ALL[:2], prior_scale=1.0).build_simulator("exact")
    lattice = backward_simulator(16, 16)
    rng = np.random.default_rng(0)
    rivals = {}
    for name, simulator, theta in (("lattice 16 x 16", lattice, [0.3]), ("graph, 16 nodes", graph, [-2.6, 0.18])):
        state = simulator.make_state()

        def new(simulator=simulator, theta=theta, state=state):
            for _ in range(20):
                draw_many(simulator, np.array(theta) + 1e-3 * rng.random(), 1, rng, state=state)

        rivals[f"{name}, new theta"], rivals[f"{name}, same theta"] = new, runner(simulator, theta, 20)
    seconds = race(rivals, rounds=7)
    for name, found in seconds.items():
        print(f"  {name:30s} {1e6 * np.median(found) / 20:9.1f} us per draw")
    assert ratio(seconds, "lattice 16 x 16, same theta", "lattice 16 x 16, new theta").low < 0.2
    assert ratio(seconds, "graph, 16 nodes, same theta", "graph, 16 nodes, new theta").low < 0.1
