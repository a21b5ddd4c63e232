"""`horizonfree pareto` and `horizonfree risk`: value against cost, and the distribution of the total."""

from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree.cli._shared import (
    DeltaOption,
    GoalOption,
    JsonOption,
    MisspecificationOption,
    RewardOption,
    RunArgument,
    console,
    float_option,
    int_option,
    make_output_folder,
    make_reward,
    open_run,
    output,
    print_line,
    spinner,
    table,
)
from horizonfree.errors import OptionError

FigureOption = Annotated[
    Path | None, typer.Option("--out", help="Write the figure to this .svg or .png file.", metavar="FILE")
]


def pareto(
    folder: RunArgument,
    price: Annotated[
        str,
        typer.Option(help="The cost: a file as for --reward, or reach:STATE,STATE.", metavar="FILE"),
    ],
    goal: GoalOption = None,
    reward: RewardOption = None,
    points: Annotated[int, int_option("How many policies.")] = 20,
    delta: DeltaOption = 0.05,
    misspecification: MisspecificationOption = 0.0,
    out: FigureOption = None,
    json: JsonOption = False,
) -> None:
    """Value against cost, with a certified band.

    Example:

        horizonfree pareto runs/a --goal 56 --price reach:12,13 --points 10 --out trade-off.svg
    """
    _check_figure(out)
    run = open_run(folder)
    from horizonfree.cli.array_files import read_cost
    from horizonfree.guarantees.certificate import interval

    paid = make_reward(run.problem, goal, reward, None)
    if paid is None:
        raise OptionError("give a reward: --goal STATE or --reward FILE")
    cost = read_cost(run.problem, price)
    with spinner("planning"):
        curve = run.pareto(paid, cost, points=points, delta=delta, misspecification=misspecification)
    columns = ("costs", "cost_low", "cost_high", "values", "value_low", "value_high")
    others = ("lines", "prices", "cheapest", "delta")
    value = {name: getattr(curve, name) for name in (*columns, *others)} | {"summary": curve.summary()}

    def show() -> None:
        rows = [
            (f"{c:.4g}", interval(low, high), f"{v:.4g}", interval(least, most))
            for c, low, high, v, least, most in zip(*(getattr(curve, name) for name in columns))
        ]
        console.print(table("cost", "interval", "value", "interval", rows=rows))
        print_line("{text}", text=curve.summary())

    _write_figure(curve, out)
    output(value, json, show)


def risk(
    folder: RunArgument,
    goal: GoalOption = None,
    reward: RewardOption = None,
    cost: Annotated[
        Path | None, typer.Option(help="Costs in any unit, from a file as for --reward.", metavar="FILE")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="The policy, a file as for `plan`.  [default: the plan]", metavar="FILE"),
    ] = None,
    share: Annotated[float, float_option("The worst share of the episodes.")] = 0.05,
    delta: DeltaOption = 0.05,
    misspecification: MisspecificationOption = 0.0,
    out: FigureOption = None,
    json: JsonOption = False,
) -> None:
    """The distribution of the total of an episode under a policy: a quantile, and the mean of the worst episodes.

    Example:

        horizonfree risk runs/a --cost monthly.csv --share 0.05 --out distribution.svg
    """
    _check_figure(out)
    run = open_run(folder)
    from horizonfree.cli.array_files import read_policy
    from horizonfree.guarantees.certificate import interval

    paid = make_reward(run.problem, goal, reward, cost)
    if paid is None:
        raise OptionError("give a reward: --goal STATE, --reward FILE or --cost FILE")
    with spinner("planning"):
        if policy is None:
            chosen = run.plan(paid, scale="rescale", delta=delta, misspecification=misspecification).policy
        else:
            chosen = read_policy(policy, run.problem)
        found = run.risk(paid, chosen, delta=delta, misspecification=misspecification)
    names = ("totals", "at_least", "at_least_low", "at_least_high")
    value: dict[str, Any] = {name: getattr(found, name) for name in names}
    value |= {"quantile": found.quantile(share)._asdict(), "cvar": found.cvar(share)._asdict()}
    value |= {"share": share, "delta": found.delta, "summary": found.summary(share)}

    def show() -> None:
        rows = [
            (f"{t:.4g}", f"{p:.4g}", interval(low, high))
            for t, p, low, high in zip(*(getattr(found, name) for name in names))
        ]
        console.print(table("total", "or more", "interval", rows=rows))
        print_line("{text}", text=found.summary(share))

    _write_figure(found, out)
    output(value, json, show)


def _check_figure(out: Path | None) -> None:
    if out is not None and out.suffix not in (".svg", ".png"):
        raise OptionError(f"--out {out}: its name must end in .svg or .png")


def _write_figure(found: Any, out: Path | None) -> None:
    if out is not None:
        make_output_folder(out.parent)
        found.plot().savefig(out, dpi=160)
