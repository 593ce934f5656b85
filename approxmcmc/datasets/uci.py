"""Two tables of UCI, each with a few influential rows: rare categories (Covertype) and gross errors (EEG eye state).

Covertype: 92 962 cells of 30 x 30 m in the Roosevelt National Forest (Blackard and Dean 1999). They are 16 % of UCI's
table, the same fraction of every class. They have ten measurements, four wilderness areas and 39 of the 40 soil types,
the rarest in 17 cells. The task is LIBSVM's "covtype.binary": class 2, lodgepole pine, against the rest.

EEG eye state: two minutes of one person's EEG (Roesler 2013), 14 980 samples. Four of them are spikes of the recording,
90 to 122 standard deviations away from the mean. They are kept on purpose: each has a leverage near 1, a few rows
dominate a whole column, and a subsample rarely contains them. Remove them to study eyes instead of samplers.
"""

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.datasets.dataset import Columns, Dataset, one_hot, side_by_side, standardised_dataset
from approxmcmc.datasets.source import Download, Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_categories
from approxmcmc.engine.extras import extra

MEASUREMENTS = (
    "elevation", "aspect", "slope", "hydrology_horizontal", "hydrology_vertical", "roadways", "hillshade_9am",
    "hillshade_noon", "hillshade_3pm", "fire_points",
)  # fmt: skip
CELLS = Source(
    title="the 16 % subset of Covertype",
    file_name="covertype_16percent.npz",
    arrays=("quantitative", "wilderness_area", "soil_type", "cover_type"),
    sha256="ae452354b6ee1851552ba2a50940bd5830efa5bc3b7aabcb37959468fa6c4a70",
)
LODGEPOLE_PINE = 2


@naming_the_arguments
def covertype(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the cells with standardised measurements and a 0/1 column for each wilderness area and soil type.

    Parameters
    ----------
    source
        Where to look: "folder" (``covertype_16percent.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache"
        (the user's cache folder, or ``APPROXMCMC_CACHE_DIR``), or "auto": the two in this order. This subset has no
        download; the full set is different.
    allow_synthetic
        If the data are not available, warn and return 20 000 generated rows with the same kinds of columns
        (`synthetic_categories`), instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (92962, 53), every column with mean 0 and standard deviation 1; `y_train` 1 for lodgepole
        pine, 0 for the rest; no test rows. One of the forty soil types has no cells here, and no column.

    Raises
    ------
    DatasetError
        When `allow_synthetic` is False, and no place has the data or the file in the folder has other content.
    InvalidInputError
        When `source` is unknown.

    References
    ----------
    Blackard and Dean (1999), Computers and Electronics in Agriculture 24, 131-151.

    Examples
    --------
    >>> cells = covertype()  # doctest: +SKIP
    >>> cells.X_train.shape, int(cells.y_train.sum())  # doctest: +SKIP
    ((92962, 53), 45328)
    """
    return or_stand_in(lambda: _cells(source), cells_stand_in, allow_synthetic=allow_synthetic)


def cells_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns as Covertype; see `synthetic_categories`."""
    return synthetic_categories(n, 10, (4, 40), title="Covertype", seed=1999)


def _cells(source: str) -> Dataset:
    (quantitative, wilderness, soil, cover), provenance = CELLS.find(source)
    measured = Columns(quantitative.astype(np.float64), MEASUREMENTS)
    return standardised_dataset(
        "Covertype, 16 %",
        side_by_side([measured, one_hot(wilderness, "wilderness"), one_hot(soil, "soil")]),
        cover == LODGEPOLE_PINE,
        provenance=f"{provenance}; a 0/1 column for each wilderness area and soil type",
        sha256=CELLS.sha256,
    )


ELECTRODES = ("AF3", "F7", "F3", "FC5", "T7", "P7", "O1", "O2", "P8", "T8", "FC6", "F4", "F8", "AF4")
SAMPLES = Source(
    title="EEG eye state",
    file_name="eeg_eye_state.npz",
    arrays=("X", "y"),
    sha256="127aebd412b75617cdf6e2c923e4e2bc08b9f828f6076b3040a3faf10c948bfb",
    download=Download("openml", "approxmcmc.datasets.uci:fetch_samples", "OpenML data set eeg-eye-state version 1"),
)
CLOSED = "2"  # OpenML's name of the class


@naming_the_arguments
def eeg_eye_state(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the samples with 14 standardised voltages, spikes included, and whether the eyes were closed.

    Parameters
    ----------
    source
        Where to look: "folder" (``eeg_eye_state.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache" (the
        user's cache folder, or ``APPROXMCMC_CACHE_DIR``), "openml" (download to the cache; stopped after 20 s), or
        "auto": the three in this order.
    allow_synthetic
        If the data are not available, warn and return 15 000 generated rows with as many columns, without spikes
        (`synthetic_categories`), instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (14980, 14), in time order; `y_train` 1 for closed eyes, 0 for open ones; no test rows.

    Raises
    ------
    DatasetError
        When `allow_synthetic` is False, and no place has the data or the file in the folder has other content.
    InvalidInputError
        When `source` is unknown.

    Examples
    --------
    >>> samples = eeg_eye_state()  # doctest: +SKIP
    >>> samples.X_train.shape, int(samples.y_train.sum())  # doctest: +SKIP
    ((14980, 14), 6723)
    """
    return or_stand_in(lambda: _samples(source), samples_stand_in, allow_synthetic=allow_synthetic)


def samples_stand_in(n: int = 15_000) -> Dataset:
    """Return generated rows with as many columns as the EEG data; see `synthetic_categories`."""
    return synthetic_categories(n, 14, (), ones=0.45, title="EEG eye state", seed=2013)


def _samples(source: str) -> Dataset:
    (voltages, closed), provenance = SAMPLES.find(source)
    return standardised_dataset(
        "EEG eye state, with its spikes",
        Columns(voltages, ELECTRODES),
        closed,
        provenance=f"{provenance}; spikes of the recording kept",
        sha256=SAMPLES.sha256,
    )


def fetch_samples() -> dict[str, np.ndarray]:
    """Fetch the samples from OpenML through scikit-learn; return the arrays of the file by name."""
    with extra("downloads", "The download of a data set"):
        from sklearn.datasets import fetch_openml

    voltages, states = fetch_openml("eeg-eye-state", version=1, return_X_y=True, as_frame=False, n_retries=1, delay=0.1)
    return {"X": voltages.astype(np.float64), "y": (np.asarray(states) == CLOSED).astype(np.uint8)}
