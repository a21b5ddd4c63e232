"""Questions to a run: certify, report, serve."""

import math
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import _interrupt
from horizonfree.cli._shared import (
    Delta,
    Folder,
    Json,
    Misspecified,
    Unknown,
    answer,
    bound,
    certificate,
    console,
    expanded,
    open_run,
    say_forecast,
    table,
    tell,
    typed,
    whole,
    working,
    worst_state,
)
from horizonfree.errors import OptionError
from horizonfree.guarantees.meanings import MEANINGS

if TYPE_CHECKING:
    from horizonfree import Run

FAMILIES = ("goals", "occupancies")


def certify(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of a run, as `explore --out` wrote it.", metavar="[RUN]")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Instead: episodes of yours, .csv or .parquet with columns episode, step, state, action, next_state.",
            metavar="FILE",
        ),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="With --log: its class, a name, a model's file or module:function.  [default: an unknown table]"
        ),
    ] = None,
    kernels: Annotated[
        Path | None, typer.Option(help="With --log: the class, as for `explore`.", metavar="FILE.npz")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="With --log: a parameter of the class, name=value.")
    ] = None,
    unknown: Unknown = None,
    out: Annotated[
        Path | None, typer.Option(help="With --log: keep it as a run in this new folder.", metavar="RUN")
    ] = None,
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
    save: Annotated[
        Path | None, typer.Option(help="Write the certificate into this JSON file.", metavar="FILE.json")
    ] = None,
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

        horizonfree certify runs/a --save a.json

        horizonfree certify --log orders.csv --kernels shop.npz --out runs/shop
    """
    if rewards is not None and rewards not in FAMILIES:
        from horizonfree._validation import suggestion

        raise OptionError(f"--rewards {rewards}: {suggestion(rewards, FAMILIES)}")
    if rewards is not None and method != "uniform":
        raise OptionError("--method is for every reward at once; leave it out with --rewards")
    asked = {"problem": problem, "kernels": kernels, "param": param, "unknown": unknown, "out": out}
    of_log = {name: x for name, x in asked.items() if x not in (None, [])}
    _check_asked(folder, log, of_log)
    run = _run_of(folder, log, of_log)
    how: dict[str, Any] = {"misspecification": misspecification}
    richer: dict[str, Any] = {"alternatives": "auto"} if alternatives else {}
    with working("certifying"):
        run.confidence(delta, **how)
    with nullcontext() if rewards else working("certifying"):  # for rewards the progress is shown
        how |= {"rewards": rewards, "progress": True}
        found = run.certificate(delta, method=method, **how, **richer)
        checked = run.check(delta=delta) if alternatives else None
    if save is not None:
        found.save(save)
    value = certificate(found) | {"episodes": run.episodes}
    if checked is not None:
        value["alternatives"] = {x.name: x.log_e / math.log(10) for x in checked.alternatives}
    meanings = dict(MEANINGS)
    if rewards is not None and not found.is_rejected:
        state = value["worst_state"] = worst_state(run, rewards, int(found.parts["worst"]))
        meanings["gap"] = "suboptimality bound of the plans, for each of these rewards"
        meanings["worst"] += f": the one of {run.problem.state_name(state)}"

    def show() -> None:
        tell("After {episodes:,} episodes, [bold]{words}[/]", episodes=run.episodes, words=found.words)
        for name, text in (("Holds for", found.holds_for), ("Assumes", found.assumes)):
            if text:
                tell("[dim]{name}:[/] {text}", name=name, text=text)
        say_forecast(found)
        if checked is not None and not checked.is_refuted:
            tell("Richer classes: {words}", words=checked.words)
        numbers = {"gap": bound(found.eps), "delta": found.delta, **found.parts}
        rows = [(name, x, meanings[name]) for name, x in numbers.items()]
        console.print(table("", "", "meaning", rows=rows))
        if out is not None:
            tell("\n[dim]Plan for a cost:[/]  horizonfree plan {folder} --cost FILE.csv", folder=typed(out))

    answer(value, json, show)


def verify(
    file: Annotated[Path, typer.Argument(help="A certificate, as --save wrote it.", metavar="FILE.json")],
    folder: Folder,
    json: Json = False,
) -> None:
    """Compute the certificate of a file again from a run, and say whether it is confirmed (exit code 1 if not).

    Example:

        horizonfree verify a.json runs/a
    """
    run = open_run(folder)
    from horizonfree.runs.verify import verify as compared

    with working("computing the certificate again"):
        found = compared(file, run)
    value = {
        name: getattr(found, name)
        for name in ("is_confirmed", "bound", "claimed", "statement", "differences")
    }

    def show() -> None:
        tell(
            "[bold]{verdict}[/]: {text}",
            verdict="confirmed" if found.is_confirmed else "not confirmed",
            text=found.statement,
        )
        for difference in found.differences:
            tell("[dim]differs:[/] {text}", text=difference)

    answer(value, json, show)
    if not found.is_confirmed:
        raise typer.Exit(1)


def _check_asked(folder: Path | None, log: Path | None, of_log: dict[str, Any]) -> None:
    """Refuse a run and a log together, neither, and what belongs to a log beside a run."""
    if (folder is None) == (log is None):
        raise OptionError("name the folder of a run, or a log of yours with --log FILE")
    if log is None and of_log:
        raise OptionError(f"--{next(iter(of_log))} belongs to --log; a run has its own")


def _run_of(folder: Path | None, log: Path | None, of_log: dict[str, Any]) -> "Run":
    """The run in a folder, or the one that a log makes."""
    if folder is not None:
        return open_run(folder)
    from horizonfree.cli.logs import run_of

    assert log is not None  # one of the two is there
    return run_of(log, **of_log)


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
    from horizonfree.report.figures import pictures, write_pictures
    from horizonfree.report.page import check_target, write_page

    page = out or expanded(folder) / "report.html"
    with working("drawing"):
        check_target(page)
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
        found = facts(run, delta)
        drawn = pictures(found)
        write_page(found, page, drawn)
        files = [] if figures is None else write_pictures(drawn, figures)
    names = ("title", "value", "value_low", "value_high", "gap", "loss")
    value = {
        "report": str(page),
        "figures": list(map(str, files)),
        "goals": certificate(found.family),
        "every_reward": certificate(found.certificate),
        "plans": [{name: getattr(x, name) for name in names} for x in found.examples],
    }

    def show() -> None:
        tell("{words}", words=found.family.words)
        if found.check.is_refuted:
            tell("but {words}", words=found.check.words)
        tell("report: {page}", page=page)
        if files:
            tell("{count} figures in {figures}", count=len(files), figures=figures)

    answer(value, json, show)


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
