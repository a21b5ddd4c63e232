"""Many rewards for one kernel, where there is no room for all their values: what each is worth at the start.

A thousand rewards on 50,000 states and 50 steps have 20 GB of values, and as much of policies and rewards. Some rewards
at a time are planned for (backward.py), and of each the value at the start is kept.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._inputs import numbers, shown
from horizonfree.errors import ShapeError
from horizonfree.mdp.space import Kernel, start_distribution
from horizonfree.planning.backward import check_kernel_type, optimal

TOGETHER = 16  # rewards that stand side by side in registers (lanes.py)


class Best(NamedTuple):
    """What the best policy for each reward is worth at the start; the policies, where they were asked for."""

    value: Float[np.ndarray, " R"]
    policy: Int[np.ndarray, "R H S"] | None


def optimal_values(kernel: Kernel, rewards: Any, start: Any, *, policies: bool = False) -> Best:
    """The value at the start of the best policy for each of many rewards; policies: the policies as well.

    rewards: a batch [R, H, S, A], or any iterable of rewards [H, S, A], made one by one if need be. One that does not
    depend on the step costs no memory when given as a view (`np.broadcast_to`). start: a state, or a distribution over
    states.
    """
    check_kernel_type(kernel)
    initial = start_distribution(start, kernel.num_states)
    value, policy = [], []
    for block in _blocks(rewards):
        found = optimal(kernel, _stacked(block))
        value.append(found.V[:, 0] @ initial)
        if policies:
            policy.append(found.policy)
    return Best(np.concatenate(value), np.concatenate(policy) if policies else None)


def _blocks(rewards: Any) -> Iterator[list[np.ndarray]]:
    """Some rewards after the other; refuses what are no rewards, or none."""
    if isinstance(rewards, (str, bytes, dict)) or np.ma.isMaskedArray(rewards) or not np.iterable(rewards):
        raise ShapeError(
            f"rewards is {shown(rewards)}; it must be a batch [R, H, S, A] or a list of rewards [H, S, A]"
        )
    left, first = iter(rewards), 0
    while block := [numbers(x, f"rewards[{first + i}]") for i, x in enumerate(islice(left, TOGETHER))]:
        for i, x in enumerate(block):
            if x.ndim != 3 or x.shape != block[0].shape:
                raise ShapeError(
                    f"rewards[{first + i}] has shape {x.shape}; each reward must be [H, S, A], all of one shape"
                )
        yield block
        first += len(block)
    if not first:
        raise ShapeError("rewards is empty; give at least one reward")


def _stacked(block: list[np.ndarray]) -> Float[np.ndarray, "R H S A"]:
    """One batch; a view of one step where each of them is."""
    if all(x.strides[0] == 0 for x in block):
        first = np.stack([x[:1] for x in block])
        return np.broadcast_to(first, (len(block), *block[0].shape))
    return np.stack(block)
