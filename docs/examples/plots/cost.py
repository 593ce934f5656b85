"""
Cost against epsilon
====================

The larger epsilon is, the fewer data a decision reads, and the more decisions are wrong.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
runs = {
    epsilon: amc.sample(
        target,
        amc.MetropolisHastings(amc.RandomWalk(0.04), amc.SequentialTTest(epsilon=epsilon, batch_size=300)),
        draws=8000,
        tune=300,
        chains=2,
        random_seed=1,
        audit_every=3,
        progressbar=False,
    )
    for epsilon in (0.01, 0.05, 0.1, 0.2)
}

amc.plot_cost(runs)
