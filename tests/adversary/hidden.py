"""Exact values of systems whose states a problem shows only in part, in plain NumPy.

A hidden system has states x that the problem shows as `shown[x]`: a cell that hides a position, a start that is drawn
before the first step, the end of an episode. Policies and rewards are of shown states; the best policy is that of the
hidden ones, which is at least as good.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np


@dataclass(frozen=True)
class Hidden:
    """P [X, A, X], the shown state of each x, the distribution of the first one, and the allowed actions [S, A]."""

    P: np.ndarray
    shown: np.ndarray
    start: np.ndarray
    allowed: np.ndarray

    @classmethod
    def of(cls, P, start, allowed=None):
        """A system that shows all of its states."""
        S, A, _ = P.shape
        first = np.eye(S)[start] if np.ndim(start) == 0 else np.asarray(start, float)
        return cls(P, np.arange(S), first, np.ones((S, A), bool) if allowed is None else allowed)

    def simulate(self, rng, episodes, H):
        """Episodes of random actions: shown states [K, H+1] and actions [K, H]."""
        states, actions = np.zeros((episodes, H + 1), int), np.zeros((episodes, H), int)
        for k in range(episodes):
            x = rng.choice(len(self.start), p=self.start)
            states[k, 0] = self.shown[x]
            for h in range(H):
                actions[k, h] = a = rng.choice(np.flatnonzero(self.allowed[self.shown[x]]))
                x = rng.choice(len(self.start), p=self.P[x, a])
                states[k, h + 1] = self.shown[x]
        return states, actions


@dataclass(frozen=True)
class Pay:
    """r [H, S, A] of shown states, t [S, A, S] for transitions, f [S] for the last state, and the discount."""

    r: np.ndarray
    t: np.ndarray | None = None
    f: np.ndarray | None = None
    gamma: float = 1.0


def _backward(system, pay, choose):
    """Values at the start; choose: (h, Q [X, A]) -> V [X]."""
    H, shown = len(pay.r), system.shown
    V = np.zeros(len(shown)) if pay.f is None else pay.f[shown]
    for h in reversed(range(H)):
        r = pay.r[h][shown]
        if pay.t is not None:
            r = r + np.einsum("xay,xay->xa", system.P, pay.t[shown][:, :, shown])
        V = choose(h, r + pay.gamma * system.P @ V)
    return float(system.start @ V)


def value(system, pay, policy):
    """Of a policy of shown states, [H, S] or [H, S, A]."""
    A = system.P.shape[1]
    table = np.eye(A)[policy] if np.ndim(policy) == 2 else policy
    return _backward(system, pay, lambda h, Q: (table[h][system.shown] * Q).sum(-1))


def best(system, pay):
    """Of the best policy, which may see everything."""
    allowed = system.allowed[system.shown]
    return _backward(system, pay, lambda h, Q: np.where(allowed, Q, -np.inf).max(-1))


def remembering(system, states):
    """The system with a copy of all states for the time after a visit of one of the shown `states`, X + x.

    Its shown states are S + s there, where a policy that remembers has rows of its own.
    """
    X, A, _ = system.P.shape
    S = len(system.allowed)
    P = np.zeros((2 * X, A, 2 * X))
    is_hit = np.isin(system.shown, states)
    P[X:, :, X:] = system.P
    P[:X, :, :X] = np.where(is_hit[:, None, None], 0.0, system.P)
    P[:X, :, X:] = np.where(is_hit[:, None, None], system.P, 0.0)
    shown = np.concatenate([system.shown, S + system.shown])
    start, allowed = np.concatenate([system.start, np.zeros(X)]), np.tile(system.allowed, (2, 1))
    return Hidden(P, shown, start, allowed)


def first_visit(S, A, states, steps):
    """The reward of `remembering` for a visit within so many transitions."""
    table = np.zeros((steps + 1, 2 * S, A))
    table[:, :S][:, states] = 1.0
    return table


def until(system, left, right, policy=None, *, steps, is_max=True):
    """P(left U<=steps right) of sets of shown states, under a policy [steps, S], or its largest or smallest value."""
    is_left, is_right = (np.isin(system.shown, states) for states in (left, right))
    every, allowed = np.arange(len(system.shown)), system.allowed[system.shown]
    V = is_right.astype(float)
    for h in reversed(range(steps)):
        Q = system.P @ V
        if policy is not None:
            after = Q[every, policy[h][system.shown]]
        else:
            after = np.where(allowed, Q, -1.0).max(-1) if is_max else np.where(allowed, Q, 2.0).min(-1)
        V = np.where(is_right, 1.0, np.where(is_left, after, 0.0))
    return float(system.start @ V)


def distribution(system, r, policy):
    """The totals of an episode and their probabilities, for a reward [H, S, A] of whole numbers."""
    A = system.P.shape[1]
    table = np.eye(A)[policy] if np.ndim(policy) == 2 else policy
    now = {(x, 0): p for x, p in enumerate(system.start) if p > 0}
    for h in range(len(r)):
        after = {}
        for ((x, v), p), a in product(now.items(), range(A)):
            s = system.shown[x]
            for y in np.flatnonzero(system.P[x, a] * table[h, s, a]):
                key = y, v + int(r[h, s, a])
                after[key] = after.get(key, 0.0) + p * table[h, s, a] * system.P[x, a, y]
        now = after
    totals = {}
    for (_, v), p in now.items():
        totals[v] = totals.get(v, 0.0) + p
    values = np.array(sorted(totals))
    return values, np.array([totals[v] for v in values])
