"""A small network that ships with the package, with where it came from."""

from dataclasses import dataclass

import numpy as np

from approxmcmc.datasets.dataset import checksum


@dataclass(frozen=True, eq=False)
class Network:
    """An undirected simple graph with labelled nodes.

    Attributes
    ----------
    name
        What to call the data in a table or figure.
    adjacency
        Zeros and ones, symmetric; int64, shape (n, n).
    labels
        Names of the nodes, in the order of the rows.
    provenance
        Where the edges came from.
    sha256
        Checksum of the adjacency matrix; see `approxmcmc.datasets.dataset.checksum`.
    """

    name: str
    adjacency: np.ndarray
    labels: tuple[str, ...]
    provenance: str
    sha256: str

    def __repr__(self) -> str:
        """Name, size and origin."""
        n_edges = int(self.adjacency.sum()) // 2
        return f"<Network {self.name!r}: {len(self.labels)} nodes, {n_edges} edges; {self.provenance}>"


def from_edges(name: str, labels: tuple[str, ...], edges: np.ndarray, provenance: str) -> Network:
    """Return the network of an edge list of shape (E, 2), whose nodes count from 1."""
    adjacency = np.zeros((len(labels), len(labels)), np.int64)
    rows, columns = edges.T - 1
    adjacency[rows, columns] = adjacency[columns, rows] = 1
    return Network(name, adjacency, labels, provenance, checksum(adjacency))
