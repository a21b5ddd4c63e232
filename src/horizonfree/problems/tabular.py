"""Problems of which nothing is known but states, actions and, perhaps, which transitions are possible."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._arrays import leaf
from horizonfree._validation import check_floats, check_int, check_integers, check_real, short_repr
from horizonfree.errors import OptionError, ShapeError
from horizonfree.mdp.allowed import acts_of
from horizonfree.mdp.names import BEFORE
from horizonfree.mdp.space import LONGEST, Space, start_distribution
from horizonfree.models.tabular.model import TabularModel, tabular_model, unknown_pairs
from horizonfree.problems.endings import ENDED, UNDECLARED, layout_with_copies, with_copies
from horizonfree.problems.problem import Problem, described
from horizonfree.problems.sampling import KEYS as SAMPLING_KEYS

LARGEST_TABLE = 2**31 - 1  # states or actions
UNKNOWN = "unknown"  # where episodes start, or end


class Tabular:
    """An unknown table: `Tabular(states, actions, horizon)` to explore an environment, `from_table` to simulate one.

    start: a state, or a known distribution from which the first state is drawn; for an environment also "unknown": then
    a state is added, numbered last, in which every action leads to the first state, in a step before the `horizon`
    others. terminal: states in which every episode ends; they are known to lead to themselves. "unknown", for an
    environment: every state may end some episodes and not others. Then each state s has a copy, s + num_states, in
    which an episode is that has ended in s. In any other state, an episode either ends always or never.
    actions_allowed: as for mixtures; forbidden actions are nothing to be learnt.
    """

    def __new__(  # type: ignore[misc]  # what people want is the problem
        cls,
        num_states: Any,
        num_actions: Any,
        horizon: Any,
        start: Any = 0,
        support: Any = None,
        terminal: Any = (),
        *,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> Problem:
        """A problem without a truth. support [S, A, S] says which transitions are possible; by default all are."""
        meaning = "a whole number of at least 1"
        S = check_int(num_states, "num_states", 1, LARGEST_TABLE, meaning, ShapeError)
        A = check_int(num_actions, "num_actions", 1, LARGEST_TABLE, meaning, ShapeError)
        can_end_anywhere = isinstance(terminal, str)
        ended = _copies_of_all(terminal, S) if can_end_anywhere else _final(terminal, S)
        possible, is_known = _possible(S, A, "any" if support is None else support, None, ended)
        acts = acts_of(actions_allowed, S, A)
        if can_end_anywhere:
            layout, states = layout_with_copies(layout, states, ended)
            acts = None if acts is None else np.concatenate([acts, acts])
            start = start if np.ndim(start) == 0 else np.append(start_distribution(start, S), np.zeros(S))
        num_known = len(possible)
        if isinstance(start, str):
            possible, start, horizon = _drawn(possible, start, horizon)
            acts = None if acts is None else np.concatenate([acts, np.arange(A, dtype=np.int32)[None]])
        model = tabular_model(possible, horizon=horizon, start=start, is_support_known=is_known, acts=acts)
        if isinstance(states, (list, tuple)) and len(possible) > num_known:
            states = [*states, BEFORE]
        return _declaring(described(model, None, name, layout, states=states, actions=actions), ended)

    @staticmethod
    def from_table(
        P: Any,
        *,
        horizon: int,
        start: Any = 0,
        support: Any = "any",
        terminal: Any = (),
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> Problem:
        """A problem that simulates the table P [S, A, S] and does not know it.

        support: "any" (every state may follow every pair), "given" (the transitions of positive probability in P are
        known to be the possible ones), or an array [S, A, S] of what is known to be possible.
        """
        table = check_floats(P, "P")
        if table.ndim != 3 or table.shape[0] != table.shape[2] or 0 in table.shape:
            raise ShapeError(f"P has shape {table.shape}; it must be [S, A, S]")
        ended = _final(terminal, len(table))
        possible, is_known = _possible(table.shape[0], table.shape[1], support, table > 0, ended)
        acts = acts_of(actions_allowed, *table.shape[:2])
        model = tabular_model(possible, horizon=horizon, start=start, is_support_known=is_known, acts=acts)
        truth = model.parameter(table, "P")
        return _declaring(described(model, truth, name, layout, states=states, actions=actions), ended)


def seen_as(problem: Problem, support: str = "any") -> Problem:
    """The same system as an unknown table.

    support: "any": nothing is known of it but the states that can never be left, as terminal ones; "given": what the
    problem calls impossible is known to be impossible.
    """
    if not isinstance(problem, Problem):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Problem")
    if not isinstance(support, str) or support not in ("any", "given"):
        raise OptionError(f"support is {short_repr(support)}; it must be 'any' or 'given'")
    if problem.sampling is not None and problem.sampling.everywhere:
        raise OptionError(
            "these kernels were estimated from samples, which do not show what is impossible or which states are "
            "terminal; describe the table itself: hf.Tabular(num_states, num_actions, horizon, start)"
        )
    space, truth = problem.space, None if problem.truth is None else problem.kernel()
    if support == "given":
        model = TabularModel(space, leaf(unknown_pairs(space)), True)
        prob = None if truth is None else np.maximum(np.asarray(truth.prob), 0.0)
        known = None if prob is None else prob / prob.sum(-1, keepdims=True)
        return described(model, known, problem.name, _of_table(problem.layout))
    final = _final(_never_left(space), space.num_states)
    possible, _ = _possible(space.num_states, space.num_actions, "any", None, final)
    start = space.start if space.initial is None else space.initial
    acts = None if space.acts is None else np.asarray(space.acts)
    model = tabular_model(possible, horizon=space.horizon, start=start, is_support_known=False, acts=acts)
    model = replace(model, space=replace(model.space, state_ids=space.state_ids))
    table = None if truth is None else model.parameter(np.maximum(truth.dense(), 0.0), "the truth")
    return described(model, table, problem.name, _of_table(problem.layout))


def _of_table(layout: Mapping[str, Any]) -> dict[str, Any]:
    """A layout without what belongs to the kernels of a mixture: names of weights, and how kernels were estimated."""
    return {key: x for key, x in layout.items() if key not in ("weights", *SAMPLING_KEYS)}


def _never_left(space: Space) -> np.ndarray:
    """States that lead to themselves only."""
    succ, support = np.asarray(space.succ), np.asarray(space.support)
    own = np.arange(len(succ))[:, None, None]
    return np.flatnonzero(((succ == own) | ~support).all(axis=(1, 2)))


def _possible(
    S: int,
    A: int,
    support: Any,
    positive: Bool[np.ndarray, "S A S"] | None,
    ended: Int[np.ndarray, " S"],
) -> tuple[Bool[np.ndarray, "S1 A S1"], bool]:
    """Which transitions may happen, with the copies of states, and whether that was declared."""
    if isinstance(support, str):
        if support not in ("any", "given") or (support == "given" and positive is None):
            choice = (
                "'any' or an array [S, A, S]" if positive is None else "'any', 'given' or an array [S, A, S]"
            )
            raise OptionError(f"support is {short_repr(support)}; it must be {choice}")
        is_known = support == "given"
        possible = positive.copy() if is_known and positive is not None else np.ones((S, A, S), bool)
    else:
        allowed = check_floats(support, "support")
        if allowed.shape != (S, A, S) or not np.isfinite(allowed).all():
            raise ShapeError(
                f"support has shape {allowed.shape}; it must be [S, A, S] = {(S, A, S)}, True where a transition is "
                "possible"
            )
        possible, is_known = allowed.astype(bool), True
    return with_copies(possible, ended), is_known


def _drawn(
    possible: Bool[np.ndarray, "S A S"], start: str, horizon: Any
) -> tuple[Bool[np.ndarray, "S1 A S1"], int, int]:
    """With a state more, from which any other follows and to which nothing leads; its number, and a step more."""
    if start != UNKNOWN:
        raise OptionError(
            f"start is {start!r}; it must be a state, a distribution over states, or {UNKNOWN!r}"
        )
    steps = check_int(
        horizon, "horizon", 1, LONGEST - 1, f"a number of steps, 1 to {LONGEST - 1:,}", ShapeError
    )
    S = len(possible)
    wider = np.pad(possible, ((0, 1), (0, 0), (0, 1)))
    wider[S, :, :S] = True
    return wider, S, steps + 1


def _final(terminal: Any, S: int) -> Int[np.ndarray, " S"]:
    """The array `ended` (endings.py) in which these states always end an episode."""
    ended = np.full(S, UNDECLARED)
    if check_real(terminal, "terminal").size == 0:
        return ended
    states = np.atleast_1d(check_integers(terminal, "terminal"))
    bad = np.flatnonzero((states < 0) | (states >= S)) if states.ndim == 1 else np.zeros(1, int)
    if bad.size:
        raise ShapeError(f"terminal is {short_repr(terminal)}; it must list states, 0 to {S - 1}")
    ended[states] = states
    return ended


def _copies_of_all(terminal: str, S: int) -> Int[np.ndarray, " S"]:
    """The array `ended` in which every state has a copy."""
    if terminal != UNKNOWN:
        raise OptionError(f"terminal is {short_repr(terminal)}; it must list states, or be {UNKNOWN!r}")
    return S + np.arange(S)


def _declaring(problem: Problem, ended: Int[np.ndarray, " S"]) -> Problem:
    if (ended == UNDECLARED).all():
        return problem
    return replace(problem, layout={**problem.layout, ENDED: ended})
