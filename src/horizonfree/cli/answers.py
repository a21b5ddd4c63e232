"""Commands that read a run: certify, robustness, report, serve."""

import math
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import _interrupt, logs
from horizonfree.cli._shared import (
    AtLeastOption,
    AtMostOption,
    DeltaOption,
    GoalOption,
    JsonOption,
    MisspecificationOption,
    RewardOption,
    RunArgument,
    UnknownOption,
    certificate_json,
    console,
    expand_user,
    float_option,
    int_option,
    leave_out,
    make_reward,
    only_one,
    open_run,
    output,
    print_forecast,
    print_line,
    round_bound,
    shell_path,
    spinner,
    table,
    worst_state,
)
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import MEANINGS

if TYPE_CHECKING:
    from horizonfree import Certificate, Run

FAMILIES = ("goals", "occupancies")


def certify(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of a run, as written by `explore --out`.", metavar="[RUN]")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="A log instead, .csv or .parquet, with columns episode, step, state, action.",
            metavar="FILE",
        ),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="With --log: the problem, a name, a model's file or module:function.  [default: a tabular MDP]"
        ),
    ] = None,
    kernels: Annotated[
        Path | None, typer.Option(help="With --log: the kernels, as for `explore`.", metavar="FILE.npz")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(help="With --log: a parameter of the problem, name=value.")
    ] = None,
    columns: logs.Columns = None,
    missing: logs.Missing = None,
    bins: logs.Bins = None,
    start: logs.Start = None,
    horizon: logs.Horizon = None,
    terminal: logs.Terminal = None,
    unknown: UnknownOption = None,
    out: Annotated[
        Path | None, typer.Option(help="With --log: store the run in this new folder.", metavar="RUN")
    ] = None,
    delta: DeltaOption = 0.05,
    method: Annotated[
        str | None,
        typer.Option(
            help="`uniform` (any run), `direct` (sharper, for few unknowns) or `paper` (the explorer's own "
            "guarantee).  [default: the smallest bound that takes about a second]"
        ),
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(help="Only for `goals` (to end in a state) or `occupancies` (to stay in it)."),
    ] = None,
    misspecification: MisspecificationOption = 0.0,
    save: Annotated[
        Path | None, typer.Option(help="Write the certificate to this JSON file.", metavar="FILE.json")
    ] = None,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Also test the model class against richer classes.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show the numbers behind the bound.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Bound the suboptimality of the plans of a run, for every reward or for a family of rewards.

    Examples:

        horizonfree certify runs/a --delta 0.01

        horizonfree certify runs/a --rewards goals --verbose

        horizonfree certify runs/a --misspecification .003

        horizonfree certify runs/a --alternatives

        horizonfree certify runs/a --save a.json

        horizonfree certify --log orders.csv --kernels shop.npz --out runs/shop

        horizonfree certify --log machines.csv --columns episode=machine,step=week,state=status --missing drop
    """
    if rewards is not None and rewards not in FAMILIES:
        from horizonfree._validation import suggestion

        raise OptionError(f"--rewards {rewards}: {suggestion(rewards, FAMILIES)}")
    if rewards is not None:
        leave_out("is for every reward; leave it out with --rewards", method=method)
    log_options = {
        "problem": problem, "kernels": kernels, "param": param, "unknown": unknown, "columns": columns,
        "missing": missing, "bins": bins, "start": start, "horizon": horizon, "terminal": terminal, "out": out,
    }  # fmt: skip
    run = _run_or_log(folder, log, {name: x for name, x in log_options.items() if x not in (None, [])})
    options: dict[str, Any] = {"misspecification": misspecification}
    with spinner("certifying"):
        run.confidence(delta, **options)
    options |= {"rewards": rewards, "progress": True} | ({"alternatives": "auto"} if alternatives else {})
    with nullcontext() if rewards else spinner("certifying"):  # for rewards, progress is shown
        certificate = run.certificate(delta, method=method, **options)
        check = run.check(delta=delta) if alternatives else None
    if save is not None:
        certificate.save(save)
    value = certificate_json(certificate) | {"episodes": run.episodes}
    if check is not None:
        value["alternatives"] = {x.name: x.log_e / math.log(10) for x in check.alternatives}
    meanings = dict(MEANINGS)
    if rewards is not None and not certificate.is_rejected:
        state = value["worst_state"] = worst_state(run, rewards, int(certificate.parts["worst"]))
        meanings["gap"] = "suboptimality bound of the plans, for each of these rewards"
        meanings["worst"] += f": that of {run.problem.state_name(state)}"

    if log is not None:
        value["notes"] = run.problem.layout.get("log", {}).get("notes", [])

    def show() -> None:
        logs.show_notes(run)
        form = "After {episodes:,} episodes: [bold]{summary}[/]"
        print_line(form, episodes=run.episodes, summary=certificate)
        fields = {
            "Holds for": certificate.holds_for,
            "Assumes": certificate.assumes,
            "Method": certificate.method,
        }
        for name, text in fields.items():
            if text:
                print_line("[dim]{name}:[/] {text}", name=name, text=text)
        print_forecast(certificate)
        if check is not None and not check.is_refuted:
            print_line("Alternatives: {summary}", summary=check)
        if verbose:
            _print_parts(certificate, meanings)
        else:
            print_line("[dim]The numbers behind it: --verbose[/]")
        if out is not None:
            folder = shell_path(out)
            print_line("\n[dim]Plan for a cost:[/]  horizonfree plan {folder} --cost FILE.csv", folder=folder)

    output(value, json, show)


def verify(
    file: Annotated[Path, typer.Argument(help="A certificate, as written by --save.", metavar="FILE.json")],
    folder: RunArgument,
    json: JsonOption = False,
) -> None:
    """Compute the certificate in a file again from a run; exit code 1 if it is not confirmed.

    Example:

        horizonfree verify a.json runs/a
    """
    run = open_run(folder)
    from horizonfree.runs.verify import verify as verify_file

    with spinner("computing the certificate again"):
        result = verify_file(file, run)
    names = ("is_confirmed", "bound", "claimed", "statement", "differences")

    def show() -> None:
        verdict = "confirmed" if result.is_confirmed else "not confirmed"
        print_line("[bold]{verdict}[/]: {text}", verdict=verdict, text=result.statement)
        for difference in result.differences:
            print_line("[dim]differs:[/] {text}", text=difference)

    output({name: getattr(result, name) for name in names}, json, show)
    if not result.is_confirmed:
        raise typer.Exit(1)


def _print_parts(certificate: "Certificate", meanings: dict[str, str]) -> None:
    numbers = {"gap": round_bound(certificate.eps), "delta": certificate.delta, **certificate.parts}
    rows = [(name, x, meanings[name]) for name, x in numbers.items()]
    console.print(table("", "", "meaning", rows=rows))


def _run_or_log(folder: Path | None, log: Path | None, log_options: dict[str, Any]) -> "Run":
    """The run in a folder, or one made from a log."""
    if (folder is None) == (log is None):
        raise OptionError("name the folder of a run, or a log with --log FILE")
    if folder is not None:
        leave_out("belongs to --log; a run has its own", **log_options)
        return open_run(folder)
    assert log is not None
    return logs.run_of(log, **log_options)


def robustness(
    folder: RunArgument,
    target: Annotated[float, float_option("The suboptimality bound to be certified.")] = 0.1,
    goal: GoalOption = None,
    reward: RewardOption = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """The largest misspecification of the model class with which a bound is still certified.

    For every reward, or for one. Misspecification is the distance, in total variation, of the transition probabilities
    from those of one parameter.

    Examples:

        horizonfree robustness runs/a --target .1

        horizonfree robustness runs/a --target .05 --goal 63
    """
    run = open_run(folder)
    with spinner("certifying"):
        result = run.robustness(target, reward=make_reward(run.problem, goal, reward), delta=delta)
    curve = list(zip(result.zetas.tolist(), result.gaps.tolist()))
    value = {
        "target": result.target,
        "delta": result.delta,
        "zeta": result.zeta,
        "zeta_low": result.zeta_low,
        "curve": [{"zeta": zeta, "gap": gap} for zeta, gap in curve],
        "summary": result.summary(),
        "episodes": run.episodes,
    }

    def show() -> None:
        print_line(
            "After {episodes:,} episodes: [bold]{summary}[/]", episodes=run.episodes, summary=result.summary()
        )
        rows = [(f"{zeta:.3g}", "refuted" if gap != gap else round_bound(gap)) for zeta, gap in curve]
        console.print(table("misspecification", "suboptimality at most", rows=rows))

    output(value, json, show)


def report(
    folder: RunArgument,
    out: Annotated[Path | None, typer.Option(help="File of the report.  [default: RUN/report.html]")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write the figures, as SVG and PNG, into this folder.")
    ] = None,
    reward: RewardOption = None,
    cost: Annotated[
        Path | None,
        typer.Option(help="Begin with the decision for these costs, a file as for `plan`.", metavar="FILE"),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="With --cost or --reward: today's policy, to compare with.  [default: that of the data]",
            metavar="FILE",
        ),
    ] = None,
    at_most: AtMostOption = None,
    at_least: AtLeastOption = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Write a report on a run, one HTML file; with costs, the decision comes first.

    With constraints, its plans are the best within them.

    Examples:

        horizonfree report runs/a --out a.html --figures figures

        horizonfree report runs/a --cost january.csv --policy today.csv

        horizonfree report runs/a --at-most danger.csv=0.01 --at-least service.csv=0.3
    """
    only_one("a reward", reward=reward, cost=cost)
    if policy is not None and reward is None and cost is None:
        raise OptionError("--policy is compared for costs or rewards; give --cost FILE or --reward FILE")
    run = open_run(folder)
    from horizonfree.cli.array_files import read_constraints, read_policy
    from horizonfree.report.draw import pictures, write_pictures
    from horizonfree.report.facts import compute_facts
    from horizonfree.report.page import check_target, decide, write_page

    page = out or expand_user(folder) / "report.html"
    constraints = read_constraints(run.problem, at_most or [], at_least or [])
    with spinner("drawing"):
        check_target(page)
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
        decision = None
        if reward is not None or cost is not None:
            array = make_reward(run.problem, None, reward, cost)
            today = None if policy is None else read_policy(policy, run.problem)
            is_cost = cost is not None
            decision = decide(run, array, today, is_cost=is_cost, delta=delta, constraints=constraints)
        result = compute_facts(run, delta, constraints=constraints)
        svg_pictures = pictures(result)
        write_page(result, page, svg_pictures, decision)
        files = [] if figures is None else write_pictures(svg_pictures, figures)
    names = ("title", "value", "value_low", "value_high", "gap", "loss")
    value = {
        "report": str(page),
        "figures": list(map(str, files)),
        "goals": certificate_json(result.family),
        "every_reward": certificate_json(result.certificate),
        "plans": [
            {name: getattr(x, name) for name in names}
            | {"likely": x.likely.data()}
            | ({} if x.within is None else {"summary": x.statement} | x.within.to_dict())
            for x in result.examples
        ],
    }
    if result.limits is not None:
        value |= result.limits.to_dict()

    if decision is not None:
        value["decision"] = decision

    def show() -> None:
        if decision is not None:
            if "within" in decision:
                print_line("[bold]Constraints:[/] {text}", text=decision["within"]["summary"])
            print_line("[bold]Proved:[/] {text}", text=decision["proved"])
            print_line("[bold]Likely:[/] {text}", text=decision["likely"])
        where = "" if result.limits is None else "without constraints, "
        print_line("{where}{summary}", where=where, summary=result.family)
        for x in result.examples if result.limits is not None else []:
            print_line("{title}: {text}", title=x.title, text=x.statement)
            if x.within is not None and x.within.forecast:
                print_line("[dim]{forecast}[/]", forecast=x.within.forecast)
        for title, reason in [] if result.limits is None else result.limits.refused:
            print_line("{title}: not available: {reason}", title=title, reason=reason)
        if result.check.is_refuted:
            print_line("but {summary}", summary=result.check)
        print_line("report: {page}", page=page)
        if files:
            print_line("{count} figures in {figures}", count=len(files), figures=figures)

    output(value, json, show)


def serve(
    folder: RunArgument,
    port: Annotated[int, int_option("Port; 0 for any free one.")] = 8000,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Paint rewards in the browser and see policy, value and certificate, on this machine only.

    Example:

        horizonfree serve runs/a --open
    """
    run = open_run(folder)
    from horizonfree import web

    with ExitStack() as until_stopped:

        def ready(address: str) -> None:
            until_stopped.enter_context(_interrupt.raise_interrupts())
            value = {"run": str(folder), "episodes": run.episodes, "address": address}
            output(value, json, lambda: web.print_address(address))

        web.serve(run, port=port, open_browser=open_browser, delta=delta, ready=ready)
