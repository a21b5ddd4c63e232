"""Many explorations as one compiled call; each has the numbers it would have alone.

A `World` is all that one exploration depends on. Many worlds are kept as two trees of that shape: `shared` holds what
they have in common, `own` holds the rest with a leading axis, one entry per member. Two arrangements:

narrow: one member after the other, each through all the episodes of a block. On a CPU this is the faster one: one
    member's arrays stay in the cache, branches are real, and the numbers agree with `explore` to the last bit.
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

from horizonfree.certificates import Confidence, confidence_jax
from horizonfree.evidence import Evidence, excess
from horizonfree.explorers._api import (
    Explorer,
    Info,
    Progress,
    absorb,
    begin,
    episode_keys,
    simulate_block,
)
from horizonfree.explorers.information import design
from horizonfree.mixture import Known
from horizonfree.planning import evaluate_jax, optimal_jax
from horizonfree.simulate import Sampler
from horizonfree.valid import ValidSet

GROUP = 0.5  # of the members must wait for a choice before one is made, in the wide arrangement
CURVES = ("gap", "own_gap", "eps", "efficiency", "excess")


class World(eqx.Module):
    """One exploration, before its first episode. `best` are the optimal values of the rewards it is judged by."""

    explorer: Explorer
    known: Known
    valid: ValidSet
    sampler: Sampler
    truth: Float[Array, " d"]
    nothing: Evidence
    best: Float[Array, " T"]
    key: Array


def stack(trees: Sequence[Any], which: Int[np.ndarray, " N"]) -> tuple[Any, Any]:
    """(shared, own) of trees of one shape, of which member i has number which[i]: a leaf is shared if all agree."""
    leaves, shapes = zip(*(jax.tree.flatten(tree) for tree in trees))
    own: list[Any] = []
    for same in zip(*leaves):
        is_shared = all(x is same[0] or np.array_equal(x, same[0]) for x in same)
        own.append(None if is_shared else jnp.stack([jnp.asarray(x) for x in same])[which])
    shared = [x if y is None else None for x, y in zip(leaves[0], own)]
    return jax.tree.unflatten(shapes[0], shared), jax.tree.unflatten(shapes[0], own)


@eqx.filter_jit
def begin_many(shared: World, own: World, *, is_wide: bool) -> Progress:
    """Before the first episode."""

    def one(own: World) -> Progress:
        world = eqx.combine(own, shared)
        return begin(world.explorer, world.known, world.valid, world.nothing)

    begun: Progress = _each(one, is_wide)(own)
    return begun


@eqx.filter_jit
def simulate_many(
    shared: World, own: World, progress: Progress, count: Int[Array, ""], size: int, *, is_wide: bool
) -> tuple[Progress, Info]:
    """`count` <= size episodes of every member, and their rows [N, size]; rows beyond count are zero."""

    def one(own: World, progress: Progress) -> tuple[Progress, Info]:
        world = eqx.combine(own, shared)
        return simulate_block(
            world.explorer,
            world.known,
            world.valid,
            world.sampler,
            world.truth,
            world.key,
            progress,
            count,
            size,
        )

    first = jax.tree.map(lambda x: x[0], (own, progress))
    if is_wide and not isinstance(eqx.filter_eval_shape(_is_due, shared, *first), bool):
        return _out_of_step(shared, own, progress, count, size)
    done: tuple[Progress, dict[str, Array]] = _each(one, is_wide)(own, progress)
    return done


def _is_due(shared: World, own: World, progress: Progress) -> Any:
    """A plain bool where it never changes, else traced."""
    world = eqx.combine(own, shared)
    return world.explorer.is_due(world.known, progress.state)


class _Now(eqx.Module):
    """Members that are not in step. `has_chosen`: the policy of the next episode is settled."""

    progress: Progress
    has_chosen: Bool[Array, " N"]
    rows: Info


def _out_of_step(
    shared: World, own: World, progress: Progress, count: Int[Array, ""], size: int
) -> tuple[Progress, Info]:
    """The wide arrangement of an explorer that chooses now and then: play on, or choose for a group that waits."""
    first = progress.episode
    last = first + count
    N = first.shape[0]
    group = max(1, round(GROUP * N))
    is_due = jax.vmap(partial(_is_due, shared))

    def chosen(own: World, progress: Progress) -> Any:
        world = eqx.combine(own, shared)
        key, _ = episode_keys(world.key, progress)
        return world.explorer.choose(key, world.known, world.valid, progress.state, progress.evidence)

    def played(own: World, progress: Progress) -> tuple[Progress, Info]:
        world = eqx.combine(own, shared)
        _, key = episode_keys(world.key, progress)
        trajectory = world.sampler.episode(key, progress.state.policy, world.known.start)
        return absorb(world.explorer, world.known, world.valid, world.truth, progress, trajectory)

    def choose(now: _Now, waits: Bool[Array, " N"]) -> _Now:
        behind = jnp.argsort(jnp.where(waits, now.progress.episode, last.max()))[
            :group
        ]  # furthest behind first
        index = jnp.where(waits[behind], behind, N)  # N, beyond the end, is dropped when written
        some = jax.tree.map(lambda x: x[index], (own, now.progress))
        state = jax.tree.map(
            lambda x, y: x.at[index].set(y, mode="drop"), now.progress.state, jax.vmap(chosen)(*some)
        )
        progress = Progress(now.progress.episode, state, now.progress.evidence)
        return _Now(progress, now.has_chosen.at[index].set(True, mode="drop"), now.rows)

    def play(now: _Now, plays: Bool[Array, " N"]) -> _Now:
        def kept(new: Array, old: Array) -> Array:
            return jnp.where(plays.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        after, info = jax.vmap(played)(own, now.progress)
        place = jnp.where(plays, now.progress.episode - first, size)
        rows = jax.tree.map(lambda x, y: x.at[jnp.arange(N), place].set(y, mode="drop"), now.rows, info)
        return _Now(jax.tree.map(kept, after, now.progress), now.has_chosen & ~plays, rows)

    def go_on(now: _Now) -> _Now:
        is_open = now.progress.episode < last
        waits = is_open & ~now.has_chosen & is_due(own, now.progress)
        plays = is_open & ~waits
        is_time = waits.sum() >= GROUP * is_open.sum()
        then: _Now = jax.lax.cond(is_time, lambda: choose(now, waits), lambda: play(now, plays))
        return then

    _, info = jax.eval_shape(jax.vmap(played), own, progress)
    rows = jax.tree.map(lambda x: jnp.zeros((N, size), x.dtype), info)
    start = _Now(progress, jnp.zeros(N, bool), rows)
    now = jax.lax.while_loop(lambda now: (now.progress.episode < last).any(), go_on, start)
    return now.progress, now.rows


@eqx.filter_jit
def judge_many(
    shared: World,
    own: World,
    progress: Progress,
    rewards: Float[Array, "T H S A"],
    delta: Float[Array, ""],
    curves: tuple[str, ...],
    *,
    at_once: int | None,
) -> dict[str, Float[Array, " N"]]:
    """What someone who knows the truth says of every member now, of `at_once` members side by side.

    gap: the most that a plan made in the maximum-likelihood model, as `Run.plan` makes it, loses over the rewards;
    own_gap: the same in the explorer's own estimate; eps: the uniform certificate; efficiency: K T / q, 1 for the best
    design in hindsight (explorers/information.py); excess: above 0, theta_star is outside the likelihood set.
    """

    def one(pair: tuple[World, Progress]) -> dict[str, Array]:
        world, evidence = eqx.combine(pair[0], shared), pair[1].evidence
        known, valid = world.known, world.valid
        found: dict[str, Array] = {}
        if "gap" in curves or "eps" in curves:
            confidence = confidence_jax(known, valid, evidence, delta)
            found["eps"] = _uniform(confidence)
        if "gap" in curves:
            found["gap"] = _worst_gap(world, jnp.asarray(confidence.theta), rewards)
        if "own_gap" in curves:
            theta = world.explorer.estimate(known, valid, pair[1].state, evidence)
            found["own_gap"] = _worst_gap(world, theta, rewards)
        if "efficiency" in curves:
            promise = design(known, valid, jnp.asarray(evidence.rows), jnp.asarray(evidence.theta))[1]
            found["efficiency"] = jnp.asarray(evidence.episodes) * promise / max(valid.num_free, 1)
        if "excess" in curves:
            found["excess"] = excess(valid, evidence, world.truth, delta).max()
        return {name: found[name] for name in curves}

    points: dict[str, Array] = jax.lax.map(one, (own, progress), batch_size=at_once)
    return points


def _worst_gap(world: World, theta: Float[Array, " d"], rewards: Float[Array, "T H S A"]) -> Float[Array, ""]:
    """The most that the plans made in theta lose over the rewards."""
    model, truth = world.known.kernel(theta), world.known.kernel(world.truth)

    def value(reward: Array) -> Array:
        return evaluate_jax(truth, reward, optimal_jax(model, reward)[0])[0, world.known.start]

    return (world.best - jax.vmap(value)(rewards)).max()


def _uniform(confidence: Confidence) -> Float[Array, ""]:
    """eps of `certificates.uniform`; traceable."""
    is_rejected = (confidence.impossible > 0) | (confidence.slacks < 0).any()
    return jnp.where(is_rejected, 1.0, jnp.minimum(confidence.divergence.eps, 1.0))


def _each(function: Callable[..., Any], is_wide: bool) -> Callable[..., Any]:
    """Apply a function to every member: side by side, or one after the other."""
    if is_wide:
        return jax.vmap(function)
    return lambda *trees: jax.lax.map(lambda x: function(*x), trees)
