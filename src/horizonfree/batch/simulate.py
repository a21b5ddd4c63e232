"""Many explorations as one compiled call; each has the numbers that it has alone.

Many setups are two trees of the shape of one: `shared` holds the leaves that are equal for all members, `own` the
others with a leading axis, one entry per member. There are two arrangements:

narrow: one member after the other, each through all episodes of a block. It is the faster one on a CPU: the arrays of
    one member stay in the cache, and a branch that is not taken costs nothing.
wide: all members side by side in every step, for a GPU. There a branch costs every member what it costs one. So an
    explorer that chooses a policy only now and then does not run in lockstep: each member plays its own episodes
    until a choice is due, and when most members wait, choices are made for a group of those that are furthest behind.
    The cost grows with the number of choices, not with members times episodes. (Within a group, a search of variable
    length takes as long as its slowest member.)

Members whose explorers are plain Python take their episodes one after the other (`simulate_members`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from horizonfree._x64 import Leaf
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import (
    Progress,
    Records,
    episode_keys,
    init_progress,
    is_due,
    simulate_block,
    update_progress,
)
from horizonfree.explorers.python import (
    PythonExplorer,
    own_state,
    python_progress,
    read_only,
    simulate_python,
    simulate_several,
)
from horizonfree.models.base import Evidence, Model
from horizonfree.planning import evaluate
from horizonfree.planning.traced import Sampler

GROUP_SHARE = 0.5  # of the unfinished members must wait before choices are made, in the wide arrangement


class Setup(eqx.Module):
    """All that one exploration depends on. `best` are the optimal values of the rewards that evaluate it."""

    explorer: Explorer
    model: Model
    sampler: Sampler
    truth: Any
    evidence: Evidence  # before the first episode
    best: Float[Leaf, " T"]
    key: Any  # None until seeds are assigned


def stack(trees: Sequence[Any], which: Int[np.ndarray, " N"]) -> tuple[Any, Any]:
    """(shared, own) of members, member i with tree which[i]; a leaf is shared if it is equal in all trees."""
    leaves, shapes = zip(*(jax.tree.flatten(tree) for tree in trees))
    different = [
        None if all(x is group[0] or np.array_equal(x, group[0]) for x in group) else group
        for group in zip(*leaves)
    ]
    own = _stack_leaves(different, which) if any(different) else different
    shared = [x if y is None else None for x, y in zip(leaves[0], own)]
    return jax.tree.unflatten(shapes[0], shared), jax.tree.unflatten(shapes[0], own)


@jax.jit
def _stack_leaves(leaves: list[Any], which: Int[Array, " N"]) -> list[Any]:
    return [None if x is None else jnp.stack([jnp.asarray(y) for y in x])[which] for x in leaves]


@eqx.filter_jit
def init_many(shared: Setup, own: Setup, *, is_wide: bool) -> Progress:
    """The progress of every member before its first episode."""

    def init(own: Setup) -> Progress:
        setup = eqx.combine(own, shared)
        return init_progress(setup.explorer, setup.model, setup.evidence)

    progress: Progress = _over_members(init, is_wide)(own)
    return progress


@eqx.filter_jit
def simulate_many(
    shared: Setup, own: Setup, progress: Progress, count: Int[Array, ""], size: int, *, is_wide: bool
) -> tuple[Progress, Records]:
    """`count` <= size episodes of every member, and their records [N, size], which are zero from `count` on."""

    def simulate(own: Setup, progress: Progress) -> tuple[Progress, Records]:
        x = eqx.combine(own, shared)
        return simulate_block(x.explorer, x.model, x.sampler, x.truth, x.key, progress, count, size)

    if is_wide and is_due(progress.state) is not None:
        return _simulate_async(shared, own, progress, count, size)
    result: tuple[Progress, Records] = _over_members(simulate, is_wide)(own, progress)
    return result


class _AsyncState(eqx.Module):
    """Members that are at different episodes. `has_chosen`: the policy of the next episode is chosen."""

    progress: Progress
    has_chosen: Bool[Array, " N"]
    records: Records


def _simulate_async(
    shared: Setup, own: Setup, progress: Progress, count: Int[Array, ""], size: int
) -> tuple[Progress, Records]:
    """`simulate_many` without lockstep: each turn makes choices for a group, or plays an episode of the others."""
    first = progress.episode
    last = first + count
    next_episode = jax.jit(jax.vmap(partial(_next_episode, shared)))  # traced once, for shapes and loop

    def turn(state: _AsyncState) -> _AsyncState:
        is_open = state.progress.episode < last
        waits = is_open & ~state.has_chosen & state.progress.state.is_due
        is_time = waits.sum() >= GROUP_SHARE * is_open.sum()
        following: _AsyncState = jax.lax.cond(
            is_time,
            lambda: _choose_for_group(shared, own, state, waits, last),
            lambda: _play(next_episode, own, state, is_open & ~waits, first, size),
        )
        return following

    _, numbers = jax.eval_shape(next_episode, own, progress)
    records = jax.tree.map(lambda x: jnp.zeros((first.shape[0], size), x.dtype), numbers)
    start = _AsyncState(progress, jnp.zeros(first.shape[0], bool), records)
    end = jax.lax.while_loop(lambda state: (state.progress.episode < last).any(), turn, start)
    return end.progress, end.records


def _choose(shared: Setup, own: Setup, progress: Progress) -> Any:
    setup = eqx.combine(own, shared)
    key, _ = episode_keys(setup.key, progress)
    return setup.explorer.choose(key, setup.model, progress.state, progress.evidence)


def _next_episode(shared: Setup, own: Setup, progress: Progress) -> tuple[Progress, Records]:
    """One episode of one member with its present policy."""
    setup = eqx.combine(own, shared)
    _, key = episode_keys(setup.key, progress)
    trajectory = setup.sampler.episode(key, progress.state.policy, setup.model.space)
    return update_progress(setup.explorer, setup.model, setup.truth, progress, trajectory)


def _choose_for_group(
    shared: Setup, own: Setup, current: _AsyncState, waits: Bool[Array, " N"], last: Int[Array, " N"]
) -> _AsyncState:
    """Choices for a group of waiting members, those with the fewest episodes first."""
    N = waits.shape[0]
    order = jnp.argsort(jnp.where(waits, current.progress.episode, last.max()))
    group = order[: max(1, round(GROUP_SHARE * N))]
    index = jnp.where(waits[group], group, N)  # N is out of bounds: dropped when written
    inputs = jax.tree.map(lambda x: x[index], (own, current.progress))
    choices = jax.vmap(partial(_choose, shared))(*inputs)
    state = jax.tree.map(lambda x, y: x.at[index].set(y, mode="drop"), current.progress.state, choices)
    progress = Progress(current.progress.episode, state, current.progress.evidence)
    return _AsyncState(progress, current.has_chosen.at[index].set(True, mode="drop"), current.records)


def _play(
    next_episode: Callable[[Setup, Progress], tuple[Progress, Records]],
    own: Setup,
    current: _AsyncState,
    plays: Bool[Array, " N"],
    first: Int[Array, " N"],
    size: int,
) -> _AsyncState:
    """One episode of the members in `plays`; the others do not change."""

    def where_plays(new: Array, old: Array) -> Array:
        return jnp.where(plays.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    following, numbers = next_episode(own, current.progress)
    column = jnp.where(plays, current.progress.episode - first, size)
    rows = jnp.arange(plays.shape[0])
    records = jax.tree.map(lambda x, y: x.at[rows, column].set(y, mode="drop"), current.records, numbers)
    return _AsyncState(
        jax.tree.map(where_plays, following, current.progress), current.has_chosen & ~plays, records
    )


def _over_members(function: Callable[..., Any], is_wide: bool) -> Callable[..., Any]:
    """The function of every member: side by side, or one after the other."""
    if is_wide:
        return jax.vmap(function)
    return lambda *trees: jax.lax.map(lambda x: function(*x), trees)


def init_members(explorers: Sequence[PythonExplorer], shared: Setup, own: Setup) -> Progress:
    """The progress of every member before its first episode."""
    setups = [_setup(shared, own, i) for i in range(len(explorers))]
    members = [python_progress(x, read_only(y.model), y.evidence) for x, y in zip(explorers, setups)]
    progress: Progress = _stack(members)
    return progress


def simulate_members(
    explorers: Sequence[PythonExplorer], shared: Setup, own: Setup, progress: Progress, count: int
) -> tuple[Progress, Records]:
    """`count` episodes of every member, and their records [N, count]."""
    results, records = [], []
    for i, explorer in enumerate(explorers):
        x = _setup(shared, own, i)

        def one_more(
            now: Progress, explorer: PythonExplorer = explorer, x: Setup = x
        ) -> tuple[Progress, Records]:
            return simulate_python(explorer, read_only(x.model), x.sampler, x.key, now)

        progress_i, numbers, error = simulate_several(one_more, _row(progress, i), count)
        if error is not None:
            raise error
        results.append(progress_i)
        records.append(numbers)
    if any(numbers.keys() != records[0].keys() for numbers in records):
        raise OptionError(
            "members of a batch report different records; update must report the same names for all seeds"
        )
    return _stack(results), _stack(records)


def own_gaps_python(
    explorers: Sequence[PythonExplorer],
    shared: Setup,
    own: Setup,
    progress: Progress,
    rewards: Float[np.ndarray, "T H S A"],
) -> Float[np.ndarray, " N"]:
    """The largest true suboptimality, over the rewards, of each explorer's own plans."""
    result = []
    for i, explorer in enumerate(explorers):
        setup, member_progress = _setup(shared, own, i), read_only(_row(progress, i))
        model, truth, best = read_only((setup.model, setup.truth, setup.best))
        plans = [
            explorer.plan(model, own_state(member_progress.state), member_progress.evidence, r).policy
            for r in rewards
        ]
        V = evaluate(model.kernel(truth), rewards, np.stack([np.asarray(plan) for plan in plans]))[:, 0]
        result.append(float((best - model.space.at_start(V)).max()))
    return np.array(result)


def _setup(shared: Setup, own: Setup, i: int) -> Setup:
    setup: Setup = eqx.combine(_row(own, i), shared)
    return setup


def _row(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], tree)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), *trees)
