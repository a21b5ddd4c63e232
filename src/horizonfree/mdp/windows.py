"""Where something can still be earned: of an episode that pays for being in one state, the steps and states that count.

At step h an episode is in a state that it can have come to, and can come to the state g in the H - h steps that are
left, or cannot. From where it cannot, nothing is earned, whatever is done and whatever the parameter is. On a grid of a
hundred by a hundred cells with H = 50 that leaves, on average over g, 4,300 of 500,000 pairs (h, s).

`Rows` lists, for several g at once, the pairs (g, s) of one step. Those of "nothing", a reward that pays nowhere, stand
behind them, one for each state: they are what a pair is that was left out.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from horizonfree.mdp.space import Space


class Before(NamedTuple):
    """The states that lead to each state: those of s are `states[first[s] : first[s + 1]]`, each once."""

    first: Int[np.ndarray, " S1"]
    states: Int[np.ndarray, " E"]


def before(space: Space) -> Before:
    """Of the transitions that some parameter makes possible."""
    S, A, n = space.succ.shape
    support = np.asarray(space.support)
    to = np.asarray(space.succ)[support].astype(np.int64)
    origin = np.broadcast_to(np.arange(S)[:, None, None], (S, A, n))[support]
    edges = np.sort(to * S + origin)
    edges = edges[np.diff(edges, prepend=-1) > 0]
    first = np.searchsorted(edges, np.arange(S + 1) * S)
    return Before(first, edges % S)


def distances(before: Before, states: Int[np.ndarray, " G"], most: int) -> Int[np.ndarray, "G S"]:
    """The least number of transitions from each state to each of the given ones; most + 1 where it is more."""
    G, S = len(states), len(before.first) - 1
    result = np.full(G * S, most + 1, np.int32)
    place = np.zeros(G * S, np.int64)
    near = np.arange(G) * S + states  # pairs (g, s) as one number
    result[near] = 0
    for distance in range(1, most + 1):
        s = near % S
        count = before.first[s + 1] - before.first[s]
        skipped = np.repeat(before.first[s] - (np.cumsum(count) - count), count)
        near = np.repeat(near - s, count) + before.states[np.arange(len(skipped)) + skipped]
        near = near[result[near] > most]
        if not near.size:
            break
        order = np.arange(len(near))
        place[near] = order
        near = near[place[near] == order]  # each of them once
        result[near] = distance
    return result.reshape(G, S)


class Rows(NamedTuple):
    """Pairs (g, s) of one step, those of nothing (g = G) last, and where in this list each of all pairs stands."""

    g: Int[np.ndarray, " N"]
    s: Int[np.ndarray, " N"]
    place: Int[np.ndarray, "G1 S"]


def rows(occupied: Bool[np.ndarray, " S"], distance: Int[np.ndarray, "G S"], left: int) -> Rows:
    """Of a step after which there are `left` more."""
    G, S = distance.shape
    states = np.flatnonzero(occupied)
    g, at = np.nonzero(distance[:, states] <= left)
    place = np.zeros((G + 1, S), np.int32)
    place[:, states] = len(g) + np.arange(len(states))
    place[g, states[at]] = np.arange(len(g))
    return Rows(np.concatenate([g, np.full(len(states), G)]), np.concatenate([states[at], states]), place)
