"""Logistic regression of the digits 7 and 9 on principal components: data, posterior, predictions.

After Korattikara, Chen and Welling (2014), Austerity in MCMC Land, section 6.1: 12214 images, 50 components, a normal
prior of precision 10, and the predictive mean of 2037 test images. Preset ``smoke`` has generated data instead.
"""

import functools
from typing import TYPE_CHECKING

import numpy as np

import approxmcmc as amc
from approxmcmc.datasets import Dataset, mnist_7v9_pca, synthetic_stand_in
from approxmcmc.study.report import Note

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults

PRIOR_SCALE = 10**-0.5  # precision 10 of the normal prior


@functools.cache
def images(real: bool = False, n_components: int = 50) -> Dataset:
    """Return MNIST 7 against 9 in principal components, or generated data if not available and not `real`."""
    return mnist_7v9_pca(n_components=n_components, allow_synthetic=not real)


@functools.cache
def stand_in() -> Dataset:
    """Return the 1000 generated rows of preset smoke, made without network or disk."""
    return synthetic_stand_in(n_train=1000, n_test=200)


def data_of(results: "StudyResults") -> Dataset:
    """Return the data of a study's preset: the stand-in for preset smoke, else the images if available."""
    return stand_in() if results.preset == "smoke" else images()


def posterior_of(data: Dataset) -> "amc.targets.LogisticRegression":
    """Return the posterior of a logistic regression with a normal prior of precision 10."""
    return amc.targets.LogisticRegression(data.X_train, data.y_train, prior_scale=PRIOR_SCALE)


def real_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior given the real images, or raise."""
    return posterior_of(images(real=True))


def any_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior given the images, or generated data in their place."""
    return posterior_of(images())


def smoke_posterior() -> "amc.targets.LogisticRegression":
    """Return the posterior of preset smoke."""
    return posterior_of(stand_in())


def predictions(posterior: "xr.Dataset", X_test: np.ndarray) -> "xr.DataArray":
    """Return p(y = 1 | x*, theta) of every draw and test point, dims (chain, draw, test_point)."""
    from scipy.special import expit
    from xarray import DataArray

    eta = posterior["beta"].transpose("chain", "draw", "coef").values @ X_test.T
    return DataArray(expit(eta, out=eta), dims=("chain", "draw", "test_point"))


def predictive_mean(posterior: "xr.Dataset") -> "xr.DataArray":
    """Return the predicted probabilities of the test images."""
    return predictions(posterior, images().X_test)


def smoke_predictive_mean(posterior: "xr.Dataset") -> "xr.DataArray":
    """Return the predicted probabilities of the generated test rows."""
    return predictions(posterior, stand_in().X_test)


def note_on_data(results: "StudyResults") -> list[Note]:
    """Return a note if the data are not the real images."""
    data = data_of(results)
    note = f"No images of digits were used: {data.name}. Compare shapes and orderings with the paper, not values."
    return [Note(note)] if data.is_synthetic else []
