"""Systems driven by noise of unknown distribution: s' = f(s, a, w), w one of n outcomes, drawn anew at every step.

    P(s'|s,a) = sum_w p_w 1{f(s,a,w) = s'}            any distribution p: one kernel per outcome, weights p
    p = sum_i v_i p_i                                 a mixture of given p_i: one kernel per distribution, weights v

The effect of an outcome is known (a demand of 3 takes 3 from the shelf), its probability is not. The second class lies
in the first, which is therefore an alternative that may refute it (docs/alternatives.md): the next state of each
outcome, `after` [S, A, n], is stored in the layout of the problem.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Float, Int

from horizonfree._validation import (
    calling,
    check_floats,
    check_int,
    check_integers,
    check_shape,
    check_size,
    require,
    require_entries,
    require_shape,
)
from horizonfree.errors import KernelError, ShapeError
from horizonfree.mdp.policies import action_aliases, redirect_forbidden
from horizonfree.mdp.space import TOLERANCE

MAX_CALLS = 5_000_000  # of a Python function: about a minute
# Keys of a layout: next states and names of the outcomes, the given distributions and their names.
AFTER, OUTCOMES, LAWS, MODELS = "after", "outcomes", "laws", "models"
Step = Callable[[int, int, Any], int]


class Noise(NamedTuple):
    """The next state of each outcome, the names of the outcomes, and the given distributions with their names."""

    after: Int[np.ndarray, "S A n"]
    outcomes: list[str]
    laws: Float[np.ndarray, "m n"]
    law_names: list[str]

    def kernels(self) -> "list[scipy.sparse.csr_array]":
        """One kernel [S*A, S] for each distribution."""
        S, A, n = self.after.shape
        row, outcome = np.repeat(np.arange(S * A), n), np.tile(np.arange(n), S * A)
        successors = self.after.reshape(-1)
        kernels = []
        for law in self.laws:
            is_positive = law[outcome] > 0
            entries = law[outcome][is_positive], (row[is_positive], successors[is_positive])
            kernels.append(scipy.sparse.csr_array(scipy.sparse.coo_array(entries, (S * A, S))))
        return kernels


def noise_of(
    step: Any, outcomes: Any, models: Any, num_states: Any, num_actions: Any, allowed: Any = None
) -> Noise:
    """Checked arguments; without models there is one distribution per outcome. allowed: as in mdp/policies.py."""
    names, values = names_and_values(outcomes, "outcomes")
    if callable(step):
        next_states = _evaluated(step, names, values, num_states, num_actions, allowed)
    else:
        next_states = _next_states(step, len(names), num_states, num_actions)
        next_states = redirect_forbidden(action_aliases(allowed, *next_states.shape[:2]), next_states)
    if models is None:
        return Noise(next_states, names, np.eye(len(names)), names)
    law_names, law_values = names_and_values(models, "models")
    laws = np.stack([_law(x, name, len(names)) for name, x in zip(law_names, law_values)])
    return Noise(next_states, names, laws, law_names)


def names_and_values(given: Any, argument: str) -> tuple[list[str], list[Any]]:
    """Names and values of a dictionary, or of a list, in which numbers and texts are their own names."""
    if isinstance(given, Mapping):
        names, values = [str(key) for key in given], list(given.values())
    elif isinstance(given, str) or not np.iterable(given):
        require(False, argument, given, "a list, or a dictionary by name", ShapeError)
    else:
        values = list(given)
        is_scalar = [isinstance(x, str) or not np.iterable(x) for x in values]
        names = [str(x) if scalar else f"{i}" for i, (x, scalar) in enumerate(zip(values, is_scalar))]
    require(values, argument, given, "a list or a dictionary of at least one", ShapeError)
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        raise ShapeError(f"{argument} has {repeated!r} more than once; each must be there once")
    return names, values


def _evaluated(
    step: Step, names: list[str], values: list[Any], S: Any, A: Any, allowed: Any
) -> Int[np.ndarray, "S A n"]:
    """A function evaluated at every state, allowed action and outcome."""
    sizes = {"num_states": S, "num_actions": A}
    S, A = (
        check_int(x, name, 1, 2**31, "a whole number of at least 1, as step is a function")
        for name, x in sizes.items()
    )
    calls = S * A * len(names)
    what = f"step would be called {calls:,} times, for {S:,} states, {A:,} actions and {len(names)} outcomes"
    check_size(calls, MAX_CALLS, what, "give step as an array [S, A, outcomes] of next states")
    next_states, acts = np.empty((S, A, len(names)), np.int32), action_aliases(allowed, S, A)
    for s, a, w in np.ndindex(next_states.shape):
        if acts is not None and acts[s, a] != a:
            continue
        where = f"step(s={s}, a={a}, outcome {names[w]})"
        with calling(where, f"it must give a state, 0 to {S - 1}"):
            successor = step(s, a, values[w])
        next_states[s, a, w] = check_int(successor, where, 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
    return redirect_forbidden(acts, next_states)


def _next_states(step: Any, n: int, S: Any, A: Any) -> Int[np.ndarray, "S A n"]:
    """A checked array of next states."""
    next_states = check_integers(step, "step")
    meaning = (
        f"a function (s, a, outcome) -> state, or an array [S, A, {n}] of next states, one for each outcome"
    )
    require_shape(next_states.ndim == 3 and next_states.shape[2] == n, "step", next_states.shape, meaning)
    for name, value, size in (
        ("num_states", S, next_states.shape[0]),
        ("num_actions", A, next_states.shape[1]),
    ):
        if value is not None:
            check_int(
                value,
                name,
                size,
                size,
                f"{size}, as step is an array of shape {next_states.shape}, or left out",
            )
    is_state, meaning = (
        (next_states >= 0) & (next_states < len(next_states)),
        f"states are 0 to {len(next_states) - 1}",
    )
    require_entries(is_state, "step", next_states, meaning, at="[s={}, a={}, outcome {}]")
    return next_states.astype(np.int32)


def _law(given: Any, name: str, n: int) -> Float[np.ndarray, " n"]:
    """A distribution on the outcomes, divided by its sum, which may miss 1 by rounding."""
    law = check_shape(check_floats(given, f"models[{name}]"), f"models[{name}]", (n,), "[outcomes]")
    with np.errstate(over="ignore"):
        total = law.sum()
    if not ((law >= 0).all() and abs(total - 1) <= TOLERANCE):
        raise KernelError(
            f"models[{name}] sums to {total:.10g} and its smallest entry is {law.min():.6g}; probabilities must be "
            ">= 0 and sum to 1: give the tail to the last outcome"
        )
    return np.asarray(law / total)
