"""
Your first tall-data model
==========================

From a DataFrame to predictions: a logistic regression on 300 000 rows with a column of text. The chains read less than
one row at a step, and are exact. Install the library in a clone by ``python3 -m pip install .``
"""

# %%
# The data
# --------
#
# A table with named columns, as you would read it from a file. Whether a customer comes back depends on age, on what
# was bought, on how far away the shop is, and on the channel, which is a text.

import time

import arviz as az
import numpy as np
import pandas as pd

import approxmcmc as amc

rng = np.random.default_rng(1)
n = 300_000
table = pd.DataFrame({"age": rng.normal(45, 12, n), "bought": rng.gamma(2, 30, n), "km": rng.exponential(4, n)})
table = (table - table.mean()) / table.std()
table["channel"] = rng.choice(["phone", "shop", "web"], n, p=[0.05, 0.6, 0.35])
logit = -1.1 + 0.5 * table["age"] + 0.8 * table["bought"] - 0.6 * table["km"]
logit += table["channel"].map({"phone": 0.0, "shop": 0.7, "web": 1.1})
returns = rng.random(n) < 1 / (1 + np.exp(-logit))
table.head()

# %%
# The model
# ---------
#
# The numbers are standardised, so that one prior suits all coefficients. A column of text has an effect for each level
# but the reference level.

target = amc.LogisticRegression(table, returns, prior_scale=1.0, intercept=True)
print(target)

# %%
# Sampling
# --------
#
# Without a sampler, the library compares exact samplers: it computes a lower bound of the seconds that each needs, and
# tries those in short runs that may be the fastest. The trace says which one was chosen, and why; another kind of
# processor may give another choice.

began = time.perf_counter()
trace = amc.sample(target, target_ess=400, random_seed=1, progressbar=False)
print(f"{time.perf_counter() - began:.1f} s, of which {trace.posterior.attrs['setup_compile_seconds']:.1f} s compiling")
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
# ``data_fraction`` is the share of the rows that a step reads. Before the run, the library finds the mode of the
# posterior, in a few passes over the rows; with what it keeps of them, a step can decide exactly from very few rows.
# A Metropolis step reads all of them. (The few draws of the second run only show its cost.)

print(f"before the run: {trace.posterior.attrs['setup_mode_passes']} passes over the rows")
walk = amc.MetropolisHastings(amc.RandomWalk(0.005, target_acceptance=0.3), amc.ExactTest())
every_row = amc.sample(target, walk, draws=50, tune=50, random_seed=1, progressbar=False)
costs = {name: amc.cost_summary(run).loc["all"] for name, run in {"chosen": trace, "every row": every_row}.items()}
for name, cost in costs.items():
    print(f"{name}: a step reads {cost['data_fraction'] * n:,.2f} rows, in {1e6 * cost['seconds_per_draw']:,.0f} µs")
assert costs["chosen"]["data_fraction"] * n < 1.0
assert trace.posterior.attrs["why_not_invariant"] == ""  # the sampler is exact
assert costs["every row"]["data_fraction"] == 1.0

# %%
# Is it right?
# ------------
#
# Every run is checked, and warns about problems. The table shows every check, including passed ones. A check that
# could not be made is "not checked"; it never counts as passed.

checks = amc.diagnose(trace)
assert not checks["verdict"].isin(["failure", "warning"]).any()
checks.head(20)

# %%
# The data are simulated, so the true coefficients are known. The table has the distance of each posterior mean from
# the truth in posterior standard deviations.

posterior = trace.posterior
truth = {"beta": [-1.1, 0.5, 0.8, -0.6], "channel": [0.7, 1.1]}
distances = {
    name: ((posterior[name].mean(("chain", "draw")) - truth[name]) / posterior[name].std(("chain", "draw"))).to_series()
    for name in truth
}
assert all(distance.abs().max() < 4.0 for distance in distances.values())
pd.concat(distances).round(1)

# %%
# Predictions
# -----------
#
# New rows are a table with the same columns. ``kind="response"`` draws responses; the mean is the probability that a
# customer comes back, here with an interval of 94 %.

customers = pd.DataFrame(
    {"age": [0.0, 0.0, 2.0], "bought": [0.0, 0.0, 1.0], "km": [0.0, 0.0, -1.0], "channel": ["web", "phone", "shop"]}
)
predicted = amc.predict(trace, target, customers, interval=0.94)
predicted.predictions.y_mean.to_pandas().T.round(3)

# %%
# Next: :doc:`/diagnose` explains the checks, :doc:`/choosing` how the sampler was chosen, and :doc:`/prediction`
# what can be predicted. Later, :doc:`b_rare_categories` shows data on which fast samplers go wrong, and
# :doc:`c_is_it_biased` measures the bias of a run.
