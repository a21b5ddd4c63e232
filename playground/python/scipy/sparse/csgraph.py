"""Shortest paths where every edge has length one."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from . import coo_array


def dijkstra(graph: "coo_array", indices: np.ndarray, unweighted: bool, limit: float) -> np.ndarray:
    """The distances from some nodes to all, up to a limit; infinite beyond. [indices, nodes]"""
    if not unweighted:
        raise NotImplementedError("only distances in edges are computed in the browser")
    indices = np.atleast_1d(indices)
    distance = np.full((len(indices), graph.shape[0]), np.inf)
    distance[np.arange(len(indices)), indices] = 0
    for length in range(1, int(limit) + 1):
        source, edge = np.nonzero(distance[:, graph.row] == length - 1)
        is_reached = np.zeros(distance.shape, bool)
        is_reached[source, graph.col[edge]] = True
        is_reached &= np.isinf(distance)
        if not is_reached.any():
            break
        distance[is_reached] = length
    return distance
