"""A log as a run: its columns, its holes, the model class that it belongs to, and where the run is saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import expand_user, int_option, make_problem, print_line, spinner, state_option
from horizonfree.cli.settings import parse_values
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run

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
    found: dict[str, Any] = {}
    for text in (x for option in texts for x in option.split(",")):
        role, equals, name = text.partition("=")
        if not (role and equals):
            raise OptionError(f"--columns {text}: write it as --columns state=status,action=order")
        names = name.split("+")
        found[role.strip()] = None if not name else names[0] if len(names) == 1 else names
    return found


def bins_of(texts: Sequence[str]) -> dict[str, Any]:
    """`wear=5` as a number of bins, `wear=20,40` as inner edges."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            numbers = [float(x) for x in value.split(",")]
        except ValueError:
            numbers = []
        if not (name and equals and numbers):
            raise OptionError(f"--bins {text}: write it as --bins wear=5 or --bins wear=20,40")
        is_count = len(numbers) == 1 and "." not in value and "," not in value
        found[name] = int(numbers[0]) if is_count else numbers
    return found
