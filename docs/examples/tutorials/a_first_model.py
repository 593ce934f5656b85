"""
Your first tall-data model
==========================

From a DataFrame to an answer that you can trust: a logistic regression on forty thousand rows, sampled in seconds,
with its cost and its checks. Install the library in a clone by ``python3 -m pip install .``
"""

# %%
# The data
# --------
#
# A table with named columns, as you would read it from a file. Whether a customer comes back depends on age, on
# what was bought, and on how far away the shop is.

import arviz as az
import numpy as np
import pandas as pd

import approxmcmc as amc

rng = np.random.default_rng(1)
n = 40_000
table = pd.DataFrame({"age": rng.normal(45, 12, n), "bought": rng.gamma(2, 30, n), "km": rng.exponential(4, n)})
standardised = (table - table.mean()) / table.std()
logit = -0.4 + 0.5 * standardised["age"] + 0.8 * standardised["bought"] - 0.6 * standardised["km"]
table["returns"] = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
table.head()

# %%
# The model
# ---------
#
# Standardise the columns, so that one prior suits all coefficients and all directions have a similar scale.
# A DataFrame's columns become the labels of ``beta``.

target = amc.targets.LogisticRegression(standardised, table["returns"], prior_scale=1.0, intercept=True)
print(target)

# %%
# Sampling
# --------
#
# Without a sampler, the library tries several in short runs and takes the fastest. The trace says which one, and
# why; another kind of processor may give another choice.

trace = amc.sample(target, target_ess=400, chains=4, random_seed=1, progressbar=False)
print(trace.posterior.attrs["chosen"])

# %%
# The trace is an ArviZ trace: all of ArviZ's functions work on it.

az.summary(trace)

# %%

az.plot_trace_dist(trace)

# %%
# What did it cost?
# -----------------
#
# ``data_fraction`` is the share of the rows that a step reads: 1 if it reads all of them, as an exact test does.
# With four coefficients and a nearly normal posterior this is fast enough, and no faster sampler was worth its
# bias. On millions of rows, or with rare categories, another sampler wins.

amc.cost_summary(trace)[["draws", "data_fraction", "decisions_made", "wrong_decision_rate", "seconds"]]

# %%
# Is it right?
# ------------
#
# Every run is checked, and warns about problems. The table shows every check, including passed ones. A check that
# could not be made is "not checked"; it never counts as passed.

amc.diagnose(trace)

# %%
# The true coefficients are 0.5, 0.8 and -0.6, and the intercept -0.4: all are within two posterior standard
# deviations of the posterior means.
#
# Next: :doc:`/diagnose` explains the checks, and :doc:`/choosing` how the sampler was chosen. Later,
# :doc:`b_rare_categories` shows data on which fast samplers go wrong, and :doc:`c_is_it_biased` measures the bias of
# a run.
