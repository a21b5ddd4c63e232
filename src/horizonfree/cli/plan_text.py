"""What a plan does, for people: arrows on a grid or a table by state, its likeliest way, where it spends its time.

A policy depends on the step. In a state it is shown as of the step at which the plan is most likely there:

    a(s) = pi_h(s),   h = argmax_h mu_h(s),

where mu_h(s) is the probability to be in s at step h, in the estimate.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from rich.text import Text

from horizonfree.mdp.names import name_of

if TYPE_CHECKING:
    from horizonfree import Plan

ARROWS = {
    "up": "↑", "right": "→", "down": "↓", "left": "←",
    "north": "↑", "east": "→", "south": "↓", "west": "←",
}  # fmt: skip
MAX_ROWS = 12  # states of a table
MAX_STOPS = 10  # of a way that is written out
MIN_SHARE = 5e-3  # a share of the time that counts as hardly ever
MIN_PROBABILITY = 1e-2  # the probability from which on the action at a step is told


def actions_of(policy: Any) -> Int[np.ndarray, "H S"]:
    """The action of every step and state; of a policy that draws it, the most probable."""
    table = np.asarray(policy)
    return (table if table.ndim == 2 else table.argmax(axis=-1)).astype(np.int64)


def likely_path(plan: "Plan") -> list[int]:
    """The likeliest way: from the likeliest start always to the likeliest next state; one state per step."""
    assert plan.start is not None  # plans of a run have one
    succ, prob = np.asarray(plan.kernel.succ), np.asarray(plan.kernel.prob)
    policy, states = actions_of(plan.policy), [int(plan.start.argmax())]
    for h in range(len(policy) - 1):
        s = states[-1]
        row, chance = succ[s, policy[h, s]], prob[s, policy[h, s]]
        total = np.bincount(row, chance)
        states.append(int(total.argmax()))
    return states


def state_text(layout: Mapping[str, Any], state: int) -> str:
    """A state in a word or two: its name, its column and row on a grid, or its number."""
    cells = layout.get("cells")
    if layout.get("states") is None and cells is not None and np.asarray(cells)[:, 1].any():
        column, row = np.asarray(cells)[state]
        return f"({column + 1}, {row + 1})"
    return name_of(layout, "states", state)


def path_text(plan: "Plan") -> str:
    """The likeliest way in words: states that follow each other, with how many steps it stays in one."""
    stops = [(s, len(list(same))) for s, same in groupby(likely_path(plan))]
    words = [state_text(plan.layout, s) + (f" ({count} steps)" if count > 1 else "") for s, count in stops]
    if len(words) > MAX_STOPS:
        words = [*words[: MAX_STOPS - 2], "..", words[-1]]
    return " → ".join(words)


def grid(plan: "Plan", width: int) -> Text | None:
    """Arrows where states are cells of a grid and actions its directions; None elsewhere, or where it is too wide."""
    cells = plan.layout.get("cells")
    names = [name_of(plan.layout, "actions", a) for a in range(plan.kernel.succ.shape[1])]
    if cells is None or not set(names) <= set(ARROWS) or not np.asarray(cells)[:, 1].any():
        return None
    cells = np.asarray(cells)
    columns, lines = cells.max(axis=0) + 1
    if 2 * columns + 3 > width:
        return None
    share, actions = plan.occupancy.mean(axis=0), _as_met(plan)
    drawn = {(x, y): s for s, (x, y) in enumerate(cells.tolist())}
    found = Text()
    for y in range(lines):
        found.append("   ")
        for x in range(columns):
            s = drawn.get((x, y))
            if s is None:
                found.append("█ ", "dim")
                continue
            is_start = plan.start is not None and plan.start[s] > 0
            style = "bold yellow" if is_start else "bold" if share[s] >= MIN_SHARE else "dim"
            found.append(f"{ARROWS[names[actions[s]]]} ", style)
        found.append("\n" if y < lines - 1 else "")
    return found


def _as_met(plan: "Plan") -> Int[np.ndarray, " S"]:
    """The action in each state, at the step at which the plan is most likely there."""
    mu = plan.occupancy
    found: np.ndarray = actions_of(plan.policy)[mu.argmax(axis=0), np.arange(mu.shape[1])]
    return found


def state_rows(plan: "Plan") -> tuple[list[tuple[str, str, str]], int]:
    """(state, share of the time, what is done there) of the states where it is most; and how many more it comes to."""
    mu, policy = plan.occupancy, actions_of(plan.policy)
    share = mu.mean(axis=0)
    met = np.flatnonzero(share > 0)
    shown = np.sort(met[np.argsort(-share[met], kind="stable")[:MAX_ROWS]])
    lines = [
        (
            state_text(plan.layout, int(s)),
            f"{share[s]:.0%}" if share[s] >= MIN_SHARE else "under 1%",
            _done(plan.layout, policy[:, s], mu[:, s]),
        )
        for s in shown
    ]
    return lines, len(met) - len(shown)


def _done(layout: Mapping[str, Any], actions: Int[np.ndarray, " H"], mu: Float[np.ndarray, " H"]) -> str:
    """What is done in a state, and when, at the steps at which the plan may well be there."""
    steps = np.flatnonzero(mu >= min(MIN_PROBABILITY, mu.max())).tolist()
    spans = [
        (a, [h for _, h in span])
        for a, span in groupby(zip(actions[steps], steps), lambda pair: int(pair[0]))
    ]
    if len(spans) == 1:
        return name_of(layout, "actions", spans[0][0])
    if len(spans) > 3:
        most = int(np.bincount(actions[steps], mu[steps]).argmax())
        return f"mostly {name_of(layout, 'actions', most)}, by step"
    return ", ".join(f"{name_of(layout, 'actions', a)} ({_span(hs)})" for a, hs in spans)


def _span(steps: list[int]) -> str:
    first, last = steps[0] + 1, steps[-1] + 1
    return f"step {first}" if first == last else f"steps {first}-{last}"


def time_text(plan: "Plan") -> str:
    """Where it spends its time, the most first."""
    share = plan.occupancy.mean(axis=0)
    most = np.argsort(-share, kind="stable")[:5]
    return ", ".join(f"{state_text(plan.layout, int(s))} {share[s]:.0%}" for s in most if share[s] >= MIN_SHARE)


def plan_lines(plan: "Plan", width: int) -> Iterator[Any]:
    """All of it, to be printed one after the other: text, or (rows, how many more states) of a table."""
    drawn = grid(plan, width)
    if drawn is None:
        yield state_rows(plan)
    else:
        yield Text("What it does, cell by cell (yellow: the start; pale: where it hardly ever comes):", "dim")
        yield drawn
        yield Text(f"Time spent in (column, row): {time_text(plan)}")
    yield Text(f"Likeliest way: {path_text(plan)}")
    yield Text(f"What is proved is about episodes from {_first(plan)}; from elsewhere: --start STATE", "dim")


def _first(plan: "Plan") -> str:
    assert plan.start is not None  # plans of a run have one
    starts = np.flatnonzero(plan.start)
    return state_text(plan.layout, int(starts[0])) if len(starts) == 1 else f"{len(starts):,} states, drawn"
