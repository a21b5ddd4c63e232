"""The table P of a Gymnasium environment: P[s][a] lists outcomes (probability, next state, reward, terminated).

Next states may repeat: they add up. Rewards are dropped. A state that is always entered with terminated = True is
absorbing; one that is entered with and without it gets an absorbing copy (problems/endings.py).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Bool, Float, Int

from horizonfree._validation import check_floats, check_shape
from horizonfree.errors import KernelError, OptionError, ShapeError
from horizonfree.mdp.space import start_distribution
from horizonfree.problems.endings import Entries, ended_states, next_states, num_copies


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
            f"{kind} has no table P; build the model class yourself (Mixture.from_kernels) and explore the environment "
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
    for s, a, _, p, to, _, raw in rows:
        if not (np.isfinite(p) and p >= 0):
            raise KernelError(f"P[{s}][{a}] has an outcome of probability {p}; it must be a number >= 0")
        if to != raw or not 0 <= to < S:
            raise ShapeError(f"P[{s}][{a}] leads to {raw!r}; states are 0 to {S - 1}")
    if not rows:
        raise ShapeError(f"P of {kind} has no outcomes")
    s_, a_, j_, p_, next_, ends_ = (np.array(column) for column in list(zip(*rows))[:6])
    return Table(s_, a_, j_, p_, next_, ends_, S, A)


def start_of(env: Any, start: Any, S: int) -> Float[np.ndarray, " S"]:
    """The start distribution of an environment, or the state or distribution given."""
    if start is not None:
        return start_distribution(start, S)
    if not hasattr(env, "initial_state_distrib"):
        raise OptionError(f"{type(env).__name__} does not declare its start; pass start=")
    rho = check_floats(env.initial_state_distrib, "initial_state_distrib")
    check_shape(rho, "initial_state_distrib", (S,), "[S]")
    if not ((rho >= 0).all() and abs(rho.sum() - 1) <= 1e-8):
        raise KernelError("initial_state_distrib must be >= 0 and sum to 1; pass start= to choose a state")
    return rho


def ended_in(tables: list[Table], starts: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " S"]:
    """The array `ended` (problems/endings.py) for all tables."""
    columns = ("s", "s_next", "ends")
    return ended_states(
        Entries(*(np.concatenate([getattr(x, name)[x.p > 0] for x in tables]) for name in columns)), starts
    )


def kernel_from(table: Table, value: np.ndarray, ended: Int[np.ndarray, " S"]) -> "scipy.sparse.csr_array":
    """The kernel [S*A, S] with these probabilities of the outcomes; final states and copies are absorbing."""
    S, A = table.num_states, table.num_actions
    total = S + num_copies(ended)
    is_final = np.append(ended == np.arange(S), np.ones(total - S, bool))
    keep = (value > 0) & ~is_final[table.s]
    final = np.flatnonzero(np.repeat(is_final, A))
    row = np.concatenate([(table.s * A + table.a)[keep], final])
    column = np.concatenate([next_states(ended, table.s_next, table.ends)[keep], final // A])
    kernel = scipy.sparse.csr_array(
        (np.concatenate([value[keep], np.ones(len(final))]), (row, column)), (total * A, total)
    )
    kernel.sum_duplicates()
    return kernel
