"""A picture of a small network, laid out so that distances on paper are those along the ties."""

from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.study.report import Figure
from approxmcmc.study.report.svg import COLOURS, INK, subplots

if TYPE_CHECKING:
    from approxmcmc.datasets.network import Network

ROUNDS = 500  # of majorisation; twenty nodes settle in a hundred


def layout(adjacency: np.ndarray) -> np.ndarray:
    """Return places of the nodes in the plane, shape (n, 2), by stress majorisation.

    Minimises sum_{i < j} d_ij^-2 (|x_i - x_j| - d_ij)^2 over the places x, d the number of ties between two nodes;
    nodes that no path joins are to lie one step further apart than any that one does. Each round moves every node to
    the weighted mean of where its partners want it, which never raises the stress (Gansner, Koren and North 2005,
    section 3). It starts from classical scaling, so that nothing is random.
    """
    from scipy.sparse.csgraph import shortest_path

    distance = shortest_path(adjacency, unweighted=True)
    distance[np.isinf(distance)] = distance[np.isfinite(distance)].max() + 1.0
    n = len(distance)
    weight = 1.0 / (distance + np.eye(n)) ** 2 - np.eye(n)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    places = vectors[:, -2:] * np.sqrt(values[-2:])
    for _ in range(ROUNDS):
        for i in range(n):
            away = places[i] - places
            length = np.linalg.norm(away, axis=1)[:, None]
            wanted = places + distance[i][:, None] * away / np.where(length > 0.0, length, 1.0)
            places[i] = weight[i] @ wanted / weight[i].sum()
    return places


def stress(adjacency: np.ndarray, places: np.ndarray) -> float:
    """Return the sum that `layout` makes small, over pairs that a path joins."""
    from scipy.sparse.csgraph import shortest_path

    distance = shortest_path(adjacency, unweighted=True)
    i, j = np.nonzero(np.triu(np.isfinite(distance) & (distance > 0.0)))
    found = np.linalg.norm(places[i] - places[j], axis=1)
    return float((((found - distance[i, j]) / distance[i, j]) ** 2).sum())


def network_figure(network: "Network", lead: str = "") -> Figure:
    """Draw nodes with their names, and the ties between them."""
    import pandas as pd

    places = layout(network.adjacency)
    figure, axis = subplots(figsize=(6.4, 4.6))
    ties = np.argwhere(np.triu(network.adjacency))
    for i, j in ties:
        axis.plot(*places[[i, j]].T, color=INK, linewidth=1.0, alpha=0.6, zorder=1)
    axis.scatter(*places.T, s=40, color=COLOURS[0], zorder=2)
    middle = places.mean(axis=0)
    for place, label in zip(places, network.labels, strict=True):
        above = place[1] >= middle[1]
        axis.annotate(
            label, place, (0, 6 if above else -6), textcoords="offset points", ha="center",
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
