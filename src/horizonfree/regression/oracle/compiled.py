"""The oracle of single runs on a CPU: the answers of `ascent`, in a tenth to a thousandth of its time.

Once per problem (`layout`): the states in the order of their distance from the start, of which step h needs the first
few, and the distinct feature matrices among their pairs (s,a). Once per call (`ascent_here`): the factors of the
distinct matrices, computed in JAX by the formulas of objective.py, are laid out and handed to search_loop.py.

At a step and in a state where no episode can be, the policy stays what it was, and V and Vhat are zero.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped, UInt32

from horizonfree._x64 import Leaf, leaf
from horizonfree.mdp.space import Space, start_distribution
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.regression.oracle.climb_loop import Tables
from horizonfree.regression.oracle.objective import Factors
from horizonfree.regression.oracle.reply import Needed, Reply
from horizonfree.regression.oracle.result import OracleResult, Point
from horizonfree.regression.oracle.search_loop import search
from horizonfree.regression.oracle.vectors import ROWS, TILE


class Layout(NamedTuple):
    """What the loops know of a problem: N states that can be reached, in T tiles, and G distinct feature matrices."""

    reach: Int[np.ndarray, " H"]
    state: Int[np.ndarray, " N"]
    succ: UInt32[np.ndarray, "A T n tile"]
    kind: Int[np.ndarray, "padded A"]
    initial: Float[np.ndarray, " N"]
    phi: Float[np.ndarray, "G n d"]


def layout(model: MixtureModel) -> Layout:
    """Of a model on the host."""
    space, phi = model.space, np.asarray(model.phi)
    H, S, A = space.sizes
    n, d = phi.shape[2:]
    distance = distances(space)
    state = np.argsort(distance, kind="stable")[: np.count_nonzero(distance < H)]
    N = len(state)
    number = np.full(S, N)
    number[state] = np.arange(N)
    padded = np.concatenate([state, np.full(-N % TILE, state[0])])  # repeats, which are computed and left
    succ = _tiled(number[np.asarray(space.succ)[padded]].astype(np.uint32))
    distinct, kind = np.unique(phi[padded].reshape(-1, n * d), axis=0, return_inverse=True)
    start = space.start if space.initial is None else np.asarray(space.initial)
    initial = start_distribution(start, S)
    return Layout(
        np.searchsorted(distance[state], np.arange(H), side="right"),
        state,
        succ,
        kind.reshape(-1, A),
        initial[state],
        distinct.reshape(-1, n, d),
    )


def distances(space: Space) -> Int[np.ndarray, " S"]:
    """In how many steps a state can be reached from the start; H where none of an episode does."""
    succ, support, H = np.asarray(space.succ), np.asarray(space.support), space.horizon
    distance = np.full(space.num_states, H)
    frontier = np.flatnonzero(space.starts())
    for h in range(H):
        distance[frontier] = h
        after = np.unique(succ[frontier][support[frontier]])
        frontier = after[distance[after] == H]
    return distance


def ascent_here(
    key: UInt32[np.ndarray, "2"],
    layout: Layout,
    factors: Factors,
    beta: float,
    beta_search: float,
    warm: Point,
    *,
    chains: int = 3,
    sweeps: int = 20,
) -> tuple[OracleResult, Float[Leaf, ""]]:
    """`ascent`, and U at the start; `factors` are those of `layout.phi`, arrays of the host all."""
    start = np.asarray(warm.policy), np.asarray(warm.target), int(warm.step)
    return reply_here(
        key, layout, Needed.of(factors), (beta, beta_search), *start, chains=chains, sweeps=sweeps
    ).result()


def reply_here(
    key: UInt32[np.ndarray, "2"],
    layout: Layout,
    factors: Needed,
    radii: tuple[float, float],
    policy: Int[np.ndarray, "H S"],
    target: Bool[np.ndarray, " S"],
    step: Int[np.ndarray, ""] | int,
    *,
    chains: int,
    sweeps: int,
) -> Reply:
    """The same in few arrays, from a point in parts; radii: beta, and that of the search."""
    H, S = policy.shape
    N = len(layout.state)
    P = N + TILE - N % TILE
    here, V, chosen = np.zeros((H, P), np.int32), np.zeros((H + 1, P, 2)), target[layout.state]
    here[:, :N] = policy[:, layout.state]
    step, *numbers, used, U = search(
        (np.uint64(key[0]), np.uint64(key[1])),
        _tables(S, layout, factors),
        *map(float, radii),
        chains,
        sweeps,
        here.ravel(),
        int(step),
        chosen,
        V.ravel(),
    )
    return Reply(
        _spread(policy.copy(), layout, here[:, :N]),
        _spread(target.copy(), layout, chosen),
        leaf(np.array([step, used], np.int32)),
        _spread(np.zeros((2, H + 1, S)), layout, np.moveaxis(V[:, :N], -1, 0)),
        leaf(np.array([*numbers, U])),
    )


def _spread(
    whole: Shaped[np.ndarray, "*H S"], layout: Layout, part: Shaped[np.ndarray, "*H N"]
) -> Shaped[Leaf, "*H S"]:
    """`part` in the places of the states that can be reached."""
    whole[..., layout.state] = part
    return leaf(whole)


def _tables(S: int, layout: Layout, factors: Needed) -> Tables:
    """Per kind and per pair."""
    p, F, F_hat, box, slope = map(np.asarray, factors)
    pairs = [_tiled(x[layout.kind]).ravel() for x in (p, F, F_hat, box)]
    rows = np.zeros((len(p), *(x + -x % ROWS for x in F.shape[1:]), 2))
    rows[:, : F.shape[1], : F.shape[2], 0], rows[:, : F.shape[1], : F.shape[2], 1] = F, F_hat
    columns = np.swapaxes(rows[:, :, : F.shape[2]], 1, 2)
    kinds = [x.ravel() for x in (p, slope, rows, columns)]
    A, m, n = layout.kind.shape[1], *F.shape[1:]
    known = layout.succ.ravel(), layout.kind, layout.initial
    is_triangle = m == n < layout.phi.shape[2]  # by objective._factor
    return Tables(layout.reach, layout.state, S, A, m, n, *known, *pairs, *kinds, is_triangle)


def _tiled(x: Shaped[np.ndarray, "padded A *rest"]) -> Shaped[np.ndarray, "A T *rest tile"]:
    """Tiles of states side by side."""
    tiles = x.reshape(-1, TILE, *x.shape[1:])
    return np.ascontiguousarray(np.moveaxis(tiles, (2, 0, 1), (0, 1, -1)))
