"""Small data that ship with the package: two networks of Alquier et al. (2016), section 4.2, and a panel of workers."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from approxmcmc.datasets.dataset import checksum


@dataclass(frozen=True, eq=False)
class Network:
    """An undirected simple graph with labelled nodes.

    Attributes
    ----------
    name
        Name of the data in a table or figure.
    adjacency
        Zeros and ones, symmetric; int64, shape (n, n).
    labels
        Names of the nodes, in the order of the rows.
    provenance
        Origin of the edges.
    sha256
        Checksum of the adjacency matrix; see `approxmcmc.datasets.dataset.checksum`.
    """

    name: str
    adjacency: np.ndarray
    labels: tuple[str, ...]
    provenance: str
    sha256: str

    def __repr__(self) -> str:
        """Return name, size and origin."""
        n_edges = int(self.adjacency.sum()) // 2
        return f"<Network {self.name!r}: {len(self.labels)} nodes, {n_edges} edges; {self.provenance}>"


def from_edges(name: str, labels: tuple[str, ...], edges: np.ndarray, provenance: str) -> Network:
    """Return the network of an edge list of shape (E, 2), with nodes counted from 1, in the order of `labels`."""
    adjacency = np.zeros((len(labels), len(labels)), np.int64)
    rows, columns = edges.T - 1
    adjacency[rows, columns] = adjacency[columns, rows] = 1
    return Network(name, adjacency, labels, provenance, checksum(adjacency))


FAMILIES = (
    "Acciaiuoli", "Albizzi", "Barbadori", "Bischeri", "Castellani", "Ginori", "Guadagni", "Lamberteschi", "Medici",
    "Pazzi", "Peruzzi", "Pucci", "Ridolfi", "Salviati", "Strozzi", "Tornabuoni",
)  # fmt: skip
TIES = (
    (3, 5), (3, 6), (3, 9), (3, 11), (4, 7), (4, 8), (4, 11), (5, 8), (5, 11), (6, 9), (7, 8), (8, 11), (9, 10),
    (9, 14), (9, 16),
)  # fmt: skip
PADGETT = (
    "Padgett's data on Florentine families (Padgett and Ansell 1993; Breiger and Pattison 1986), business ties; edge "
    "list as in data/florentine.RData of the R package statnet/ergm, commit df2ead1954cd66871719cf2ec46f3b331bbb85d8"
)


def florentine_business() -> Network:
    """Return the network of business ties between Florentine families: 16 families, 15 ties, 5 families without ties.

    Returns
    -------
    Network
        Statistics: 15 edges, 36 two-stars, 24 three-stars, 5 triangles.

    Examples
    --------
    >>> ties = florentine_business()
    >>> ties.adjacency.shape, int(ties.adjacency.sum()) // 2
    ((16, 16), 15)
    """
    return from_edges("Florentine business ties", FAMILIES, np.array(TIES), PADGETT)


N_ATOMS = 20
BONDS = (
    (1, 2), (1, 5), (2, 3), (2, 4), (3, 4), (3, 14), (3, 15), (4, 5), (4, 6), (5, 6), (5, 7), (7, 8), (7, 9), (8, 9),
    (8, 10), (8, 13), (9, 13), (10, 11), (10, 12), (11, 12), (12, 13), (14, 15), (14, 16), (14, 17), (14, 18), (16, 19),
    (17, 20), (18, 20),
)  # fmt: skip
STATNET = (
    "synthetic example made by the authors of the R package statnet/ergm; edge list as in data/molecule.RData, commit "
    "df2ead1954cd66871719cf2ec46f3b331bbb85d8"
)


def molecule() -> Network:
    """Return the network of a made-up molecule: 20 atoms (nodes), 28 bonds (edges).

    Returns
    -------
    Network
        Statistics: 28 edges, 60 two-stars, 32 three-stars, 6 triangles.

    Examples
    --------
    >>> bonds = molecule()
    >>> bonds.adjacency.shape, int(bonds.adjacency.sum()) // 2
    ((20, 20), 28)
    """
    labels = tuple(str(atom) for atom in range(1, N_ATOMS + 1))
    return from_edges("molecule", labels, np.array(BONDS), STATNET)


def union_members() -> Any:
    """Return union membership of young men: 545 men, one row for each year from 1980 to 1987.

    Columns: ``nr`` (number of the man), ``year``, ``union`` (1 if a union contract set his wage), ``educ`` (years of
    schooling), ``exper`` (years of experience), ``married``, ``black``, ``hisp`` (0 or 1). 55 % of the men are in a
    union in all years or in none.

    Returns
    -------
    pandas.DataFrame
        4360 rows, sorted by man and year. Its ``attrs`` have the provenance.

    Notes
    -----
    From the National Longitudinal Survey of Youth of the Bureau of Labor Statistics, as selected by Vella and Verbeek
    (1998), "Whose wages do unions raise?", Journal of Applied Econometrics 13, 163-183. The columns are those of
    ``wage_panel.csv.bz2`` in linearmodels (commit 2ce5503), Copyright (c) 2017 Kevin Sheppard, NCSA licence; the
    licence is in the same folder, in ``union_members.txt``.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> men = amc.datasets.union_members()
    >>> len(men), men["nr"].nunique(), round(float(men["union"].mean()), 3)
    (4360, 545, 0.244)
    """
    import pandas as pd

    with files(__package__).joinpath("union_members.csv.gz").open("rb") as file:
        table = pd.read_csv(file, compression="gzip")
    table.attrs["provenance"] = "Vella and Verbeek (1998), from linearmodels at commit 2ce5503 (NCSA licence)"
    return table
