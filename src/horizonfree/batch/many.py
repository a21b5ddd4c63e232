"""Many explorations as one compiled call; each has the numbers it would have alone.

A `World` is all that one exploration depends on. Many worlds are kept as two trees of that shape: `shared` holds what
they have in common, `own` holds the rest with a leading axis, one entry per member. Two arrangements:

narrow: one member after the other, each through all the episodes of a block. On a CPU this is the faster one: one
    member's arrays stay in the cache, branches are real, and the numbers agree with `explore` but for rounding.
wide: all members side by side in every step, for a GPU. A branch would then cost every member what it costs one. So an
    explorer that chooses a policy only now and then is not kept in step: each member runs on through its own episodes
    until a choice is due, and choices are made in groups, when most are waiting, for those who are furthest behind.
    Their cost grows with the number of choices, not with members times episodes. (Inside a group, a search of variable
    length takes as long as its slowest member.)
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
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import (
    Progress,
    Records,
    absorb,
    begin,
    episode_keys,
    is_due,
    simulate_block,
)
from horizonfree.models.interface import Evidence, Model
from horizonfree.planning.rollout import Sampler
from horizonfree.planning.traced import evaluate_jax

GROUP = 0.5  # of the members must wait for a choice before one is made, in the wide arrangement
CURVES = ("gap", "own_gap", "eps", "efficiency", "excess")
TRACED_CURVES = ("own_gap", "efficiency")  # the others are computed on the host (certificates.py)


class World(eqx.Module):
    """One exploration, before its first episode. `best` are the optimal values of the rewards it is judged by."""

    explorer: Explorer
    model: Model
    sampler: Sampler
    truth: Any
    nothing: Evidence
    best: Float[Leaf, " T"]
    key: Any  # None until there are members


def stack(trees: Sequence[Any], which: Int[np.ndarray, " N"]) -> tuple[Any, Any]:
    """(shared, own) of trees of one shape, of which member i has number which[i]: a leaf is shared if all agree."""
    leaves, shapes = zip(*(jax.tree.flatten(tree) for tree in trees))
    differ = [
        None if all(x is same[0] or np.array_equal(x, same[0]) for x in same) else same
        for same in zip(*leaves)
    ]
    own = _picked(differ, which) if any(differ) else differ
    shared = [x if y is None else None for x, y in zip(leaves[0], own)]
    return jax.tree.unflatten(shapes[0], shared), jax.tree.unflatten(shapes[0], own)


@jax.jit
def _picked(found: list[Any], which: Int[Array, " N"]) -> list[Any]:
    """Leaves of the members, out of those of all trees; as one program, not operation by operation."""
    return [None if x is None else jnp.stack([jnp.asarray(y) for y in x])[which] for x in found]


@eqx.filter_jit
def begin_many(shared: World, own: World, *, is_wide: bool) -> Progress:
    """Before the first episode."""

    def one(own: World) -> Progress:
        world = eqx.combine(own, shared)
        return begin(world.explorer, world.model, world.nothing)

    begun: Progress = _each(one, is_wide)(own)
    return begun


@eqx.filter_jit
def simulate_many(
    shared: World, own: World, progress: Progress, count: Int[Array, ""], size: int, *, is_wide: bool
) -> tuple[Progress, Records]:
    """`count` <= size episodes of every member, and their records [N, size]; beyond count they are zero."""

    def one(own: World, progress: Progress) -> tuple[Progress, Records]:
        w = eqx.combine(own, shared)
        return simulate_block(w.explorer, w.model, w.sampler, w.truth, w.key, progress, count, size)

    if is_wide and is_due(progress.state) is not None:
        return _out_of_step(shared, own, progress, count, size)
    done: tuple[Progress, Records] = _each(one, is_wide)(own, progress)
    return done


class _Now(eqx.Module):
    """Members that are not in step. `has_chosen`: the policy of the next episode is settled."""

    progress: Progress
    has_chosen: Bool[Array, " N"]
    records: Records


def _out_of_step(
    shared: World, own: World, progress: Progress, count: Int[Array, ""], size: int
) -> tuple[Progress, Records]:
    """The wide arrangement of an explorer that chooses now and then: play on, or choose for a group that waits."""
    first = progress.episode
    last = first + count
    played = jax.jit(jax.vmap(partial(_played, shared)))  # traced once, for its shapes and in the loop

    def go_on(now: _Now) -> _Now:
        is_open = now.progress.episode < last
        waits = is_open & ~now.has_chosen & now.progress.state.is_due
        is_time = waits.sum() >= GROUP * is_open.sum()
        then: _Now = jax.lax.cond(
            is_time,
            lambda: _choose_for_some(shared, own, now, waits, last),
            lambda: _play_on(played, own, now, is_open & ~waits, first, size),
        )
        return then

    _, numbers = jax.eval_shape(played, own, progress)
    records = jax.tree.map(lambda x: jnp.zeros((first.shape[0], size), x.dtype), numbers)
    start = _Now(progress, jnp.zeros(first.shape[0], bool), records)
    now = jax.lax.while_loop(lambda now: (now.progress.episode < last).any(), go_on, start)
    return now.progress, now.records


def _chosen(shared: World, own: World, progress: Progress) -> Any:
    """The state of one member after its choice."""
    world = eqx.combine(own, shared)
    key, _ = episode_keys(world.key, progress)
    return world.explorer.choose(key, world.model, progress.state, progress.evidence)


def _played(shared: World, own: World, progress: Progress) -> tuple[Progress, Records]:
    """One more episode of one member, with the policy it has."""
    world = eqx.combine(own, shared)
    _, key = episode_keys(world.key, progress)
    trajectory = world.sampler.episode(key, progress.state.policy, world.model.space)
    return absorb(world.explorer, world.model, world.truth, progress, trajectory)


def _choose_for_some(
    shared: World, own: World, now: _Now, waits: Bool[Array, " N"], last: Int[Array, " N"]
) -> _Now:
    """Choices for a group of those that wait, the furthest behind first."""
    N = waits.shape[0]
    order = jnp.argsort(jnp.where(waits, now.progress.episode, last.max()))
    behind = order[: max(1, round(GROUP * N))]
    index = jnp.where(waits[behind], behind, N)  # N, beyond the end, is dropped when written
    some = jax.tree.map(lambda x: x[index], (own, now.progress))
    chosen = jax.vmap(partial(_chosen, shared))(*some)
    state = jax.tree.map(lambda x, y: x.at[index].set(y, mode="drop"), now.progress.state, chosen)
    progress = Progress(now.progress.episode, state, now.progress.evidence)
    return _Now(progress, now.has_chosen.at[index].set(True, mode="drop"), now.records)


def _play_on(
    played: Callable[[World, Progress], tuple[Progress, Records]],
    own: World,
    now: _Now,
    plays: Bool[Array, " N"],
    first: Int[Array, " N"],
    size: int,
) -> _Now:
    """One more episode of those that play; the others stay as they are."""

    def kept(new: Array, old: Array) -> Array:
        return jnp.where(plays.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    after, numbers = played(own, now.progress)
    place = jnp.where(plays, now.progress.episode - first, size)
    everyone = jnp.arange(plays.shape[0])
    records = jax.tree.map(lambda x, y: x.at[everyone, place].set(y, mode="drop"), now.records, numbers)
    return _Now(jax.tree.map(kept, after, now.progress), now.has_chosen & ~plays, records)


@eqx.filter_jit
def judge_many(
    shared: World,
    own: World,
    progress: Progress,
    rewards: Float[Array, "T H S A"],
    curves: tuple[str, ...],
    *,
    at_once: int | None,
) -> dict[str, Float[Array, " N"]]:
    """The traced curves of every member now, of `at_once` members side by side.

    own_gap: the largest true suboptimality, over the rewards, of the explorer's own plans; efficiency: K T / q, 1 for
    the best design in hindsight (models/mixture/learner.py).
    """

    def one(pair: tuple[World, Progress]) -> dict[str, Array]:
        world, now = eqx.combine(pair[0], shared), pair[1]
        model, evidence = world.model, now.evidence
        found: dict[str, Array] = {}
        if "own_gap" in curves:
            found["own_gap"] = _worst_gap(
                world, rewards, lambda r: world.explorer.plan(model, now.state, evidence, r).policy
            )
        if "efficiency" in curves:
            found["efficiency"] = model.inefficiency(evidence)
        return found

    points: dict[str, Array] = jax.lax.map(one, (own, progress), batch_size=at_once)
    return points


def _worst_gap(
    world: World, rewards: Float[Array, "T H S A"], plan: Callable[[Array], Array]
) -> Float[Array, ""]:
    """The most that plans lose over the rewards."""
    truth = world.model.kernel(world.truth)

    def value(reward: Array) -> Array:
        return world.model.space.at_start(evaluate_jax(truth, reward, plan(reward))[0])

    return (world.best - jax.vmap(value)(rewards)).max()


def _each(function: Callable[..., Any], is_wide: bool) -> Callable[..., Any]:
    """Apply a function to every member: side by side, or one after the other."""
    if is_wide:
        return jax.vmap(function)
    return lambda *trees: jax.lax.map(lambda x: function(*x), trees)
