"""
Firefly: exact, and most of the data stay dark
==============================================

Firefly Monte Carlo reads few rows in most steps, and its stationary distribution is exactly the posterior. It needs a
lower bound of every row's likelihood. This page shows the bound, the chain, the effect of a good bound, and when to
use another sampler.
"""

# %%
# A bound below the likelihood
# ----------------------------
#
# Take a logistic regression. Each row's likelihood is a curve in its predictor, and a Gaussian can lie below that curve
# and touch it at one place. Where they touch, the row adds no information to the bound: it stays *dark*. The further
# apart they are, the likelier the row is *bright* and must be read. Each bound is a Gaussian in theta, so the product
# over all rows is one Gaussian, and costs the same for any number of rows.

import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic

eta = np.linspace(-6, 6, 400)
likelihood = 1 / (1 + np.exp(-eta))
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
left.plot(eta, likelihood, color="black", label="likelihood")
for touches, color in ((1.5, "C0"), (3.0, "C1")):
    curvature = np.tanh(touches / 2) / (4 * touches)
    bound = 1 / (1 + np.exp(-touches)) * np.exp((eta - touches) / 2 - curvature * (eta**2 - touches**2))
    left.plot(eta, bound, color=color, label=f"bound that touches at ±{touches}")
    right.plot(eta, 1 - bound / likelihood, color=color)
left.set(xlabel="predictor of a row", title="one row's likelihood")
left.legend(fontsize=8)
right.set(xlabel="predictor of a row", title="chance to be bright", ylim=(0, 1))

# %%
# Two chains
# ----------
#
# ``bound="untuned"`` touches at the same place for every row. ``bound="tuned"`` finds the mode of the posterior first,
# and touches there, for each row at its own predictor. Steps are random walks, tuned for each chain; the
# third chain reads all rows.

X, y = synthetic_logistic(n=20_000, d=3, seed=1)
target = amc.LogisticRegression(X, y, prior_scale=1.0)
walk = amc.RandomWalk(0.03, target_acceptance=0.234)
samplers = {
    "all rows": amc.MetropolisHastings(walk, amc.ExactTest()),
    "Firefly, untuned": amc.Firefly(walk, bound="untuned", z_update=amc.samplers.ImplicitResampling(q=0.1)),
    "Firefly, tuned": amc.Firefly(walk, bound="tuned", z_update=amc.samplers.ImplicitResampling(q=0.01)),
}
traces = {
    name: amc.sample(target, sampler, draws=6000, tune=2000, chains=2, random_seed=1, progressbar=False)
    for name, sampler in samplers.items()
}

# %%
# Bright rows in each step. The chain draws its first brightness given the first theta, so brightness needs no burn-in.

figure, axes = plt.subplots(figsize=(8.4, 3.0), layout="constrained")
for name in ("Firefly, untuned", "Firefly, tuned"):
    axes.plot(traces[name].sample_stats["bright_count"].sel(chain=0), label=name, linewidth=0.8)
axes.axhline(target.n_obs, color="black", linewidth=1)
axes.annotate("all rows", (0, 0.8 * target.n_obs), va="top", fontsize=9)
axes.set(yscale="log", xlabel="draw", ylabel="bright rows")
axes.legend(fontsize=9)

# %%
# Is it exact?
# ------------
#
# Yes, with either bound: they change the cost, not the stationary distribution. Differences are noise, which is
# larger for chains that mix slowly.

names = ["x0", "x1"]
az.plot_dist(traces, var_names="beta", coords={"coef": names}, visuals={"point_estimate_text": False}).add_legend(
    "model"
)

# %%
# What is the gain?
# -----------------
#
# Steps of Firefly are smaller, because the bright rows restrict theta: an independent draw takes more steps. Compare
# effective draws for each evaluated term, or for each second.

print(f"{'':18}{'evaluations a step':>20}{'smallest ESS':>14}{'ESS per million evaluations':>30}")
for name, trace in traces.items():
    evaluations = trace.sample_stats["likelihood_evaluations"]
    ess = float(az.ess(trace)["beta"].min())
    print(f"{name:18}{float(evaluations.mean()):>20,.0f}{ess:>14.0f}{1e6 * ess / float(evaluations.sum()):>30.2f}")

# %%
# When to use another sampler
# ---------------------------
#
# An evaluation costs more in Firefly than in a pass over all rows, where rows are contiguous: on MNIST untuned bounds
# read half of the data, and are slower. Tuned bounds win if the mode is found quickly and the likelihood has a bound
# (logistic, softmax, robust regression, or your own). On the same models
# :class:`approxmcmc.ControlVariate`, with ``always_read`` or without, is usually faster still: :doc:`/race` has their
# numbers. More on :doc:`/samplers/firefly`.
