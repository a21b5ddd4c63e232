"""A Markov decision process state by state, as the explicit files of model checkers hold it.

Choices of a state and branches of a choice lie one after the other: the choices of state s are those from
`first_choice[s]` to `first_choice[s + 1]`, the branches of choice c those from `first_branch[c]` to
`first_branch[c + 1]`. Probabilities are intervals [low, high]; where both ends are equal everywhere, it is an MDP,
else an interval MDP.

Bounded properties are computed by backward induction over choices c:

    V_0 = what is paid at the end,   V_{j+1}(s) = opt_c [ r(c) + extreme over p in the intervals of c of p.V_j ],

where states in which a property is decided keep their value. The extreme over intervals [low, high] with sum p = 1
gives every branch `low` and the rest of the mass to the best branches in order (or the worst).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # loads `scipy.sparse` when it is asked for
from jaxtyping import Bool, Float, Int

from horizonfree._repr import ReprMixin, ReprTable, join_names
from horizonfree._validation import check_choice, short_repr
from horizonfree.errors import KernelError, OptionError, ShapeError
from horizonfree.mdp.events import OPEN, WON, Event
from horizonfree.mdp.names import LABELLED, LABELS, PAID, REWARDS
from horizonfree.mdp.space import TOLERANCE
from horizonfree.problems.problem import Problem
from horizonfree.problems.verification import properties
from horizonfree.problems.verification.properties import Accumulated

MAX_MODEL_SIZE = 2**24  # states, choices or branches of a file
UNNAMED = ("", "__NOLABEL__")  # how files name choices that have no name


@dataclass(frozen=True, eq=False, repr=False)
class ExplicitModel(ReprMixin):
    """An MDP or an interval MDP: what `read_drn` and `read_umb` return and `Run.to_drn` and `Run.to_umb` write.

    `actions`: the name of each choice, or empty. `labels`: sets of states by name. Rewards by name: `state_rewards`
    are paid when a state is left, `choice_rewards` when a choice is taken. `states`: names of the states, or empty.
    """

    initial: Bool[np.ndarray, " S"]
    first_choice: Int[np.ndarray, " S1"]
    first_branch: Int[np.ndarray, " C1"]
    target: Int[np.ndarray, " B"]
    low: Float[np.ndarray, " B"]
    high: Float[np.ndarray, " B"]
    actions: Sequence[str] = ()
    labels: Mapping[str, Bool[np.ndarray, " S"]] = field(default_factory=dict)
    state_rewards: Mapping[str, Float[np.ndarray, " S"]] = field(default_factory=dict)
    choice_rewards: Mapping[str, Float[np.ndarray, " C"]] = field(default_factory=dict)
    states: Sequence[str] = ()
    description: str = ""

    @property
    def num_states(self) -> int:
        """S."""
        return len(self.initial)

    @property
    def num_choices(self) -> int:
        """Choices of all states together."""
        return len(self.first_branch) - 1

    @property
    def is_interval(self) -> bool:
        """Whether some probability is an interval with two different ends."""
        return not np.array_equal(self.low, self.high)

    @property
    def state_of(self) -> Int[np.ndarray, " C"]:
        """The state of each choice."""
        return np.repeat(np.arange(self.num_states), np.diff(self.first_choice))

    @property
    def choice_of(self) -> Int[np.ndarray, " B"]:
        """The choice of each branch."""
        return np.repeat(np.arange(self.num_choices), np.diff(self.first_branch))

    @property
    def reward_names(self) -> list[str]:
        """Names of the rewards."""
        return sorted({*self.state_rewards, *self.choice_rewards})

    def rewards(self, name: str) -> Float[np.ndarray, " C"]:
        """What each choice earns: the reward of its state and its own."""
        result = np.zeros(self.num_choices)
        if name in self.state_rewards:
            result += self.state_rewards[name][self.state_of]
        if name in self.choice_rewards:
            result += self.choice_rewards[name]
        return result

    def _repr_table(self) -> ReprTable:
        """Sizes, labels and rewards."""
        lines = [
            ("states", f"{self.num_states:,}"),
            ("choices", f"{self.num_choices:,}"),
            ("transitions", f"{len(self.target):,}" + (", with intervals" if self.is_interval else "")),
            ("labels", join_names(sorted(self.labels)) or "none"),
            ("rewards", join_names(self.reward_names) or "none"),
        ]
        lines += [("about", self.description)] if self.description else []
        return ReprTable("Interval MDP" if self.is_interval else "MDP", lines)

    def value(self, text: str, *, uncertainty: str = "robust") -> float:
        """The value of a bounded property from the initial state, over all policies.

        uncertainty: where probabilities are intervals, "robust" (they are against the policy) or "cooperative".
        """

        return value(self, text, uncertainty)

    def problem(self, *, horizon: int, name: str = "explicit") -> Problem:
        """A table to be learnt, of which the possible transitions are known; of an MDP it can simulate itself.

        Intervals of an interval MDP are not used: an interval that may be 0 counts as possible, and there is no truth.
        """
        from horizonfree.problems.classes import Mixture

        action_numbers, names = numbered_actions(self.first_choice, self.actions or [""] * self.num_choices)
        prob = self.low if not self.is_interval else even(self)
        S, A = self.num_states, len(names)
        row = (self.state_of * A + action_numbers)[self.choice_of]
        table = scipy.sparse.coo_array((prob, (row, self.target)), shape=(S * A, S))
        allowed = np.zeros((S, A), bool)
        allowed[self.state_of, action_numbers] = True
        rewards = {reward: np.zeros((S, A)) for reward in self.reward_names}
        for reward, values in rewards.items():
            values[self.state_of, action_numbers] = self.rewards(reward)
        result = Mixture.from_kernels(
            [table],
            horizon=horizon,
            start=start_of(self.initial),
            weights=None if self.is_interval else [1.0],
            states=list(self.states) or None,
            actions=names,
            actions_allowed=allowed,
            name=name,
            layout=layout_of(self.labels, rewards),
        )
        return result.as_tabular(support="given")

    def to_drn(self, path: Any) -> None:
        """Write it as Storm's explicit text format."""
        from horizonfree.problems.verification.drn import write_drn

        write_drn(self, path)

    def to_umb(self, path: Any) -> None:
        """Write it as a unified Markov binary."""
        from horizonfree.problems.verification.umb import write_umb

        write_umb(self, path)


def check_model(
    model: ExplicitModel, where: str, lines: Mapping[str, Sequence[int]] | None = None
) -> ExplicitModel:
    """Refuse what is no MDP and no interval MDP, naming the first bad entry.

    where: the file that it was read from. lines: in which line each "state", "choice" and "branch" stands.
    """

    def line_text(kind: str, i: int) -> str:
        return f"{kind} {i}" + ("" if lines is None else f" (line {lines[kind][i]})")

    S, C, B = model.num_states, model.num_choices, len(model.target)
    if not S or not model.initial.any():
        raise ShapeError(f"{where} has {S} states and no initial one; it needs one at least")
    for name, first, size in (("state", model.first_choice, C), ("choice", model.first_branch, B)):
        if first[0] != 0 or first[-1] != size or (np.diff(first) < 1).any():
            bad = np.flatnonzero(np.diff(first) < 1)
            which = f"{line_text(name, int(bad[0]))} has none" if len(bad) else "they end elsewhere"
            raise ShapeError(f"{where}: each {name} needs something to follow; {which}")
    if B and not (0 <= model.target.min() and model.target.max() < S):
        b = int(np.flatnonzero((model.target < 0) | (model.target >= S))[0])
        raise ShapeError(
            f"{where}: {line_text('branch', b)} leads to state {model.target[b]}; states are 0 to {S - 1}"
        )
    is_range = (model.low >= -TOLERANCE) & (model.low <= model.high) & (model.high <= 1 + TOLERANCE)
    if not is_range.all():
        b = int(np.flatnonzero(~is_range)[0])
        raise KernelError(
            f"{where}: {line_text('branch', b)}, to state {model.target[b]}, has probability [{model.low[b]:.6g}, "
            f"{model.high[b]:.6g}]; it must be an interval in [0, 1]"
        )
    low, high = (np.add.reduceat(x, model.first_branch[:-1]) for x in (model.low, model.high))
    bad = np.flatnonzero((low > 1 + TOLERANCE) | (high < 1 - TOLERANCE))
    if bad.size:
        c = int(bad[0])
        sums = f"{low[c]:.10g}" if low[c] == high[c] else f"[{low[c]:.10g}, {high[c]:.10g}]"
        raise KernelError(
            f"{where}: the probabilities of {line_text('choice', c)}, of state {model.state_of[c]}, sum to "
            f"{sums}; that must be 1"
        )
    rewards = [*model.state_rewards.items(), *model.choice_rewards.items()]
    for name, values in rewards:
        if not np.isfinite(values).all():
            raise OptionError(f"{where}: reward {name!r} has entries that are not finite")
    return model


def numbered_actions(
    first_choice: Int[np.ndarray, " S1"], names: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """The action of each choice, and the names of the actions, in the order in which they occur.

    Of a chain, in which every state has one choice, all are the action "step".
    Choices of one state have different actions: the second of a name is called "name #2". Choices without a name are
    called "choice 0", "choice 1" by their order in the state.
    """
    index: dict[str, int] = {}
    result = np.zeros(len(names), np.int64)
    if len(names) == len(first_choice) - 1:
        return result, ["step"]
    for s in range(len(first_choice) - 1):
        times: dict[str, int] = {}
        for c in range(first_choice[s], first_choice[s + 1]):
            name = "" if names[c] in UNNAMED else names[c]
            times[name] = times.get(name, 0) + 1
            full = name if times[name] == 1 else f"{name} #{times[name]}"
            result[c] = index.setdefault(full if name else f"choice {times[name] - 1}", len(index))
    return result, list(index)


def even(model: ExplicitModel) -> Float[np.ndarray, " B"]:
    """Every branch that can have a positive probability alike."""
    is_possible = model.high > 0
    total = np.add.reduceat(is_possible.astype(float), model.first_branch[:-1])
    return np.asarray(is_possible / total[model.choice_of])


def start_of(initial: Bool[np.ndarray, " S"]) -> Any:
    """The first state, or the even distribution over several."""
    states = np.flatnonzero(initial)
    return int(states[0]) if len(states) == 1 else initial / initial.sum()


def layout_of(
    labels: Mapping[str, Bool[np.ndarray, " S"]], rewards: Mapping[str, Float[np.ndarray, "S A"]]
) -> dict[str, Any]:
    """The layout of a problem with labels, sets of states [L, S], and rewards [R, S, A]."""
    result: dict[str, Any] = {}
    if labels:
        result |= {LABELS: sorted(labels), LABELLED: np.stack([labels[name] for name in sorted(labels)])}
    if rewards:
        result |= {REWARDS: sorted(rewards), PAID: np.stack([rewards[name] for name in sorted(rewards)])}
    return result


def check_path(path: Any) -> Any:
    """A path that text or a path object names."""
    from pathlib import Path

    try:
        return Path(path).expanduser()
    except TypeError:
        raise OptionError(f"path is {short_repr(path)}; it must be the path of a file") from None


Back = Callable[[np.ndarray, int], np.ndarray]  # values of the next step, and the step, to values
UNCERTAINTY = ("robust", "cooperative")


class Lists:
    """The branches of a model as padded lists [C, n]."""

    def __init__(self, model: ExplicitModel):
        count = np.diff(model.first_branch)
        is_slot: Bool[np.ndarray, "C n"] = np.arange(count.max()) < count[:, None]

        def padded(x: np.ndarray) -> np.ndarray:
            table = np.zeros(is_slot.shape, x.dtype)
            table[is_slot] = x
            return table

        self.target = padded(model.target)
        self.low, slack = padded(model.low), padded(model.high - model.low)
        self.slack, self.is_slot = slack, is_slot
        self.left = 1 - self.low.sum(1)

    def extreme(self, V: Float[np.ndarray, " S"], is_largest: bool) -> Float[np.ndarray, " C"]:
        """The largest or smallest mean of V over the intervals of each choice."""
        v = V[self.target]
        order = np.argsort(np.where(self.is_slot, -v if is_largest else v, np.inf), axis=1, kind="stable")
        slack = np.take_along_axis(self.slack, order, 1)
        slack_before = np.cumsum(slack, 1) - slack
        added = np.clip(self.left[:, None] - slack_before, 0.0, slack)
        return np.asarray((self.low * v).sum(1) + (added * np.take_along_axis(v, order, 1)).sum(1))


def value(model: ExplicitModel, text: str, uncertainty: str = "robust") -> float:
    """The value of a property in the initial state; the mean over several, which are alike."""
    check_choice(uncertainty, "uncertainty", UNCERTAINTY)
    return float(values(model, text, uncertainty == "cooperative")[model.initial].mean())


def values(model: ExplicitModel, text: str, is_cooperative: bool = False) -> Float[np.ndarray, " S"]:
    """The value of a property in every state, over all policies."""
    result = properties.property(text).on_model(model)
    best = np.maximum if result.is_max else np.minimum
    lists = Lists(model)

    def backup(V: np.ndarray, _: int) -> np.ndarray:
        rewards = result.paid if isinstance(result, Accumulated) else 0.0
        return best.reduceat(
            rewards + lists.extreme(V, result.is_max == is_cooperative), model.first_choice[:-1]
        )

    return _from_the_end(result, model.num_states, backup)


def values_of_policy(
    model: ExplicitModel, event: Event, choices: Int[np.ndarray, "k S"], *, is_largest: bool
) -> Float[np.ndarray, " S"]:
    """The largest or smallest probability of an event under one policy; choices: which choice a state takes."""
    lists = Lists(model)

    def backup(V: np.ndarray, h: int) -> np.ndarray:
        return np.asarray(lists.extreme(V, is_largest)[choices[h]])

    return _from_the_end(event, model.num_states, backup)


def _from_the_end(objective: Event | Accumulated, S: int, backup: Back) -> Float[np.ndarray, " S"]:
    """From the last step to the first; states that decide an event keep its worth."""
    if isinstance(objective, Accumulated):
        is_open, V = np.ones(S, bool), np.zeros(S)
    else:
        is_open = objective.decided == OPEN
        final = np.where(objective.decided == WON, objective.pays.won, objective.pays.lost)
        V = np.where(is_open, objective.pays.open, final)
    for h in range(objective.steps - 1, -1, -1):
        V = np.where(is_open, backup(V, h), V)
    return V
