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
# The t-test stops when its error probability is below epsilon. With epsilon = 0.2 it reads few rows and errs often. The
# steps of a random walk are small, so most decisions are near ties, and a chain makes many of them before it forgets
# their errors.

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

X, y = synthetic_logistic(n=5_000, d=5, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
test = amc.SequentialTTest(epsilon=0.2, batch_size=300)
walk = amc.MetropolisHastings(amc.RandomWalk(0.05), test)
trace = amc.sample(target, walk, draws=16_000, tune=500, random_seed=1, audit_every=3, progressbar=False)

# %%
# Audits: how often is a decision wrong?
# --------------------------------------
#
# Every third decision was repeated on all data. Each cross is a wrong decision.

summary = amc.cost_summary(trace).loc["all"]
print(f"data read: {summary['data_fraction']:.0%}, wrong decisions: {summary['wrong_decision_rate']:.1%}")
assert summary["data_fraction"] < 0.5
assert summary["wrong_decision_rate"] > 0.1
amc.plot_decisions(trace, coords={"draw": slice(0, 500)})

# %%
# If the test errs as often as its theory says, the assumptions on the terms hold, and the library's predictions are
# valid.

amc.plot_calibration(trace, test)

# %%
# Bias, with an interval
# ----------------------
#
# ``amc.bias`` estimates the bias of each mean from the draws and an exact kernel, with a sign and an interval, and
# needs no gold standard. The means of the coefficients are nearly right, but their variances are too large: a wrong
# decision lets the chain go further from the mode than the posterior allows.

biases = amc.bias(trace, target, walk, n_audits=1000, random_seed=1)
print("verdict:", biases["verdict"].item())
print("because:", biases["reasons"].item())
means = [f"beta[x{k}]" for k in range(5)]
squares = [f"({name} - mean)^2" for name in means]
assert biases["verdict"] == "biased"
assert (biases["bias_lower"].sel(estimand=squares) > 0.0).all()
biases[["bias_sd", "bias", "bias_lower", "bias_upper"]].to_dataframe().round(4)

# %%

amc.plot_bias(biases, coords={"estimand": squares}, figure_kwargs={"figsize": (9.5, 4.0)})

# %%
# In these draws the variances stay wrong however long the run is, while the error of an exact chain falls with its
# length: in a long run this sampler loses.
#
# The same test, another proposal
# -------------------------------
#
# Wrong decisions need not matter. Proposals that are drawn from a normal approximation of the posterior do not depend
# on the state, so that a chain soon forgets an error. The test is the same, and errs often, too.

fit = amc.laplace(target)
independent = amc.MetropolisHastings(amc.proposals.Independence(fit), test)
settings = {"draws": 2000, "tune": 100, "chains": 2, "random_seed": 1, "audit_every": 3, "progressbar": False}
forgetful = amc.sample(target, independent, **settings)
summary = amc.cost_summary(forgetful).loc["all"]
print(f"data read: {summary['data_fraction']:.0%}, wrong decisions: {summary['wrong_decision_rate']:.1%}")
less = amc.bias(forgetful, target, independent, n_audits=1000, random_seed=1)
print("verdict:", less["verdict"].item())
print("because:", less["reasons"].item())
assert less["verdict"] == "small"
amc.plot_bias(less, coords={"estimand": squares}, figure_kwargs={"figsize": (9.5, 4.0)})

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
