"""Handwritten sevens and nines: the data of Korattikara, Chen and Welling (2014), section 6.1.

12214 training and 2037 test images of 28 x 28 pixels from MNIST (LeCun, Cortes and Burges), in the original order. The
paper's features are the first 50 principal components.
"""

import dataclasses
import warnings
from pathlib import Path

import numpy as np

from approxmcmc.datasets import openml
from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.datasets.pca import fit_principal_components
from approxmcmc.datasets.places import DATA_VARIABLE, cache_folder, data_folder, read_arrays
from approxmcmc.datasets.synthetic import synthetic_stand_in
from approxmcmc.engine.paths import CACHE_VARIABLE
from approxmcmc.errors import DatasetError, InvalidInputError

FILE_NAME = "mnist_7v9.npz"
ARRAYS = ("X_train", "y_train", "X_test", "y_test")
# Of the four arrays as uint8, labels 7 and 9: the images are bit for bit those of the original IDX files.
SHA256 = "e41c2574f048f1d146c52451ac15f7bf56ee8565e4aa65bc840252435e939e98"
SOURCES = ("auto", "folder", "cache", "openml")


def mnist_7v9(source: str = "auto") -> Dataset:
    """Return the images of 7 and 9 as raw pixels.

    Parameters
    ----------
    source
        Where to look: "folder" (``mnist_7v9.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the
        user's cache folder, or ``APPROXMCMC_CACHE_DIR``), "openml" (download to the cache; given up after 20 s), or
        "auto": the three in this order.

    Returns
    -------
    Dataset
        `X_train` uint8 (12214, 784) and `X_test` (2037, 784), 0 = background to 255 = ink; y = 1 for a nine, 0 for a
        seven. Every source gives the same arrays, verified by their checksum.

    Raises
    ------
    DatasetError
        When no place has the data, or a file there holds anything else.

    Examples
    --------
    >>> images = mnist_7v9()  # doctest: +SKIP
    >>> images.X_train.shape, int(images.y_train.sum())  # doctest: +SKIP
    ((12214, 784), 5949)
    """
    if source not in SOURCES:
        raise InvalidInputError(f"source must be one of {SOURCES}, found {source!r}.")
    cached = cache_folder() / FILE_NAME
    found = _from_folder() if source in ("auto", "folder") else None
    if found is None and source in ("auto", "cache"):
        found = _from_cache(cached)
    if found is None and source in ("auto", "openml"):
        try:
            openml.download(cached, insist=source == "openml")
        except DatasetError as error:
            raise DatasetError(_not_found(source, cached, str(error))) from error
        found = _load(cached, f"OpenML data set mnist_784 version 1, kept in {cached}")
    if found is None:
        raise DatasetError(_not_found(source, cached, "not asked"))
    return found


def mnist_7v9_pca(n_components: int = 50, *, source: str = "auto", allow_synthetic: bool = False) -> Dataset:
    """Return the images of 7 and 9 as their first principal components.

    Pixels are divided by 255; means and components are those of the training rows; the loading of largest magnitude of
    every component is positive. 50 components hold 86.5 % of the variance.

    Parameters
    ----------
    n_components
        Number of components, 1 to 784.
    source
        As in `mnist_7v9`.
    allow_synthetic
        When the images cannot be had, warn and return `synthetic_stand_in` instead of raising.

    Returns
    -------
    Dataset
        `X_train` (12214, n_components), `X_test` (2037, n_components), `y_train` and `y_test`, all float64;
        `component_variances` with divisor n - 1; y = 1 for a nine. `is_synthetic` says which of the two it is.

    Raises
    ------
    DatasetError
        When the images cannot be had and `allow_synthetic` is False.
    """
    try:
        images = mnist_7v9(source)
    except DatasetError as error:
        if not allow_synthetic:
            raise
        warnings.warn(f"a synthetic stand-in replaces MNIST 7 vs 9. {error}", stacklevel=2)
        return synthetic_stand_in(n_components=n_components)
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


def _from_folder() -> Dataset | None:
    """Return the data of the folder that the user named, or None when it has no such file."""
    folder = data_folder()
    if folder is None:
        return None
    try:
        return _load(folder / FILE_NAME, f"{FILE_NAME} in the folder of {DATA_VARIABLE}")
    except FileNotFoundError:
        return None


def _from_cache(path: Path) -> Dataset | None:
    """Return the data of the cache; a damaged file there is reported, and replaced by the next download."""
    try:
        return _load(path, "the user's cache, downloaded from OpenML data set mnist_784 version 1")
    except FileNotFoundError:
        return None
    except DatasetError as error:
        warnings.warn(f"{error} It is ignored.", stacklevel=3)
        return None


def _load(path: Path, provenance: str) -> Dataset:
    arrays = read_arrays(path, ARRAYS)
    found = checksum(*arrays.values())
    if found != SHA256:
        raise DatasetError(
            f"{path} does not hold MNIST 7 vs 9 as published: the checksum of its arrays is {found}, needed is "
            f"{SHA256}. Replace or remove the file."
        )
    return Dataset(
        name="MNIST 7 vs 9",
        X_train=arrays["X_train"],
        y_train=(arrays["y_train"] == 9).astype(np.uint8),
        X_test=arrays["X_test"],
        y_test=(arrays["y_test"] == 9).astype(np.uint8),
        provenance=provenance,
        sha256=found,
    )


def _not_found(source: str, cached: Path, download: str) -> str:
    folder = data_folder()
    return (
        f"MNIST 7 vs 9 was not found (source={source!r}). Looked at: (1) the folder of {DATA_VARIABLE}: "
        f"{'the variable is not set' if folder is None else f'{folder / FILE_NAME}'}; (2) the user's cache: {cached}; "
        f"(3) OpenML: {download}. Put {FILE_NAME} into one of the two folders (set {DATA_VARIABLE} or "
        f"{CACHE_VARIABLE}), or connect to the network and try again, or use synthetic_stand_in() where real data are "
        f"not needed."
    )
