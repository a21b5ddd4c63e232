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

    gain = make_reward(run.problem, goal, reward, None)
    if gain is None:
        raise OptionError("give a reward: --goal STATE or --reward FILE")
    cost = read_cost(run.problem, price)
    with spinner("planning"):
        curve = run.pareto(gain, cost, points=points, delta=delta, misspecification=misspecification)
    columns = ("costs", "cost_low", "cost_high", "values", "value_low", "value_high")
    names = (*columns, "lines", "prices", "cheapest", "delta")
    result = {name: getattr(curve, name) for name in names} | {"summary": curve.summary()}

    def show() -> None:
        rows = [
            (f"{cost:.4g}", interval(cost_low, cost_high), f"{value:.4g}", interval(low, high))
            for cost, cost_low, cost_high, value, low, high in zip(
                *(getattr(curve, name) for name in columns)
            )
        ]
        console.print(table("cost", "interval", "value", "interval", rows=rows))
        print_line("{text}", text=curve.summary())

    _write_figure(curve, out)
    output(result, json, show)


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
            actions = run.plan(paid, scale="rescale", delta=delta, misspecification=misspecification).policy
        else:
            actions = read_policy(policy, run.problem)
        distribution = run.risk(paid, actions, delta=delta, misspecification=misspecification)
    names = ("totals", "at_least", "at_least_low", "at_least_high")
    result: dict[str, Any] = {name: getattr(distribution, name) for name in names}
    result |= {"quantile": distribution.quantile(share)._asdict(), "cvar": distribution.cvar(share)._asdict()}
    result |= {"share": share, "delta": distribution.delta, "summary": distribution.summary(share)}

    def show() -> None:
        rows = [
            (f"{total:.4g}", f"{probability:.4g}", interval(low, high))
            for total, probability, low, high in zip(*(getattr(distribution, name) for name in names))
        ]
        console.print(table("total", "or more", "interval", rows=rows))
        print_line("{text}", text=distribution.summary(share))

    _write_figure(distribution, out)
    output(result, json, show)


def _check_figure(out: Path | None) -> None:
    if out is not None and out.suffix not in (".svg", ".png"):
        raise OptionError(f"--out {out}: its name must end in .svg or .png")


def _write_figure(result: Any, out: Path | None) -> None:
    if out is not None:
        make_output_folder(out.parent)
        result.plot().savefig(out, dpi=160)
