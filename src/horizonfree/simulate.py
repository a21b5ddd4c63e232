"""Episodes of a known kernel: one compiled scan, batched over keys.

Uniform numbers are drawn before the scan; a step is a look-up in cumulative successor lists. A policy is an
integer table [H, S] or action probabilities [H, S, A]; a one-hot table of probabilities gives the same episodes
as the integer table.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._x64 import to_numpy, x64
from horizonfree.checks import check_seed, real, whole
from horizonfree.errors import ShapeError
from horizonfree.features import MAX_BYTES
from horizonfree.mixture import AnyArray, Kernel, Mixture

IMPOSSIBLE, UNSEEN = -1, -2  # in place of a slot: no successor of (s, a); the episode had broken off


class Trajectory(eqx.Module):
    """One episode, or a batch of them: states s_1..s_{H+1}, actions, and which successor slot was taken."""

    s: Int[AnyArray, "*batch H+1"]
    a: Int[AnyArray, "*batch H"]
    j: Int[AnyArray, "*batch H"]


class Sampler(eqx.Module):
    """A kernel prepared for sampling: cumulative probabilities, so that zero-probability slots are never taken."""

    succ: Int[AnyArray, "S A n"]
    cumulative: Float[AnyArray, "S A n"]

    @classmethod
    def of(cls, kernel: Kernel) -> "Sampler":
        """Prepare a kernel; traceable."""
        prob = jnp.maximum(jnp.asarray(kernel.prob), 0)
        cumulative = jnp.cumsum(prob, axis=-1)
        later = jnp.cumsum(prob[..., ::-1], axis=-1)[..., ::-1] - prob  # mass after this slot
        # The last slot with mass and all after it become 1: no rounding can push a draw beyond it.
        return cls(jnp.asarray(kernel.succ), jnp.where(later > 0, cumulative / cumulative[..., -1:], 1.0))

    def episode(self, key: Array, policy: Array, start: int | Array) -> Trajectory:
        """One episode under a policy; traceable, vmap over keys (and policies)."""
        key_next, key_action = jax.random.split(key)
        horizon = policy.shape[0]
        u_next = jax.random.uniform(key_next, (horizon,), jnp.float64)
        is_random = policy.ndim == 3
        u_action = jax.random.uniform(key_action, (horizon,), jnp.float64) if is_random else u_next

        def step(s: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, ...]]:
            rule, u, v = inputs
            a = draw(v, jnp.cumsum(rule[s])) if is_random else rule[s].astype(jnp.int32)
            j = (u >= self.cumulative[s, a]).sum(dtype=jnp.int32)
            s_next = self.succ[s, a, j]
            return s_next, (s_next, a, j)

        s1 = jnp.asarray(start, jnp.int32)
        _, (s, a, j) = jax.lax.scan(step, s1, (policy, u_next, u_action))
        return Trajectory(jnp.concatenate([s1[None], s]), a, j)


def draw(u: Array, cumulative: Float[Array, " A"]) -> Int[Array, ""]:
    """The index that a uniform number picks; never one of probability zero at the end of the list."""
    j = (u * cumulative[-1] >= cumulative).sum(dtype=jnp.int32)
    last = jnp.searchsorted(cumulative, cumulative[-1], side="left").astype(jnp.int32)
    return jnp.minimum(j, last)


@partial(jax.jit, static_argnames="episodes")
def _episodes(seed: Array, kernel: Kernel, policy: Array, start: Array, episodes: int) -> Trajectory:
    keys = jax.random.split(jax.random.key(seed), episodes)
    sampler = Sampler.of(kernel)
    return jax.vmap(lambda key: sampler.episode(key, policy, start))(keys)


@x64
def simulate(problem: Mixture, policy: AnyArray, *, episodes: int = 1, seed: int = 0) -> Trajectory:
    """Sample episodes of a problem under a policy, [H, S] actions or [H, S, A] probabilities."""
    if not isinstance(problem, Mixture):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Mixture")
    most = MAX_BYTES // (12 * problem.horizon)
    meaning = f"a whole number from 1 to {most} (more would not fit the memory)"
    episodes = whole(episodes, "episodes", 1, most, meaning)
    check_seed(seed)
    table = check_policy(problem, policy)
    start = np.int32(problem.start)
    sampled: Trajectory = to_numpy(_episodes(np.int64(seed), problem.kernel(), table, start, episodes))
    return sampled


def check_policy(problem: Mixture, policy: AnyArray) -> np.ndarray:
    """A policy of a problem as int32 [H, S] or float64 [H, S, A], or an error that says where it is wrong."""
    return policy_table(policy, problem.horizon, problem.num_states, problem.num_actions)


def policy_table(policy: AnyArray, H: int, S: int, A: int) -> np.ndarray:
    """`check_policy` for given sizes."""
    table = real(policy, "policy")
    if table.shape == (H, S) and np.issubdtype(table.dtype, np.integer):
        bad = np.argwhere((table < 0) | (table >= A))
        if bad.size:
            h, s = bad[0]
            raise ShapeError(f"policy[h={h}, s={s}] is {table[h, s]}; an action is 0 to {A - 1}")
        return table.astype(np.int32)
    if table.shape == (H, S, A):
        table = table.astype(np.float64)
        bad = np.argwhere(~((table >= 0).all(-1) & (np.abs(table.sum(-1) - 1) <= 1e-8)))
        if bad.size:
            h, s = bad[0]
            raise ShapeError(
                f"policy[h={h}, s={s}] is {table[h, s]}; probabilities must be >= 0 and sum to 1"
            )
        return table
    raise ShapeError(
        f"policy has shape {table.shape} and type {table.dtype}; it must be integers [{H}, {S}] or "
        f"probabilities [{H}, {S}, {A}]"
    )
