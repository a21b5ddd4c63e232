"""Rewards: arrays [H, S, A] >= 0 whose total along every possible trajectory is at most 1.

Steps count from 0 in code: reward[h, s, a] is the paper's r_{h+1}(s, a). Two scales occur in the literature: "total"
(the sum over an episode is at most 1, the library's own scale) and "per-step" (each entry in [0, 1], so values and
gaps reach H); `resolve` converts to the first and keeps the map back.

A family of rewards is a list, or one reward for each state, whose tables are made one at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, SupportsIndex, overload

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import node
from horizonfree._validation import (
    check_choice,
    check_finite_rewards,
    check_floats,
    check_int,
    did_you_mean,
    require,
    require_entries,
    require_shape,
)
from horizonfree.errors import RewardError, ShapeError
from horizonfree.mdp import names
from horizonfree.mdp.names import StateLike
from horizonfree.mdp.policies import redirect_forbidden
from horizonfree.mdp.space import HasSpace, Space, occupied_states

SCALES = ("total", "per-step", "rescale")
MAX_SHORT_AXIS = 16  # length up to which np.maximum of slices is faster than max along the axis
TOTAL_TOLERANCE = 1e-9  # by which rounding may make a total exceed its scale
FAMILIES = ("goals", "occupancies")

RewardLike = Any  # [H, S, A], [S, A], [S], a function (h, s, a) -> number, or a Reward


@node
class Reward:
    """A checked reward. Value in the caller's units = factor * value + offset; gaps are multiplied by factor.

    `occupied`: the steps and states at which entries lie in [0, 1] and the map back holds; None for all. No episode
    comes to the others, where entries may be any numbers: they affect plans, but neither values nor gaps.
    """

    table: Float[np.ndarray, "H S A"]
    factor: float = 1.0
    offset: float = 0.0
    occupied: Bool[np.ndarray, "H S"] | None = None


def goal(
    problem: HasSpace, states: StateLike | Sequence[StateLike], *, step: int | None = None
) -> Float[np.ndarray, "H S A"]:
    """1 for being in one of the states (by name or number) at one step (from 0; the last by default), else 0.

    On a grid a tuple is a cell, (column, row) from 0, as is the text "(3, 1)"; a list is several states.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> reward = hf.goal(problem, 3)
    >>> reward.shape, reward[-1, :, 0].tolist()
    ((8, 4, 2), [0.0, 0.0, 0.0, 1.0])
    """
    space = space_of(problem)
    last = space.horizon - 1
    step = last if step is None else check_int(step, "step", 0, last, f"a step, 0 to {last}", RewardError)
    table = np.zeros(space.sizes)
    table[step, numbers_of(problem, states)] = 1.0
    return table


def occupancy(problem: HasSpace, states: StateLike | Sequence[StateLike]) -> Float[np.ndarray, "H S A"]:
    """1/H for every step spent in one of the states, given as for `goal`: the share of the episode.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> hf.occupancy(problem, 0)[:, 0, 0].tolist()
    [0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125]
    """
    space = space_of(problem)
    table = np.zeros(space.sizes)
    table[:, numbers_of(problem, states)] = 1.0 / space.horizon
    return table


def suite(problem: HasSpace) -> Float[np.ndarray, "R H S A"]:
    """For every state the rewards "be there at the end" and "stay there": a test that no single reward replaces."""
    states = range(space_of(problem).num_states)
    return np.stack([goal(problem, s) for s in states] + [occupancy(problem, s) for s in states])


def resolve(problem: HasSpace, reward: RewardLike, *, scale: str = "total") -> Reward:
    """Check a reward of any form and bring it to the scale total <= 1.

    scale: "total" for a reward whose total is at most 1 on every trajectory, "per-step" for entries in [0, 1],
    "rescale" for any rewards, costs as negative ones: `rescale` brings them to the scale and keeps the map back.
    """
    space = space_of(problem)
    if isinstance(reward, Reward):
        table = _shaped(space, reward.table, [space.sizes])
        if reward.occupied is not None:
            new = np.argwhere(occupied_states(space) & ~reward.occupied)
            if new.size:
                h, s = new[0]
                raise RewardError(
                    f"this reward was rescaled for another problem: there state {s} cannot be occupied at step {h}, "
                    "here it can; rescale it for this one"
                )
            table = np.where(reward.occupied[:, :, None], table, 0.0)
        _check(space, table)
        return (
            reward
            if space.acts is None
            else replace(reward, table=redirect_forbidden(space.acts, reward.table, axis=1))
        )
    check_choice(scale, "scale", SCALES, RewardError)
    if scale == "rescale":
        return rescale(space, reward)
    table = as_table(space, reward)
    if scale == "total":
        _check(space, table)
        return Reward(table)
    _check_entries(table)
    meaning = "with scale='per-step' entries lie in [0, 1]"
    require_entries(table <= 1 + TOTAL_TOLERANCE, "reward", table, meaning, RewardError, "[h={}, s={}, a={}]")
    return Reward(table / space.horizon, factor=float(space.horizon))


@np.errstate(over="ignore")  # a total that overflows is above 1
def _check(space: Space, table: Float[np.ndarray, "H S A"]) -> None:
    """Refuse entries below 0 and totals above 1."""
    _check_entries(table)
    if table.max(axis=(1, 2)).sum() <= 1:  # a cheap upper bound on every total
        return
    highest = max_total(space, table)
    largest_total = _at_best_start(space, highest)
    if largest_total > 1 + TOTAL_TOLERANCE:
        raise RewardError(
            f"the total reaches {largest_total:.12g} on the trajectory {_max_trajectory(space, table, highest)}; "
            "it must be <= 1 on every possible trajectory: divide the reward by that total, or take the scale "
            "'rescale' (any rewards) or 'per-step' (entries in [0, 1])"
        )


def _check_entries(table: Float[np.ndarray, "H S A"]) -> None:
    meaning = (
        "rewards must be >= 0 on this scale: the scale 'rescale' takes any rewards or costs, in their units"
    )
    require_entries(table >= 0, "reward", table, meaning, RewardError, "[h={}, s={}, a={}]")


def rescale(problem: HasSpace, reward: RewardLike) -> Reward:
    """Any finite reward or cost as one with entries >= 0 and largest total 1; the map back is in the result.

    Each step is shifted by its smallest entry among the states that can be occupied then (every episode has H steps,
    so all totals move by the same amount). Then all entries, also of states that cannot be occupied, are divided by the
    largest total. The order of policies stays the same, from every state and step.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> reward = hf.rescale(problem, -50 * hf.occupancy(problem, 0))
    >>> float(reward.factor), float(reward.offset)  # a total in the caller's units is factor * total + offset
    (43.75, -50.0)
    """
    space = space_of(problem)
    table = as_table(space, reward)
    is_occupied = occupied_states(space)
    with np.errstate(over="ignore"):
        shift = np.where(is_occupied[:, :, None], table, np.inf).min(axis=(1, 2))
        shifted = table - shift[:, None, None]
        largest_total = max_total(space, np.where(is_occupied[:, :, None], shifted, 0.0))
        factor, offset = _at_best_start(space, largest_total), float(shift.sum())
    if not (np.isfinite([factor, offset]).all() and np.isfinite(shifted).all()):
        raise RewardError(
            f"entries from {table.min():.6g} to {table.max():.6g} have totals that overflow; divide the reward first"
        )
    if factor <= 0:  # all trajectories have the same total
        return Reward(shifted, 1.0, offset, is_occupied)
    return Reward(shifted / factor, factor, offset, is_occupied)


def as_table(problem: HasSpace, reward: RewardLike) -> Float[np.ndarray, "H S A"]:
    """An array [S], [S, A] or [H, S, A], or a function (h, s, a) -> number, as a finite table [H, S, A].

    Entries of forbidden actions are replaced by those of the allowed actions that they stand for.
    """
    space = space_of(problem)
    H, S, A = space.sizes
    if callable(reward):
        reward = _tabulate(reward, H, S, A, space.acts)
    array = _shaped(space, reward, [(S,), (S, A), (H, S, A)])
    return np.ascontiguousarray(np.broadcast_to(array[:, None] if array.ndim == 1 else array, (H, S, A)))


def _shaped(space: Space, reward: Any, shapes: list[tuple[int, ...]]) -> np.ndarray:
    """The reward as an array of finite numbers; refuses other shapes."""
    array = check_floats(reward, "the reward")
    shape_texts = {1: "[S]", 2: "[S, A]", 3: "[H, S, A]"}
    allowed = " or ".join(f"{shape_texts[len(shape)]}={shape}" for shape in shapes)
    require_shape(array.shape in shapes, "the reward", array.shape, allowed)
    if array.ndim > 1:
        array = redirect_forbidden(space.acts, array, axis=array.ndim - 2)
    check_finite_rewards(array)
    return array


def max_total(space: Space, table: Float[np.ndarray, "H S A"]) -> Float[np.ndarray, "H1 S"]:
    """The largest total from (h, s) on over every policy and every transition of the support; exact.

    T_h(s) = max_a [ r_h(s,a) + max over s' in the support of T_{h+1}(s') ],   T_{H+1} = 0

    The support are the transitions with non-zero features. It contains all that some parameter makes possible; for
    mixtures of kernels the two agree, with features of both signs it may be larger.
    """
    succ, support = np.asarray(space.succ), np.asarray(space.support)
    full = support.all()
    T = np.zeros((space.horizon + 1, space.num_states))
    for h in range(space.horizon - 1, -1, -1):
        next_totals = T[h + 1][succ]
        if not full:
            next_totals = np.where(support, next_totals, -np.inf)
        T[h] = _largest(table[h] + _largest(next_totals))
    return T


def _largest(x: Float[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m"]:
    """The maximum along the last axis, fast if that is short."""
    return x.max(axis=-1) if x.shape[-1] > MAX_SHORT_AXIS else reduce(np.maximum, np.moveaxis(x, -1, 0))


def _at_best_start(space: Space, T: Float[np.ndarray, "H1 S"]) -> float:
    """The largest total over the states in which an episode can start."""
    return float(T[0, space.starts()].max())


def _max_trajectory(space: Space, table: Float[np.ndarray, "H S A"], T: Float[np.ndarray, "H1 S"]) -> str:
    """The trajectory with the largest total, as text."""
    s, steps = int(np.where(space.starts(), T[0], -np.inf).argmax()), []
    for h in range(space.horizon):
        next_totals = np.where(space.support[s], T[h + 1][space.succ[s]], -np.inf)
        a = int((table[h, s] + next_totals.max(axis=-1)).argmax())
        steps.append(f"(s={s}, a={a}, r={table[h, s, a]:.3g})")
        s = int(space.succ[s, a, next_totals[a].argmax()])
    return ", ".join(steps if len(steps) <= 6 else [*steps[:3], "...", *steps[-2:]])


def _tabulate(function: Callable[[int, int, int], float], H: int, S: int, A: int, acts: Any) -> np.ndarray:
    """The values of a function at every step, state and allowed action."""
    table = np.zeros((H, S, A))
    for entry in np.ndindex(H, S, A):
        if acts is not None and acts[entry[1:]] != entry[2]:  # a forbidden action
            continue
        try:
            table[entry] = function(*entry)
        except Exception as error:  # of the caller's function
            raise RewardError(
                f"the reward function gives no number at (h, s, a) = {entry}: {type(error).__name__}: {error}; "
                "it takes h, s and a"
            ) from error
    return table


def numbers_of(problem: Any, states: Any) -> np.ndarray:
    """The indices of states that are given by number, name, label (of several states) or cell."""
    size = space_of(problem).num_states
    return names.numbers_of(getattr(problem, "layout", {}), states, size)


def space_of(problem: Any) -> Space:
    """The space of a problem or a model; refuses what has none."""
    space = getattr(problem, "space", None)
    if not isinstance(space, Space):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Problem")
    return space


@dataclass(frozen=True, eq=False)
class StateRewards(Sequence[Reward]):
    """For each of these states the reward for ending there (`is_goal`), or for every step there.

    Tables are made on access: all of them together are G times [H, S, A].
    """

    space: Space
    states: Int[np.ndarray, " G"]
    is_goal: bool

    def __len__(self) -> int:
        """The number of rewards."""
        return len(self.states)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Reward: ...
    @overload
    def __getitem__(self, index: slice) -> "StateRewards": ...
    def __getitem__(self, index: Any) -> Any:
        """One reward with its table, or a part of the family."""
        if isinstance(index, slice):
            return StateRewards(self.space, self.states[index], self.is_goal)
        return Reward((goal if self.is_goal else occupancy)(self.space, int(self.states[index])))

    def paid(self, h: int) -> float:
        """The reward at a step in its own state."""
        if self.is_goal:
            return float(h == self.space.horizon - 1)
        return 1.0 / self.space.horizon


def family(problem: HasSpace, rewards: Any) -> tuple[str, Sequence[Reward]]:
    """Several rewards and a name for them: "goals", "occupancies" (of the states that can be occupied), or a list."""
    space = space_of(problem)
    if isinstance(rewards, str) and rewards in FAMILIES:
        is_occupied, is_goal = occupied_states(space), rewards == "goals"
        states = np.flatnonzero(is_occupied[-1] if is_goal else is_occupied.any(axis=0))
        names = ("goal", "goals") if is_goal else ("occupancy", "occupancies")
        return _count_text(len(states), *names), StateRewards(space, states, is_goal)
    is_list = isinstance(rewards, (list, tuple, StateRewards)) or (
        isinstance(rewards, np.ndarray) and rewards.ndim > 0
    )
    if not is_list or not len(rewards):
        hint = did_you_mean(rewards, FAMILIES)
        require(False, "rewards", rewards, f"'goals', 'occupancies' or a list of rewards{hint}", RewardError)
    return _count_text(len(rewards), "reward", "rewards"), [resolve(space, reward) for reward in rewards]


def _count_text(number: int, one: str, several: str) -> str:
    """The number of rewards as text, "all 3 goals"."""
    return f"the only {one}" if number == 1 else f"all {number} {several}"
