"""
Firefly: exact, and most of the data stay dark
==============================================

Firefly Monte Carlo reads a handful of rows in most steps, and its law is the posterior, not something close to it. The
price is a lower bound of every row's likelihood. This page shows the bound, the chain, what a good bound is worth,
and when to leave it.
"""

# %%
# A bound below the likelihood
# ----------------------------
#
# Take a logistic regression. Each row's likelihood is a curve in its predictor, and a Gaussian can lie below that curve
# and touch it at one place. Where they touch, the row tells nothing that the bound does not know: it stays *dark*. The
# further apart they are, the likelier the row is *bright* and has to be read. Bounds are products of Gaussians, and
# the product over all rows costs no more than one of them.

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
# and touches there, for each row at its own predictor. Steps are those of a random walk, tuned for each chain; the
# third chain reads everything.

X, y = synthetic_logistic(n=20_000, d=3, seed=1)
target = amc.targets.LogisticRegression(X, y, prior_scale=1.0)
walk = amc.RandomWalk(0.03, target_acceptance=0.234)
samplers = {
    "all rows": amc.MetropolisHastings(walk, amc.ExactTest()),
    "Firefly, untuned": amc.Firefly(walk, bound="untuned", z_update=amc.ImplicitZ(q=0.1)),
    "Firefly, tuned": amc.Firefly(walk, bound="tuned", z_update=amc.ImplicitZ(q=0.01)),
}
traces = {
    name: amc.sample(target, sampler, draws=6000, tune=2000, chains=2, random_seed=1, progressbar=False)
    for name, sampler in samplers.items()
}

# %%
# How many rows are bright in each step? The chain starts with a row's brightness drawn for the first theta, and
# settles at once.

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
# Yes, with either bound: they change the cost, not the law. Differences are noise, and the chains differ in how much of
# it they have.

names = ["x0", "x1"]
az.plot_dist(traces, var_names="beta", coords={"coef": names}, visuals={"point_estimate_text": False}).add_legend(
    "model"
)

# %%
# What does it buy?
# -----------------
#
# A step of Firefly is smaller, because the bright rows hold theta where it is: it takes more steps for an independent
# draw. What counts is effective draws for each term that was evaluated, or for each second.

print(f"{'':18}{'evaluations a step':>20}{'smallest ESS':>14}{'ESS per million evaluations':>30}")
for name, trace in traces.items():
    evaluations = trace.sample_stats["likelihood_evaluations"]
    ess = float(az.ess(trace)["beta"].min())
    print(f"{name:18}{float(evaluations.mean()):>20,.0f}{ess:>14.0f}{1e6 * ess / float(evaluations.sum()):>30.2f}")

# %%
# When to leave it
# ----------------
#
# An evaluation costs more in Firefly than in a pass over all rows, where rows lie side by side: on MNIST untuned bounds
# read half of the data, and lose on the clock. Tuned bounds win where the mode is found quickly and the likelihood is
# one of those that have a bound (logistic, softmax, robust regression, or one of your own). On the same models
# :class:`approxmcmc.CoreRows` and :class:`approxmcmc.ControlVariate` are usually faster still: :doc:`/race` has the
# figures. More on :doc:`/samplers/firefly`.
