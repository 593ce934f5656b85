"""Misfires of an engine: LIBSVM's ijcnn1, the challenge of IJCNN 2001 as Chang and Lin (2001) coded it."""

import numpy as np

from approxmcmc.datasets.coding import Columns, standardised_dataset
from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.source import Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_categories

ENGINE = Source(
    title="ijcnn1",
    file_name="ijcnn1.npz",
    arrays=("X_train", "y_train", "X_test", "y_test"),
    sha256="0277859aef68faac515a59e46d4372e42a75c00137adf53bf9eaa7b0e446c7df",
)


def ijcnn1(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the firings with 22 standardised predictors, and whether they were misfires (one in ten).

    Parameters
    ----------
    source
        Where to look: "folder" (``ijcnn1.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the user's
        cache folder, or ``APPROXMCMC_CACHE_DIR``), or "auto": the two in this order. There is no download, because
        OpenML's table does not separate training and test rows.
    allow_synthetic
        If the data are not available, warn and return `synthetic_categories` of the same shape instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (49990, 22), LIBSVM's training and validation rows; `X_test` (91701, 22), scaled by the
        training rows; y = 1 for a misfire. Columns are numbered from 1, as in LIBSVM's file.

    Raises
    ------
    DatasetError
        When no place has the data, or a file there has other content.

    References
    ----------
    Chang and Lin (2001), IJCNN 2001 challenge: generalization ability and text decoding.

    Examples
    --------
    >>> firings = ijcnn1()  # doctest: +SKIP
    >>> firings.X_train.shape, int(firings.y_train.sum())  # doctest: +SKIP
    ((49990, 22), 4853)
    """
    return or_stand_in(lambda: _load(source), firings_stand_in, allow_synthetic=allow_synthetic)


def firings_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns; see `synthetic_categories`."""
    return synthetic_categories(n, 12, (10,), ones=0.1, title="ijcnn1", seed=2001)


def _load(source: str) -> Dataset:
    (X_train, y_train, X_test, y_test), provenance = ENGINE.find(source)
    return standardised_dataset(
        "ijcnn1",
        Columns(X_train.astype(np.float64), tuple(f"x{j}" for j in range(1, X_train.shape[1] + 1))),
        y_train,
        test=X_test,
        y_test=y_test,
        provenance=provenance,
        sha256=ENGINE.sha256,
    )
