"""`horizonfree compare`: stored runs, or exploration algorithms on one problem."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree._extras import check_extra
from horizonfree.cli._shared import (
    DeltaOption,
    JsonOption,
    console,
    format_number,
    int_option,
    make_output_folder,
    open_run,
    output,
    print_line,
    round_bound,
    round_loss,
    spinner,
    table,
    to_json,
)
from horizonfree.errors import OptionError, RunError

MIN_WIDTH = 90  # terminal columns for one table of runs


def compare(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")] = None,
    problem: Annotated[
        str | None, typer.Option(help="Explore this problem instead of comparing runs.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, name=value.")] = None,
    explorer: Annotated[
        list[str] | None,
        typer.Option(
            help="With --problem: a name, or 'mine=NAME option=value'.  [default: all but reconstructions]"
        ),
    ] = None,
    episodes: Annotated[int | None, int_option("With --problem: number of episodes.  [default: 300]")] = None,
    seeds: Annotated[int | None, int_option("With --problem: number of seeds.  [default: 10]")] = None,
    workers: Annotated[int | None, int_option("With --problem: number of processes.  [default: 2]")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file of a comparison page; with --problem, folder for rows and a figure."),
    ] = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Compare several runs, or several exploration algorithms on one problem.

    Examples:

        horizonfree compare runs/a runs/b --out comparison.html

        horizonfree compare --problem zoned-grid --episodes 300 --seeds 10 --out comparison

        horizonfree compare --problem zoned-grid --explorer ucrl-rfe --explorer 'half=ucrl-rfe scale=0.5'
    """
    settings = {
        "param": param,
        "explorer": explorer,
        "episodes": episodes,
        "seeds": seeds,
        "workers": workers,
    }
    given: dict[str, Any] = {name: value for name, value in settings.items() if value not in (None, [])}
    if problem is not None:
        if folders:
            raise OptionError(f"{folders[0]} and --problem: compare runs, or explore a problem, not both")
        return _compare_explorers(problem, out, json, delta=delta, **given)
    if not folders:
        raise OptionError("name folders of runs, or a problem with --problem")
    if given:
        raise OptionError(f"--{next(iter(given))} belongs to --problem; runs are compared as they are")
    runs = {str(folder): open_run(folder) for folder in folders}
    if len(runs) < len(folders):
        raise RunError("the same run is named twice; name each once")
    from horizonfree.report.page import check_target, facts_of_runs, rows_of, write_comparison_page

    with spinner("comparing"):
        if out is not None:
            check_target(out)
        comparison = facts_of_runs(runs, delta)
        rows = [to_json(row) for row in rows_of(comparison)]
        for row in rows:
            if row["worst_true_gap"] is not None:
                row["worst_true_gap"] = round_loss(row["worst_true_gap"])
        page = None if out is None else write_comparison_page(comparison, out)

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
            "certified, all goals",
            "certified, every reward",
            _true_gap_title(rows),
        )
        if console.width < MIN_WIDTH:
            for cell in cells:
                print_line("[bold]{run}[/]", run=cell[0])
                console.print(
                    table("", "", rows=[(x, format_number(y)) for x, y in zip(titles[1:], cell[1:])])
                )
        else:
            console.print(table(*titles, rows=cells))
        if page is not None:
            print_line("\ncomparison: {page}", page=page)

    output({"runs": rows, "page": None if page is None else str(page)}, json, show)


def _true_gap_title(rows: Sequence[dict[str, Any]]) -> str:
    """The title of the true suboptimality, with the number of goals if not all were evaluated."""
    scored = [(row["goals_scored"], row["goals"]) for row in rows if row["goals_scored"] is not None]
    if all(count == total for count, total in scored):
        return "true, worst goal"
    counts = {count for count, _ in scored}
    return f"true, worst of {counts.pop()} goals" if len(counts) == 1 else "true, worst goal evaluated"


def _compare_explorers(
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
    """Compare algorithms on one problem: medians over seeds, rows and a figure in a folder."""
    from horizonfree import make
    from horizonfree.batch.compare import compare_in_processes, medians
    from horizonfree.cli._shared import parse_explorers, parse_values
    from horizonfree.explorers.registry import explorers as listed_explorers

    parameters, names = parse_values(param, "--param"), parse_explorers(explorer) or list(listed_explorers())
    make(problem, **parameters)
    parts = compare_in_processes(
        problem, parameters, names, workers=workers, episodes=episodes, seeds=seeds, delta=delta
    )
    if out is not None:
        check_extra("report", "the figure of a comparison")
        if (out / "run.json").exists():
            raise OptionError(f"{out} holds a run; choose another folder")
        make_output_folder(out)
    with spinner("exploring"):
        rows = [row for part in parts for row in part]
    if out is not None:
        _write_comparison(rows, out)
    eps, gap = medians(rows, "eps"), medians(rows, "gap")
    last = max(row["episodes"] for row in rows)
    order = sorted(eps, key=lambda name: eps[name][last])
    results: list[dict[str, Any]] = [
        {"explorer": x, "certified_gap": eps[x][last], "worst_true_gap": round_loss(gap[x][last])}
        for x in order
    ]

    def show() -> None:
        title = f"after {last} episodes, medians of {seeds} seeds"
        cells = [(x["explorer"], round_bound(x["certified_gap"]), x["worst_true_gap"]) for x in results]
        console.print(
            table("explorer", "certified suboptimality", "true, worst goal", rows=cells, title=title)
        )
        if out is not None:
            print_line("\nrows and figure: {out}", out=out)

    output({"explorers": results, "rows": rows}, json, show)


def _write_comparison(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Write rows and a figure into a folder, atomically."""
    import json
    from tempfile import TemporaryDirectory

    from horizonfree.report.draw import plot_comparison
    from horizonfree.runs import files

    with TemporaryDirectory() as temporary:
        figure = Path(temporary, "figure.svg")
        plot_comparison(rows, figure)
        files.replace_file(out / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
        files.replace_file(out / "figure.svg", figure.read_bytes())
