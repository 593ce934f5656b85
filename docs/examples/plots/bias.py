"""
Bias with an interval
=====================

How far is each mean off, without a gold standard? Left: how far exact steps move the means; where the curve has
levelled off, its value is the bias. Right: the bias of each estimand, in posterior standard deviations, with its
interval. The grey lines are at ±0.05.
"""

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
proposal = amc.proposals.Independence(amc.laplace(target))
sampler = amc.MetropolisHastings(proposal, amc.SequentialTTest(epsilon=0.2, batch_size=300))
trace = amc.sample(target, sampler, draws=8000, tune=100, chains=2, random_seed=1, progressbar=False)

biases = amc.bias(trace, target, sampler, n_audits=1000, random_seed=1)
print(biases["verdict"].item())
means = [f"beta[x{k}]" for k in range(5)]
amc.plot_bias(biases, coords={"estimand": means}, figure_kwargs={"figsize": (9.5, 4.0)})
