"""The oracle of single runs on a CPU: the answers of `ascent`, in a tenth to a thousandth of its time.

Once per problem (`layout`): the states in the order of their distance from the start, of which step h needs the first
few, and the distinct feature matrices among their pairs (s,a). Once per call (`ascent_here`): the factors of the
distinct matrices, computed in JAX by the formulas of objective.py, are handed to loops in C (native.py, loops/).

At a step and in a state where no episode can be, the policy stays what it was, and V and Vhat are zero.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int32, Int64, Shaped, UInt32

from horizonfree._x64 import Leaf, leaf
from horizonfree.mdp.space import Space, start_distribution
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.regression.oracle import native
from horizonfree.regression.oracle.box import ENUMERATE
from horizonfree.regression.oracle.objective import Factors
from horizonfree.regression.oracle.reply import Needed, Question, Reply
from horizonfree.regression.oracle.result import OracleResult, Point

TILE = 8  # states that the loops look at side by side


class Layout(NamedTuple):
    """What the loops know of a problem: N states that can be reached, in T tiles, and G distinct feature matrices."""

    reach: Int64[np.ndarray, " H"]
    state: Int64[np.ndarray, " N"]
    succ: UInt32[np.ndarray, "A T n tile"]  # 2 s, where pairs of numbers begin
    kind: Int32[np.ndarray, "padded A"]
    initial: Float[np.ndarray, " N"]
    phi: Float[np.ndarray, "G n d"]


def layout(model: MixtureModel) -> Layout:
    """Of a model on the host."""
    space, phi = model.space, np.asarray(model.phi)
    H, S, A = space.sizes
    n, d = phi.shape[2:]
    assert n <= ENUMERATE, n
    distance = distances(space)
    state = np.argsort(distance, kind="stable")[: np.count_nonzero(distance < H)]
    N = len(state)
    number = np.full(S, N)
    number[state] = np.arange(N)
    padded = np.concatenate([state, np.full(-N % TILE, state[0])])  # repeats, which are computed and left
    succ = _tiled(2 * number[np.asarray(space.succ)[padded]]).astype(np.uint32)
    distinct, kind = np.unique(phi[padded].reshape(-1, n * d), axis=0, return_inverse=True)
    start = space.start if space.initial is None else np.asarray(space.initial)
    initial = start_distribution(start, S)
    return Layout(
        np.searchsorted(distance[state], np.arange(H), side="right"),
        state,
        succ,
        kind.reshape(-1, A).astype(np.int32),
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
    policy, target = (
        np.array(question.policy, np.int32, order="C"),
        np.array(question.target),
    )  # become the answer
    (H, S), (A, T, n, _), d = policy.shape, layout.succ.shape, layout.phi.shape[2]
    factors = [np.ascontiguousarray(x, np.float64) for x in question.factors]
    m = question.factors.F_tilde.shape[1]
    is_triangle = m == n < d  # by objective._factor nothing is below the diagonal
    sizes = (H, S, A, len(layout.state), T, len(layout.phi), n, m, is_triangle)
    values = np.zeros((2, H + 1, S))
    counts, numbers = native.search(
        native.Problem.of(sizes, layout[:-1]),
        native.Question.of(question.words, question.radii, (chains, sweeps), factors),
        native.Answer.of(question.step, policy, target, values),
    )
    return Reply(leaf(policy), leaf(target), leaf(counts), leaf(values), leaf(numbers))


def _tiled(x: Shaped[np.ndarray, "padded A *rest"]) -> Shaped[np.ndarray, "A T *rest tile"]:
    """Tiles of states side by side."""
    tiles = x.reshape(-1, TILE, *x.shape[1:])
    return np.ascontiguousarray(np.moveaxis(tiles, (2, 0, 1), (0, 1, -1)))
