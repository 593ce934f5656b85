"""
Predicted against audited errors
================================

A sequential t-test says beforehand how often it will err, if the terms of the log-likelihood behave. Audits measure how
often the test did err. Where points lie on the diagonal, the prediction can be trusted. Where they lie above it, the
terms are heavy-tailed, and the test errs more often than predicted.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.04), amc.SequentialTTest(epsilon=0.1, batch_size=300))
trace = amc.sample(target, sampler, draws=8000, tune=300, chains=2, random_seed=1, audit_every=3, progressbar=False)

amc.plot_calibration(trace, sampler.test)
