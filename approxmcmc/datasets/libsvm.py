"""Two data sets of LIBSVM with training and test rows: census incomes (a9a) and misfires of an engine (ijcnn1)."""

from collections.abc import Mapping

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import Columns, Dataset, standardised_dataset
from approxmcmc.datasets.source import Arrays, Download, Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_categories
from approxmcmc.engine.extras import extra

N_FEATURES = 123  # columns of a9a; its file has bits in whole bytes, 128 of them
N_TRAIN = 32_561  # rows of a9a for training: OpenML's table has them first, then the test rows
# Levels of the fourteen attributes behind the columns; numeric attributes are cut at their quintiles.
LEVELS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)


def decode_bits(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return training predictors and responses, then those of the test rows; the file has the predictors as bits."""
    return tuple(
        np.unpackbits(array, axis=1)[:, :N_FEATURES] if name.endswith("bits") else array
        for name, array in arrays.items()
    )


PEOPLE = Source(
    title="a9a",
    file_name="a9a.npz",
    arrays=("X_train_bits", "y_train", "X_test_bits", "y_test"),
    sha256="37b1126247b3ae93c45d51c720b1f6d537a4ed9f9051afeac9f21628d7074231",
    decode=decode_bits,
    download=Download("openml", "approxmcmc.datasets.libsvm:fetch_people", "OpenML data set a9a version 1"),
)


@naming_the_arguments
def a9a(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the people with their standardised 0/1 columns, and whether they earn more than 50 000 dollars.

    Parameters
    ----------
    source
        Where to look: "folder" (``a9a.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the user's
        cache folder, or ``APPROXMCMC_CACHE_DIR``), "openml" (download to the cache; stopped after 20 s), or "auto": the
        three in this order.
    allow_synthetic
        If the data are not available, warn and return 20 000 generated rows with the same kinds of columns, without
        test rows (`synthetic_categories`), instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (32561, 123), `X_test` (16281, 123), both scaled by the training rows; y = 1 for more than
        50 000 dollars. Columns are numbered from 1, as in LIBSVM's file.

    Raises
    ------
    DatasetError
        When `allow_synthetic` is False, and no place has the data or the file in the folder has other content.
    InvalidInputError
        When `source` is unknown.

    References
    ----------
    Platt (1998), Fast training of support vector machines using sequential minimal optimization, section 12.3.

    Examples
    --------
    >>> people = a9a()  # doctest: +SKIP
    >>> len(people.y_train), int(people.y_train.sum())  # doctest: +SKIP
    (32561, 7841)
    """
    return or_stand_in(lambda: _load(PEOPLE, source), people_stand_in, allow_synthetic=allow_synthetic)


def people_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns as a9a; see `synthetic_categories`."""
    return synthetic_categories(n, 0, LEVELS, ones=0.24, title="a9a", seed=1998)


def fetch_people() -> dict[str, np.ndarray]:
    """Fetch the rows from OpenML through scikit-learn; return the arrays of ``a9a.npz`` by name."""
    with extra("downloads", "The download of a data set"):
        from sklearn.datasets import fetch_openml

    rows, labels = fetch_openml("a9a", version=1, return_X_y=True, as_frame=False, n_retries=1, delay=0.1)
    bits = np.packbits(rows.toarray().astype(np.uint8), axis=1)
    rich = (np.asarray(labels).astype(np.float64) > 0.0).astype(np.uint8)
    return {
        "X_train_bits": bits[:N_TRAIN],
        "y_train": rich[:N_TRAIN],
        "X_test_bits": bits[N_TRAIN:],
        "y_test": rich[N_TRAIN:],
    }


ENGINE = Source(
    title="ijcnn1",
    file_name="ijcnn1.npz",
    arrays=("X_train", "y_train", "X_test", "y_test"),
    sha256="0277859aef68faac515a59e46d4372e42a75c00137adf53bf9eaa7b0e446c7df",
)


@naming_the_arguments
def ijcnn1(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the firings with 22 standardised predictors, and whether they were misfires (one in ten).

    Parameters
    ----------
    source
        Where to look: "folder" (``ijcnn1.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the user's
        cache folder, or ``APPROXMCMC_CACHE_DIR``), or "auto": the two in this order. There is no download, because
        OpenML's table does not separate training and test rows.
    allow_synthetic
        If the data are not available, warn and return 20 000 generated rows with the same kinds of columns, without
        test rows (`synthetic_categories`), instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (49990, 22), LIBSVM's training and validation rows; `X_test` (91701, 22), scaled by the
        training rows; y = 1 for a misfire. Columns are numbered from 1, as in LIBSVM's file.

    Raises
    ------
    DatasetError
        When `allow_synthetic` is False, and no place has the data or the file in the folder has other content.
    InvalidInputError
        When `source` is unknown.

    References
    ----------
    Chang and Lin (2001), IJCNN 2001 challenge: generalization ability and text decoding.

    Examples
    --------
    >>> firings = ijcnn1()  # doctest: +SKIP
    >>> firings.X_train.shape, int(firings.y_train.sum())  # doctest: +SKIP
    ((49990, 22), 4853)
    """
    return or_stand_in(lambda: _load(ENGINE, source), firings_stand_in, allow_synthetic=allow_synthetic)


def firings_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns as ijcnn1; see `synthetic_categories`."""
    return synthetic_categories(n, 12, (10,), ones=0.1, title="ijcnn1", seed=2001)


def _load(data: Source, place: str) -> Dataset:
    (X_train, y_train, X_test, y_test), provenance = data.find(place)
    return standardised_dataset(
        data.title,
        Columns(X_train.astype(np.float64), tuple(f"x{j}" for j in range(1, X_train.shape[1] + 1))),
        y_train,
        test=X_test,
        y_test=y_test,
        provenance=provenance,
        sha256=data.sha256,
    )
