"""Two small networks that ship with the package, the graphs of Alquier et al. (2016), section 4.2."""

from dataclasses import dataclass

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
    """Return the network of an edge list of shape (E, 2), with nodes counted from 1."""
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
    """Return the business ties: 16 families, 15 ties, 5 families without ties.

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
    """Return the molecule: 20 atoms, 28 bonds.

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
