"""A robot on slippery ground, as a PRISM model with two unknown slip rates (gallery/robot.prism).

The rates are learnt from episodes without any goal. Then properties are asked in the notation of model checkers, and
the interval MDP that a model checker would get is compared with the certificate. Needs stormpy (extra storm).
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf
from horizonfree.problems.problem import Problem

MODEL = Path(__file__).parent / "robot.prism"
REACH = 'Pmax=? [F<=12 "goal"]'
AVOID = 'Pmax=? [!"edge" U<=12 "goal"]'
ENERGY = 'R{"energy"}max=? [C<=12]'


def robot() -> Problem:
    """The values that the file gives p and q are the hidden truth."""
    return hf.from_prism(MODEL, unknown=["p", "q"], horizon=12)


def study(small: bool = False) -> dict[str, Any]:
    """Episodes, and what is then known of p, q and the properties."""
    problem, run, rows = robot(), None, []
    for look in [25, 50] if small else [25, 50, 100, 200, 400, 800, 1600]:
        run = (
            hf.explore(problem, episodes=look, seed=0, progress=False)
            if run is None
            else run.resume(episodes=look - run.episodes, progress=False)
        )
        intervals = run.weight_intervals[1:].tolist()
        model = run.explicit_model()
        ends = [model.value(REACH, uncertainty=x) for x in ("robust", "cooperative")]
        rows.append(
            {"episodes": look, "p": intervals[0], "q": intervals[1], "reach": answer(problem, run, REACH)}
        )
        rows[-1] |= {"interval_mdp": ends, "loss": ends[1] - ends[0]}
    assert run is not None
    last = {text: answer(problem, run, text) for text in (REACH, AVOID, ENERGY)}
    return {"looks": rows, "properties": last}


def answer(problem: Problem, run: hf.Run, text: str) -> dict[str, float]:
    """The plan of a property, and what it truly loses."""
    plan = run.plan(hf.property(text))
    true = hf.true_gap(problem, hf.property(text), plan.policy)
    return {
        "value": plan.value,
        "low": plan.value_low,
        "high": plan.value_high,
        "gap": plan.gap,
        "lost": true,
    }


def report_text(results: dict[str, Any]) -> str:
    """A table of the episodes, and one of the properties after the last."""
    rows = [
        [
            f"{x['episodes']:,}",
            interval_text(*x["p"]),
            interval_text(*x["q"]),
            interval_text(x["reach"]["low"], x["reach"]["high"]),
            round_up(x["reach"]["gap"]),
            interval_text(*x["interval_mdp"]),
            round_up(x["loss"]),
        ]
        for x in results["looks"][::2]
    ]
    titles = ["episodes", "p", "q", "P(goal) of the plan", "suboptimality at most"]
    titles += ["P(goal) in the interval MDP", "suboptimality of its robust policy at most"]
    last = [
        [
            f"`{text}`",
            f"{x['value']:.3f}",
            interval_text(x["low"], x["high"]),
            round_up(x["gap"]),
            loss_text(x["lost"]),
        ]
        for text, x in results["properties"].items()
    ]
    head = ["property", "estimate", "95% confidence interval", "suboptimality at most", "true suboptimality"]
    return f"{table(titles, rows)}\n\nAfter {results['looks'][-1]['episodes']:,} episodes:\n\n{table(head, last)}"


def loss_text(x: float) -> str:
    """A true loss, which is nothing to round up."""
    return "0" if x < 1e-9 else f"{x:.1g}"


def draw(results: dict[str, Any]) -> Figure:
    """The intervals of p and q, and those of the property, against episodes."""
    fig, (left, right) = figure(2)
    looks = np.array([x["episodes"] for x in results["looks"]])
    for color, name in zip(COLORS, ("p", "q")):
        ends = np.array([x[name] for x in results["looks"]])
        left.fill_between(looks, *ends.T, color=color, alpha=0.3, label=name)
    for color, name, ends in (
        (COLORS[2], "interval MDP", [x["interval_mdp"] for x in results["looks"]]),
        (COLORS[0], "certificate", [[x["reach"]["low"], x["reach"]["high"]] for x in results["looks"]]),
    ):
        right.fill_between(looks, *np.array(ends).T, color=color, alpha=0.3, label=name)
    left.set(xscale="log", xlabel="episodes", ylabel="95% confidence interval", ylim=(0, 0.8))
    right.set(xscale="log", xlabel="episodes", ylabel=REACH, ylim=(0, 1))
    left.legend(fontsize=8, frameon=False)
    right.legend(fontsize=8, frameon=False)
    return fig


if __name__ == "__main__":
    main("robot", study, report_text, draw)
