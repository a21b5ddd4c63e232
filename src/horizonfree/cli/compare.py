"""`horizonfree compare`: runs side by side, or explorers on one problem."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree.cli._shared import (
    DeltaOption,
    JsonOption,
    output,
    round_bound,
    console,
    make_output_folder,
    round_loss,
    format_number,
    open_run,
    to_json,
    table,
    print_line,
    int_option,
    spinner,
)
from horizonfree.errors import OptionError, RunError

WIDE = 90  # columns that runs side by side need


def compare(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")] = None,
    problem: Annotated[str | None, typer.Option(help="Instead of runs: explore this problem anew.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, name=value.")] = None,
    explorer: Annotated[
        list[str] | None,
        typer.Option(help="With --problem: a name, or 'mine=NAME option=value'.  [default: all]"),
    ] = None,
    episodes: Annotated[int | None, int_option("With --problem.  [default: 300]")] = None,
    seeds: Annotated[int | None, int_option("With --problem: how many.  [default: 10]")] = None,
    workers: Annotated[int | None, int_option("With --problem: explorers at once.  [default: 2]")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write a page to this HTML file; with --problem, rows and a figure here."),
    ] = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Put several runs side by side, or several explorers on one problem.

    Examples:

        horizonfree compare runs/a runs/b --out comparison.html

        horizonfree compare --problem zoned-grid --episodes 300 --seeds 10 --out runs/contest

        horizonfree compare --problem zoned-grid --explorer ucrl-rfe --explorer 'half=ucrl-rfe scale=0.5'
    """
    given = {"param": param, "explorer": explorer, "episodes": episodes, "seeds": seeds, "workers": workers}
    how: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, [])}
    if problem is not None:
        if folders:
            raise OptionError(
                f"{folders[0]} and --problem: compare runs, or explore a problem anew, not both"
            )
        return _contest(problem, out, json, delta=delta, **how)
    if not folders:
        raise OptionError("name folders of runs, or a problem to explore anew with --problem")
    if how:
        raise OptionError(f"--{next(iter(how))} belongs to --problem; runs are compared as they are")
    runs = {str(folder): open_run(folder) for folder in folders}
    if len(runs) < len(folders):
        raise RunError("the same run is named twice; name each once")
    from horizonfree.report.page import check_target, rows_of, side_by_side, write_beside

    with spinner("comparing"):
        if out is not None:
            check_target(out)
        found = side_by_side(runs, delta)
        rows = [to_json(row) for row in rows_of(found)]
        for row in rows:
            if row["worst_true_gap"] is not None:
                row["worst_true_gap"] = round_loss(row["worst_true_gap"])
        page = None if out is None else write_beside(found, out)

    def show() -> None:
        cells = [
            (
                *(x[name] for name in ("run", "explorer", "episodes")),
                round_bound(x["goals_gap"]),
                round_bound(x["certified_gap"]),
                x["worst_true_gap"],
            )
            for x in rows
        ]
        titles = (
            "run",
            "explorer",
            "episodes",
            "certified, goals",
            "certified, every reward",
            _true_gap(rows),
        )
        if console.width < WIDE:
            for cell in cells:
                print_line("[bold]{run}[/]", run=cell[0])
                console.print(table("", "", rows=[(x, format_number(y)) for x, y in zip(titles[1:], cell[1:])]))
        else:
            console.print(table(*titles, rows=cells))
        if page is not None:
            print_line("\ncomparison: {page}", page=page)

    output({"runs": rows, "page": None if page is None else str(page)}, json, show)


def _true_gap(rows: Sequence[dict[str, Any]]) -> str:
    """The title of the true gaps of runs: where not every goal was scored, of how many they are the worst."""
    scored = [(row["goals_scored"], row["goals"]) for row in rows if row["goals_scored"] is not None]
    if all(some == every for some, every in scored):
        return "worst true gap"
    counts = {some for some, _ in scored}
    return f"worst of {counts.pop()} goals" if len(counts) == 1 else "worst goal scored"


def _contest(
    problem: str,
    out: Path | None,
    json: bool,
    *,
    param: Sequence[str] = (),
    explorer: Sequence[str] = (),
    episodes: int = 300,
    seeds: int = 10,
    workers: int = 2,
    delta: float,
) -> None:
    """Explorers on one problem, with medians over seeds; rows and figure in a folder."""
    from horizonfree import make
    from horizonfree.batch.compare import compare_in_processes, medians
    from horizonfree.cli.settings import parse_values, parse_explorers
    from horizonfree.explorers.registry import EXPLORERS

    parameters, names = parse_values(param, "--param"), parse_explorers(explorer) or list(EXPLORERS)
    make(problem, **parameters)
    parts = compare_in_processes(
        problem, parameters, names, workers=workers, episodes=episodes, seeds=seeds, delta=delta
    )
    if out is not None:
        if (out / "run.json").exists():
            raise OptionError(f"{out} holds a run; choose another folder")
        make_output_folder(out)
    with spinner("exploring"):
        rows = [row for part in parts for row in part]
    if out is not None:
        _keep_contest(rows, out)
    eps, gap = medians(rows, "eps"), medians(rows, "gap")
    last = max(row["episodes"] for row in rows)
    order = sorted(eps, key=lambda name: eps[name][last])
    found: list[dict[str, Any]] = [
        {"explorer": x, "certified_gap": eps[x][last], "worst_true_gap": round_loss(gap[x][last])} for x in order
    ]

    def show() -> None:
        title = f"after {last} episodes, medians of {seeds} seeds"
        cells = [(x["explorer"], round_bound(x["certified_gap"]), x["worst_true_gap"]) for x in found]
        console.print(table("explorer", "certified gap", "worst true gap", rows=cells, title=title))
        if out is not None:
            print_line("\nrows and figure: {out}", out=out)

    output({"explorers": found, "rows": rows}, json, show)


def _keep_contest(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Rows and figure in a folder; each file is the old one or the new one at every moment."""
    import json
    from tempfile import TemporaryDirectory

    from horizonfree.report.comparison_plot import plot_comparison
    from horizonfree.runs import files

    with TemporaryDirectory() as aside:
        figure = Path(aside, "figure.svg")
        plot_comparison(rows, figure)
        files.replace_file(out / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
        files.replace_file(out / "figure.svg", figure.read_bytes())
