"""
Many groups: who is in a union?
===============================

545 men were asked in each of eight years whether a union set their wage. A man who was in a union last year is likely
to be in it this year, more than schooling or race explains. So each man has an effect of his own, and a model of a few
coefficients has 545 further parameters. The library integrates them out, and draws them after the run.
"""

# %%
# The data
# --------

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

import approxmcmc as amc

men = amc.datasets.union_members()
man, labels = pd.factorize(men["nr"])
years = men.groupby("nr")["union"].sum()
print(years.value_counts().sort_index().to_dict())  # years in a union: number of men

# %%
# More than half of the men are in a union always or never. The between-man scale will be large, and an approximation of
# each man's integral by a normal curve is poor here.
#
# The model
# ---------
#
# It is written as for any other sampler of PyMC. Predictors are centred, and schooling counts in steps of two years.

X = men[["educ", "exper", "married", "black", "hisp"]].astype(float)
X = (X - X.mean()) / [2.0, 3.0, 1.0, 1.0, 1.0]

with pm.Model(coords={"coef": X.columns, "man": labels}) as model:
    beta = pm.Normal("beta", 0.0, 1.0, dims="coef")
    mu, between = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("between", 3.0)
    z = pm.Normal("z", dims="man")
    effect = pm.Deterministic("effect", mu + between * z, dims="man")
    pm.Bernoulli("union", logit_p=effect[man] + X.to_numpy() @ beta, observed=men["union"])

print(amc.explain(model))

# %%
# The chain moves seven numbers; each man is one term of the likelihood. The integral over his effect is a sum over
# nodes around its mode, and the number of nodes was raised until the error, summed over all men, changes by less than
# 0.01 nats over the posterior.

trace = amc.sample(model, random_seed=1, progressbar=False)
print(trace.posterior.attrs["chosen"])
print(az.summary(trace, var_names=["beta", "mu", "between"]))

# %%
# How alike are the years of one man? The scale is compared with 1.8, the sd of the logistic distribution: the result is
# the share of the latent variance that lies between men.

share = trace.posterior["between"] ** 2 / (trace.posterior["between"] ** 2 + np.pi**2 / 3)
print(f"between men: {share.mean().item():.2f} +- {share.std().item():.2f} of the variance")

# %%
# The men
# -------
#
# All effects are in the trace, under the model's names and labels: one draw for each draw of the parameters. They are
# shrunk: a man who was in a union in all eight years is not certain to be in it next year.

effects = trace.posterior["effect"]
chance = (1.0 / (1.0 + np.exp(-effects))).mean(("chain", "draw"))
for n in (0, 4, 8):
    some = chance.sel(man=years.index[years == n])
    print(f"{n} of 8 years in a union: {len(some)} men, probability {some.mean().item():.2f}")

# %%
# Is it right?
# ------------
#
# The trace states the estimated distance between the function that was sampled and the model's log posterior, in nats;
# two densities at a distance d are within a factor exp(2 d) of each other.

attrs = trace.posterior.attrs
print(f"{attrs['setup_quadrature_nodes']} nodes, distance {attrs['distance_to_model']:.1g} nats")

# %%
# Fewer nodes are not enough for these men, because most of them answered the same in all years. The same model from
# arrays, with a fixed number of nodes, placed for a theta near the posterior mean (``at``):

at = np.concatenate(
    [np.atleast_1d(trace.posterior[name].mean(("chain", "draw"))) for name in ("beta", "mu", "between")]
)
table = X.assign(intercept=1.0)
for nodes in (3, 8, 16, 32):
    target = amc.targets.GroupedTarget(table, men["union"], man, at=at, n_nodes=nodes, effect_scale=3.0)
    print(f"{nodes} nodes: distance {target.accuracy.nats:.1g} nats")
