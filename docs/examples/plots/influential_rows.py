"""
Influential rows
================

For each row: by how much its term of the log-likelihood differs from a quadratic over the posterior, largest first. The
rows of a rare category are influential: these are read in every decision. The terms of all others hardly differ from
their quadratics, so that a test can sample the differences.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_categories

data = synthetic_categories(20_000, 3, [6], seed=1)
target = amc.ControlVariate(
    amc.LogisticRegression(data.X_train, data.y_train, coef_names=data.columns), always_read="auto"
)
sampler = amc.MetropolisHastings(amc.SurrogateTransition(), amc.ExactTest())
trace = amc.sample(target, sampler, draws=1000, tune=100, chains=2, random_seed=1, progressbar=False)

amc.plot_influential_rows(trace, target)
