"""Exact values of policies in plain NumPy, from dense kernels [N, S, A, S]: shares no code with planning or bounds."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.mdp.rewards import Reward
from horizonfree.problems.problem import Problem

Kernels = Float[np.ndarray, "N S A S"]


class Task(NamedTuple):
    """Rewards, start, horizon and discount of a planning problem, in the units of the caller's reward.

    sum_{h=1}^H discount^(h-1) [reward_h(s_h, a_h) + transition(s_h, a_h, s_{h+1})] + discount^H final(s_{H+1}) + offset
    """

    reward: Float[np.ndarray, "H S A"]
    transition: Float[np.ndarray, "S A S"]
    final: Float[np.ndarray, " S"]
    discount: float
    start: Float[np.ndarray, " S"]
    allowed: Bool[np.ndarray, "S A"]
    offset: float
    size: float  # of the largest total, for tolerances


def task_of(
    problem: Problem,
    reward: Any,
    *,
    start: Any = None,
    horizon: int | None = None,
    discount: float | None = None,
    final: Any = None,
    transition: Any = None,
    scale: str = "total",
) -> Task:
    """The task of `run.plan(reward, ...)` with these options."""
    S, A, H = problem.num_states, problem.num_actions, horizon or problem.horizon
    offset = 0.0
    if isinstance(reward, Reward):
        reward, offset = np.asarray(reward.table) * reward.factor, reward.offset
    if callable(reward):
        reward = np.array([[[reward(h, s, a) for a in range(A)] for s in range(S)] for h in range(H)], float)
    table = np.asarray(reward, float)
    table = np.broadcast_to(table[:, None] if table.ndim == 1 else table, (H, S, A))
    if callable(transition):
        transition = [[[transition(s, a, t) for t in range(S)] for a in range(A)] for s in range(S)]
    payments = np.zeros((S, A, S)) if transition is None else np.asarray(transition, float)
    last = np.zeros(S) if final is None else np.asarray(final, float)
    first = problem.start if start is None else start
    first = np.eye(S)[int(first)] if np.ndim(first) == 0 else np.asarray(first, float)
    size = max(1.0, np.abs(table).max(axis=(1, 2)).sum() + H * np.abs(payments).max() + np.abs(last).max())
    gamma = 1.0 if discount is None else discount
    return Task(table, payments, last, gamma, first, np.asarray(problem.actions_allowed), offset, size)


def action_values(kernels: Kernels, task: Task, h: int, next_values: Float[np.ndarray, "N S"]) -> np.ndarray:
    """Q_h of each kernel, [N, S, A], from the values of the next step."""
    of_next = task.transition + task.discount * next_values[:, None, None, :]
    return np.asarray(task.reward[h] + (kernels * of_next).sum(-1))


def _final_values(kernels: Kernels, task: Task) -> Float[np.ndarray, "N S"]:
    return np.broadcast_to(task.final, (len(kernels), len(task.final)))


def optimal_values(kernels: Kernels, task: Task) -> Float[np.ndarray, " N"]:
    """The largest expected total of any policy of allowed actions, for each kernel."""
    V = _final_values(kernels, task)
    for h in range(len(task.reward) - 1, -1, -1):
        V = np.where(task.allowed, action_values(kernels, task, h, V), -np.inf).max(-1)
    return np.asarray(V @ task.start + task.offset)


def policy_values(kernels: Kernels, task: Task, policy: np.ndarray) -> Float[np.ndarray, " N"]:
    """The expected total of one policy, actions [H, S] or probabilities [H, S, A], for each kernel."""
    policy = np.asarray(policy)
    rule = np.eye(kernels.shape[2])[policy] if policy.ndim == 2 else policy
    V = _final_values(kernels, task)
    for h in range(len(task.reward) - 1, -1, -1):
        V = (rule[h] * action_values(kernels, task, h, V)).sum(-1)
    return np.asarray(V @ task.start + task.offset)


def optimal_policy(kernel: Float[np.ndarray, "S A S"], task: Task) -> np.ndarray:
    """A policy [H, S] of allowed actions with the largest expected total."""
    V, policy = _final_values(kernel[None], task), np.zeros(task.reward.shape[:2], int)
    for h in range(len(policy) - 1, -1, -1):
        Q = np.where(task.allowed, action_values(kernel[None], task, h, V), -np.inf)
        policy[h], V = Q[0].argmax(-1), Q.max(-1)
    return policy
