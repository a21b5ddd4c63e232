"""A robot that must not end up on thin ice: two simulators disagree about the wind, and a path must be safe in truth.

The robot crosses a lake of 7 x 5 cells from the left to the right. One simulator has wind from the south, the other
from the north; the truth is an unknown mixture of both. Thin ice lies in the middle. The question: reach the
other side with the largest probability, while the probability of ever being on thin ice is at most 5 % (or 20 %),
certified.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf

COLUMNS, ROWS, H = 7, 5, 12
START, GOAL = (0, 2), (6, 2)
THIN = [(2, 2), (3, 1), (3, 2), (4, 2)]
MOVES = {"right": (1, 0), "up": (0, 1), "down": (0, -1), "stay": (0, 0)}
BLOWS = 0.25  # how often the wind moves the robot by one cell instead
TRUTH = (0.8, 0.2)  # wind from the south, from the north
BOUNDS = (0.05, 0.2)


def cell(column: int, row: int) -> int:
    """The number of a cell; at the banks the robot stays."""
    return min(max(column, 0), COLUMNS - 1) * ROWS + min(max(row, 0), ROWS - 1)


def simulator(wind: int) -> np.ndarray:
    """The kernel [S, A, S] of one simulator, whose wind moves the robot by `wind` rows. The other side holds it."""
    S = COLUMNS * ROWS
    kernel = np.zeros((S, len(MOVES), S))
    for column in range(COLUMNS):
        for row in range(ROWS):
            for a, (dx, dy) in enumerate(MOVES.values()):
                state = cell(column, row)
                if (column, row) == GOAL:
                    kernel[state, a, state] = 1.0
                    continue
                kernel[state, a, cell(column + dx, row + dy)] += 1 - BLOWS
                kernel[state, a, cell(column, row + wind)] += BLOWS
    return kernel


def lake() -> hf.Problem:
    """What is known: both simulators. Hidden: the share of each."""
    cells = [[column, row] for column in range(COLUMNS) for row in range(ROWS)]
    return hf.Mixture.from_kernels(
        {"wind from the south": simulator(1), "wind from the north": simulator(-1)},
        weights=TRUTH,
        horizon=H,
        start=cell(*START),
        actions=list(MOVES),
        layout={"cells": np.array(cells)},
        name="lake",
    )


def answers(run: hf.Run, bound: float) -> dict[str, Any]:
    """The plan within one bound, and what it truly does."""
    problem = run.problem
    goal, thin_ice = hf.goal(problem, cell(*GOAL)), hf.reach(problem, [cell(*x) for x in THIN])
    plan = run.plan(goal, constraints=[hf.at_most(thin_ice, bound)])
    true = true_probabilities(problem, plan.policy)
    result = plan.constraints[0]
    return {
        "bound": bound,
        "status": plan.status,
        "low": result.low,
        "high": result.high,
        "value": plan.value_low,
        "gap": plan.gap,
        "thin": true[1],
        "reached": true[0],
    }


def true_probabilities(problem: hf.Problem, policy: np.ndarray) -> tuple[float, float]:
    """The true probabilities to end on the other side, and to be on thin ice at some step, of a plan with memory.

    Rows of the policy from S on are for the time after thin ice.
    """
    S, kernel = problem.num_states, problem.kernel().dense()
    is_thin = np.isin(np.arange(S), [cell(*x) for x in THIN])
    mass, goal = np.zeros((2, S)), 0.0
    mass[0, cell(*START)] = 1.0
    thin_probability = 0.0
    for h in range(H):
        thin_probability += mass[0, is_thin].sum()
        next_mass = np.zeros((2, S))
        for m in range(2):
            acting = policy[h, m * S : (m + 1) * S]
            successor_mass = np.einsum("s,sa,sat->st", mass[m], acting, kernel)
            next_mass[1] += successor_mass[is_thin].sum(0) if m == 0 else successor_mass.sum(0)
            if m == 0:
                next_mass[0] += successor_mass[~is_thin].sum(0)
        goal = mass[:, cell(*GOAL)].sum()
        mass = next_mass
    return float(goal), float(thin_probability)


def study(small: bool = False) -> dict[str, Any]:
    """Plans after more and more episodes, the plan that nothing binds, and the trade-off."""
    run: hf.Run | None = None
    problem, rows = lake(), []
    for look in [20, 80] if small else [20, 80, 320, 1280]:
        run = (
            hf.explore(problem, episodes=look, seed=0, progress=False)
            if run is None
            else run.resume(episodes=look - run.episodes, progress=False)
        )
        low, high = run.weight_intervals[0]
        rows.append({"episodes": look, "share": [low, high], "plans": [answers(run, x) for x in BOUNDS]})
    assert run is not None
    curve = run.pareto(
        hf.goal(problem, cell(*GOAL)), hf.reach(problem, [cell(*x) for x in THIN]), points=5 if small else 16
    )
    bounds = np.linspace(0.0, 0.5, 26)
    free = answers(run, 1.0)
    band = [list(curve.at(float(x))) for x in bounds]
    band = [[None if not np.isfinite(x) else x for x in row] for row in band]
    return {"looks": rows, "free": free, "bounds": bounds.tolist(), "band": band}


def report_text(results: dict[str, Any]) -> str:
    """The tables of the page."""
    lines = []
    for look in results["looks"]:
        for plan in look["plans"]:
            lines.append(
                (
                    str(look["episodes"]),
                    interval_text(*look["share"]),
                    f"{plan['bound']:.0%}",
                    plan["status"],
                    interval_text(plan["low"], plan["high"]),
                    f"{plan['thin']:.3f}",
                    f"{plan['reached']:.3f}",
                    round_up(plan["gap"]) if plan["gap"] < 1 else "–",
                )
            )
    titles = (
        "episodes",
        "share of wind from the south",
        "bound",
        "certified",
        "on thin ice, certified",
        "true",
        "other side, true",
        "suboptimality at most",
    )
    free = results["free"]
    return (
        table(titles, lines)
        + "\n\nWithout a bound the plan after the most episodes is on thin ice with probability "
        f"{free['thin']:.2f} and reaches the other side with {free['reached']:.2f}."
    )


def draw(results: dict[str, Any]) -> Figure:
    """The map with thin ice, and the trade-off with its band."""
    fig, (left, right) = figure(2)
    grid = np.zeros((ROWS, COLUMNS))
    for column, row in THIN:
        grid[row, column] = 1
    left.imshow(grid, origin="lower", cmap="Blues", vmin=0, vmax=1.6, aspect="equal")
    for name, position in (("start", START), ("other side", GOAL)):
        left.text(*position, name, ha="center", va="center", fontsize=8)
    for column, row in THIN:
        left.text(column, row, "thin", ha="center", va="center", fontsize=8)
    left.set_xticks(np.arange(-0.5, COLUMNS), [""] * (COLUMNS + 1))
    left.set_yticks(np.arange(-0.5, ROWS), [""] * (ROWS + 1))
    left.set_title("the lake", fontsize=10)
    band = np.array(results["band"], dtype=float)
    right.fill_between(results["bounds"], band[:, 1], band[:, 2], color=COLORS[0], alpha=0.2, linewidth=0)
    right.plot(results["bounds"], band[:, 0], color=COLORS[0])
    right.set_xlabel("bound of the probability of thin ice")
    right.set_ylabel("best probability of the other side")
    right.set_title("what safety costs, with its certified band", fontsize=10)
    return fig


if __name__ == "__main__":
    main("ice", study, report_text, draw)
