"""A stretch of episodes of all members of a chunk, from one checkpoint to the next.

In compiled blocks of all members (many.py); or, on a CPU, one member after the other with choices on the host, if
single runs make them there (explorers/on_host.py) and a choice takes long. Each member then has the bits of the same
seed alone. The explorers of a cast differ in a number that is traced, so all members are one compiled programme.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.batch.cast import Cast
from horizonfree.batch.many import World, simulate_many
from horizonfree.explorers.loop import Progress, Records
from horizonfree.explorers.on_host import Host, chooser, in_turn
from horizonfree.explorers.on_host import World as Alone
from horizonfree.runs.drive import Pace
from horizonfree.runs.engines import BLOCK

MUCH = 2**11  # products of probabilities and values in a pass: fewer are done before the host is asked
# (so far, how many episodes, who is told which share of them is done) -> after them, and their numbers [N, count]
Tell = Callable[[float], None]
Stretch = Callable[[Progress, int, Tell], tuple[Progress, Records]]


def stretch(
    cast: Cast, members: Sequence[int], shared: World, own: World, size: int, *, is_wide: bool
) -> Stretch:
    """How these members are simulated; size: the most episodes of a compiled block."""
    is_short = cast.problems[0].space.horizon * cast.problems[0].space.succ.size < MUCH
    choosers = {} if is_wide or is_short else _choosers(cast, members, shared, own)
    if not choosers:
        return _in_blocks(shared, own, size, is_wide)
    worlds = [eqx.combine(_entry(own, i), shared) for i in range(len(members))]
    chosen = [choosers[cast[which][:2]] for which in members]

    def simulate(state: Progress, count: int, tell: Tell) -> tuple[Progress, Records]:
        before, done = to_numpy(state), []
        for i, (world, host) in enumerate(zip(worlds, chosen)):
            done.append(
                to_numpy(
                    _alone(
                        world, host, to_device(jax.tree.map(lambda x, i=i: np.asarray(x[i]), before)), count
                    )
                )
            )
            tell((i + 1) / len(worlds))
        together: tuple[Progress, Records] = jax.tree.map(lambda *x: leaf(np.stack(x)), *done)
        return together

    return simulate


def _in_blocks(shared: World, own: World, size: int, is_wide: bool) -> Stretch:
    """All members in compiled blocks of about the same time each."""
    pace = Pace()

    def simulate(state: Progress, count: int, tell: Tell) -> tuple[Progress, Records]:
        parts, k = [], 0
        while k < count:
            began, new = time.perf_counter(), min(pace.count, count - k)
            state, numbers = simulate_many(shared, own, state, jnp.int32(new), size, is_wide=is_wide)
            parts.append({name: np.asarray(x)[:, :new] for name, x in numbers.items()})
            pace.learn(new, time.perf_counter() - began)
            k += new
            tell(k / count)
        return state, {name: leaf(np.concatenate([x[name] for x in parts], 1)) for name in parts[0]}

    return simulate


def _choosers(cast: Cast, members: Sequence[int], shared: World, own: World) -> dict[tuple[int, int], Host]:
    """Of each pair of a problem and an explorer; none where compiled blocks make the choices."""
    found = {}
    for i, which in enumerate(members):
        place = cast[which][:2]
        if place not in found:
            explorer = eqx.combine(_entry(own, i), shared).explorer
            found[place] = chooser(explorer, cast.problems[place[0]].model)
    return {place: host for place, host in found.items() if host is not None}


def _alone(w: World, host: Host, progress: Progress, count: int) -> tuple[Progress, Records]:
    """One member."""
    return in_turn(host, Alone(w.explorer, w.model, w.sampler, w.truth, w.key), progress, count, BLOCK)


@jax.jit
def _entry(tree: Any, i: Int[Array, ""]) -> Any:
    """Of member i, on the device."""
    return jax.tree.map(lambda x: x[i], tree)
