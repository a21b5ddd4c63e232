"""Backward induction, policy evaluation and visits of a kernel that is shared by all steps.

    V_{H+1} = 0,   Q_h(s,a) = r_h(s,a) + [P V_{h+1}](s,a),   V_h(s) = max_a Q_h(s,a)       (paper, section 3)

Ties go to the lowest action. A policy is an integer table [H, S] or action probabilities [H, S, A].

`optimal_jax`, `stationary_jax`, `evaluate_jax` and `visits_jax` are traceable, for use inside compiled calls.
`optimal`, `evaluate` and `visits` take and return NumPy arrays, one reward or policy or a batch of them. `optimal`
alone chooses between compiled forms: XLA on a GPU, the loops of loops.py on a CPU and for what is small.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from horizonfree._inputs import finite_rewards, numbers, real
from horizonfree._x64 import scope, x64
from horizonfree.errors import RewardError, ShapeError
from horizonfree.mdp.rollout import policy_table
from horizonfree.mdp.space import Kernel, start_distribution

SMALL_WORK = 2**22  # products of probabilities and values: a GPU is not done with fewer before a CPU
TIE = 1e-10  # the slack of explorers, as a share: above rounding, below what matters


class Solution(NamedTuple):
    """A greedy policy and its values V_1..V_{H+1}, for one reward or a batch of them.

    A tuple: to build an equinox module would take a tenth of the time of a small plan.
    """

    policy: Int[np.ndarray, "*R H S"]
    V: Float[np.ndarray, "*R H1 S"]


def optimal_jax(
    kernel: Kernel, reward: Float[Array, "H S A"], slack: float = 0.0
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """The greedy policy and V of one reward; traceable, vmap over rewards. Ties: see `nearly_best`."""

    def step(V: Array, r: Array) -> tuple[Array, tuple[Array, Array]]:
        V, a = _backup(kernel, r, V, slack)
        return V, (a, V)

    end = jnp.zeros(kernel.num_states)
    _, (policy, V) = jax.lax.scan(step, end, reward, reverse=True)
    return policy, jnp.concatenate([V, end[None]])


def stationary_jax(
    kernel: Kernel, reward: Float[Array, "S A"], horizon: int, slack: float = 0.0
) -> tuple[Int[Array, "{horizon} S"], Float[Array, " S"]]:
    """The greedy policy and V_1 of a reward that is the same at every step, and stays as small; traceable."""

    def step(V: Array, _: None) -> tuple[Array, Array]:
        return _backup(kernel, reward, V, slack)

    first, policy = jax.lax.scan(step, jnp.zeros(kernel.num_states), length=horizon, reverse=True)
    return policy, first


def _backup(
    kernel: Kernel, r: Float[Array, "S A"], V: Float[Array, " S"], slack: float = 0.0
) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """V_h and the greedy action from V_{h+1}."""
    return greedy(r + kernel.expect(V), slack)


def greedy(Q: Float[Array, "S A"], slack: float = 0.0) -> tuple[Float[Array, " S"], Int[Array, " S"]]:
    """The maximum, and the lowest action that attains it, or nearly (XLA's argmax is slow); traceable."""
    A = Q.shape[-1]
    is_best = nearly_best(Q, -1, slack)
    return Q.max(axis=-1), jnp.where(is_best, jnp.arange(A, dtype=jnp.int32), A).min(axis=-1)


def nearly_best(x: Float[Array, "..."], axis: int, slack: float = TIE) -> Bool[Array, "..."]:
    """Which entries fall short of the maximum by at most a share `slack` of it; traceable.

    True ties, which symmetries and caps make, are broken by rounding. Explorers count what is nearly best as equal and
    take the first, so that they do the same on every device.
    """
    best = x.max(axis=axis, keepdims=True)
    return x >= (best - slack * jnp.abs(best) if slack else best)


def significant(x: Float[Array, "..."], axis: int | None = None) -> Float[Array, "..."]:
    """x with zeros for what is rounding beside its largest entry along the axis; traceable."""
    return jnp.where(jnp.abs(x) > TIE * jnp.abs(x).max(axis=axis, keepdims=True), x, 0.0)


def evaluate_jax(
    kernel: Kernel, reward: Float[Array, "H S A"], policy: Int[Array, "H S"] | Float[Array, "H S A"]
) -> Float[Array, "H1 S"]:
    """V of a policy: V_h(s) = sum_a pi_h(a|s) Q_h(s,a); traceable."""
    s = jnp.arange(kernel.num_states)

    def step(V: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        r, pi = inputs
        if pi.ndim == 1:  # one row per state: A times cheaper than all actions
            V = r[s, pi] + _rows(kernel, pi).expect(V)[:, 0]
        else:
            V = (pi * (r + kernel.expect(V))).sum(axis=-1)
        return V, V

    end = jnp.zeros(kernel.num_states)
    _, V = jax.lax.scan(step, end, (reward, policy), reverse=True)
    return jnp.concatenate([V, end[None]])


def visits_jax(
    kernel: Kernel, policy: Int[Array, "H S"] | Float[Array, "H S A"], initial: Float[Array, " S"]
) -> Float[Array, "H S A"]:
    """d_h(s,a), the probability that step h is taken in s with a, from an initial distribution; traceable."""
    A = kernel.num_actions

    def step(mass: Array, pi: Array) -> tuple[Array, Array]:
        if pi.ndim == 1:
            d = mass[:, None] * jax.nn.one_hot(pi, A, dtype=mass.dtype)
            return _push(_rows(kernel, pi), mass[:, None]), d
        d = mass[:, None] * pi
        return _push(kernel, d), d

    _, d = jax.lax.scan(step, initial, policy)
    return d


def _rows(kernel: Kernel, pi: Int[Array, " S"]) -> Kernel:
    """The kernel that is left when state s always takes action pi(s)."""
    s = jnp.arange(kernel.num_states)
    return Kernel(kernel.succ[s, pi][:, None], kernel.prob[s, pi][:, None], kernel.is_dense)


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
    backup = jax.vmap(partial(_backup, kernel), in_axes=-1, out_axes=-1)

    def step(V: Array, h: Array) -> tuple[Array, tuple[Array, Array]]:
        r = jnp.moveaxis(reward[:, h % reward.shape[1]], 0, -1)
        V, a = backup(r, V)
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


@jax.jit
def _best(kernel: Kernel, reward: Float[Array, "H S A"]) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    return optimal_jax(kernel, reward)


@x64
def best_plan(kernel: Kernel, reward: Float[np.ndarray, "H S A"]) -> Solution:
    """As `optimal`, for one reward that was checked before: compiled with the rest of a plan, no Numba to load."""
    return Solution(*(np.asarray(x) for x in _best(kernel, np.asarray(reward))))


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel):
        raise ShapeError(
            f"the kernel is a {type(kernel).__name__}; it must be a Kernel, such as problem.kernel()"
        )


def _check_reward(kernel: Any, reward: Any) -> Float[np.ndarray, "*R H S A"]:
    _check_kernel(kernel)
    table = numbers(reward, "reward")
    sizes = kernel.num_states, kernel.num_actions
    if table.ndim not in (3, 4) or table.shape[-2:] != sizes or 0 in table.shape:
        raise ShapeError(
            f"reward has shape {table.shape}; it must be [H, S, A] or a batch [R, H, S, A] with S, A = {sizes}"
        )
    return table


def _check_policy(kernel: Any, policy: Any, horizon: int | None) -> np.ndarray:
    """One table, or a batch of them, each as `policy_table` wants it."""
    _check_kernel(kernel)
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
