"""
Your first tall-data model
==========================

From a DataFrame to an answer that you can trust: a logistic regression on forty thousand rows, sampled in seconds,
with what it cost and whether it is right.
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
# Standardise the columns: then one prior suits all coefficients, and samplers move at one pace in every direction.
# A DataFrame's columns become the labels of ``beta``.

target = amc.targets.LogisticRegression(standardised, table["returns"], prior_scale=1.0, intercept=True)
print(target)

# %%
# Sampling
# --------
#
# Without a sampler, the library tries several in short runs and takes what answers first. The trace says what it
# took, and why; another computer may choose otherwise.

trace = amc.sample(target, target_ess=400, chains=4, random_seed=1, progressbar=False)
print(trace.posterior.attrs["chosen"])

# %%
# The trace is an ArviZ trace, and everything that you know works on it.

az.summary(trace)

# %%

az.plot_trace_dist(trace)

# %%
# What did it cost?
# -----------------
#
# ``data_fraction`` is the share of the rows that a step read: 1 where all of them are read, as an exact test does.
# With four coefficients and a posterior that is nearly normal that is soon done, and nothing faster was worth a
# bias. On millions of rows, or with rare categories, another sampler wins.

amc.cost_summary(trace)[["draws", "data_fraction", "decisions_made", "wrong_decision_rate", "seconds"]]

# %%
# Is it right?
# ------------
#
# A run warns by itself when something is wrong. The table shows every check, those that passed as well. A check
# that could not be made says so; it never counts as passed.

amc.diagnose(trace)

# %%
# The coefficients that made the data were 0.5, 0.8 and -0.6, and the intercept -0.4: all are within two standard
# deviations of what was found.
#
# Next: :doc:`b_rare_categories` shows data on which fast samplers go wrong, :doc:`c_is_it_biased` asks how far a
# biased one is off, and :doc:`/choosing` says how the sampler was chosen.
