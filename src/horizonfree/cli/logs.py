"""From a log to a decision: a log as a run, `horizonfree audit`, and `horizonfree power`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import (
    DeltaOption,
    GoalOption,
    JsonOption,
    RewardOption,
    RunArgument,
    check_form,
    console,
    expand_user,
    float_option,
    int_option,
    leave_out,
    make_event,
    make_problem,
    make_reward,
    open_run,
    output,
    parse_values,
    print_line,
    spinner,
    state_option,
    table,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run
    from horizonfree.runs.audit import Audit
    from horizonfree.runs.power import Power

BAR = 30  # characters of a probability of 1
OF_TABLE = ("num_states", "num_actions", "horizon", "start")

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        help="With --log: names of its columns, state=status,action=order; state=load+wear joins two; step= for none.",
        metavar="ROLE=NAME,...",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="With --log: what to do with holes: `drop` incomplete steps, `cut` episodes there, or `error`.",
    ),
]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        help="With --log: bins of a column of real numbers, wear=5 (quantiles) or wear=20,40 (inner edges).",
        metavar="COLUMN=...",
    ),
]
Start = Annotated[
    str | None,
    state_option("With --log: the state in which episodes start that you plan for, or `unknown`.", "--start"),
]
Horizon = Annotated[
    int | None,
    int_option("With --log: how many steps to plan for.  [default: the longest episode]", "--horizon"),
]
Terminal = Annotated[
    list[str] | None,
    state_option("With --log: a state in which every episode ends; repeat for several.", "--terminal"),
]


def run_of(
    log: Path,
    *,
    problem: str | None = None,
    kernels: Path | None = None,
    param: Sequence[str] = (),
    columns: Sequence[str] = (),
    missing: str | None = None,
    bins: Sequence[str] = (),
    start: str | None = None,
    horizon: int | None = None,
    terminal: Sequence[str] = (),
    unknown: Sequence[str] = (),
    out: Path | None = None,
) -> "Run":
    """The run of a log, saved if `out` names a folder; without a model class, a tabular MDP."""
    parameters: dict[str, Any] = parse_values(param, "--param")
    options: dict[str, Any] = {"columns": columns_of(columns) or None, "bins": bins_of(bins) or None}
    if missing is not None:
        options["missing"] = missing
    of_table = {"start": start, "horizon": horizon, "terminal": list(terminal) or None}
    of_table = {name: x for name, x in of_table.items() if x is not None}
    with spinner(f"reading {log}"):
        from horizonfree import from_log

        if problem is None and kernels is None:
            odd = next((name for name in parameters if name not in OF_TABLE), None)
            if odd is not None:
                raise OptionError(f"--param {odd}: a tabular MDP has {', '.join(OF_TABLE)}")
            run = from_log(log, **options, **{**parameters, **of_table})
        else:
            leave_out("is of a log without a problem; a problem has its own: leave it out", **of_table)
            run = from_log(log, make_problem(problem, kernels, parameters, unknown), **options)
        if out is not None:
            run.save(expand_user(out))
    return run


def show_notes(run: "Run") -> None:
    """What was done with the log before it became a run."""
    for note in run.problem.layout.get("log", {}).get("notes", ()):
        print_line("[dim]Log:[/] {note}", note=note)


def columns_of(texts: Sequence[str]) -> dict[str, Any]:
    """`state=status,action=order` as a dictionary; `a+b` is a list, and nothing is None."""
    result: dict[str, Any] = {}
    for text in (x for option in texts for x in option.split(",")):
        role, equals, name = text.partition("=")
        check_form(role and equals, f"--columns {text}", "--columns state=status,action=order")
        names = name.split("+")
        result[role.strip()] = None if not name else names[0] if len(names) == 1 else names
    return result


def bins_of(texts: Sequence[str]) -> dict[str, Any]:
    """`wear=5` as a number of bins, `wear=20,40` as inner edges."""
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            numbers = [float(x) for x in value.split(",")]
        except ValueError:
            numbers = []
        check_form(name and equals and numbers, f"--bins {text}", "--bins wear=5 or --bins wear=20,40")
        is_count = len(numbers) == 1 and "." not in value and "," not in value
        result[name] = int(numbers[0]) if is_count else numbers
    return result


def audit(
    log: Annotated[
        Path, typer.Argument(help="A log, .csv or .parquet; or the folder of a run.", metavar="LOG")
    ],
    policy: Annotated[
        Path,
        typer.Option(
            help="The new policy: a .csv with columns step, state, action, or an array.", metavar="FILE"
        ),
    ],
    incumbent: Annotated[
        Path | None,
        typer.Option(help="The policy in use.  [default: what the log does in each state]", metavar="FILE"),
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            help="Costs, in any unit: a table of states by actions, or rows state,action,cost.",
            metavar="FILE",
        ),
    ] = None,
    reward: RewardOption = None,
    goal: GoalOption = None,
    columns: Columns = None,
    missing: Missing = None,
    bins: Bins = None,
    start: Start = None,
    horizon: Horizon = None,
    terminal: Terminal = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep the log as a run in this new folder.", metavar="RUN")
    ] = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """Is a new policy better than the one in use? Off-policy evaluation with a proof, from a log alone.

    Examples:

        horizonfree audit machines.csv --missing drop --policy new.csv --incumbent old.csv --cost cost.csv

        horizonfree audit runs/machines --policy new.csv --cost cost.csv --json
    """
    if sum(x is not None and x != [] for x in (goal, reward, cost)) != 1:
        raise OptionError("say what is to be valued: --cost FILE, --reward FILE or --goal STATE, one of them")
    options = {
        "columns": columns, "missing": missing, "bins": bins, "start": start, "horizon": horizon,
        "terminal": terminal,
    }  # fmt: skip
    if out is not None and log.is_dir():
        raise OptionError(f"--out is for a log; {log} is the folder of a run")
    run = _run_of(log, {name: x for name, x in options.items() if x not in (None, [])})
    from horizonfree.cli.array_files import read_policy
    from horizonfree.runs.audit import audit as audit_of

    problem = run.problem
    array = make_reward(problem, goal, reward, cost)
    new, old = (None if x is None else read_policy(x, problem) for x in (policy, incumbent))
    scale = "total" if goal else "rescale"
    with spinner("auditing"):
        result = audit_of(run, array, new, old, scale=scale, delta=delta)
        value = result.to_dict(is_cost=cost is not None)
        if out is not None:
            run.save(expand_user(out))
    names = str(policy), str(incumbent) if incumbent is not None else "the log's policy"
    output(value, json, lambda: show(result, value, names))


def _run_of(log: Path, options: dict[str, Any]) -> "Run":
    """The run in a folder, or of a log."""
    if not log.is_dir():
        return run_of(log, **options)
    leave_out(f"is for a log; {log} is the folder of a run", **options)
    return open_run(log)


def show(result: "Audit", value: dict[str, Any], names: tuple[str, str]) -> None:
    """The decision first, then what it is made of."""
    from horizonfree.guarantees.certificate import confidence_of

    print_line("[bold]Proved:[/] {words}", words=value["proved"])
    print_line("[bold]Likely:[/] {words}\n", words=value["likely"])
    confidence_text = confidence_of(value["delta"])
    rows = [
        (name, entry["value"], _interval_text(entry["interval"]), _interval_text(entry["likely"]))
        for name, entry in zip(
            (*names, "difference"), (value["new"], value["incumbent"], value["difference"])
        )
    ]
    what = "cost" if value["is_cost"] else "value"
    console.print(table("", what, f"proved, {confidence_text}", "likely, 95%", rows=rows))
    if result.disagreements:
        lines = [(x.state, f"{x.share:.1%}", x.new, x.incumbent) for x in result.disagreements]
        console.print(table("where they differ", "of the steps", "new", "incumbent", rows=lines))
    if result.missing:
        needs = [(x.state, x.action, f"{x.uses:.2g}", x.visits) for x in result.missing]
        print_line("\nData that would help most:")
        console.print(table("state", "action", "uses an episode", "visits in the log", rows=needs))
    print_line("")
    show_notes(result.run)
    tested = value["check"] or "nothing: a stored run has no episodes; audit the log itself to test the model"
    print_line("[dim]Tested:[/] {words}", words=tested)
    print_line("[dim]Assumes:[/] {assumes}", assumes=value["assumes"])


def _interval_text(ends: list[float] | None) -> str:
    from horizonfree.guarantees.certificate import interval

    return "-" if ends is None else interval(*ends)


def power(
    folder: RunArgument,
    episodes: Annotated[
        str, typer.Option(help="Numbers of more episodes to look at.", metavar="K,K,...")
    ] = "100,1000,10000",
    goal: GoalOption = None,
    reach: Annotated[
        list[str] | None,
        state_option("Reward 1 for being in this state at least once; repeat for several.", "--reach"),
    ] = None,
    reward: RewardOption = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            help="Costs, in any unit: a table of states by actions, or rows state,action,cost.",
            metavar="FILE",
        ),
    ] = None,
    target: Annotated[
        float | None, float_option("Decision: the plan, or the --policy, has at most this suboptimality.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="A policy: a .csv with columns step, state, action, or an array.", metavar="FILE"),
    ] = None,
    incumbent: Annotated[
        Path | None, typer.Option(help="Decision: the --policy is better than this one.", metavar="FILE")
    ] = None,
    at_least: Annotated[
        float | None, float_option("Decision: the value of the --policy is at least this.")
    ] = None,
    at_most: Annotated[
        float | None, float_option("Decision: the cost of the --policy is at most this.")
    ] = None,
    gather: Annotated[
        str | None,
        typer.Option(
            help="How episodes are recorded: a policy's file, or an explorer (of tabular MDPs).  "
            "[default: as so far]",
            metavar="FILE|NAME",
        ),
    ] = None,
    episode_cost: Annotated[float, float_option("What an episode costs.")] = 0.0,
    delta: DeltaOption = 0.05,
    draws: Annotated[int, int_option("Draws of the posterior.")] = 50,
    seed: Annotated[int, int_option("Of the draws.")] = 0,
    json: JsonOption = False,
) -> None:
    """How probably do more episodes prove a decision? Simulated from the posterior: likely, not proved.

    Examples:

        horizonfree power runs/a --goal 56 --target 0.05 --episodes 100,1000,10000

        horizonfree power runs/machines --cost cost.csv --policy new.csv --incumbent old.csv --episode-cost 2.5
    """
    if sum(bool(x) for x in (goal, reach, reward, cost)) != 1:
        raise OptionError(
            "say what is to be decided about: --goal STATE, --reach STATE, --reward FILE or --cost FILE, one of them"
        )
    if cost is None:
        leave_out("is for --cost, and --at-least for rewards", at_most=at_most)
    else:
        leave_out("is for rewards, and --at-most for --cost", at_least=at_least)
    run = open_run(folder)
    from dataclasses import replace

    from horizonfree.cli.array_files import read_policy

    problem = run.problem
    reward_or_event = make_event(problem, reach, None) if reach else make_reward(problem, goal, reward, cost)
    policy_array, other = (None if x is None else read_policy(x, problem) for x in (policy, incumbent))
    gathering = (
        None if gather is None else read_policy(Path(gather), problem) if Path(gather).suffix else gather
    )
    with spinner("simulating"):
        result = run.power(
            reward_or_event,
            episodes=_numbers(episodes),
            target=target,
            policy=policy_array,
            incumbent=other,
            at_least=at_least if at_most is None else -at_most,
            gather=gathering,
            costs=episode_cost,
            scale="rescale" if reward or cost else "total",
            delta=delta,
            draws=draws,
            seed=seed,
        )
    if at_most is not None:
        result = replace(result, decision=f"the cost of the policy is at most {at_most:g}")
    output(result.to_dict(), json, lambda: _show_power(result))


def _numbers(text: str) -> list[int]:
    try:
        return [int(x) for x in text.split(",")]
    except ValueError:
        raise OptionError(f"--episodes {text}: write numbers as --episodes 100,1000,10000") from None


def _show_power(result: "Power") -> None:
    """The decision, the curve, and the episodes for 50 % and 90 %."""
    print_line("[bold]Decision:[/] {words}", words=result.decision)
    if result.is_decided:
        print_line("Certified already by the data of the run.")
        return
    print_line("[bold]Data:[/] more episodes by {words}\n", words=result.gathered_by)
    rows = [
        (f"{K:,}", f"{p:.2f} ± {e:.2f}", "█" * round(BAR * p))
        for K, p, e in zip(result.episodes, result.probability, result.error)
    ]
    console.print(table("more episodes", "certified with probability", "", rows=rows))
    for entry in result.to_dict()["needed"]:
        level, K, price = entry["probability"], entry["episodes"], entry["cost"]
        text = f"more than {result.episodes[-1]:,} episodes" if K is None else f"about {K:,} more episodes"
        text += f", at a cost of {price:,.4g}" if price else ""
        print_line("{level:.0%}: {words}", level=level, words=text)
    print_line("[dim]{draws} draws; {label}[/]", draws=result.draws, label=result.label)
