"""Backward induction, policy evaluation and occupancy measures for compiled JAX programs; induction.py defines them.

vmap gives batches of rewards or policies.

Episodes are simulated in one compiled scan, batched over keys. Uniform numbers are drawn before the scan; a step is a
look-up in cumulative successor lists. A policy is an
integer table [H, S] or action probabilities [H, S, A]; a one-hot table of probabilities gives the same episodes
as the integer table.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree._x64 import Leaf
from horizonfree.mdp.space import Kernel, Space, Trajectory, check_values
from horizonfree.planning.induction import TIE as TIE
from horizonfree.planning.induction import nearly_best as nearly_best


def optimal_jax(
    kernel: Kernel, reward: Float[Array, "H S A"], slack: float = 0.0
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """The greedy policy and V of one reward. Ties: see `nearly_best`."""

    def step(V: Array, r: Array) -> tuple[Array, tuple[Array, Array]]:
        V, a = backup(kernel, r, V, slack)
        return V, (a, V)

    end = jnp.zeros(kernel.num_states)
    _, (policy, V) = jax.lax.scan(step, end, jnp.asarray(reward), reverse=True)
    return policy, jnp.concatenate([V, end[None]])


def stationary_jax(
    kernel: Kernel, reward: Float[Array, "S A"], horizon: int, slack: float = 0.0
) -> tuple[Int[Array, "{horizon} S"], Float[Array, " S"]]:
    """The greedy policy and V_1 of a reward that is the same at every step."""

    def step(V: Array, _: None) -> tuple[Array, Array]:
        return backup(kernel, reward, V, slack)

    first, policy = jax.lax.scan(step, jnp.zeros(kernel.num_states), length=horizon, reverse=True)
    return policy, first


def backup(
    kernel: Kernel, r: Float[Array, "S A"], V: Float[Array, " S"], slack: float = 0.0
) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """V_h and the greedy action from V_{h+1}."""
    return greedy(r + expect(kernel, V), slack)


def expect(kernel: Kernel, V: Float[Array, " S"]) -> Float[Array, "S A"]:
    """`Kernel.expect`."""
    V = jnp.asarray(V)
    check_values(V, kernel.num_states)
    if kernel.is_dense:
        return jnp.asarray(kernel.prob) @ V
    mean: Array = (kernel.prob * take(V, kernel.succ)).sum(-1)
    return mean


def greedy(Q: Float[Array, "S A"], slack: float = 0.0) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """The maximum, and the lowest action that attains it, or nearly (XLA's argmax is slow)."""
    A = Q.shape[-1]
    is_best = nearly_best(Q, -1, slack)
    return Q.max(axis=-1), jnp.where(is_best, jnp.arange(A, dtype=jnp.int32), A).min(axis=-1)


def significant(x: Float[Array, "..."], axis: int | None = None) -> Float[Array, "..."]:
    """x with zeros for what is rounding beside its largest entry along the axis."""
    return jnp.where(jnp.abs(x) > TIE * jnp.abs(x).max(axis=axis, keepdims=True), x, 0.0)


def evaluate_jax(
    kernel: Kernel, reward: Float[Array, "H S A"], policy: Int[Array, "H S"] | Float[Array, "H S A"]
) -> Float[Array, "H1 S"]:
    """V of a policy."""
    s = jnp.arange(kernel.num_states)

    def step(V: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        r, pi = inputs
        if pi.ndim == 1:  # one row for each state: A times cheaper than all actions
            V = take(r, (s, pi)) + expect(own_rows(kernel, pi), V)[:, 0]
        else:
            V = (pi * (r + expect(kernel, V))).sum(axis=-1)
        return V, V

    end = jnp.zeros(kernel.num_states)
    _, V = jax.lax.scan(step, end, (jnp.asarray(reward), jnp.asarray(policy)), reverse=True)
    return jnp.concatenate([V, end[None]])


def own_rows(kernel: Kernel, pi: Int[Array, " S"]) -> Kernel:
    """The kernel that is left when state s always takes action pi(s)."""
    s = jnp.arange(kernel.num_states)
    succ, prob = (take(x, (s, pi))[:, None] for x in (kernel.succ, kernel.prob))
    return Kernel(succ, prob, kernel.is_dense)


def take(x: Array, at: Array | tuple[Array, ...]) -> Array:
    """x[at] for indices none of which is negative or beyond the end: XLA need not look for such."""
    return jnp.asarray(x).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


MAX_COUNTED_SLOTS = 16  # successors up to which counting is faster than bisection


class Sampler(eqx.Module):
    """A kernel prepared for sampling: cumulative probabilities, so that zero-probability slots are never taken."""

    succ: Int[Leaf, "S A n"]
    cumulative: Float[Leaf, "S A n"]

    @classmethod
    def of(cls, kernel: Kernel) -> "Sampler":
        """Prepare a kernel; traceable."""
        prob = jnp.maximum(kernel.prob, 0)
        cumulative = jnp.cumsum(prob, axis=-1)
        later = jnp.cumsum(prob[..., ::-1], axis=-1)[..., ::-1] - prob  # mass after this slot
        # The last slot with mass and all after it become 1: no rounding can push a draw beyond it.
        return cls(kernel.succ, jnp.where(later > 0, cumulative / cumulative[..., -1:], 1.0))

    def episode(self, key: Array, policy: Array, space: Space) -> Trajectory:
        """One episode under a policy, from the start of the space; traceable, vmap over keys (and policies)."""
        key_next, key_action = jax.random.split(key)
        horizon = policy.shape[0]
        u_next = jax.random.uniform(key_next, (horizon,), jnp.float64)
        is_random = policy.ndim == 3
        u_action = jax.random.uniform(key_action, (horizon,), jnp.float64) if is_random else u_next

        def step(s: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, ...]]:
            rule, u, v = inputs
            a = draw(v, jnp.cumsum(take(rule, s))) if is_random else take(rule, s).astype(jnp.int32)
            j = _slot(u, take(self.cumulative, (s, a)))
            s_next = take(self.succ, (s, a, j))
            return s_next, (s_next, a, j)

        s1 = first_state(key_next, space)
        _, (s, a, j) = jax.lax.scan(step, s1, (policy, u_next, u_action))
        return Trajectory(jnp.concatenate([s1[None], s]), a, j)


def _slot(u: Array, cumulative: Float[Array, " n"]) -> Int[Array, ""]:
    """How many of the numbers are at most u: counted, or by bisection where there are many."""
    if len(cumulative) <= MAX_COUNTED_SLOTS:
        return (u >= cumulative).sum(dtype=jnp.int32)
    return jnp.searchsorted(cumulative, u, side="right").astype(jnp.int32)


def first_state(key: Array, space: Space) -> Int[Array, ""]:
    """The state in which an episode starts; a draw takes numbers of its own, so that a fixed start takes none."""
    if space.initial is None:
        return jnp.asarray(space.start, jnp.int32)
    u = jax.random.uniform(jax.random.fold_in(key, 1), (), jnp.float64)
    return draw(u, jnp.cumsum(space.initial))


def draw(u: Array, cumulative: Float[Array, " A"]) -> Int[Array, ""]:
    """The index that a uniform number picks; never one of probability zero at the end of the list."""
    j = (u * cumulative[-1] >= cumulative).sum(dtype=jnp.int32)
    last = (cumulative < cumulative[-1]).sum(dtype=jnp.int32)
    return jnp.minimum(j, last)


@eqx.filter_jit
def episodes_of(
    seed: Int[Array, ""],
    kernel: Kernel,
    space: Space,
    policy: Int[Array, "H S"] | Float[Array, "H S A"],
    number: int,
) -> Trajectory:
    """So many episodes of a kernel, side by side."""
    keys = jax.random.split(jax.random.key(seed), number)
    sampler = Sampler.of(kernel)
    return jax.vmap(lambda key: sampler.episode(key, policy, space))(keys)


def allowed_actions(space: Space, trajectory: Trajectory) -> Trajectory:
    """The episode with forbidden actions replaced by those that are taken for them (mdp/policies.py); traceable."""
    if space.acts is None:
        return trajectory
    a = jnp.asarray(space.acts)[trajectory.s[:-1], trajectory.a]
    return Trajectory(trajectory.s, a, trajectory.j)
