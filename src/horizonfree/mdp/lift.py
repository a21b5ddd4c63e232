"""Payments for transitions, t(s, a, s'), as payments for states.

Where t(s,a,s') = g(s,a) + f(s') on all transitions that are possible, as of what is sold, stock + order - what is left,
f is paid for a state at the step after (`separated`). Any other t is remembered by the states: a lifted state is a
state and a payment with which it can be entered, and the payment is made at the step after. Transitions to lifted
states have the probabilities of those that they lift, whatever the parameter:

    P((s', t(s,a,s')) | (s, any), a) = P(s'|s,a)

so the lifted system is one of the same class, with the rows that it has already. Whatever was proved of a row stays
true. What was proved of all plans together does not: two actions with the same law are the same choice in the system,
and different choices in the lifted one if they are paid differently.
"""

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_finite_rewards, check_floats
from horizonfree.errors import OptionError, RewardError, ShapeError
from horizonfree.mdp.policies import redirect_forbidden
from horizonfree.mdp.space import Kernel, Space

RELATIVE_TOLERANCE = 1e-12  # of the range of payments: what g + f may be off by, which is rounding
MAX_ENTRIES = 2**22  # entries of lists of successors of lifted states


@dataclass(frozen=True, eq=False)
class Lift(abc.ABC):
    """Lifted states: the space of them, the state of each, and the first one of every state."""

    space: Space
    origin: Int[np.ndarray, " X"]
    first: Int[np.ndarray, " S"]

    @abc.abstractmethod
    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""

    def copies(self) -> Int[np.ndarray, "X A"] | None:
        """Which copy of all states follows each pair, where lifted states are such copies, one after the other."""
        return None

    def of(self, x: Any) -> Any:
        """An array over states as one over lifted states."""
        return np.asarray(x)[self.origin]

    def kernel(self, kernel: Kernel) -> Kernel:
        """The kernel of the lifted states."""
        return Kernel(self.lists(kernel.succ), self.of(kernel.prob), False)


@dataclass(frozen=True, eq=False)
class PaymentLift(Lift):
    """States with what they can be entered with, `paid`; `land` [S, A, S]: which of them a transition leads to."""

    paid: Float[np.ndarray, " X"]
    land: Int[np.ndarray, "S A S"]

    def lists(self, succ: Any) -> Any:
        """Lists of successors [S, A, n] as lists of lifted ones [X, A, n]."""
        return _at_successors(self.land, np.asarray(succ))[self.origin]


def payments(space: Space, transition: Any) -> Float[np.ndarray, "S A S"]:
    """t as a finite table, from an array [S, A, S] or a function (s, a, s') of possible transitions."""
    _, S, A = space.sizes
    if callable(transition):
        table = _table_of_function(space, transition)
    else:
        table = check_floats(transition, "transition")
        if table.shape != (S, A, S):
            raise ShapeError(
                f"transition has shape {table.shape}; it must be [S, A, S] = {(S, A, S)}, what a step from s by a to "
                "s' is paid, or a function (s, a, s') -> number"
            )
    table = redirect_forbidden(space.acts, table)
    check_finite_rewards(_at_successors(table, np.asarray(space.succ)))
    return table


def _table_of_function(space: Space, function: Any) -> Float[np.ndarray, "S A S"]:
    _, S, A = space.sizes
    table = np.zeros((S, A, S))
    for s, a, j in zip(*np.nonzero(np.asarray(space.support))):
        where = int(s), int(a), int(space.succ[s, a, j])
        if space.acts is not None and space.acts[s, a] != a:
            continue
        try:
            table[where] = function(*where)
        except Exception as error:  # of the caller's function
            raise RewardError(
                f"transition gives no number at (s, a, s') = {where}: {type(error).__name__}: {error}"
            ) from error
    return table


def expected(kernel: Kernel, t: Float[np.ndarray, "S A S"]) -> Float[np.ndarray, "S A"]:
    """sum_s' P(s'|s,a) t(s,a,s')."""
    return np.asarray((np.asarray(kernel.prob) * _at_successors(t, np.asarray(kernel.succ))).sum(-1))


def separated(
    space: Space, t: Float[np.ndarray, "S A S"]
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, " S"]] | None:
    """g and f with t = g + f wherever a transition is possible; None where there are none.

    From one pair of each connected part, g = 0, to its successors, from these to the pairs that lead there, and so on.
    """
    import scipy.sparse as sp  # loads slowly
    from scipy.sparse.csgraph import connected_components

    _, S, A = space.sizes
    s, a, j = np.nonzero(np.asarray(space.support))
    pair, to = s * A + a, np.asarray(space.succ)[s, a, j]
    value, size = t[s, a, to], S * A + S
    joined = sp.coo_array((np.ones(len(pair)), (pair, S * A + to)), (size, size))
    part = connected_components(joined, directed=False)[1]
    g, f = np.full(S * A, np.nan), np.full(S, np.nan)
    g[np.unique(part[: S * A], return_index=True)[1]] = 0.0
    while np.isnan(g).any():
        known = ~np.isnan(g[pair])
        f[to[known]] = (value - g[pair])[known]
        known = ~np.isnan(f[to]) & np.isnan(g[pair])
        g[pair[known]] = (value - f[to])[known]
    f[to] = value - g[pair]
    if np.abs(g[pair] + f[to] - value).max() > RELATIVE_TOLERANCE * np.ptp(value):
        return None
    return g.reshape(S, A), np.nan_to_num(f)


def separated_everywhere(
    t: Float[np.ndarray, "S A S"],
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, " S"]] | None:
    """g and f with t(s,a,s') = g(s,a) + f(s') for all s, a and s'; None where there are none."""
    g, f = t[:, :, 0], t[0, 0] - t[0, 0, 0]
    is_exact = np.abs(g[..., None] + f - t).max() <= RELATIVE_TOLERANCE * np.ptp(t)
    return (g, f) if is_exact else None


def lifted(space: Space, t: Float[np.ndarray, "S A S"]) -> PaymentLift:
    """States with what they can be entered with; those that nothing leads to once, with nothing."""
    _, S, A = space.sizes
    s, a, j = np.nonzero(np.asarray(space.support))
    to = np.asarray(space.succ)[s, a, j]
    alone = np.setdiff1d(np.arange(S), to)
    entries = np.stack([np.r_[to, alone], np.r_[t[s, a, to], np.zeros(len(alone))]], axis=1)
    states, which = np.unique(entries, axis=0, return_inverse=True)
    if len(states) * A * space.succ.shape[2] > MAX_ENTRIES:
        raise OptionError(
            f"transition pays in {len(states):,} different ways for entering {S:,} states, too many to tell apart; "
            "round it, or write it as g(s, a) + f(s'), which may be of any size"
        )
    origin = states[:, 0].astype(np.int64)
    first = np.searchsorted(origin, np.arange(S))
    land = np.broadcast_to(first, (S, A, S)).copy()
    land[s, a, to] = which.reshape(-1)[: len(to)]
    initial = np.zeros(len(states))
    initial[first] = space.starts() if space.initial is None else np.asarray(space.initial)
    return PaymentLift(
        Space(
            succ=_at_successors(land, np.asarray(space.succ))[origin].astype(np.int32),
            support=np.asarray(space.support)[origin],
            reachable=np.asarray(space.reachable)[origin],
            initial=initial,
            horizon=space.horizon,
            start=None,
            is_dense=False,
            acts=None if space.acts is None else np.asarray(space.acts)[origin],
        ),
        origin,
        first,
        states[:, 1],
        land,
    )


def _at_successors(table: np.ndarray, succ: np.ndarray) -> np.ndarray:
    """The entries of a table [S, A, S] at successor lists [S, A, n]."""
    return np.take_along_axis(table, succ, axis=-1)
