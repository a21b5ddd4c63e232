"""The table P of a Gymnasium environment: P[s][a] lists outcomes (probability, next state, reward, terminated).

Next states may repeat: they add up. Rewards are dropped. A state entered with terminated = True becomes absorbing.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy  # loads `scipy.sparse`, which takes long, when it is asked for
from jaxtyping import Bool, Float, Int

from horizonfree._inputs import numbers
from horizonfree.errors import KernelError, ModelError, OptionError, ShapeError
from horizonfree.mdp.space import start_distribution


class Table(NamedTuple):
    """The outcomes of P, one entry each: outcome number j of (s, a) goes to s_next with probability p."""

    s: Int[np.ndarray, " N"]
    a: Int[np.ndarray, " N"]
    j: Int[np.ndarray, " N"]
    p: Float[np.ndarray, " N"]
    s_next: Int[np.ndarray, " N"]
    ends: Bool[np.ndarray, " N"]
    num_states: int
    num_actions: int


def read_table(env: Any) -> Table:
    """The outcomes of an environment's P."""
    kind = type(env).__name__
    if not hasattr(env, "P"):
        raise ShapeError(
            f"{kind} has no table P; build the known class yourself (Mixture.from_kernels) and explore the environment "
            "with known=problem"
        )
    P = env.P
    try:
        S, A = len(P), len(P[0])
        rows = [
            (s, a, j, float(p), int(s_next), bool(ends), s_next)
            for s in range(S)
            for a in range(A)
            for j, (p, s_next, _, ends) in enumerate(P[s][a])
        ]
        sizes = [len(P[s]) for s in range(S)]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ShapeError(
            f"P of {kind} is not P[s][a] = [(probability, next state, reward, terminated), ...] with states and "
            f"actions numbered from 0 ({error!r})"
        ) from None
    for s, size in enumerate(sizes):
        if size != A:
            raise ShapeError(
                f"P[{s}] has {size} actions but P[0] has {A}; every state needs the same actions"
            )
    for name, size in {"observation_space": S, "action_space": A}.items():
        n = getattr(getattr(env, name, None), "n", size)
        if n != size:
            raise ShapeError(f"the {name} of {kind} has {n} elements but P has {size}")
    for s, a, _, p, to, _, given in rows:
        if not (np.isfinite(p) and p >= 0):
            raise KernelError(f"P[{s}][{a}] has an outcome of probability {p}; it must be a number >= 0")
        if to != given or not 0 <= to < S:
            raise ShapeError(f"P[{s}][{a}] leads to {given!r}; states are 0 to {S - 1}")
    if not rows:
        raise ShapeError(f"P of {kind} has no outcomes")
    s_, a_, j_, p_, next_, ends_ = (np.array(column) for column in list(zip(*rows))[:6])
    return Table(s_, a_, j_, p_, next_, ends_, S, A)


def start_of(env: Any, start: Any, S: int) -> Float[np.ndarray, " S"]:
    """Where an environment starts, or the state or distribution that the caller chose."""
    if start is not None:
        return start_distribution(start, S)
    if not hasattr(env, "initial_state_distrib"):
        raise OptionError(f"{type(env).__name__} does not say where it starts; pass start=")
    rho = numbers(env.initial_state_distrib, "initial_state_distrib")
    if rho.shape != (S,):
        raise ShapeError(
            f"initial_state_distrib has shape {rho.shape}; it must be ({S},), one entry per state"
        )
    if not ((rho >= 0).all() and abs(rho.sum() - 1) <= 1e-8):
        raise KernelError("initial_state_distrib must be >= 0 and sum to 1; pass start= to choose a state")
    return rho


def absorbing(table: Table, rho: Float[np.ndarray, " S"]) -> Bool[np.ndarray, " S"]:
    """States entered with terminated = True; refuses one in which an episode may also act, and leave it."""
    S = table.num_states
    happens, ending = table.p > 0, (table.p > 0) & table.ends
    acting, size = rho > 0, -1  # states in which an episode has not ended
    while acting.sum() > size:
        size = int(acting.sum())
        acting[table.s_next[happens & ~ending & acting[table.s]]] = True
    is_end, is_end_here, is_left = np.zeros((3, S), bool)
    is_end[table.s_next[ending]] = True
    is_end_here[table.s_next[ending & acting[table.s]]] = True
    is_left[table.s[happens & (table.s_next != table.s)]] = True
    both = np.flatnonzero(acting & is_end_here & is_left)
    if both.size:
        s = both[0]
        enters = np.flatnonzero(happens & ~ending & acting[table.s] & (table.s_next == s))
        goes_on = (
            f"not from (s={table.s[enters[0]]}, a={table.a[enters[0]]})"
            if enters.size
            else "others start there"
        )
        raise ModelError(
            f"state {s} ends an episode from some states but {goes_on}; give ending transitions a state of their own"
        )
    return is_end & ~(acting & ~is_end_here)


def kernel_from(table: Table, value: np.ndarray, is_end: Bool[np.ndarray, " S"]) -> "scipy.sparse.csr_array":
    """The kernel [S*A, S] that gives each outcome this probability; states that end an episode absorb."""
    S, A = table.num_states, table.num_actions
    keep = (value > 0) & ~is_end[table.s]
    end = np.flatnonzero(np.repeat(is_end, A))
    row = np.concatenate([(table.s * A + table.a)[keep], end])
    column = np.concatenate([table.s_next[keep], end // A])
    kernel = scipy.sparse.csr_array(
        (np.concatenate([value[keep], np.ones(len(end))]), (row, column)), (S * A, S)
    )
    kernel.sum_duplicates()
    return kernel
