"""Backward induction in C (native/planning.c), where there was a compiler; induction.py has its definition in NumPy."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree.native import library

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from horizonfree.mdp.space import Kernel

LANES, TILE = 16, 16  # rewards and states that planning.c takes together
TRANSITIONS_PER_THREAD = 2**19  # transitions of one step that are worth a thread


class _Problem(ctypes.Structure):
    """`Problem` of planning.c."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in "S A n reward_rows V_rows policy_rows".split()],
        ("slack", ctypes.c_double),
        *[(name, ctypes.c_void_p) for name in "succ prob reward V policy".split()],
    ]


def solve(
    kernel: Kernel,
    reward: Float[np.ndarray, "*R H|1 S A"],
    horizon: int,
    slack: float,
    all_values: bool,
    all_actions: bool,
) -> tuple[Int[np.ndarray, "*R H|1 S"], Float[np.ndarray, "*R H1|1 S"], bool] | None:
    """`induction.solve` in C; None without the native library."""
    functions = _functions()
    if functions is None:
        return None
    succ = None if kernel.is_dense else np.ascontiguousarray(kernel.succ, np.int32)
    prob = np.ascontiguousarray(kernel.prob, np.float64)
    reward = np.ascontiguousarray(reward, np.float64)
    (S, A, n), batch = prob.shape, reward.shape[:-3]
    policy = np.empty((*batch, horizon if all_actions else 1, S), np.int32)
    V = np.empty((*batch, horizon + 1 if all_values else 2, S))
    V[..., horizon % V.shape[-2], :] = 0.0

    def problem(index: Any) -> _Problem:
        r, v, pi = reward[index], V[index], policy[index]
        sizes = S, A, n, r.shape[-3], v.shape[-2], pi.shape[-2]
        arrays = (None if x is None else x.ctypes.data for x in (succ, prob, r, v, pi))
        return _Problem(*sizes, slack, *arrays)

    if not batch:
        is_finite = _solve_one(functions, problem(...), horizon)
    elif len(reward) < LANES:
        is_finite = all([_solve_one(functions, problem(i), horizon) for i in range(len(reward))])
    else:
        # the last block may repeat some rewards of the one before
        blocks = [min(i, len(reward) - LANES) for i in range(0, len(reward), LANES)]

        def block(first: int) -> bool:
            values, q = _aligned_empty(2 * S * LANES), _aligned_empty(TILE * A * LANES)
            here = problem(slice(first, first + LANES))
            return not functions.horizonfree_plan_block(here, horizon, values.ctypes.data, q.ctypes.data)

        is_finite = all(_in_threads(block, blocks, min(threads(), len(blocks))))
    return policy, V if all_values else V[..., :1, :], is_finite


def threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _solve_one(functions: Any, problem: _Problem, horizon: int) -> bool:
    S, A = problem.S, problem.A
    if problem.succ is None:
        scratch, rows = np.empty(3 * S * A + S), np.empty(S * A + 1, np.int64)
        return not functions.horizonfree_plan_dense(problem, horizon, scratch.ctypes.data, rows.ctypes.data)
    worth = S * A * problem.n // TRANSITIONS_PER_THREAD
    workers = min(threads(), worth) if worth > 1 else 1
    scratch = np.empty((workers, TILE * A + 16))  # no two rows in one cache line
    if workers == 1:
        return not functions.horizonfree_plan_sparse(problem, 0, horizon, 0, S, scratch.ctypes.data)
    ends = np.linspace(0, S, workers + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        is_finite = True
        for h in reversed(range(horizon)):
            step = lambda i, h=h: functions.horizonfree_plan_sparse(  # noqa: E731
                problem, h, h + 1, ends[i], ends[i + 1], scratch[i].ctypes.data
            )
            is_finite &= not any(list(pool.map(step, range(workers))))
    return is_finite


def _in_threads(function: Any, arguments: list[Any], workers: int) -> list[Any]:
    if workers == 1:
        return [function(x) for x in arguments]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, arguments))


def _aligned_empty(size: int) -> np.ndarray:
    """Numbers that begin with a cache line: vectors that lie in two take twice as long to load."""
    buffer = np.empty(size + 8)
    return buffer[(-buffer.ctypes.data // 8) % 8 :][:size]


@cache
def _functions() -> Any:
    """The compiled functions; None without a compiler."""
    loaded = library.load()
    if loaded is None:
        return None
    result = loaded[0]
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    arguments: dict[str, list[Any]] = {
        "horizonfree_plan_sparse": [integer] * 4 + [pointer],
        "horizonfree_plan_dense": [integer, pointer, pointer],
        "horizonfree_plan_block": [integer] + [pointer] * 2,
    }
    for name, types in arguments.items():
        function = getattr(result, name)
        function.argtypes, function.restype = [ctypes.POINTER(_Problem), *types], integer
    return result
