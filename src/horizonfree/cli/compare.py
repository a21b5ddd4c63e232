"""`horizonfree compare`: stored runs, or exploration algorithms on one problem."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree._extras import check_extra
from horizonfree.cli._shared import (
    DeltaOption,
    JsonOption,
    console,
    format_number,
    int_option,
    leave_out,
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

if TYPE_CHECKING:
    from horizonfree import Problem
    from horizonfree.batch.compare import ExplorerComparison

MIN_WIDTH = 90  # terminal columns for one table of runs


def compare(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")] = None,
    problem: Annotated[
        str | None, typer.Option(help="Explore this problem, as for `explore`, instead of comparing runs.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, name=value.")] = None,
    explorer: Annotated[
        list[str] | None,
        typer.Option(
            help="With --problem: a name, module:Class, or 'mine=NAME option=value'.  "
            "[default: those of its model class]"
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

        horizonfree compare --problem zoned-grid --explorer hf-ucrl-rfe++ --explorer rf-ucrl --out all.pdf
    """
    settings = {
        "param": param,
        "explorer": explorer,
        "episodes": episodes,
        "seeds": seeds,
        "workers": workers,
    }
    options: dict[str, Any] = {name: value for name, value in settings.items() if value not in (None, [])}
    if problem is not None:
        if folders:
            raise OptionError(f"{folders[0]} and --problem: compare runs, or explore a problem, not both")
        return _compare_explorers(problem, out, json, delta=delta, **options)
    if not folders:
        raise OptionError("name folders of runs, or a problem with --problem")
    leave_out("belongs to --problem; runs are compared as they are", **options)
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
    scored_of_total = [(row["goals_scored"], row["goals"]) for row in rows if row["goals_scored"] is not None]
    if all(count == total for count, total in scored_of_total):
        return "true, worst goal"
    counts = {count for count, _ in scored_of_total}
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
    """Compare algorithms on one problem: medians over seeds, rows and a figure. Finished explorers are kept."""
    from horizonfree.batch.compare import compare_in_processes, without_rounding
    from horizonfree.cli._shared import make_problem, parse_explorers, parse_values

    parameters, names = parse_values(param, "--param"), parse_explorers(explorer)
    instance = make_problem(problem, None, parameters)
    names = names or _of_its_class(instance)
    settings: dict[str, Any] = {"workers": workers, "episodes": episodes, "seeds": seeds, "delta": delta}
    parts = compare_in_processes(instance, names, progress=None if json else True, **settings)
    if out is not None:
        _check_out(out)
    finished: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    for label, part in parts:
        if isinstance(part, str):
            failed[label] = part
            print(f"{label} failed: {part}", file=sys.stderr)
            continue
        finished[label] = part
        if out is not None:
            _write_comparison(_to_comparison(instance.name, names, finished, failed), out)
    if not finished:
        raise RunError(f"every explorer failed: {next(iter(failed.values()))}")
    result = _to_comparison(instance.name, names, finished, failed)
    rows = list(result)
    eps, gap = result.medians("eps"), result.medians("gap")
    last = max(row["episodes"] for row in rows)
    order = sorted(eps, key=lambda name: eps[name][last])
    results: list[dict[str, Any]] = [
        {"explorer": x, "certified_gap": eps[x][last], "worst_true_gap": without_rounding(gap[x][last])}
        for x in order
    ]

    def show() -> None:
        title = f"after {last} episodes, medians of {seeds} seeds"
        cells = [(x["explorer"], round_bound(x["certified_gap"]), x["worst_true_gap"]) for x in results]
        console.print(
            table("explorer", "certified suboptimality", "true, worst goal", rows=cells, title=title)
        )
        if out is not None:
            what = "figure" if _is_figure(out) else "rows and figure"
            print_line("\n{what}: {out}", what=what, out=out)

    output({"explorers": results, "rows": rows, "failed": failed}, json, show)
    if failed:
        raise typer.Exit(1)


def _to_comparison(problem: str, names: Any, finished: Any, failed: dict[str, str]) -> "ExplorerComparison":
    """The rows in the order in which the explorers were named."""
    from horizonfree.batch.compare import ExplorerComparison

    order = sorted(finished, key=list(names).index)
    return ExplorerComparison(problem, tuple(row for label in order for row in finished[label]), failed)


def _of_its_class(problem: "Problem") -> dict[str, dict[str, Any]]:
    """The explorers that learn the model class of a problem, without reconstructions."""
    from horizonfree.explorers.registry import EXPLORERS

    names = (x for x, e in EXPLORERS.items() if isinstance(problem.model, e.explorer_type.learns))
    return {name: {} for name in names if not EXPLORERS[name].is_reconstruction}


def _is_figure(out: Path) -> bool:
    """Whether `--out` names a figure; anything else is a folder."""
    from horizonfree._plots import SUFFIXES

    return out.suffix.lower() in SUFFIXES and not out.is_dir()


def _check_out(out: Path) -> None:
    """Errors for a place that cannot be written, before long work."""
    check_extra("report", "the figure of a comparison")
    if (out / "run.json").exists():
        raise OptionError(f"{out} holds a run; choose another folder")
    if _is_figure(out):
        make_output_folder(out.parent)
    else:
        make_output_folder(out)


def _write_comparison(result: Any, out: Path) -> None:
    """Write a figure, or rows and a figure into a folder, each atomically."""
    import json
    from tempfile import TemporaryDirectory

    from horizonfree.runs import files

    is_folder = not _is_figure(out)
    target = out / "figure.svg" if is_folder else out
    with TemporaryDirectory() as temporary:
        figure = Path(temporary, target.name)
        result.save_figure(figure)
        if is_folder:
            lines = "".join(json.dumps(row) + "\n" for row in result)
            files.replace_file(out / "rows.jsonl", lines.encode())
        files.replace_file(target, figure.read_bytes())
