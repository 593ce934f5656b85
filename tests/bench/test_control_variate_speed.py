"""What control variates buy at the same proposal: steps per second against the exact step, in one process."""

import os

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.surrogate import ControlVariate
from approxmcmc.targets import LogisticRegression
from tests.bench.interleave import race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
DIM = 50
# 10^6 data take 1.5 GB and a minute of set-up.
SIZES = [100_000, 1_000_000] if os.environ.get("APPROXMCMC_BENCH_LARGE", "1") != "0" else [100_000]
LEAST = {100_000: 50.0, 1_000_000: 1000.0}  # times the exact step with the same proposal


def stepper(target, proposal, test, start, steps):
    """Return a function that makes `steps` steps of a running chain, and the counts of its last call."""
    program = amc.MetropolisHastings(proposal, test).build(target, audit_every=None)
    chain = program.start(start, streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((steps, DIM))
    counts, values = np.empty((steps, len(COUNT_NAMES)), np.int64), np.empty((steps, len(VALUE_NAMES)))
    return lambda: chain.advance(steps, 1, draws, counts, values), counts


@pytest.mark.parametrize("n_obs", SIZES)
def test_steps_per_second_against_the_exact_step(n_obs):
    plain = LogisticRegression(*synthetic_logistic(n_obs, DIM, seed=0))
    ours = ControlVariate(plain)
    start, proposal = (
        ours.draw_start(np.random.default_rng(0)),
        amc.proposals.PreconditionedCrankNicolson(0.0, ours.laplace),
    )
    first_look = 64 if n_obs < 300_000 else 32
    test = amc.SequentialTTest(0.01, batch_size=first_look, growth=2.0, tol=0.05)
    few, many = (3, 3000) if n_obs > 300_000 else (20, 3000)
    run_exact, _ = stepper(plain, proposal, amc.ExactTest(), start, few)
    run_ours, counts = stepper(ours, proposal, test, start, many)
    seconds = race({"exact": run_exact, "control variates": run_ours}, rounds=7)
    seconds = {"exact": seconds["exact"] / few, "control variates": seconds["control variates"] / many}
    print(table(f"one step, N = {n_obs}, d = {DIM}, rho = 0", seconds, "exact"))
    print(f"  data per step {counts[:, 0].mean():.0f}, accepted {counts[:, COUNT_NAMES.index('accepted')].mean():.3f}")
    print(f"  set-up {dict(ours.setup_attrs)}")
    assert ratio(seconds, "exact", "control variates").high > LEAST[n_obs]
