"""The main job in one go: explore a grid with two explorers, certify, plan three rewards beside the truth, report."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from horizonfree.guarantees.certificate import Certificate, interval, round_up
from horizonfree.mdp.rewards import goal, occupancy
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import optimal
from horizonfree.problems import make
from horizonfree.problems.problem import Problem, true_gap
from horizonfree.report import write_comparison, write_report
from horizonfree.report.facts import goals_certificate
from horizonfree.runs.explore import explore
from horizonfree.runs.run import Run

SIZE = 8
EPISODES = 300
EXPLORERS = ("optimal-design", "hf-ucrl-rfe++")
ARROWS = np.array(["↑", "→", "↓", "←"])


def run(folder: Path, *, is_silent: bool = False) -> dict[str, Any]:
    """Do it, tell it on standard output unless silent, and return the numbers told."""
    console = Console(highlight=False, quiet=is_silent)
    problem = make("zoned-grid", size=SIZE)
    _introduce(console, problem)
    runs: dict[str, Run] = {}
    for i, name in enumerate(EXPLORERS, 1):
        console.print(f"\n[bold]{i}. Explore[/] {EPISODES} episodes with [cyan]{name}[/], no reward in sight")
        progress = False if is_silent else None
        runs[name] = explore(problem, name, episodes=EPISODES, out=folder / name, progress=progress)
        console.print(_learnt(runs[name]))
    certificates = {name: _certificates(x) for name, x in runs.items()}
    _promise(console, certificates)
    console.print("\n[bold]4. Plan[/] for three rewards that nobody had in mind while exploring")
    answers = {title: _answers(problem, runs, reward) for title, reward in rewards_of(problem).items()}
    for title, found in answers.items():
        _tell(console, f"\n{title}; the best policy gets {found['best']:.3f}")
        console.print(_plans(found))
    _tell(
        console,
        "\nValue: as estimated, with its 95% confidence interval. The gap is a certified bound on what the plan "
        "loses against the best policy (95% confidence). Both are computed without the truth. "
        "Loss: the true loss, and what the best policy gets, are the truth.",
    )
    _draw(console, runs["optimal-design"], problem)
    page = write_report(runs["optimal-design"], folder / "report.html")
    beside = write_comparison(runs, folder / "comparison.html")
    _close(console, folder)
    return {
        "problem": problem.name,
        "plans": answers,
        "certificates": {
            name: {what: _told(found) for what, found in both.items()} for name, both in certificates.items()
        },
        "runs": {name: str(folder / name) for name in runs},
        "report": str(page),
        "comparison": str(beside),
    }


def _close(console: Console, folder: Path) -> None:
    """What to read and to do next. The folder, which may be long, has a line of its own and is named once."""
    console.print("\n[bold]5. Read[/] the report, and go on")
    _tell(
        console,
        "[green]report.html[/] tells all of it, [green]comparison.html[/] shows both explorers beside each other. The "
        "runs are kept as well: go on with one, or paint your own reward.\n",
    )
    console.print(f"   cd {escape(shlex.quote(str(folder)))}", soft_wrap=True)
    for command in (
        "explore --resume optimal-design --episodes 50",
        "plan optimal-design --goal 35",
        "serve optimal-design --open",
    ):
        console.print(f"   horizonfree {command}")


def _certificates(run: Run) -> dict[str, Certificate]:
    """What is proved of all goals together, and of every reward."""
    return {"goals": goals_certificate(run), "every_reward": run.certificate()}


def _told(found: Certificate) -> dict[str, Any]:
    return {"eps": found.eps, "words": found.words, "forecast": found.forecast}


def _promise(console: Console, certificates: Mapping[str, Mapping[str, Certificate]]) -> None:
    """The goals first, every reward second; beside each what less would need."""
    console.print("\n[bold]3. Certify[/] what any plan will lose, before there is a reward")
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for what in ("goals", "every_reward"):
        style = "bold" if what == "goals" else "none"
        for name, found in certificates.items():
            x = found[what]
            lines.add_row(f"   [cyan]{name}[/]", f"[{style}]{x.words}[/]")
            if x.forecast:
                lines.add_row("", f"[dim]{x.forecast}[/]")
    console.print(lines)


def _tell(console: Console, text: str) -> None:
    """A paragraph, set in like the rest."""
    console.print(Padding(text, (0, 0, 0, 3)), width=min(console.width, 84))


def rewards_of(problem: Problem) -> dict[str, np.ndarray]:
    """Three rewards on the grid, by what they ask for."""
    middle = SIZE // 2
    block = [r * SIZE + c for r in (middle - 1, middle) for c in (middle - 1, middle)]
    return {
        "end in the bottom left corner": goal(problem, SIZE * (SIZE - 1)),
        "end in the right half": goal(problem, [s for s in range(SIZE * SIZE) if s % SIZE >= middle]),
        "stay in the middle": occupancy(problem, block),
    }


def _introduce(console: Console, problem: Problem) -> None:
    zones = problem.model.num_unknown
    console.print(
        Panel(
            f"A robot walks on a grid of {SIZE} x {SIZE} cells, {problem.horizon} moves from the top left. "
            f"The floor has {zones} strips, and in each a move goes astray with a probability that nobody knows.\n\n"
            "First it explores [bold]without any reward[/]. Then it gets rewards, one after the other, and plans "
            "for each at once, with a [bold]proof[/] of how much the plan can lose against the best one.",
            title="horizonfree",
            title_align="left",
            border_style="cyan",
            padding=(1, 2),
            width=min(console.width, 92),
        )
    )


def _learnt(run: Run) -> str:
    """How well each strip is known, beside the truth."""
    truth = run.problem.truth
    assert truth is not None
    in_units = diagnostics_of(run.problem.model).in_units
    known = {"estimated": run.weights, "truth": in_units(truth)}
    lines = [f"{name:<10}" + "".join(f"{x:8.3f}" for x in theta[::2]) for name, theta in known.items()]
    return "   moves that go as intended, strip by strip:\n      " + "\n      ".join(lines)


def _answers(problem: Problem, runs: Mapping[str, Run], reward: np.ndarray) -> dict[str, Any]:
    """The plans of every run for one reward, and the truth."""
    best = float(problem.space.at_start(optimal(problem.kernel(), reward).V[0]))
    found: dict[str, Any] = {"best": best}
    for name, run in runs.items():
        plan = run.plan(reward)
        loss = max(0.0, true_gap(problem, reward, plan.policy))
        values = {"value": plan.value, "value_low": plan.value_low, "value_high": plan.value_high}
        found[name] = {**values, "gap": plan.gap, "true_loss": loss}
    return found


def _plans(found: Mapping[str, Any]) -> Table:
    """One line per explorer."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("", "value", "95% confidence", "gap", "loss"):
        table.add_column(title, justify="left" if title == "" else "right", no_wrap=True)
    for name in EXPLORERS:
        x = found[name]
        gap = round_up(x["gap"], finest=0.001)
        between = interval(x["value_low"], x["value_high"])
        cells = (f"{x['value']:.3f}", between, f"[bold]{gap:.3f}[/]", f"{x['true_loss']:.4f}")
        table.add_row(f"   [cyan]{name}[/]", *cells)
    return table


def _draw(console: Console, run: Run, problem: Problem) -> None:
    """The first policy, as arrows."""
    reward = rewards_of(problem)["end in the bottom left corner"]
    arrows = ARROWS[run.plan(reward).policy[0]].reshape(SIZE, SIZE)
    arrows[-1, 0] = "★"
    _tell(console, "\nFirst moves towards the bottom left corner, wherever the robot stands:\n")
    for row in arrows:
        console.print("     " + " ".join(row).replace("★", "[yellow]★[/]"))
