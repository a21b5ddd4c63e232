"""Logs with one row per step, from files and data frames, as runs that plan and certify.

The rows of an episode are sorted by step. A transition is complete if its state, action and next state are there; the
next state is that of the column `next_state` or, where it has none, of the row of the next step. What happens to a log
with holes is decided by `missing`; docs/how-to/logs.md has the condition under which certificates stay valid, and
docs/tabular.md (section 1) the proof.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._validation import (
    check_choice,
    check_count,
    check_instance,
    check_real,
    require,
    short_repr,
    suggestion,
)
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.names import CELLS, state_text
from horizonfree.problems.classes import UNKNOWN, Tabular
from horizonfree.problems.problem import Problem
from horizonfree.runs.log_rows import Rows, find_start, find_state, read_rows, roles_of
from horizonfree.runs.log_table import Labels
from horizonfree.runs.logged import Episodes, from_episodes, run_of
from horizonfree.runs.observed import ObservedReward, over_states
from horizonfree.runs.run import Run

TREATMENTS = ("error", "cut", "drop")
RECORDED = (
    "whether a step was recorded does not depend on the state that it led to, given its state and action"
)
CLOSED = "there are no {what} but those of the log"


def from_log(
    source: Any,
    problem: Problem | None = None,
    *,
    columns: Mapping[str, Any] | None = None,
    missing: str = "error",
    bins: Mapping[str, Any] | None = None,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    horizon: int | None = None,
    start: Any = None,
    terminal: Any = (),
    budget: int | None = None,
) -> Run:
    """A run made of a log with one row per step.

    source: the path of a .csv file (with a header) or a .parquet file (with pyarrow installed), a data frame (pandas,
        Polars, Arrow), or columns by name in a dictionary. The columns are

        episode       which episode a row belongs to: a number or text
        step          whole numbers or dates, evenly spaced; without it, rows of an episode are in order and complete
        state, action numbers or text; categorical columns declare labels that do not occur
        next_state    optional; without it, the state of the next step
        reward, cost  optional numbers, for `run.observed_reward`
        terminated    optional, true or false: the system ended the episode in next_state. Without it no episode was
                      ended: what stops early was not observed further. `truncated` is not an ending.

    problem: the model class that the log belongs to; without it, a tabular MDP with the states and actions of the
        log. Names are kept in the run: plans, policies, files and messages use them. Whole numbers 0, 1, .., all of
        which occur, are states without names; any others become names.
    columns: names of columns, {"state": "status", "episode": "machine"}. Several columns make one state with a list,
        {"state": ["status", "temperature"]}. {"step": None}: rows of an episode are in order.
    missing: a row without an entry, or a step that is not there, is a hole. "error" refuses it; "cut" ends the episode
        before it, "drop" leaves out incomplete transitions only. `certificate.assumes` has the condition for that.
    bins: columns of real numbers as bins: {"temperature": [20, 40]} by inner edges, {"temperature": 5} by quantiles of
        the first tenth of the episodes, which is not counted then.
    states, actions: all names, where others may exist than those that occur; num_states, num_actions: for whole
        numbers. horizon: steps of an episode to plan for; the longest episode by default. A table learns from all
        steps of longer episodes; with a `problem` they are cut at its horizon.
    start: from which state plans are made, by name or number; {name: probability}; or "unknown" (`Tabular`). By default
        the one in which all episodes begin. terminal: states in which every episode ends, or "unknown" (`Tabular`).
    budget: as for `from_episodes`.

    >>> import horizonfree as hf
    >>> log = {
    ...     "episode": [1, 1, 2, 2],
    ...     "state": ["low", "high", "low", "low"],
    ...     "action": ["wait", "sell", "sell", "wait"],
    ...     "next_state": ["high", "low", "low", "high"],
    ... }
    >>> run = hf.from_log(log)
    >>> run.episodes, run.plan(hf.goal(run.problem, "low")).policy.shape
    (2, (2, 2))
    """
    if problem is not None:
        check_instance(problem, Problem, "the problem")
    check_choice(missing, "missing", TREATMENTS)
    rows = read_rows(source, roles_of(columns), bins)
    declared = {
        "states": states, "actions": actions, "num_states": num_states, "num_actions": num_actions,
        "horizon": horizon, "start": start,
    }  # fmt: skip
    if problem is not None:
        conflicting = [name for name, x in declared.items() if x is not None]
        conflicting += ["terminal"] if np.size(terminal) else []
        if conflicting:
            raise OptionError(f"{', '.join(conflicting)}: a problem has its own; give one or the other")
        state, action = _in_problem(rows, problem)
        log = _arrange(rows, state, action, missing)
        episodes, log = _cut_at(log, problem.horizon)
        if problem.space.state_ids is not None:
            episodes = replace(episodes, s=problem.restrict((episodes.s, episodes.a))[0])
        problem_of_log = problem
    else:
        problem_of_log, log = _table(rows, missing, declared, terminal)
        episodes = log.episodes
    note = {"notes": log.notes, "assumes": log.assumes}
    if any(note.values()):
        problem_of_log = problem_of_log._replace(layout={**problem_of_log.layout, "log": note}, recipe=None)
    run = run_of(problem_of_log, episodes, log.ended, budget)
    return run if log.rewards is None else _with_rewards(run, log.rewards, start)


def _with_rewards(run: Run, rewards: Float[np.ndarray, "K H"], start: Any) -> Run:
    """The run with the rewards of its log, whose columns are those of its episodes."""
    assert run.log is not None  # it is made of a log
    H, num_steps = run.log.a.shape[1], rewards.shape[1]
    is_drawn = isinstance(start, str) and start == UNKNOWN
    rewards = np.pad(rewards, ((0, 0), (int(is_drawn), max(0, H - num_steps))), constant_values=np.nan)[:, :H]
    is_over = over_states(run.problem, run.problem.num_states - 1 if is_drawn else None)
    empty = ObservedReward.empty(run.problem.num_states, run.problem.num_actions, is_over)
    return replace(run, rewards=empty.added(run.log, rewards))


def certify(
    problem: Any,
    episodes: Any = None,
    *,
    ended: Any = None,
    delta: float = 0.05,
    budget: int | None = None,
    misspecification: Any = 0.0,
    alternatives: Any = None,
    **log: Any,
) -> Certificate:
    """The certificate that recorded episodes support, for the plans of every reward.

    certify(problem, episodes): as for `from_episodes`, with `ended`. certify(log): a file or a data frame as for
    `from_log`, with its options.

    misspecification: how far the transition laws may be from those of one parameter, as for `Run.certificate`.
    alternatives: richer classes that may refute this one, as for `Run.check`.

    >>> import horizonfree as hf
    >>> log = {
    ...     "episode": [1, 1, 2, 2],
    ...     "state": ["low", "high", "low", "low"],
    ...     "action": ["wait", "sell", "sell", "wait"],
    ...     "next_state": ["high", "low", "low", "high"],
    ... }
    >>> hf.certify(log).eps  # four steps certify nothing
    1.0
    """
    if isinstance(problem, Problem):
        if log:
            raise OptionError(
                f"{', '.join(log)}: for a log without a problem; with one, use from_log(log, problem)"
            )
        run = from_episodes(problem, episodes, ended=ended, budget=budget)
    elif episodes is not None or ended is not None:
        check_instance(problem, Problem, "the problem")
    else:
        run = from_log(problem, budget=budget, **log)
    return run.certificate(delta, misspecification=misspecification, alternatives=alternatives)


@dataclass(frozen=True, eq=False)
class _Log:
    """Recorded episodes in arrays, which of them the system ended (None: the log does not say), and what to report."""

    episodes: Episodes
    ended: Bool[np.ndarray, " K"] | None
    rewards: Float[np.ndarray, "K H"] | None
    notes: list[str]
    assumes: list[str]


def _arrange(rows: Rows, state: Int[np.ndarray, " n"], action: Int[np.ndarray, " n"], missing: str) -> _Log:
    """Episodes as arrays; state, action: the number of each label.

    Every row is one step of the arrays. A gap after a complete transition takes one more, which is not seen.
    """
    order = _order(rows)
    episode = _ranks(rows.episode.code[order])
    step = rows.step[order]
    s, a = _decode(state, rows.state.code[order]), _decode(action, rows.action.code[order])
    unknown = np.full(len(order), -1)
    next_states = unknown if rows.next_state is None else _decode(state, rows.next_state[order])
    is_last = np.append(np.diff(episode) != 0, True)
    follows = np.append((np.diff(step) == 1), False) & ~is_last
    _check_consistent(rows, order, follows, is_last, step, s, next_states)
    is_terminated = np.zeros(len(order), bool) if rows.terminated is None else rows.terminated[order]

    # the state that the step before led to
    s = np.where((s < 0) & np.roll(follows, 1), np.roll(next_states, 1), s)
    next_states = np.where((next_states < 0) & follows, np.roll(s, -1), next_states)
    is_complete = (s >= 0) & (a >= 0) & (next_states >= 0)
    is_final = is_last & (next_states < 0)  # a state in which the record stops
    _check_selection(rows, order, is_terminated & is_final)
    is_gap = ~follows & ~is_last
    is_hole = (~is_complete & ~is_final) | is_gap
    unplaced = np.flatnonzero((rows.episode.code == -1) | ((rows.step < 0) & (rows.episode.code >= 0)))
    gaps = int((np.diff(step) - 1)[is_gap[:-1]].sum())  # steps without a row
    gaps = max(gaps, len(unplaced))  # a row that cannot be placed leaves a gap, unless it is at an end
    num_lost = int((~is_complete & ~is_final).sum()) + gaps
    if missing == "error" and (is_hole.any() or unplaced.size):
        raise ShapeError(_hole(rows, order, is_hole, is_complete, follows, unplaced, num_lost))

    takes_more = is_complete & is_gap
    size = 1 + takes_more
    end = np.cumsum(size)
    is_first = np.append(True, is_last[:-1])
    position = end - size - np.maximum.accumulate(np.where(is_first, end - size, 0))
    K, H = int(episode[-1]) + 1, int((position + 1 - is_final).max())
    S = np.full((K, H + 2), -1, np.int64)
    S[episode[is_complete], position[is_complete] + 1] = next_states[is_complete]
    S[episode[s >= 0], position[s >= 0]] = s[s >= 0]
    A, is_seen = np.zeros((K, max(H, 1)), np.int64), np.zeros((K, max(H, 1)), bool)
    A[episode[is_complete], position[is_complete]] = a[is_complete]
    is_seen[episode[is_complete], position[is_complete]] = True
    if missing == "cut":
        is_seen = np.logical_and.accumulate(is_seen, axis=1)
    has_steps = is_seen.any(1)
    if not has_steps.any():
        raise ShapeError(
            "no step of the log is complete: it has a state, an action and a next state (a column next_state, or a row "
            f"for the next step) in none of {len(rows.step):,} rows"
        )
    at_end = is_complete & is_last
    is_ended = np.zeros(K, bool)
    is_ended[episode[at_end]] = is_terminated[at_end] & is_seen[episode[at_end], position[at_end]]
    episodes = Episodes(_fill_states(S[has_steps, : is_seen.shape[1] + 1]), A[has_steps], is_seen[has_steps])
    total = int((~is_final).sum()) + gaps
    behind = int(is_complete.sum()) - int(is_seen.sum())
    notes = list(rows.notes)
    if num_lost:
        cut = f", and {behind:,} complete steps after them" if missing == "cut" else ""
        notes.append(f"{num_lost:,} of {total:,} steps are incomplete or missing: they were left out{cut}")
    if not has_steps.all():
        notes.append(f"{int((~has_steps).sum()):,} episodes have no complete step")
    assumes = [*rows.assumes, *([RECORDED] if rows.next_state is None or num_lost else [])]
    rewards = None
    if rows.reward is not None:
        rewards = np.full(is_seen.shape, np.nan)
        rewards[episode[is_complete], position[is_complete]] = rows.reward[order][is_complete]
        rewards = rewards[has_steps]
    return _Log(episodes, None if rows.terminated is None else is_ended[has_steps], rewards, notes, assumes)


def _order(rows: Rows) -> Int[np.ndarray, " n"]:
    """The rows that have an episode and a step, sorted by them; episodes in the order in which they first appear."""
    code, first = np.unique(rows.episode.code, return_index=True)
    rank = np.zeros(max(int(code.max()), 0) + 3, np.int64)
    rank[code] = first
    placed = np.flatnonzero((rows.episode.code >= 0) & (rows.step >= 0))
    if not placed.size:
        raise ShapeError("no row has an episode and a step; fill in these columns")
    order = placed[np.lexsort((rows.step[placed], rank[rows.episode.code[placed]]))]
    is_repeated = (np.diff(rows.episode.code[order]) == 0) & (np.diff(rows.step[order]) == 0)
    repeats = np.flatnonzero(is_repeated)
    if repeats.size:
        first_row, second_row = sorted(order[[repeats[0], repeats[0] + 1]])
        raise ShapeError(
            f"rows {first_row + 1} and {second_row + 1} are the same step of {_episode(rows, first_row)}, step "
            f"{rows.step[first_row]} counted from 0; keep one of them, or give episodes names of their own"
        )
    return order


def _episode(rows: Rows, row: int) -> str:
    return f"episode {rows.episode.labels[rows.episode.code[row]]}"


def _ranks(code: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """0, 1, .. for sorted groups of rows."""
    return np.cumsum(np.append(0, np.diff(code) != 0))


def _decode(number: Int[np.ndarray, " n"], code: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    return np.asarray(np.append(number, -1)[code])


def _fill_states(S: Int[np.ndarray, "K H1"]) -> Int[np.ndarray, "K H1"]:
    """Unknown states replaced by the last known one before, or the first one after."""
    for _ in range(2):
        index = np.maximum.accumulate(np.where(S >= 0, np.arange(S.shape[1]), 0), axis=1)
        S = np.take_along_axis(S, index, axis=1)[:, ::-1]
    return S


def _check_consistent(
    rows: Rows,
    order: np.ndarray,
    follows: np.ndarray,
    is_last: np.ndarray,
    step: np.ndarray,
    s: np.ndarray,
    next_states: np.ndarray,
) -> None:
    """Refuse a next state that is not the state of the next row, and an episode that goes on after its end."""
    following = np.roll(s, -1)
    torn = np.flatnonzero(follows & (next_states >= 0) & (following >= 0) & (next_states != following))
    if torn.size:
        i = int(torn[0])
        labels = rows.state.labels
        label, next_label = (labels[rows.next_state[order[i]]], labels[rows.state.code[order[i + 1]]])  # type: ignore[index]
        raise ShapeError(
            f"{rows.where(order[i])}: next_state is {label}, but row {order[i + 1] + 1}, the next step, is in state "
            f"{next_label}; correct one of them, or leave out the column next_state"
        )
    if rows.terminated is not None:
        early = np.flatnonzero(rows.terminated[order] & ~is_last)
        if early.size:
            i = int(early[0])
            raise ShapeError(
                f"{rows.where(order[i])}: terminated is true, but the episode goes on in row {order[i + 1] + 1}; what "
                "comes after is an episode of its own"
            )


def _check_selection(rows: Rows, order: np.ndarray, is_hidden: np.ndarray) -> None:
    """Refuse steps that are incomplete because the episode ended: leaving them out would hide that it can end."""
    if is_hidden.any():
        row = int(order[np.flatnonzero(is_hidden)[0]])
        raise ShapeError(
            f"{rows.where(row)}: terminated is true and there is no next state, in this and "
            f"{int(is_hidden.sum()) - 1:,} other rows. They cannot be left out: whether they are complete depends on "
            "what happened, and the log would look as if no episode ever ended. Fill in a column next_state with a "
            "state of its own, such as 'failed', and declare it: terminal=['failed']"
        )


def _hole(
    rows: Rows,
    order: Int[np.ndarray, " n"],
    is_hole: Bool[np.ndarray, " n"],
    is_complete: Bool[np.ndarray, " n"],
    follows: Bool[np.ndarray, " n"],
    unplaced: Int[np.ndarray, " m"],
    num_lost: int,
) -> str:
    """The first hole of the source, and what can be done."""
    hole_rows = np.flatnonzero(is_hole)
    if unplaced.size:
        row = int(unplaced[0])
        what = f"row {row + 1} has no {'episode' if rows.episode.code[row] < 0 else 'step'}"
    else:
        i = int(hole_rows[np.argmin(order[hole_rows])])
        row = int(order[i])
        lacks = next((x for x in ("state", "action") if getattr(rows, x).code[row] < 0), None)
        if lacks and not is_complete[i]:
            what = f"{rows.where(row)} has no {lacks}"
        elif follows[i]:
            what = (
                f"{rows.where(row)} has no next state, as row {order[i + 1] + 1}, the next step, has no state"
            )
        else:
            gap = int(rows.step[order[i + 1]] - rows.step[row]) - 1
            steps = "a step is" if gap == 1 else f"{gap} steps are"
            what = f"{rows.where(row)}: {steps} missing until row {order[i + 1] + 1}"
    return (
        f"{num_lost:,} steps are incomplete or missing, the first: {what}. Fill it in; or use missing='drop' "
        "to leave out these steps, missing='cut' to end episodes there (on the command line --missing drop). "
        "Both assume that "
        f"{RECORDED}"
    )


def _cut_at(log: _Log, H: int) -> tuple[Episodes, _Log]:
    """Episodes of at most H steps, padded to H."""
    e = log.episodes
    padding = max(0, H - e.a.shape[1])
    s = np.pad(e.s, ((0, 0), (0, padding)), "edge")[:, : H + 1]
    a, is_seen = (np.pad(x, ((0, 0), (0, padding)))[:, :H] for x in (e.a, e.is_seen))
    num_cut = int(e.is_seen.sum()) - int(is_seen.sum())
    if not num_cut:
        return Episodes(s, a, is_seen), log
    ended = None if log.ended is None else log.ended & (e.length <= H)
    notes = [*log.notes, f"{num_cut:,} steps after step {H}, the horizon, are not used"]
    return Episodes(s, a, is_seen), replace(log, ended=ended, notes=notes)


def _in_problem(rows: Rows, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The number that each label of states and actions has in a problem."""
    names = problem.layout.get("states") or ()
    ids = dict(zip(map(str, names), problem.state_ids.tolist()))
    if names == () and problem.layout.get(CELLS) is not None:
        ids = {state_text(problem.layout, i): int(s) for i, s in enumerate(problem.state_ids)}
    state = _numbers_of(rows, "state", ids, problem.layout.get("num_all_states", problem.num_states))
    actions = {str(x): i for i, x in enumerate(problem.layout.get("actions") or ())}
    return state, _numbers_of(rows, "action", actions, problem.num_actions)


def _numbers_of(rows: Rows, role: str, names: Mapping[str, int], size: int) -> Int[np.ndarray, " n"]:
    """The number of each label, by its name or as it is."""
    labels: Labels = getattr(rows, role)
    result = []
    for i, label in enumerate(labels.labels):
        number = names.get(str(label), label if isinstance(label, int) else None)
        if isinstance(number, int) and 0 <= number < size:
            result.append(number)
            continue
        uses = np.flatnonzero(labels.code == i)
        if not uses.size and role == "state" and rows.next_state is not None:
            uses, role = np.flatnonzero(rows.next_state == i), "next_state"
        if not uses.size:  # a category that does not occur
            result.append(0)
            continue
        where = f"row {uses[0] + 1}: {role} {short_repr(label)}"
        kind = f"{role.removeprefix('next_')}s are 0 to {size - 1}"
        advice = f"; {suggestion(str(label), names)}" if names else f"; {kind}"
        error = UnknownNameError if number is None else ShapeError
        raise error(f"{where} is not one of the {size} {role.removeprefix('next_')}s of the problem{advice}")
    return np.array(result, np.int64)


def _table(rows: Rows, missing: str, declared: Mapping[str, Any], terminal: Any) -> tuple[Problem, _Log]:
    """The tabular MDP of a log, and its episodes."""
    S, states, state, open_states = _sizes(rows, "state", declared)
    A, actions, action, open_actions = _sizes(rows, "action", declared)
    log = _arrange(rows, state, action, missing)
    what = " and ".join(x for x, is_open in (("states", open_states), ("actions", open_actions)) if is_open)
    if what:
        log = replace(log, assumes=[*log.assumes, CLOSED.format(what=what)])
    e = log.episodes
    if not isinstance(terminal, str):
        terminal = (
            terminal if isinstance(terminal, (list, tuple)) else np.ravel(check_real(terminal, "terminal"))
        )
        terminal = [find_state(x, states, S, "terminal") for x in terminal]
    elif isinstance(terminal, str) and terminal != UNKNOWN:
        terminal = [find_state(terminal, states, S, "terminal")]
    first = e.s[:, 0]
    start = find_start(declared["start"], states, S, first)
    H = e.a.shape[1] if declared["horizon"] is None else declared["horizon"]
    table = Tabular(S, A, H, start, terminal=terminal, states=states, actions=actions, name="log")
    if isinstance(
        start, str
    ):  # a step from the added state; every action is taken in turn, as none matters there
        e = Episodes(
            np.column_stack([np.full(len(first), table.num_states - 1), e.s]),
            np.column_stack([np.arange(len(first)) % A, e.a]),
            np.column_stack([np.ones(len(first), bool), e.is_seen]),
        )
    return table, replace(log, episodes=replace(e, starts_anywhere=True))


def _sizes(
    rows: Rows, role: str, declared: Mapping[str, Any]
) -> tuple[int, list[str] | None, Int[np.ndarray, " n"], bool]:
    """How many there are, their names, the number of each label, and whether others might exist."""
    labels: Labels = getattr(rows, role)
    names, size = declared[f"{role}s"], declared[f"num_{role}s"]
    if names is not None and size is not None:
        raise OptionError(f"{role}s and num_{role}s both say how many {role}s there are; give one of them")
    if names is not None:
        require(
            isinstance(names, (list, tuple)) and all(isinstance(x, str) for x in names),
            f"{role}s",
            names,
            "a list of names",
        )
        index = {x: i for i, x in enumerate(names)}
        return len(names), list(names), _numbers_of(rows, role, index, len(names)), False
    if labels.are_numbers and labels.labels and labels.labels[0] < 0:
        uses = np.flatnonzero(labels.code == 0)
        where = f"row {uses[0] + 1}: {role}" if uses.size else "next_state"
        raise ShapeError(
            f"{where} is {labels.labels[0]}; numbers are 0 or more: leave the cell empty if nothing is known, or write "
            "names"
        )
    if size is not None:
        if not labels.are_numbers:
            raise OptionError(
                f"num_{role}s is for numbers 0, 1, ..; the log has names: {role}s=[..] lists them all"
            )
        size = check_count(size, f"num_{role}s")
        return size, None, _numbers_of(rows, role, {}, size), False
    if labels.labels == list(range(len(labels.labels))):
        return len(labels.labels), None, np.arange(len(labels.labels)), not labels.is_complete
    return (
        len(labels.labels),
        [str(x) for x in labels.labels],
        np.arange(len(labels.labels)),
        not labels.is_complete,
    )
