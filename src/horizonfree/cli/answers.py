"""Questions to a run: certify, report, compare, serve."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import _interrupt
from horizonfree.cli._shared import (
    Delta,
    Folder,
    Json,
    Misspecified,
    answer,
    bound,
    certificate,
    console,
    expanded,
    folder_for_output,
    kept,
    loss,
    open_run,
    plain,
    say_forecast,
    table,
    tell,
    whole,
    working,
    worst_state,
)
from horizonfree.errors import OptionError, RunError
from horizonfree.guarantees.meanings import MEANINGS

if TYPE_CHECKING:
    from horizonfree import Run

FAMILIES = ("goals", "occupancies")


def certify(
    folder: Folder,
    delta: Delta = 0.05,
    method: Annotated[
        str,
        typer.Option(
            help="`uniform` for any run, `direct`: sharper, for few unknowns, or `paper`: the explorer's own guarantee."
        ),
    ] = "uniform",
    rewards: Annotated[
        str | None,
        typer.Option(help="Only for these: `goals` (to end in a state) or `occupancies` (to stay in it)."),
    ] = None,
    misspecification: Misspecified = 0.0,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Also let richer classes bet against this one.")
    ] = False,
    json: Json = False,
) -> None:
    """How much the plans of a run lose at most, for every reward at once or for a family of them.

    Examples:

        horizonfree certify runs/a --delta 0.01

        horizonfree certify runs/a --rewards goals

        horizonfree certify runs/a --misspecification .003

        horizonfree certify runs/a --alternatives
    """
    if rewards is not None and rewards not in FAMILIES:
        raise OptionError(f"--rewards {rewards}: choose one of {', '.join(FAMILIES)}")
    if rewards is not None and method != "uniform":
        raise OptionError("--method is for every reward at once; leave it out with --rewards")
    is_kept = rewards is None and method == "uniform" and not misspecification and not alternatives
    stored, run, checked = kept(folder, delta) if is_kept else None, None, None
    if stored is not None:
        found, episodes = stored.certificate, stored.episodes
    else:
        run = open_run(folder)
        with working("certifying"):
            how: dict[str, Any] = {"rewards": rewards, "misspecification": misspecification}
            richer = {"alternatives": "auto"} if alternatives else {}
            found, episodes = run.certificate(delta, method=method, **how, **richer), run.episodes
            checked = run.check(delta=delta) if alternatives else None
    value = certificate(found) | {"episodes": episodes}
    if checked is not None:
        value["alternatives"] = {x.name: x.log_e / math.log(10) for x in checked.alternatives}
    meanings, what = dict(MEANINGS), "for every reward: "
    if run is not None and rewards is not None and not found.is_rejected:
        state = value["worst_state"] = worst_state(run, rewards, int(found.parts["worst"]))
        meanings["gap"], what = "what a plan loses at most, for each of these rewards", ""
        meanings["worst"] += f": the one of state {state}"

    def show() -> None:
        form = "After {episodes:,} episodes, {what}[bold]{words}[/]"
        tell(form, episodes=episodes, what=what, words=found.words)
        say_forecast(found)
        if checked is not None and not checked.is_refuted:
            tell("Richer classes: {words}", words=checked.words)
        numbers = {"gap": bound(found.eps), "delta": found.delta, **found.parts}
        rows = [(name, x, meanings[name]) for name, x in numbers.items()]
        console.print(table("", "", "meaning", rows=rows))

    answer(value, json, show)
    if run is not None:
        _keep(run, delta)


def _keep(run: "Run", delta: float) -> None:
    from horizonfree.runs.keep import keep

    keep(run, delta)


def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="The file to write.  [default: RUN/report.html]")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write the figures, as SVG and PNG, into this folder.")
    ] = None,
    delta: Delta = 0.05,
    json: Json = False,
) -> None:
    """Write everything about a run into one HTML file.

    Example:

        horizonfree report runs/a --out a.html --figures figures
    """
    run = open_run(folder)
    from horizonfree.report.facts import facts
    from horizonfree.report.figures import write_all
    from horizonfree.report.page import write_page

    with working("drawing"):
        found = facts(run, delta)
        page = write_page(found, out or expanded(folder) / "report.html")
        drawn = [] if figures is None else [str(x) for x in write_all(found, figures)]
    names = ("title", "value", "value_low", "value_high", "gap", "loss")
    value = {
        "report": str(page),
        "figures": drawn,
        "goals": certificate(found.family),
        "every_reward": certificate(found.certificate),
        "plans": [{name: getattr(x, name) for name in names} for x in found.examples],
    }

    def show() -> None:
        tell("{words}", words=found.family.words)
        if found.check.is_refuted:
            tell("but {words}", words=found.check.words)
        tell("report: {page}", page=page)
        if drawn:
            tell("{count} figures in {figures}", count=len(drawn), figures=figures)

    answer(value, json, show)


def compare(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")] = None,
    problem: Annotated[str | None, typer.Option(help="Instead of runs: explore this problem anew.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, name=value.")] = None,
    explorer: Annotated[
        list[str] | None,
        typer.Option(help="With --problem: a name, or 'mine=NAME option=value'.  [default: all]"),
    ] = None,
    episodes: Annotated[int | None, whole("With --problem.  [default: 300]")] = None,
    seeds: Annotated[int | None, whole("With --problem: how many.  [default: 10]")] = None,
    workers: Annotated[int | None, whole("With --problem: explorers at once.  [default: 2]")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write a page to this HTML file; with --problem, rows and a figure here."),
    ] = None,
    delta: Delta = 0.05,
    json: Json = False,
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
    from horizonfree.report import compare as rows_of
    from horizonfree.report import write_comparison

    with working("comparing"):
        rows = [plain(row) for row in rows_of(runs, delta=delta)]
        for row in rows:
            if row["worst_true_gap"] is not None:
                row["worst_true_gap"] = loss(row["worst_true_gap"])
        page = None if out is None else write_comparison(runs, out, delta=delta)

    def show() -> None:
        cells = [
            (
                *(x[name] for name in ("run", "explorer", "episodes")),
                bound(x["goals_gap"]),
                bound(x["certified_gap"]),
                x["worst_true_gap"],
            )
            for x in rows
        ]
        titles = ("run", "explorer", "episodes", "certified, goals", "certified, every reward")
        console.print(table(*titles, _true_gap(rows), rows=cells))
        if page is not None:
            tell("\ncomparison: {page}", page=page)

    answer({"runs": rows, "page": None if page is None else str(page)}, json, show)


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
    from horizonfree.batch.compare import contest, medians
    from horizonfree.cli.settings import entries, explorers
    from horizonfree.explorers.registry import EXPLORERS

    parameters, names = entries(param, "--param"), explorers(explorer) or list(EXPLORERS)
    make(problem, **parameters)
    parts = contest(problem, parameters, names, workers=workers, episodes=episodes, seeds=seeds, delta=delta)
    if out is not None:
        if (out / "run.json").exists():
            raise OptionError(f"{out} holds a run; choose another folder")
        folder_for_output(out)
    with working("exploring"):
        rows = [row for part in parts for row in part]
    if out is not None:
        _keep_contest(rows, out)
    eps, gap = medians(rows, "eps"), medians(rows, "gap")
    last = max(row["episodes"] for row in rows)
    order = sorted(eps, key=lambda name: eps[name][last])
    found: list[dict[str, Any]] = [
        {"explorer": x, "certified_gap": eps[x][last], "worst_true_gap": loss(gap[x][last])} for x in order
    ]

    def show() -> None:
        title = f"after {last} episodes, medians of {seeds} seeds"
        cells = [(x["explorer"], bound(x["certified_gap"]), x["worst_true_gap"]) for x in found]
        console.print(table("explorer", "certified gap", "worst true gap", rows=cells, title=title))
        if out is not None:
            tell("\nrows and figure: {out}", out=out)

    answer({"explorers": found, "rows": rows}, json, show)


def _keep_contest(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Rows and figure in a folder; each file is the old one or the new one at every moment."""
    import json
    from tempfile import TemporaryDirectory

    from horizonfree.report.contest import draw_contest
    from horizonfree.runs import sealed

    with TemporaryDirectory() as aside:
        figure = Path(aside, "figure.svg")
        draw_contest(rows, figure)
        sealed.replace(out / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
        sealed.replace(out / "figure.svg", figure.read_bytes())


def serve(
    folder: Folder,
    port: Annotated[int, whole("0 takes any that is free.")] = 8000,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    delta: Delta = 0.05,
    json: Json = False,
) -> None:
    """Paint rewards in the browser and watch policy, value and certificate, on this machine only.

    Example:

        horizonfree serve runs/a --open
    """
    run = open_run(folder)
    from horizonfree import web

    with ExitStack() as until_stopped:

        def ready(address: str) -> None:
            until_stopped.enter_context(_interrupt.told())
            value = {"run": str(folder), "episodes": run.episodes, "address": address}
            answer(value, json, lambda: web.say_where(address))

        web.serve(run, port=port, open_browser=open_browser, delta=delta, ready=ready)
