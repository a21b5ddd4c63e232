"""Questions to a run: plan, certify, report, compare, serve."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree.cli import _interrupt
from horizonfree.cli._shared import (
    Delta,
    Folder,
    GoalStates,
    Json,
    RewardFile,
    answer,
    bound,
    certificate,
    console,
    expanded,
    folder_for_output,
    loss,
    open_run,
    plain,
    reward_of,
    table,
    tell,
    whole,
    working,
)
from horizonfree.errors import OptionError, RunError
from horizonfree.guarantees.meanings import MEANINGS


def plan(
    folder: Folder,
    goal: GoalStates = None,
    stay: Annotated[
        list[int] | None, whole("Reward the share of the steps spent in this state.", "--stay")
    ] = None,
    reward: RewardFile = None,
    scale: Annotated[
        str, typer.Option(help="total: adds up to at most 1; per-step: entries in [0, 1].")
    ] = "total",
    delta: Delta = 0.05,
    model: Annotated[
        str, typer.Option(help="Plan in the `likelihood` estimate or the `explorer`'s own.")
    ] = "likelihood",
    policy: Annotated[
        Path | None,
        typer.Option(help="Write the policy, integers [H, S], to this .npy file.", metavar="FILE"),
    ] = None,
    json: Json = False,
) -> None:
    """Plan for a reward, with a certified gap.

    Examples:

        horizonfree plan runs/a --goal 63

        horizonfree plan runs/a --stay 7 --stay 8

        horizonfree plan runs/a --reward cost.npy --scale per-step --policy policy.npy
    """
    run = open_run(folder)
    import numpy as np

    from horizonfree import occupancy, true_gap
    from horizonfree.report.facts import as_known

    if stay and (goal or reward):
        raise OptionError("--goal, --stay and --reward each name a reward; give one of them")
    table_of = occupancy(run.problem, stay) if stay else reward_of(run.problem, goal, reward)
    if table_of is None:
        raise OptionError("say what is rewarded: --goal STATE, --stay STATE, or --reward FILE.npy")
    if policy is not None:
        folder_for_output(policy.parent)
    with working("planning"):
        found = run.plan(table_of, scale=scale, delta=delta, model=model)
    if policy is not None:
        with policy.open("wb") as file:  # a bare name would be given an ending
            np.save(file, found.policy)
    value: dict[str, Any] = {
        "value": found.value,
        "gap": found.gap,
        "certificate": certificate(found.certificate),
        "policy": found.policy,
    }
    if as_known(run).problem.truth is not None:
        value["true_loss"] = loss(true_gap(run.problem, table_of, found.policy, scale=scale))

    def show() -> None:
        rows: list[tuple[str, Any, str]] = [
            ("value", found.value, "of the plan, in the estimated model"),
            ("certified gap", bound(found.gap), found.certificate.words),
        ]
        if "true_loss" in value:
            rows.append(("true loss", value["true_loss"], "against the best policy; the truth is known here"))
        console.print(table("", "", "", rows=rows))
        if policy is not None:
            tell("\npolicy written to {policy}", policy=policy)

    answer(value, json, show)


def certify(
    folder: Folder,
    delta: Delta = 0.05,
    method: Annotated[
        str,
        typer.Option(
            help="`uniform` for any run, `direct`: sharper, for few unknowns, or `paper`: the explorer's own guarantee."
        ),
    ] = "uniform",
    json: Json = False,
) -> None:
    """How much the plans of a run lose at most, for every reward at once.

    Example:

        horizonfree certify runs/a --delta 0.01
    """
    run = open_run(folder)
    with working("certifying"):
        found = run.certificate(delta, method=method)

    def show() -> None:
        tell(
            "After {episodes:,} episodes, for every reward: [bold]{words}[/]",
            episodes=run.episodes,
            words=found.words,
        )
        numbers = {"gap": bound(found.eps), "delta": found.delta, **found.parts}
        rows = [(name, value, MEANINGS[name]) for name, value in numbers.items()]
        console.print(table("", "", "meaning", rows=rows))

    answer(certificate(found) | {"episodes": run.episodes}, json, show)


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
    from horizonfree.report import write_figures, write_report

    with working("drawing"):
        page = write_report(run, out or expanded(folder) / "report.html", delta=delta)
        drawn = [] if figures is None else [str(x) for x in write_figures(run, figures, delta=delta)]

    def show() -> None:
        tell("report: {page}", page=page)
        if drawn:
            tell("{count} figures in {figures}", count=len(drawn), figures=figures)

    answer({"report": str(page), "figures": drawn}, json, show)


def compare(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")] = None,
    problem: Annotated[str | None, typer.Option(help="Instead of runs: explore this problem anew.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, name=value.")] = None,
    explorer: Annotated[list[str] | None, typer.Option(help="With --problem; all by default.")] = None,
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
            (x["run"], x["explorer"], x["episodes"], bound(x["certified_gap"]), x["worst_true_gap"])
            for x in rows
        ]
        console.print(table("run", "explorer", "episodes", "certified gap", _true_gap(rows), rows=cells))
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
    import json as text

    from horizonfree import make
    from horizonfree.batch.compare import contest, medians
    from horizonfree.cli.settings import entries
    from horizonfree.explorers.registry import EXPLORERS

    parameters, names = entries(param, "--param"), explorer or list(EXPLORERS)
    make(problem, **parameters)
    parts = contest(problem, parameters, names, workers=workers, episodes=episodes, seeds=seeds, delta=delta)
    if out is not None:
        if (out / "run.json").exists():
            raise OptionError(f"{out} holds a run; choose another folder")
        folder_for_output(out)
    with working("exploring"):
        rows = [row for part in parts for row in part]
    if out is not None:
        from horizonfree.report.contest import draw_contest

        (out / "rows.jsonl").write_text("".join(text.dumps(row) + "\n" for row in rows))
        draw_contest(rows, out / "figure.svg")
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
