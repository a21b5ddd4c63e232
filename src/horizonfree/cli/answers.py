"""Questions to a run: plan, certify, report, compare, serve."""

from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree.cli._shared import (
    Delta,
    Folder,
    GoalStates,
    Json,
    RewardFile,
    answer,
    certificate,
    console,
    open_run,
    plain,
    reward_of,
    table,
    working,
)
from horizonfree.errors import OptionError, RunError


def plan(
    folder: Folder,
    goal: GoalStates = None,
    stay: Annotated[
        list[int] | None, typer.Option("--stay", help="Reward the share of the steps spent in this state.")
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

    if stay and (goal or reward):
        raise OptionError("--goal, --stay and --reward each name a reward; give one of them")
    table_of = occupancy(run.problem, stay) if stay else reward_of(run.problem, goal, reward)
    if table_of is None:
        raise OptionError("say what is rewarded: --goal STATE, --stay STATE, or --reward FILE.npy")
    with working("planning"):
        found = run.plan(table_of, scale=scale, delta=delta, model=model)
    if policy is not None:
        np.save(policy, found.policy)
    value: dict[str, Any] = {
        "value": found.value,
        "gap": found.gap,
        "certificate": certificate(found.certificate),
        "policy": found.policy,
    }
    if run.problem.truth is not None:
        value["true_loss"] = true_gap(run.problem, table_of, found.policy, scale=scale)

    def show() -> None:
        rows: list[tuple[str, Any, str]] = [
            ("value", found.value, "of the plan, in the estimated model"),
            ("certified gap", found.gap, found.certificate.words),
        ]
        if "true_loss" in value:
            rows.append(("true loss", value["true_loss"], "against the best policy; the truth is known here"))
        console.print(table("", "", "", rows=rows))
        if policy is not None:
            console.print(f"\npolicy written to {policy}", soft_wrap=True)

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
        console.print(
            f"After {run.episodes:,} episodes, for every reward: [bold]{found.words}[/]", soft_wrap=True
        )
        console.print(table("", "", rows=[("gap", found.eps), ("delta", found.delta), *found.parts.items()]))

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
        page = write_report(run, out or folder / "report.html", delta=delta)
        drawn = [] if figures is None else [str(x) for x in write_figures(run, figures, delta=delta)]

    def show() -> None:
        console.print(f"report: {page}", soft_wrap=True)
        if drawn:
            console.print(f"{len(drawn)} figures in {figures}", soft_wrap=True)

    answer({"report": str(page), "figures": drawn}, json, show)


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[Path | None, typer.Option(help="Also write a page to this HTML file.")] = None,
    delta: Delta = 0.05,
    json: Json = False,
) -> None:
    """Put several runs side by side.

    Example:

        horizonfree compare runs/a runs/b --out comparison.html
    """
    runs = {str(folder): open_run(folder) for folder in folders}
    if len(runs) < len(folders):
        raise RunError("the same run is named twice; name each once")
    from horizonfree.report import compare as rows_of
    from horizonfree.report import write_comparison

    with working("comparing"):
        rows = [plain(row) for row in rows_of(runs, delta=delta)]
        page = None if out is None else write_comparison(runs, out, delta=delta)

    def show() -> None:
        columns = ("run", "explorer", "episodes", "certified_gap", "worst_true_gap")
        titles = [x.replace("_", " ") for x in columns]
        console.print(table(*titles, rows=[[row[x] for x in columns] for row in rows]))
        if page is not None:
            console.print(f"\ncomparison: {page}", soft_wrap=True)

    answer({"runs": rows, "page": None if page is None else str(page)}, json, show)


def serve(
    folder: Folder,
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8000,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    delta: Delta = 0.05,
    json: Json = False,
) -> None:
    """Paint rewards in the browser and watch policy, value and certificate, on this machine only.

    Example:

        horizonfree serve runs/a --open
    """
    run = open_run(folder)
    from horizonfree.web import serve as serve_run

    answer({"run": str(folder), "episodes": run.episodes, "port": port}, json, lambda: None)
    serve_run(run, port=port, open_browser=open_browser, delta=delta)
