"""Numbers that no exploration leaves behind: refused where a state is read from a file.

Of the evidence: the number of its episodes, counts that are not negative, numbers that are finite. Of an explorer's own
state, by the names in it: a `policy` names actions that exist, or has probabilities; a `step` is one of the policy
beside it; an `episode` is one of those that were explored. Whatever else is in it is finite and not negative in whole
numbers, unless a state before the first episode is not so either.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from horizonfree.explorers.loop import Progress
from horizonfree.models.plain import arrays_of

ROUNDING = 1e-6  # by which probabilities may miss a sum of 1


def check_progress(
    progress: Progress, episodes: int, num_actions: int, fresh: Callable[[], Any], *, axes: int = 0
) -> None:
    """Refuse, with a ValueError, what so many episodes do not leave. fresh: makes a Progress before the first one.

    axes: leading axes of every array, where there are several members.
    """
    for name, x in {"episode": progress.episode, "evidence.episodes": progress.evidence.episodes}.items():
        _refuse(name, x, x != episodes, f"there are {episodes} episodes")
    for name, x in arrays_of(progress.evidence, "evidence.").items():
        is_unkept = (x == np.inf) if x.ndim == axes else False  # a loss that was not kept is infinite
        words = "a count is not negative" if x.dtype.kind in "iu" else "evidence is finite"
        _refuse(name, x, _is_odd(x) & ~np.asarray(is_unkept), words)
    arrays = arrays_of(progress.state, "state.")
    for name, x in arrays.items():
        kind = name.split(".")[-1]
        if kind == "policy":
            _check_policy(name, x, num_actions)
        elif kind == "step":
            steps = arrays[name.removesuffix("step") + "policy"].shape[axes]
            _refuse(name, x, (x < 0) | (x >= steps), f"steps are 0 to {steps - 1}")
        elif kind == "episode":
            _refuse(name, x, (x < 0) | (x > episodes), f"there are {episodes} episodes")
        elif _is_odd(x).any() and not _is_odd(arrays_of(fresh().state, "state.")[name]).any():
            _refuse(name, x, _is_odd(x), "it is finite, and not negative where it is a whole number")


def _check_policy(name: str, x: np.ndarray, num_actions: int) -> None:
    """[..., H, S] actions, or [..., H, S, A] probabilities."""
    if x.dtype.kind in "iu":
        _refuse(name, x, (x < 0) | (x >= num_actions), f"actions are 0 to {num_actions - 1}")
        return
    _refuse(name, x, ~((x >= 0) & (x <= 1 + ROUNDING)), "it is a probability")
    total = x.sum(-1)
    _refuse(f"the sum of {name}", total, np.abs(total - 1) > ROUNDING, "probabilities sum to 1")


def _is_odd(x: np.ndarray) -> np.ndarray:
    """Where whole numbers are negative, and others not finite."""
    return np.asarray(x < 0 if x.dtype.kind in "iu" else ~np.isfinite(x))


def _refuse(name: str, x: Any, is_bad: Any, words: str) -> None:
    """Name the first that is bad."""
    if np.any(is_bad):
        where = np.argwhere(is_bad)[0].tolist()
        raise ValueError(f"{name}{where or ''} is {np.asarray(x)[tuple(where)]}; {words}")
