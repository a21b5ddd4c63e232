"""A run as a model that model checkers read: the estimate as an MDP, or the confidence set as an interval MDP.

The interval MDP has the smallest and the largest value of every transition probability in the confidence set. All
kernels of the set are members of it, so whatever is true for every member is true with the probability of the set. It
has more members: entries may move independently, at every state and every step. Its values are wider, and the
description of the file says by how much.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from horizonfree._validation import check_choice, require
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import confidence_of
from horizonfree.mdp import names
from horizonfree.mdp.events import reach
from horizonfree.mdp.policies import is_allowed
from horizonfree.problems.verification.explicit import ExplicitModel, check_model, values_of_policy

WHAT = ("interval", "estimate")
MAX_GOALS = 8  # sets of states for which widths are compared


def explicit_model(
    run: Any, what: str = "interval", *, delta: float = 0.05, floor: float = 0.0
) -> ExplicitModel:
    """The model of a run, with the names, labels and rewards of its problem."""
    check_choice(what, "what", WHAT)
    require(
        not isinstance(floor, bool) and isinstance(floor, (int, float)) and 0 <= floor <= 1e-3,
        "floor",
        floor,
        "0 to 0.001",
    )
    confidence, space = run.confidence(delta), run.problem.space
    confidence.check_not_refuted()
    if what == "estimate":
        low = np.asarray(confidence.kernel.prob)
        result = _interval_model(run, np.asarray(confidence.kernel.succ), low, low)
        description = (
            f"The estimate of {run.episodes} episodes by horizonfree, with no statement of its error."
        )
        return _with_description(result, description)
    low, high = confidence.entry_intervals()
    result = _interval_model(run, np.asarray(space.succ), low, high)
    sentences = [
        f"The confidence set of {run.episodes} episodes by horizonfree ({confidence_of(delta)}, any stopping time), "
        "projected on every transition probability. It contains every kernel of the set, and more.",
        f"Assumes: {run.problem.model.describe().assumption}.",
        *_widths(run, result, delta),
    ]
    if floor:
        result = _with_floor(result, float(floor))
        sentences.append(
            f"Lower ends of 0 were raised to {floor:g}: the file takes for granted that every transition written is "
            "possible, which the data do not prove."
        )
    return _with_description(result, "\n".join(sentences))


def _interval_model(run: Any, succ: np.ndarray, low: np.ndarray, high: np.ndarray) -> ExplicitModel:
    """The entries that can be positive, choice by choice."""
    problem = run.problem
    starts = problem.space.starts()
    if starts.sum() > 1:
        raise OptionError(
            f"episodes start in one of {int(starts.sum())} states, drawn, which these formats cannot say; write "
            "run.restart_from(state), which starts in one"
        )
    s, a = np.nonzero(is_allowed(problem.space))
    is_possible = high[s, a] > 0
    if not is_possible.any(1).all():  # the estimate of a pair that was never visited
        is_empty = ~is_possible.any(1)
        low, high = low.copy(), high.copy()
        slots = np.asarray(problem.space.support)[s[is_empty], a[is_empty]]
        equal_shares = slots / slots.sum(1, keepdims=True)
        if equal_shares.shape[1] != low.shape[2]:
            raise OptionError(
                f"nothing is known of {int(is_empty.sum())} pairs (s,a); explore more, or write the intervals"
            )
        low[s[is_empty], a[is_empty]] = high[s[is_empty], a[is_empty]] = equal_shares
        is_possible = high[s, a] > 0
    c, j = np.nonzero(is_possible)
    count = np.bincount(s, minlength=problem.num_states)
    layout = problem.layout
    action_names = [names.name_of(layout, "actions", x).replace(" ", "_") for x in a.tolist()]
    labels = {name: np.isin(np.arange(len(count)), states) for name, states in problem.labels.items()}
    rewards = {str(name): problem.reward(str(name))[s, a] for name in layout.get(names.REWARDS, ())}
    return check_model(
        ExplicitModel(
            starts,
            np.concatenate([[0], np.cumsum(count)]),
            np.concatenate([[0], np.cumsum(is_possible.sum(1))]),
            succ[s, a][c, j].astype(np.int64),
            low[s, a][c, j],
            high[s, a][c, j],
            action_names,
            labels,
            {},
            rewards,
            [str(x) for x in layout.get("states") or ()],
        ),
        "the run",
    )


def _widths(run: Any, model: ExplicitModel, delta: float) -> list[str]:
    """The widths of values of plans under the confidence set and under the interval MDP."""
    space, labels = run.problem.space, run.problem.labels
    sets: dict[str, Any] = dict(list(labels.items())[:MAX_GOALS])
    if not sets:
        visited = np.flatnonzero(np.asarray(space.reachable))[-MAX_GOALS:]
        sets = {run.problem.state_name(int(s)): [int(s)] for s in visited}
    if space.horizon < 2:
        return []
    number = np.full((space.num_states, space.num_actions), -1)
    number[is_allowed(space)] = np.arange(model.num_choices)
    rows = []
    for name, states in sets.items():
        event = reach(run.problem, states)
        plan = run.plan(event, delta=delta)
        choices = number[np.arange(space.num_states), plan.policy]
        low, high = (
            float(values_of_policy(model, event, choices, is_largest=x)[model.initial][0])
            for x in (False, True)
        )
        rows.append((plan.value_high - plan.value_low, high - low, name))
    width, wider, name = max(rows, key=lambda x: x[1])
    return [
        f"Width of the value of a plan that reaches {name} within {space.horizon - 1} steps (the widest of "
        f"{len(rows)}): {width:.6g} for the confidence set, {wider:.6g} for the intervals."
    ]


def _with_floor(model: ExplicitModel, floor: float) -> ExplicitModel:
    low = np.maximum(model.low, np.minimum(floor, model.high))
    return check_model(replace(model, low=low), "the run with this floor")


def _with_description(model: ExplicitModel, description: str) -> ExplicitModel:
    return replace(model, description=description)
