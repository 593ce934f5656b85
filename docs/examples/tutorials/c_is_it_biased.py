"""
Is it biased?
=============

A sampler that reads few data has a law of its own. This page measures how far that law is from the posterior, by
three tools: audits while it runs, bias with an interval when it has run, and bounds from theory where the model is
small.
"""

# %%
# A biased run
# ------------
#
# The t-test stops when it is nearly sure. With epsilon = 0.2 "nearly" is generous, so that there is something to
# see.

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
fit = amc.laplace(target)
sampler = amc.MetropolisHastings(amc.Independence(fit), amc.SequentialTTest(epsilon=0.2, batch_size=300))
trace = amc.sample(target, sampler, draws=2000, tune=100, chains=2, random_seed=1, audit_every=3, progressbar=False)

# %%
# Audits: how often is a decision wrong?
# --------------------------------------
#
# Every third decision was asked again on all data. Each cross is one that was wrong.

summary = amc.cost_summary(trace).loc["all"]
print(f"data read: {summary['data_fraction']:.0%}, wrong decisions: {summary['wrong_decision_rate']:.1%}")
amc.plot_decisions(trace, coords={"draw": slice(0, 500)})

# %%
# Does the test err as often as its theory says? Then its terms behave, and the predictions of the library can be
# trusted.

amc.plot_calibration(trace, sampler.test)

# %%
# Bias, with an interval
# ----------------------
#
# Wrong decisions need not matter: those that are nearly a tie hardly move the law. What matters is the bias of
# what you report. ``amc.bias`` estimates it from the draws and an exact kernel, with a sign and an interval, and
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
# Where a model is small enough to write its transition matrix down, theorems say how far the law can be off, and
# the measured distance stands beside them. The interval of the distance must reach below every bound; the
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
# What to do with it: a verdict "small" means go on; "biased" means a smaller epsilon, ``amc.debias``, or a bias
# that you can live with, now that you know it; "inconclusive" names how many audits it wants. See :doc:`/bias`,
# :doc:`/bounds` and :doc:`/diagnose`.
