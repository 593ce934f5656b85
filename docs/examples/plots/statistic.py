"""
Distribution of the test statistic
==================================

The t-statistic of a sequential test as it reads more data, at a hard, a medium and an easy decision of one run. Bands
hold nine tenths of its distribution; black marks are the values at which a look decides. A path that leaves above is a
right decision, one that leaves below a wrong one. Hard decisions are near ties: they read most data, and an error in
them does little harm.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.04), amc.SequentialTTest(epsilon=0.1, batch_size=300))
trace = amc.sample(target, sampler, draws=8000, tune=300, chains=2, random_seed=1, audit_every=3, progressbar=False)

amc.plot_statistic(trace, sampler.test)
