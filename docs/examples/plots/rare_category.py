"""
A rare category under each sampler
==================================

The coefficient of a category with a handful of rows, all of them with the response 0. The draws of the exact sampler
have a long tail on one side. A sampler that takes random rows and often misses these few has no such tail, and its
R-hat is near 1. The picture is ArviZ's ``plot_dist`` of several traces.
"""

import arviz as az

import approxmcmc as amc
from approxmcmc.datasets import synthetic_categories

data = synthetic_categories(20_000, 3, [6], seed=1)
plain = amc.LogisticRegression(data.X_train, data.y_train, coef_names=data.columns)
expanded, split = amc.ControlVariate(plain), amc.ControlVariate(plain, always_read="auto")
test = amc.SequentialTTest(epsilon=0.05, batch_size=64, growth=2, tol=0.05)
settings = {"tune": 500, "chains": 2, "random_seed": 1, "progressbar": False}
walk, surrogate = amc.RandomWalk(0.8, preconditioner=expanded.laplace), amc.SurrogateTransition()
runs = {
    "control variates, t-test": amc.sample(expanded, amc.MetropolisHastings(walk, test), draws=4000, **settings),
    "influential rows, t-test": amc.sample(split, amc.MetropolisHastings(surrogate, test), draws=4000, **settings),
    "influential rows, exact": amc.sample(
        split, amc.MetropolisHastings(surrogate, amc.ExactTest()), draws=4000, **settings
    ),
}

figure = az.plot_dist(runs, var_names="beta", coords={"coef": data.columns[-1]}, visuals={"point_estimate_text": False})
figure.add_legend("model")
