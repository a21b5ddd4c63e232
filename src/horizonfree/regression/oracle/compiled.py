"""The oracle of single runs on a CPU: the answers of `ascent`, in a tenth to a thousandth of its time.

Once per problem (`layout`): the states in the order of their distance from the start, of which step h needs the first
few, and the distinct feature matrices among their pairs (s,a). Once per call (`ascent_here`): the factors of the
distinct matrices, computed in JAX by the formulas of objective.py, are laid out and handed to search_loop.py.

At a step and in a state where no episode can be, the policy stays what it was, and V and Vhat are zero.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt32

from horizonfree._x64 import Leaf, leaf
from horizonfree.mdp.space import Space, start_distribution
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.regression.oracle.climb_loop import Room, Tables, padded
from horizonfree.regression.oracle.objective import Factors
from horizonfree.regression.oracle.reply import Needed, Question, Reply
from horizonfree.regression.oracle.result import OracleResult, Point
from horizonfree.regression.oracle.search_loop import search
from horizonfree.regression.oracle.vectors import TILE

_up = padded.py_func  # from Python


class Layout(NamedTuple):
    """What the loops know of a problem: N states that can be reached, in T tiles, and G distinct feature matrices."""

    reach: Int[np.ndarray, " H"]
    state: Int[np.ndarray, " N"]
    succ: UInt32[np.ndarray, " slots"]  # [A T n TILE]: 2 s, where pairs of numbers begin
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
    succ = _tiled(2 * number[np.asarray(space.succ)[padded]]).astype(np.uint32).ravel()
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
    start = leaf(np.asarray(warm.policy)), leaf(np.asarray(warm.target)), leaf(np.asarray(warm.step))
    question = Question(leaf(key), leaf(np.array([beta, beta_search])), *start, Needed.of(factors))
    return reply_here(question, layout, chains=chains, sweeps=sweeps).result()


def reply_here(question: Question, layout: Layout, *, chains: int, sweeps: int) -> Reply:
    """The same in few arrays."""
    policy, target = np.array(question.policy), np.array(question.target)  # which become the answer
    values = np.zeros((2, policy.shape[0] + 1, policy.shape[1]))
    m = question.factors.F_tilde.shape[1]
    step, used, numbers = search(
        (np.uint64(question.words[0]), np.uint64(question.words[1])),
        _tables(layout, policy.shape[1], m),
        Needed(*(leaf(np.asarray(x)) for x in question.factors)),
        _room(layout, m, chains),
        float(question.radii[0]),
        float(question.radii[1]),
        sweeps,
        policy,
        int(question.step),
        target,
        values,
    )
    counts = leaf(np.array([step, used], np.int32))
    return Reply(leaf(policy), leaf(target), counts, leaf(values), leaf(np.array(numbers)))


def _tables(layout: Layout, S: int, m: int) -> Tables:
    """What is known of a problem, and room for the factors of rank m."""
    (G, n, d), (padded, A) = layout.phi.shape, layout.kind.shape
    return Tables(
        layout.reach,
        layout.state,
        S,
        A,
        m,
        n,
        layout.succ,
        layout.kind,
        layout.initial,
        p=np.empty(A * padded * n),
        F=np.empty(A * padded * m * n),
        F_hat=np.empty(A * padded * m * n),
        box=np.empty(A * padded),
        p1=np.empty(G * n),
        slope1=np.empty(G * n),
        rows1=np.zeros(G * _up(m) * _up(n) * 2),
        columns1=np.zeros(G * n * _up(m) * 2),
        is_triangle=m == n < d,  # by objective._factor nothing is below the diagonal
    )


def _room(layout: Layout, m: int, chains: int) -> Room:
    """For a call."""
    (N,), (H,), A, n = layout.state.shape, layout.reach.shape, layout.kind.shape[1], layout.phi.shape[1]
    P = N + TILE - N % TILE
    return Room(
        np.zeros((5, max(_up(n), A, _up(m)) * TILE)),
        np.zeros((m + 1) * TILE),
        np.zeros(2 * (H + 1) * P),
        np.zeros(2 * (H + 1) * P),
        np.zeros(H * P),
        np.zeros((chains + 3, H * P), np.int32),
        np.zeros((chains + 3, N), np.bool_),
        np.zeros(chains, np.int64),
        np.zeros(chains),
        np.zeros(H),
    )


def _tiled(x: Shaped[np.ndarray, "padded A *rest"]) -> Shaped[np.ndarray, "A T *rest tile"]:
    """Tiles of states side by side."""
    tiles = x.reshape(-1, TILE, *x.shape[1:])
    return np.ascontiguousarray(np.moveaxis(tiles, (2, 0, 1), (0, 1, -1)))
