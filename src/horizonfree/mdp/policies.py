"""Policies as people give them: actions [H, S] or their probabilities [H, S, A], or one step of these for all."""

from typing import Any

import numpy as np

from horizonfree._validation import check_real
from horizonfree.errors import ShapeError


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
        bad = np.argwhere((table < 0) | (table >= A))
        if bad.size:
            h, s = bad[0]
            raise ShapeError(f"policy[h={h}, s={s}] is {table[h, s]}; an action is 0 to {A - 1}")
        return table.astype(np.int32)
    if table.shape == (H, S, A):
        table = table.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = table.sum(-1)
        bad = np.argwhere(~((table >= 0).all(-1) & (np.abs(sums - 1) <= 1e-8)))
        if bad.size:
            h, s = bad[0]
            raise ShapeError(
                f"policy[h={h}, s={s}] is {table[h, s]}; probabilities must be >= 0 and sum to 1"
            )
        return np.asarray(table / table.sum(-1, keepdims=True))
    raise ShapeError(
        f"policy has shape {table.shape} and type {table.dtype}; it must be integers [{H}, {S}] or "
        f"probabilities [{H}, {S}, {A}], or one step of these for all"
    )
