"""Business ties between sixteen families of Renaissance Florence: the graph of Alquier et al. (2016), section 4.2."""

import numpy as np

from approxmcmc.datasets.network import Network, from_edges

FAMILIES = (
    "Acciaiuoli", "Albizzi", "Barbadori", "Bischeri", "Castellani", "Ginori", "Guadagni", "Lamberteschi", "Medici",
    "Pazzi", "Peruzzi", "Pucci", "Ridolfi", "Salviati", "Strozzi", "Tornabuoni",
)  # fmt: skip
EDGES = (
    (3, 5), (3, 6), (3, 9), (3, 11), (4, 7), (4, 8), (4, 11), (5, 8), (5, 11), (6, 9), (7, 8), (8, 11), (9, 10),
    (9, 14), (9, 16),
)  # fmt: skip
PROVENANCE = (
    "Padgett's data on Florentine families (Padgett and Ansell 1993; Breiger and Pattison 1986), business ties; edge "
    "list as in data/florentine.RData of the R package statnet/ergm, commit df2ead1954cd66871719cf2ec46f3b331bbb85d8"
)


def florentine_business() -> Network:
    """Return the business ties: 16 families, 15 ties, 5 families without any.

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
    return from_edges("Florentine business ties", FAMILIES, np.array(EDGES), PROVENANCE)
