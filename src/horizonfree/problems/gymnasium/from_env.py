"""A problem from a Gymnasium environment with a table P.

- FrozenLake, CliffWalking and Taxi move as intended or to either side. The j-th outcome of every row of the slippery
  version is the j-th base kernel (d = 3); the true weights are those of the environment.
- A list of environments on the same spaces is a mixture of their kernels (d = their number).
- Any other environment is tabular with known support: one coordinate per possible transition.

The table P of an environment lists outcomes (probability, next state, reward, terminated) in P[s][a]. Probabilities of
repeated next states are added. Rewards are dropped. A state that is always entered with terminated = True is
absorbing; one that is entered with and without it gets an absorbing copy (problems/endings.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Bool, Float, Int

from horizonfree._extras import needs_extra
from horizonfree._validation import check_floats, check_shape, short_repr, shorten
from horizonfree.errors import KernelError, ModelError, OptionError, ShapeError, UnknownNameError
from horizonfree.mdp.names import STATE_BEFORE_START
from horizonfree.mdp.names import start_of as start_of_layout
from horizonfree.mdp.space import TOLERANCE, start_distribution
from horizonfree.problems.classes import Mixture
from horizonfree.problems.endings import (
    ENDED,
    Entries,
    ended_states,
    layout_with_copies,
    next_states,
    num_copies,
)
from horizonfree.problems.problem import Problem

if TYPE_CHECKING:
    import gymnasium


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
            f"{kind} has no table P, from which a problem could simulate itself; explore the environment itself, "
            "hf.explore(env, ...) (at the shell horizonfree explore gymnasium:ID); with a model, known=problem"
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
    is_kept = (value > 0) & ~is_final[table.s]
    final = np.flatnonzero(np.repeat(is_final, A))
    row = np.concatenate([(table.s * A + table.a)[is_kept], final])
    column = np.concatenate([next_states(ended, table.s_next, table.ends)[is_kept], final // A])
    kernel = scipy.sparse.csr_array(
        (np.concatenate([value[is_kept], np.ones(len(final))]), (row, column)), (total * A, total)
    )
    kernel.sum_duplicates()
    return kernel


# Arguments of the slippery version of an environment.
SLIPPERY: dict[str, Callable[[Any], dict[str, Any]]] = {
    "FrozenLakeEnv": lambda env: {"desc": env.desc, "is_slippery": True},
    "CliffWalkingEnv": lambda env: {"is_slippery": True},
    "TaxiEnv": lambda env: {"is_rainy": True},
}
# The outcomes of its rows, in their order.
OUTCOMES = {
    "FrozenLakeEnv": ("off to the right", "as intended", "off to the left"),
    "CliffWalkingEnv": ("off to the left", "as intended", "off to the right"),
    "TaxiEnv": ("as intended", "off to the left", "off to the right"),
}
ACTIONS = {
    "FrozenLakeEnv": ["left", "down", "right", "up"],
    "CliffWalkingEnv": ["up", "right", "down", "left"],
    "TaxiEnv": ["south", "north", "east", "west", "pick up", "drop off"],
}


class Base(NamedTuple):
    """Base kernels, each [S*A, S], the start distribution, and the weights and names, if known.

    `ended`: the array of problems/endings.py, None where observations do not determine the states.
    """

    kernels: "list[scipy.sparse.csr_array]"
    rho: Float[np.ndarray, " S"]
    weights: Any
    names: list[str] | None = None
    ended: Int[np.ndarray, " S"] | None = None


def from_gymnasium(
    env: "str | gymnasium.Env[Any, Any] | Sequence[str | gymnasium.Env[Any, Any]]",
    horizon: int,
    *,
    start: Any = None,
    weights: Any = None,
    **make_kwargs: Any,
) -> Problem:
    """A problem from an environment, its id, or a list of either (the base models of a mixture).

    start: the state in which every episode starts (a cell on a map), or a distribution; by default the environment's
    own. Where the environments of a list have different starts, the start is unknown as well: a state is added,
    numbered last, in which every action leads to the first state, in the first of the `horizon` steps.
    weights: the truth of a list, optional. make_kwargs are for gymnasium.make.

    Taxi with a fickle passenger has one more bit of state, "the passenger has been driven a step": state s + 500,
    and each base kernel splits in two, destination kept and destination changed (d = 6). Observations do not contain
    that bit, so this problem can only simulate itself. Wrappers are ignored.

    >>> import horizonfree as hf
    >>> hf.from_gymnasium("FrozenLake-v1", horizon=60).model.dim
    3
    """
    envs: list[Any] = [env] if isinstance(env, str) or not isinstance(env, Sequence) else list(env)
    is_list = envs != [env]
    if weights is not None and not is_list:
        raise OptionError("weights= is for a list of environments; one environment has its own truth")
    if not envs:
        raise ShapeError("the list of environments is empty; give at least one")
    unwrapped = [_make(e, make_kwargs) for e in envs]
    S = getattr(getattr(unwrapped[0], "observation_space", None), "n", None)
    start = start if S is None else start_of_layout(layout_of(unwrapped[0], S), start, int(S))
    base = None if is_list else _slippery_base(unwrapped[0], start)
    is_tabular = base is None and not is_list
    base = base or _mixture_of(unwrapped, start, weights, _distinct_names(unwrapped) if is_list else None)
    layout = layout_of(unwrapped[0], base.kernels[0].shape[1])
    if base.ended is not None:
        layout[ENDED] = base.ended
        layout |= _names_of_copies(base)
    settings: dict[str, Any] = {
        "horizon": horizon,
        "start": base.rho,
        "name": _name(unwrapped),
        "layout": layout,
    }
    if is_tabular:
        P = base.kernels[0].toarray()
        P = P.reshape(P.shape[1], -1, P.shape[1])
        problem = Mixture.from_tabular(P, support=P > 0, **settings)
    else:
        kernels: Any = base.kernels if base.names is None else dict(zip(base.names, base.kernels))
        problem = Mixture.from_kernels(kernels, weights=base.weights, **settings)
    if not isinstance(env, str):
        return problem
    start_entry = {} if start is None else {"start": np.asarray(start).tolist()}
    parameters = {"horizon": horizon, **start_entry, **make_kwargs}
    if (
        _kind(unwrapped[0]) == "FrozenLakeEnv" and make_kwargs.get("map_name", "") is None
    ):  # a map drawn at random
        desc = ["".join(row) for row in unwrapped[0].desc.astype(str)]
        parameters = {**parameters, "desc": desc}
    return problem._replace(recipe={"name": f"gymnasium:{env}", "parameters": parameters})


def _make(env: Any, make_kwargs: dict[str, Any]) -> Any:
    """The bare environment."""
    with needs_extra("gymnasium", "environments of Gymnasium"):
        import gymnasium

    if isinstance(env, gymnasium.Env):
        if make_kwargs:
            raise OptionError(f"{sorted(make_kwargs)} are for an id; the environment is already built")
        return env.unwrapped
    return make_env(env, make_kwargs).unwrapped


def make_env(env_id: Any, make_kwargs: dict[str, Any]) -> "gymnasium.Env[Any, Any]":
    """`gymnasium.make`, with an error that names the id and the arguments."""
    with needs_extra("gymnasium", "environments of Gymnasium"):
        import gymnasium

    try:
        return gymnasium.make(env_id, **make_kwargs)
    except (gymnasium.error.Error, ImportError) as error:
        raise UnknownNameError(f"gymnasium cannot make {short_repr(env_id)}: {shorten(error)}") from error
    except Exception as error:  # of the environment's constructor
        raise OptionError(
            f"gymnasium cannot make {short_repr(env_id)} with {short_repr(make_kwargs)}: {shorten(error)}"
        ) from error


def _slippery_base(env: Any, start: Any) -> Base | None:
    """Base kernel j takes outcome j of every row of the slippery version, or the only outcome of a row.

    None for an environment of another kind, or with a table that is no mixture of these kernels.
    """
    if _kind(env) not in SLIPPERY:
        return None
    table, slippery = read_table(env), read_table(type(env)(**SLIPPERY[_kind(env)](env)))
    rho = start_of(env, start, table.num_states)
    ended = ended_in([slippery], rho > 0)
    row = slippery.s * slippery.num_actions + slippery.a
    is_single = np.bincount(row)[row] == 1
    num = int(slippery.j.max()) + 1
    kernels = [kernel_from(slippery, ((slippery.j == j) | is_single) * 1.0, ended) for j in range(num)]
    truth = kernel_from(table, table.p, ended)
    full = np.flatnonzero(table.j == num - 1)[:1]  # the first row with every outcome, if there is one
    mixed = [table.p[last - num + 1 : last + 1] for last in full]
    for weights in [*mixed, *np.eye(num)]:
        if abs(sum(w * K for w, K in zip(weights, kernels)) - truth).max() <= TOLERANCE:
            initial = np.append(rho, np.zeros(num_copies(ended)))
            base = Base(kernels, initial, weights, list(OUTCOMES[_kind(env)]), ended)
            is_fickle = getattr(env, "fickle_passenger", False)
            return _fickle(base, env.fickle_probability) if is_fickle else base
    return None


def _fickle(base: Base, probability: float) -> Base:
    """Taxi's passenger may change destination when driven for the first time; the draw at reset can wait till then.

    State s + 500 has had that moment. s = ((row * 5 + column) * 5 + passenger) * 4 + destination; passenger 4 rides.
    """
    S, A = 500, base.kernels[0].shape[0] // 500
    kernels = []
    for kernel in base.kernels:
        row, s_next = kernel.nonzero()
        s = row // A
        is_moment = (s // 4 % 5 == 4) & (s // 20 != s_next // 20)
        unchanged = np.where(is_moment, s_next + S, s_next)
        destinations = [(s_next - s_next % 4 + (s_next + turn) % 4)[is_moment] + S for turn in (1, 2, 3)]
        resolved = (row + S * A, s_next + S, kernel.data)
        unmoved = (row[~is_moment], s_next[~is_moment], kernel.data[~is_moment])
        changed_rows = [(row[is_moment], to, kernel.data[is_moment] / 3) for to in destinations]
        for parts in ([(row, unchanged, kernel.data), resolved], [unmoved, *changed_rows, resolved]):
            i, to, value = (np.concatenate(column) for column in zip(*parts))
            kernels.append(scipy.sparse.csr_array((value, (i, to)), (2 * S * A, 2 * S)))
    weights = np.outer(base.weights, [1 - probability, probability]).ravel()
    names = [f"{move}, destination {x}" for move in base.names or () for x in ("kept", "changed")]
    return Base(kernels, np.concatenate([base.rho, np.zeros(S)]), weights, names)


def _mixture_of(envs: list[Any], start: Any, weights: Any, names: list[str] | None) -> Base:
    """Environments on the same spaces as one mixture of their kernels."""
    if any(getattr(env, "fickle_passenger", False) for env in envs):
        raise ModelError(
            "a fickle passenger is not in the table P; pass that Taxi alone, as gymnasium built it"
        )
    tables = [read_table(env) for env in envs]
    S, A = tables[0].num_states, tables[0].num_actions
    for i, table in enumerate(tables):
        if (table.num_states, table.num_actions) != (S, A):
            shape = f"{table.num_states} states and {table.num_actions} actions"
            raise ShapeError(f"environment {i} has {shape} but environment 0 has {S} and {A}")
    starts = [start_of(env, start, S) for env in envs]
    ended = ended_in(tables, np.any(np.array(starts) > 0, axis=0))
    kernels = [kernel_from(table, table.p, ended) for table in tables]
    starts = [np.append(rho, np.zeros(num_copies(ended))) for rho in starts]
    if all(np.abs(rho - starts[0]).max() <= TOLERANCE for rho in starts):
        return Base(kernels, starts[0], weights, names, ended)
    rows, S = kernels[0].shape
    kernel_list = [
        scipy.sparse.csr_array(
            scipy.sparse.block_array(
                [[kernel, scipy.sparse.csr_array((rows, 1))], [np.tile(rho, (rows // S, 1)), None]]
            )
        )
        for kernel, rho in zip(kernels, starts)
    ]
    return Base(kernel_list, np.eye(S + 1)[S], weights, names, ended)


def _names_of_copies(base: Base) -> dict[str, Any]:
    """Names of all states, where some are copies for episodes that have ended."""
    if base.ended is None or not num_copies(base.ended):
        return {}
    _, names = layout_with_copies(None, None, base.ended)
    extra = base.kernels[0].shape[1] - len(names)
    return {"states": [*names, *[STATE_BEFORE_START] * extra]}


def _kind(env: Any) -> str:
    """The class of a toy-text environment of Gymnasium; empty for classes of other packages."""
    kind = type(env)
    return kind.__name__ if kind.__module__.startswith("gymnasium.envs.toy_text.") else ""


def _name(envs: list[Any]) -> str:
    return " + ".join(_id(env) for env in envs)


def _id(env: Any) -> str:
    return env.spec.id if env.spec else type(env).__name__


def _distinct_names(envs: list[Any]) -> list[str] | None:
    """The names of environments, if all are different."""
    names = [_id(env) for env in envs]
    return names if len(set(names)) == len(names) else None


def layout_of(env: Any, S: int | None = None, A: int | None = None) -> dict[str, Any]:
    """Actions and cells of a toy-text environment; the cells where it has S states, the actions where it has A."""
    kind = _kind(env)
    layout: dict[str, Any] = {"actions": ACTIONS[kind]} if kind in ACTIONS else {}
    if A is not None and len(layout.get("actions", ())) != A:
        layout = {}
    shape = {"FrozenLakeEnv": "desc", "CliffWalkingEnv": "_cliff"}.get(kind)
    if shape and getattr(env, shape).size == S:
        row, column = np.indices(getattr(env, shape).shape)
        layout["cells"] = np.stack([column.ravel(), row.ravel()], axis=1)
    return layout
