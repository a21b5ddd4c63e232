"""Episodes that were recorded elsewhere, as a run that plans and certifies.

Repeated episodes in a log are detected, since certificates count a copy as a new observation and may then be false. Two
tests, each with a false-alarm probability of about 1e-6 for episodes that are independent draws:

- the whole log was copied k times, in any order: all counts of the D distinct episodes are multiples of k >= 2,
  which has a probability of about k^-(D-1) where transitions are random;
- a block of consecutive episodes occurs twice, and the probability of its starts and transitions, by their
  frequencies in the log, is below 1e-6 / K^2. Actions are not part of it, since a policy may repeat them on
  purpose. Likely episodes at the ends of a block are not counted.

Episodes that agree because few transitions are possible pass both tests.
"""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._jit import jit
from horizonfree._validation import (
    check_count,
    check_instance,
    check_integers,
    check_real,
    require,
    require_entries,
    require_shape,
)
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import LogWarning, ModelError, OptionError, ShapeError
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.space import IMPOSSIBLE, UNSEEN, Space, Trajectory
from horizonfree.models.base import Evidence, Model
from horizonfree.problems.endings import NEVER, endings_of, has_copy
from horizonfree.problems.problem import Problem
from horizonfree.runs.run import Run

FALSE_ALARM = 1e-6  # the probability of each test, approximately


def num_repeated(
    s: Int[np.ndarray, "K H1"], a: Int[np.ndarray, "K H"], is_seen: Bool[np.ndarray, "K H"]
) -> int:
    """How many episodes of a log are copies of others, beyond what chance explains.

    is_seen: which transitions were observed.
    """
    (K, H), rng = a.shape, np.random.default_rng(0)
    # states of observed transitions
    is_known = np.pad(is_seen, ((0, 0), (0, 1))) | np.pad(is_seen, ((0, 0), (1, 0)))
    rows = np.concatenate([np.where(is_known, s, -1), np.where(is_seen, a, -1)], axis=1)
    weights = rng.integers(2**63, size=2 * H + 1, dtype=np.uint64)
    keys = rows.astype(np.uint64) @ weights  # a hash of each episode
    _, first, block, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    distinct_log_p = _log_probability(s[first], a[first], is_seen[first], counts)
    k, threshold = math.gcd(*counts.tolist()), math.log(FALSE_ALARM)
    if k > 1 and distinct_log_p.sum() < threshold and -(len(counts) - 1) * math.log(k) < threshold:
        return int(K - K // k)
    rare = threshold - 2 * math.log(K)
    episode_log_p = distinct_log_p[block]
    log_p = np.cumsum(np.r_[0.0, episode_log_p])
    steps, width = np.zeros(K + 1, int), 1  # +1 at the first episode of a copied block, -1 after its last
    while True:
        starts = np.flatnonzero(log_p[width:] - log_p[:-width] < rare)
        _, earliest, which = np.unique(block[starts], return_index=True, return_inverse=True)
        # compared by number of the episode, not by place in `starts`
        copies = starts[starts >= starts[earliest[which]] + width]
        # A rare block contains an episode this rare. Likelier ones at its ends may agree with others by chance.
        rarer = np.flatnonzero(episode_log_p < rare / (2 * width))
        np.add.at(steps, rarer[np.searchsorted(rarer, copies)], 1)
        np.add.at(steps, rarer[np.searchsorted(rarer, copies + width) - 1] + 1, -1)
        if 4 * width > K:
            return int((np.cumsum(steps) > 0).sum())
        # A block of twice the width is a pair of blocks.
        pairs = block[:-width].astype(np.int64) * (block.max() + 1) + block[width:]
        block, width = np.unique(pairs, return_inverse=True)[1], 2 * width


def _log_probability(
    s: Int[np.ndarray, "D H1"],
    a: Int[np.ndarray, "D H"],
    is_seen: Bool[np.ndarray, "D H"],
    counts: Int[np.ndarray, " D"],
) -> Float[np.ndarray, " D"]:
    """The log-probability of each distinct episode given its actions; a successor seen n times in N visits has
    probability n / (N + 1)."""
    weight = np.broadcast_to(counts[:, None], a.shape)[is_seen]
    state, action, successor = s[:, :-1][is_seen], a[is_seen], s[:, 1:][is_seen]
    result = np.zeros(a.shape)
    result[is_seen] = _log_frequency(state * (a.max() + 1) + action, successor, weight)
    start = _log_frequency(np.zeros(len(s), np.int64), s[:, 0], counts)
    return np.asarray(start + result.sum(1))


def _log_frequency(
    condition: Int[np.ndarray, " m"], outcome: Int[np.ndarray, " m"], weight: Int[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """log n(condition, outcome) / (n(condition) + 1)."""
    if not condition.size:
        return np.zeros(0)
    joint = condition * (outcome.max() + 1) + outcome
    totals = []
    for key in (joint, condition):
        _, which = np.unique(key, return_inverse=True)
        totals.append(np.bincount(which, weight)[which])
    return np.asarray(np.log(totals[0]) - np.log(totals[1] + 1))


@dataclass(frozen=True, eq=False)
class Episodes:
    """Recorded episodes in arrays of one length; `is_seen`: which transitions were observed, the others are padding.

    `starts_anywhere`: episodes may begin in any state, as in a class for which only transitions count.
    """

    s: Int[np.ndarray, "K H1"]
    a: Int[np.ndarray, "K H"]
    is_seen: Bool[np.ndarray, "K H"]
    starts_anywhere: bool = False

    @property
    def length(self) -> Int[np.ndarray, " K"]:
        """The number of steps of each episode up to its last observed transition."""
        H = self.is_seen.shape[1]
        return np.where(self.is_seen.any(1), H - self.is_seen[:, ::-1].argmax(1), 0)


@jit
def _init_evidence(model: Model, budget: int | None) -> Evidence:
    """Evidence before the first episode with its history, as one program."""
    evidence: Evidence = model.init_evidence(ladder(budget, model.burn_in), has_history=True)
    return evidence


def from_episodes(problem: Problem, episodes: Any, *, ended: Any = None, budget: int | None = None) -> Run:
    """A run made of recorded episodes in their order, whatever policy they were recorded with.

    episodes: a pair of arrays, states [K, H+1] and actions [K, H]; the result of `simulate`, or `run.log`. Episodes may
    be shorter: all of them, states [K, L+1] and actions [K, L], or each by itself, in two lists; steps that were not
    observed count for nothing. The policy of an episode, and when its record stops, may depend on what was observed
    before and on nothing later, and no episode may be left out because of its content. Transitions that no parameter
    explains are kept and lead to "model rejected". budget: as for `explore`; it must have been fixed before the data
    were seen.

    ended: [K], for each episode whether the system ended it (`terminated`) in its last state. Without it no episode was
    ended: the rest of a short episode was not observed (`truncated`). It is an error if an episode ended in a state
    that the problem does not allow to be final, or that other episodes leave. Where the problem has states that may
    end an episode or not, and an episode stops in one of them, `ended` must be given.

    >>> import numpy as np, horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> states = np.zeros((100, 9), int)  # [K, H+1]
    >>> actions = np.zeros((100, 8), int)  # [K, H]
    >>> hf.from_episodes(problem, (states, actions)).episodes
    100
    """
    check_instance(problem, Problem, "the problem")
    rows = _rows(problem.space, episodes)
    if isinstance(episodes, Trajectory) and ended is None:  # simulated: states show whether an episode ended
        ended = np.zeros(len(rows.s), bool)
    return run_of(problem, rows, ended, budget)


@x64
def run_of(problem: Problem, rows: Episodes, ended: Any = None, budget: int | None = None) -> Run:
    """The run of recorded episodes; ended, budget: as for `from_episodes`."""
    is_ended = _is_ended(problem, rows, ended)
    _warn_of_copies(rows)
    trajectories = _with_ends(problem, _trajectories(problem.space, rows), rows.length, is_ended)
    budget = None if budget is None else check_count(budget, "budget")
    model = to_device(problem.model)
    evidence = _replay(model, _init_evidence(model, budget), to_device(trajectories))
    return Run(problem, None, 0, to_numpy(evidence), None, {}, is_simulated=False, log=trajectories)


def _warn_of_copies(rows: Episodes) -> None:
    copies = num_repeated(rows.s, rows.a, rows.is_seen)
    if copies:
        warnings.warn(
            LogWarning(
                f"{copies:,} of {len(rows.a):,} episodes are exact copies of others, more than chance explains; each "
                "counts as a new observation, so certificates may be false: remove the copies, unless every one of "
                "these episodes was really observed"
            ),
            stacklevel=5,
        )


@x64
def evidence_after(problem: Problem, evidence: Evidence, episodes: Trajectory) -> Evidence:
    """The evidence after further episodes of a problem."""
    updated: Evidence = to_numpy(_replay(*to_device((problem.model, evidence, episodes))))
    return updated


@eqx.filter_jit
def _replay(model: Model, first: Evidence, trajectories: Trajectory) -> Evidence:
    return jax.lax.scan(lambda evidence, x: (model.update(evidence, x), None), first, trajectories)[0]


def _rows(space: Space, episodes: Any) -> Episodes:
    """States [K, H+1] and actions [K, H] as they are given, shorter episodes padded."""
    if isinstance(episodes, Trajectory):
        rows = _rows(space, (episodes.s, episodes.a))
        is_seen = np.asarray(episodes.j) != UNSEEN
        is_seen = np.pad(is_seen, ((0, 0), (0, space.horizon - is_seen.shape[1])))
        return replace(rows, is_seen=rows.is_seen & is_seen)
    if not isinstance(episodes, (tuple, list)) or len(episodes) != 2:
        raise ShapeError("episodes must be a pair of arrays, states [K, H+1] and actions [K, H]")
    H = space.horizon
    (s, states_per_episode), (a, actions_per_episode) = (
        _pad_rows(x, name) for x, name in zip(episodes, ("states", "actions"))
    )
    if (
        s.ndim != 2
        or a.ndim != 2
        or s.shape != (len(a), a.shape[1] + 1)
        or not len(a)
        or not 0 < a.shape[1] <= H
    ):
        raise ShapeError(
            f"states has shape {s.shape}, actions {a.shape}; they must be [K, H+1]=(K, {H + 1}) and [K, H]=(K, {H}), "
            "or shorter, with one state more than there are actions"
        )
    odd = np.flatnonzero(states_per_episode != actions_per_episode + 1)
    if odd.size:
        k = int(odd[0])
        raise ShapeError(
            f"episode {k} has {states_per_episode[k]} states and {actions_per_episode[k]} actions; "
            "it must have one state more than actions"
        )
    padding = ((0, 0), (0, H - a.shape[1]))
    return Episodes(
        np.pad(s, padding, "edge"), np.pad(a, padding), np.arange(H) < actions_per_episode[:, None]
    )


def _pad_rows(x: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of whole numbers, padded with zeros to one length, and their lengths."""
    if not isinstance(x, (tuple, list)) or len({np.size(row) for row in x}) <= 1:
        table = check_integers(x, name)
        return table, np.full(len(table) if table.ndim else 0, table.shape[-1] if table.ndim else 0)
    rows = [check_integers(row, f"{name}[{k}]") for k, row in enumerate(x)]
    for k, row in enumerate(rows):
        require_shape(row.ndim == 1, f"{name}[{k}]", row.shape, f"the {name} of one episode")
    lengths = np.array([len(row) for row in rows])
    table = np.zeros((len(rows), lengths.max()), np.int64)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return table, lengths


def _trajectories(space: Space, rows: Episodes) -> Trajectory:
    """Episodes with the successor slot of each step; UNSEEN where the transition was not observed."""
    S, A = space.num_states, space.num_actions
    s, a, is_seen = rows.s, rows.a, rows.is_seen
    for name, x, size in (("states", s, S), ("actions", a, A)):
        require_entries((x >= 0) & (x < size), name, x, f"{name} are 0 to {size - 1}")
    bad = np.argwhere(is_seen & ~is_allowed(space)[s[:, :-1], a])
    if bad.size:
        k, h = bad[0]
        raise ModelError(
            f"actions[{k}, {h}] is {a[k, h]}, which state {s[k, h]} does not allow; it happened, so allow it"
        )
    odd = np.flatnonzero(~space.starts()[s[:, 0]])
    if odd.size and not rows.starts_anywhere:
        k = int(odd[0])
        where = "elsewhere" if space.start is None else f"in {space.start}"
        raise ModelError(f"episode {k} starts in state {s[k, 0]}; the problem starts {where}")
    j = np.where(is_seen, _slots(space, s, a), UNSEEN)
    return Trajectory(*(x.astype(np.int32) for x in (s, a, j)))


def _is_ended(problem: Problem, rows: Episodes, ended: Any) -> Bool[np.ndarray, " K"]:
    """Which episodes the system ended."""
    K = len(rows.s)
    if ended is None:
        last, may_end_or_not = rows.s[np.arange(K), rows.length], np.flatnonzero(has_copy(problem.layout))
        undecided = np.flatnonzero(np.isin(last, may_end_or_not))
        if undecided.size:
            k = int(undecided[0])
            raise OptionError(
                f"episode {k} stops in {problem.state_name(int(last[k]))}, where an episode may end or go on; say "
                "which episodes ended: ended=[..], True or False for each"
            )
        return np.zeros(K, bool)
    flags = check_real(ended, "ended")
    require(
        flags.shape == (K,) and flags.dtype == bool,
        "ended",
        ended,
        f"True or False for each of the {K} episodes",
        ShapeError,
    )
    return flags


def _with_ends(
    problem: Problem, episodes: Trajectory, length: np.ndarray, is_ended: Bool[np.ndarray, " K"]
) -> Trajectory:
    """Episodes in which those that ended stay in the final state that the problem has for it.

    It is an error if one ended in a state that cannot be final, or that another one leaves.
    """
    if not is_ended.any():
        return episodes
    s, a, j = (np.array(x) for x in (episodes.s, episodes.a, episodes.j))
    k = np.flatnonzero(is_ended)
    last = length[k]
    final = endings_of(problem.model, problem.layout).after[s[k, last]]
    bad = np.flatnonzero(final == NEVER)
    if bad.size:
        where = problem.state_name(int(s[k[bad[0]], last[bad[0]]]))
        raise ModelError(
            f"episode {k[bad[0]]} ended in {where} after {last[bad[0]]} steps, but no episode of this problem can end "
            "there; make that state absorbing in the problem, or give ended episodes states of their own"
        )
    for episode, h, state in zip(k, last, final):
        s[episode, h:] = state
    j = np.where(j == UNSEEN, UNSEEN, _slots(problem.space, s, a))
    departures = np.argwhere((s[:, :-1] != s[:, 1:]) & np.isin(s[:, :-1], final) & (j != UNSEEN))
    if departures.size:
        episode, h = departures[0]
        raise ModelError(
            f"episode {episode} goes on from {problem.state_name(int(s[episode, h]))} at step {h + 1}, but another "
            "episode ended there: these are two states; use hf.Tabular(.., terminal='unknown'), in which every state "
            "may end an episode or not"
        )
    return Trajectory(*(x.astype(np.int32) for x in (s, a, j)))


def _slots(space: Space, s: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The slot of each state in the successor list of the state and action before."""
    support, pair = np.asarray(space.support), (s[:, :-1], a)
    if space.is_dense:
        return np.where(support[*pair, s[:, 1:]], s[:, 1:], IMPOSSIBLE)
    hit = (np.asarray(space.succ)[pair] == s[:, 1:, None]) & support[pair]
    return np.where(hit.any(-1), hit.argmax(-1), IMPOSSIBLE)
