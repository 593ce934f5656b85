"""
Is it biased?
=============

The stationary distribution of a subsampler is not exactly the posterior. This page measures the difference by three
tools: audits during the run, bias with an interval after the run, and bounds from theory if the model is
small.
"""

# %%
# A biased run
# ------------
#
# The t-test stops when its error probability is below epsilon. With epsilon = 0.2 it errs often enough to see
# the bias.

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
fit = amc.laplace(target)
sampler = amc.MetropolisHastings(amc.proposals.Independence(fit), amc.SequentialTTest(epsilon=0.2, batch_size=300))
trace = amc.sample(target, sampler, draws=2000, tune=100, chains=2, random_seed=1, audit_every=3, progressbar=False)

# %%
# Audits: how often is a decision wrong?
# --------------------------------------
#
# Every third decision was repeated on all data. Each cross is a wrong decision.

summary = amc.cost_summary(trace).loc["all"]
print(f"data read: {summary['data_fraction']:.0%}, wrong decisions: {summary['wrong_decision_rate']:.1%}")
amc.plot_decisions(trace, coords={"draw": slice(0, 500)})

# %%
# If the test errs as often as its theory says, the assumptions on the terms hold, and the library's predictions are
# valid.

amc.plot_calibration(trace, sampler.test)

# %%
# Bias, with an interval
# ----------------------
#
# Wrong decisions need not matter: near ties hardly change the stationary distribution. The bias of your estimates
# matters. ``amc.bias`` estimates it from the draws and an exact kernel, with a sign and an interval, and
# needs no gold standard.

biases = amc.bias(trace, target, sampler, n_audits=1000, random_seed=1)
print("verdict:", biases["verdict"].item())
print("because:", biases["reasons"].item())
biases[["bias_sd", "bias", "bias_lower", "bias_upper"]].to_dataframe().round(4)

# %%

means = [f"beta[x{k}]" for k in range(5)]
amc.plot_bias(biases, coords={"estimand": means}, figure_kwargs={"figsize": (9.5, 4.0)})

# %%
# Bounds
# ------
#
# If a model is small enough to compute its transition matrix, theorems bound the distance to the posterior, and the
# table compares them with the measured distance. Its interval must reach below every bound; the
# average-case bound ``b4`` is the sharpest.

field = amc.targets.BinaryMRF.random_triples(6, scale=0.3, random_seed=0)
check = amc.check_bound(
    field,
    amc.Gibbs(amc.SequentialTTest(0.1, 5)),
    epsilons=[0.01, 0.03, 0.1, 0.3],
    draws=20_000,
    chains=2,
    random_seed=1,
    progressbar=False,
)
amc.plot_bound(check)

# %%
# What to do: with the verdict "small", use the draws; with "biased", take a smaller epsilon, use ``amc.debias``, or
# accept the known bias; "inconclusive" says how many audits are needed. See :doc:`/bias`,
# :doc:`/bounds` and :doc:`/diagnose`.
