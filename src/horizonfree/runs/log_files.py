"""Logs in a table with one row per step, (episode, step, state, action, next_state), as a run that can plan.

Episodes are taken in the order in which they first appear, steps by their numbers. Nothing is repaired: rows that do
not fit together are refused, with the episode and the step.
"""

import csv
from collections.abc import Mapping
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._validation import check_integers, short_repr, shorten, suggestion
from horizonfree.errors import HorizonfreeError, OptionError, ShapeError, UnknownNameError
from horizonfree.problems.classes import UNKNOWN, Tabular
from horizonfree.problems.problem import Problem
from horizonfree.runs.logged import from_episodes
from horizonfree.runs.run import Run

COLUMNS = ("episode", "step", "state", "action", "next_state")
TERMINATED = "terminated"  # a column that may be missing
FLAGS = {"0": False, "1": True, "false": False, "true": True}

Episodes = tuple[list[np.ndarray], list[np.ndarray]]  # the states and the actions of each


class Log(NamedTuple):
    """One entry per step, episode by episode; `episode` is its name, `lengths` are those of the K episodes.

    `terminated`: whether the system ended the episode in next_state; None where the log does not say.
    """

    episode: Int[np.ndarray, " N"]
    step: Int[np.ndarray, " N"]
    state: Int[np.ndarray, " N"]
    action: Int[np.ndarray, " N"]
    next_state: Int[np.ndarray, " N"]
    lengths: Int[np.ndarray, " K"]
    terminated: Bool[np.ndarray, " N"] | None = None

    def ended(self) -> Bool[np.ndarray, " K"] | None:
        """Which episodes the system ended; None where the log does not say."""
        return None if self.terminated is None else self.terminated[np.cumsum(self.lengths) - 1]

    def where(self, row: int) -> str:
        """A row in words."""
        return f"episode {self.episode[row]}, step {self.step[row]}"


def from_log(
    source: Any,
    problem: Problem | None = None,
    *,
    num_states: int | None = None,
    num_actions: int | None = None,
    horizon: int | None = None,
    start: Any = None,
    terminal: Any = (),
    columns: Mapping[str, str] | None = None,
    budget: int | None = None,
) -> Run:
    """A run made of a log with one row per step, to plan and certify with.

    source: the path of a .csv file (with a header) or a .parquet file (with pyarrow installed); or the columns as
        arrays, in a dictionary, a data frame, or whatever gives them by name: episode, step, state, action, next_state.
        States and actions are numbers, or names where the problem has some. A column `terminated` (0 or 1, true or
        false) says which steps ended their episode; without it no step did, and episodes that stop early were not
        seen further. `truncated` is not an ending.
    problem: the class of dynamics that the log belongs to; without it, an unknown table. Of a part of a problem
        (`reachable_part`) the log has the state numbers of the whole problem.
    num_states, num_actions, horizon: of the unknown table. What is not given is taken from the log: that nothing else
        exists is then your assumption. terminal: states in which every episode ends, or "unknown" (`Tabular`).
    start: a state, a distribution over states, or "unknown" (`Tabular`); by default the one state in which all begin.
    columns: what the columns are called in the source, {"episode": "id", ..}, where that is something else.
    budget: as for `from_episodes`; which episodes may be left out, and when they may break off, is said there.
    """
    if not isinstance(problem, Problem | None):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Problem")
    names = _names(columns)
    flag = names.pop(TERMINATED, TERMINATED)
    table = _columns(source, names, _numbers_of(problem))
    is_named = columns is not None and TERMINATED in columns
    log = _arranged(table, _flags(source, flag, len(table["step"]), is_named=is_named))
    sizes = {"num_states": num_states, "num_actions": num_actions, "horizon": horizon}
    if problem is not None:
        given = [name for name, x in {**sizes, "start": start}.items() if x is not None]
        if given or np.size(terminal):
            named = ", ".join([*given, *(["terminal"] if np.size(terminal) else [])])
            raise OptionError(f"{named}: a problem has its own; give one or the other")
        episodes = _episodes(log)
        if problem.space.state_ids is not None:
            episodes = problem.restrict(episodes)
        return from_episodes(problem, episodes, ended=log.ended(), budget=budget)
    first = log.state[np.cumsum(log.lengths) - log.lengths]
    if start is None and (first != first[0]).any():
        raise OptionError(
            f"the episodes start in {len(np.unique(first))} different states; say from which distribution, start=[..], "
            f"or start={UNKNOWN!r}"
        )
    found = {
        "num_states": int(max(log.state.max(), log.next_state.max())) + 1,
        "num_actions": int(log.action.max()) + 1,
        "horizon": int(log.lengths.max()),
    }
    S, A, H = (found[name] if x is None else x for name, x in sizes.items())
    world = Tabular(S, A, H, int(first[0]) if start is None else start, terminal=terminal, name="log")
    episodes = _after_a_draw(_episodes(log), world) if isinstance(start, str) else _episodes(log)
    return from_episodes(world, episodes, ended=log.ended(), budget=budget)


def _names(columns: Any) -> dict[str, str]:
    """What each column is called."""
    given = {} if columns is None else columns
    known = (*COLUMNS, TERMINATED)
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        raise OptionError(
            f"columns is {short_repr(columns)}; it must be a dictionary from some of {', '.join(known)}"
        )
    return {name: str(given.get(name, name)) for name in known}


def _numbers_of(problem: Problem | None) -> dict[str, dict[str, int]]:
    """For each column whose entries may be names, the number of each name."""
    layout: Mapping[str, Any] = {} if problem is None else problem.layout
    actions = {str(x): i for i, x in enumerate(layout.get("actions") or ())}
    names = layout.get("states") or ()
    ids = problem.state_ids.tolist() if problem is not None and names else ()
    states = dict(zip(map(str, names), ids))
    found = {"state": states, "action": actions, "next_state": states}
    return {column: numbers for column, numbers in found.items() if numbers}


def _numbered(column: Any, numbers: Mapping[str, int], name: str) -> Any:
    """A column whose names are replaced by their numbers; one of numbers is left as it is."""
    array = np.asarray(column)
    if array.dtype.kind not in "UOT":
        return column
    found = np.empty(array.shape, np.int64)
    for row, entry in enumerate(map(str, array)):
        try:
            found[row] = numbers[entry] if entry in numbers else int(entry)
        except (ValueError, OverflowError):
            words = f"column {name}, row {row + 1}: {short_repr(entry)} is neither a number nor a name"
            raise UnknownNameError(f"{words}; {suggestion(entry, numbers)}") from None
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for any
        return False


def _columns(
    source: Any, names: dict[str, str], named: Mapping[str, Mapping[str, int]]
) -> dict[str, Int[np.ndarray, " N"]]:
    """The columns as whole numbers, all of one length; `named` tells the numbers of names."""
    if isinstance(source, (str, PathLike)):
        path = Path(fspath(source))
        if not _is_file(path):
            raise UnknownNameError(f"there is no file {shorten(path)}")
        kind = path.suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise OptionError(f"{path} is neither .csv nor .parquet; give the columns as arrays instead")
        called = list(names.values())
        found = _from_csv(path, called, bool(named)) if kind == ".csv" else _from_parquet(path, called)
    else:
        found = [_column(source, name) for name in names.values()]
    if named:
        found = [_numbered(x, named.get(key, {}), key) for key, x in zip(names, found)]
    columns = {key: check_integers(x, f"column {name}") for (key, name), x in zip(names.items(), found)}
    shapes = {x.shape for x in columns.values()}
    if len(shapes) > 1 or columns["step"].ndim != 1 or not columns["step"].size:
        raise ShapeError(f"the columns have shapes {sorted(shapes)}; they must be of one length, at least 1")
    return {key: x.astype(np.int64) for key, x in columns.items()}


def _flags(source: Any, name: str, size: int, *, is_named: bool) -> Bool[np.ndarray, " N"] | None:
    """A column of truth values; None where it is missing and was not asked for by name."""
    try:
        if isinstance(source, (str, PathLike)):
            path = Path(fspath(source))
            is_csv = path.suffix.lower() == ".csv"
            found = _from_csv(path, [name], True)[0] if is_csv else _from_parquet(path, [name])[0]
        else:
            found = _column(source, name)
    except UnknownNameError:
        if is_named:
            raise
        return None
    texts = [str(x).strip().lower() for x in np.asarray(found).ravel()]
    odd = next((row for row, x in enumerate(texts) if x not in FLAGS), None)
    if odd is not None:
        raise ShapeError(
            f"column {name}, row {odd + 1}: {short_repr(texts[odd])} is none of {', '.join(FLAGS)}"
        )
    if len(texts) != size:
        raise ShapeError(f"column {name} has {len(texts)} entries; the others have {size}")
    return np.array([FLAGS[x] for x in texts])


def _column(source: Any, name: str) -> Any:
    try:
        return source[name]
    except (KeyError, IndexError, TypeError, ValueError):
        raise UnknownNameError(
            f"the log has no column {name!r}; it needs {', '.join(COLUMNS)}, or columns= to say what they are called"
        ) from None


def _from_csv(path: Path, names: list[str], is_text: bool) -> list[np.ndarray]:
    """Columns of a file with a header: of whole numbers, or of text, in which names may stand."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = [x.strip() for x in next(csv.reader(file), [])]
            place = [_column({x: i for i, x in enumerate(header)}, name) for name in names]
            lines = file.readlines()
            if not any(line.strip() for line in lines):
                raise ShapeError(f"{path} has no rows below its header; a log has at least 1")
            kind: Any = str if is_text else np.int64
            table = np.loadtxt(
                lines, kind, delimiter=",", usecols=place, quotechar='"', ndmin=2, comments=None
            )
    except (HorizonfreeError, OSError):
        raise
    except ValueError as error:  # UnicodeDecodeError is one
        raise ShapeError(f"{path} is no table of whole numbers: {error}") from None
    return list(table.T.reshape(len(names), -1))


def _from_parquet(path: Path, names: list[str]) -> list[Any]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise OptionError(
            f"{path} can be read with pyarrow, which is not installed; pip install pyarrow, or save it as .csv"
        ) from None
    try:
        table = parquet.read_table(path)
    except Exception as error:  # whatever it says of a broken file
        raise ShapeError(f"{path} is no Parquet file: {error}") from None
    return [_column(table, name).to_numpy() for name in names]


def _arranged(columns: dict[str, Int[np.ndarray, " N"]], terminated: Bool[np.ndarray, " N"] | None) -> Log:
    """Rows by episode and step; refuses steps that are missing or there twice, and states that do not follow."""
    _, first, which = np.unique(columns["episode"], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    order = np.lexsort((columns["step"], rank[which]))
    lengths = np.bincount(rank[which])
    rows = {name: columns[name][order] for name in COLUMNS}
    log = Log(**rows, lengths=lengths, terminated=None if terminated is None else terminated[order])
    for name in COLUMNS[2:]:
        bad = np.flatnonzero(getattr(log, name) < 0)
        if bad.size:
            raise ShapeError(
                f"{log.where(int(bad[0]))}: {name} is {getattr(log, name)[bad[0]]}; it must be 0 or more"
            )
    _check_steps(log)
    goes_on = np.append(log.episode[1:] == log.episode[:-1], False)
    torn = np.flatnonzero(goes_on & (log.next_state != np.roll(log.state, -1)))
    if torn.size:
        row = int(torn[0])
        raise ShapeError(
            f"{log.where(row)}: next_state is {log.next_state[row]}, but step {log.step[row + 1]} is in state "
            f"{log.state[row + 1]}"
        )
    early = np.flatnonzero(goes_on & (False if log.terminated is None else log.terminated))
    if early.size:
        row = int(early[0])
        raise ShapeError(
            f"{log.where(row)}: terminated is true, but the episode goes on with step {log.step[row + 1]}"
        )
    return log


def _check_steps(log: Log) -> None:
    """Steps of every episode are origin, origin + 1, .., one each; all episodes count from the same origin."""
    origin = log.step.min()
    position = np.arange(len(log.step)) - np.repeat(np.cumsum(log.lengths) - log.lengths, log.lengths)
    odd = np.flatnonzero(log.step != origin + position)
    if not odd.size:
        return
    row = int(odd[0])
    name, step = log.episode[row], log.step[row]
    if position[row] == 0:
        raise ShapeError(
            f"episode {name} begins with step {step}, another with step {origin}; all must begin alike"
        )
    before = log.step[row - 1]
    if step == before:
        raise ShapeError(f"episode {name} has step {step} more than once")
    raise ShapeError(f"episode {name} goes from step {before} to step {step}; no step may be missing")


def _episodes(log: Log) -> Episodes:
    """States and actions of every episode."""
    ends = np.cumsum(log.lengths)
    spans = [slice(int(begin), int(end)) for begin, end in zip(ends - log.lengths, ends)]
    states = [np.append(log.state[rows], log.next_state[rows.stop - 1]) for rows in spans]
    return states, [log.action[rows] for rows in spans]


def _after_a_draw(episodes: Episodes, world: Problem) -> Episodes:
    """From the state that is added to the world for an unknown start.

    There it makes no difference what is done. Every action is taken in turn, so that something is learnt of each.
    """
    states, actions = episodes
    first, A = world.num_states - 1, world.num_actions
    return [np.append(first, s) for s in states], [np.append(k % A, a) for k, a in enumerate(actions)]
