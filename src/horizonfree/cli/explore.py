"""`horizonfree explore` and `horizonfree tour`."""

import inspect
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree._extras import needs_extra
from horizonfree.cli import _interrupt
from horizonfree.cli import _shared as config
from horizonfree.cli._shared import (
    GoalOption,
    JsonOption,
    RewardOption,
    UnknownOption,
    certificate_json,
    expand_user,
    float_option,
    int_option,
    leave_out,
    make_problem,
    make_reward,
    output,
    print_forecast,
    print_line,
    print_weights,
    problem_summary,
    shell_path,
    spinner,
    unused_path,
    weights_json,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Problem, Run


def _problem_names(incomplete: str) -> list[str]:
    from horizonfree.problems import problems

    return [name for name in problems() if name.startswith(incomplete)]


def _parameters(ctx: typer.Context, incomplete: str) -> list[str]:
    """The parameters of the named problem, as name=default."""
    from horizonfree.problems import problems

    specs = problems()
    typed = [ctx.params.get("problem"), *ctx.args]  # an option without its value stops the parser
    spec = next((specs[x] for x in typed if x in specs), None)
    defaults = [f"{x.name}={x.default}" for x in spec.parameters] if spec is not None else []
    return [text for text in defaults if text.startswith(incomplete)]


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
        typer.Option(help="Your own kernels instead of a named problem, an .npz file.", metavar="FILE.npz"),
    ] = None,
    unknown: UnknownOption = None,
    explorer: Annotated[
        str | None,
        typer.Option(
            help="Exploration algorithm, see `horizonfree explorers`.  [default: depends on the model class]",
            autocompletion=_explorer_names,
        ),
    ] = None,
    episodes: Annotated[
        int | None, int_option("Number of episodes; with --until-eps, the largest number.")
    ] = None,
    until_eps: Annotated[
        float | None, float_option("Stop when the certified suboptimality is at most this, for every reward.")
    ] = None,
    seed: Annotated[int | None, int_option("Random seed.  [default: 0]")] = None,
    out: Annotated[
        str | None, typer.Option(help="New folder for the run.  [default: runs/PROBLEM-EXPLORER-SEED]")
    ] = None,
    known_rules: Annotated[
        bool,
        typer.Option("--known-rules", help="With gymnasium:ID, the rules are known, except for slipping."),
    ] = False,
    reachable: Annotated[
        bool,
        typer.Option("--reachable", help="Only the states that episodes can reach: faster, the same plans."),
    ] = False,
    param: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter of the problem, name=value; repeat for more.", autocompletion=_parameters
        ),
    ] = None,
    opt: Annotated[
        list[str] | None, typer.Option(help="An option of the explorer, name=value; repeat for more.")
    ] = None,
    delta: Annotated[
        float | None, float_option("Failure probability of certificates.  [default: 0.05]")
    ] = None,
    misspecification: Annotated[
        float | None, float_option("With --until-eps: total-variation distance from the model class.")
    ] = None,
    budget: Annotated[
        int | None, int_option("Declared number of episodes: sharper certificates around it.")
    ] = None,
    goal: GoalOption = None,
    reward: RewardOption = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            help="For a linear MDP, declare `goals` or `occupancies`: sharper certificates for them."
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings from a TOML file; options take precedence.", metavar="FILE.toml"),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.", metavar="RUN")] = None,
    save_episodes: Annotated[
        int | None, int_option("Largest number of episodes between checkpoints.")
    ] = None,
    save_seconds: Annotated[
        float | None, float_option("Largest number of seconds between checkpoints.  [default: 10]")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explore a problem without a reward and store the run in a folder.

    Ctrl-C stops and saves; `--resume` goes on, with the same result as without the interruption.

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
        "param": config.parse_values(param or [], "--param"),
        "opt": config.parse_values(opt or [], "--opt"),
        "save_episodes": save_episodes,
        "save_seconds": save_seconds,
    }
    options = config.merge_settings(config.read_settings(settings) if settings else {}, flags)
    run = (
        _start_run(options)
        if resume is None
        else _resume_run(resume, options, flags | {"settings": settings})
    )
    with spinner("certifying"):
        delta_used = options.delta if run.until is None else run.until.delta
        within = 0.0 if run.until is None else run.until.misspecification
        result = run.certificate(delta_used, misspecification=within)
        weights = weights_json(run, delta_used)
        from horizonfree.models.registry import diagnostics_of

    value = {
        "folder": str(run.folder),
        "problem": run.problem.name,
        "episodes": run.episodes,
        **(
            {"theta_hat": diagnostics_of(run.problem.model).in_units(run.theta_hat)}
            if run.has_parameter
            else {}
        ),
        "weights": weights,
        "certificate": certificate_json(result),
    }

    def show() -> None:
        from horizonfree.report.facts import example_states

        folder = shell_path(run.folder) if run.folder else ""
        print_line("[bold]{count:,} episodes[/] in {folder}", count=run.episodes, folder=folder)
        print_line("[bold]{summary}[/]", summary=result)
        print_forecast(result)
        print_weights(weights, delta_used)
        print_line(
            "\n[dim]Plan for a reward:[/]  horizonfree plan {folder} --goal {state}",
            folder=folder,
            state=run.problem.state_ids[example_states(run.problem)[1]],
        )
        print_line("[dim]Write a report:[/]     horizonfree report {folder}", folder=folder)
        print_line("[dim]Paint rewards:[/]      horizonfree serve {folder}", folder=folder)

    output(value, json, show)


def _start_run(options: config.Settings) -> "Run":
    if options.problem is None and options.kernels is None:
        raise OptionError(
            "name a problem: horizonfree explore zoned-grid --episodes 300 (or --kernels FILE, or --resume RUN)"
        )
    _check_names(options)
    if options.episodes is None and options.until_eps is None:
        raise OptionError("give --episodes 300, or --until-eps 0.2")
    from horizonfree import explore as run_explorer
    from horizonfree.explorers.registry import resolve_typed_name
    from horizonfree.runs.until import check_stop_request

    check_stop_request(options.episodes, options.until_eps, options.delta, options.budget)
    clashes = set(inspect.signature(run_explorer).parameters) & set(options.opt)
    if clashes:
        name = min(clashes)
        raise OptionError(f"--opt {name}=...: use --{name.replace('_', '-')} instead")
    if not str(options.problem).startswith("gymnasium:"):
        leave_out("is for gymnasium:ID only", known_rules=options.known_rules)
    problem, env, is_tabular = _make(options)
    problem = problem.reachable_part() if options.reachable else problem
    explorer = resolve_typed_name(options.explorer or problem.model.explorer)
    name = f"{problem.name}-{explorer}-{options.seed}".replace(":", "-").replace("/", "-")
    folder = expand_user(options.out) if options.out is not None else unused_path(Path("runs") / name)
    note = "; a tabular MDP: no transition is known" if is_tabular else ""
    print(f"{problem_summary(problem)}{note}; explorer {explorer}, into {folder}", file=sys.stderr)
    with _resume_hint(folder):
        return run_explorer(
            problem if env is None else env,
            explorer,
            known=None if env is None else problem,
            episodes=options.episodes,
            until_eps=options.until_eps,
            delta=options.delta,
            misspecification=options.misspecification,
            budget=options.budget,
            seed=options.seed,
            reward=make_reward(problem, options.goal, options.reward),
            rewards=options.rewards,
            out=folder,
            progress=True,
            **options.saving,
            **options.opt,
        )


def _make(options: config.Settings) -> tuple["Problem", Any, bool]:
    """The problem, the environment that is stepped (or None), and whether it is an environment as a tabular MDP."""
    from horizonfree.cli import own_problems

    name, param = str(options.problem), options.param
    env: Any = None
    if options.kernels is None and own_problems.is_function(name):
        result, options_left = own_problems.call_function(name, param)
        if not own_problems.is_env(result):
            return own_problems.as_problem(name, result, options_left), None, False
        env, param = own_problems.discretize_env(result, options_left), options_left
    is_tabular = env is not None or (name.startswith("gymnasium:") and not options.known_rules)
    if is_tabular and env is None:
        env = own_problems.live_env(name, param)
    if env is not None:
        return own_problems.env_problem(env, param), env, True
    param = _horizon(options) if is_tabular else param
    problem = make_problem(options.problem, options.kernels, param, options.unknown)
    return (problem.as_tabular() if is_tabular else problem), None, is_tabular


def _check_names(options: config.Settings) -> None:
    """Errors for unknown names first, before missing options."""
    from horizonfree.cli.lists import check_exists
    from horizonfree.cli.own_problems import is_model_file  # imports NumPy
    from horizonfree.explorers.registry import current_name

    if options.explorer is not None:
        check_exists("explorers", current_name(options.explorer))
    if options.problem is not None and ":" not in options.problem and not is_model_file(options.problem):
        check_exists("problems", options.problem)


def _horizon(options: config.Settings) -> dict[str, Any]:
    """The parameters of an environment, with its time limit as the default horizon."""
    with needs_extra("gymnasium", "environments of Gymnasium"):
        import gymnasium

    name = str(options.problem).removeprefix("gymnasium:")
    try:
        limit = gymnasium.spec(name).max_episode_steps
    except gymnasium.error.Error:  # `make` raises a clear error
        limit = None
    return ({} if limit is None else {"horizon": limit}) | options.param


def _resume_run(folder: Path, options: config.Settings, flags: dict[str, Any]) -> "Run":
    stop_options = ("episodes", "until_eps", "delta", "misspecification", "goal", "reward")
    env_options = ("problem", "param") if ":" in str(options.problem) else ()
    allowed = (*stop_options, *env_options, "save_episodes", "save_seconds")
    fixed = [name for name, value in flags.items() if value not in (None, [], {}) and name not in allowed]
    if fixed:
        raise OptionError(f"--resume goes on with the settings of the run; {', '.join(fixed)} cannot change")
    if options.until_eps is None and (options.goal or options.reward):
        raise OptionError("with --resume, --goal and --reward belong to --until-eps; give it, too")
    if options.until_eps is None and options.episodes is None and flags["delta"] is not None:
        raise OptionError(
            "with --resume, --delta belongs to --until-eps or --episodes; give one of them, too"
        )
    from horizonfree import load
    from horizonfree.cli.own_problems import recreate_env

    folder = expand_user(folder)
    run = load(folder)
    goals = {"episodes": options.episodes, "until_eps": options.until_eps}
    if options.episodes is not None or options.until_eps is not None:
        goals |= {"delta": options.delta, "misspecification": options.misspecification}
        goals |= {"reward": make_reward(run.problem, options.goal, options.reward)}
    print(
        f"{problem_summary(run.problem)}; resuming after episode {run.episodes:,}, in {folder}",
        file=sys.stderr,
    )
    if not run.is_simulated and not env_options:
        raise OptionError(
            f"{folder} explored a real environment; name it again with its parameters: horizonfree explore "
            f"gymnasium:{run.problem.name} --resume {folder} --episodes 100 (or module:function in its place)"
        )
    if run.is_simulated and env_options:
        raise OptionError(
            f"--resume goes on with the problem of the run; leave out {options.problem} and --param"
        )
    env = recreate_env(str(options.problem), options.param) if env_options else None
    with _resume_hint(folder):
        return run.resume(progress=True, env=env, **goals, **options.saving)


@contextmanager
def _resume_hint(folder: Path) -> Iterator[None]:
    """After Ctrl-C, print where the run is saved and how to resume it."""
    try:
        with _interrupt.raise_interrupts():
            yield
    except KeyboardInterrupt:
        from horizonfree.runs.storage import MANIFEST, load

        if not (folder / MANIFEST).exists():
            print("stopped before the first episode; nothing was saved", file=sys.stderr)
            raise typer.Exit(130) from None
        print(
            f"stopped after episode {load(folder).episodes:,}, saved in {folder}; resume with:",
            file=sys.stderr,
        )
        print(f"  horizonfree explore --resume {shlex.quote(str(folder))}", file=sys.stderr)
        raise typer.Exit(130) from None


def tour(
    out: Annotated[Path | None, typer.Option(help="Folder for runs and report.  [default: out/tour]")] = None,
    json: JsonOption = False,
) -> None:
    """Explore a grid with two algorithms, plan for three rewards, and compare certificates with the truth.

    It takes about a minute.
    """
    from horizonfree.cli import tour as module

    folder = unused_path(Path("out/tour")) if out is None else expand_user(out)
    result = module.run(folder, is_silent=json)
    output(result, json, lambda: None)
