"""A picture of a small network, laid out so that distances on paper are those along the ties."""

from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.study.report import Figure
from approxmcmc.study.report.svg import COLOURS, INK, subplots

if TYPE_CHECKING:
    from approxmcmc.datasets.shipped import Network

ROUNDS = 500  # rounds of majorisation; twenty nodes settle in a hundred


def layout(adjacency: np.ndarray) -> np.ndarray:
    """Return places of the nodes in the plane, shape (n, 2): nodes with ties by their distances, the others in a row.

    The places x of the nodes with ties make sum_{i < j} d_ij^-2 (|x_i - x_j| - d_ij)^2 small, d the number of ties
    between two nodes (stress majorisation; Gansner, Koren and North 2005, section 3). Each move puts a node at the
    weighted mean of the places that its distances to the other nodes imply, which never raises the sum. Classical
    scaling is the start, so that nothing is random. The longest direction lies across the page. Ties must join all
    nodes that have any.
    """
    tied = np.flatnonzero(adjacency.sum(axis=0) > 0)
    alone = np.setdiff1d(np.arange(len(adjacency)), tied)
    places = np.empty((len(adjacency), 2))
    places[tied] = _settle(distances(adjacency[np.ix_(tied, tied)]))
    low = places[tied].min(axis=0)
    high = places[tied].max(axis=0)
    places[alone, 0] = np.linspace(low[0], high[0], len(alone) + 2)[1:-1]
    places[alone, 1] = low[1] - 1.0
    return places


def distances(adjacency: np.ndarray) -> np.ndarray:
    """Return the number of ties on the shortest path between two nodes; infinite if no path exists."""
    from scipy.sparse.csgraph import shortest_path

    return np.asarray(shortest_path(adjacency, unweighted=True))


def _settle(distance: np.ndarray) -> np.ndarray:
    n = len(distance)
    weight = 1.0 / (distance + np.eye(n)) ** 2 - np.eye(n)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    places = vectors[:, -2:] * np.sqrt(values[-2:])
    for _ in range(ROUNDS):
        for i in range(n):
            away = places[i] - places
            length = np.linalg.norm(away, axis=1)[:, None]
            ideal = places + distance[i][:, None] * away / np.where(length > 0.0, length, 1.0)
            places[i] = weight[i] @ ideal / weight[i].sum()
    places -= places.mean(axis=0)
    _, axes = np.linalg.eigh(places.T @ places)
    return np.asarray(places @ axes[:, ::-1])


def network_figure(network: "Network", lead: str = "") -> Figure:
    """Draw nodes with their names, and the ties between them."""
    import pandas as pd

    places = layout(network.adjacency)
    figure, axis = subplots(figsize=(7.6, 4.2))
    ties = np.argwhere(np.triu(network.adjacency))
    for i, j in ties:
        axis.plot(*places[[i, j]].T, color=INK, linewidth=1.0, alpha=0.6, zorder=1)
    axis.scatter(*places.T, s=40, color=COLOURS[0], zorder=2)
    for point, label, partners in zip(places, network.labels, network.adjacency, strict=True):
        # A name is on the side of its node away from the nodes that it is tied to.
        above = not partners.any() or point[1] >= places[partners > 0, 1].mean()
        axis.annotate(
            label, point, (0, 6 if above else -6), textcoords="offset points", ha="center",
            va="bottom" if above else "top", fontsize=8,
        )  # fmt: skip
    axis.set_aspect("equal")
    axis.margins(0.12)
    axis.axis("off")
    alone = int((network.adjacency.sum(axis=0) == 0).sum())
    caption = (
        f"{lead} {network.name}: {len(places)} nodes, {len(ties)} ties, {alone} nodes without any. Places by stress "
        f"majorisation: distances on paper follow the number of ties between two nodes. {network.provenance}."
    )
    data = pd.DataFrame(
        {"from": [network.labels[i] for i in ties[:, 0]], "to": [network.labels[j] for j in ties[:, 1]]}
    )
    return Figure(f"The network: {network.name}", caption.lstrip(), figure, data)
