"""Plans, values of policies and occupancy measures for a known kernel: arguments are checked, batches are taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree._validation import (
    check_finite_rewards,
    check_floats,
    check_instance,
    check_real,
    require,
    require_shape,
)
from horizonfree.errors import RewardError, ShapeError
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import Kernel, start_distribution
from horizonfree.planning.induction import Solution, occupancy_measure, policy_values, solve
from horizonfree.planning.native import LANES

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Best(NamedTuple):
    """The value at the start of the best policy for each reward; the policies, if requested."""

    value: Float[np.ndarray, " R"]
    policy: Int[np.ndarray, "R H S"] | None


def optimal(kernel: Kernel, reward: Any, *, only_first: bool = False) -> Solution:
    """The best policy and its values for a reward [H, S, A], or for each of a batch [R, H, S, A].

    A reward that does not depend on the step costs no memory when given as a view (`np.broadcast_to`). Rewards may
    have any sign and size; they must be finite. only_first: actions and values of the first step alone, [1, S] each,
    which takes the memory of two steps instead of H.
    """
    check_instance(kernel, Kernel, "the kernel", ", such as problem.kernel()")
    reward = _check_reward(kernel, reward)
    return _solve(kernel, reward, all_values=not only_first, all_actions=not only_first)


def optimal_values(kernel: Kernel, rewards: Any, start: Any, *, policies: bool = False) -> Best:
    """The value at the start of the best policy for each of many rewards; policies: the policies as well.

    rewards: a batch [R, H, S, A], or any iterable of rewards [H, S, A], made one by one if need be: some at a time are
    in memory. One that does not depend on the step costs no memory when given as a view (`np.broadcast_to`). start: a
    state, or a distribution over states.
    """
    check_instance(kernel, Kernel, "the kernel", ", such as problem.kernel()")
    initial = start_distribution(start, kernel.num_states)
    value, policy = [], []
    for block in _blocks(rewards):
        checked = _check_reward(kernel, _stack_rewards(block))
        result = _solve(kernel, checked, all_values=False, all_actions=policies)
        value.append(result.V[:, 0] @ initial)
        if policies:
            policy.append(result.policy)
    return Best(np.concatenate(value), np.concatenate(policy) if policies else None)


def evaluate(kernel: Kernel, reward: Any, policy: Any) -> Float[np.ndarray, "*R H1 S"]:
    """V of a policy [H, S] or [H, S, A] under a reward [H, S, A]; a leading axis R on either or both is a batch."""
    check_instance(kernel, Kernel, "the kernel", ", such as problem.kernel()")
    reward = _check_reward(kernel, reward)
    check_finite_rewards(reward)
    policy = _check_policy(kernel, policy, reward.shape[-3])
    rewards, policies = reward.ndim == 4, _is_batch(policy)
    if rewards and policies and len(reward) != len(policy):
        raise ShapeError(
            f"there are {len(reward)} rewards but {len(policy)} policies; give one policy per reward, or one for all"
        )
    if not (rewards or policies):
        return policy_values(kernel, reward, policy)
    count = len(reward) if rewards else len(policy)
    pairs = zip(reward if rewards else [reward] * count, policy if policies else [policy] * count)
    return np.stack([policy_values(kernel, r, pi) for r, pi in pairs])


def visits(kernel: Kernel, policy: Any, start: Any) -> Float[np.ndarray, "*R H S A"]:
    """d_h(s,a), the probability that step h is taken in s with a; a leading axis R of the policy is a batch.

    start: the first state, or a distribution over states. V_1 at the start = sum_h <d_h, r_h> for every reward.
    """
    check_instance(kernel, Kernel, "the kernel", ", such as problem.kernel()")
    policy = _check_policy(kernel, policy, None)
    initial = start_distribution(start, kernel.num_states)
    if not _is_batch(policy):
        return occupancy_measure(kernel, policy, initial)
    return np.stack([occupancy_measure(kernel, pi, initial) for pi in policy])


def _solve(kernel: Kernel, reward: np.ndarray, *, all_values: bool, all_actions: bool) -> Solution:
    horizon = reward.shape[-3]
    if reward.strides[-3] == 0:
        reward = reward[..., :1, :, :]
    result, is_finite = solve(kernel, reward, horizon, all_values=all_values, all_actions=all_actions)
    if not is_finite:
        check_finite_rewards(reward)
        raise RewardError(
            f"rewards reach {np.abs(reward).max():.3g}; their totals overflow: divide them first"
        )
    return result


def _check_reward(kernel: Any, reward: Any) -> Float[np.ndarray, "*R H S A"]:
    table = check_floats(reward, "reward")
    sizes = kernel.num_states, kernel.num_actions
    is_reward = table.ndim in (3, 4) and table.shape[-2:] == sizes and 0 not in table.shape
    require_shape(is_reward, "reward", table.shape, f"[H, S, A] or a batch [R, H, S, A] with S, A = {sizes}")
    return table


def _check_policy(kernel: Any, policy: Any, horizon: int | None) -> np.ndarray:
    """One table, or a batch of them, each as `policy_table` wants it."""
    tables = check_real(policy, "policy")
    is_batch = _is_batch(tables)
    if not is_batch:
        tables = tables[None]
    require_shape(tables.ndim >= 2, "policy", np.shape(policy), "[H, S] or [H, S, A]")
    if len(tables) == 0:
        raise ShapeError("the batch of policies is empty; give at least one")
    H = tables.shape[1] if horizon is None else horizon
    checked = [policy_table(table, H, kernel.num_states, kernel.num_actions) for table in tables]
    return np.stack(checked) if is_batch else checked[0]


def _is_batch(policy: np.ndarray) -> bool:
    """Integers [R, H, S] or probabilities [R, H, S, A], rather than one table."""
    return policy.ndim == (3 if np.issubdtype(policy.dtype, np.integer) else 4)


def _blocks(rewards: Any) -> Iterator[list[np.ndarray]]:
    """Some rewards after the other; refuses what are no rewards, or none."""
    require(
        not isinstance(rewards, (str, bytes, dict))
        and not np.ma.isMaskedArray(rewards)
        and np.iterable(rewards),
        "rewards",
        rewards,
        "a batch [R, H, S, A] or a list of rewards [H, S, A]",
        ShapeError,
    )
    left, first = iter(rewards), 0
    while block := [check_floats(x, f"rewards[{first + i}]") for i, x in enumerate(islice(left, LANES))]:
        for i, x in enumerate(block):
            meaning = "[H, S, A], all of one shape"
            require_shape(
                x.ndim == 3 and x.shape == block[0].shape, f"rewards[{first + i}]", x.shape, meaning
            )
        yield block
        first += len(block)
    require(first, "rewards", [], "at least one reward", ShapeError)


def _stack_rewards(block: list[np.ndarray]) -> Float[np.ndarray, "R H S A"]:
    """One batch; a view of one step where each of them is."""
    if all(x.strides[0] == 0 for x in block):
        first = np.stack([x[:1] for x in block])
        return np.broadcast_to(first, (len(block), *block[0].shape))
    return np.stack(block)
