"""What a step of noisy exchange costs on 16 x 16 spins, compared with the simulation in it, in one run."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from tests.bench.interleave import median, race, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
STEPS, UPDATES, THIN = 200, 1000, 256


def stepper(target, sampler):
    """Return a function that makes `STEPS` steps of a running chain, and the counts of the last of them."""
    program = sampler.build(target, audit_every=None)
    chain = program.start(np.array([0.3]), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((STEPS, 1))
    counts, values = np.empty((STEPS, len(COUNT_NAMES)), np.int64), np.empty((STEPS, len(VALUE_NAMES)))
    return lambda: chain.advance(STEPS, 1, draws, counts, values), counts


def test_a_step_costs_what_its_simulation_costs():
    spins = np.random.default_rng(0).choice([-1, 1], size=(16, 16))
    target = amc.targets.Ising(spins, prior_bounds=(-0.4, 0.8))
    walk = amc.RandomWalk(0.02)
    fresh, thinned = (
        amc.targets.AuxiliaryChain(UPDATES, "observed"),
        amc.targets.AuxiliaryChain(UPDATES, "observed", thin=THIN),
    )
    rivals = {
        "exchange, 1 draw": amc.Exchange(walk, auxiliary=fresh),
        "noisy exchange, 100 fresh draws": amc.Exchange(walk, 100, fresh),
        "noisy exchange, 100 thinned draws": amc.Exchange(walk, 100, thinned),
        "noisy MALA, 100 thinned draws": amc.samplers.MALAExchange(4e-4, True, 100, auxiliary=thinned),
    }
    steppers = {name: stepper(target, sampler) for name, sampler in rivals.items()}
    seconds = race({name: run for name, (run, _) in steppers.items()}, rounds=9)
    print(table("one step on 16 x 16 spins", seconds, "exchange, 1 draw", per=STEPS))
    per_update = {}
    for name, (_, counts) in steppers.items():
        updates = counts[:, COUNT_NAMES.index("auxiliary_updates")].sum()
        per_update[name] = 1e9 * seconds[name] / updates
        per_second, each = STEPS / np.median(seconds[name]), median(per_update[name])
        print(f"  {name:34s} {per_second:10.0f} steps/s, {each} ns per auxiliary update")
    # A hundred draws are dearer than one by what they simulate, and by next to nothing else.
    many = per_update["noisy exchange, 100 fresh draws"]
    assert median(many / per_update["exchange, 1 draw"]).low < 1.5
    assert median(many).low < 10.0
