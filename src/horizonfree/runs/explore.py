"""Explore a problem or an environment, and resume a run."""

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from horizonfree._jit import jit
from horizonfree._validation import (
    check_bool,
    check_count,
    check_instance,
    check_number,
    check_seed,
    require,
)
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError, PartWarning, UnknownNameError
from horizonfree.explorers.base import Explorer, ExplorerPlan, PlugIn
from horizonfree.explorers.loop import Progress, init_progress
from horizonfree.explorers.python import PythonExplorer, own_state, python_progress, read_only
from horizonfree.explorers.registry import (
    EXPLORERS,
    ExplorerSpec,
    describe,
    find_entry,
    make_explorer,
    resolve_typed_name,
)
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp import rewards
from horizonfree.models.base import Evidence, Model
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.induction import Solution
from horizonfree.planning.traced import optimal_jax
from horizonfree.problems import problem_of_model
from horizonfree.problems.gymnasium.as_table import unknown_table, with_cells
from horizonfree.problems.problem import Problem
from horizonfree.problems.reachable import num_out_of_reach
from horizonfree.problems.registry import refuse_text
from horizonfree.runs.loop import (
    SAVE_SECONDS,
    Callback,
    CheckpointSchedule,
    RewardRecorder,
    env_engine,
    run_loop,
    simulation_engine,
)
from horizonfree.runs.run import Run
from horizonfree.runs.storage import create
from horizonfree.runs.until import MAX_EPISODES, check_stop_request, stop_rule

FOREIGN_KEYWORDS = {  # of other libraries, and what is meant
    **dict.fromkeys(("n_episodes", "num_episodes", "n_iter", "total_episodes"), "episodes=500"),
    **dict.fromkeys(
        ("total_timesteps", "n_steps", "timesteps"), "episodes=500 (episodes have horizon= steps)"
    ),
    **dict.fromkeys(("random_state", "rng", "random_seed"), "seed=0"),
    **dict.fromkeys(("verbose", "progress_bar", "show_progress"), "progress=True or progress=False"),
    **dict.fromkeys(("eps", "epsilon", "tol"), "until_eps=0.1"),
    **dict.fromkeys(("H", "max_episode_steps", "max_steps"), "horizon=100"),
    **dict.fromkeys(("env", "environment"), "it first: hf.explore(env, episodes=500)"),
}


def _init_progress(explorer: Explorer, model: Model, budget: int | None) -> Progress:
    """Before the first episode, with the history that robust certificates need."""
    if isinstance(explorer, PythonExplorer):
        return python_progress(explorer, model, _empty_evidence(to_device(model), budget))
    return _begin_traced(explorer, to_device(model), budget)


@jit
def _begin_traced(explorer: Explorer, model: Model, budget: int | None) -> Progress:
    return init_progress(explorer, model, _evidence_of(model, budget))


@jit
def _empty_evidence(model: Model, budget: int | None) -> Evidence:
    return _evidence_of(model, budget)


def _evidence_of(model: Model, budget: int | None) -> Evidence:
    evidence: Evidence = model.init_evidence(ladder(budget, model.burn_in), has_history=True)
    return evidence


@x64
def explore(
    problem: Any,
    explorer: str | Explorer | None = None,
    *,
    episodes: int | None = None,
    seed: int = 0,
    known: Problem | Model | None = None,
    encode: Callable[[Any], int] | None = None,
    num_states: int | None = None,
    horizon: int | None = None,
    start: Any = None,
    terminal: Any = None,
    budget: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    misspecification: Any = 0.0,
    reward: Any = None,
    rewards: Any = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    out: str | PathLike[str] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
    **options: Any,
) -> Run:
    """Reward-free exploration: run episodes without a reward, and return a run that can plan for any reward.

    problem: a Problem with a truth, which simulates itself; or a real Gymnasium environment, which is only stepped.
        With `known=`, an environment belongs to that problem (`encode=`: observation -> state, where observations are
        not states). Otherwise it is a tabular MDP with unknown transition probabilities, of `horizon` steps (by default
        its time limit) from `start` (a state, a distribution or "unknown"; by default the start that it declares, or
        the state to which its first resets lead); with `terminal="unknown"` a state may end some episodes and not
        others. Its states are the elements of its finite spaces, or with `encode=` the `num_states` numbers that it
        returns; `hf.discretize` makes cells of real-valued ones. Where most states are unreachable, explore
        `reachable_part()`.
    explorer: a name with its options, see `explorers()`, or an Explorer; the default depends on the model class.
    episodes: the number of episodes; with until_eps, the largest number.
    until_eps: stop as soon as a certificate at confidence 1 - delta is at most this: for every reward, or with reward=
        for one or several rewards. Certificates are anytime-valid, so this is allowed.
    delta: failure probability of the certificates for until_eps, and of the explorer's own confidence sets.
    misspecification: for until_eps, as for Run.certificate.
    budget: the number of episodes, declared beforehand for sharper certificates around it; more or fewer may follow.
    reward: for until_eps, and for explorers that use one.
    rewards: for a linear MDP, rewards declared beforehand for sharper certificates: a list, "goals" (to end in a state,
        for each) or "occupancies" (to stay in it). Plans for other rewards are possible, too.
    progress: show progress; by default if standard error is a terminal.
    callback: called as callback(episodes, numbers) after each block of episodes (about four times a second) and at the
        end. `numbers` are the explorer's records of the last episode, and "eps" where a certificate was computed for
        until_eps. An exception stops the exploration, after saving.
    out: a new folder for the run. A checkpoint is written every save_seconds, and every save_episodes if given. After a
        crash, load(out).resume() goes on from the last one.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> run.episodes, run.plan(hf.goal(problem, 3)).policy.shape
    (50, (8, 4))
    """
    check_keywords(options, explorer)
    check_bool(progress, "progress")
    _check_callback(callback)
    declarations = {"horizon": horizon, "start": start, "terminal": terminal, "num_states": num_states}
    learned_problem = _problem_to_learn(problem, known, encode, declarations)
    if known is not None and encode is None:
        learned_problem = with_cells(learned_problem, problem)
    is_simulated = learned_problem is problem
    learned_problem = learned_problem if rewards is None else learned_problem.with_rewards(rewards)
    request = check_stop_request(episodes, until_eps, delta, budget, misspecification)
    schedule = _schedule(save_episodes, save_seconds)
    check_seed(seed)
    budget = request.budget or request.episodes or MAX_EPISODES
    defaults = {"budget": budget, "delta": request.delta, "reward": reward}
    instance = build_explorer(
        learned_problem.model.explorer if explorer is None else explorer, learned_problem, options, defaults
    )
    if request.until_eps is None:
        check_reward_matters(instance, reward)
    end = stop_rule(learned_problem, 0, request, reward)
    _suggest_reachable_part(learned_problem)
    first = to_numpy(_init_progress(instance, learned_problem.model, request.budget))
    spec = ExplorerSpec.of(instance)
    run = Run(learned_problem, spec, int(seed), first.evidence, first.state, {}, is_simulated, end)
    recorder = None if is_simulated else RewardRecorder(run)
    if recorder is None:
        engine = simulation_engine(run, instance)
    else:
        engine = env_engine(run, instance, problem, encode, recorder)
    if out is not None:
        run = create(run, out)
    return run_loop(run, end, engine, schedule, progress, callback, recorder)


@x64
def advance(
    run: Run,
    *,
    episodes: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    misspecification: Any = 0.0,
    reward: Any = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    env: Any = None,
    encode: Callable[[Any], int] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Run:
    """Go on for more episodes, or until a certified bound; with neither, to the end of the last stop rule.

    The given run does not change; its folder, if it has one, goes on with the new one. Results do not depend on the
    times of checkpoints or the sizes of blocks.
    """
    check_bool(progress, "progress")
    _check_callback(callback)
    explorer, schedule = run.explorer, _schedule(save_episodes, save_seconds)
    if explorer is None:
        raise OptionError("these episodes were logged, not explored; there is no explorer to go on with")
    if env is None and not run.is_simulated:
        raise OptionError("this run explored a real environment; pass it again: env=...")
    if reward is not None and until_eps is None:
        raise OptionError("reward= is the reward of until_eps=; give both")
    end = run.until
    if episodes is not None or until_eps is not None or end is None:
        request = check_stop_request(episodes, until_eps, delta, None, misspecification)
        end = stop_rule(run.problem, run.episodes, request, reward)
    run = dataclasses.replace(run, until=end)
    recorder = None if env is None else RewardRecorder(run)
    if recorder is None:
        engine = simulation_engine(run, explorer)
    else:
        engine = env_engine(run, explorer, env, encode, recorder)
    return run_loop(run, end, engine, schedule, progress, callback, recorder)


def check_keywords(options: dict[str, Any], explorer: Any) -> None:
    """An error for keywords of other libraries that the explorer does not have."""
    explorer_options = find_entry(resolve_typed_name(explorer)).options if isinstance(explorer, str) else ()
    for name in options:
        if name in FOREIGN_KEYWORDS and name not in explorer_options:
            raise UnknownNameError(f"explore has no option {name!r}; write {FOREIGN_KEYWORDS[name]}")


def _problem_to_learn(problem: Any, known: Any, encode: Any, declarations: dict[str, Any]) -> Problem:
    """The problem itself, the one that an environment belongs to, or a tabular MDP."""
    if isinstance(problem, str):
        refuse_text(problem, "explore")
    names = [f"{name}=" for name, x in declarations.items() if x is not None]
    if names and (isinstance(problem, Problem) or known is not None):
        verb = "is" if len(names) == 1 else "are"
        raise OptionError(f"{' and '.join(names)} {verb} for an environment without known=")
    if isinstance(problem, Problem):
        if known is not None:
            raise OptionError("known= belongs to a real environment; this problem has its own model class")
        return problem
    if known is None:
        return unknown_table(problem, encode=encode, **declarations)
    if isinstance(known, Model):
        return problem_of_model(known)
    return check_instance(known, Problem, "known", ", such as Mixture.from_kernels returns")


def _suggest_reachable_part(problem: Problem) -> None:
    missing = num_out_of_reach(problem)
    if missing:
        warnings.warn(
            PartWarning(
                f"{missing:,} of {problem.num_states:,} states cannot be reached within {problem.horizon:,} steps: "
                "explore(problem.reachable_part()), or --reachable at the shell, is faster and gives the same plans"
            ),
            stacklevel=4,
        )


def _check_callback(callback: Any) -> None:
    """A callable of two arguments; signatures of C functions are not always known."""
    if callback is None:
        return
    try:
        if callable(callback):
            inspect.signature(callback).bind(1, {})
            return
    except TypeError:
        pass
    except ValueError:
        return
    require(False, "callback", callback, "a function of (episodes, numbers)")


def _schedule(save_episodes: Any, save_seconds: Any) -> CheckpointSchedule:
    seconds = check_number(save_seconds, "save_seconds", 0, math.inf, "a number of at least 0")
    episodes = MAX_EPISODES if save_episodes is None else check_count(save_episodes, "save_episodes")
    return CheckpointSchedule(episodes, seconds)


def build_explorer(
    explorer: str | Explorer, problem: Problem, options: dict[str, Any], defaults: dict[str, Any]
) -> Explorer:
    """An explorer by name, with those of `defaults` (budget, delta, reward) that are its options; or a built one."""
    if isinstance(explorer, type) and issubclass(explorer, Explorer):
        raise OptionError(
            f"explorer is the class {explorer.__name__}; give an object with its options: {explorer.__name__}()"
        )
    if isinstance(explorer, Explorer):
        if options:
            raise OptionError(
                f"options {sorted(options)} belong to a named explorer; this one is already built"
            )
        instance: Any = explorer
        if getattr(instance, "budget", 0) is None:
            instance = dataclasses.replace(instance, budget=defaults["budget"])
    else:
        explorer = resolve_typed_name(explorer)
        fields = find_entry(explorer).options
        if "reward" in fields:
            if defaults["reward"] is None:
                raise OptionError(f"explorer {explorer!r} needs a reward: it explores for one, not for all")
            defaults = defaults | {"reward": rewards.resolve(problem, defaults["reward"]).table.copy()}
        instance = make_explorer(
            explorer, **options, **{key: x for key, x in defaults.items() if key in fields}
        )
    if not isinstance(problem.model, instance.learns):
        raise OptionError(
            f"explorer {describe(instance)[0]!r} learns a {instance.learns.__name__}, but this problem has a "
            f"{type(problem.model).__name__}; choose another explorer: "
            f"{_explorers_for(problem.model)}{_advice(instance)}"
        )
    result: Explorer = instance
    return result


def _explorers_for(model: Model) -> str:
    return ", ".join(
        name
        for name, entry in EXPLORERS.items()
        if isinstance(model, entry.explorer_type.learns) and not entry.is_reconstruction
    )


def _advice(explorer: Explorer) -> str:
    return ", or explore problem.as_tabular()" if issubclass(TabularModel, explorer.learns) else ""


def check_reward_matters(explorer: Explorer, reward: Any) -> None:
    """An error for a reward that the explorer would ignore."""
    if reward is not None and not hasattr(explorer, "reward"):
        raise OptionError(
            "this explorer ignores rewards; plan for a reward afterwards, or explore until a bound is certified for it "
            "(until_eps)"
        )


@x64
def explorer_plan(run: Any, table: Float[np.ndarray, "H S A"]) -> Solution:
    """The plan of a run's explorer; for logged episodes, in the estimate of the evidence."""
    if isinstance(run.explorer, PythonExplorer):
        model, progress = read_only((run.problem.model, run.progress))
        result = run.explorer.plan(model, own_state(progress.state), progress.evidence, np.asarray(table))
        return Solution(*(np.asarray(x) for x in result))
    arguments = to_device((run.problem.model, run.progress, np.asarray(table)))
    return Solution(*(np.asarray(x) for x in _plan(run.explorer, *arguments)))


@jit
def _plan(
    explorer: Explorer | None, model: Model, progress: Progress, reward: Float[Array, "H S A"]
) -> ExplorerPlan:
    if explorer is None:
        return ExplorerPlan(*optimal_jax(model.estimate(progress.evidence), reward))
    return explorer.plan(model, progress.state, progress.evidence, reward)


@x64
def explorer_estimate(run: Any) -> Float[np.ndarray, " d"]:
    """theta_hat of a run's explorer, or that of the evidence."""
    if not isinstance(run.explorer, PlugIn):
        return np.asarray(run.evidence.theta)
    return np.asarray(_estimate(run.explorer, *to_device((run.problem.model, run.progress))))


@jit
def _estimate(explorer: Any, model: Any, progress: Progress) -> Float[Array, " d"]:
    theta: Array = explorer.theta_hat(model, progress.state, progress.evidence)
    return theta
