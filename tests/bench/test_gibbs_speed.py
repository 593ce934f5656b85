"""What a sweep of Gibbs costs on the paper's field: kept fields, all pairs in order, sequential tests, in one run."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from tests.bench.interleave import median, race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
N_SITES, PAIRS, SWEEPS = 100, 4851, 20


def sweeper(target, sampler):
    """Return a function that makes `SWEEPS` sweeps of a running chain, and the counts of the last of them."""
    chain = sampler.build(target, audit_every=None).start(np.zeros(N_SITES), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((SWEEPS, N_SITES))
    counts, values = np.empty((SWEEPS, len(COUNT_NAMES)), np.int64), np.empty((SWEEPS, len(VALUE_NAMES)))
    return lambda: chain.advance(SWEEPS, 1, draws, counts, values), counts


def test_exact_sweeps_beat_sequential_tests():
    target = amc.targets.BinaryMRF.random_triples(N_SITES, 0.02, 0)
    rivals = {"exact, fields": amc.Gibbs(), "exact, all pairs": amc.Gibbs(conditional="terms")}
    rivals |= {f"epsilon = {epsilon}": amc.Gibbs(amc.SequentialTTest(epsilon, 500)) for epsilon in (0.0, 0.05, 0.25)}
    sweepers = {name: sweeper(target, sampler) for name, sampler in rivals.items()}
    seconds = race({name: run for name, (run, _) in sweepers.items()}, rounds=7)
    print(table("one sweep of 100 sites", seconds, "exact, all pairs", per=SWEEPS))
    for name, (_, counts) in sweepers.items():
        pairs = counts[:, COUNT_NAMES.index("datapoints_touched")].mean()
        sweep = float(np.median(seconds[name])) / SWEEPS
        print(f"  {name:34s} {pairs / N_SITES / PAIRS:6.1%} of the pairs, {1e9 * sweep / pairs:6.2f} ns per pair read")
    assert median(seconds["exact, fields"] / SWEEPS).low < 3e-4
    assert all(ratio(seconds, f"epsilon = {epsilon}", "exact, fields").high > 10.0 for epsilon in (0.0, 0.05, 0.25))
