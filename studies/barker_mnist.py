"""Minibatch Barker on images: logistic regression of the digits 7 and 9, short steps, four tests.

After the second experiment of Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test for
Metropolis-Hastings, UAI, section 6.2 (there: 1 against 7 of an enlarged MNIST), on the 12214 images and 50 principal
components of Korattikara, Chen and Welling (2014), so that the two tests meet on the data of the latter.
"""

import functools
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import Dataset, mnist_7v9_pca, synthetic_stand_in
from approxmcmc.study import Budget, Gold, Study, knob, vary
from approxmcmc.study.report import Note, analyses
from approxmcmc.study.report.efficiency import acceptance_error, effective_samples

SCALE = 0.01  # standard deviation of the random walk
PRIOR_SCALE = 10**-0.5  # precision 10


@functools.cache
def images(real: bool = False) -> Dataset:
    """Return MNIST 7 against 9 in 50 components; unless `real`, a stand-in where the images cannot be had."""
    return mnist_7v9_pca(n_components=50, allow_synthetic=not real)


@functools.cache
def stand_in() -> Dataset:
    """Return the 1000 generated rows of preset smoke."""
    return synthetic_stand_in(n_train=1000, n_test=200)


def posterior_of(data: Dataset) -> "amc.targets.LogisticRegression":
    """Return the posterior of a logistic regression with a normal prior of precision 10."""
    return amc.targets.LogisticRegression(data.X_train, data.y_train, prior_scale=PRIOR_SCALE)


def real_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior given the real images, or raise."""
    return posterior_of(images(real=True))


def any_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior given the images, or given their stand-in."""
    return posterior_of(images())


def smoke_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior of preset smoke."""
    return posterior_of(stand_in())


def barker(target_variance: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the paper's sampler."""
    return amc.presets.minibatch_barker(SCALE, target_variance=target_variance, batch_size=batch_size)


def austerity(epsilon: float, batch_size: int) -> "amc.MetropolisHastings":
    """Return the sequential test of Korattikara, Chen and Welling (2014)."""
    return amc.presets.austerity(SCALE, epsilon=epsilon, batch_size=batch_size)


def exact(rule: str) -> "amc.MetropolisHastings":
    """Return the test on all data, by Metropolis' or by Barker's rule."""
    return amc.MetropolisHastings(amc.RandomWalk(SCALE), amc.ExactTest(rule))


def samplers(batch_size: int) -> dict[str, Any]:
    """Return the four tests of one proposal."""
    return {
        "barker": vary(barker, target_variance=knob(0.25, 1.0), batch_size=batch_size),
        "austerity": vary(austerity, epsilon=knob(0.0, 0.05), batch_size=500),
        "exact": vary(exact, rule=knob("metropolis", "barker")),
    }


def predictions(posterior: Any, X_test: np.ndarray) -> Any:
    """Return p(y = 1 | x*, theta) of every draw and test point, dims (chain, draw, test_point)."""
    from scipy.special import expit
    from xarray import DataArray

    eta = posterior["beta"].transpose("chain", "draw", "coef").values @ X_test.T
    return DataArray(expit(eta, out=eta), dims=("chain", "draw", "test_point"))


def predictive_mean(posterior: Any) -> Any:
    """Return the predictions of the 2037 test images."""
    return predictions(posterior, images().X_test)


def smoke_predictive_mean(posterior: Any) -> Any:
    """Return the predictions of the stand-in's test rows."""
    return predictions(posterior, stand_in().X_test)


def data_used(results: Any) -> list[Note]:
    """Return a note where the data are not the real images."""
    data = stand_in() if results.preset == "smoke" else images()
    note = f"No images of digits were used: {data.name}. Compare shapes and orderings with the paper, not values."
    return [Note(note)] if data.is_synthetic else []


study = Study(
    name="barker_mnist",
    reference="Seita, Pan, Chen and Canny (2017), An Efficient Minibatch Acceptance Test, section 6.2",
    targets={"mnist_7v9": real_posterior},
    samplers=samplers(batch_size=100),
    estimands={"predictive_mean": predictive_mean},
    average_over=("predictive_mean",),
    budget=Budget(seconds=400.0),
    thin=100,
    audit_every=5000,
    replicates=8,
    gold=Gold(),
    seed=2017,
    analyses=(data_used, effective_samples, acceptance_error, analyses.log_risk_against_time),
    presets={
        "smoke": {
            "targets": {"mnist_7v9": smoke_posterior},
            "estimands": {"predictive_mean": smoke_predictive_mean},
            "budget": Budget(draws=200),
            "thin": 10,
            "audit_every": 20,
            "replicates": 2,
            "gold": Gold(chains=2, draws=300, tune=300),
        },
        "quick": {
            "targets": {"mnist_7v9": any_posterior},
            "budget": Budget(seconds=5.0),
            "thin": 20,
            "audit_every": 500,
            "replicates": 4,
            "gold": Gold(
                chains=4,
                draws=1000,
                tune=500,
                gates=amc.Gates(max_r_hat=1.02, min_bulk_ess=1_500, min_tail_ess=1_000, max_relative_mcse=0.03),
            ),
        },
    },
)
