"""
Combined with plots of ArviZ
============================

Every trace is an ArviZ trace, and the plots of both libraries combine: the data that each draw read, as
a trace with its distribution, and as decisions.
"""

import arviz as az

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
sampler = amc.MetropolisHastings(amc.RandomWalk(0.04), amc.SequentialTTest(epsilon=0.1, batch_size=300))
trace = amc.sample(target, sampler, draws=8000, tune=300, chains=2, random_seed=1, audit_every=3, progressbar=False)

az.combine_plots(
    trace.isel(draw=slice(0, 600)),
    [(az.plot_dist, {}), (amc.plot_decisions, {"visuals": {"wrong": {"marker": "X", "size": 40}}})],
    group="sample_stats",
    var_names="datapoints_touched",
    figure_kwargs={"figsize": (9, 3.4), "figsize_units": "inches", "layout": "constrained"},
)
