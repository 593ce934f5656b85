"""Firefly on MNIST 7 against 9: likelihood evaluations per step, and its speed compared with NumPy's, in one run."""

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.datasets import mnist_7v9_pca
from approxmcmc.engine.streams import seed_sequences, streams
from tests import firefly as textbook
from tests.bench.interleave import race, ratio, table

pytestmark = [pytest.mark.bench, pytest.mark.needs_jit]
STEPS, BURN_IN, SCALE, Q = 200, 4000, 0.01, 0.01
PAPERS_QUERIES = 207  # Maclaurin and Adams (2014), table 1: tuned bounds, 12214 data, 51 coefficients


def test_tuned_firefly_on_mnist():
    data = mnist_7v9_pca(n_components=50)
    target = amc.targets.LogisticRegression(data.X_train, data.y_train, intercept=True)
    assert (target.n_obs, target.variables.size) == (12_214, 51)
    mode = np.asarray(amc.numerics.find_mode(target))
    program = amc.Firefly(amc.RandomWalk(SCALE), z_update=amc.samplers.ImplicitResampling(Q), at=mode).build(target)
    compiled = program.start(mode, streams(seed_sequences(1, 1)[0][0]), 0)
    model = textbook.Logistic(target.X, target.y, 1.0, target.X @ mode)
    numpy = textbook.Chain(model, mode, n_obs=target.n_obs, scale=SCALE, q=Q, seed=1)

    draws, counts = np.empty((BURN_IN, 51)), np.empty((BURN_IN, len(COUNT_NAMES)), dtype=np.int64)
    values = np.empty((BURN_IN, len(VALUE_NAMES)))
    compiled.advance(BURN_IN, 1, draws, counts, values)
    expected, bright, dark, moved = numpy.run(BURN_IN)
    np.testing.assert_array_equal(draws, expected)
    for name, record in (("bright_count", bright), ("dark_proposals", dark), ("accepted", moved)):
        np.testing.assert_array_equal(counts[:, COUNT_NAMES.index(name)], record)

    evaluations = counts[BURN_IN // 2 :, COUNT_NAMES.index("likelihood_evaluations")].mean()
    acceptance = counts[BURN_IN // 2 :, COUNT_NAMES.index("accepted")].mean()
    rivals = {
        "compiled": lambda: compiled.advance(STEPS, 1, draws[:STEPS], counts[:STEPS], values[:STEPS]),
        "NumPy": lambda: numpy.run(STEPS),
    }
    seconds = race(rivals, rounds=11)
    print(table(f"one step, {bright[BURN_IN // 2 :].mean():.0f} bright", seconds, "compiled", per=STEPS))
    print(f"  {evaluations:.0f} likelihood evaluations a step (the paper: {PAPERS_QUERIES}), accepted {acceptance:.2f}")
    assert 0.1 < acceptance < 0.5
    assert evaluations <= 310
    assert ratio(seconds, "NumPy", "compiled").high >= 10.0
