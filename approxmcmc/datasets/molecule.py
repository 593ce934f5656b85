"""A synthetic molecule: the second graph of Alquier et al. (2016), section 4.2."""

import numpy as np

from approxmcmc.datasets.network import Network, from_edges

N_ATOMS = 20
EDGES = (
    (1, 2), (1, 5), (2, 3), (2, 4), (3, 4), (3, 14), (3, 15), (4, 5), (4, 6), (5, 6), (5, 7), (7, 8), (7, 9), (8, 9),
    (8, 10), (8, 13), (9, 13), (10, 11), (10, 12), (11, 12), (12, 13), (14, 15), (14, 16), (14, 17), (14, 18), (16, 19),
    (17, 20), (18, 20),
)  # fmt: skip
PROVENANCE = (
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
    return from_edges("molecule", labels, np.array(EDGES), PROVENANCE)
