"""`horizonfree plan`: the best policy for a reward, or one of yours, with what is proved of its value and its loss."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    folder_for_output,
    kept,
    loss,
    open_run,
    reward_of,
    table,
    tell,
    whole,
    working,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Plan
    from horizonfree.runs.answers import Answers
    from horizonfree.runs.plan import Comparison

FILES = "actions [H, S] or [S], or probabilities; .npy, .csv or .json."


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
        Path | None, typer.Option(help=f"Do not plan, value this policy of yours: {FILES}", metavar="FILE")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Also say how much better it is than this policy.", metavar="FILE")
    ] = None,
    start: Annotated[int | None, whole("Plan from this state.  [default: where episodes start]")] = None,
    horizon: Annotated[
        int | None, whole("Plan for so many steps.  [default: the length of an episode]")
    ] = None,
    misspecification: Misspecified = 0.0,
    out: Annotated[
        Path | None, typer.Option(help="Write the policy to this .npy file.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Plan for a reward, with its value and what it loses at most; or value a policy of your own.

    Examples:

        horizonfree plan runs/a --goal 63

        horizonfree plan runs/a --stay 7 --stay 8 --start 12 --horizon 5

        horizonfree plan runs/a --reward cost.npy --scale per-step --out policy.npy

        horizonfree plan runs/a --goal 63 --policy mine.csv --compare theirs.csv
    """
    if policy is not None and model != "likelihood":
        raise OptionError("--model belongs to a plan; leave it out with --policy")
    if misspecification and (policy is not None or compare is not None):
        raise OptionError("--misspecification is about a plan; leave it out with --policy and --compare")
    if stay and (goal or reward):
        raise OptionError("--goal, --stay and --reward each name a reward; give one of them")
    asked = _ask(folder, delta, model, start, horizon, misspecification)
    from horizonfree import occupancy
    from horizonfree.cli.files import read_policy

    space = (asked.answers.whole or asked.answers).space
    array = occupancy(space, stay) if stay else reward_of(space, goal, reward)
    if array is None:
        raise OptionError("say what is rewarded: --goal STATE, --stay STATE, or --reward FILE.npy")
    mine, other = (None if x is None else read_policy(x, space.num_states) for x in (policy, compare))
    if out is not None:
        folder_for_output(out.parent)
    checked = asked.answers.resolve(array, scale)
    if mine is None:
        found = asked.answers.plan(checked, asked.solve)
    else:
        found = asked.answers.evaluate(checked, mine)
    beside = None if other is None else asked.answers.compare(checked, found.policy, other)
    if out is not None:
        _write(out, found.policy)
    value: dict[str, Any] = {
        **{name: getattr(found, name) for name in ("value", "value_low", "value_high", "gap")},
        "certificate": certificate(found.certificate),
        "policy": found.policy,
    }
    true_loss = asked.answers.true_loss(checked, found.policy)
    if true_loss is not None:
        value["true_loss"] = loss(true_loss)
    if beside is not None:
        value["comparison"] = {**beside._asdict(), "words": beside.words}

    def show() -> None:
        rows = _rows(found, value.get("true_loss"))
        if beside is not None:
            rows.append(_difference(beside, str(policy or "the plan"), str(compare)))
        console.print(table("", "", "", rows=rows))
        if out is not None:
            tell("\npolicy written to {out}", out=out)

    answer(value, json, show)
    asked.keep()


class _Asked(NamedTuple):
    """A run that is asked: its answers, how to plan where not in the estimate, and what to do afterwards."""

    answers: "Answers"
    solve: Any
    keep: Callable[[], None]


def _ask(
    folder: Path, delta: float, model: str, start: int | None, horizon: int | None, misspecification: float
) -> _Asked:
    """What a run answers: as it was kept in its folder, without JAX, or of the run itself, which is kept then."""
    is_as_explored = start is None and horizon is None and not misspecification
    found = kept(folder, delta) if is_as_explored and model == "likelihood" else None
    if found is not None:
        return _Asked(found.answers, None, lambda: None)
    run = open_run(folder)
    from horizonfree.runs.keep import answers, keep

    solve = run.solver(model)
    there = run if start is None and horizon is None else run.seen_from(start, horizon)
    with working("certifying"):
        return _Asked(
            answers(there, delta, misspecification),
            solve,
            lambda: keep(run, delta) if is_as_explored else None,
        )


def _rows(found: "Plan", true_loss: float | None) -> list[tuple[str, Any, str]]:
    """What is shown of a plan."""
    from horizonfree.guarantees.certificate import interval, surely_of

    words = f"truly between {interval(found.value_low, found.value_high)}"
    proved = f"{words}, with probability {surely_of(found.certificate.delta)}"
    rows: list[tuple[str, Any, str]] = [
        ("value", found.value, "nothing is proved of it" if found.certificate.is_rejected else proved),
        ("certified gap", bound(found.gap), found.certificate.words),
    ]
    if true_loss is not None:
        rows.append(("true loss", true_loss, "against the best policy; the truth is known here"))
    return rows


def _difference(found: "Comparison", a: str, b: str) -> tuple[str, Any, str]:
    """What is shown of two policies."""
    from horizonfree.guarantees.certificate import interval, surely_of

    better = a if found.low > 0 else b if found.high < 0 else None
    verdict = "either may be better" if better is None else f"{better} is better"
    words = f"{a} minus {b}: truly between {interval(found.low, found.high)}"
    return ("difference", found.difference, f"{words}, with probability {surely_of(found.delta)}; {verdict}")


def _write(path: Path, policy: Any) -> None:
    import numpy as np

    with path.open("wb") as file:  # a bare name would be given an ending
        np.save(file, policy)
