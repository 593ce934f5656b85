"""Austerity on MNIST: a random walk that reads less data, errs, and perhaps reaches less risk in the same time.

Korattikara, Chen and Welling (2014), Austerity in MCMC Land: Cutting the Metropolis-Hastings Budget, ICML, section
6.1, figures 1 to 4: logistic regression of 7 against 9 on 50 principal components, N = 12214; risk of the predictive
mean p(y = 1 | x*), averaged over 2037 test points. The paper's rival is the sequential test at epsilon = 0; ``exact``
makes the same decisions from a cached log-likelihood at half the cost, and is the fairer one.
"""

import functools

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import Dataset, mnist_7v9_pca, synthetic_stand_in
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Note, Table, analyses, marginals

SCALE = 0.01  # standard deviation of the random walk
PRIOR_SCALE = 10**-0.5  # precision 10


@functools.cache
def images(real: bool = False) -> Dataset:
    """Return MNIST 7 against 9 in 50 components; unless `real`, a stand-in where the images cannot be had."""
    return mnist_7v9_pca(n_components=50, allow_synthetic=not real)


@functools.cache
def stand_in() -> Dataset:
    """Return the 1000 generated rows of preset smoke, which reads no network and no disk."""
    return synthetic_stand_in(n_train=1000, n_test=200)


def posterior_of(data: Dataset) -> "amc.targets.LogisticRegression":
    """Return the posterior of a logistic regression with a normal prior of precision 10."""
    return amc.targets.LogisticRegression(data.X_train, data.y_train, prior_scale=PRIOR_SCALE)


def real_posterior():
    """Return the posterior given the real images, or raise."""
    return posterior_of(images(real=True))


def any_posterior():
    """Return the posterior given the images, or given their stand-in."""
    return posterior_of(images())


def smoke_posterior():
    """Return the posterior of preset smoke."""
    return posterior_of(stand_in())


def austerity(epsilon: float, batch_size: int):
    """Return the paper's sampler."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.SequentialTTest(epsilon=epsilon, batch_size=batch_size))


def exact():
    """Return the exact sampler."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest())


def samplers(batch_size: int) -> dict:
    """Return the settings of the paper, and the exact sampler."""
    epsilon = knob(0.0, 0.01, 0.05, 0.1, 0.2)
    return {"austerity": vary(austerity, epsilon=epsilon, batch_size=batch_size), "exact": vary(exact)}


def predictions(posterior, X_test: np.ndarray):
    """Return p(y = 1 | x*, theta) of every draw and test point, dims (chain, draw, test_point)."""
    from scipy.special import expit
    from xarray import DataArray

    eta = posterior["beta"].transpose("chain", "draw", "coef").values @ X_test.T
    return DataArray(expit(eta, out=eta), dims=("chain", "draw", "test_point"))


def predictive_mean(posterior):
    """Return the predictions of the 2037 test images."""
    return predictions(posterior, images().X_test)


def smoke_predictive_mean(posterior):
    """Return the predictions of the stand-in's test rows."""
    return predictions(posterior, stand_in().X_test)


def data_used(results) -> list:
    """Return the table of the data, and a note where they are not the real ones."""
    import pandas as pd

    data = stand_in() if results.preset == "smoke" else images()
    row = {"data": data.name, "training rows": len(data.y_train), "test rows": len(data.y_test)}
    table = pd.DataFrame([row | {"columns": data.X_train.shape[1], "origin": data.provenance}])
    note = f"No images of digits were used: {data.name}. Compare shapes and orderings with the paper, not values."
    return [*([Note(note)] if data.is_synthetic else []), Table("The data", "What the chains sampled.", table)]


def figure_1(results) -> list:
    """Return the law of the t-statistic at n = 500, 5000 and 10000 of 12214, or as large a share of fewer rows."""
    n_obs = results.target("mnist_7v9").n_obs
    return analyses.t_statistic(results, sizes=[n * n_obs // 12_214 for n in (500, 5_000, 10_000)], scale=SCALE)


def figure_4(results) -> list:
    """Return the marginals of two coefficients at 50, 100 and 400 of 400 seconds, or as large shares of fewer."""
    return marginals.pair_marginals(results, variable="beta", epsilons=(0.0, 0.01), fractions=(0.125, 0.25, 1.0))


study = Study(
    name="austerity_mnist",
    reference="Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 6.1, figures 1 to 4",
    targets={"mnist_7v9": real_posterior},
    samplers=samplers(batch_size=500),
    estimands={"predictive_mean": predictive_mean},
    average_over=("predictive_mean",),
    budget=Budget(seconds=400.0),
    thin=1000,
    replicates=8,
    gold=Gold(),
    seed=2014,
    analyses=(data_used, figure_1, analyses.cost_against_epsilon, analyses.log_risk_against_time, figure_4),
    presets={
        "smoke": {
            "targets": {"mnist_7v9": smoke_posterior},
            "samplers": samplers(batch_size=100),
            "estimands": {"predictive_mean": smoke_predictive_mean},
            "budget": Budget(draws=300),
            "thin": 10,
            "audit_every": 10,
            "replicates": 3,
            "gold": Gold(chains=2, draws=500, tune=500),
        },
        "quick": {
            "targets": {"mnist_7v9": any_posterior},
            "budget": Budget(seconds=4.0),
            "thin": 10,
            "audit_every": 100,
            "gold": Gold(
                chains=4,
                draws=1000,
                tune=500,
                gates=amc.Gates(max_r_hat=1.02, min_bulk_ess=1_500, min_tail_ess=1_000, max_relative_mcse=0.03),
            ),
        },
    },
)
