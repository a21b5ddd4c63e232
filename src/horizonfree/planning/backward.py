"""Backward induction, policy evaluation and visits of a kernel that is shared by all steps, compiled.

induction.py has the formulas. `optimal_jax`, `stationary_jax`, `evaluate_jax` and `visits_jax` are traceable, for use
inside compiled calls. `optimal`, `evaluate` and `visits` take and return NumPy arrays, one reward or policy or a batch
of them. `optimal` alone chooses between compiled forms: XLA on a GPU, the loops of loops.py on a CPU and for what is
small.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._inputs import finite_rewards, numbers, real
from horizonfree._x64 import scope, x64
from horizonfree.errors import RewardError, ShapeError
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import Kernel, start_distribution
from horizonfree.planning.induction import TIE as TIE
from horizonfree.planning.induction import Solution as Solution
from horizonfree.planning.induction import backup, best_policy, own_rows, policy_values
from horizonfree.planning.induction import greedy as greedy
from horizonfree.planning.induction import nearly_best as nearly_best

optimal_jax, evaluate_jax = best_policy, policy_values
SMALL_WORK = 2**22  # products of probabilities and values: a GPU is not done with fewer before a CPU


def stationary_jax(
    kernel: Kernel, reward: Float[Array, "S A"], horizon: int, slack: float = 0.0
) -> tuple[Int[Array, "{horizon} S"], Float[Array, " S"]]:
    """The greedy policy and V_1 of a reward that is the same at every step, and stays as small; traceable."""

    def step(V: Array, _: None) -> tuple[Array, Array]:
        return backup(kernel, reward, V, slack)

    first, policy = jax.lax.scan(step, jnp.zeros(kernel.num_states), length=horizon, reverse=True)
    return policy, first


def significant(x: Float[Array, "..."], axis: int | None = None) -> Float[Array, "..."]:
    """x with zeros for what is rounding beside its largest entry along the axis; traceable."""
    return jnp.where(jnp.abs(x) > TIE * jnp.abs(x).max(axis=axis, keepdims=True), x, 0.0)


def visits_jax(
    kernel: Kernel, policy: Int[Array, "H S"] | Float[Array, "H S A"], initial: Float[Array, " S"]
) -> Float[Array, "H S A"]:
    """d_h(s,a), the probability that step h is taken in s with a, from an initial distribution; traceable."""
    A = kernel.num_actions

    def step(mass: Array, pi: Array) -> tuple[Array, Array]:
        if pi.ndim == 1:
            d = mass[:, None] * jax.nn.one_hot(pi, A, dtype=mass.dtype)
            return _push(own_rows(kernel, pi), mass[:, None]), d
        d = mass[:, None] * pi
        return _push(kernel, d), d

    _, d = jax.lax.scan(step, initial, policy)
    return d


def _push(kernel: Kernel, d: Float[Array, "S A"]) -> Float[Array, " S"]:
    """The mass of each next state: sum_{s,a} d(s,a) P(s'|s,a), the adjoint of `Kernel.expect`."""
    if kernel.is_dense:
        return jnp.einsum("sa,san->n", d, kernel.prob)
    return jnp.zeros(kernel.num_states).at[kernel.succ].add(d[..., None] * kernel.prob)


@partial(jax.jit, static_argnames="horizon")
def _optimal(
    kernel: Kernel, reward: Float[Array, "R T S A"], horizon: int
) -> tuple[Int[Array, "H R S"], Float[Array, "H1 R S"]]:
    """A batch of rewards, whose values stand in the last axis: each step is one product of matrices."""
    backups = jax.vmap(partial(backup, kernel), in_axes=-1, out_axes=-1)

    def step(V: Array, h: Array) -> tuple[Array, tuple[Array, Array]]:
        r = jnp.moveaxis(reward[:, h % reward.shape[1]], 0, -1)
        V, a = backups(r, V)
        return V, (a.T, V.T)

    end = jnp.zeros((kernel.num_states, len(reward)))
    _, (policy, V) = jax.lax.scan(step, end, jnp.arange(horizon), reverse=True)
    return policy, jnp.concatenate([V, end.T[None]])


@partial(jax.jit, static_argnames=("rewards", "policies"))
def _evaluate(kernel: Kernel, reward: Array, policy: Array, rewards: bool, policies: bool) -> Array:
    """`rewards` and `policies` say which of the two is a batch."""
    if not (rewards or policies):
        return evaluate_jax(kernel, reward, policy)
    axes = (None, 0 if rewards else None, 0 if policies else None)
    return jax.vmap(evaluate_jax, in_axes=axes)(kernel, reward, policy)


@partial(jax.jit, static_argnames="policies")
def _visits(kernel: Kernel, policy: Array, initial: Array, policies: bool) -> Array:
    if not policies:
        return visits_jax(kernel, policy, initial)
    return jax.vmap(visits_jax, in_axes=(None, 0, None))(kernel, policy, initial)


def optimal(kernel: Kernel, reward: Any) -> Solution:
    """The best policy and its values for a reward [H, S, A], or for each of a batch [R, H, S, A].

    A reward that does not depend on the step costs no memory when given as a view (`np.broadcast_to`). Rewards may
    have any sign and size; they must be finite.
    """
    reward = _check_reward(kernel, reward)
    horizon, is_batch = reward.shape[-3], reward.ndim == 4
    if reward.strides[-3] == 0:
        reward = reward[..., :1, :, :]
    work = math.prod(reward.shape[:-3]) * horizon * kernel.prob.size
    if jax.default_backend() == "cpu" or work < SMALL_WORK:
        from horizonfree.planning import loops  # Numba loads slowly, so only when it is used

        policy, V = loops.optimal(kernel, reward, horizon)
    else:
        with scope():
            tables = _optimal(kernel, reward if is_batch else reward[None], horizon)
        policy, V = (np.asarray(x).swapaxes(0, 1) if is_batch else np.asarray(x)[:, 0] for x in tables)
    if not math.isfinite(np.maximum.reduce(V, axis=None)):  # cheaper than a look at the rewards
        finite_rewards(reward)
        raise RewardError(
            f"rewards reach {np.abs(reward).max():.3g}; their totals overflow: divide them first"
        )
    return Solution(policy, V)


@x64
def evaluate(kernel: Kernel, reward: Any, policy: Any) -> Float[np.ndarray, "*R H1 S"]:
    """V of a policy [H, S] or [H, S, A] under a reward [H, S, A]; a leading axis R on either or both is a batch."""
    reward = _check_reward(kernel, reward)
    finite_rewards(reward)
    policy = _check_policy(kernel, policy, reward.shape[-3])
    rewards, policies = reward.ndim == 4, _is_batch(policy)
    if rewards and policies and len(reward) != len(policy):
        raise ShapeError(
            f"there are {len(reward)} rewards but {len(policy)} policies; give one policy per reward, or one for all"
        )
    return np.asarray(_evaluate(kernel, reward, policy, rewards, policies))


@x64
def visits(kernel: Kernel, policy: Any, start: Any) -> Float[np.ndarray, "*R H S A"]:
    """d_h(s,a), the probability that step h is taken in s with a; a leading axis R of the policy is a batch.

    start: the first state, or a distribution over states. V_1 at the start = sum_h <d_h, r_h> for every reward.
    """
    policy = _check_policy(kernel, policy, None)
    initial = start_distribution(start, kernel.num_states)
    return np.asarray(_visits(kernel, policy, initial, _is_batch(policy)))


def check_kernel_type(kernel: Any) -> None:
    """Refuse what is no kernel."""
    if not isinstance(kernel, Kernel):
        raise ShapeError(
            f"the kernel is a {type(kernel).__name__}; it must be a Kernel, such as problem.kernel()"
        )


def _check_reward(kernel: Any, reward: Any) -> Float[np.ndarray, "*R H S A"]:
    check_kernel_type(kernel)
    table = numbers(reward, "reward")
    sizes = kernel.num_states, kernel.num_actions
    if table.ndim not in (3, 4) or table.shape[-2:] != sizes or 0 in table.shape:
        raise ShapeError(
            f"reward has shape {table.shape}; it must be [H, S, A] or a batch [R, H, S, A] with S, A = {sizes}"
        )
    return table


def _check_policy(kernel: Any, policy: Any, horizon: int | None) -> np.ndarray:
    """One table, or a batch of them, each as `policy_table` wants it."""
    check_kernel_type(kernel)
    tables = real(policy, "policy")
    is_batch = _is_batch(tables)
    if not is_batch:
        tables = tables[None]
    if tables.ndim < 2:
        raise ShapeError(f"policy has shape {np.shape(policy)}; it must be [H, S] or [H, S, A]")
    if len(tables) == 0:
        raise ShapeError("the batch of policies is empty; give at least one")
    H = tables.shape[1] if horizon is None else horizon
    checked = [policy_table(table, H, kernel.num_states, kernel.num_actions) for table in tables]
    return np.stack(checked) if is_batch else checked[0]


def _is_batch(policy: np.ndarray) -> bool:
    """Integers [R, H, S] or probabilities [R, H, S, A], rather than one table."""
    return policy.ndim == (3 if np.issubdtype(policy.dtype, np.integer) else 4)
