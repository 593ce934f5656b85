"""
Your PyMC model, with a bias knob
=================================

A PyMC model is a target without changes. The likelihood is evaluated row by row, so a sampler that needs 500 rows
computes 500 rows.
"""

# %%
# A regression
# ------------

import arviz as az
import numpy as np
import pymc as pm

import approxmcmc as amc

rng = np.random.default_rng(2014)
n = 5_000
X = rng.normal(size=(n, 3))
y = (rng.random(n) < 1 / (1 + np.exp(-X @ [0.5, -0.3, 0.1]))).astype(int)

with pm.Model(coords={"coef": ["age", "dose", "weight"]}) as regression:
    beta = pm.Normal("beta", 0.0, 1.0, dims="coef")
    pm.Bernoulli("y", logit_p=X @ beta, observed=y)

target = amc.from_pymc(regression)
trace = amc.sample(target, draws=1000, tune=200, chains=2, random_seed=1, progressbar=False)

# %%
# ``amc.sample(regression, ...)`` does the same, and makes a new target in each call: the model is read again, and what
# PyTensor compiles of it (nothing of this model) is compiled again.
#
# No sampler was named, so the library tried several and took the fastest (:doc:`/choosing`). The second line says what
# was found in the model: each row depends on the parameters through one linear predictor, so the library evaluates the
# model by its fast code for linear predictors.

print(trace.posterior.attrs["chosen"])
print(amc.explain(regression))

# %%
# The knob
# --------
#
# A decision stops reading data when its error probability is below ``epsilon``. At 0 every decision reads all rows, and
# the chain is exact. The same model, the same proposal, three values of the knob:

fit = amc.laplace(target)
walk = amc.RandomWalk(1.4, preconditioner=fit)
runs = {
    epsilon: amc.sample(
        target,
        amc.MetropolisHastings(walk, amc.SequentialTTest(epsilon=epsilon, batch_size=500)),
        draws=4000,
        tune=100,
        chains=2,
        random_seed=1,
        initvals=fit,
        audit_every=5,
        progressbar=False,
    )
    for epsilon in (0.0, 0.05, 0.2)
}
amc.plot_cost(runs)

# %%
# Errors of the cheaper chains, relative to the exact one: differences of means in posterior standard deviations.

means = {epsilon: run.posterior["beta"].mean(("chain", "draw")) for epsilon, run in runs.items()}
sd = runs[0.0].posterior["beta"].std(("chain", "draw"))
for epsilon, mean in means.items():
    shift = (mean - means[0.0]) / sd
    print(f"epsilon = {epsilon}: largest shift of a mean {abs(shift).max().item():.2f} sd")

# %%
# R-hat and effective sample sizes cannot detect a bias: chains that share it agree with each other. Compare the draws
# with those of an exact sampler, as here, or estimate the bias with an interval, :doc:`c_is_it_biased`.

named = {f"epsilon = {epsilon}": run for epsilon, run in runs.items()}
az.plot_dist(
    named, var_names="beta", coords={"coef": ["age", "dose"]}, visuals={"point_estimate_text": False}
).add_legend("model")

# %%
# A hierarchy
# -----------
#
# Effects of many groups are integrated out (:doc:`b_many_groups`); the effects of these six groups, with hundreds of
# rows each, stay parameters. Draws are on the scale of the model, with its names and dims; the positive ``tau`` was
# sampled on the logarithmic scale, Jacobian included. NUTS runs on the same model, and must agree.

n_groups = 6
group = rng.integers(0, n_groups, n)
effects = rng.normal(0.0, 0.5, n_groups)
counts = rng.poisson(np.exp(0.2 + effects[group] + 0.1 * X[:, 0]))

with pm.Model(coords={"group": range(n_groups)}) as hierarchy:
    mu = pm.Normal("mu", 0.0, 1.0)
    tau = pm.HalfNormal("tau", 1.0)
    intercept = pm.Normal("intercept", mu, tau, dims="group")
    slope = pm.Normal("slope", 0.0, 1.0)
    pm.Poisson("y", pm.math.exp(intercept[group] + slope * X[:, 0]), observed=counts)

target = amc.from_pymc(hierarchy)
fit = amc.laplace(target)
sampler = amc.MetropolisHastings(amc.Langevin(0.8, preconditioner=fit), amc.ExactTest())
ours = amc.sample(target, sampler, draws=1000, tune=200, chains=2, random_seed=1, initvals=fit, progressbar=False)
with hierarchy:
    nuts = pm.sample(draws=1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False, nuts_sampler="pymc")
az.plot_forest(
    {"NUTS": nuts, "Langevin": ours},
    var_names=["intercept", "slope", "tau"],
    combined=True,
    figure_kwargs={"figsize": (7.6, 5.0), "figsize_units": "inches"},
).add_legend("model")

# %%
# Unsupported models, and why
# ---------------------------
#
# :func:`approxmcmc.from_pymc` needs a log-likelihood that is a sum over rows. A latent variable for each row that
# cannot be integrated out, discrete parameters, missing values, time series, Gaussian processes, and potentials that
# use the data raise an error that names the unsupported part and an alternative; ``amc.sample(model)`` runs
# ``amc.NUTS()`` on such a model, and says why. A hidden coupling of rows (a cumulative sum, centring inside the model)
# raises an error, too: before sampling, the terms of random groups of rows are compared with the full log-likelihood.

with pm.Model() as tied:
    level = pm.Normal("level")
    pm.Normal("y", level, 1.0, observed=X[:, 1])
    pm.Potential("weight", -((level - X[:, 0]) ** 2).sum())
try:
    amc.from_pymc(tied)
except amc.errors.IncompatibleError as refusal:
    print(refusal)

# %%
# If the data say little about the scale of the groups, there may be no mode: the density rises without bound as all
# effects become equal and the scale goes to 0. :func:`approxmcmc.laplace` says so, and :func:`approxmcmc.sample`
# without a sampler measures the scales by a pilot run instead; standardised effects (``intercept = mu + tau * z``) have
# a mode.
#
# Standardised effects with many rows in each group have another problem: the rows determine ``tau * z`` almost exactly,
# so ``z`` and ``tau`` lie on a curved ridge that chains do not follow. From 100 rows for each entry of ``z`` on,
# samplers therefore move ``tau * z``, Jacobian included, if exactly one positive variable multiplies a vector of
# ``Normal(0, 1)``, and an analysis of variance at the initial point shows that the groups differ: their effects vary by
# over 10 times the variance that each has given its rows. If they hardly differ, ``tau`` may be 0, and neither
# coordinate is easy: the model's coordinates are kept. The trace holds ``z``. Its attribute ``group_effects`` says what
# was found and why; ``from_pymc(model, scale_effects=False)`` keeps the model's coordinates.
#
# Data are read when the target is made. After ``pm.set_data``, make a new one: ``amc.from_pymc(model)``; the old one
# raises.
