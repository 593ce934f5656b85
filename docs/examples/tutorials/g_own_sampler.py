"""
Your own sampler in the comparison
==================================

You have written a sampler, and want to compare it. With one method it takes part in a study together with those of
the library: the same data, starts and clock, interleaved replicates, and a bias with an interval. This page does so
with stochastic gradient Langevin dynamics in plain NumPy.
"""

# %%
# One dataclass, one method
# -------------------------
#
# ``run`` makes one chain and times each draw. The arguments are the sampler's inputs: a target with its data
# and prior, a time limit, a number of draws, a seed, and the start that all samplers of the same replicate share. SGLD
# moves by half the step size times the gradient, estimated from a batch of rows, adds noise with the step size as
# variance, and never rejects.

import dataclasses
import tempfile
import time

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import synthetic_logistic
from approxmcmc.study import Budget, Study, knob, vary
from approxmcmc.whole_chains import ChainSampler, chain_trace


@dataclasses.dataclass(frozen=True, eq=False)
class NumPySGLD(ChainSampler):
    step_size: float
    batch_size: int = 100
    tune: int = 500

    def draw_chain(self, target, *, seconds, draws, seed, initial):
        rng, theta, n = np.random.default_rng(seed), initial.copy(), target.n_obs
        thetas, ends, began = [], [], time.perf_counter()
        while len(thetas) < self.tune + draws and (seconds is None or time.perf_counter() - began < seconds):
            rows = rng.integers(0, n, self.batch_size)
            X, y = target.X[rows], target.y[rows]
            gradient = n / self.batch_size * X.T @ (y - 1 / (1 + np.exp(-X @ theta)))
            gradient -= theta / target.prior.scale**2
            theta = theta + self.step_size / 2 * gradient + self.step_size**0.5 * rng.standard_normal(len(theta))
            thetas.append(theta)
            ends.append(time.perf_counter() - began)
        kept = np.array(thetas[self.tune :])
        return chain_trace(
            self,
            target,
            kept,
            seconds=np.diff(ends)[self.tune - 1 :],
            warmup_seconds=ends[self.tune - 1],
            warmup_steps=self.tune,
            gradients=np.ones(len(kept)),
            rows_per_gradient=self.batch_size,
        )


# %%
# The comparison
# --------------
#
# Two step sizes of this sampler, and an exact random walk.


def regression():
    X, y = synthetic_logistic(n=20_000, d=5, seed=1)
    return amc.LogisticRegression(X, y, prior_scale=1.0)


study = Study(
    name="own_sampler",
    reference="Welling and Teh (2011), on synthetic data",
    targets={"logistic": regression},
    samplers={
        "exact_walk": amc.MetropolisHastings(amc.RandomWalk(0.02), amc.ExactTest()),
        "my_sgld": vary(NumPySGLD, step_size=knob(2e-4, 2e-5)),
    },
    budget=Budget(seconds=1.0),
    tune=300,
    replicates=4,
    gold=None,
)
results = study.run("paper", tempfile.mkdtemp())
results.records.groupby("label")[["draws", "wall_seconds"]].mean().round(1)

# %%
# The result
# ----------
#
# Risk is bias² + variance of a mean after so many seconds, here against a long exact chain with better proposals. A
# line that levels off is a bias; one that falls slowly, a chain that moves slowly.

target = regression()
exact = amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target)), amc.ExactTest())
reference = amc.sample(target, exact, draws=4000, tune=50, random_seed=2, progressbar=False)
estimands = {
    "beta[x0]": lambda posterior: posterior["beta"].sel(coef="x0"),
    "its square": lambda posterior: posterior["beta"].sel(coef="x0") ** 2,
}
traces = {label: chains for (_, label), chains in results.traces().items()}
amc.plot_risk({label: amc.risk(chains, reference, estimands=estimands) for label, chains in traces.items()})

# %%
# Without a reference
# -------------------
#
# A reference is expensive on your own data. ``amc.bias`` needs none: it starts exact chains from your draws, and
# measures how far they move the means. ``sampler=None`` says that the draws come from elsewhere.

mine = next(chains for label, chains in traces.items() if "0.0002" in label)
biases = amc.bias(mine[0], target, None, n_audits=2000, random_seed=1)
print(biases["verdict"].item(), "-", biases["reasons"].item())
shown = ["beta[x0]", "(beta[x0] - mean)^2", "lp"]
amc.plot_bias(biases, coords={"estimand": shown}, figure_kwargs={"figsize": (9.5, 5.5)})

# %%
# Summary: a foreign sampler is a frozen dataclass with ``run``. For a fair comparison, exclude compilation and set-up
# from the clock and include warm-up, as :func:`approxmcmc.whole_chains.chain_trace` requires. Samplers of nutpie, PyMC,
# blackjax and numpyro are available: :doc:`/studies`. An existing trace, from any library that writes ArviZ's format,
# needs no study: ``amc.risk(trace, reference, clock=12.3)``. To build on the compiled loop of the
# library instead, with its proposals and tests, read :doc:`/adding_a_sampler`.
