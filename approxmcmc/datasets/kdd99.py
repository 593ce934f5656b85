"""Network connections of the KDD Cup 1999: the data of Korattikara, Chen and Welling (2013), preprint, 6.2.

The 10 % subset: 494021 connections, 41 features, malicious (80 %) or normal. The paper does not say how columns were
coded or scaled; `kdd99` describes the coding used here.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import (
    Columns,
    Dataset,
    checksum,
    one_hot,
    side_by_side,
    standardise,
    standardised_dataset,
)
from approxmcmc.datasets.source import Arrays, Download, Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_categories
from approxmcmc.engine.extras import extra
from approxmcmc.errors import InvalidInputError

CATEGORIES = ("protocol_type", "service", "flag")
RATES = (  # fractions with two decimals; the file has them in hundredths
    "serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate", "diff_srv_rate",
    "srv_diff_host_rate", "dst_host_same_srv_rate", "dst_host_diff_srv_rate", "dst_host_same_src_port_rate",
    "dst_host_srv_diff_host_rate", "dst_host_serror_rate", "dst_host_srv_serror_rate", "dst_host_rerror_rate",
    "dst_host_srv_rerror_rate",
)  # fmt: skip
FEATURES = (
    "duration", *CATEGORIES, "src_bytes", "dst_bytes", "land", "wrong_fragment", "urgent", "hot", "num_failed_logins",
    "logged_in", "num_compromised", "root_shell", "su_attempted", "num_root", "num_file_creations", "num_shells",
    "num_access_files", "num_outbound_cmds", "is_host_login", "is_guest_login", "count", "srv_count", *RATES[:7],
    "dst_host_count", "dst_host_srv_count", *RATES[7:],
)  # fmt: skip


def decode_connections(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return the 41 columns as one int32 array (categories as numbers, rates in hundredths), and `malicious`."""
    return np.column_stack([arrays[name].astype(np.int32) for name in FEATURES]), arrays["malicious"].astype(np.uint8)


CONNECTIONS = Source(
    title="the 10 % subset of KDD99",
    file_name="kddcup99_10percent.npz",
    arrays=(*FEATURES, "malicious"),
    sha256="d2cf34b5811f5b2fa131373bdd43e8b2cd1592e1514dce0d749244e2c216928c",
    decode=decode_connections,
    download=Download(
        "download", "approxmcmc.datasets.kdd99:fetch_connections", "the original file through scikit-learn"
    ),
)


@naming_the_arguments
def kdd99(source: str = "auto", *, coding: str = "shares", allow_synthetic: bool = False) -> Dataset:
    """Return the connections, with 41 standardised features or with a 0/1 column for every level of a category.

    Coding: the 15 rates are used unchanged; all other columns, counts and 0/1 marks, as log(1 + value). A category
    (protocol, service, flag) becomes one column with the share of the connections that have the row's level, or, with
    ``coding="one_hot"``, a 0/1 column for each of its levels. Then each column is standardised.
    ``num_outbound_cmds`` and ``is_host_login`` are 0 in every row. With shares they stay 0, and their coefficients have
    the prior as posterior; one-hot coding drops them.

    Parameters
    ----------
    source
        Where to look: "folder" (``kddcup99_10percent.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache"
        (the user's cache folder, or ``APPROXMCMC_CACHE_DIR``), "download" (scikit-learn's copy of the original file, to
        the cache; stopped after 20 s), or "auto": the three in this order.
    coding
        "shares" or "one_hot".
    allow_synthetic
        If the data are not available, warn and return generated data instead of raising: `connections_stand_in`, or
        with one-hot columns 20 000 rows of `synthetic_categories`.

    Returns
    -------
    Dataset
        `X_train` float64 (494021, 41), or (494021, 116); `y_train` 1 for malicious, 0 for normal; no test rows.

    Raises
    ------
    DatasetError
        When `allow_synthetic` is False, and no place has the data or the file in the folder has other content.
    InvalidInputError
        When `source` or `coding` is unknown.

    Examples
    --------
    >>> connections = kdd99()  # doctest: +SKIP
    >>> connections.X_train.shape, int(connections.y_train.sum())  # doctest: +SKIP
    ((494021, 41), 396743)
    """
    if coding not in CODINGS:
        raise InvalidInputError(f"kdd99: coding must be one of {tuple(CODINGS)}, found {coding!r}.")
    load, stand_in = CODINGS[coding]
    return or_stand_in(lambda: load(source), stand_in, allow_synthetic=allow_synthetic)


def _with_shares(source: str) -> Dataset:
    (values, malicious), provenance = CONNECTIONS.find(source)
    return Dataset(
        name="KDD Cup 1999, 10 %",
        X_train=standardise(features_of(values)),
        y_train=malicious.astype(np.float64),
        X_test=np.empty((0, len(FEATURES))),
        y_test=np.empty(0),
        provenance=f"{provenance}; rates, shares of categories, log(1 + counts), standardised",
        sha256=CONNECTIONS.sha256,
        columns=FEATURES,
    )


def _one_hot(source: str) -> Dataset:
    (values, malicious), provenance = CONNECTIONS.find(source)
    return standardised_dataset(
        "KDD Cup 1999, 10 %, one-hot",
        categories_apart(values),
        malicious,
        provenance=f"{provenance}; rates, a 0/1 column for each category, log(1 + counts)",
        sha256=CONNECTIONS.sha256,
    )


def categories_apart(values: np.ndarray) -> Columns:
    """Return the features with a 0/1 column for each level of a category, not standardised."""
    numbers = features_of(values)
    return side_by_side(
        one_hot(values[:, j], name) if name in CATEGORIES else Columns(numbers[:, [j]], (name,))
        for j, name in enumerate(FEATURES)
    )


def features_of(values: np.ndarray) -> np.ndarray:
    """Return the 41 columns as rates, shares of categories and log(1 + counts), not standardised; float64."""
    columns = values.astype(np.float64)
    for j, name in enumerate(FEATURES):
        if name in RATES:
            columns[:, j] /= 100.0
        elif name in CATEGORIES:
            columns[:, j] = (np.bincount(values[:, j]) / len(values))[values[:, j]]
        else:
            columns[:, j] = np.log1p(columns[:, j])
    return columns


def every(data: Dataset, step: int) -> Dataset:
    """Return the data with every `step`-th training row only, standardised again.

    Rows are in time order and attacks come in runs, so the first rows alone would not represent the others.
    """
    rows = np.ascontiguousarray(data.X_train[::step])
    return dataclasses.replace(
        data,
        name=f"{data.name}, every {step}th row",
        X_train=standardise(rows),
        y_train=data.y_train[::step].copy(),
        provenance=f"{data.provenance}; every {step}th row, standardised again",
    )


@naming_the_arguments
def connections_stand_in(n: int = 50_000, seed: int = 1999) -> Dataset:
    """Return `n` generated rows with as many columns as KDD99 and about 80 % ones; the best classifier finds 96 %.

    Neighbouring columns are correlated by 0.5; the responses follow a logistic model with an effect in every column.
    The last two columns are 0 in every row. Equal seeds give equal data.
    """
    rng = np.random.default_rng(seed)
    dim = len(FEATURES)
    noise = rng.standard_normal((n, dim))
    for j in range(1, dim):
        noise[:, j] = 0.5 * noise[:, j - 1] + np.sqrt(0.75) * noise[:, j]
    noise[:, -2:] = 0.0
    effect = 2.5 * rng.standard_normal(dim)
    eta = noise @ effect
    labels = (rng.logistic(size=n) < eta - np.quantile(eta, 0.2)).astype(np.float64)
    return Dataset(
        name="synthetic stand-in for KDD99",
        X_train=standardise(noise),
        y_train=labels,
        X_test=np.empty((0, dim)),
        y_test=np.empty(0),
        provenance=f"generated with seed {seed}: correlated normal columns, logistic responses",
        sha256=checksum(noise, labels),
        is_synthetic=True,
        columns=FEATURES,
    )


def fetch_connections() -> dict[str, np.ndarray]:
    """Fetch the original file through scikit-learn, which verifies it; return features and `malicious`, by name."""
    with extra("downloads", "The download of a data set"):
        from sklearn.datasets import fetch_kddcup99

    rows, labels = fetch_kddcup99(percent10=True, return_X_y=True, n_retries=1, delay=0.1)
    arrays = {}
    for j, name in enumerate(FEATURES):
        if name in CATEGORIES:
            arrays[name] = np.unique(rows[:, j], return_inverse=True)[1].astype(np.uint8)
        else:
            scale = 100.0 if name in RATES else 1.0
            arrays[name] = np.rint(scale * rows[:, j].astype(np.float64)).astype(np.uint32)
    return {**arrays, "malicious": (labels != b"normal.").astype(np.uint8)}


def one_hot_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns as one-hot KDD99; see `synthetic_categories`."""
    return synthetic_categories(n, 38, (3, 66, 11), ones=0.8, title="KDD99, one-hot", seed=1999)


CODINGS = {"shares": (_with_shares, connections_stand_in), "one_hot": (_one_hot, one_hot_stand_in)}
