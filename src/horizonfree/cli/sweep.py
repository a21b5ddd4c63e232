"""`horizonfree sweep`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import _interrupt
from horizonfree.cli._shared import Json, answer, console, expanded, table, tell, typed, whole, working

if TYPE_CHECKING:
    from horizonfree.sweeps.table import Sweep

MOST_ERRORS = 5  # of failed tasks that are shown
GB = 2**30


def sweep(
    file: Annotated[
        Path,
        typer.Argument(help="What to sweep, or the folder of a sweep to go on with.", metavar="FILE.toml"),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the rows; the same one goes on.  [default: sweeps/FILE]")
    ] = None,
    on: Annotated[
        str, typer.Option(help="`local`, `dask` or `ray`; `dask=ADDRESS`, `ray=ADDRESS` for a cluster.")
    ] = "local",
    workers: Annotated[int | None, whole("How many.  [default: one for each core]")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many tasks there are and about what they take.")
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Also write OUT/report.html.")] = False,
    json: Json = False,
) -> None:
    """Run a grid of problems, explorers and seeds, as a file says; stop it and go on whenever you like.

    The exit code is 1 where tasks failed: they were tried twice, and the same command tries them again.

    Examples:

        horizonfree sweep sweep.toml --dry-run

        horizonfree sweep sweep.toml --workers 2 --report

        horizonfree sweep sweep.toml --on dask=tcp://10.0.0.1:8786 --out sweeps/big
    """
    is_folder = file.is_dir()
    folder = expanded(out) if out is not None else file if is_folder else Path("sweeps") / file.stem
    if is_folder and out is not None and expanded(out) != file:
        raise typer.BadParameter("a sweep goes on in its own folder; leave --out out")
    what = None if is_folder else file
    if dry_run:
        return _say_estimate(what, folder, workers, json)
    with _saying_how_to_go_on(file, out):
        from horizonfree.sweeps.sweep import sweep as run

        print(f"{file}, on {on}, into {folder}", file=sys.stderr)
        found = run(what, folder, on=on, workers=workers, progress=True)
    page = _page(found, folder) if report else None
    _say(found, folder, page, json)
    if found.failed:
        raise typer.Exit(1)


def _page(found: "Sweep", folder: Path) -> Path:
    with working("drawing"):
        from horizonfree.report.sweep_page import write_sweep

        return write_sweep(found, folder / "report.html")


def _say(found: "Sweep", folder: Path, page: Path | None, json: bool) -> None:
    """What came of it: medians at the last checkpoint, failures, where the rows are."""
    from horizonfree.sweeps.summary import curves

    measures = [*found.spec.measure, *found.spec.records]
    rows: list[dict[str, Any]] = []
    for place in found.spec.problems:
        by_measure = {name: curves(found, name, place) for name in measures}
        for who in found.spec.explorers:
            last = {name: float(x[who].median[-1]) if who in x else None for name, x in by_measure.items()}
            rows.append({"problem": place, "explorer": who, **last})
    value = {
        "folder": str(folder),
        "rows": len(found),
        "failed": dict(found.failed),
        "medians": rows,
        "report": None if page is None else str(page),
    }

    def show() -> None:
        title = f"medians of the seeds after {found.spec.checkpoints[-1]:,} episodes"
        cells = [tuple(row.values()) for row in rows]
        console.print(table("problem", "explorer", *measures, rows=cells, title=title))
        tell("\n{count:,} rows in {folder}", count=len(found), folder=typed(folder.absolute()))
        if page is not None:
            tell("report: {page}", page=page)
        if found.failed:
            tell("[bold]{count} tasks failed[/], each tried twice:", count=len(found.failed))
            for where, error in [*found.failed.items()][:MOST_ERRORS]:
                tell("  {where}: {error}", where=where, error=error)

    answer(value, json, show)


def _say_estimate(what: Path | None, folder: Path, workers: int | None, json: bool) -> None:
    """How many tasks, how long, how much memory."""
    import os

    from horizonfree._validation import check_count
    from horizonfree.sweeps.estimate import estimate
    from horizonfree.sweeps.tally import duration

    number = check_count(workers, "workers") if workers is not None else os.cpu_count() or 1
    with working("trying each setting for a moment"):
        found = estimate(what, folder, number)

    def show() -> None:
        tell(
            "{tasks:,} tasks, {done:,} of them done; {rows:,} rows",
            tasks=found.tasks,
            done=found.done,
            rows=found.rows,
        )
        form = "about {time} with {workers} workers of this machine, about {memory:.1f} GB of memory in all"
        tell(form, time=duration(found.seconds), workers=number, memory=found.memory / GB)
        tell(
            "[dim]a guess, from one seed and a few episodes of {tried} of the {settings} settings that are left[/]",
            tried=found.tried,
            settings=found.settings,
        )

    answer(found._asdict() | {"workers": number}, json, show)


@contextmanager
def _saying_how_to_go_on(file: Path, out: Path | None) -> Iterator[None]:
    """Ctrl-C: what is finished is kept; say how to go on."""
    try:
        with _interrupt.told():
            yield
    except KeyboardInterrupt:
        where = "" if out is None else f" --out {typed(out)}"
        print(
            f"stopped; every finished task is kept. Go on with:\nhorizonfree sweep {typed(file)}{where}",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
