"""
Rare categories: how a subsampler goes wrong
============================================

Real tables have categories with few rows. A sample of rows may then contain none of them, and a sampler that
decides by samples is wrong while its chains agree. This page shows an example, the checks that detect it, and a
solution.
"""

# %%
# Data with a rare category
# -------------------------
#
# Twenty thousand rows, three numbers, and a category of six levels, the rarest with a handful of rows. In these
# rows the response is always 0, as often happens with few rows.

import arviz as az

import approxmcmc as amc
from approxmcmc.datasets import synthetic_categories

data = synthetic_categories(20_000, 3, [6], seed=1)
plain = amc.LogisticRegression(data.X_train, data.y_train, coef_names=data.columns)
for j, name in enumerate(data.columns[3:], start=3):
    print(f"{name}: {(data.X_train[:, j] > data.X_train[:, j].mean()).sum()} rows")
rarest = data.columns[-1]

# %%
# A fast sampler
# --------------
#
# Control variates replace each row's term by a quadratic, and a t-test reads rows until it can decide about the
# residuals. On data without rare categories this reads few rows and is right.

expanded = amc.ControlVariate(plain)
test = amc.SequentialTTest(epsilon=0.05, batch_size=64, growth=2, tol=0.05)
walk = amc.RandomWalk(0.8, preconditioner=expanded.laplace)
fast = amc.sample(
    expanded,
    amc.MetropolisHastings(walk, test),
    draws=4000,
    tune=500,
    chains=2,
    random_seed=1,
    audit_every=50,
    progressbar=False,
)
print(f"R-hat: {float(az.rhat(fast)['beta'].max()):.3f}")
print(f"data read by a step: {amc.cost_summary(fast).loc['all', 'data_fraction']:.1%}")

# %%
# How to detect it
# ----------------
#
# R-hat is near 1: chains that are wrong in the same way agree. But every fiftieth decision was repeated on all
# data, and more of them were wrong than the test promises. These checks failed:

checks = amc.diagnose(fast)
checks[~checks["verdict"].isin(["ok", "not checked"])]

# %%
# The solution
# ------------
#
# ``always_read="auto"`` finds the rows that can matter much. They are read in every decision, and the test decides on
# the others; here an exact test adds up all the others, so the chain is exact.

split = amc.ControlVariate(plain, always_read="auto")
print(f"{len(split.always_read)} of {plain.n_obs} rows are influential")
exact = amc.sample(
    split,
    amc.MetropolisHastings(amc.SurrogateTransition(), amc.ExactTest()),
    draws=4000,
    tune=500,
    chains=2,
    random_seed=1,
    progressbar=False,
)
checks = amc.diagnose(exact)
print("fired:", int((~checks["verdict"].isin(["ok", "not checked"])).sum()))

# %%
# Side by side
# ------------

runs = {"control variates, t-test": fast, "influential rows, exact": exact}
figure = az.plot_dist(runs, var_names="beta", coords={"coef": [rarest, "x1"]}, visuals={"point_estimate_text": False})
figure.add_legend("model")

# %%
# Errors of the means, in posterior standard deviations:

sd = exact.posterior["beta"].std(("chain", "draw"))
shift = (fast.posterior["beta"].mean(("chain", "draw")) - exact.posterior["beta"].mean(("chain", "draw"))) / sd
for name in data.columns:
    print(f"{name:>14}: {float(shift.sel(coef=name)):+.2f}")

# %%
# Summary: a subsampler is wrong if few rows determine the answer; its chains do not show it; audits do. Without a
# named sampler, :func:`approxmcmc.sample` searches for such rows and tries influential rows. More on
# :doc:`/samplers/influential_rows`, and results on real data on :doc:`/real_data`.
