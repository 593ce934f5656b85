"""
A formula, or a table with text
===============================

Most regressions are written as ``y ~ x + kind + (1|group)``. A model of `Bambi <https://bambinos.github.io/bambi/>`_ is
sampled unchanged, and Bambi's functions read the trace. Without groups a table is enough.
"""

# %%
# A formula
# ---------

import warnings

import arviz as az
import bambi
import numpy as np
import pandas as pd

import approxmcmc as amc

warnings.filterwarnings("ignore", category=DeprecationWarning)  # pandas warns about the way formulas select columns

rng = np.random.default_rng(2014)
n = 5_000
table = pd.DataFrame(
    {
        "distance": rng.gamma(2.0, 1.0, size=n),
        "kind": rng.choice(["letter", "parcel", "pallet"], p=[0.6, 0.35, 0.05], size=n),
        "depot": rng.choice([f"depot {k}" for k in range(20)], size=n),
    }
)
effects = {"letter": 0.0, "parcel": 0.6, "pallet": 1.5}
depots = dict(zip(sorted(table["depot"].unique()), 0.5 * rng.normal(size=20), strict=True))
mean = 1.0 + 0.4 * table["distance"] + table["kind"].map(effects) + table["depot"].map(depots)
table["days"] = mean + rng.normal(size=n)

formula = bambi.Model("days ~ distance + kind + (1|depot)", table)
trace = amc.sample(formula, random_seed=1, progressbar=False)
print(trace.posterior.attrs["chosen"])
print(az.summary(trace, var_names=["Intercept", "distance", "kind", "1|depot_sigma"]))

# %%
# The trace has the variables that ``formula.fit()`` returns: the intercept is that of the predictors as given, and
# ``1|depot`` holds the effects of the depots. So predictions are Bambi's:

new = pd.DataFrame({"distance": [1.0, 4.0], "kind": ["letter", "pallet"], "depot": ["depot 0", "depot 1"]})
print(formula.predict(trace, data=new, inplace=False).posterior["mu"].mean(("chain", "draw")).values)

# %%
# A table
# -------
#
# ``LogisticRegression`` and ``GLMTarget`` take a table with columns of text or categories. Each of these columns is a
# variable with the effects of its levels, relative to a named reference level; a column adds one addition per row to
# the cost, for any number of levels.

late = (table["days"] > 4.0).astype(int)
target = amc.LogisticRegression(table[["distance", "kind"]], late, intercept=True)
print(target)
trace = amc.sample(target, random_seed=1, progressbar=False)
print(trace.posterior["kind"].mean(("chain", "draw")))

# %%
# ``predict`` matches new rows by the names of their columns; for each it gives the probability and its uncertainty:

print(amc.predict(trace, target, new, interval=0.94).predictions["y_mean"].to_pandas().T.round(3))
