"""Network connections of the KDD Cup 1999: the data of Korattikara, Chen and Welling (2014), section 6.2.

The 10 % subset: 494021 connections, 41 features, malicious (80 %) or normal. The paper says neither how columns were
coded nor how they were scaled; what is done here is written down at `kdd99`.
"""

import dataclasses
import warnings
from pathlib import Path

import numpy as np

from approxmcmc.datasets import openml
from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.datasets.places import DATA_VARIABLE, cache_folder, data_folder, read_arrays, write_arrays
from approxmcmc.engine.paths import CACHE_VARIABLE
from approxmcmc.errors import DatasetError, InvalidInputError

FILE_NAME = "kddcup99_10percent.npz"
CATEGORIES = ("protocol_type", "service", "flag")
RATES = (  # fractions with two decimals, kept as hundredths
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
# Of the 41 columns as int32 (categories numbered in the order of the alphabet, rates in hundredths), then malicious.
SHA256 = "d2cf34b5811f5b2fa131373bdd43e8b2cd1592e1514dce0d749244e2c216928c"
SOURCES = ("auto", "folder", "cache", "download")
CHILD = "import sys; from approxmcmc.datasets.kdd99 import save; save(sys.argv[1])"


def kdd99(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the connections with 41 standardised features.

    Coding: the 15 rates as they are; a category (protocol, service, flag) as the share of the connections that have it,
    one column each; everything else, counts and 0/1 marks, as log(1 + value). Then each column has its mean taken off
    and is divided by its standard deviation. ``num_outbound_cmds`` and ``is_host_login`` are 0 in every row and stay 0:
    their coefficients have the prior as posterior.

    Parameters
    ----------
    source
        Where to look: "folder" (``kddcup99_10percent.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache"
        (the user's cache folder, or ``APPROXMCMC_CACHE_DIR``), "download" (scikit-learn's copy of the original file,
        to the cache; given up after 20 s), or "auto": the three in this order.
    allow_synthetic
        When the data cannot be had, warn and return `connections_stand_in` instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (494021, 41), `y_train` 1 for malicious, 0 for normal; no test rows.

    Raises
    ------
    DatasetError
        When no place has the data, or a file there holds anything else.

    Examples
    --------
    >>> connections = kdd99()  # doctest: +SKIP
    >>> connections.X_train.shape, int(connections.y_train.sum())  # doctest: +SKIP
    ((494021, 41), 396743)
    """
    try:
        values, malicious, provenance = _find(source)
    except DatasetError as error:
        if not allow_synthetic:
            raise
        warnings.warn(f"a synthetic stand-in replaces KDD99. {error}", stacklevel=2)
        return connections_stand_in()
    return Dataset(
        name="KDD Cup 1999, 10 %",
        X_train=standardise(features_of(values)),
        y_train=malicious.astype(np.float64),
        X_test=np.empty((0, len(FEATURES))),
        y_test=np.empty(0),
        provenance=f"{provenance}; rates, shares of categories, log(1 + counts), standardised",
        sha256=SHA256,
    )


def features_of(values: np.ndarray) -> np.ndarray:
    """Return the 41 columns as numbers that mean something, before they are standardised; float64, same shape."""
    columns = values.astype(np.float64)
    for j, name in enumerate(FEATURES):
        if name in RATES:
            columns[:, j] /= 100.0
        elif name in CATEGORIES:
            columns[:, j] = (np.bincount(values[:, j]) / len(values))[values[:, j]]
        else:
            columns[:, j] = np.log1p(columns[:, j])
    return columns


def standardise(columns: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and standard deviation 1; a constant column becomes 0."""
    spread = columns.std(axis=0)
    return np.ascontiguousarray((columns - columns.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def every(data: Dataset, step: int) -> Dataset:
    """Return every `step`-th training row, standardised anew: connections lie in the order of time, attacks in runs."""
    rows = np.ascontiguousarray(data.X_train[::step])
    return dataclasses.replace(
        data,
        name=f"{data.name}, every {step}th row",
        X_train=standardise(rows),
        y_train=data.y_train[::step].copy(),
        provenance=f"{data.provenance}; every {step}th row, standardised anew",
    )


def connections_stand_in(n: int = 50_000, seed: int = 1999) -> Dataset:
    """Return generated rows with the columns' number and the difficulty of KDD99: 80 % ones, 99 % told apart.

    Neighbouring columns are correlated by 0.5; the responses follow a logistic law with an effect in every column but
    the last two, which are 0.
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
    )


def fetch_connections() -> dict[str, np.ndarray]:
    """Fetch the original file through scikit-learn, which verifies it; one array for each feature, and malicious."""
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


def save(path: str) -> None:
    """Fetch the connections and write them to `path`: what the child process does."""
    write_arrays(Path(path), fetch_connections())


def _find(source: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return features, labels and origin from the first place that has them."""
    if source not in SOURCES:
        raise InvalidInputError(f"source must be one of {SOURCES}, found {source!r}.")
    cached, folder, tried = cache_folder() / FILE_NAME, data_folder(), "not asked"
    if source in ("auto", "folder") and folder is not None and (folder / FILE_NAME).exists():
        return *_load(folder / FILE_NAME), f"{FILE_NAME} in the folder of {DATA_VARIABLE}"
    if source in ("auto", "cache") and cached.exists():
        try:
            return *_load(cached), "the user's cache, downloaded through scikit-learn"
        except DatasetError as error:
            warnings.warn(f"{error} It is ignored.", stacklevel=4)
    if source in ("auto", "download"):
        try:
            openml.download(cached, insist=source == "download", child=CHILD)
            return *_load(cached), f"the original file through scikit-learn, kept in {cached}"
        except DatasetError as error:
            tried = str(error)
    raise DatasetError(
        f"KDD99 was not found (source={source!r}). Looked at: (1) the folder of {DATA_VARIABLE}: "
        f"{'the variable is not set' if folder is None else folder / FILE_NAME}; (2) the user's cache: {cached}; (3) "
        f"download: {tried}. Put {FILE_NAME} into one of the two folders (set {DATA_VARIABLE} or {CACHE_VARIABLE}), or "
        "connect to the network and try again, or use allow_synthetic=True where real data are not needed."
    )


def _load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    arrays = read_arrays(path, (*FEATURES, "malicious"))
    malicious = arrays.pop("malicious").astype(np.uint8)
    values = np.column_stack([arrays[name].astype(np.int32) for name in FEATURES])
    found = checksum(values, malicious)
    if found != SHA256:
        raise DatasetError(
            f"{path} does not hold the 10 % subset of KDD99: the checksum of its arrays is {found}, needed is {SHA256}."
            " Replace or remove the file."
        )
    return values, malicious
