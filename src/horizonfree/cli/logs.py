"""Logs on the command line: a log as a run, and `horizonfree audit`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import (
    DeltaOption,
    GoalOption,
    JsonOption,
    RewardOption,
    console,
    expand_user,
    int_option,
    make_problem,
    make_reward,
    open_run,
    output,
    parse_values,
    print_line,
    spinner,
    state_option,
    table,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run
    from horizonfree.runs.audit import Audit

OF_TABLE = ("num_states", "num_actions", "horizon", "start")

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        help="With --log: names of its columns, state=status,action=order; state=load+wear joins two; step= for none.",
        metavar="ROLE=NAME,...",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="With --log: what to do with holes: `drop` incomplete steps, `cut` episodes there, or `error`.",
    ),
]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        help="With --log: bins of a column of real numbers, wear=5 (quantiles) or wear=20,40 (inner edges).",
        metavar="COLUMN=...",
    ),
]
Start = Annotated[
    str | None,
    state_option("With --log: the state in which episodes start that you plan for, or `unknown`.", "--start"),
]
Horizon = Annotated[
    int | None,
    int_option("With --log: how many steps to plan for.  [default: the longest episode]", "--horizon"),
]
Terminal = Annotated[
    list[str] | None,
    state_option("With --log: a state in which every episode ends; repeat for several.", "--terminal"),
]


def run_of(
    log: Path,
    *,
    problem: str | None = None,
    kernels: Path | None = None,
    param: Sequence[str] = (),
    columns: Sequence[str] = (),
    missing: str | None = None,
    bins: Sequence[str] = (),
    start: str | None = None,
    horizon: int | None = None,
    terminal: Sequence[str] = (),
    unknown: Sequence[str] = (),
    out: Path | None = None,
) -> "Run":
    """The run of a log, saved if `out` names a folder; without a model class, a tabular MDP."""
    parameters: dict[str, Any] = parse_values(param, "--param")
    options: dict[str, Any] = {"columns": columns_of(columns) or None, "bins": bins_of(bins) or None}
    if missing is not None:
        options["missing"] = missing
    of_table = {"start": start, "horizon": horizon, "terminal": list(terminal) or None}
    of_table = {name: x for name, x in of_table.items() if x is not None}
    with spinner(f"reading {log}"):
        from horizonfree import from_log

        if problem is None and kernels is None:
            odd = next((name for name in parameters if name not in OF_TABLE), None)
            if odd is not None:
                raise OptionError(f"--param {odd}: an unknown table has {', '.join(OF_TABLE)}")
            run = from_log(log, **options, **{**parameters, **of_table})
        else:
            if of_table:
                raise OptionError(f"--{next(iter(of_table))}: a problem has its own; leave it out")
            run = from_log(log, make_problem(problem, kernels, parameters, unknown), **options)
        if out is not None:
            run.save(expand_user(out))
    return run


def show_notes(run: "Run") -> None:
    """What was done with the log before it became a run."""
    for note in run.problem.layout.get("log", {}).get("notes", ()):
        print_line("[dim]Log:[/] {note}", note=note)


def columns_of(texts: Sequence[str]) -> dict[str, Any]:
    """`state=status,action=order` as a dictionary; `a+b` is a list, and nothing is None."""
    result: dict[str, Any] = {}
    for text in (x for option in texts for x in option.split(",")):
        role, equals, name = text.partition("=")
        if not (role and equals):
            raise OptionError(f"--columns {text}: write it as --columns state=status,action=order")
        names = name.split("+")
        result[role.strip()] = None if not name else names[0] if len(names) == 1 else names
    return result


def bins_of(texts: Sequence[str]) -> dict[str, Any]:
    """`wear=5` as a number of bins, `wear=20,40` as inner edges."""
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            numbers = [float(x) for x in value.split(",")]
        except ValueError:
            numbers = []
        if not (name and equals and numbers):
            raise OptionError(f"--bins {text}: write it as --bins wear=5 or --bins wear=20,40")
        is_count = len(numbers) == 1 and "." not in value and "," not in value
        result[name] = int(numbers[0]) if is_count else numbers
    return result


# `horizonfree audit`: whether a new policy is better than the one in use, on a log.


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
    columns: Columns = None,
    missing: Missing = None,
    bins: Bins = None,
    start: Start = None,
    horizon: Horizon = None,
    terminal: Terminal = None,
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
    from horizonfree.cli.array_files import read_policy
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
        return run_of(log, **options)
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
    show_notes(result.run)
    tested = value["check"] or "nothing: a stored run has no episodes; audit the log itself to test the model"
    print_line("[dim]Tested:[/] {words}", words=tested)
    print_line("[dim]Assumes:[/] {assumes}", assumes=value["assumes"])


def _between(ends: list[float] | None) -> str:
    from horizonfree.guarantees.certificate import interval

    return "-" if ends is None else interval(*ends)
