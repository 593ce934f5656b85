"""Forest cover types: ordinary tall data with rare categories.

92 962 cells of 30 x 30 m in the Roosevelt National Forest (Blackard and Dean 1999), a sixth of UCI's Covertype drawn in
equal shares of every class: ten measurements, four wilderness areas and forty soil types, of which the rarest has a
handful of cells. The task is LIBSVM's "covtype.binary": class 2, lodgepole pine, against the rest.
"""

import numpy as np

from approxmcmc.datasets.coding import Columns, one_hot, side_by_side, standardised_dataset
from approxmcmc.datasets.dataset import Dataset
from approxmcmc.datasets.source import Source, or_stand_in
from approxmcmc.datasets.synthetic import synthetic_categories

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


def covertype(source: str = "auto", *, allow_synthetic: bool = False) -> Dataset:
    """Return the cells with standardised measurements and a 0/1 column for each wilderness area and soil type.

    Parameters
    ----------
    source
        Where to look: "folder" (``covertype_16percent.npz`` in the folder that ``APPROXMCMC_DATA_DIR`` names), "cache"
        (the user's cache folder, or ``APPROXMCMC_CACHE_DIR``), or "auto": the two in this order. This subset has no
        download; the full set is different.
    allow_synthetic
        If the data are not available, warn and return `synthetic_categories` of the same shape instead of raising.

    Returns
    -------
    Dataset
        `X_train` float64 (92962, 53), every column with mean 0 and standard deviation 1; `y_train` 1 for lodgepole
        pine; no test rows. Columns of soil types without cells (one of forty) are left out.

    Raises
    ------
    DatasetError
        When no place has the data, or a file there has other content.

    References
    ----------
    Blackard and Dean (1999), Computers and Electronics in Agriculture 24, 131-151.

    Examples
    --------
    >>> cells = covertype()  # doctest: +SKIP
    >>> cells.X_train.shape, int(cells.y_train.sum())  # doctest: +SKIP
    ((92962, 53), 45328)
    """
    return or_stand_in(lambda: _load(source), cells_stand_in, allow_synthetic=allow_synthetic)


def cells_stand_in(n: int = 20_000) -> Dataset:
    """Return generated rows with the same kinds of columns; see `synthetic_categories`."""
    return synthetic_categories(n, 10, (4, 40), title="Covertype", seed=1999)


def _load(source: str) -> Dataset:
    (quantitative, wilderness, soil, cover), provenance = CELLS.find(source)
    measured = Columns(quantitative.astype(np.float64), MEASUREMENTS)
    return standardised_dataset(
        "Covertype, 16 %",
        side_by_side([measured, one_hot(wilderness, "wilderness"), one_hot(soil, "soil")]),
        cover == LODGEPOLE_PINE,
        provenance=f"{provenance}; a 0/1 column for each wilderness area and soil type",
        sha256=CELLS.sha256,
    )
