"""A plan as text: arrows on a grid or a table by state, its most likely path, and its occupancy measure.

A policy depends on the step. In a state, the action at the most likely step is shown:

    a(s) = pi_h(s),   h = argmax_h mu_h(s),

where mu_h(s) is the probability of s at step h, in the estimate.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from rich.text import Text

from horizonfree.mdp.names import name_of, state_text

if TYPE_CHECKING:
    from horizonfree import Plan

ARROWS = {
    "up": "↑", "right": "→", "down": "↓", "left": "←",
    "north": "↑", "east": "→", "south": "↓", "west": "←",
}  # fmt: skip
MAX_ROWS = 12  # of a table of states
MAX_STOPS = 10  # of a path
MIN_SHARE = 5e-3  # of the time; smaller shares are "under 1%"
MIN_PROBABILITY = 1e-2  # of a state at a step, to show its action


def actions_of(policy: Any) -> Int[np.ndarray, "H S"]:
    """The action of every step and state; the most probable one of a stochastic policy."""
    table = np.asarray(policy)
    return (table if table.ndim == 2 else table.argmax(axis=-1)).astype(np.int64)


def likely_path(plan: "Plan") -> list[int]:
    """From the most likely start always to the most likely next state; one state per step."""
    assert plan.start is not None  # plans of a run have one
    succ, prob = np.asarray(plan.kernel.succ), np.asarray(plan.kernel.prob)
    policy, states = actions_of(plan.policy), [int(plan.start.argmax())]
    for h in range(len(policy) - 1):
        s = states[-1]
        row, chance = succ[s, policy[h, s]], prob[s, policy[h, s]]
        total = np.bincount(row, chance)
        states.append(int(total.argmax()))
    return states


def path_text(plan: "Plan") -> str:
    """The most likely path as text, with the number of steps in each state."""
    stops = [(s, len(list(group))) for s, group in groupby(likely_path(plan))]
    texts = [state_text(plan.layout, s) + (f" ({count} steps)" if count > 1 else "") for s, count in stops]
    if len(texts) > MAX_STOPS:
        texts = [*texts[: MAX_STOPS - 2], "..", texts[-1]]
    return " → ".join(texts)


def grid(plan: "Plan", width: int) -> Text | None:
    """Arrows on a grid; None if states are not cells, actions not directions, or the grid too wide."""
    cells = plan.layout.get("cells")
    names = [name_of(plan.layout, "actions", a) for a in range(plan.kernel.succ.shape[1])]
    if cells is None or not set(names) <= set(ARROWS) or not np.asarray(cells)[:, 1].any():
        return None
    cells = np.asarray(cells)
    columns, lines = cells.max(axis=0) + 1
    if 2 * columns + 3 > width:
        return None
    share, actions = plan.occupancy.mean(axis=0), _typical_actions(plan)
    state_at = {(x, y): s for s, (x, y) in enumerate(cells.tolist())}
    text = Text()
    for y in range(lines):
        text.append("   ")
        for x in range(columns):
            s = state_at.get((x, y))
            if s is None:
                text.append("█ ", "dim")
                continue
            is_start = plan.start is not None and plan.start[s] > 0
            style = "bold yellow" if is_start else "bold" if share[s] >= MIN_SHARE else "dim"
            text.append(f"{ARROWS[names[actions[s]]]} ", style)
        text.append("\n" if y < lines - 1 else "")
    return text


def _typical_actions(plan: "Plan") -> Int[np.ndarray, " S"]:
    """The action in each state, at the step at which the plan is most likely there."""
    mu = plan.occupancy
    return np.asarray(actions_of(plan.policy)[mu.argmax(axis=0), np.arange(mu.shape[1])])


def state_rows(plan: "Plan") -> tuple[list[tuple[str, str, str]], int]:
    """(state, share of the time, actions) for the most occupied states, and the number of other reachable states."""
    mu, policy = plan.occupancy, actions_of(plan.policy)
    share = mu.mean(axis=0)
    states = np.flatnonzero(share > 0)
    top = np.sort(states[np.argsort(-share[states], kind="stable")[:MAX_ROWS]])
    lines = [
        (
            state_text(plan.layout, int(s)),
            f"{share[s]:.0%}" if share[s] >= MIN_SHARE else "under 1%",
            _actions_text(plan.layout, policy[:, s], mu[:, s]),
        )
        for s in top
    ]
    return lines, len(states) - len(top)


def _actions_text(
    layout: Mapping[str, Any], actions: Int[np.ndarray, " H"], mu: Float[np.ndarray, " H"]
) -> str:
    """The actions in a state, and their steps, where the state is likely enough."""
    steps = np.flatnonzero(mu >= min(MIN_PROBABILITY, mu.max())).tolist()
    spans = [
        (a, [h for _, h in span])
        for a, span in groupby(zip(actions[steps], steps), lambda pair: int(pair[0]))
    ]
    if len(spans) == 1:
        return name_of(layout, "actions", spans[0][0])
    if len(spans) > 3:
        largest = int(np.bincount(actions[steps], mu[steps]).argmax())
        return f"mostly {name_of(layout, 'actions', largest)}, by step"
    return ", ".join(f"{name_of(layout, 'actions', a)} ({_span(hs)})" for a, hs in spans)


def _span(steps: list[int]) -> str:
    first, last = steps[0] + 1, steps[-1] + 1
    return f"step {first}" if first == last else f"steps {first}-{last}"


def time_text(plan: "Plan") -> str:
    """Where it spends its time, the most first."""
    share = plan.occupancy.mean(axis=0)
    order = np.argsort(-share, kind="stable")[:5]
    return ", ".join(
        f"{state_text(plan.layout, int(s))} {share[s]:.0%}" for s in order if share[s] >= MIN_SHARE
    )


def plan_lines(plan: "Plan", width: int) -> Iterator[Any]:
    """The parts to be printed: texts, or (rows, number of other states) of a table."""
    arrows = grid(plan, width)
    if arrows is None:
        yield state_rows(plan)
    else:
        yield Text("Actions by cell (yellow: the start; pale: rarely visited):", "dim")
        yield arrows
        yield Text(f"Share of time in (column, row): {time_text(plan)}")
    yield Text(f"Most likely path: {path_text(plan)}")
    yield Text(
        f"The certificate holds for episodes from {_start_text(plan)}; for another start: --start STATE",
        "dim",
    )


def _start_text(plan: "Plan") -> str:
    assert plan.start is not None  # plans of a run have one
    starts = np.flatnonzero(plan.start)
    return state_text(plan.layout, int(starts[0])) if len(starts) == 1 else f"{len(starts):,} states, drawn"
