"""
Decisions along a chain
=======================

How many data each draw read, and which of the audited decisions were wrong. A point is a draw, a cross a decision that
differs from the one on all data. Most decisions are easy and stop at the first look.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.04), amc.SequentialTTest(epsilon=0.1, batch_size=300))
trace = amc.sample(target, sampler, draws=8000, tune=300, chains=2, random_seed=1, audit_every=3, progressbar=False)

amc.plot_decisions(trace, coords={"draw": slice(0, 600)})
