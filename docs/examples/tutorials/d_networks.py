"""
Networks and lattices
=====================

Random graphs and Ising models have a likelihood that is too expensive to compute: its normalising constant is a sum
over all graphs, or all lattices, and depends on the parameters. Exchange samplers use simulated data instead. On a
small lattice the exact answer is known too, and is shown for comparison.
"""

# %%
# Data: business among families
# -----------------------------
#
# Sixteen families of Renaissance Florence, and who did business with whom. An exponential random graph model says
# how many ties to expect, and whether they gather at some families ("two-stars").

import arviz as az
import matplotlib.pyplot as plt
import numpy as np

import approxmcmc as amc

ties = amc.datasets.florentine_business()
angle = np.linspace(0, 2 * np.pi, len(ties.labels), endpoint=False)
x, y = np.cos(angle), np.sin(angle)
figure, axes = plt.subplots(figsize=(4.6, 4.2))
for i, j in zip(*np.nonzero(np.triu(ties.adjacency)), strict=True):
    axes.plot(x[[i, j]], y[[i, j]], color="C0", linewidth=1)
axes.scatter(x, y, color="C0")
for label, a, b in zip(ties.labels, x, y, strict=True):
    axes.annotate(label, (1.18 * a, 1.12 * b), ha="center", va="center", fontsize=8)
axes.set(xlim=(-1.5, 1.5), ylim=(-1.25, 1.25), aspect="equal")
axes.axis("off")

# %%
# The model
# ---------

graph = amc.targets.ERGM(ties.adjacency, statistics=("edges", "two_stars"), prior_scale=3.0)
print("edges and two-stars:", graph.observed_statistics)

# %%
# Exchange proposes a theta, simulates a network there, and compares it with the observed one. The network is the last
# state of a chain that proposes toggles; a toggle adds or removes a tie. In the first run this chain proposes 2400
# toggles, from the empty graph and from the full one in turn; in the second 100, from the empty graph. The two
# parameters are correlated, so the walk uses the covariance of the posterior.

walk = amc.RandomWalk(1.7, preconditioner=[[0.23, -0.042], [-0.042, 0.0108]])
runs = {
    "2400 toggles, both ends": amc.Exchange(walk, auxiliary=amc.targets.AuxiliaryChain(2400, "both")),
    "100 toggles, empty": amc.Exchange(walk, auxiliary=amc.targets.AuxiliaryChain(100, "empty")),
}
traces = {
    name: amc.sample(
        graph, sampler, draws=10_000, tune=500, chains=2, random_seed=1, audit_every=100, progressbar=False
    )
    for name, sampler in runs.items()
}
az.plot_dist(traces, var_names="theta", visuals={"point_estimate_text": False}).add_legend("model")

# %%
# The same data, the same model, and two answers, each with a good R-hat and without a warning: **a chain of
# toggles that is too short biases the sampler**. The exact posterior mean under a flat prior is (-2.27, 0.07), see
# :doc:`/samplers/doubly_intractable_targets`. R-hat and effective sample sizes describe how a chain moves, not
# whether its distribution is the posterior. Compare lengths and starts, as here, or simulate exactly where
# the target can (``auxiliary="exact"``).

for name, trace in traces.items():
    mean, rhat = trace.posterior["theta"].mean(("chain", "draw")).values, az.rhat(trace)["theta"].max().item()
    print(f"{name}: mean {mean.round(2)}, R-hat {rhat:.3f}")

# %%
# An Ising model
# --------------
#
# A lattice of spins, and how strongly neighbours agree. If the shorter side has at most sixteen spins, the normaliser
# is known, and the draws must follow the exact posterior density.

rng = np.random.default_rng(3)
spins = rng.choice([-1, 1], size=(12, 12))  # with a frame of zeros, which are no neighbours
spins[[0, -1]] = spins[:, [0, -1]] = 0
for _ in range(40):  # Gibbs sweeps at theta = 0.3
    for i, j in np.ndindex(10, 10):
        neighbours = spins[i, j + 1] + spins[i + 2, j + 1] + spins[i + 1, j] + spins[i + 1, j + 2]
        spins[i + 1, j + 1] = 1 if rng.random() < 1 / (1 + np.exp(-0.6 * neighbours)) else -1
spins = spins[1:-1, 1:-1]
lattice = amc.targets.Ising(spins, prior_bounds=(-0.4, 0.8))
trace = amc.sample(
    lattice, amc.Exchange(amc.RandomWalk(0.2)), draws=3000, tune=300, chains=2, random_seed=1, progressbar=False
)

grid = np.linspace(-0.05, 0.5, 111)
density = np.exp(lattice.log_densities(grid[:, None]) - lattice.log_densities(grid[:, None]).max())
density /= density.sum() * (grid[1] - grid[0])
figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), width_ratios=(2, 3), layout="constrained")
left.imshow(spins, cmap="gray_r")
left.set(xticks=[], yticks=[], title="the spins")
right.hist(trace.posterior["theta"].values.ravel(), bins=40, density=True, alpha=0.5, label="draws")
right.plot(grid, density, label="exact posterior")
right.set(xlabel="theta", ylim=(0, 1.35 * density.max()))
right.legend(fontsize=9)

# %%
# More: :doc:`/samplers/doubly_intractable_targets`, :doc:`/samplers/noisy_monte_carlo`.
