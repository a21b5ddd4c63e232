"""`horizonfree robustness`: how wrong the class may be for a target to be proved."""

from typing import Annotated

from horizonfree.cli._shared import (
    Delta,
    Folder,
    GoalStates,
    Json,
    RewardFile,
    answer,
    bound,
    console,
    open_run,
    real,
    reward_of,
    table,
    tell,
    working,
)


def robustness(
    folder: Folder,
    target: Annotated[float, real("The gap that is to be proved.")] = 0.1,
    goal: GoalStates = None,
    reward: RewardFile = None,
    delta: Delta = 0.05,
    json: Json = False,
) -> None:
    """How wrong the class may be: the largest misspecification with which a target is proved, and the gap of each.

    For every reward, or for one. Misspecification is how far, in total variation, transition laws may be from those of
    one and the same parameter.

    Examples:

        horizonfree robustness runs/a --target .1

        horizonfree robustness runs/a --target .05 --goal 63
    """
    run = open_run(folder)
    with working("certifying"):
        found = run.robustness(target, reward=reward_of(run.problem, goal, reward), delta=delta)
    curve = list(zip(found.zetas.tolist(), found.gaps.tolist()))
    value = {
        "target": found.target,
        "delta": found.delta,
        "zeta": found.zeta,
        "zeta_low": found.zeta_low,
        "curve": [{"zeta": zeta, "gap": gap} for zeta, gap in curve],
        "words": found.words,
        "episodes": run.episodes,
    }

    def show() -> None:
        tell("After {episodes:,} episodes: [bold]{words}[/]", episodes=run.episodes, words=found.words)
        rows = [(f"{zeta:.3g}", "refuted" if gap != gap else bound(gap)) for zeta, gap in curve]
        console.print(table("misspecification", "certified gap", rows=rows))

    answer(value, json, show)
