"""Rows of a log by label: which column is which, states made of several columns, and bins of real numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._validation import check_count, check_floats, did_you_mean, require, short_repr, suggestion
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.problems.classes import UNKNOWN
from horizonfree.runs import log_table
from horizonfree.runs.log_table import Labels, Source, listed

COLUMNS = ("episode", "step", "state", "action", "next_state")
OPTIONAL = ("step", "next_state", "terminated", "reward", "cost")
ROLES = (*COLUMNS, "terminated", "reward", "cost")
QUANTILE_SHARE = 10  # one episode in so many sets the quantiles of bins, and is not counted
BINNED = (
    "the next bins depend on the bins and the action alone (binning {columns} is an assumption, not a fact)"
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a log in the order of the source, by label; codes are -1 where an entry is missing."""

    episode: Labels
    step: Int[np.ndarray, " N"]
    state: Labels
    action: Labels
    next_state: Int[np.ndarray, " N"] | None  # codes of `state`
    terminated: Bool[np.ndarray, " N"] | None
    reward: Float[np.ndarray, " N"] | None  # NaN where it is missing
    notes: list[str]
    assumes: list[str]

    def where(self, row: int) -> str:
        """A row in words."""
        return f"row {row + 1} (episode {self.episode.labels[self.episode.code[row]]})"


def roles_of(columns: Any) -> dict[str, list[str] | None]:
    """The columns of each role, as they were named; None for a step that is not there."""
    settings = {} if columns is None else columns
    if not isinstance(settings, Mapping) or not set(settings) <= set(ROLES):
        odd = sorted(set(settings) - set(ROLES), key=str)[0] if isinstance(settings, Mapping) else settings
        meaning = (
            f"a dictionary from some of {', '.join(ROLES)} to names of columns{did_you_mean(odd, ROLES)}"
        )
        require(False, "columns", columns, meaning)
    roles: dict[str, list[str] | None] = {}
    for role, names in settings.items():
        listed_names = [names] if isinstance(names, str) else names
        if names is None and role == "step":
            roles[role] = None
            continue
        is_list = (
            isinstance(listed_names, (list, tuple))
            and len(listed_names) > 0
            and all(isinstance(x, str) for x in listed_names)
        )
        require(is_list, f"columns[{role!r}]", names, "the name of a column, or a list of names")
        roles[role] = list(listed_names)
    return roles


def read_rows(source: Any, roles: dict[str, list[str] | None], bins: Any) -> Rows:
    """The rows of a source as labels and numbers."""
    table = Source(source)
    notes: list[str] = []
    result: dict[str, list[str]] = {}
    for role in ROLES:
        names = roles.get(role, [role])
        if names is None or (role in OPTIONAL and role not in roles and role not in table):
            continue
        for name in names:
            if name not in table:
                names_text = f" has {listed(map(repr, table.names), 12)} and" if table.names else ""
                hint = did_you_mean(name, table.names or ())
                missing = [x for x in ROLES if x not in OPTIONAL and x not in roles and x not in table]
                roles_named = missing if role in missing else [role]
                python, shell = (
                    ", ".join(f"{x!r}: .." for x in roles_named),
                    ",".join(f"{x}=.." for x in roles_named),
                )
                raise UnknownNameError(
                    f"the log{names_text} has no column {name!r}; it needs episode, state and action; "
                    f"where they have other names, say so: columns={{{python}}}, "
                    f"on the command line --columns {shell}{hint}"
                )
        result[role] = names
    sizes = {name: len(table.column(name)) for names in result.values() for name in names}
    size = max(sizes.values())
    if len(set(sizes.values())) > 1 or size == 0:
        raise ShapeError(f"the columns have lengths {sizes}; they must be of one length, at least 1")
    (episode,) = (_single(table, result, "episode"),)
    if "step" in result:
        step = log_table.steps_of(table.column(result["step"][0]), result["step"][0], episode.code)
    else:
        step = _in_order(episode.code)
        notes.append("there is no column 'step': the rows of an episode are taken as its steps, in order")
    if "next_state" not in result:
        notes.append("there is no column 'next_state': it is the state of the next step")
    cells = Bins(bins, result, episode)
    state, next_state = (
        cells.labels(table, "state"),
        cells.labels(table, "next_state") if "next_state" in result else None,
    )
    labels = _union(state, next_state)
    terminated = None
    if "terminated" in result:
        name = result["terminated"][0]
        terminated = log_table.flags_of(table.column(name), name)
    return Rows(
        cells.without_training(episode),
        step,
        Labels(state.recoded(labels), labels, state.is_complete),
        cells.labels(table, "action"),
        None if next_state is None else next_state.recoded(labels),
        terminated,
        _rewards(table, result, roles),
        notes + cells.notes,
        cells.assumes,
    )


def _rewards(
    table: Source, columns: Mapping[str, list[str]], roles: Mapping[str, Any]
) -> Float[np.ndarray, " N"] | None:
    """The column of rewards, or of costs with the other sign; one that was not asked for must hold numbers."""
    role = next((x for x in ("reward", "cost") if x in columns), None)
    if role is None:
        return None
    name = columns[role][0]
    try:
        values = log_table.reals_of(table.column(name), name)
    except ShapeError:
        if role in roles:
            raise
        return None
    return -values if role == "cost" else values


def _single(table: Source, columns: Mapping[str, list[str]], role: str) -> Labels:
    """Labels of the columns of a role, each row's entries joined."""
    parts = [log_table.labels_of(table.column(name), name, table.categories(name)) for name in columns[role]]
    return _join_labels(parts, columns[role])


def _join_labels(parts: Sequence[Labels], names: Sequence[str], is_binned: Sequence[bool] = ()) -> Labels:
    """Rows by the labels of several columns: "high, status 3"; those that occur."""
    if len(parts) == 1:
        return parts[0]
    code = np.stack([x.code for x in parts], axis=1)
    is_missing = (code < 0).any(1)
    distinct, which = np.unique(code[~is_missing], axis=0, return_inverse=True)
    texts = [
        ", ".join(
            f"{name} {x.labels[c]}" if isinstance(x.labels[c], int) else str(x.labels[c])
            for x, name, c in zip(parts, names, row)
        )
        for row in distinct
    ]
    joined = np.full(len(code), -1, np.int64)
    joined[~is_missing] = which.ravel()
    return Labels(joined, texts)


def _union(state: Labels, next_state: Labels | None) -> list[Any]:
    """The labels of states and next states: numbers where all are, else text; declared ones in their order."""
    if next_state is None or state.is_complete:
        extra = [] if next_state is None else [x for x in next_state.labels if x not in state.labels]
        if not extra:
            return state.labels
        raise ShapeError(
            f"next_state {extra[0]!r} is none of the {len(state.labels)} categories of state; add it to the categories"
        )
    if state.are_numbers and next_state.are_numbers:
        return sorted({*state.labels, *next_state.labels})
    return sorted({*map(str, state.labels), *map(str, next_state.labels)})


def _in_order(episode: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """0, 1, .. along the rows of each episode."""
    order = np.argsort(episode, kind="stable")
    begins = np.append(True, np.diff(episode[order]) != 0)
    index = np.arange(len(episode))
    result = np.empty(len(episode), np.int64)
    result[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return result


class Bins:
    """Columns of real numbers as labelled bins. A column of next states has the bins of the column of states.

    Quantiles are those of the first tenth of the episodes. These are not counted: bins that depend on the transitions
    that are counted would void the proof.
    """

    def __init__(self, bins: Any, columns: Mapping[str, list[str]], episode: Labels) -> None:
        settings = {} if bins is None else bins
        require(isinstance(settings, Mapping), "bins", bins, "a dictionary, such as {'temperature': 5}")
        used_names = {name for role in ("state", "action") for name in columns[role]}
        for name in settings:
            if name not in used_names:
                raise OptionError(
                    f"bins[{name!r}]: no state or action is made of this column; {suggestion(str(name), used_names)}; "
                    "name the columns of a state with columns={'state': [..]}"
                )
        self.bins, self.columns = settings, columns
        self.notes: list[str] = []
        self.assumes: list[str] = []
        self._edges: dict[str, Float[np.ndarray, " n"]] = {}
        self._training = np.zeros(len(episode.code), bool)
        if any(not np.iterable(x) for x in settings.values()):
            self._train(episode)
        if settings:
            self.assumes = [BINNED.format(columns=" and ".join(map(str, settings)))]

    def _train(self, episode: Labels) -> None:
        """Set apart the first tenth of the episodes."""
        _, first = np.unique(episode.code[episode.code >= 0], return_index=True)
        codes = episode.code[episode.code >= 0][np.sort(first)]
        if len(codes) < 2:
            raise OptionError(
                "bins by quantiles need two episodes or more: the first ones set the edges and are not counted; give "
                "the edges instead, bins={'temperature': [20, 40]}"
            )
        first_codes = codes[: math.ceil(len(codes) / QUANTILE_SHARE)]
        self._training = np.isin(episode.code, first_codes)
        self.notes = [
            f"the first {len(first_codes):,} of {len(codes):,} episodes set the quantiles of the bins "
            "and are not counted"
        ]

    def without_training(self, episode: Labels) -> Labels:
        """Episodes without those that set the quantiles."""
        return (
            replace(episode, code=np.where(self._training, -2, episode.code))
            if self._training.any()
            else episode
        )

    def labels(self, table: Source, role: str) -> Labels:
        """The labels of a role, binned where that is asked for."""
        names = self.columns[role]
        like = self.columns["state"] if role == "next_state" else names
        if len(like) != len(names):
            raise OptionError(
                f"next_state has {len(names)} columns and state has {len(like)}; name as many, in the same order, or "
                "leave next_state out: it is then taken from the next step"
            )
        parts = [self._part(table, name, like_name) for name, like_name in zip(names, like)]
        return _join_labels(parts, like)

    def _part(self, table: Source, name: str, like_name: str) -> Labels:
        array = table.column(name)
        if like_name not in self.bins:
            return log_table.labels_of(array, name, table.categories(name))
        x = log_table.reals_of(array, name)
        if like_name not in self._edges:
            self._edges[like_name] = self._edges_of(like_name, x)
        edges = self._edges[like_name]
        texts = [f"{e:g}" for e in edges]
        labels = [
            f"{like_name} below {texts[0]}",
            *(f"{like_name} {low} to {high}" for low, high in pairwise(texts)),
            f"{like_name} {texts[-1]} or more",
        ]
        code = np.where(np.isnan(x), -1, np.searchsorted(edges, x, side="right"))
        return Labels(code, labels, is_complete=True)

    def _edges_of(self, name: str, x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " n"]:
        """Inner edges: as given, or quantiles rounded to three digits."""
        bins = self.bins[name]
        if np.iterable(bins):
            edges = check_floats(bins, f"bins[{name!r}]")
            is_increasing = (
                edges.ndim == 1 and edges.size and np.isfinite(edges).all() and (np.diff(edges) > 0).all()
            )
            require(is_increasing, f"bins[{name!r}]", bins, "inner edges, finite and increasing")
            return edges
        n = check_count(bins, f"bins[{name!r}]")
        values = x[self._training & ~np.isnan(x)]
        require(n >= 2 and values.size, f"bins[{name!r}]", n, "2 or more, with entries in the first episodes")
        inner = np.quantile(values, np.arange(1, n) / n)
        return np.unique([float(f"{e:.3g}") for e in inner])


def find_state(thing: Any, names: Sequence[str] | None, size: int, what: str) -> int:
    """A state by its name or its number."""
    text = thing if isinstance(thing, str) else short_repr(getattr(thing, "tolist", lambda: thing)())
    if names is not None and text in names:
        return list(names).index(text)
    if names is None:
        text = text.removeprefix("state ")
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(size))
    number = int(text) if is_number else -1
    if names is not None or not 0 <= number < size:
        advice = suggestion(text, names) if names else f"states are 0 to {size - 1}"
        raise UnknownNameError(f"{what}: there is no state {short_repr(thing)}; {advice}")
    return number


def find_start(start: Any, names: Sequence[str] | None, S: int, first: Int[np.ndarray, " K"]) -> Any:
    """A state, a distribution over states or "unknown", by name or by number."""
    if isinstance(start, Mapping):
        result, shares = np.zeros(S), check_floats(list(start.values()), "start")
        require(shares.ndim == 1, "start", start, "one probability for each state", ShapeError)
        for name, p in zip(start, shares):
            result[find_state(name, names, S, "start")] += p
        return result
    if start is not None:
        if isinstance(start, str) and start == UNKNOWN:
            return start
        is_distribution = isinstance(start, (list, tuple)) or (
            isinstance(start, np.ndarray) and start.ndim > 0
        )
        return start if is_distribution else find_state(start, names, S, "start")
    counts = np.bincount(first, minlength=S)
    if (counts > 0).sum() == 1:
        return int(first[0])
    order = np.argsort(-counts, kind="stable")[: (counts > 0).sum()]
    texts = [f"{names[s] if names else s} ({counts[s]:,})" for s in order]
    example = repr(names[order[0]] if names else int(order[0]))
    raise OptionError(
        f"the episodes start in {len(texts)} different states: {listed(texts)}. Say from which one plans are to be "
        f"made, start={example}; or with which probabilities, start={{{example}: 1.0}}; or that these are unknown, "
        f"start={UNKNOWN!r}"
    )
