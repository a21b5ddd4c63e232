"""`horizonfree plan`: the best policy for a reward, or one of yours, with what is proved of its value and its loss."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import (
    Delta,
    Folder,
    GoalStates,
    Json,
    Misspecified,
    RewardFile,
    answer,
    bound,
    certificate,
    console,
    event_of,
    folder_for_output,
    loss,
    open_run,
    real,
    reward_of,
    state,
    table,
    tell,
    whole,
    working,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Plan, Problem
    from horizonfree.runs.plan import Comparison

FILES = "actions [H, S] or [S], or probabilities; .npy, .csv or .json."


def plan(
    folder: Folder,
    goal: GoalStates = None,
    stay: Annotated[
        list[str] | None, state("Reward the share of the steps spent in this state.", "--stay")
    ] = None,
    reach: Annotated[
        list[str] | None,
        state("Reward 1 for being in this state at least once; repeat for several.", "--reach"),
    ] = None,
    bounded: Annotated[
        str | None,
        typer.Option(
            "--property", help="A bounded property, such as 'Pmax=? [F<=12 \"goal\"]'.", metavar="TEXT"
        ),
    ] = None,
    reward: RewardFile = None,
    cost: Annotated[
        Path | None,
        typer.Option(help="Costs instead, in any unit, from a file as for --reward.", metavar="FILE"),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="total: adds up to at most 1; per-step: entries in [0, 1]; rescale: any.  [default: total]"
        ),
    ] = None,
    delta: Delta = 0.05,
    model: Annotated[
        str, typer.Option(help="Plan in the `likelihood` estimate or the `explorer`'s own.")
    ] = "likelihood",
    policy: Annotated[
        Path | None, typer.Option(help=f"Do not plan, value this policy of yours: {FILES}", metavar="FILE")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Also say how much better it is than this policy.", metavar="FILE")
    ] = None,
    start: Annotated[str | None, state("Plan from this state.  [default: where episodes start]")] = None,
    horizon: Annotated[
        int | None, whole("Plan for so many steps.  [default: the length of an episode]")
    ] = None,
    misspecification: Misspecified = 0.0,
    discount: Annotated[
        float | None, real("Step h counts this to the power h - 1 times.  [default: 1]")
    ] = None,
    final: Annotated[
        Path | None,
        typer.Option(
            help="Also pay for the state after the last step: [S], a file as for --reward.", metavar="FILE"
        ),
    ] = None,
    transition: Annotated[
        Path | None,
        typer.Option(help="Also pay for steps from s by a to s': [S, A, S], .npy or .json.", metavar="FILE"),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the certificate into this JSON file.", metavar="FILE.json")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--policy-out", help="Write the policy to this .npy, .csv or .json file.", metavar="FILE"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Plan for a reward, with its value and what it loses at most; or value a policy of your own.

    Examples:

        horizonfree plan runs/a --goal 56

        horizonfree plan runs/a --stay 7 --stay 8 --start 12 --horizon 5

        horizonfree plan runs/a --cost monthly.csv --out policy.npy

        horizonfree plan runs/a --reward profit.csv --scale rescale --discount 0.95 --final salvage.csv

        horizonfree plan runs/a --property 'Pmax=? [!"fail" U<=12 "goal"]'

        horizonfree plan runs/a --goal 56 --policy mine.csv --compare theirs.csv
    """
    if policy is not None and model != "likelihood":
        raise OptionError("--model belongs to a plan; leave it out with --policy")
    if sum(map(bool, (goal, stay, reward, cost, reach, bounded))) > 1:
        raise OptionError(
            "--goal, --stay, --reach, --property, --reward and --cost each name a reward; give one of them"
        )
    if reach or bounded:
        others: dict[str, Any] = {
            "scale": scale,
            "horizon": horizon,
            "misspecification": misspecification or None,
        }
        others |= {"discount": discount, "final": final, "transition": transition, "compare": compare}
        wrong = [name for name, x in others.items() if x is not None]
        if wrong:
            raise OptionError(f"--{wrong[0]} is for rewards; leave it out with --reach and --property")
    if cost is not None and scale not in (None, "rescale"):
        raise OptionError(
            f"--scale {scale} is for rewards; costs are rescaled, and answers are in their unit"
        )
    if misspecification and (policy is not None or compare is not None):
        raise OptionError("--misspecification is about a plan; leave it out with --policy and --compare")
    is_longer = discount is not None or final is not None or transition is not None
    beyond = "rewards without --discount, --final and --transition"
    if misspecification and is_longer:
        raise OptionError(f"--misspecification is for {beyond}; leave it out")
    if compare is not None and is_longer:
        raise OptionError(f"--compare is for {beyond}; value each by itself: --policy")
    run = open_run(folder)
    from horizonfree.cli import show_plan
    from horizonfree.cli.files import read_policy, write_policy
    from horizonfree.cli.reward_files import paid_of
    from horizonfree.mdp.rewards import occupancy

    first = None if start is None else run.problem.state_number(start)
    is_moved = start is not None or horizon is not None
    problem = run.problem.moved(first, horizon) if is_moved else run.problem
    scale = scale or ("total" if cost is None else "rescale")
    array: Any
    if reach or bounded:
        array = event_of(problem, reach, bounded)
    else:
        array = occupancy(problem, stay) if stay else reward_of(problem, goal, reward, cost)
    if array is None:
        if transition is None:
            raise OptionError(
                "say what is rewarded: --goal STATE, --stay STATE, --reach STATE, --reward FILE or --cost FILE"
            )
        array = [0.0] * problem.num_states
    mine, other = (None if x is None else read_policy(x, problem.num_states) for x in (policy, compare))
    if out is not None:
        folder_for_output(out.parent)
    files = {"final": final, "transition": transition}
    paid = {key: paid_of(x, problem, key, is_cost=cost is not None) for key, x in files.items() if x}
    how: dict[str, Any] = {"scale": scale, "delta": delta, "start": first, "horizon": horizon}
    more: dict[str, Any] = {"discount": discount, **paid}
    with working("planning"):
        if mine is None:
            found = run.plan(array, model=model, misspecification=misspecification, **how, **more)
        else:
            found = run.evaluate(array, mine, **how, **more)
        beside = None if other is None else run.compare(array, found.policy, other, **how)
        true_loss = _true_loss(problem, array, found.policy, scale, **more) if run.is_simulated else None
    if out is not None:
        write_policy(out, found.policy)
    if save is not None:
        found.certificate.save(save)
    value: dict[str, Any] = {
        **{name: getattr(found, name) for name in ("value", "value_low", "value_high", "gap")},
        "certificate": certificate(found.certificate),
        "policy": found.policy,
        "path": show_plan.path(found),
        "time": found.occupancy.mean(axis=0),
        "names": {key: problem.layout[key] for key in ("states", "actions") if key in problem.layout},
    }
    if "state_ids" in problem.layout:  # of the states of a part, in their order in "policy"
        value["state_ids"] = problem.layout["state_ids"]
    if cost is not None:
        value |= {"cost": -found.value, "cost_low": -found.value_high, "cost_high": -found.value_low}
    if true_loss is not None:
        value["true_loss"] = loss(true_loss)
    if beside is not None:
        value["comparison"] = {**beside._asdict(), "words": beside.words}

    def show() -> None:
        rows = _rows(found, value.get("true_loss"), is_cost=cost is not None)
        if beside is not None:
            rows.append(_difference(beside, str(policy or "the plan"), str(compare)))
        console.print(table("", "", "", rows=rows))
        _show(found)
        if out is not None:
            tell("\npolicy written to {out}", out=out)

    answer(value, json, show)


def _true_loss(
    problem: "Problem",
    reward: Any,
    policy: Any,
    scale: str,
    *,
    discount: float | None = None,
    final: Any = None,
    transition: Any = None,
) -> float | None:
    """What a policy loses in the true system, in the reward's units; None where that is not known."""
    if problem.truth is None:
        return None
    import numpy as np

    from horizonfree.mdp.lift import expected, payments
    from horizonfree.mdp.rewards import as_table
    from horizonfree.problems.truth import true_gap
    from horizonfree.runs.extended import extended

    if discount is None and final is None and transition is None:
        return true_gap(problem, reward, policy, scale=scale)
    table = as_table(problem, reward)
    if transition is not None:  # in the true system the mean payment of each step is known
        table = table + expected(problem.kernel(), payments(problem.space, transition))
    longer, table, _ = extended(problem, table, discount, final)
    if final is not None:
        policy = np.concatenate([policy, policy[-1:]])
    return true_gap(longer, table, policy, scale="rescale")


def _show(found: "Plan") -> None:
    """What the plan does."""
    from horizonfree.cli import show_plan

    for part in show_plan.lines(found, console.width):
        console.print()
        if isinstance(part, tuple):
            lines, more = part
            console.print(table("state", "time there", "what it does", rows=lines))
            part = f"[dim]and {more:,} more states[/]" if more else None
        if part is not None:
            console.print(part)


def _rows(found: "Plan", true_loss: float | None, *, is_cost: bool) -> list[tuple[str, Any, str]]:
    """What is shown of a plan; costs are shown as such."""
    from horizonfree.guarantees.certificate import confidence_of, interval

    low, high = (-found.value_high, -found.value_low) if is_cost else (found.value_low, found.value_high)
    proved = f"{confidence_of(found.certificate.delta)} interval {interval(low, high)}"
    rows: list[tuple[str, Any, str]] = [
        (
            "cost" if is_cost else "value",
            -found.value if is_cost else found.value,
            "nothing is proved of it" if found.certificate.is_rejected else proved,
        ),
        ("certified gap", bound(found.gap), found.certificate.words),
    ]
    if true_loss is not None:
        rows.append(("true loss", true_loss, "against the best policy; the truth is known here"))
    return rows


def _difference(found: "Comparison", a: str, b: str) -> tuple[str, Any, str]:
    """What is shown of two policies."""
    from horizonfree.guarantees.certificate import confidence_of, interval

    better = a if found.low > 0 else b if found.high < 0 else None
    verdict = "either may be better" if better is None else f"{better} is better"
    words = f"{a} minus {b}: {confidence_of(found.delta)} interval {interval(found.low, found.high)}"
    return ("difference", found.difference, f"{words}; {verdict}")
