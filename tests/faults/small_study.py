"""A study of 12 short cells, for tests that disturb it: ``approxmcmc run tests/faults/small_study.py``."""

import numpy as np

import approxmcmc as amc
from approxmcmc.study import Budget, Study, knob, vary


def target() -> amc.targets.LogisticRegression:
    """Return a logistic regression of 100 rows."""
    X = np.random.default_rng(1).normal(size=(100, 2))
    return amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(float))


def sampler(epsilon: float) -> amc.MetropolisHastings:
    """Return random walks with a test that reads some rows."""
    return amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(epsilon, batch_size=25))


study = Study(
    name="small",
    targets={"logistic": target},
    samplers={"walk": vary(sampler, epsilon=knob(0.0, 0.05, 0.2))},
    budget=Budget(draws=20),
    tune=5,
    replicates=4,
    gold=None,
    seed=1,
)
