"""`horizonfree explore` and `horizonfree tour`."""

import inspect
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli import _interrupt
from horizonfree.cli import settings as config
from horizonfree.cli._shared import (
    GoalStates,
    Json,
    RewardFile,
    Unknown,
    answer,
    certificate,
    expanded,
    free_name,
    problem_line,
    problem_of,
    real,
    reward_of,
    say_forecast,
    show_weights,
    tell,
    typed,
    weights_of,
    whole,
    working,
)
from horizonfree.cli.model_files import is_model
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Run


def _problem_names(incomplete: str) -> list[str]:
    from horizonfree.problems import problems

    return [name for name in problems() if name.startswith(incomplete)]


def _explorer_names(incomplete: str) -> list[str]:
    from horizonfree.explorers.registry import EXPLORERS

    return [name for name in EXPLORERS if name.startswith(incomplete)]


def explore(
    problem: Annotated[
        str | None,
        typer.Argument(
            help="A name (see `horizonfree problems`), gymnasium:ID, a .prism, .jani, .drn or .umb file, or your "
            "own module:function.",
            autocompletion=_problem_names,
        ),
    ] = None,
    kernels: Annotated[
        Path | None,
        typer.Option(help="Instead: your own kernels, an .npz file.", metavar="FILE.npz"),
    ] = None,
    unknown: Unknown = None,
    explorer: Annotated[
        str | None,
        typer.Option(
            help="See `horizonfree explorers`.  [default: the one for the class of the problem]",
            autocompletion=_explorer_names,
        ),
    ] = None,
    episodes: Annotated[int | None, whole("How many; with --until-eps, at most how many.")] = None,
    until_eps: Annotated[
        float | None, real("Stop when the certified gap is at most this, for every reward.")
    ] = None,
    seed: Annotated[int | None, whole("Same seed, same run.  [default: 0]")] = None,
    out: Annotated[
        str | None, typer.Option(help="New folder for the run.  [default: runs/PROBLEM-EXPLORER-SEED]")
    ] = None,
    known_rules: Annotated[
        bool,
        typer.Option("--known-rules", help="Of gymnasium:ID take the rules as known, but for how it slips."),
    ] = False,
    reachable: Annotated[
        bool,
        typer.Option(
            "--reachable", help="Only the states that episodes can come to: faster, the same plans."
        ),
    ] = False,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the problem, name=value; repeat for more.")
    ] = None,
    opt: Annotated[
        list[str] | None, typer.Option(help="An option of the explorer, name=value; repeat for more.")
    ] = None,
    delta: Annotated[float | None, real("Failure probability of certificates.  [default: 0.05]")] = None,
    misspecification: Annotated[
        float | None, real("With --until-eps: how far transition laws may be from those of one parameter.")
    ] = None,
    budget: Annotated[
        int | None, whole("Declare the episodes beforehand: sharper certificates around them.")
    ] = None,
    goal: GoalStates = None,
    reward: RewardFile = None,
    rewards: Annotated[
        str | None,
        typer.Option(help="Of a linear MDP declare `goals` or `occupancies`: sharper certificates for them."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file; flags overrule it.", metavar="FILE.toml")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the run in this folder.", metavar="RUN")
    ] = None,
    save_episodes: Annotated[int | None, whole("Write a checkpoint at least every so many episodes.")] = None,
    save_seconds: Annotated[
        float | None, real("Write a checkpoint at least every so many seconds.  [default: 10]")
    ] = None,
    json: Json = False,
) -> None:
    """Explore a problem without a reward and keep the run in a folder.

    Ctrl-C stops and saves; `--resume` goes on, to the same result as if it had never been stopped.

    Examples:

        horizonfree explore zoned-grid --episodes 300 --seed 1 --out runs/a

        horizonfree explore zoned-grid --param size=8 --explorer hf-ucrl-rfe++ --opt scale=0.5 --episodes 100

        horizonfree explore gymnasium:FrozenLake-v1 --episodes 10000

        horizonfree explore gymnasium:FrozenLake-v1 --known-rules --param horizon=60 --until-eps 0.2

        horizonfree explore --kernels shop.npz --episodes 200

        horizonfree explore zoned-grid --param size=150 --reachable --episodes 200

        horizonfree explore robot.prism --unknown p --unknown q --param horizon=12 --episodes 200

        horizonfree explore mymodule:shop --param capacity=20 --episodes 200

        horizonfree explore linear-lock --episodes 10000 --budget 10000 --rewards goals

        horizonfree explore --resume runs/a

        horizonfree explore --resume runs/a --episodes 200
    """
    flags: dict[str, Any] = {
        "problem": problem,
        "kernels": None if kernels is None else str(kernels),
        "unknown": unknown or None,
        "explorer": explorer,
        "known_rules": known_rules or None,
        "reachable": reachable or None,
        "episodes": episodes,
        "until_eps": until_eps,
        "delta": delta,
        "misspecification": misspecification,
        "budget": budget,
        "seed": seed,
        "out": out,
        "goal": goal,
        "reward": None if reward is None else str(reward),
        "rewards": rewards,
        "param": config.entries(param or [], "--param"),
        "opt": config.entries(opt or [], "--opt"),
        "save_episodes": save_episodes,
        "save_seconds": save_seconds,
    }
    chosen = config.merge(config.read(settings) if settings else {}, flags)
    run = _begin(chosen) if resume is None else _go_on(resume, chosen, flags | {"settings": settings})
    with working("certifying"):
        asked = chosen.delta if run.until is None else run.until.delta
        within = 0.0 if run.until is None else run.until.misspecification
        found = run.certificate(asked, misspecification=within)
        learnt = weights_of(run, asked)
    value = {
        "folder": str(run.folder),
        "problem": run.problem.name,
        "episodes": run.episodes,
        **({"theta_hat": run.problem.model.in_units(run.theta_hat)} if run.has_parameter else {}),
        "weights": learnt,
        "certificate": certificate(found),
    }

    def show() -> None:
        from horizonfree.report.facts import example_states

        folder = typed(run.folder) if run.folder else ""
        tell("[bold]{count:,} episodes[/] in {folder}", count=run.episodes, folder=folder)
        tell("[bold]{words}[/]", words=found.words)
        say_forecast(found)
        show_weights(learnt, asked)
        tell(
            "\n[dim]Plan for a reward:[/]  horizonfree plan {folder} --goal {state}",
            folder=folder,
            state=run.problem.state_ids[example_states(run.problem)[1]],
        )
        tell("[dim]See it all:[/]         horizonfree report {folder}", folder=folder)
        tell("[dim]Paint rewards:[/]      horizonfree serve {folder}", folder=folder)

    answer(value, json, show)


def _begin(chosen: config.Settings) -> "Run":
    if chosen.problem is None and chosen.kernels is None:
        raise OptionError(
            "say what to explore: horizonfree explore zoned-grid --episodes 300 (or --kernels FILE, or --resume RUN)"
        )
    _check_names(chosen)
    if chosen.episodes is None and chosen.until_eps is None:
        raise OptionError("say how long to explore: --episodes 300, or --until-eps 0.2")
    from horizonfree import explore as run_explorer
    from horizonfree.explorers.registry import typed_name
    from horizonfree.runs.until import check

    check(chosen.episodes, chosen.until_eps, chosen.delta, chosen.budget)
    own = set(inspect.signature(run_explorer).parameters) & set(chosen.opt)
    if own:
        name = sorted(own)[0]
        raise OptionError(f"--opt {name}=...: {name} has a flag of its own, --{name.replace('_', '-')}")
    is_unknown = str(chosen.problem).startswith("gymnasium:") and not chosen.known_rules
    if chosen.known_rules and not str(chosen.problem).startswith("gymnasium:"):
        raise OptionError("--known-rules is for gymnasium:ID; other problems have rules of their own")
    param = _horizon(chosen) if is_unknown else chosen.param
    problem = problem_of(chosen.problem, chosen.kernels, param, chosen.unknown)
    problem = problem.seen_as("tabular") if is_unknown else problem
    problem = problem.reachable_part() if chosen.reachable else problem
    explorer = typed_name(chosen.explorer or problem.model.explorer)
    name = f"{problem.name}-{explorer}-{chosen.seed}".replace(":", "-").replace("/", "-")
    folder = expanded(chosen.out) if chosen.out is not None else free_name(Path("runs") / name)
    about = "; an unknown table: no transition is known" if is_unknown else ""
    print(f"{problem_line(problem)}{about}; explorer {explorer}, into {folder}", file=sys.stderr)
    with _saying_how_to_go_on(folder):
        return run_explorer(
            problem,
            explorer,
            episodes=chosen.episodes,
            until_eps=chosen.until_eps,
            delta=chosen.delta,
            misspecification=chosen.misspecification,
            budget=chosen.budget,
            seed=chosen.seed,
            reward=reward_of(problem, chosen.goal, chosen.reward),
            rewards=chosen.rewards,
            out=folder,
            progress=True,
            **chosen.saving,
            **chosen.opt,
        )


def _check_names(chosen: config.Settings) -> None:
    """Refuse a problem or an explorer that does not exist, before anything else is asked for."""
    from horizonfree.cli.lists import check_exists
    from horizonfree.explorers.registry import current_name

    if chosen.explorer is not None:
        check_exists("explorers", current_name(chosen.explorer))
    if chosen.problem is not None and ":" not in chosen.problem and not is_model(chosen.problem):
        check_exists("problems", chosen.problem)


def _horizon(chosen: config.Settings) -> dict[str, Any]:
    """The parameters of an environment, with its own time limit where no horizon is given."""
    import gymnasium

    name = str(chosen.problem).removeprefix("gymnasium:")
    try:
        limit = gymnasium.spec(name).max_episode_steps
    except gymnasium.error.Error:  # `make` says what is wrong
        limit = None
    return ({} if limit is None else {"horizon": limit}) | chosen.param


def _go_on(folder: Path, chosen: config.Settings, flags: dict[str, Any]) -> "Run":
    end = ("episodes", "until_eps", "delta", "misspecification", "goal", "reward")
    allowed = (*end, "save_episodes", "save_seconds")
    settled = [name for name, value in flags.items() if value not in (None, [], {}) and name not in allowed]
    if settled:
        raise OptionError(
            f"--resume goes on with the run as it was begun; {', '.join(settled)} cannot change now"
        )
    if chosen.until_eps is None and (chosen.goal or chosen.reward):
        raise OptionError("with --resume, --goal and --reward say what --until-eps is about; give it, too")
    if chosen.until_eps is None and chosen.episodes is None and flags["delta"] is not None:
        raise OptionError("with --resume, --delta belongs to a new end; give --until-eps or --episodes, too")
    from horizonfree import load

    folder = expanded(folder)
    run = load(folder)
    until = {"episodes": chosen.episodes, "until_eps": chosen.until_eps}
    if chosen.episodes is not None or chosen.until_eps is not None:
        until |= {"delta": chosen.delta, "misspecification": chosen.misspecification}
        until |= {"reward": reward_of(run.problem, chosen.goal, chosen.reward)}
    print(
        f"{problem_line(run.problem)}; going on after episode {run.episodes:,}, in {folder}", file=sys.stderr
    )
    with _saying_how_to_go_on(folder):
        return run.resume(progress=True, **until, **chosen.saving)


@contextmanager
def _saying_how_to_go_on(folder: Path) -> Iterator[None]:
    """Ctrl-C: the exploration has saved itself; say where, and how to go on."""
    try:
        with _interrupt.told():
            yield
    except KeyboardInterrupt:
        from horizonfree.runs.storage import MANIFEST, load

        if not (folder / MANIFEST).exists():
            print("stopped before the first episode; nothing was saved", file=sys.stderr)
            raise typer.Exit(130) from None
        print(
            f"stopped after episode {load(folder).episodes:,}, saved in {folder}; go on with:",
            file=sys.stderr,
        )
        print(f"  horizonfree explore --resume {shlex.quote(str(folder))}", file=sys.stderr)
        raise typer.Exit(130) from None


def tour(
    out: Annotated[Path | None, typer.Option(help="Folder for runs and report.  [default: out/tour]")] = None,
    json: Json = False,
) -> None:
    """See it all in a minute: explore a grid twice, plan three rewards, check the certificates against the truth."""
    from horizonfree.cli import tour as guide

    folder = free_name(Path("out/tour")) if out is None else expanded(out)
    found = guide.run(folder, is_silent=json)
    answer(found, json, lambda: None)
