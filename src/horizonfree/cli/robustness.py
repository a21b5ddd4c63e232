"""`horizonfree robustness`: how wrong the class may be for a target to be proved."""

from typing import Annotated

from horizonfree.cli._shared import (
    DeltaOption,
    RunArgument,
    GoalOption,
    JsonOption,
    RewardOption,
    output,
    round_bound,
    console,
    open_run,
    float_option,
    make_reward,
    table,
    print_line,
    spinner,
)


def robustness(
    folder: RunArgument,
    target: Annotated[float, float_option("The gap that is to be proved.")] = 0.1,
    goal: GoalOption = None,
    reward: RewardOption = None,
    delta: DeltaOption = 0.05,
    json: JsonOption = False,
) -> None:
    """How wrong the class may be: the largest misspecification with which a target is proved, and the gap of each.

    For every reward, or for one. Misspecification is how far, in total variation, transition laws may be from those of
    one and the same parameter.

    Examples:

        horizonfree robustness runs/a --target .1

        horizonfree robustness runs/a --target .05 --goal 63
    """
    run = open_run(folder)
    with spinner("certifying"):
        found = run.robustness(target, reward=make_reward(run.problem, goal, reward), delta=delta)
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
        print_line("After {episodes:,} episodes: [bold]{words}[/]", episodes=run.episodes, words=found.words)
        rows = [(f"{zeta:.3g}", "refuted" if gap != gap else round_bound(gap)) for zeta, gap in curve]
        console.print(table("misspecification", "certified gap", rows=rows))

    output(value, json, show)
