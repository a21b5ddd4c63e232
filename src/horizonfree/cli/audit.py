"""`horizonfree audit`: whether a new policy is better than the one in use, on a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import logs
from horizonfree.cli._shared import (
    DeltaOption,
    GoalOption,
    JsonOption,
    RewardOption,
    console,
    make_reward,
    open_run,
    output,
    print_line,
    spinner,
    table,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run
    from horizonfree.runs.audit import Audit


def audit(
    log: Annotated[
        Path, typer.Argument(help="A log, .csv or .parquet; or the folder of a run.", metavar="LOG")
    ],
    policy: Annotated[
        Path,
        typer.Option(
            help="The new policy: a .csv with columns step, state, action, or an array.", metavar="FILE"
        ),
    ],
    incumbent: Annotated[
        Path | None,
        typer.Option(help="The policy in use.  [default: what the log does in each state]", metavar="FILE"),
    ] = None,
    cost: Annotated[
        Path | None, typer.Option(help="Costs by state and action, in any unit.", metavar="FILE")
    ] = None,
    reward: RewardOption = None,
    goal: GoalOption = None,
    columns: logs.Columns = None,
    missing: logs.Missing = None,
    bins: logs.Bins = None,
    start: logs.Start = None,
    horizon: logs.Horizon = None,
    terminal: logs.Terminal = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep the log as a run in this new folder.", metavar="RUN")
    ] = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Is a new policy better than the one in use? Off-policy evaluation with a proof, from a log alone.

    Examples:

        horizonfree audit machines.csv --missing drop --policy new.csv --incumbent old.csv --cost cost.csv

        horizonfree audit runs/machines --policy new.csv --cost cost.csv --json
    """
    if sum(x is not None and x != [] for x in (goal, reward, cost)) != 1:
        raise OptionError("say what is to be valued: --cost FILE, --reward FILE or --goal STATE, one of them")
    options = {
        "columns": columns, "missing": missing, "bins": bins, "start": start, "horizon": horizon,
        "terminal": terminal, "out": out,
    }  # fmt: skip
    run = _run_of(log, {name: x for name, x in options.items() if x not in (None, [])})
    from horizonfree.cli.policy_files import read_policy
    from horizonfree.runs.audit import audit as audit_of

    problem = run.problem
    table_of = make_reward(problem, goal, reward, cost)
    new, old = (None if x is None else read_policy(x, problem) for x in (policy, incumbent))
    scale = "total" if goal else "rescale"
    with spinner("auditing"):
        result = audit_of(run, table_of, new, old, scale=scale, delta=delta)
        value = result.to_dict(is_cost=cost is not None)
    names = str(policy), str(incumbent) if incumbent is not None else "the log's policy"
    output(value, json, lambda: show(result, value, names))


def _run_of(log: Path, options: dict[str, Any]) -> "Run":
    """The run in a folder, or of a log."""
    if not log.is_dir():
        return logs.run_of(log, **options)
    if options:
        raise OptionError(f"--{next(iter(options))} is for a log; {log} is the folder of a run")
    return open_run(log)


def show(result: "Audit", value: dict[str, Any], names: tuple[str, str]) -> None:
    """The decision first, then what it is made of."""
    from horizonfree.guarantees.certificate import confidence_of

    print_line("[bold]Proved:[/] {words}", words=value["proved"])
    print_line("[bold]Likely:[/] {words}\n", words=value["likely"])
    sure = confidence_of(value["delta"])
    rows = [
        (name, entry["value"], _between(entry["interval"]), _between(entry["likely"]))
        for name, entry in zip(
            (*names, "difference"), (value["new"], value["incumbent"], value["difference"])
        )
    ]
    what = "cost" if value["is_cost"] else "value"
    console.print(table("", what, f"proved, {sure}", "likely, 95%", rows=rows))
    if result.disagreements:
        lines = [(x.state, f"{x.share:.1%}", x.new, x.incumbent) for x in result.disagreements]
        console.print(table("where they differ", "of the steps", "new", "incumbent", rows=lines))
    if result.missing:
        needs = [(x.state, x.action, f"{x.uses:.2g}", x.visits) for x in result.missing]
        print_line("\nData that would help most:")
        console.print(table("state", "action", "uses an episode", "visits in the log", rows=needs))
    print_line("")
    logs.show_notes(result.run)
    tested = value["check"] or "nothing: a stored run has no episodes; audit the log itself to test the model"
    print_line("[dim]Tested:[/] {words}", words=tested)
    print_line("[dim]Assumes:[/] {assumes}", assumes=value["assumes"])


def _between(ends: list[float] | None) -> str:
    from horizonfree.guarantees.certificate import interval

    return "-" if ends is None else interval(*ends)
