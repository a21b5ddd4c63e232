"""The bounds of tangent.py for rewards of states: many of them in one pass that looks only where something is paid.

At a state from which a reward cannot be reached any more every value is zero, and what is left is the divergence of the
policy, which takes its first action there: one row stands for all rewards. So a pass goes through the rows of the pairs
of a reward and a state that can still be paid, and behind them those of the reward that pays nowhere.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.trajectories import Divergence, RowDivergence
from horizonfree.mdp.families import StateRewards
from horizonfree.mdp.space import Kernel, Space, occupied_states
from horizonfree.mdp.windows import Before, Rows, before, distances, rows
from horizonfree.models.base import Bounds
from horizonfree.models.mixture.tangent import SECOND_ORDER, Around, Values, back, bounds_at
from horizonfree.planning.induction import greedy
from horizonfree.planning.native import threads

TOGETHER = 64  # rewards

Unpaid = tuple[np.ndarray, np.ndarray]  # kappa and hit, of the occupied states of a step


@dataclass(frozen=True, eq=False)
class _Around:
    """What tangent.py reads, for some rows in place of all states."""

    space: Space
    step: RowDivergence
    divergence: Divergence
    tilts: Float[np.ndarray, "N A n q"]
    eps: Any


def bounds_of_states(around: Around, rewards: StateRewards) -> Iterator[Bounds]:
    """Of the best plan under the estimate for each of the rewards, on all processors of this process."""
    some = [rewards[first : first + TOGETHER] for first in range(0, len(rewards), TOGETHER)]
    occupied, lists = occupied_states(around.space), before(around.space)
    found = partial(_together, around, occupied, lists, _unpaid(around, occupied))
    pool = ThreadPoolExecutor(threads())
    try:
        for bounds in pool.map(found, some):
            yield from bounds
    finally:
        pool.shutdown(cancel_futures=True)  # the caller may stop early


def _together(
    around: Around,
    occupied: Bool[np.ndarray, "H S"],
    lists: Before,
    unpaid: list[Unpaid],
    rewards: StateRewards,
) -> list[Bounds]:
    """The pass, for some of them. Plans are the best under the estimate, so nothing falls short of it."""
    (H, S, _), G = around.space.sizes, len(rewards)
    distance = distances(lists, rewards.states, H - 1)
    after, place = _at_end(around), np.zeros((G + 1, S), np.int32)
    with np.errstate(all="ignore"):  # infinite divergences
        for h in range(H - 1, -1, -1):
            here = rows(occupied[h], distance, H - 1 - h)
            paid = here.g < G
            g, s = here.g[paid], here.s[paid]
            r = rewards.paid(h) * (s == rewards.states[g])
            now = _back(around, after, place, Rows(g, s, here.place), r, h == H - 1)
            after, place = _with_unpaid(now, unpaid[h]), here.place
        starts = np.flatnonzero(around.space.starts())
        initial = np.ones(1) if around.space.initial is None else np.asarray(around.space.initial)[starts]
        at = [np.tensordot(x[place[:G, starts]], initial, (1, 0)) for x in after]
        return [bounds_at(around, Values(*(x[g, ...] for x in at)), 0.0) for g in range(G)]


def _unpaid(around: Around, occupied: Bool[np.ndarray, "H S"]) -> list[Unpaid]:
    """Of the reward that pays nowhere, for the occupied states of each step."""
    H, S, _ = around.space.sizes
    after, place, found = _at_end(around), np.zeros((1, S), np.int32), []
    with np.errstate(all="ignore"):
        for h in range(H - 1, -1, -1):
            here = rows(occupied[h], np.zeros((0, S), np.int32), H - 1 - h)
            after = _back(around, after, place, here, np.zeros(len(here.s)), h == H - 1)
            place = here.place
            found.append((after.kappa, after.hit))
    return found[::-1]


def _at_end(around: Around) -> Values:
    """One row, after the last step."""
    q, o = around.tilts.shape[-1], np.zeros(1)
    e = q if q <= SECOND_ORDER else 0
    return Values(o, o, o, o, o, o, o, o, o, np.zeros((1, q)), np.zeros((1, e, e)))


def _back(
    around: Around,
    after: Values,
    place: Int[np.ndarray, "G1 S"],
    here: Rows,
    r: Float[np.ndarray, " N"],
    is_last: bool,
) -> Values:
    """One step back of rows that are paid r, under their best actions; `place`: rows of the next step."""
    g, s, space, step = here.g, here.s, around.space, around.step
    succ = place[g[:, None, None], np.asarray(space.succ)[s]]
    p, stop = step.kernel.prob[s], around.divergence
    lists = Space(succ, np.asarray(space.support)[s], np.ones(len(s), bool), None, space.horizon, None, False)
    own = _Around(
        lists,
        RowDivergence(Kernel(succ, p, False), step.cost[s], step.leak[s]),
        Divergence(stop.kappa, stop.hit, stop.stop[s], stop.eps),
        around.tilts[s],
        around.eps,
    )
    paid = np.broadcast_to(r[:, None], p.shape[:2])
    _, pi = greedy(paid + (p * after.V_star[succ]).sum(-1))
    return back(own, after, paid, pi, is_last=is_last)[0]


def _with_unpaid(now: Values, unpaid: Unpaid) -> Values:
    """The rows of a step, and behind them those of the reward that pays nowhere: zero but for the divergence."""
    behind = Values(*(np.zeros((len(unpaid[0]), *x.shape[1:])) for x in now))
    behind = behind._replace(kappa=unpaid[0], hit=unpaid[1])
    return Values(*(np.concatenate(pair) for pair in zip(now, behind, strict=True)))
