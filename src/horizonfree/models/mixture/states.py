"""Bounds of the plans for many rewards, each for being in one state, side by side in one backward pass on the host.

The pass is that of tangent.py, on rows (g, s): the state s, for the reward of g. At each step it has the rows from
which something can still be earned (mdp/windows.py). From anywhere else all that is carried is zero, but for the
divergence of the policy, which takes its lowest action there: that of the reward that pays nowhere.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter

import numpy as np

from horizonfree._arrays import leaf, mapped
from horizonfree._shapes import Bool, Float
from horizonfree.mdp.families import StateRewards
from horizonfree.mdp.space import occupied_states
from horizonfree.mdp.windows import Before, before, distances, rows
from horizonfree.models.mixture.tangent import SECOND_ORDER, Values, World
from horizonfree.models.world import Bounds

TOGETHER = 64  # rewards


def bounds_of_states(world: World, rewards: StateRewards) -> Iterator[Bounds]:
    """Of the best plan under the estimate for each of the rewards, on as many threads as Numba may use."""
    from numba import get_num_threads  # it loads slowly, so only when it is used

    some = [rewards[first : first + TOGETHER] for first in range(0, len(rewards), TOGETHER)]
    found = partial(_together, world, occupied_states(world.space), before(world.space))
    pool = ThreadPoolExecutor(get_num_threads())
    try:
        for bounds in pool.map(found, some):
            yield from bounds
    finally:
        pool.shutdown(cancel_futures=True)  # somebody has had enough


def _together(
    world: World, occupied: Bool[np.ndarray, "H S"], lists: Before, rewards: StateRewards
) -> list[Bounds]:
    """The pass, for some of them. Plans are the best under the estimate, so nothing falls short of it."""
    from horizonfree.models.mixture import states_loop

    (H, S, _), G, q = world.space.sizes, len(rewards), world.z.shape[-1]
    given = world.space.succ, world.p, world.z, world.cost, world.leak, world.stop
    tables = tuple(np.ascontiguousarray(x) for x in given)
    distance = distances(lists, rewards.states, H - 1)
    pays = np.append(rewards.states, -1)  # nothing pays nowhere
    width = states_loop.J + q + (q * q if q <= SECOND_ORDER else 0)
    after, place = np.zeros((1, width)), np.zeros((G + 1, S), np.int32)
    for h in range(H - 1, -1, -1):
        here = rows(occupied[h], distance, H - 1 - h)
        r = rewards.paid(h) * (here.s == pays[here.g])
        now = np.empty((len(r), width))
        states_loop.back(tables, after, place, here.g, here.s, r, h == H - 1, now)
        after, place = now, here.place
    starts = np.flatnonzero(world.space.starts())
    at = np.moveaxis(after[place[:G, starts]], 1, -1)  # [G, width, starts]
    initial = np.ones(1) if world.space.initial is None else np.asarray(world.space.initial)[starts]
    found = _values(at @ initial, q)
    with np.errstate(all="ignore"):  # infinite divergences, as in compiled code
        return [world.bounds_at(mapped(itemgetter((g, ...)), found), leaf(np.zeros(()))) for g in range(G)]


def _values(rows: Float[np.ndarray, "G m"], q: int) -> Values:
    """Rows of the loop by the names of what is in them."""
    J, B = np.split(rows[:, 9:], [q], axis=1)
    e = q if B.size else 0
    return Values(*(leaf(x) for x in rows[:, :9].T), leaf(J), leaf(B.reshape(len(rows), e, e)))  # type: ignore[call-arg]
