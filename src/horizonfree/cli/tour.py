"""`horizonfree tour`: explore a grid with two algorithms, certify, plan for three rewards, and write a report."""

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

from horizonfree._extras import check_extra
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
    """Run the tour, printing unless it is silent; returns the printed numbers."""
    check_extra("report", "the tour, which writes a report,")
    console = Console(highlight=False, quiet=is_silent)
    problem = make("zoned-grid", size=SIZE)
    _introduce(console, problem)
    runs: dict[str, Run] = {}
    for i, name in enumerate(EXPLORERS, 1):
        console.print(
            f"\n[bold]{i}. Explore[/] for {EPISODES} episodes with [cyan]{name}[/], without a reward"
        )
        progress = False if is_silent else None
        runs[name] = explore(problem, name, episodes=EPISODES, out=folder / name, progress=progress)
        console.print(_estimates(runs[name]))
    certificates = {name: _certificates(x) for name, x in runs.items()}
    _print_certificates(console, certificates)
    console.print("\n[bold]4. Plan[/] for three rewards, given only now")
    answers = {title: _answers(problem, runs, reward) for title, reward in rewards_of(problem).items()}
    for title, result in answers.items():
        _print_text(console, f"\n{title}; true optimal value {result['best']:.3f}")
        console.print(_plans(result))
    _print_text(
        console,
        "\nvalue: estimated value with its 95% confidence interval. certified: upper bound on the suboptimality of "
        "the plan (95% confidence). Both are computed without the truth. true: the true suboptimality.",
    )
    _print_policy(console, runs["optimal-design"], problem)
    page = write_report(runs["optimal-design"], folder / "report.html")
    comparison = write_comparison(runs, folder / "comparison.html")
    _close(console, folder)
    return {
        "problem": problem.name,
        "plans": answers,
        "certificates": {
            name: {family: _certificate_json(x) for family, x in pair.items()}
            for name, pair in certificates.items()
        },
        "runs": {name: str(folder / name) for name in runs},
        "report": str(page),
        "comparison": str(comparison),
    }


def _close(console: Console, folder: Path) -> None:
    """What to do next. The folder, which may be long, has its own line."""
    console.print("\n[bold]5. Next steps[/]")
    _print_text(
        console,
        "Open [green]report.html[/], or [green]comparison.html[/] for both algorithms. The runs are stored: "
        "resume one, plan for another goal, or paint rewards in the browser.\n",
    )
    console.print(f"   cd {escape(shlex.quote(str(folder)))}", soft_wrap=True)
    for command in (
        "explore --resume optimal-design --episodes 50",
        "plan optimal-design --goal 35",
        "serve optimal-design --open",
    ):
        console.print(f"   horizonfree {command}")


def _certificates(run: Run) -> dict[str, Certificate]:
    """The certificates for all goals and for every reward."""
    return {"goals": goals_certificate(run), "every_reward": run.certificate()}


def _certificate_json(certificate: Certificate) -> dict[str, Any]:
    return {
        "eps": certificate.eps,
        "summary": certificate.summary(),
        "forecast": certificate.forecast,
    }


def _print_certificates(console: Console, certificates: Mapping[str, Mapping[str, Certificate]]) -> None:
    """The goals first, then every reward; below each a forecast."""
    console.print("\n[bold]3. Certify[/] the suboptimality of all plans, before there is a reward")
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for family in ("goals", "every_reward"):
        style = "bold" if family == "goals" else "none"
        for name, pair in certificates.items():
            x = pair[family]
            lines.add_row(f"   [cyan]{name}[/]", f"[{style}]{x}[/]")
            if x.forecast:
                lines.add_row("", f"[dim]{x.forecast}[/]")
    console.print(lines)


def _print_text(console: Console, text: str) -> None:
    """An indented paragraph."""
    console.print(Padding(text, (0, 0, 0, 3)), width=min(console.width, 84))


def rewards_of(problem: Problem) -> dict[str, np.ndarray]:
    """Three rewards on the grid, by title."""
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
            f"The floor has {zones} strips, each with an unknown slip probability.\n\n"
            "First it explores [bold]without a reward[/]. Then it plans for any reward, with a [bold]certificate[/]: "
            "a confidence interval for the value of the plan, and an upper bound on its suboptimality.",
            title="horizonfree",
            title_align="left",
            border_style="cyan",
            padding=(1, 2),
            width=min(console.width, 92),
        )
    )


def _estimates(run: Run) -> str:
    """The estimates for each strip, and the truth."""
    truth = run.problem.truth
    assert truth is not None
    in_units = diagnostics_of(run.problem.model).in_units
    rows = {"estimate": run.weights, "truth": in_units(truth)}
    lines = [f"{name:<10}" + "".join(f"{x:8.3f}" for x in theta[::2]) for name, theta in rows.items()]
    return "   probability of the intended move, by strip:\n      " + "\n      ".join(lines)


def _answers(problem: Problem, runs: Mapping[str, Run], reward: np.ndarray) -> dict[str, Any]:
    """The plans of each run for one reward, and the truth."""
    best = float(problem.space.at_start(optimal(problem.kernel(), reward).V[0]))
    result: dict[str, Any] = {"best": best}
    for name, run in runs.items():
        plan = run.plan(reward)
        loss = max(0.0, true_gap(problem, reward, plan.policy))
        values = {"value": plan.value, "value_low": plan.value_low, "value_high": plan.value_high}
        result[name] = {**values, "gap": plan.gap, "true_loss": loss}
    return result


def _plans(result: Mapping[str, Any]) -> Table:
    """One row per algorithm."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("", "value", "95% interval", "certified", "true"):
        table.add_column(title, justify="left" if title == "" else "right", no_wrap=True)
    for name in EXPLORERS:
        x = result[name]
        gap = round_up(x["gap"], finest=0.001)
        ends = interval(x["value_low"], x["value_high"])
        cells = (f"{x['value']:.3f}", ends, f"[bold]{gap:.3f}[/]", f"{x['true_loss']:.4f}")
        table.add_row(f"   [cyan]{name}[/]", *cells)
    return table


def _print_policy(console: Console, run: Run, problem: Problem) -> None:
    """The policy for the first reward, as arrows."""
    reward = rewards_of(problem)["end in the bottom left corner"]
    arrows = ARROWS[run.plan(reward).policy[0]].reshape(SIZE, SIZE)
    arrows[-1, 0] = "★"
    _print_text(console, "\nFirst action of the plan for the bottom left corner, in every cell:\n")
    for row in arrows:
        console.print("     " + " ".join(row).replace("★", "[yellow]★[/]"))
