"""Handwritten sevens and nines: the data of Korattikara, Chen and Welling (2014), section 6.1.

12214 training and 2037 test images of 28 x 28 pixels from MNIST (LeCun, Cortes and Burges), in the original order. The
paper's features are the first 50 principal components.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.source import Download, Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_stand_in
from approxmcmc.engine.extras import extra
from approxmcmc.errors import InvalidInputError

# Four arrays as uint8, labels 7 and 9: the images are bit for bit those of the original IDX files.
IMAGES = Source(
    title="MNIST 7 vs 9",
    file_name="mnist_7v9.npz",
    arrays=("X_train", "y_train", "X_test", "y_test"),
    sha256="e41c2574f048f1d146c52451ac15f7bf56ee8565e4aa65bc840252435e939e98",
    download=Download(
        "openml", "approxmcmc.datasets.mnist:fetch_sevens_and_nines", "OpenML data set mnist_784 version 1"
    ),
)
N_TRAIN = 60_000  # the first 60 000 of the 70 000 images, in their original order, are training images


@naming_the_arguments
def mnist_7v9(source: str = "auto") -> Dataset:
    """Return the images of 7 and 9 as raw pixels.

    Parameters
    ----------
    source
        Where to look: "folder" (``mnist_7v9.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the
        user's cache folder, or ``APPROXMCMC_CACHE_DIR``), "openml" (download to the cache; stopped after 20 s), or
        "auto": the three in this order.

    Returns
    -------
    Dataset
        `X_train` uint8 (12214, 784) and `X_test` (2037, 784), 0 = background to 255 = ink; y = 1 for a nine, 0 for a
        seven. Every source gives the same arrays, verified by their checksum.

    Raises
    ------
    DatasetError
        When no place has the data, or the file in the folder has other content.
    InvalidInputError
        When `source` is unknown.

    Examples
    --------
    >>> images = mnist_7v9()  # doctest: +SKIP
    >>> images.X_train.shape, int(images.y_train.sum())  # doctest: +SKIP
    ((12214, 784), 5949)
    """
    (X_train, y_train, X_test, y_test), provenance = IMAGES.find(source)
    return Dataset(
        name=IMAGES.title,
        X_train=X_train,
        y_train=(y_train == 9).astype(np.uint8),
        X_test=X_test,
        y_test=(y_test == 9).astype(np.uint8),
        provenance=provenance,
        sha256=IMAGES.sha256,
    )


@naming_the_arguments
def mnist_7v9_pca(n_components: int = 50, *, source: str = "auto", allow_synthetic: bool = False) -> Dataset:
    """Return the images of 7 and 9 as their first principal components.

    Pixels are divided by 255; means and components are those of the training rows; the loading of largest magnitude of
    every component is positive. 50 components hold 86.5 % of the variance.

    Parameters
    ----------
    n_components
        Number of components, 1 to 784; the stand-in has at most 50.
    source
        As in `mnist_7v9`.
    allow_synthetic
        If the images are not available, warn and return `synthetic_stand_in` instead of raising.

    Returns
    -------
    Dataset
        `X_train` (12214, n_components), `X_test` (2037, n_components), `y_train` and `y_test`, all float64;
        `component_variances` with divisor n - 1; y = 1 for a nine. `is_synthetic` says whether the data are generated.

    Raises
    ------
    DatasetError
        When the images are not available and `allow_synthetic` is False.
    InvalidInputError
        When `source` is unknown, or `n_components` is outside its range.
    """
    return or_stand_in(
        lambda: _components(mnist_7v9(source), n_components),
        lambda: synthetic_stand_in(n_components=n_components),
        allow_synthetic=allow_synthetic,
    )


def _components(images: Dataset, n_components: int) -> Dataset:
    components = fit_principal_components(images.X_train, n_components)
    return dataclasses.replace(
        images,
        name=f"MNIST 7 vs 9, {n_components} principal components",
        X_train=components.transform(images.X_train) / 255.0,
        y_train=images.y_train.astype(np.float64),
        y_test=images.y_test.astype(np.float64),
        X_test=components.transform(images.X_test) / 255.0,
        provenance=f"{images.provenance}; pixels / 255, principal components of the training rows",
        component_variances=components.variances / 255.0**2,
    )


def fetch_sevens_and_nines() -> dict[str, np.ndarray]:
    """Fetch all of MNIST from OpenML through scikit-learn; return the sevens and nines, arrays of the file by name."""
    with extra("downloads", "The download of a data set"):
        from sklearn.datasets import fetch_openml

    images, labels = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, n_retries=1, delay=0.1)
    labels = np.asarray(labels).astype(np.uint8)
    kept = np.flatnonzero((labels == 7) | (labels == 9))
    pixels = np.asarray(images)[kept].astype(np.uint8)
    n_train = int(np.searchsorted(kept, N_TRAIN))
    return {
        "X_train": pixels[:n_train],
        "y_train": labels[kept[:n_train]],
        "X_test": pixels[n_train:],
        "y_test": labels[kept[n_train:]],
    }


class PrincipalComponents(NamedTuple):
    """The principal components of some images: directions of largest variance.

    `mean` has shape (d,), `loadings` (d, n_components) with orthonormal columns, `variances` (n_components,) with
    divisor n - 1; `total_variance` is the sum over all d components.
    """

    mean: np.ndarray
    loadings: np.ndarray
    variances: np.ndarray
    total_variance: float

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the components of each row, (rows - mean) @ loadings; float64, shape (n, n_components)."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            scores: np.ndarray = (rows - self.mean) @ self.loadings
        return scores


def fit_principal_components(rows: np.ndarray, n_components: int) -> PrincipalComponents:
    """Fit principal components by the eigenvectors of the covariance.

    The loading of largest magnitude of each component is positive, which fixes the signs. One thread is used, so that
    two processes with different thread counts get equal bits, and so equal content hashes.

    Parameters
    ----------
    rows
        Data; shape (n, d), n > 1.
    n_components
        Number of components, 1 to d.

    Raises
    ------
    InvalidInputError
        When `n_components` is outside its range.

    Examples
    --------
    >>> line = np.array([[0, 0], [1, 1], [2, 2]])
    >>> fit_principal_components(line, 1).variances.round(6).tolist()
    [2.0]
    """
    from threadpoolctl import threadpool_limits

    n, d = rows.shape
    if not 1 <= n_components <= d:
        raise InvalidInputError(f"n_components must lie between 1 and the {d} columns, found {n_components!r}.")
    with threadpool_limits(1):
        mean = rows.mean(axis=0, dtype=np.float64)
        centred = rows - mean
        variances, vectors = np.linalg.eigh(centred.T @ centred / (n - 1))
    loadings = vectors[:, ::-1][:, :n_components]
    largest = loadings[np.abs(loadings).argmax(axis=0), np.arange(n_components)]
    kept = variances[::-1][:n_components]
    return PrincipalComponents(mean, loadings * np.sign(largest), kept, float(variances.sum()))
