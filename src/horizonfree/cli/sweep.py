"""`horizonfree sweep`: many runs on a grid of problems, explorers and seeds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree._extras import check_extra
from horizonfree.cli import _interrupt
from horizonfree.cli._shared import (
    JsonOption,
    console,
    expand_user,
    int_option,
    output,
    print_line,
    round_loss,
    shell_path,
    spinner,
    table,
)

if TYPE_CHECKING:
    from horizonfree.sweeps.results import Sweep

MAX_ERRORS = 5  # of failed tasks
GB = 2**30


def sweep(
    file: Annotated[
        Path,
        typer.Argument(help="TOML file of a sweep, or the folder of a sweep to resume.", metavar="FILE.toml"),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results; an existing sweep is resumed.  [default: sweeps/FILE]"),
    ] = None,
    on: Annotated[
        str, typer.Option(help="`local`, `dask` or `ray`; `dask=ADDRESS`, `ray=ADDRESS` for a cluster.")
    ] = "local",
    workers: Annotated[int | None, int_option("Number of processes.  [default: one for each core]")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate the number of tasks, time and memory.")
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Also write OUT/report.html.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Also write a figure of the first measure: .svg, .pdf or .png.", metavar="FILE"),
    ] = None,
    x: Annotated[
        str,
        typer.Option("--x", help="With --figure: `episodes`, or a parameter that varies, such as horizon."),
    ] = "episodes",
    json: JsonOption = False,
) -> None:
    """Run a grid of problems, explorers and seeds from a file; it can be stopped and resumed.

    The exit code is 1 if tasks failed; each is tried twice, and the same command tries them again.

    Examples:

        horizonfree sweep sweep.toml --dry-run

        horizonfree sweep sweep.toml --workers 2 --report

        horizonfree sweep sweep.toml --figure eps.pdf --x horizon

        horizonfree sweep sweep.toml --on dask=tcp://10.0.0.1:8786 --out sweeps/big
    """
    is_folder = file.is_dir()
    folder = expand_user(out) if out is not None else file if is_folder else Path("sweeps") / file.stem
    if is_folder and out is not None and expand_user(out) != file:
        raise typer.BadParameter("a sweep is resumed in its own folder; leave out --out")
    source = None if is_folder else file
    if dry_run:
        return _print_estimate(source, folder, workers, json)
    if report or figure is not None:
        check_extra("report", "reports and figures of sweeps")
    if figure is not None:
        from horizonfree._plots import check_suffix

        check_suffix(figure)
    with _resume_hint(file, out):
        from horizonfree.sweeps.sweep import sweep as run

        print(f"{file}, on {on}, into {folder}", file=sys.stderr)
        result = run(source, folder, on=on, workers=workers, progress=True)
    page = _page(result, folder) if report else None
    if figure is not None:
        from horizonfree._plots import save_figure

        save_figure(result.plot(result.spec.measure[0], x=x), figure)
    _print_results(result, folder, page, figure, json)
    if result.failed:
        raise typer.Exit(1)


def _page(result: "Sweep", folder: Path) -> Path:
    with spinner("drawing"):
        from horizonfree.report.sweep_page import write_sweep

        return write_sweep(result, folder / "report.html")


def _print_results(result: "Sweep", folder: Path, page: Path | None, figure: Path | None, json: bool) -> None:
    """Medians at the last checkpoint, failures, and the folder of the rows."""
    from horizonfree.sweeps.results import curves

    measures = [*result.spec.measure, *result.spec.records]
    rows: list[dict[str, Any]] = []
    for problem in result.spec.problems:
        by_measure = {name: curves(result, name, problem) for name in measures}
        for explorer in result.spec.explorers:
            last = {
                name: _display_value(name, float(x[explorer].median[-1])) if explorer in x else None
                for name, x in by_measure.items()
            }
            rows.append({"problem": problem, "explorer": explorer, **last})
    value = {
        "folder": str(folder),
        "rows": len(result),
        "failed": dict(result.failed),
        "medians": rows,
        "report": None if page is None else str(page),
    }

    def show() -> None:
        title = f"medians of the seeds after {result.spec.checkpoints[-1]:,} episodes"
        cells = [(row["problem"], _label(result, row), *[*row.values()][2:]) for row in rows]
        console.print(table("problem", "explorer", *measures, rows=cells, title=title))
        print_line("\n{count:,} rows in {folder}", count=len(result), folder=shell_path(folder.absolute()))
        if page is not None:
            print_line("report: {page}", page=page)
        if figure is not None:
            print_line("figure: {figure}", figure=figure)
        if result.failed:
            print_line("[bold]{count} tasks failed[/], each tried twice:", count=len(result.failed))
            for task, error in [*result.failed.items()][:MAX_ERRORS]:
                print_line("  {task}: {error}", task=task, error=error)

    output(value, json, show)


def _label(result: "Sweep", row: dict[str, Any]) -> str:
    """The label of a setting, which says how the explorer sees the problem."""
    from horizonfree.explorers.registry import setting_label
    from horizonfree.sweeps.tasks import build_problem, explorer_view

    entry = result.spec.explorers[row["explorer"]]
    _, view = explorer_view(build_problem(result.spec.problems[row["problem"]]), entry)
    return setting_label(row["explorer"], entry) + (f" ({view})" if view else "")


def _display_value(measure: str, value: float) -> float:
    """True suboptimality without rounding errors."""
    return round_loss(value) if measure in ("gap", "own_gap") else value


def _print_estimate(source: Path | None, folder: Path, workers: int | None, json: bool) -> None:
    """Number of tasks, time and memory."""
    import os

    from horizonfree._validation import check_count
    from horizonfree.sweeps.progress import duration, estimate

    number = check_count(workers, "workers") if workers is not None else os.cpu_count() or 1
    with spinner("trying each setting briefly"):
        result = estimate(source, folder, number)

    def show() -> None:
        print_line(
            "{tasks:,} tasks, {done:,} of them done; {rows:,} rows",
            tasks=result.tasks,
            done=result.done,
            rows=result.rows,
        )
        form = "about {time} with {workers} workers of this machine, about {memory:.1f} GB of memory in all"
        print_line(form, time=duration(result.seconds), workers=number, memory=result.memory / GB)
        print_line(
            "[dim]estimated from one seed and a few episodes of {tried} of the {settings} remaining settings[/]",
            tried=result.tried,
            settings=result.settings,
        )

    output(result._asdict() | {"workers": number}, json, show)


@contextmanager
def _resume_hint(file: Path, out: Path | None) -> Iterator[None]:
    """After Ctrl-C, print how to resume; finished tasks are saved."""
    try:
        with _interrupt.raise_interrupts():
            yield
    except KeyboardInterrupt:
        where = "" if out is None else f" --out {shell_path(out)}"
        print(
            f"stopped; finished tasks are saved. Resume with:\nhorizonfree sweep {shell_path(file)}{where}",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
