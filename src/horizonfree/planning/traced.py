"""Backward induction, policy evaluation and occupancy measures for compiled JAX programs; induction.py defines them.

vmap gives batches of rewards or policies.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree.mdp.space import Kernel, check_values
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
    return (kernel.prob * take(V, kernel.succ)).sum(-1)


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
