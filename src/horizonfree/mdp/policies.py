"""Policies: actions [H, S] or their probabilities [H, S, A], or one step of these for all steps; forbidden actions.

A forbidden action is an alias of an allowed one, the first of its state: `acts[s, a]` is the action that is taken when
a is chosen in s. Transitions and rewards are those of acts[s, a]. So every policy is equivalent to an allowed one,
allowed policies do not change, and the best allowed policy is optimal among all: certificates hold for both
(docs/problems.md). Plans contain allowed actions only.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._validation import check_real, require, require_array, require_entries
from horizonfree.errors import OptionError, ShapeError
from horizonfree.mdp.space import Space


def policy_table(policy: Any, H: int, S: int, A: int) -> np.ndarray:
    """A policy as int32 [H, S] or float64 [H, S, A], or an error that says where it is wrong.

    Actions [S] and probabilities [S, A] are for every step.
    """
    table = check_real(policy, "policy")
    is_integer = np.issubdtype(table.dtype, np.integer)
    if table.shape == (S,) and is_integer:
        table = np.broadcast_to(table, (H, S))
    elif table.shape == (S, A) and not is_integer:
        table = np.broadcast_to(table, (H, S, A))
    if table.shape == (H, S) and is_integer:
        is_action = (table >= 0) & (table < A)
        require_entries(is_action, "policy", table, f"an action is 0 to {A - 1}", at="[h={}, s={}]")
        return table.astype(np.int32)
    if table.shape == (H, S, A):
        table = table.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = table.sum(-1)
        is_distribution = (table >= 0).all(-1) & (np.abs(sums - 1) <= 1e-8)
        meaning = "probabilities must be >= 0 and sum to 1"
        require_entries(is_distribution, "policy", table, meaning, at="[h={}, s={}]")
        return np.asarray(table / table.sum(-1, keepdims=True))
    raise ShapeError(
        f"policy has shape {table.shape} and type {table.dtype}; it must be integers [{H}, {S}] or "
        f"probabilities [{H}, {S}, {A}], or one step of these for all"
    )


def action_aliases(allowed: Any, S: int, A: int) -> Int[np.ndarray, "S A"] | None:
    """The action that is taken for each, from a table [S, A] or a function (s, a) -> bool; None where all are
    allowed.
    """
    if allowed is None:
        return None
    table = _table_of_function(allowed, S, A) if callable(allowed) else np.asarray(allowed)
    is_table = table.shape == (S, A) and (table.dtype == bool or np.isin(table, (0, 1)).all())
    meaning = f"[S, A] = {(S, A)}, True where an action is allowed, or a function (s, a) -> True or False"
    require_array(is_table, "actions_allowed", table, meaning)
    is_allowed = table.astype(bool)
    states = np.flatnonzero(~is_allowed.any(axis=1))
    if states.size:
        raise OptionError(f"actions_allowed forbids every action of state {states[0]}; leave it one at least")
    if is_allowed.all():
        return None
    acts: np.ndarray = np.where(is_allowed, np.arange(A), is_allowed.argmax(axis=1)[:, None])
    return acts.astype(np.int32)


def _table_of_function(allowed: Any, S: int, A: int) -> np.ndarray:
    table = np.empty((S, A), bool)
    for s, a in np.ndindex(S, A):
        try:
            result = allowed(s, a)
        except Exception as error:  # of the caller's function
            raise OptionError(
                f"actions_allowed(s={s}, a={a}) fails: {type(error).__name__}: {error}; it takes s and a"
            ) from error
        require(
            isinstance(result, bool | np.bool_), f"actions_allowed(s={s}, a={a})", result, "True or False"
        )
        table[s, a] = result
    return table


def redirect_forbidden(acts: Any, x: np.ndarray, axis: int = 0) -> np.ndarray:
    """An array over pairs, with the states on this axis, in which forbidden actions have the entries of their
    aliases.
    """
    if acts is None:
        return x
    pairs: tuple[Any, ...] = np.arange(len(acts))[:, None], np.asarray(acts)
    result: np.ndarray = x[(slice(None),) * axis + pairs]
    return result


def is_allowed(space: Space) -> Bool[np.ndarray, "S A"]:
    """Which actions are allowed."""
    S, A = space.sizes[1:]
    return np.ones((S, A), bool) if space.acts is None else np.asarray(space.acts) == np.arange(A)


def named_allowed(space: Space, policy: Int[np.ndarray, "H S"]) -> Int[np.ndarray, "H S"]:
    """A policy of actions by their allowed names."""
    if space.acts is None:
        return policy
    result: np.ndarray = np.asarray(space.acts)[np.arange(policy.shape[1]), policy]
    return result.astype(policy.dtype)


def check_allowed(space: Space, policy: np.ndarray) -> None:
    """Refuse a policy, [H, S] or [H, S, A], that takes a forbidden action."""
    if space.acts is None:
        return
    A = space.num_actions
    takes = np.arange(A) == policy[..., None] if policy.ndim == 2 else policy > 0
    bad = np.argwhere(takes & ~is_allowed(space))
    if bad.size:
        h, s, a = bad[0]
        choice = ", ".join(map(str, np.flatnonzero(is_allowed(space)[s])))
        raise ShapeError(
            f"policy[h={h}, s={s}] takes action {a}, which state {s} does not allow; it allows {choice}"
        )
